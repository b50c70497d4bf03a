"""WordPiece vocabularies learned from texts."""

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.vocabulary import (
    SPECIAL_TOKENS,
    Documents,
    learn_byte_pairs,
    learn_vocabulary,
    learn_word_pieces,
    read_tokenizer,
    save_tokenizer,
)

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


def test_a_vocabulary_stops_where_no_pair_occurs_twice():
    once, twice = (learn_word_pieces(["abc xyz"] * times, 1000) for times in (1, 2))
    # The special tokens, and a, b, c, x, y, z, ##b, ##c, ##y, ##z.
    assert once.get_vocab_size() == 15
    # And ##bc, ##yz, abc, xyz.
    assert twice.get_vocab_size() == 19


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


def test_byte_pairs_have_robertas_special_tokens_and_ids():
    tokenizer = learn_byte_pairs(TEXTS, 300)
    ids = [tokenizer.token_to_id(token) for token in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    assert ids == [0, 1, 2, 3, 299]
    assert tokenizer.get_vocab_size() == 300
    assert tokenizer.encode("lung", "cancer").tokens.count("</s>") == 3
    assert tokenizer.encode("lung").ids[0] == 0


def test_byte_pairs_spell_everything_and_give_it_back():
    tokenizer = learn_byte_pairs(TEXTS, 300)
    text = "Náuseas 😀 y\tvómitos  µg/ml"
    encoding = tokenizer.encode(text, add_special_tokens=False)
    assert 3 not in encoding.ids
    assert tokenizer.decode(encoding.ids) == text
    assert len(tokenizer.encode(" chemotherapy", add_special_tokens=False).ids) < 12


def test_the_same_texts_give_the_same_byte_pairs():
    assert len({learn_byte_pairs(iter(TEXTS), 300).to_str() for _ in range(5)}) == 1


def test_byte_pairs_need_words_and_room_for_all_bytes():
    with pytest.raises(BiomedError, match="no words to learn a vocabulary from"):
        learn_byte_pairs(["", " \n"], 300)
    with pytest.raises(
        BiomedError, match="a vocabulary of 260 cannot hold all bytes: at least 261"
    ):
        learn_byte_pairs(TEXTS, 260)


@pytest.mark.parametrize(
    ("kind", "size", "lowercase"),
    [("bpe", 300, False), ("wordpiece", 100, False), ("wordpiece", 100, True)],
)
def test_a_saved_tokenizer_is_read_by_transformers_and_by_us(tmp_path, kind, size, lowercase):
    from transformers import AutoTokenizer

    learned = learn_vocabulary(TEXTS, kind, size, lowercase=lowercase)
    save_tokenizer(learned, tmp_path)
    expected = learned.encode("Chemotherapy and náuseas").ids
    theirs, ours = AutoTokenizer.from_pretrained(tmp_path), read_tokenizer(str(tmp_path))
    assert theirs("Chemotherapy and náuseas")["input_ids"] == expected
    assert (theirs.is_fast, len(theirs)) == (True, size)
    pieces = ours(["Chemotherapy and náuseas"])
    assert [*ours.prefix, *pieces.ids.tolist(), *ours.suffix] == expected
    assert (ours.pad, ours.mask) == (theirs.pad_token_id, theirs.mask_token_id)
    assert (ours.prefix, ours.suffix) == ([theirs.cls_token_id], [theirs.sep_token_id])


def test_the_tokenizer_of_an_encoder_is_read_as_well(tiny_roberta):
    tokenizer = read_tokenizer(str(tiny_roberta))
    assert (tokenizer.prefix, tokenizer.suffix, tokenizer.pad) == ([0], [2], 1)


def test_a_damaged_tokenizer_is_refused(tmp_path):
    save_tokenizer(learn_byte_pairs(TEXTS, 300), tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BiomedError, match="not a readable tokenizer") as error:
        read_tokenizer(str(tmp_path))
    assert "\n" not in str(error.value)


def test_documents_of_files_are_read_each_time_and_never_held(tmp_path):
    (tmp_path / "a.txt").write_text("\n".join(TEXTS * 300), encoding="utf8")
    counted = []
    documents = Documents([tmp_path / "a.txt"], progress=counted.append)
    assert list(documents) == list(documents) == TEXTS * 300
    assert sum(counted) == 2 * len(TEXTS) * 300
    assert (
        learn_word_pieces(documents, 110).to_str() == learn_word_pieces(TEXTS * 300, 110).to_str()
    )
