"""What heads on an encoder share."""

from itertools import count

import pytest
import spacy
from spacy.training import Example

from spacy_biomed.pipeline.encoder_head import validate_source


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
