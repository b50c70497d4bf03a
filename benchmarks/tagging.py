"""Compare the speed of `TagScheme.viterbi` with a plain Viterbi algorithm in NumPy.

    python benchmarks/tagging.py

`TagScheme.viterbi` searches only runs of tokens whose best tags are not a valid sequence, with one
comparison for each label and token. The plain algorithm searches all tokens and compares all pairs
of tags. Both decode the same batch of 20 documents with 400 words each, from scores to spans. The
scores are noise with a standard deviation of 2.5; "sure" scores add 15 points to the right tag,
"unsure" scores 5 points, and "random" scores nothing. The output has the milliseconds for the batch
(the fastest of several repeats), and the ratio of the plain algorithm's time to ours.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
from thinc.types import Floats2d, Ints1d

from spacy_biomed.models.tagging import Spans, TagScheme
from spacy_biomed.pipeline.ner import log_softmax

LABELS = (2, 7, 20)
MARGINS = {"sure": 15.0, "unsure": 5.0, "random": 0.0}
NOISE = 2.5
DOCUMENTS, WORDS = 20, 400
WORDS_PER_SPAN = 12


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    lengths = np.full(DOCUMENTS, WORDS)
    print(f"{'labels':>6} {'scores':>8} {'ours, ms':>10} {'plain, ms':>10} {'ratio':>7}")
    for count in LABELS:
        scheme = TagScheme("biluo", [f"L{number}" for number in range(count)])
        for name, margin in MARGINS.items():
            scores = draw_scores(scheme, lengths, margin)
            ours, plain = (
                time_decoding(scheme, scores, lengths, search, repeats)
                for search in (scheme.viterbi, partial(plain_viterbi, scheme))
            )
            print(f"{count:6} {name:>8} {ours:10.2f} {plain:10.2f} {plain / ours:7.1f}")


def draw_scores(scheme: TagScheme, lengths: Ints1d, margin: float) -> Floats2d:
    """Draw scores, (tokens, tags), of documents with random spans of one to three words."""
    generator = np.random.default_rng(0)
    total = int(lengths.sum())
    starts = np.arange(0, total, WORDS_PER_SPAN)
    ends = starts + generator.integers(1, 4, len(starts))
    tags = scheme.encode(
        total, Spans(starts, ends, generator.integers(0, len(scheme.labels), len(starts)))
    )
    scores = generator.normal(0.0, NOISE, (total, scheme.size)).astype("float32")
    scores[np.arange(total), tags] += margin
    return scores


def time_decoding(
    scheme: TagScheme,
    scores: Floats2d,
    lengths: Ints1d,
    search: Callable[[Floats2d, Ints1d], Ints1d],
    repeats: int,
) -> float:
    """Return the milliseconds from scores to spans, after a check of the tags' probability."""
    log_probs = log_softmax(scores)
    rows = np.arange(len(scores))
    best = log_probs[rows, scheme.viterbi(log_probs, lengths)].sum(dtype="float64")
    found = log_probs[rows, search(log_probs, lengths)].sum(dtype="float64")
    assert np.isclose(best, found), f"the two searches disagree: {best} and {found}"
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        scheme.decode(search(log_softmax(scores), lengths), lengths)
        seconds.append(time.perf_counter() - start)
    return 1000 * min(seconds)


def plain_viterbi(scheme: TagScheme, log_probs: Floats2d, lengths: Ints1d) -> Ints1d:
    """Find the most probable valid tags of documents of equal length, all at once: (tokens,)."""
    scores = log_probs.reshape(len(lengths), -1, scheme.size)
    penalty = np.where(scheme.allowed, 0.0, -np.inf).astype(scores.dtype)
    back = np.empty(scores.shape, dtype="int64")
    total = np.where(scheme.may_start, scores[:, 0], -np.inf)
    for place in range(1, scores.shape[1]):
        through = total[:, :, None] + penalty
        back[:, place] = through.argmax(axis=1)
        total = through.max(axis=1) + scores[:, place]
    tags = np.empty(scores.shape[:2], dtype="int64")
    tags[:, -1] = np.where(scheme.may_end, total, -np.inf).argmax(axis=1)
    documents = np.arange(len(lengths))
    for place in range(scores.shape[1] - 1, 0, -1):
        tags[:, place - 1] = back[documents, place, tags[:, place]]
    return tags.ravel()


if __name__ == "__main__":
    main()
