"""Weights to begin with that know a little of the text: word pieces by their company, attention by
distance.

A small encoder with BERT's random weights spends its first millions of word pieces on learning how
frequent each is, before attention finds a use for the context. Both halves of what it lacks then
can be had without training. Word pieces get the leading singular vectors of their positive
pointwise mutual information (Levy & Goldberg 2014, "Neural Word Embedding as Implicit Matrix
Factorization"), with the contexts' probabilities smoothed (Levy, Goldberg & Dagan 2015, "Improving
Distributional Similarity", section 3.2). Positions get sines and cosines (Vaswani et al. 2017,
section 3.5), and with them a head's queries and keys can be turned so that it looks a few places
ahead or back.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BiomedError
from .packed_sequences import PackedText

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from torch import Tensor
    from transformers import PreTrainedModel

# Sequences that are counted at most, evenly from the whole text, and at once.
_SEQUENCES, _AT_ONCE = 200_000, 10_000

# A piece's context are so many pieces on each side; one at distance d counts 1/d.
_WINDOW = 4

# The power that makes rare contexts less rare.
_SMOOTHING = 0.75

# Root mean squares of the elements of an embedding; BERT's initial one is 0.02.
_PIECE_SCALE, _POSITION_SCALE = 0.04, 0.03

# How much the attention score of the place that a head looks at is above the mean of all others.
_SCORE = 5.0

# Word pieces between crests of the fastest of the waves that are a position.
_SHORTEST_WAVE = 4.0


def start_from_text(model: PreTrainedModel, text: PackedText, *, seed: int) -> None:
    """Give a BERT or RoBERTa model with random weights ones that fit a text.

    The bias in predicting a piece becomes the logarithm of its frequency. Embeddings of pieces that
    the text does not have, and all other weights, stay.

    Args:
        model: for masked language modelling, its decoder tied to its embeddings.
        text: what it is going to be trained on.
        seed: turns the embeddings, so that what matters is not in the first dimensions alone.

    Raises:
        BiomedError: if the vocabulary is not larger than the width.
    """
    import torch

    embeddings = model.base_model.embeddings
    vocabulary, width = embeddings.word_embeddings.weight.shape
    if vocabulary <= width:
        raise BiomedError(
            f"a vocabulary of {vocabulary} word pieces is too small to start from the text at "
            f"width {width}: it has to be larger; take a larger one or a random start"
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
    """How often word pieces are near each other.

    Returns:
        (vocabulary, vocabulary) symmetric; a pair at distance d counts 1/d, up to four apart in one
        sequence.
    """
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
    """Vectors whose products stand for positive pointwise mutual information.

    Args:
        counts: (vocabulary, vocabulary) as `count_pairs` has them.

    Returns:
        (vocabulary, width). The median of their elements' root mean square is 1 and none has more;
        rare pieces, of which less is known, have less, those without a pair 0.
    """
    from scipy.sparse.linalg import svds

    information = positive_information(counts)
    # The start decides signs and, in the last digits, values.
    left, values, _ = svds(information, k=width, v0=np.ones(len(counts.indptr) - 1))
    vectors = left * np.sqrt(values)
    size = np.sqrt((vectors**2).mean(axis=1, keepdims=True))
    usual = np.median(size[size > 1e-6])
    return np.where(size > 1e-6, vectors / np.maximum(size, usual), 0.0)


def positive_information(counts: csr_array) -> csr_array:
    """max(0, log p(piece, context) / (p(piece) p(context))), contexts' probabilities smoothed.

    Args:
        counts: (vocabulary, vocabulary), symmetric.

    Returns:
        (vocabulary, vocabulary) with a row for each piece and a column for each context.
    """
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
    """Where heads look, in word pieces from their own place: -1, 1, -2.5, 2.5, -4, 4 and so on."""
    return [(1 if head % 2 else -1) * (1 + 1.5 * (head // 2)) for head in range(heads)]


def _look_near(model: PreTrainedModel, rotation: np.ndarray) -> None:
    """Make all heads of the first layer, and half of those of the others, look at one place each.

    A position is a sum of waves: at place p, dimensions sin(2 pi p / w) and cos(2 pi p / w) for
    each wavelength w, turned into as many dimensions of the embedding as a head has. A key is that
    position, a query is it as it would be some places further: their product is largest there.

    Args:
        rotation: (width, width) orthogonal; its first columns are those dimensions.
    """
    config = model.config
    positions = model.base_model.embeddings.position_embeddings.weight
    heads, width = config.num_attention_heads, config.hidden_size
    size = width // heads
    longest = 2.0 * len(positions)
    waves = np.geomspace(_SHORTEST_WAVE, longest, size // 2)
    space = rotation[:, : 2 * len(waves)]

    def turned(places: np.ndarray) -> np.ndarray:
        angles = 2 * math.pi * places[:, None] / waves
        return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)

    values = turned(np.arange(len(positions))) @ space.T
    values *= _POSITION_SCALE / np.sqrt((values**2).mean())
    positions.copy_(_tensor(values))
    # What is left of a position's square after the sum of embeddings was normalised.
    others = _PIECE_SCALE**2 + config.initializer_range**2
    square = width * _POSITION_SCALE**2 / (_POSITION_SCALE**2 + others)
    scale = math.sqrt(_SCORE * math.sqrt(size) / square)
    for number, layer in enumerate(model.base_model.encoder.layer):
        attention = layer.attention.self
        for head, offset in enumerate(offsets(heads)[: heads if number == 0 else heads // 2]):
            rows = slice(head * size, head * size + 2 * len(waves))
            attention.query.weight[rows] = _tensor(scale * _shift(offset, waves) @ space.T)
            attention.key.weight[rows] = _tensor(scale * space.T)


def _shift(offset: float, waves: np.ndarray) -> np.ndarray:
    """(2 waves, 2 waves), turns sines and cosines of a place into those an offset further."""
    angles = 2 * math.pi * offset / waves
    sine, cosine = np.diag(np.sin(angles)), np.diag(np.cos(angles))
    return np.block([[cosine, sine], [-sine, cosine]])


def _tensor(values: np.ndarray) -> Tensor:
    import torch

    return torch.from_numpy(values).float()


def _rotation(width: int, random: np.random.Generator) -> np.ndarray:
    return np.linalg.qr(random.standard_normal((width, width)))[0]
