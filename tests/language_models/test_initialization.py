"""Language models before training."""

import json

import pytest
import torch

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.initialization import (
    create_config,
    create_language_model,
    load_language_model,
)
from spacy_biomed.language_models.recipe import FreshEncoder


def count_parameters(vocabulary: int, layers: int, width: int, feed_forward: int) -> int:
    """The parameters of a BERT language model with 20 positions, counted by hand."""
    normalisation = 2 * width
    square = width * width + width
    embeddings = (vocabulary + 20 + 2) * width + normalisation
    attention = 4 * square + normalisation
    inside = 2 * width * feed_forward + feed_forward + width + normalisation
    head = square + normalisation + vocabulary  # its decoder has the embeddings and a bias
    return embeddings + layers * (attention + inside) + head


@pytest.mark.parametrize(("layers", "width", "feed_forward"), [(1, 8, 32), (3, 12, 10)])
def test_the_number_of_parameters_is_that_of_its_shape(tiny_bert, layers, width, feed_forward):
    tokenizer = load_tokenizer(str(tiny_bert))
    shape = {"layers": layers, "width": width, "heads": 2, "feed_forward": feed_forward}
    config = create_config(tokenizer, FreshEncoder(type="bert", **shape, positions=20))
    vocabulary = tokenizer.tokenizer.get_vocab_size()
    expected = count_parameters(vocabulary, layers, width, feed_forward)
    assert create_language_model(config, seed=0).num_parameters() == expected


def test_weights_have_berts_initial_spread_and_the_random_numbers_of_others_are_left_alone(
    tiny_bert,
):
    shape = {"layers": 1, "width": 64, "heads": 2, "feed_forward": 12}
    config = create_config(load_tokenizer(str(tiny_bert)), FreshEncoder(type="bert", **shape))
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    model = create_language_model(config, seed=0)
    assert torch.rand(1) == expected
    spread = model.bert.embeddings.position_embeddings.weight.std().item()
    assert spread == pytest.approx(0.02, rel=0.05)


def test_the_seed_alone_decides_the_weights_of_a_language_model(tiny_roberta):
    tokenizer = load_tokenizer(str(tiny_roberta))
    shape = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 12, "positions": 20}
    config = create_config(tokenizer, FreshEncoder(type="roberta", **shape))
    torch.manual_seed(99)
    first, same, other = (create_language_model(config, seed=seed) for seed in (1, 1, 2))
    weights = [model.state_dict()["lm_head.dense.weight"] for model in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(("kind", "name"), [("bert", "tiny_bert"), ("roberta", "tiny_roberta")])
def test_a_shape_has_the_positions_that_were_asked_for(request, kind, name):
    tokenizer = load_tokenizer(str(request.getfixturevalue(name)))
    shape = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 12}
    config = create_config(tokenizer, FreshEncoder(type=kind, **shape, positions=20, dropout=0.0))
    model = create_language_model(config, seed=0).eval()
    ids = torch.full((1, 20), tokenizer.mask)
    assert model(ids).logits.shape == (1, 20, tokenizer.tokenizer.get_vocab_size())
    with pytest.raises((IndexError, RuntimeError)):
        model(torch.full((1, 21), tokenizer.mask))


def test_a_language_model_is_loaded_with_its_head_or_a_new_one(tiny_roberta, tmp_path):
    tokenizer, model, is_new = load_language_model(str(tiny_roberta))
    assert is_new
    others = [load_language_model(str(tiny_roberta), seed=seed)[1] for seed in (0, 1)]
    heads = [one.lm_head.dense.weight for one in (model, *others)]
    assert torch.equal(heads[0], heads[1]) and not torch.equal(heads[0], heads[2])
    model.save_pretrained(tmp_path)
    for file in tiny_roberta.glob("*token*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    _, again, is_new = load_language_model(str(tmp_path))
    assert not is_new
    for name, weight in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], weight), name


def test_an_encoder_that_cannot_predict_pieces_is_refused(tiny_bert, tmp_path):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(tiny_bert, broken)
    text = (broken / "tokenizer.json").read_text(encoding="utf8").replace("[MASK]", "[MUSK]")
    (broken / "tokenizer.json").write_text(text, encoding="utf8")
    settings = json.loads((broken / "tokenizer_config.json").read_text(encoding="utf8"))
    settings["mask_token"] = None
    (broken / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf8")
    with pytest.raises(BiomedError, match="no mask token to train with"):
        load_language_model(str(broken))
