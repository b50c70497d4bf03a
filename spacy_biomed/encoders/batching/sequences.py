"""From a batch of documents to the padded sequences of an encoder, and back to rows."""

from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise

import numpy as np
from spacy.tokens import Doc

from ...arrays import Ints1d, Ints2d
from .alignment import align_tokens
from .encoded import EncodedBatch
from .pair_pieces import PairOverflow, TextPieces, room_in, tokenize
from .ragged import borders, ranges
from .windows import Placement, Windows, batch_by_length, make_windows, one_a_line, pack_by_length
from .word_piece_tokenizer import WordPieceTokenizer

# The stretches of a document's rows, in order. A single text has all its word pieces in the second
# text, and nothing in the first and between.
BEFORE, FIRST, BETWEEN, SECOND, AFTER = range(5)


@dataclass(frozen=True, slots=True)
class SequenceBatch:
    """Sequences of similar length, padded together, one or several per line."""

    ids: Ints2d  # (lines, pieces) vocabulary ids
    mask: Ints2d  # (lines, pieces) attention mask
    kept: Ints1d  # (kept,) places in the flattened batch whose vectors are used
    rows: Ints1d  # (kept,) the rows of the batch of documents that these fill
    segments: Ints2d | None = None  # (lines, pieces) segment ids; None if all are zero
    # Of lines with several sequences, (lines, pieces) each: the number of the sequence, or 0 for
    # padding, whose pieces attend to each other only; and the position in it, from 0.
    shared: tuple[Ints2d, Ints2d] | None = None


def make_sequences(
    docs: list[Doc],
    tokenizer: WordPieceTokenizer,
    *,
    window: int,
    context: int,
    budget: int,
    pair_overflow: PairOverflow = "truncate",
    normalize: bool = False,
    share_lines: bool = False,
) -> tuple[list[SequenceBatch], EncodedBatch]:
    """Tokenize documents into word pieces, cut documents that are too long, and pad.

    It gives the padded sequences, and the batch for the listeners, whose `hidden`, (rows, width),
    is to be set. Over all sequences, every row is filled exactly once.

    A pair of texts is one sequence, with the special tokens and segment ids of the tokenizer's
    template. The windows of a long pair all have the whole first text. The vectors of the first
    text, and of the special tokens next to it, come from the first window.

    `window` is the most word pieces of a sequence, special tokens included, and `budget` of a
    padded batch. Of `context` on each side of a window at most a quarter of the window counts, so
    that at least half of the encoded pieces are kept. With `share_lines`, several sequences may
    share a line, which reduces padding if the encoder can separate them. The other settings are
    those of `tokenize`.
    """
    room = room_in(window, len(tokenizer.prefix) + len(tokenizer.suffix), "word pieces")
    texts = tokenize(
        docs, tokenizer, window=window, pair_overflow=pair_overflow, normalize=normalize
    )
    indices, piece_counts, token_counts = align_tokens(docs, texts.pieces)
    no_vectors, id_to_token = np.zeros((0, 0), "float32"), tokenizer.tokenizer.id_to_token
    is_one = len(docs) == 1 and not (texts.is_pair[0] or share_lines)
    if is_one and 0 < len(texts.pieces.ids) <= room:  # with less work than any batch takes
        inside = texts.pieces.ids
        ids = np.concatenate([tokenizer.prefix, inside, tokenizer.suffix]).astype("int64")
        rows = np.arange(len(ids))
        batch = SequenceBatch(ids[None], np.ones((1, len(ids)), dtype="int64"), rows, rows)
        indices += len(tokenizer.prefix)
        arrays = ids, indices, piece_counts, np.array([len(ids)]), token_counts
        return [batch], EncodedBatch(no_vectors, *arrays, id_to_token)
    # A document without tokens has no rows; a document of white space has its special tokens.
    stretches, ids, segments = _lay_out(texts, tokenizer, token_counts > 0)
    row_counts, afters = stretches.sum(axis=1), stretches[:, AFTER]
    heads = stretches[:, :SECOND].sum(axis=1)
    capacity = np.maximum(window - heads - afters, 1)
    context = np.minimum(context, capacity // 4)
    windows = make_windows(texts.second, capacity, context, row_counts > 0)
    lengths = heads[windows.doc] + windows.end - windows.start + afters[windows.doc]
    if share_lines:
        placements = pack_by_length(lengths, budget, longest=window)
    else:
        placements = [one_a_line(chosen, lengths) for chosen in batch_by_length(lengths, budget)]
    batches = []
    if placements:
        batches = _pad_windows(windows, placements, stretches, ids, segments, tokenizer.pad)
    doc = np.repeat(np.arange(len(docs)), np.diff(borders(piece_counts)[borders(token_counts)]))
    between = np.where(indices >= texts.first[doc], stretches[doc, BETWEEN], 0)
    arrays = ids, indices + stretches[doc, BEFORE] + between, piece_counts, row_counts, token_counts
    return batches, EncodedBatch(no_vectors, *arrays, id_to_token)


def _lay_out(
    texts: TextPieces, tokenizer: WordPieceTokenizer, has_rows: np.ndarray
) -> tuple[Ints2d, Ints1d, Ints1d | None]:
    """Put the tokenizer's special tokens around the word pieces of each document.

    It gives the rows of each stretch, (docs, 5), and the vocabulary and segment ids, (rows,); None
    for the latter if all are zero. A document for which `has_rows`, (docs,), is false gets no rows.
    """
    pair = tokenizer.pair
    special = [tokenizer.prefix, tokenizer.suffix, pair.before, pair.between, pair.after]
    begins = borders([len(ids) for ids in special])
    # Each stretch by its place in `special`, in a single text and in a pair; 5 is word pieces.
    part = np.array([[0, 5, 5, 5, 1], [2, 5, 3, 5, 4]])[texts.is_pair.astype("int64")]
    sizes = np.diff(begins, append=begins[-1])[part] * has_rows[:, None]
    sizes[:, FIRST], sizes[:, SECOND] = texts.first, texts.second
    sources = begins[part]
    sources[:, FIRST] += np.cumsum(texts.pieces.lengths) - texts.pieces.lengths
    sources[:, SECOND] = sources[:, FIRST] + texts.first
    order = ranges(sources.ravel(), sizes.ravel())
    special_ids = np.array([*chain.from_iterable(special)], dtype="int64")
    ids = np.concatenate([special_ids, texts.pieces.ids])[order]
    if not (pair.has_segments and texts.is_pair.any()):
        return sizes, ids, None
    before, first, between, second, after = pair.segments
    special_segments = np.zeros_like(special_ids)
    special_segments[begins[2] :] = [*before, *between, *after]
    of_texts = np.where(texts.is_pair[:, None], [first, second], 0).ravel()
    of_pieces = np.repeat(of_texts, sizes[:, [FIRST, SECOND]].ravel())
    return sizes, ids, np.concatenate([special_segments, of_pieces])[order]


def _pad_windows(
    windows: Windows,
    placements: list[Placement],
    stretches: Ints2d,
    ids: Ints1d,
    segments: Ints1d | None,
    pad: int,
) -> list[SequenceBatch]:
    """Fill a padded batch for each placement, at least one, of windows.

    `_lay_out` gives the rows of each stretch, (docs, 5), and ids and segment ids, (rows,).
    """
    windows = windows.take(np.concatenate([placement.sequences for placement in placements]))
    own = stretches[windows.doc]
    heads, afters = own[:, :SECOND].sum(axis=1), own[:, AFTER]
    # A window reads everything before the second text, a part of that text, and what is after it.
    sizes = np.stack([heads, windows.end - windows.start, afters], axis=1)
    begins = borders(stretches.ravel())[:-1].reshape(stretches.shape)
    starts = begins[windows.doc][:, [BEFORE, SECOND, AFTER]]
    starts[:, 1] += windows.start
    rows = ranges(starts.ravel(), sizes.ravel())
    lengths = sizes.sum(axis=1)
    places_of_windows = [one.lines * one.shape[1] + one.starts for one in placements]
    places = ranges(np.concatenate(places_of_windows), lengths)
    # The first window of a document keeps the rows before its text, the last the rows after it.
    is_last = windows.end == own[:, SECOND]
    keep_start = np.where(windows.start == 0, 0, heads + windows.keep_start - windows.start)
    keep_end = np.where(is_last, lengths, heads + windows.keep_end - windows.start)
    is_kept = np.zeros(len(rows), dtype=bool)
    is_kept[ranges(borders(lengths)[:-1] + keep_start, keep_end - keep_start)] = True
    owners = np.repeat(np.arange(len(lengths)) + 1, lengths)
    positions = ranges(np.zeros_like(lengths), lengths)
    batches = []
    parts = borders(lengths)[borders([len(one.sequences) for one in placements])]
    for placement, (start, end) in zip(placements, pairwise(parts.tolist()), strict=True):
        part, is_shared = slice(start, end), len(placement.sequences) > placement.shape[0]
        fill = partial(_fill, placement.shape, places[part])
        batches.append(
            SequenceBatch(
                fill(ids[rows[part]], pad),
                fill(1),
                places[part][is_kept[part]],
                rows[part][is_kept[part]],
                None if segments is None else fill(segments[rows[part]]),
                (fill(owners[part]), fill(positions[part])) if is_shared else None,
            )
        )
    return batches


def _fill(shape: tuple[int, int], places: Ints1d, values: Ints1d | int, padding: int = 0) -> Ints2d:
    """An array of this shape with values at places of the flattened array."""
    filled = np.full(shape, padding, dtype="int64")
    filled.reshape(-1)[places] = values
    return filled
