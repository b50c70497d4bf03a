"""The base class of heads on an encoder."""

from itertools import count

import numpy as np
import pytest
import spacy
from spacy.tokens import Span
from spacy.training import Example
from spacy.util import fix_random_seed

from spacy_biomed.errors import BiomedError
from spacy_biomed.pipeline.encoder_head import validate_source
from spacy_biomed.training.optimizer import AdamW_v1


@pytest.fixture(scope="module")
def example():
    nlp = spacy.blank("en")
    return Example(nlp.make_doc("Aspirin"), nlp.make_doc("Aspirin"))


def test_a_source_of_examples_is_not_read_to_its_end(example):
    read = []
    validate_source(lambda: (read.append(i) or example for i in count()), "Head.initialize")
    assert 0 < len(read) < 100


@pytest.mark.parametrize("source", ["list", "documents"])
def test_what_gives_no_examples_is_refused_as_by_spacy(example, source):
    given = {"list": [example], "documents": lambda: [example.reference]}[source]
    with pytest.raises(TypeError, match=r"Head\.initialize"):
        validate_source(given, "Head.initialize")


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
