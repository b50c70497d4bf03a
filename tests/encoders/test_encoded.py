import copy

import numpy as np
import pytest
import spacy
import srsly
from spacy.tokens import Doc, DocBin

from spacy_biomed.encoders.batching.encoded import (
    ENCODING_KEY,
    EncodedBatch,
    EncodedDoc,
    get_encoding,
    release_encoding,
    set_encoding,
)


@pytest.fixture
def batch():
    """Documents of 2, 0 and 1 tokens: "ab" (2 pieces) "c" (1); nothing; " " (no piece)."""
    return EncodedBatch(
        hidden=np.arange(14, dtype="float32").reshape(7, 2),
        ids=np.array([0, 10, 11, 12, 1, 0, 1]),
        indices=np.array([1, 2, 3]),
        piece_counts=np.array([2, 1, 0]),
        row_counts=np.array([5, 0, 2]),
        token_counts=np.array([2, 0, 1]),
        id_to_token="<{}>".format,
    )


def test_a_batch_splits_into_its_documents(batch):
    first, empty, blank = batch.split(listeners=3)
    assert first.hidden.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert (first.ids.tolist(), first.indices.tolist()) == ([0, 10, 11, 12, 1], [1, 2, 3])
    assert first.piece_counts.tolist() == [2, 1]
    assert empty.hidden.shape == (0, 2) and len(empty.ids) == len(empty.piece_counts) == 0
    assert blank.hidden.tolist() == [[10, 11], [12, 13]]
    assert (blank.indices.tolist(), blank.piece_counts.tolist()) == ([], [0])
    assert {encoding.listeners for encoding in (first, empty, blank)} == {3}


def test_documents_make_the_batch_again(batch):
    again = EncodedBatch.from_docs(batch.split())
    for name in ("hidden", "ids", "indices", "piece_counts", "row_counts", "token_counts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(batch, name))
    assert len(again) == 3


def test_some_documents_of_a_batch_make_another_batch(batch):
    docs = batch.split()
    for others in (docs[:2], docs[::-1], [*docs[:2], copy.deepcopy(docs[2])]):
        again = EncodedBatch.from_docs(others)
        for encoding, expected in zip(again.split(), others, strict=True):
            check_same(encoding, expected)


def test_a_copied_document_has_its_own_rows_alone(batch):
    own = batch.split(listeners=2)[0]
    copied = copy.deepcopy(own)
    check_same(copied, own)
    copied.hidden[:] = -1.0
    assert batch.hidden[0].tolist() == [0, 1]


def test_rows_count_from_the_beginning_of_the_batch(batch):
    both = EncodedBatch.from_docs([*batch.split(), *batch.split()])
    assert both.aligned_rows().tolist() == [1, 2, 3, 8, 9, 10]
    assert both.first_rows().tolist() == [1, 3, -1, 8, 10, -1]


def test_a_document_lets_go_after_its_last_reader(batch):
    doc = spacy.blank("en")("a b")
    set_encoding(doc, batch.split(listeners=2)[0])
    release_encoding(doc)
    assert get_encoding(doc) is not None
    release_encoding(doc)
    assert get_encoding(doc) is None
    assert ENCODING_KEY not in doc.user_data
    release_encoding(doc)  # nothing to let go of


def test_an_encoding_without_listeners_stays(batch):
    doc = spacy.blank("en")("a b")
    set_encoding(doc, batch.split()[0])
    release_encoding(doc)
    assert get_encoding(doc) is not None


def test_an_encoding_of_other_tokens_is_none(batch):
    doc = spacy.blank("en")("a b")
    set_encoding(doc, batch.split()[0])
    with doc.retokenize() as retokenizer:
        retokenizer.merge(doc[:2])
    assert get_encoding(doc) is None


def test_an_encoding_that_was_stored_without_its_encoder_is_read(batch):
    doc = spacy.blank("en")("a b")
    doc.user_data[ENCODING_KEY] = encoding = batch.split(listeners=1)[0]
    assert get_encoding(doc) is encoding
    release_encoding(doc)
    assert ENCODING_KEY not in doc.user_data


def check_same(encoding: EncodedDoc, expected: EncodedDoc):
    np.testing.assert_array_equal(encoding.hidden, expected.hidden)
    np.testing.assert_array_equal(encoding.ids, expected.ids)
    np.testing.assert_array_equal(encoding.indices, expected.indices)
    np.testing.assert_array_equal(encoding.piece_counts, expected.piece_counts)
    assert encoding.listeners == expected.listeners
    assert [encoding.id_to_token(i) for i in encoding.ids.tolist()] == [
        expected.id_to_token(i) for i in expected.ids.tolist()
    ]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_document_with_its_encoding_survives_bytes(batch, place):
    nlp = spacy.blank("en")
    expected = batch.split(listeners=1)[place]
    doc = Doc(nlp.vocab, words=["a"] * len(expected.piece_counts))
    set_encoding(doc, expected)
    check_same(get_encoding(Doc(nlp.vocab).from_bytes(doc.to_bytes())), expected)
    doc_bin = DocBin(docs=[doc], store_user_data=True)
    [read] = DocBin().from_bytes(doc_bin.to_bytes()).get_docs(nlp.vocab)
    check_same(get_encoding(read), expected)


def test_other_values_are_written_as_before():
    value = {"a": [1, None], "b": np.arange(3)}
    read = srsly.msgpack_loads(srsly.msgpack_dumps(value))
    assert read["a"] == [1, None] and read["b"].tolist() == [0, 1, 2]
