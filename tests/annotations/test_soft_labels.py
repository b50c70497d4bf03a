import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed.annotations.soft_labels import (
    get_soft_labels,
    merge_tags,
    set_soft_labels,
    soft_label_classes,
)
from spacy_biomed.errors import BiomedError

PROBABILITIES = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0]], dtype="float32")


def test_probabilities_come_back_from_a_corpus_in_the_students_order():
    doc = spacy.blank("en").make_doc("lung cancer")
    set_soft_labels(doc, "biomed_ner", ["O", "B-D", "I-D"], PROBABILITIES)
    data = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (again,) = DocBin().from_bytes(data).get_docs(spacy.blank("en").vocab)
    taught = get_soft_labels(again, "biomed_ner", ["I-D", "O", "B-D"])
    np.testing.assert_array_equal(taught, PROBABILITIES[:, [2, 0, 1]])
    assert soft_label_classes(again, "biomed_ner") == ["O", "B-D", "I-D"]


def test_each_component_has_its_own():
    doc = spacy.blank("en").make_doc("lung cancer")
    set_soft_labels(doc, "one", ["O"], np.ones((2, 1), dtype="float32"))
    assert get_soft_labels(doc, "another", ["O"]) is None
    assert soft_label_classes(doc, "another") == []


def test_a_teacher_of_other_classes_is_refused():
    doc = spacy.blank("en").make_doc("lung cancer")
    set_soft_labels(doc, "biomed_ner", ["O", "B-D", "I-D"], PROBABILITIES)
    with pytest.raises(BiomedError, match="O, B-D, I-D, and the student O, U-D"):
        get_soft_labels(doc, "biomed_ner", ["O", "U-D"])


def test_teachers_of_labels_of_their_own_are_put_together_by_their_odds():
    one = ["O", "B-A", "I-A"], np.array([[0.5, 0.25, 0.25], [0.8, 0.1, 0.1]])
    other = ["O", "B-B", "I-B"], np.array([[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])
    classes, merged = merge_tags([one, other])
    assert classes == ["O", "B-A", "I-A", "B-B", "I-B"]
    # Against "O": 0.5, 0.5, 3, 0 to one.
    np.testing.assert_allclose(merged[0], np.array([1, 0.5, 0.5, 3, 0]) / 5, atol=1e-5)
    np.testing.assert_allclose(merged[1], [0.8, 0.1, 0.1, 0, 0], atol=1e-5)


def test_teachers_of_one_label_are_averaged():
    tags = ["O", "B-A"]
    opinions = [(tags, np.array([[0.2, 0.8]])), (["B-A", "O"], np.array([[0.5, 0.5]]))]
    classes, merged = merge_tags(opinions)
    assert classes == tags
    np.testing.assert_allclose(merged, [[1 / 3, 2 / 3]], rtol=1e-5)  # 4 to 1 and 1 to 1


def test_a_teacher_that_is_quite_sure_leaves_no_other_numbers_than_probabilities():
    sure = ["O", "B-A"], np.array([[0.0, 1.0]])
    _, merged = merge_tags([sure, (["O", "B-B"], np.array([[0.0, 1.0]]))])
    np.testing.assert_allclose(merged, [[0.0, 0.5, 0.5]], atol=1e-5)


def test_a_teacher_that_lacks_classes_gives_them_no_probability_where_it_may():
    doc = spacy.blank("en").make_doc("lung cancer")
    set_soft_labels(doc, "biomed_ner", ["O", "B-D", "I-D"], PROBABILITIES)
    classes = ["O", "B-C", "B-D", "I-D"]
    taught = get_soft_labels(doc, "biomed_ner", classes, may_lack=True)
    np.testing.assert_array_equal(taught, np.insert(PROBABILITIES, 1, 0.0, axis=1))
    with pytest.raises(BiomedError, match="and the student O, B-C, B-D, I-D"):
        get_soft_labels(doc, "biomed_ner", classes)
