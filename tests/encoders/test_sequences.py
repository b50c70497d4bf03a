"""Documents as the padded sequences of an encoder."""

import numpy as np
import pytest
import spacy

from spacy_biomed.encoders.batching.sequences import make_sequences
from spacy_biomed.encoders.loading import load_tokenizer


def test_a_short_window_keeps_half_of_what_is_encoded_whatever_the_context(tiny_bert):
    tokenizer = load_tokenizer(str(tiny_bert))
    doc = spacy.blank("en")("aspirin for cancer " * 200)
    batches, encoded = make_sequences([doc], tokenizer, window=34, context=64, budget=34)
    pieces = len(encoded.ids)
    assert pieces > 500
    windows = sum(len(batch.ids) for batch in batches)
    assert windows <= pieces / (34 - 2) * 2 + 1
    assert sum(len(batch.kept) for batch in batches) == pieces


@pytest.mark.parametrize("text", ["aspirin for cancer", "a", "  aspirin \n\n 100 mg ", "ß" * 25])
def test_a_text_alone_has_the_sequence_that_it_has_in_a_batch(tiny_bert, text):
    tokenizer = load_tokenizer(str(tiny_bert))
    nlp = spacy.blank("en")
    settings = {"window": 34, "context": 8, "budget": 34}
    [one], encoded = make_sequences([nlp(text)], tokenizer, **settings)
    # An empty document has no rows, and another document takes the general way.
    [other], expected = make_sequences([nlp(text), nlp("")], tokenizer, **settings)
    for name in ("ids", "mask", "kept", "rows"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        assert getattr(one, name).dtype == getattr(other, name).dtype
    assert one.segments is None and one.shared is None
    for name in ("ids", "indices", "piece_counts"):
        np.testing.assert_array_equal(getattr(encoded, name), getattr(expected, name))
        assert getattr(encoded, name).dtype == getattr(expected, name).dtype
    assert encoded.row_counts.tolist() == expected.row_counts[:1].tolist()
    assert encoded.token_counts.tolist() == expected.token_counts[:1].tolist()
    np.testing.assert_array_equal(encoded.first_rows(), expected.first_rows())
