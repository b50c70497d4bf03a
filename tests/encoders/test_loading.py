import shutil

import huggingface_hub.constants
import numpy as np
import pytest
import spacy
import torch
import transformers
from huggingface_hub.utils import are_progress_bars_disabled
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

from spacy_biomed.encoders.encoder_model import max_sequence_length
from spacy_biomed.encoders.loading import (
    load_directory,
    load_pretrained,
    load_tokenizer,
    save_encoder,
    without_warnings,
)
from spacy_biomed.errors import BiomedError

TEXTS = ["Aspirin reduced  the risk.", "", "náuseas\t😀 na\u0301useas", "[MASK] a <mask> b [SEP]"]


@pytest.fixture
def offline(monkeypatch, no_network):
    """Offline mode, with a network that fails the test when it is touched."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    # The libraries read the variable when they are imported.
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub._is_offline_mode", True, raising=False)  # before 5


def refusal(name, revision=None):
    """The one line with which an encoder is refused."""
    with pytest.raises(BiomedError) as error:
        load_pretrained(str(name), revision)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_a_saved_encoder_loads_with_automodel_and_autotokenizer(any_encoder, tmp_path):
    tokenizer, model = load_pretrained(str(any_encoder))
    save_encoder(tmp_path, tokenizer, model)
    original = AutoTokenizer.from_pretrained(any_encoder)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(TEXTS)["input_ids"] == original(TEXTS)["input_ids"]
    assert (again.pad_token_id, again.cls_token_id, again.sep_token_id, again.mask_token_id) == (
        original.pad_token_id,
        original.cls_token_id,
        original.sep_token_id,
        original.mask_token_id,
    )
    assert again.decode(again("a b")["input_ids"]) == original.decode(again("a b")["input_ids"])
    weights = AutoModel.from_pretrained(tmp_path).state_dict()
    for name, value in model.state_dict().items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=0)


def test_the_tokenizer_alone_is_the_one_that_comes_with_the_encoder(any_encoder):
    alone, (tokenizer, _) = load_tokenizer(str(any_encoder)), load_pretrained(str(any_encoder))
    assert alone.to_str() == tokenizer.to_str()
    assert (alone.prefix, alone.suffix, alone.pad) == (
        tokenizer.prefix,
        tokenizer.suffix,
        tokenizer.pad,
    )


def test_the_tokenizer_alone_is_refused_as_the_encoder_is(tmp_path):
    with pytest.raises(BiomedError) as error:
        load_tokenizer(str(tmp_path))
    assert str(error.value) == refusal(tmp_path)


def test_a_saved_tokenizer_truncates_to_what_the_encoder_takes(any_encoder, tmp_path):
    save_encoder(tmp_path, *load_pretrained(str(any_encoder)))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    inputs = tokenizer("a " * 1000, truncation=True, return_tensors="pt")
    assert inputs["input_ids"].shape == (1, 512)
    AutoModel.from_pretrained(tmp_path)(input_ids=inputs["input_ids"])


def test_a_saved_encoder_pads_as_the_original_does(any_encoder, tmp_path):
    tokenizer, model = load_pretrained(str(any_encoder))
    save_encoder(tmp_path, tokenizer, model)
    padded = AutoTokenizer.from_pretrained(tmp_path)(TEXTS, padding=True)["input_ids"]
    assert padded == AutoTokenizer.from_pretrained(any_encoder)(TEXTS, padding=True)["input_ids"]


def test_a_saved_encoder_is_read_as_it_was(any_encoder, tmp_path):
    tokenizer, model = load_pretrained(str(any_encoder))
    save_encoder(tmp_path, tokenizer, model)
    again, same_model = load_directory(tmp_path)
    assert again(TEXTS).ids.tolist() == tokenizer(TEXTS).ids.tolist()
    assert (again.prefix, again.suffix, again.pad) == (
        tokenizer.prefix,
        tokenizer.suffix,
        tokenizer.pad,
    )
    assert {k: v.tolist() for k, v in same_model.state_dict().items()} == {
        k: v.tolist() for k, v in model.state_dict().items()
    }


def test_weights_are_saved_as_safetensors_alone(any_encoder, tmp_path):
    save_encoder(tmp_path, *load_pretrained(str(any_encoder)))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    assert len(load_file(tmp_path / "model.safetensors")) > 10


def test_a_directory_is_found_from_the_home_directory(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(tiny_bert, tmp_path / "bert")
    assert load_pretrained("~/bert")[1].config.hidden_size == 16


def test_a_catalogued_encoder_that_is_not_cached(offline, tmp_path, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    message = refusal("biobert")
    assert "encoder 'biobert' (hub id dmis-lab/biobert" in message
    assert "hf download dmis-lab/biobert" in message


def test_a_hub_id_that_is_not_cached(offline):
    message = refusal("nobody/no-such-encoder", "v2")
    assert "encoder 'nobody/no-such-encoder' at revision v2" in message
    assert "hf download nobody/no-such-encoder --revision v2" in message


def test_an_encoder_that_is_on_no_hub(offline):
    from spacy_biomed.encoders.encoder_catalogue import all_encoders

    entry = next(entry for entry in all_encoders() if entry.hub_id is None)
    message = refusal(entry.name)
    assert f"encoder '{entry.name}' is on no hub" in message
    assert entry.download in message


@pytest.mark.parametrize("name", ["./no-such-encoder", "/no/such/encoder", "encoders/no/such"])
def test_a_path_that_is_not_there(offline, name):
    message = refusal(name)
    assert "no such encoder directory" in message and "no-such" in message or "no/such" in message


def test_a_directory_without_config(offline, tmp_path):
    assert refusal(tmp_path).startswith(f"{tmp_path}: no config.json there")


@pytest.mark.parametrize(
    "file, content",
    [
        ("config.json", "{"),
        ("config.json", '{"model_type": "no-such-model"}'),
        ("model.safetensors", "not weights"),
        ("model.safetensors", None),
        ("tokenizer.json", '{"version": "1.0"}'),
        ("tokenizer.json", None),
    ],
)
def test_a_directory_with_a_broken_file(offline, tiny_bert, tmp_path, file, content):
    path = tmp_path / "broken"
    shutil.copytree(tiny_bert, path)
    (path / file).unlink()
    if content is not None:
        (path / file).write_text(content, encoding="utf8")
    assert refusal(path).startswith(f"{path}: not a readable encoder")


@pytest.mark.parametrize("kind", ["T5EncoderModel", "BartModel", "CanineModel", "CLIPTextModel"])
def test_a_model_that_does_not_read_texts_as_bert_does_is_one_line(tiny_bert, tmp_path, kind):
    kind = getattr(transformers, kind)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_heads": 2, "num_attention_heads": 2}
    sizes |= {"d_model": 16, "d_kv": 8, "encoder_layers": 1, "decoder_layers": 1, "num_layers": 1}
    kind(kind.config_class(**sizes, intermediate_size=32)).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tiny_bert / name, tmp_path)
    message = refusal(tmp_path)
    assert message.startswith(f"{tmp_path}: models of type '{kind.config_class.model_type}'")


def test_a_model_with_fewer_vectors_than_its_tokenizer_has_word_pieces_is_one_line(
    tiny_bert, tmp_path
):
    model = AutoModel.from_pretrained(tiny_bert)
    model.resize_token_embeddings(model.config.vocab_size - 1)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    assert "and its tokenizer has more" in refusal(tmp_path)


def test_an_encoder_with_relative_positions_alone_is_read(tiny_bert, tmp_path):
    config = transformers.XLNetConfig(vocab_size=400, d_model=16, n_layer=1, n_head=2, d_inner=32)
    transformers.XLNetModel(config).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    _, model = load_pretrained(str(tmp_path))
    assert max_sequence_length(model) == 512


def test_half_precision_weights_are_read_as_fp32(tiny_bert, tmp_path):
    AutoModel.from_pretrained(tiny_bert).half().save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    _, model = load_pretrained(str(tmp_path))
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}


def test_a_checkpoint_with_pooler_and_head_gives_the_encoder_alone(tiny_bert, tmp_path, make_model):
    from transformers import BertForPreTraining

    model = BertForPreTraining.from_pretrained(tiny_bert)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    docs = [spacy.blank("en")("Aspirin reduced the risk.")]
    encoder = make_model(tmp_path)
    np.testing.assert_array_equal(
        encoder.predict(docs).hidden, make_model(tiny_bert).predict(docs).hidden
    )
    names = [name for name, _ in encoder.shims[0]._model.named_parameters()]
    assert not [name for name in names if "pooler" in name or "cls" in name]


def test_loading_prints_nothing(tiny_bert, capfd):
    load_pretrained(str(tiny_bert))
    load_directory(tiny_bert)
    assert capfd.readouterr() == ("", "")


def test_downloads_still_show_their_progress(monkeypatch):
    monkeypatch.delenv("HF_HUB_DISABLE_PROGRESS_BARS", raising=False)
    assert logging.is_progress_bar_enabled() and not are_progress_bars_disabled()
    with without_warnings():
        assert not logging.is_progress_bar_enabled()
        assert not are_progress_bars_disabled()
    assert logging.is_progress_bar_enabled() and not are_progress_bars_disabled()
