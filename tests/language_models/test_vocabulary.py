"""WordPiece vocabularies learned from texts."""

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.vocabulary import SPECIAL_TOKENS, learn_word_pieces

TEXTS = [
    "Náuseas y vómitos tras la quimioterapia.",
    "Nausea and vomiting after chemotherapy; chemotherapy was stopped.",
    "Chemotherapy and radiotherapy of lung cancer.",
] * 3


def test_special_tokens_come_first_and_padding_is_0():
    tokenizer = learn_word_pieces(TEXTS, 200)
    assert [tokenizer.token_to_id(token) for token in SPECIAL_TOKENS] == [0, 1, 2, 3, 4]
    assert SPECIAL_TOKENS[0] == "[PAD]"


@pytest.mark.parametrize("size", [80, 110])
def test_the_vocabulary_grows_to_the_size_and_no_further(size):
    assert learn_word_pieces(TEXTS, size).get_vocab_size() == size


def test_a_vocabulary_stops_where_no_pair_is_frequent_enough():
    words = ["abc abd"] * 2
    every = learn_word_pieces(words, 1000)
    # 4 characters, of which 3 inside a word too: 5 + a, b, c, d, ##b, ##c, ##d; and the merges.
    assert every.get_vocab_size() < 30
    frequent = learn_word_pieces(words, 1000, min_frequency=3)
    assert frequent.get_vocab_size() < every.get_vocab_size()


def test_frequent_words_become_one_piece_and_rare_ones_several():
    tokenizer = learn_word_pieces(TEXTS, 130)
    assert tokenizer.encode("chemotherapy", add_special_tokens=False).tokens == ["chemotherapy"]
    pieces = tokenizer.encode("lungy", add_special_tokens=False).tokens
    assert len(pieces) > 1
    assert all(piece.startswith("##") for piece in pieces[1:])


def test_sequences_stand_between_cls_and_sep():
    tokenizer = learn_word_pieces(TEXTS, 150)
    assert tokenizer.encode("lung").tokens[0] == "[CLS]"
    assert tokenizer.encode("lung").tokens[-1] == "[SEP]"
    pair = tokenizer.encode("lung", "cancer")
    assert pair.tokens.count("[SEP]") == 2
    assert (pair.type_ids[0], pair.type_ids[-1]) == (0, 1)


def test_case_and_accents_are_folded_only_where_asked():
    cased = learn_word_pieces(TEXTS, 400)
    folded = learn_word_pieces(TEXTS, 400, lowercase=True)
    assert cased.encode("Náuseas").ids != cased.encode("nauseas").ids
    assert folded.encode("Náuseas").ids == folded.encode("nauseas").ids
    assert not any(
        char.isupper() for token in set(folded.get_vocab()) - set(SPECIAL_TOKENS) for char in token
    )


def test_the_same_texts_give_the_same_vocabulary():
    tokenizers = [learn_word_pieces(iter(TEXTS), 110).to_str() for _ in range(5)]
    assert len(set(tokenizers)) == 1


def test_characters_that_were_never_seen_are_unknown():
    assert learn_word_pieces(TEXTS, 150).encode("😀", add_special_tokens=False).tokens == ["[UNK]"]


@pytest.mark.parametrize("texts", [[], ["", " \n"]])
def test_without_words_there_is_nothing_to_learn(texts):
    with pytest.raises(BiomedError, match="no words to learn a vocabulary from"):
        learn_word_pieces(texts, 100)


def test_a_vocabulary_too_small_for_the_characters_says_how_many_it_needs():
    with pytest.raises(BiomedError) as raised:
        learn_word_pieces(TEXTS, 10)
    least = int(str(raised.value).rsplit(" ", 1)[1])
    assert learn_word_pieces(TEXTS, least).get_vocab_size() == least
    with pytest.raises(BiomedError):
        learn_word_pieces(TEXTS, least - 1)
