"""What is particular to ModernBERT: local attention, its tokenizers, training and export."""

import json
import shutil

import numpy as np
import pytest
import spacy
import torch
from spacy.training import Example
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from spacy_biomed.encoders.loading import load_pretrained, load_tokenizer, read_config, save_encoder
from spacy_biomed.encoders.pickled import read_pickled
from spacy_biomed.packaging.compression import compress_pipeline
from spacy_biomed.training.optimizer import AdamW_v1

LONG = "Aspirin reduced the risk of colorectal cancer in patients with diabetes. " * 4
GOLD = [
    ("Aspirin reduced cancer", {"entities": [(16, 22, "D")]}),
    ("No diabetes  was found", {"entities": [(3, 11, "D")]}),
    (LONG, {"entities": [(39, 45, "D")]}),
]


@pytest.fixture(scope="module", params=["tiny_modernbert", "tiny_mmbert"])
def encoder(request):
    return request.getfixturevalue(request.param)


def test_vectors_of_a_long_text_are_those_of_transformers(encoder, make_model, nlp):
    inputs = AutoTokenizer.from_pretrained(encoder)(LONG, return_tensors="pt")
    original = AutoModel.from_pretrained(encoder).eval()
    assert inputs["input_ids"].shape[1] > 2 * original.config.local_attention
    with torch.no_grad():
        expected = original(**inputs).last_hidden_state[0].numpy()
    batch = make_model(encoder).predict([nlp("náuseas"), nlp(LONG), nlp("Aspirin reduced it.")])
    np.testing.assert_allclose(batch.split()[1].hidden, expected, atol=1e-5)


def test_pieces_lead_back_to_the_characters_of_each_token(encoder, make_model, nlp):
    doc = nlp.make_doc("Aspirin; 500 mg\nnáuseas  y 39 °C 😀.")
    [encoding] = make_model(encoder).predict([doc]).split()
    pieces = load_tokenizer(str(encoder))([doc.text])
    borders = np.concatenate([[0], np.cumsum(encoding.piece_counts)])
    for token in doc:
        rows = encoding.indices[borders[token.i] : borders[token.i + 1]] - 1  # without [CLS]
        covered = {i for row in rows for i in range(pieces.starts[row], pieces.ends[row])}
        assert covered >= set(range(token.idx, token.idx + len(token)))
        assert " " not in doc.text[min(covered) : max(covered) + 1].strip()


def test_each_text_has_a_line_of_its_own_in_training(encoder, make_model, nlp, monkeypatch):
    model = make_model(encoder)
    seen, begin_update = [], model.shims[0].begin_update
    monkeypatch.setattr(
        model.shims[0],
        "begin_update",
        lambda batches: seen.extend(batches) or begin_update(batches),
    )
    model.begin_update([nlp("Aspirin"), nlp(LONG), nlp("cancer")])
    assert [batch.shared for batch in seen] == [None] * len(seen)


def test_layers_are_never_compiled(encoder, make_model, tmp_path):
    path = shutil.copytree(encoder, tmp_path / "compiled")
    config = json.loads((path / "config.json").read_text(encoding="utf8"))
    config["reference_compile"] = True
    (path / "config.json").write_text(json.dumps(config), encoding="utf8")
    assert make_model(path).shims[0]._model.config.reference_compile is False


def test_a_tokenizer_of_gemmas_class_keeps_its_special_tokens(tiny_mmbert, tmp_path):
    path = shutil.copytree(tiny_mmbert, tmp_path / "gemma")
    settings = json.loads((path / "tokenizer_config.json").read_text(encoding="utf8"))
    settings |= {"tokenizer_class": "GemmaTokenizer", "bos_token": "<bos>", "eos_token": "<eos>"}
    settings |= {"add_bos_token": True, "add_eos_token": True}
    (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf8")
    tokenizer, model = load_pretrained(str(path))
    assert [tokenizer.prefix, tokenizer.suffix] == [[2], [1]]
    save_encoder(tmp_path / "saved", tokenizer, model)
    text = "Aspirin y náuseas 😀"
    expected = AutoTokenizer.from_pretrained(path)(text)["input_ids"]
    assert AutoTokenizer.from_pretrained(tmp_path / "saved")(text)["input_ids"] == expected
    assert [2, *tokenizer([text]).ids.tolist(), 1] == expected


def test_a_checkpoint_with_a_language_model_head_is_read_and_converted(encoder, tmp_path):
    path = shutil.copytree(encoder, tmp_path / "head")
    with_head = AutoModelForMaskedLM.from_config(read_config(path))
    with_head.save_pretrained(path)
    _, model = load_pretrained(str(path))
    torch.testing.assert_close(model.state_dict(), with_head.base_model.state_dict())

    torch.save(with_head.state_dict(), path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    _, converted = read_pickled(str(path))
    torch.testing.assert_close(converted.state_dict(), with_head.state_dict())


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_pipeline_learns_and_its_exported_encoder_gives_the_same(encoder, tmp_path, precision):
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    model = {"name": str(encoder), "precision": "fp32", "word_piece_dropout": 0.1}
    nlp.add_pipe("biomed_transformer", config={"model": model})
    nlp.add_pipe("biomed_ner")
    examples = [Example.from_dict(nlp.make_doc(text), gold) for text, gold in GOLD]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(3e-3)
    losses = [nlp.update(examples, sgd=optimizer)["biomed_ner"] for _ in range(25)]
    assert losses[-1] < 0.5 * losses[0]

    nlp.to_disk(tmp_path / "trained")
    target = tmp_path / "compressed"
    report = compress_pipeline(str(tmp_path / "trained"), target, precision=precision)
    assert report.cosine > 0.99
    docs = [nlp.make_doc(text) for text, _ in GOLD]
    trained = nlp.get_pipe("biomed_transformer").model.predict(docs).hidden
    exported = spacy.load(target).get_pipe("biomed_transformer").model.predict(docs).hidden
    assert np.abs(trained - exported).max() < (1e-4 if precision == "fp32" else 0.5)
