import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed.errors import BiomedError
from spacy_biomed.pipeline.taught import get_taught, set_taught, taught_classes

PROBABILITIES = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], dtype="float32")


def test_probabilities_come_back_from_a_corpus_in_the_students_order():
    doc = spacy.blank("en").make_doc("lung cancer")
    set_taught(doc, "biomed_ner", ["O", "B-D", "I-D"], PROBABILITIES)
    data = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (again,) = DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab)
    taught = get_taught(again, "biomed_ner", ["I-D", "O", "B-D"])
    np.testing.assert_array_equal(taught, PROBABILITIES[:, [2, 0, 1]])
    assert taught_classes(again, "biomed_ner") == ["O", "B-D", "I-D"]


def test_each_component_has_its_own():
    doc = spacy.blank("en").make_doc("lung cancer")
    set_taught(doc, "one", ["O"], np.ones((2, 1), dtype="float32"))
    assert get_taught(doc, "another", ["O"]) is None
    assert taught_classes(doc, "another") == []


def test_a_teacher_of_other_classes_is_refused():
    doc = spacy.blank("en").make_doc("lung cancer")
    set_taught(doc, "biomed_ner", ["O", "B-D", "I-D"], PROBABILITIES)
    with pytest.raises(BiomedError, match="O, B-D, I-D, and the student O, U-D"):
        get_taught(doc, "biomed_ner", ["O", "U-D"])
