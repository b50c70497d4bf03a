"""Initial weights from statistics of the text: embeddings by context, attention by distance.

A small encoder needs its first millions of word pieces to learn the frequency of each, before
attention learns to use the context. Both can be computed without training. Word pieces get the
leading singular vectors of their positive pointwise mutual information (Levy & Goldberg 2014,
"Neural Word Embedding as Implicit Matrix Factorization"), with smoothed probabilities of contexts
(Levy, Goldberg & Dagan 2015, "Improving Distributional Similarity", section 3.2). Positions get
sines and cosines (Vaswani et al. 2017, section 3.5). With these, a head's queries and keys can be
rotated so that the head attends to a position a few pieces before or after.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ..errors import BiomedError
from .packed_sequences import PackedText

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Maximum number of sequences to count, evenly spaced over the text, and number to count at once.
_SEQUENCES, _AT_ONCE = 200_000, 10_000

# Number of context pieces on each side, and the exponent that smooths their frequencies.
_WINDOW, _SMOOTHING = 4, 0.75

# Root mean squares of the elements of piece and position embeddings; BERT's initial value is 0.02.
_PIECE_SCALE, _POSITION_SCALE = 0.04, 0.03

# Difference between the attention score of the position a head attends to, and the mean score.
_SCORE = 5.0

# Shortest wavelength of the sines and cosines of a position, in word pieces.
_SHORTEST_WAVE = 4.0


def start_from_text(model: PreTrainedModel, text: PackedText, *, seed: int) -> None:
    """Set initial weights of a BERT or RoBERTa model from a text.

    It sets embeddings of pieces in the text and of positions, queries and keys of some heads, and
    the output bias of each piece (the logarithm of its frequency, minus the mean).

    Args:
        model: a model for masked language modelling with random weights and tied embeddings.
        seed: seed of random rotations, so that the information is not only in the first dimensions.

    Raises:
        BiomedError: if the vocabulary is not larger than the width.
    """
    embeddings = model.base_model.embeddings
    vocabulary, width = embeddings.word_embeddings.weight.shape
    if vocabulary <= width:
        raise BiomedError(
            f"a vocabulary of {vocabulary} word pieces is too small to start from the text: it "
            f"must be larger than the width {width}; use a larger vocabulary, or a random start"
        )
    random = np.random.default_rng(seed)
    counts = count_pairs(text, vocabulary)
    frequency = counts.sum(axis=1)
    vectors = piece_vectors(counts, width) @ _rotation(width, random)
    seen = vectors.any(axis=1)
    bias = np.log(np.maximum(frequency, frequency[seen].min()))
    with torch.no_grad():
        embeddings.word_embeddings.weight[seen] = _tensor(vectors[seen] * _PIECE_SCALE)
        model.get_output_embeddings().bias.copy_(_tensor(bias - bias.mean()))
        _look_near(model, _rotation(width, random))


def count_pairs(text: PackedText, vocabulary: int) -> csr_array:
    """Counts of pieces near each other, (vocabulary, vocabulary); at distance d they add 1/d."""
    from scipy.sparse import coo_array, csr_array

    counts = csr_array((vocabulary, vocabulary), dtype="float64")
    number = min(len(text), _SEQUENCES)
    indices = np.linspace(0, len(text), number, endpoint=False).astype("int64")
    for start in range(0, number, _AT_ONCE):
        parts = [text[int(index)].ids for index in indices[start : start + _AT_ONCE]]
        pieces = np.concatenate(parts)
        sequence = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        for distance in range(1, _WINDOW + 1):
            together = sequence[:-distance] == sequence[distance:]
            pairs = pieces[:-distance][together], pieces[distance:][together]
            weights = np.full(len(pairs[0]), 1 / distance)
            near = coo_array((weights, pairs), shape=counts.shape).tocsr()
            counts = counts + near + near.T
    return counts


def piece_vectors(counts: csr_array, width: int) -> np.ndarray:
    """Vectors of pieces, (vocabulary, width): the leading singular vectors of their information.

    The root mean square of a vector's elements is at most 1, which is also the median. Rare pieces
    with less information have smaller vectors; a piece without a pair has zeros.
    """
    from scipy.sparse.linalg import svds

    information = positive_information(counts)
    # A fixed start vector, since it determines signs and the last digits of values.
    left, values, _ = svds(information, k=width, v0=np.ones(len(counts.indptr) - 1))
    vectors = left * np.sqrt(values)
    size = np.sqrt((vectors**2).mean(axis=1, keepdims=True))
    usual = np.median(size[size > 1e-6])
    return np.where(size > 1e-6, vectors / np.maximum(size, usual), 0.0)


def positive_information(counts: csr_array) -> csr_array:
    """max(0, log p(piece, context) / (p(piece) p(context))), with smoothed p(context)."""
    pairs = counts.tocoo()
    piece, context = pairs.coords
    frequency = counts.sum(axis=1)
    smoothed = frequency**_SMOOTHING
    smoothed *= frequency.sum() / smoothed.sum()
    ratio = pairs.data * frequency.sum() / (frequency[piece] * smoothed[context])
    pairs.data = np.log(np.maximum(ratio, 1.0))
    information = pairs.tocsr()
    information.eliminate_zeros()
    return information


def offsets(heads: int) -> list[float]:
    """The relative positions heads attend to, in word pieces: -1, 1, -2.5, 2.5, -4, 4 and so on."""
    return [(1 if head % 2 else -1) * (1 + 1.5 * (head // 2)) for head in range(heads)]


def _look_near(model: PreTrainedModel, rotation: np.ndarray) -> None:
    """Make all heads of the first layer, and half of the heads of other layers, attend by distance.

    The embedding of position p has the dimensions sin(2 pi p / w) and cos(2 pi p / w) for each
    wavelength w. They are in a subspace as large as a head, which the first columns of the
    rotation, (width, width), span. A key is this position. A query is the position shifted by the
    head's offset, so its product with the key is largest there.
    """
    config = model.config
    positions = model.base_model.embeddings.position_embeddings.weight
    heads, width = config.num_attention_heads, config.hidden_size
    size = width // heads
    longest = 2.0 * len(positions)
    waves = np.geomspace(_SHORTEST_WAVE, longest, size // 2)
    space = rotation[:, : 2 * len(waves)]
    angles = 2 * math.pi * np.arange(len(positions))[:, None] / waves
    values = np.concatenate([np.sin(angles), np.cos(angles)], axis=1) @ space.T
    values *= _POSITION_SCALE / np.sqrt((values**2).mean())
    positions.copy_(_tensor(values))
    # The position's squared norm after the normalisation of the sum of embeddings.
    others = _PIECE_SCALE**2 + config.initializer_range**2
    square = width * _POSITION_SCALE**2 / (_POSITION_SCALE**2 + others)
    scale = math.sqrt(_SCORE * math.sqrt(size) / square)
    for number, layer in enumerate(model.base_model.encoder.layer):
        attention = layer.attention.self
        for head, offset in enumerate(offsets(heads)[: heads if number == 0 else heads // 2]):
            rows = slice(head * size, head * size + 2 * len(waves))
            angles = 2 * math.pi * offset / waves
            sine, cosine = np.diag(np.sin(angles)), np.diag(np.cos(angles))
            shift = np.block([[cosine, sine], [-sine, cosine]])
            attention.query.weight[rows] = _tensor(scale * shift @ space.T)
            attention.key.weight[rows] = _tensor(scale * space.T)


def _tensor(values: np.ndarray) -> Tensor:
    return torch.from_numpy(values).float()


def _rotation(width: int, random: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(random.standard_normal((width, width)))[0]
