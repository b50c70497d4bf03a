import random

import numpy as np
import pytest
import spacy
from spacy.tokens import Doc

from spacy_biomed.encoders.batching.alignment import align_tokens, token_offsets
from spacy_biomed.encoders.batching.ragged import ranges
from spacy_biomed.encoders.batching.word_piece_tokenizer import WordPieces
from spacy_biomed.encoders.loading import load_pretrained

CHARACTERS = "abcABC0.-éñ\u0301β阿😀"


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("en")


def random_doc(nlp, rng):
    """Words of any characters, some of white space alone, with or without a space after them."""
    words = []
    for _ in range(rng.randint(0, 12)):
        alphabet = " \n\t" if rng.random() < 0.2 else CHARACTERS
        words.append("".join(rng.choices(alphabet, k=rng.randint(1, 5))))
    spaces = [rng.random() < 0.5 for _ in words]
    return Doc(nlp.vocab, words=words, spaces=spaces)


def random_pieces(texts, rng):
    """Pieces of any length that may share characters, as those of byte-level BPE do."""
    offsets = []
    for text in texts:
        own, start = [], 0
        while start < len(text):
            end = min(start + rng.randint(0, 4), len(text))
            own.extend([(start, end)] * rng.choice([1, 1, 1, 2, 3]))
            start = end + rng.choice([0, 0, 1]) - (end - start > 1 and rng.random() < 0.3)
        offsets.append(own)
    flat = np.array([pair for own in offsets for pair in own], dtype="int64").reshape(-1, 2)
    lengths = np.array([len(own) for own in offsets], dtype="int64")
    return WordPieces(np.zeros(len(flat), dtype="int64"), flat[:, 0], flat[:, 1], lengths)


def naive(docs, pieces):
    """For each token of each document, the pieces that share a character with it."""
    result, offset = [], 0
    for doc, length in zip(docs, pieces.lengths.tolist(), strict=True):
        covered = [
            set(range(pieces.starts[offset + i], pieces.ends[offset + i])) for i in range(length)
        ]
        for token in doc:
            own = set(range(token.idx, token.idx + len(token)))
            result.append([i for i, piece in enumerate(covered) if piece & own])
        offset += length
    return result


def by_token(docs, pieces):
    indices, piece_counts, token_counts = align_tokens(docs, pieces)
    assert token_counts.tolist() == [len(doc) for doc in docs]
    assert piece_counts.sum() == len(indices)
    return [part.tolist() for part in np.split(indices, np.cumsum(piece_counts))[:-1]]


@pytest.mark.parametrize("seed", range(60))
def test_random_pieces_align_as_a_loop_over_characters_says(nlp, seed):
    rng = random.Random(seed)
    docs = [random_doc(nlp, rng) for _ in range(rng.randint(1, 5))]
    pieces = random_pieces([doc.text for doc in docs], rng)
    assert by_token(docs, pieces) == naive(docs, pieces)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_real_tokenizers_align_as_a_loop_over_characters_says(nlp, any_encoder, seed):
    rng = random.Random(seed)
    docs = [random_doc(nlp, rng) for _ in range(4)]
    pieces = load_pretrained(str(any_encoder))[0]([doc.text for doc in docs])
    assert by_token(docs, pieces) == naive(docs, pieces)


def test_each_token_gets_the_pieces_of_its_characters(nlp):
    doc = Doc(nlp.vocab, words=["ab", "c", "def"], spaces=[True, False, False])
    # "ab cdef": "a" "b" " c" "de" "f"
    pieces = WordPieces(
        np.arange(5), np.array([0, 1, 2, 4, 6]), np.array([1, 2, 4, 6, 7]), np.array([5])
    )
    assert by_token([doc], pieces) == [[0, 1], [2], [3, 4]]


def test_a_piece_over_two_tokens_belongs_to_both(nlp):
    doc = Doc(nlp.vocab, words=["don", "'t"], spaces=[False, False])
    pieces = WordPieces(np.arange(2), np.array([0, 2]), np.array([2, 5]), np.array([2]))
    assert by_token([doc], pieces) == [[0, 1], [1]]


def test_the_pieces_of_an_emoji_all_belong_to_its_token(nlp, tiny_roberta):
    tokenizer = load_pretrained(str(tiny_roberta))[0]
    doc = Doc(nlp.vocab, words=["a", "🩺", "b"])
    pieces = tokenizer([doc.text])
    counts = align_tokens([doc], pieces)[1]
    assert counts.tolist()[1] >= 4  # a space and four bytes, nothing merged but perhaps the space
    assert by_token([doc], pieces) == naive([doc], pieces)


def test_white_space_tokens_have_no_pieces(nlp, tiny_bert):
    doc = Doc(nlp.vocab, words=["\n\n", "a", " ", "b", "\t"], spaces=[False, True, False, True, 0])
    pieces = load_pretrained(str(tiny_bert))[0]([doc.text])
    assert by_token([doc], pieces) == [[], [0], [], [1], []]


def test_documents_without_tokens_or_pieces_take_part(nlp, tiny_bert):
    docs = [nlp(""), nlp("a"), nlp("   "), nlp(""), nlp("a a")]
    pieces = load_pretrained(str(tiny_bert))[0]([doc.text for doc in docs])
    assert by_token(docs, pieces) == [[0], [], [0], [1]]


def test_no_documents_have_no_tokens():
    starts, ends, lengths = token_offsets([])
    assert len(starts) == len(ends) == len(lengths) == 0


def test_token_offsets_count_from_each_documents_beginning(nlp):
    starts, ends, lengths = token_offsets([nlp("a  bc"), nlp("😀 d")])
    assert starts.tolist() == [0, 2, 3, 0, 2]
    assert ends.tolist() == [1, 3, 5, 1, 3]
    assert lengths.tolist() == [3, 2]


def test_ranges_are_concatenated():
    assert ranges(np.array([5, 0, 9]), np.array([3, 0, 2])).tolist() == [5, 6, 7, 9, 10]
