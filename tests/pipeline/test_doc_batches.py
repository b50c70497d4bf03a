import pytest
import spacy
from spacy.tokens import Doc

from spacy_biomed.pipeline.doc_batches import MAX_TOKENS, batch_docs

NLP = spacy.blank("en")


def make_docs(*sizes):
    return [Doc(NLP.vocab, words=["a"] * size) for size in sizes]


@pytest.mark.parametrize(
    "sizes, batch_size, expected",
    [
        ([], 2, []),
        ([3, 0, 1, 2, 5], 2, [2, 2, 1]),
        ([1, 1, 1], 1, [1, 1, 1]),
        ([MAX_TOKENS - 1, 1, 1], 256, [2, 1]),
        ([1, MAX_TOKENS + 1, 1, 0], 256, [1, 1, 2]),
        ([MAX_TOKENS // 2] * 5, 256, [2, 2, 1]),
    ],
)
def test_batches_have_so_many_documents_or_tokens(sizes, batch_size, expected):
    docs = make_docs(*sizes)
    batches = list(batch_docs(iter(docs), batch_size))
    assert [len(batch) for batch in batches] == expected
    assert [id(doc) for batch in batches for doc in batch] == list(map(id, docs))


def test_batches_of_fewer_tokens_may_be_asked_for():
    batches = batch_docs(iter(make_docs(3, 2, 1, 9, 5)), 256, max_tokens=5)
    assert [[len(doc) for doc in batch] for batch in batches] == [[3, 2], [1], [9], [5]]


def test_a_full_batch_does_not_wait_for_the_next_document():
    drawn = []

    def stream():
        for doc in make_docs(1, 1, 1, 1):
            drawn.append(doc)
            yield doc

    batches = batch_docs(stream(), 2)
    assert next(batches) == drawn and len(drawn) == 2
