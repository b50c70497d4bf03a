"""The base class of heads on an encoder."""

import shutil
import warnings

import numpy as np
import pytest
import spacy
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import fix_random_seed, load_model_from_config
from thinc.api import Config

from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.training.optimizer import AdamW_v1


@pytest.mark.parametrize("factory", ["biomed_ner", "biomed_textcat", "biomed_relations"])
def test_a_head_without_an_encoder_before_it_is_not_initialised(factory):
    nlp = spacy.blank("en")
    nlp.add_pipe(factory).add_label("A")
    with pytest.raises(BiomedError, match="no encoder comes before the head"):
        nlp.initialize()


STOCK_LISTENER = {
    "@architectures": "spacy_biomed.TokenClassifier.v1",
    "tok2vec": {"@architectures": "spacy.Tok2VecListener.v1", "width": 96},
}


def test_what_is_not_ours_is_sent_zeros_for_a_batch_without_annotation(weights):
    """A stock layer with several listening heads starts backpropagation with the last head."""
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    for name in ("first", "last"):
        nlp.add_pipe("biomed_ner", name, config={"spans_key": name, "model": STOCK_LISTENER})
    examples = {}
    for name in ("first", "last"):
        reference = nlp.make_doc("Aspirin prevents stroke")
        reference.spans[name] = [Span(reference, 0, 1, label="DRUG")]
        examples[name] = Example(nlp.make_doc(reference.text), reference)
    fix_random_seed(0)
    nlp.initialize(lambda: examples.values())
    optimizer = AdamW_v1(0.01)
    nlp.update(list(examples.values()), sgd=optimizer)  # heads start with zeros
    before = {name: weights(nlp, name) for name in nlp.pipe_names}
    nlp.update([examples["first"]], sgd=optimizer)
    changed = [name for name in before if not np.array_equal(weights(nlp, name), before[name])]
    assert changed == ["tok2vec", "first"]


def test_batches_that_fail_go_to_the_error_handler_and_the_others_on(monkeypatch):
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    head = nlp.add_pipe("biomed_ner", config={"model": STOCK_LISTENER})
    handled = []
    head.set_error_handler(lambda name, pipe, docs, error: handled.append((name, docs, error)))
    monkeypatch.setattr(head, "predict", lambda docs: [bool(doc.text) or 1 / 0 for doc in docs])
    monkeypatch.setattr(head, "set_annotations", lambda docs, found: None)
    docs = [nlp.make_doc(text) for text in ("a", "b", "", "c", "d")]
    left = list(head.pipe(iter(docs), batch_size=2))
    assert [doc.text for doc in left] == ["a", "b", "d"]
    [(name, failed, error)] = handled
    assert name == "biomed_ner" and failed == docs[2:4] and isinstance(error, ZeroDivisionError)


@pytest.mark.parametrize(
    "factory",
    ["ner", "textcat", "similarity", "relations", "document_relations", "assertion", "qa"],
)
def test_a_head_without_weights_says_that_it_is_to_be_initialised(tiny_bert, factory):
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_transformer", config={"model": {"name": str(tiny_bert)}})
    nlp.initialize()
    nlp.add_pipe(f"biomed_{factory}", "mine")
    for annotate in (nlp, lambda text: list(nlp.pipe([text]))):
        with pytest.raises(ValueError, match=r"E109.*'mine'"):
            annotate("Aspirin prevents stroke")


# Heads that are put on an encoder of another pipeline


@pytest.fixture(scope="module")
def saved(tiny_bert, tiny_distilbert, tmp_path_factory):
    """The folders of pipelines with a head: two of one width, and the first compressed."""
    folder = tmp_path_factory.mktemp("saved")
    for name, encoder in (("own", tiny_bert), ("other", tiny_distilbert)):
        nlp = spacy.blank("en")
        nlp.add_pipe("biomed_transformer", config={"model": {"name": str(encoder)}})
        head = nlp.add_pipe("biomed_textcat")
        head.add_label("A")
        nlp.initialize()
        nlp.to_disk(folder / name)
    own = spacy.load(folder / "own")
    write_compressed(own, folder / "compressed", "int8", True)
    shutil.copytree(folder / "own", folder / "copy")
    return folder


def put_together(saved, encoder, way):
    if way == "add_pipe":
        nlp = spacy.blank("en")
        nlp.add_pipe("biomed_transformer", source=spacy.load(saved / encoder))
        nlp.add_pipe("biomed_textcat", source=spacy.load(saved / "own"))
        return nlp
    config = Config(spacy.blank("en").config)
    config["nlp"]["pipeline"] = ["biomed_transformer", "biomed_textcat"]
    config["components"] = {
        "biomed_transformer": {"source": str(saved / encoder)},
        "biomed_textcat": {"source": str(saved / "own")},
    }
    return load_model_from_config(config)


@pytest.mark.parametrize("way", ["add_pipe", "config"])
def test_a_head_on_an_encoder_that_it_was_not_trained_with_says_so_once(saved, way, tmp_path):
    nlp = put_together(saved, "other", way)
    with pytest.warns(UserWarning, match="'biomed_textcat' comes from another pipeline"):
        nlp("Aspirin prevents stroke")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("Aspirin prevents stroke")
    with pytest.warns(UserWarning, match="'biomed_textcat' comes from another pipeline"):
        put_together(saved, "other", way).to_disk(tmp_path / "saved")


def test_a_head_on_an_encoder_of_another_width_is_refused(saved):
    nlp = put_together(saved, "own", "add_pipe")
    listener = next(nlp.get_pipe("biomed_textcat").model.walk(order="dfs_post"))
    listener.set_dim("nO", 8, force=True)
    reference = nlp.make_doc("Aspirin prevents stroke")
    reference.cats = {"A": 1.0}
    example = Example(nlp.make_doc(reference.text), reference)
    for use in (lambda: nlp(reference.text), lambda: nlp.update([example])):
        with pytest.raises(BiomedError, match="of 8 numbers, and the encoder here gives 16"):
            use()


@pytest.mark.parametrize("way", ["add_pipe", "config"])
@pytest.mark.parametrize("encoder", ["own", "copy", "compressed"])
def test_a_head_on_the_same_encoder_says_nothing(saved, encoder, way, tmp_path):
    nlp = put_together(saved, encoder, way)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("Aspirin prevents stroke")
        nlp.to_disk(tmp_path / "saved")


def test_a_head_that_has_learned_on_its_new_encoder_says_nothing(saved):
    nlp = put_together(saved, "other", "add_pipe")
    reference = nlp.make_doc("Aspirin prevents stroke")
    reference.cats = {"A": 1.0}
    nlp.update([Example(nlp.make_doc(reference.text), reference)], sgd=AdamW_v1(1e-2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("Aspirin prevents stroke")


def test_a_head_behind_its_own_encoder_and_another_says_nothing(saved):
    nlp, other = spacy.load(saved / "other"), spacy.load(saved / "own")
    nlp.add_pipe("biomed_transformer", "second", source=other)
    nlp.add_pipe("biomed_textcat", "theirs", source=other)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nlp("Aspirin prevents stroke")


def test_a_head_that_was_saved_behind_two_encoders_says_nothing(saved, tmp_path):
    nlp, other = spacy.load(saved / "other"), spacy.load(saved / "own")
    nlp.add_pipe("biomed_transformer", "second", source=other)
    nlp.add_pipe("biomed_textcat", "theirs", source=other)
    nlp.to_disk(tmp_path / "both")
    loaded = spacy.load(tmp_path / "both")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded("Aspirin prevents stroke")
