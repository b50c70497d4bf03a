"""Tokenizers that read texts with and without accents alike."""

import pytest

from spacy_biomed.encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from spacy_biomed.encoders.casing import fold_accents
from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.errors import BiomedError

TEXT = "No se observó metástasis; el año presentó náuseas."
PLAIN = "No se observo metastasis; el ano presento nauseas."


@pytest.fixture(scope="module")
def learned(tiny_bert):
    return load_tokenizer(str(tiny_bert))


@pytest.fixture(scope="module")
def folded(learned):
    return fold_accents(learned, "tiny")


def test_both_have_the_same_pieces_at_the_same_offsets(folded):
    pieces, plain = folded([TEXT]), folded([PLAIN])
    assert pieces.ids.tolist() == plain.ids.tolist()
    assert pieces.starts.tolist() == plain.starts.tolist()
    assert TEXT[pieces.starts[-2] : pieces.ends[-2]] in "náuseas"


def test_no_id_is_lost(learned, folded):
    before, after = (one.tokenizer.get_vocab() for one in (learned, folded))
    assert sorted(after.values()) == sorted(before.values())


def test_a_word_without_accents_is_the_entry_that_had_them():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "meta", "##stasis", "metástasis"]
    folded = fold_accents(create_tokenizer(words), "tiny")
    assert folded(["metastasis", "metástasis"]).ids.tolist() == [6, 6]


def test_the_lowest_id_of_equal_entries_counts():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "sí", "si", "sì", "mas", "más", "é"]
    folded = fold_accents(create_tokenizer(words), "tiny")
    assert folded(["sí si sì mas más e"]).ids.tolist() == [4, 4, 4, 7, 7, 9]
    assert len(folded.tokenizer.get_vocab()) == len(words)


def test_other_tokenizers_are_refused(tiny_roberta):
    with pytest.raises(BiomedError, match="accents = false is for encoders with BERT's tokenizer"):
        fold_accents(load_tokenizer(str(tiny_roberta)), "tiny")


def create_tokenizer(words):
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    numbers = {word: number for number, word in enumerate(words)}
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return WordPieceTokenizer(tokenizer)
