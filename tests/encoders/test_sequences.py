"""Documents as the padded sequences of an encoder."""

import spacy

from spacy_biomed.encoders.batching.sequences import make_sequences
from spacy_biomed.encoders.loading import load_tokenizer


def test_a_short_window_keeps_half_of_what_is_encoded_whatever_the_context(tiny_bert):
    tokenizer = load_tokenizer(str(tiny_bert))
    doc = spacy.blank("en")("aspirin for cancer " * 200)
    sequences = make_sequences([doc], tokenizer, window=34, context=64, budget=34)
    pieces = len(sequences.ids)
    assert pieces > 500
    windows = sum(len(batch.ids) for batch in sequences.batches)
    assert windows <= pieces / (34 - 2) * 2 + 1
    assert sum(len(batch.kept) for batch in sequences.batches) == pieces
