import pickle
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from tokenizers import AddedToken, Regex, Tokenizer, pre_tokenizers
from tokenizers.normalizers import BertNormalizer
from transformers import AutoTokenizer

from spacy_biomed.encoders.batching import word_piece_tokenizer
from spacy_biomed.encoders.batching.word_piece_tokenizer import (
    WordPieces,
    WordPieceTokenizer,
    splits_at_spaces,
)
from spacy_biomed.encoders.loading import load_pretrained
from spacy_biomed.errors import BiomedError

AWKWARD = {
    "plain": "Aspirin reduced the risk of cancer.",
    "accents": "náuseas y vómitos; Ångström, Sjögren",
    "emoji": "dolor 😀 👩‍⚕️ fin",
    "combining marks": "na\u0301useas e\u0301\u0302 a",
    "tabs and line breaks": "fever\t39\r\n\r\nchills\n",
    "double spaces": "  two  spaces   here  ",
    "a very long word": "pneumono" * 40,
    "nothing": "",
    "white space": " \t\n ",
    "Spanish": "¿Cuándo presentó el niño la fiebre? «Ayer», dijo.",
    "control characters": "a\x00b\u200bc\ufeffd\xa0e",
    "other scripts": "β-catenin 阿司匹林 IL‑2 αβ",
    "special tokens": "[CLS] a [SEP] <s> b </s> [MASK] <mask>",
}


@pytest.fixture(scope="module")
def tokenizers(any_encoder):
    return load_pretrained(str(any_encoder))[0], AutoTokenizer.from_pretrained(any_encoder)


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD.keys())
def test_ids_and_offsets_are_those_of_the_transformers_tokenizer(tokenizers, text):
    ours, theirs = tokenizers
    expected = theirs(text, add_special_tokens=False, return_offsets_mapping=True)
    pieces = ours([text])
    assert pieces.ids.tolist() == expected["input_ids"]
    offsets = zip(pieces.starts.tolist(), pieces.ends.tolist(), strict=True)
    assert list(offsets) == expected["offset_mapping"]
    assert pieces.lengths.tolist() == [len(expected["input_ids"])]


def test_a_batch_is_its_texts_one_after_the_other(tokenizers):
    ours, _ = tokenizers
    texts = list(AWKWARD.values())
    pieces = ours(texts)
    alone = [ours([text]) for text in texts]
    assert pieces.lengths.tolist() == [len(one.ids) for one in alone]
    assert pieces.ids.tolist() == [i for one in alone for i in one.ids.tolist()]
    assert pieces.starts.tolist() == [i for one in alone for i in one.starts.tolist()]
    assert pieces.ends.tolist() == [i for one in alone for i in one.ends.tolist()]


def test_no_texts_give_no_pieces(tokenizers):
    pieces = tokenizers[0]([])
    assert len(pieces.ids) == len(pieces.starts) == len(pieces.ends) == len(pieces.lengths) == 0


def test_special_ids_around_a_text_are_the_tokenizers_own(tokenizers):
    ours, theirs = tokenizers
    text = "Aspirin reduced pain"
    inside = ours([text]).ids.tolist()
    assert ours.prefix == [theirs.cls_token_id]
    assert ours.suffix == [theirs.sep_token_id]
    assert [*ours.prefix, *inside, *ours.suffix] == theirs(text)["input_ids"]
    assert ours.pad == theirs.pad_token_id


@pytest.mark.parametrize("name", ["tiny_bert", "tiny_roberta", "tiny_mmbert"])
def test_pieces_of_normalised_texts_lie_in_the_texts_as_given(name, request):
    tokenizer, _ = load_pretrained(str(request.getfixturevalue(name)))
    texts = [
        "a beta\u2010blocker ",
        "\u2010 \n",
        "\n\n\u2010",
        "IL\u20106,\u00a0\t CD4+\u00ad \n \n",
        " \u2010",
    ]
    pieces = tokenizer.read_normalized(texts)
    borders = np.cumsum([0, *pieces.lengths])
    for text, begin, end in zip(texts, borders, borders[1:], strict=False):
        starts, ends = pieces.starts[begin:end], pieces.ends[begin:end]
        assert (starts >= 0).all() and (ends <= len(text)).all()
        assert (starts <= ends).all()
        assert (np.diff(starts) >= 0).all()
        covered = {i for a, b in zip(starts, ends, strict=True) for i in range(a, b)}
        assert {i for i, c in enumerate(text) if c.isalnum()} <= covered


def test_special_ids_of_bert_and_roberta(tiny_bert, tiny_roberta):
    bert, roberta = (load_pretrained(str(path))[0] for path in (tiny_bert, tiny_roberta))
    assert (bert.prefix, bert.suffix, bert.pad) == ([2], [3], 0)  # [PAD] [UNK] [CLS] [SEP]
    assert (roberta.prefix, roberta.suffix, roberta.pad) == ([0], [2], 1)  # <s> <pad> </s>


def test_a_tokenizer_without_special_tokens_puts_nothing_around():
    from tokenizers import Tokenizer, models, pre_tokenizers

    backend = Tokenizer(models.WordLevel({"a": 0, "b": 1, "[UNK]": 2}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = WordPieceTokenizer(backend)
    assert (tokenizer.prefix, tokenizer.suffix) == ([], [])
    assert tokenizer(["b a c"]).ids.tolist() == [1, 0, 2]


def test_special_ids_are_found_where_the_vocabulary_cannot_spell_the_probe():
    from tokenizers import Tokenizer, models, processors

    backend = Tokenizer(models.BPE({"<s>": 0, "</s>": 1, "x": 2}, []))
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer = WordPieceTokenizer(backend)
    assert (tokenizer.prefix, tokenizer.suffix) == ([0], [1])


def test_truncation_and_padding_that_a_tokenizer_was_saved_with_are_switched_off(tiny_bert):
    from tokenizers import Tokenizer

    backend = Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))
    backend.enable_truncation(4)
    backend.enable_padding(length=8)
    pieces = WordPieceTokenizer(backend)(["a a a a a a", "a"])
    assert pieces.lengths.tolist() == [6, 1]


def test_it_survives_a_string(tokenizers):
    ours, _ = tokenizers
    again = WordPieceTokenizer.from_str(ours.to_str(), ours.pad)
    texts = list(AWKWARD.values())
    assert again(texts).ids.tolist() == ours(texts).ids.tolist()
    assert (again.prefix, again.suffix, again.pad) == (ours.prefix, ours.suffix, ours.pad)


def test_special_ids_around_a_pair_are_the_tokenizers_own(tokenizers):
    ours, theirs = tokenizers
    inside = [ours([text]).ids.tolist() for text in ("Aspirin", "pain")]
    pair = ours.pair
    expected = theirs("Aspirin", "pain", return_token_type_ids=True)
    assert expected["input_ids"] == [
        *pair.before,
        *inside[0],
        *pair.between,
        *inside[1],
        *pair.after,
    ]
    before, first, between, second, after = pair.segments
    segments = [*before, *[first] * len(inside[0]), *between, *[second] * len(inside[1]), *after]
    assert expected["token_type_ids"] == segments
    assert pair.has_segments is (1 in segments)


def test_pairs_of_bert_and_roberta(tiny_bert, tiny_roberta):
    bert, roberta = (load_pretrained(str(path))[0].pair for path in (tiny_bert, tiny_roberta))
    assert (bert.before, bert.between, bert.after) == ([2], [3], [3])
    assert bert.segments == ([0], 0, [0], 1, [1])
    assert (roberta.before, roberta.between, roberta.after) == ([0], [2, 2], [2])
    assert not roberta.has_segments


def test_a_tokenizer_that_has_no_template_for_pairs_ends_each_text():
    from tokenizers import Tokenizer, models, processors

    backend = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2}, unk_token="a"))
    backend.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    assert backend.encode("a", "a").ids == [2, 2]
    pair = WordPieceTokenizer(backend).pair
    assert (pair.before, pair.between, pair.after) == ([0], [1], [1])
    assert pair.segments == ([0], 0, [0], 1, [1])


def test_special_ids_are_those_around_single_texts_and_pairs_and_the_padding(tiny_roberta):
    assert load_pretrained(str(tiny_roberta))[0].special_ids == [0, 1, 2]


# White space and control characters of all kinds, and characters that BERT's normalizer changes.
CHARACTERS = [
    *"aBcé1.-,()%#_\t\n\r\x0b\x1c\x1f\x85\xa0\u2003\u2028\u3000\u200b\ufeff\x00\ufffd\u0301",
    *"\u0327阿司😀İßΣς\u0345ﬁ가\u1100\u1161",
    *("[MASK]", "[CLS]", "[SEP]", "##a", "aspirin", " ", " ", " ", " ", "   "),
]


def assert_same_pieces(pieces, expected):
    for name in ("ids", "starts", "ends", "lengths"):
        assert getattr(pieces, name).tolist() == getattr(expected, name).tolist(), name


def by_the_library(tokenizer, texts):
    encodings = [tokenizer.tokenizer.encode(text, add_special_tokens=False) for text in texts]
    offsets = [offset for encoding in encodings for offset in encoding.offsets]
    return WordPieces(
        np.array([i for encoding in encodings for i in encoding.ids]),
        np.array([start for start, _ in offsets]),
        np.array([end for _, end in offsets]),
        np.array([len(encoding) for encoding in encodings]),
    )


@pytest.mark.parametrize("lowercase", [False, True])
def test_known_words_have_the_pieces_that_the_whole_text_gives_them(tiny_bert, lowercase):
    backend = Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))
    backend.normalizer = BertNormalizer(lowercase=lowercase)
    assert splits_at_spaces(backend)
    tokenizer = WordPieceTokenizer(backend)
    rng = random.Random(0)
    for _ in range(500):
        texts = ["".join(rng.choices(CHARACTERS, k=rng.randrange(30))) for _ in range(3)]
        assert_same_pieces(tokenizer(texts), by_the_library(tokenizer, texts))


def test_words_are_tokenized_once(tiny_bert):
    tokenizer = WordPieceTokenizer(Tokenizer.from_file(str(tiny_bert / "tokenizer.json")))
    tokenizer(["aspirin reduced pain", "", "pain"])
    tokenizer._tokenize = lambda texts: pytest.fail(f"tokenized again: {texts}")
    assert_same_pieces(
        tokenizer(["pain aspirin", ""]), by_the_library(tokenizer, ["pain aspirin", ""])
    )


def test_full_collections_of_words_begin_anew(tiny_bert, monkeypatch):
    monkeypatch.setattr(word_piece_tokenizer, "MOST_WORDS", 4)
    monkeypatch.setattr(word_piece_tokenizer, "MOST_PIECES", 40)
    tokenizer = WordPieceTokenizer(Tokenizer.from_file(str(tiny_bert / "tokenizer.json")))
    few, more, many, long = ["a b", "c"], ["c d", "e"], ["a b c d e f"], ["." * 41]
    for texts in (few, more, many, long, more, few):
        assert_same_pieces(tokenizer(texts), by_the_library(tokenizer, texts))
        assert len(tokenizer._known[0]) <= 4


def test_threads_share_known_words(tiny_bert, monkeypatch):
    monkeypatch.setattr(word_piece_tokenizer, "MOST_WORDS", 50)
    tokenizer = WordPieceTokenizer(Tokenizer.from_file(str(tiny_bert / "tokenizer.json")))
    rng = random.Random(0)
    batches = [[f"w{rng.randrange(200)} w{rng.randrange(200)} x"] * 3 for _ in range(400)]
    with ThreadPoolExecutor(8) as pool:
        for texts, pieces in zip(batches, pool.map(tokenizer, batches), strict=True):
            assert_same_pieces(pieces, by_the_library(tokenizer, texts))


def test_words_that_were_read_are_in_no_pickle(tiny_bert):
    tokenizer = WordPieceTokenizer(Tokenizer.from_file(str(tiny_bert / "tokenizer.json")))
    tokenizer(["Hernández presentó fiebre"])
    content = pickle.dumps(tokenizer)
    assert "Hernández".encode() not in content
    again = pickle.loads(content)
    assert_same_pieces(again(["fiebre"]), tokenizer(["fiebre"]))


def test_only_tokenizers_that_split_at_spaces_keep_words(tiny_bert, tiny_roberta):
    assert not splits_at_spaces(Tokenizer.from_file(str(tiny_roberta / "tokenizer.json")))
    for added in (AddedToken("breast cancer"), AddedToken("<e>", lstrip=True)):
        backend = Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))
        assert splits_at_spaces(backend)
        backend.add_tokens([added])
        assert not splits_at_spaces(backend)


@pytest.mark.parametrize("others", [[], ["aspirin"]])
def test_a_pattern_that_takes_too_long_is_an_error_of_one_line(tiny_bert, others):
    backend = Tokenizer.from_file(str(tiny_bert / "tokenizer.json"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex("(a+)+$"), "isolated")
    tokenizer = WordPieceTokenizer(backend)
    with pytest.raises(BiomedError, match=r"a pattern in its tokenizer\.json takes too long"):
        tokenizer([*others, "a" * 60 + "b"])
