"""Encoders made from texts alone."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.initialization import (
    create_config,
    create_encoder,
    create_language_model,
    load_language_model,
)

TEXTS = ["Aspirin reduced the risk of colorectal cancer.", "Náuseas y vómitos."] * 4


def create(output: Path, texts=TEXTS, **settings) -> int:
    settings = {"vocabulary": 90, "layers": 2, "width": 8, "heads": 2, "seed": 0, **settings}
    return create_encoder(texts, output, **{"lowercase": False, **settings})


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    path = tmp_path_factory.mktemp("encoders") / "mine"
    create(path)
    return path


def count_parameters(vocabulary: int, layers: int, width: int) -> int:
    """Of a BERT encoder without pooling layer, counted by hand."""
    normalisation = 2 * width
    embeddings = (vocabulary + 512 + 2) * width + normalisation
    attention = 4 * (width * width + width) + normalisation
    feed_forward = (width * 4 * width + 4 * width) + (4 * width * width + width) + normalisation
    return embeddings + layers * (attention + feed_forward)


@pytest.mark.parametrize(("layers", "width"), [(1, 8), (3, 12)])
def test_the_number_of_parameters_is_that_of_its_shape(tmp_path, layers, width):
    parameters = create(tmp_path / "mine", layers=layers, width=width)
    assert parameters == count_parameters(90, layers, width)
    weights = load_file(tmp_path / "mine" / "model.safetensors")
    assert sum(weight.numel() for weight in weights.values()) == parameters


def test_transformers_loads_model_and_tokenizer(encoder):
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder)
    model = AutoModel.from_pretrained(encoder, add_pooling_layer=False)
    assert (len(tokenizer), tokenizer.pad_token, tokenizer.mask_token) == (90, "[PAD]", "[MASK]")
    inputs = tokenizer(["Aspirin", "cancer risk"], padding=True, return_tensors="pt")
    assert inputs["input_ids"][0, 0] == tokenizer.cls_token_id
    inputs.pop("token_type_ids", None)
    assert model(**inputs).last_hidden_state.shape[-1] == 8
    assert model.config.num_hidden_layers == 2
    assert model.config.num_attention_heads == 2
    assert model.config.intermediate_size == 32


def test_the_directory_has_no_pickle(encoder):
    assert sorted(path.name for path in encoder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_the_seed_alone_decides_the_weights(encoder, tmp_path):
    torch.manual_seed(123)
    create(tmp_path / "same")
    create(tmp_path / "other", seed=1)
    first, same, other = (
        load_file(path / "model.safetensors")
        for path in (encoder, tmp_path / "same", tmp_path / "other")
    )
    assert all(torch.equal(first[name], same[name]) for name in first)
    name = "embeddings.word_embeddings.weight"
    assert not torch.equal(first[name], other[name])


def test_the_random_numbers_of_others_are_left_alone(tmp_path):
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    create(tmp_path / "mine")
    assert torch.rand(1) == expected


def test_weights_have_berts_initial_spread(tmp_path):
    create(tmp_path / "mine", width=64)
    weights = load_file(tmp_path / "mine" / "model.safetensors")
    spread = weights["embeddings.position_embeddings.weight"].std()
    assert spread == pytest.approx(0.02, rel=0.05)


def test_an_encoder_that_is_there_is_replaced(tmp_path):
    create(tmp_path / "mine")
    (tmp_path / "mine" / "old.txt").write_text("of before")
    create(tmp_path / "mine", layers=1)
    config = json.loads((tmp_path / "mine" / "config.json").read_text())
    assert config["num_hidden_layers"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert not (tmp_path / "mine" / "old.txt").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "width 8 is not a multiple of 3 heads"),
        ({"vocabulary": 9}, "a vocabulary of 9 cannot hold"),
        ({"texts": []}, "no words to learn"),
    ],
)
def test_bad_input_leaves_what_was_there(tmp_path, settings, message):
    create(tmp_path / "mine")
    before = (tmp_path / "mine" / "model.safetensors").read_bytes()
    with pytest.raises(BiomedError, match=message):
        create(tmp_path / "mine", **settings)
    assert (tmp_path / "mine" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_directory_with_other_things_is_not_replaced(tmp_path):
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years of it")
    with pytest.raises(BiomedError, match="holds other things"):
        create(tmp_path / "work")
    assert (tmp_path / "work" / "thesis.txt").read_text() == "years of it"


def test_a_file_is_not_replaced(tmp_path):
    (tmp_path / "mine").write_text("a file")
    with pytest.raises(BiomedError, match="mine: this is a file; name a directory"):
        create(tmp_path / "mine")


def test_a_place_that_cannot_be_written_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("a file")
    with pytest.raises(BiomedError, match="mine: cannot be written"):
        create(tmp_path / "file" / "mine")


def test_the_seed_alone_decides_the_weights_of_a_language_model(tiny_roberta):
    tokenizer = load_tokenizer(str(tiny_roberta))
    shape = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 12, "positions": 20}
    config = create_config(tokenizer, "roberta", **shape)
    torch.manual_seed(99)
    first, same, other = (create_language_model(config, seed=seed) for seed in (1, 1, 2))
    weights = [model.state_dict()["lm_head.dense.weight"] for model in (first, same, other)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(("kind", "name"), [("bert", "tiny_bert"), ("roberta", "tiny_roberta")])
def test_a_shape_has_the_positions_that_were_asked_for(request, kind, name):
    tokenizer = load_tokenizer(str(request.getfixturevalue(name)))
    shape = {"layers": 1, "width": 8, "heads": 2, "feed_forward": 12}
    config = create_config(tokenizer, kind, **shape, positions=20, dropout=0.0)
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
