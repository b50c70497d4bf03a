"""Pairs of texts in pipelines: classes that depend on both texts, and saved settings."""

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.util import load_config

import spacy_biomed
from spacy_biomed.annotations.pairs import PAIR_KEY
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.pipeline.pipeline_loading import load_pipeline
from spacy_biomed.training.optimizer import AdamW_v1

TEXTCAT, NER, ENCODER = "biomed_textcat", "biomed_ner", "biomed_transformer"
# The class depends on both texts.
SAME = [("Aspirin", "Aspirin"), ("breast cancer", "breast cancer")]
OTHER = [("Aspirin", "breast cancer"), ("breast cancer", "Aspirin")]
# The class depends on the order of the texts.
ORDERED = {("Aspirin", "BRCA1"): 1.0, ("BRCA1", "Aspirin"): 0.0}


def make_example(nlp, texts, cats):
    """An example like from a corpus: the pair is on the reference, the pipeline gets the text."""
    reference = spacy_biomed.pair(nlp, *texts)
    reference.cats = cats
    return Example(nlp.make_doc(reference.text), reference)


def toy(nlp):
    documents = {**dict.fromkeys(SAME, 1.0), **dict.fromkeys(OTHER, 0.0), **ORDERED}
    return [
        make_example(nlp, texts, {"yes": value, "no": 1.0 - value})
        for texts, value in documents.items()
    ]


@pytest.fixture(scope="module")
def trained(tiny_bert):
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    model = {"name": str(tiny_bert), "precision": "fp32", "pair_overflow": "window"}
    nlp.add_pipe(ENCODER, config={"model": model})
    nlp.add_pipe(TEXTCAT, config={"exclusive": True})
    examples = toy(nlp)
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(40):
        nlp.update(examples, sgd=optimizer)
    return nlp


@pytest.fixture(scope="module")
def compressed(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("compressed") / "pipeline"
    write_compressed(trained, path, "fp32", False)
    return path


def test_a_class_that_needs_both_texts_is_learned(trained):
    assert trained.evaluate(toy(trained))["cats_acc"] == 1.0


def test_predicted_documents_have_the_pair_and_others_have_none(trained):
    pair, single = trained.pipe([toy(trained)[2].reference.text, "Aspirin\n\nbreast cancer"])
    assert [span.text for span in pair.spans[PAIR_KEY]] == ["Aspirin", "breast cancer"]
    assert PAIR_KEY not in single.spans
    assert set(single.cats) == set(pair.cats) == {"yes", "no"}


def test_a_marked_pair_has_the_classes_of_its_text(trained):
    doc = trained(spacy_biomed.pair(trained, "Aspirin", "breast cancer"))
    assert doc.cats == trained("Aspirin\x1ebreast cancer").cats


@pytest.mark.parametrize("from_bytes", [True, False])
def test_a_trained_pipeline_survives_being_saved(trained, tmp_path, from_bytes):
    if from_bytes:
        again = spacy.blank("en").from_config(trained.config).from_bytes(trained.to_bytes())
    else:
        trained.to_disk(tmp_path)
        again = spacy.load(tmp_path)
    for example in toy(trained):
        text = example.reference.text
        assert again(text).cats == pytest.approx(trained(text).cats, abs=1e-5)


def test_a_compressed_pipeline_reads_pairs_as_before(trained, compressed):
    again = spacy.load(compressed)
    texts = [*(example.reference.text for example in toy(trained)), "Aspirin", "", "\x1e", "a\x1e"]
    for doc, expected in zip(again.pipe(texts), trained.pipe(texts), strict=True):
        assert doc.cats == pytest.approx(expected.cats, abs=1e-4)
        assert (PAIR_KEY in doc.spans) == ("\x1e" in doc.text)


def test_compression_keeps_what_becomes_of_long_pairs(trained, compressed):
    assert trained.config["components"][ENCODER]["model"]["pair_overflow"] == "window"
    model = spacy.load(compressed).get_pipe(ENCODER).model
    assert model.attrs["pair_overflow"] == "window"


def test_a_pipeline_from_before_pairs_can_be_loaded_and_compressed(trained, tmp_path):
    trained.to_disk(tmp_path / "earlier")
    config = load_config(tmp_path / "earlier" / "config.cfg", interpolate=False)
    del config["components"][ENCODER]["model"]["pair_overflow"]
    config.to_disk(tmp_path / "earlier" / "config.cfg")
    earlier = load_pipeline(tmp_path / "earlier")
    write_compressed(earlier, tmp_path / "compressed", "fp32", False)
    for nlp in (earlier, spacy.load(tmp_path / "compressed")):
        assert nlp.get_pipe(ENCODER).model.attrs["pair_overflow"] == "truncate"


def test_an_unknown_way_with_long_pairs_is_refused(trained, tmp_path):
    config = trained.config.copy()
    config["components"][ENCODER]["model"]["pair_overflow"] = "drop"
    with pytest.raises(ValueError, match="pair_overflow"):
        spacy.blank("en").from_config(config)


def test_processes_pass_pairs_on(trained, compressed):
    again = spacy.load(compressed)
    texts = [example.reference.text for example in toy(trained)]
    docs = list(again.pipe(texts, n_process=2, batch_size=3))
    assert all(len(doc.spans[PAIR_KEY]) == 2 for doc in docs)
    for doc, text in zip(docs, texts, strict=True):
        assert doc.cats == pytest.approx(again(text).cats, abs=1e-4)


def test_pairs_without_classes_leave_the_head_as_it_is(make_pipeline, weights):
    nlp = make_pipeline({TEXTCAT: {"exclusive": True}})
    examples = toy(nlp)
    nlp.initialize(lambda: examples)
    sgd = AdamW_v1(1e-2, L2=0.1)
    nlp.update(examples, sgd=sgd)
    before = weights(nlp, TEXTCAT)
    absent = [make_example(nlp, texts, {}) for texts in SAME]
    assert nlp.update(absent, sgd=sgd, losses={})[TEXTCAT] == 0.0
    np.testing.assert_array_equal(weights(nlp, TEXTCAT), before)


def test_pairs_survive_a_corpus(trained, tmp_path):
    references = [example.reference for example in toy(trained)]
    DocBin(docs=references).to_disk(tmp_path / "dev.spacy")
    read = DocBin().from_disk(tmp_path / "dev.spacy").get_docs(trained.vocab)
    examples = [Example(trained.make_doc(doc.text), doc) for doc in read]
    assert trained.evaluate(examples)["cats_acc"] == 1.0
