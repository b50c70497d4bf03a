"""Packed sequences: their content and boundaries, documents set aside, and reuse of files."""

from collections import Counter

import numpy as np
import pytest
from pretraining_recipes import make_recipe, make_text, write_text

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models import packed_sequences as packing
from spacy_biomed.language_models.packed_sequences import (
    fingerprint,
    pack_documents,
    prepare_text,
    set_aside,
)

LENGTH = 12


@pytest.fixture(scope="module", params=["tiny_bert", "tiny_roberta"])
def tokenizer(request):
    return load_tokenizer(str(request.getfixturevalue(request.param)))


@pytest.fixture
def pack(tokenizer, tmp_path):
    def pack(documents, across_documents, length=LENGTH):
        packed = pack_documents(
            documents, tokenizer, tmp_path, length=length, across_documents=across_documents
        )
        return packed, [packed[i] for i in range(len(packed))]

    return pack


def capacity(tokenizer, length=LENGTH):
    return length - len(tokenizer.prefix) - len(tokenizer.suffix)


def pieces_of(tokenizer, documents):
    return [
        encoding.ids
        for encoding in tokenizer.tokenizer.encode_batch(documents, add_special_tokens=False)
    ]


def test_across_documents_the_sequences_are_all_pieces_in_order_with_separators(pack, tokenizer):
    documents = make_text()
    packed, sequences = pack(documents, across_documents=True)
    separator = tokenizer.suffix[-1]
    expected = [piece for ids in pieces_of(tokenizer, documents) for piece in [*ids, separator]]
    assert np.concatenate([one.ids for one in sequences]).tolist() == expected
    assert packed.documents == len(documents)
    assert packed.pieces == len(expected) - len(documents)


def test_across_documents_only_the_last_sequence_is_not_full(pack, tokenizer):
    _, sequences = pack(make_text(), across_documents=True)
    lengths = [len(one.ids) for one in sequences]
    assert set(lengths[:-1]) == {capacity(tokenizer)}
    assert 0 < lengths[-1] <= capacity(tokenizer)


def test_within_documents_each_is_cut_into_as_few_equal_parts_as_possible(pack, tokenizer):
    documents = make_text()
    packed, sequences = pack(documents, across_documents=False)
    rest = iter(sequences)
    for ids in pieces_of(tokenizer, documents):
        parts = [next(rest).ids for _ in range(-(-len(ids) // capacity(tokenizer)))]
        assert np.concatenate(parts).tolist() == ids
        lengths = [len(part) for part in parts]
        assert max(lengths) - min(lengths) <= 1
    assert next(rest, None) is None
    assert packed.pieces == sum(len(one.ids) for one in sequences)


@pytest.mark.parametrize("across_documents", [True, False])
def test_a_word_starts_where_the_tokenizer_begins_one(pack, tokenizer, across_documents):
    document = "Chemotherapy-induced vómitos 500mg."
    _, [sequence] = pack([document], across_documents, length=64)
    encoding = tokenizer.tokenizer.encode(document, add_special_tokens=False)
    words = encoding.word_ids
    expected = [i == 0 or words[i] != words[i - 1] for i in range(len(words))]
    assert sequence.word_starts.tolist() == expected + [True] * across_documents
    assert sum(expected) < len(expected)


def test_special_tokens_that_stand_in_a_text_are_words_of_their_own(pack, tokenizer):
    mask = tokenizer.tokenizer.id_to_token(tokenizer.mask)
    _, [sequence] = pack([f"a{mask}{mask}a"], across_documents=False)
    assert sequence.word_starts.tolist() == [True] * len(sequence.ids)


def test_documents_without_a_piece_do_not_count(pack, tokenizer):
    for across_documents in (True, False):
        packed, _ = pack(["", "cancer", ""], across_documents)
        assert packed.documents == 1
    assert len(pack([], across_documents=True)[0]) == 0


def test_lengths_are_those_of_the_sequences(pack):
    packed, sequences = pack(make_text(), across_documents=False)
    indices = np.array([3, 0, len(packed) - 1])
    assert packed.lengths(indices).tolist() == [len(sequences[i].ids) for i in indices]


def test_documents_set_aside_and_the_others_are_all_documents():
    documents = make_text(50)
    others, chosen = set_aside(iter(documents), 7, seed=1)
    assert sorted([*others, *chosen]) == sorted(documents)
    assert len(chosen) == 7


def test_each_document_is_set_aside_equally_often():
    counts = Counter()
    for seed in range(3000):
        others, chosen = set_aside(map(str, range(10)), 3, seed)
        list(others)
        counts.update(chosen)
    # The standard deviation of this binomial distribution with 3000 trials is 25.
    assert all(abs(counts[str(i)] - 900) < 130 for i in range(10))


def test_no_more_documents_are_held_than_are_set_aside():
    read = []
    others, _ = set_aside((read.append(i) or str(i) for i in range(100)), 5, seed=0)
    for given, _ in enumerate(others, start=1):
        assert len(read) - given <= 5


def prepare(recipe, tokenizer):
    training, validation = prepare_text(recipe, tokenizer, recipe.output.work / "text")
    return training, validation


def documents_of(packed):
    return Counter(tuple(packed[i].ids.tolist()) for i in range(len(packed)))


def test_documents_for_validation_are_not_trained_on(tokenizer, tmp_path):
    recipe = make_recipe(tmp_path, packing__across_documents=False, packing__length=200)
    training, validation = prepare(recipe, tokenizer)
    expected = Counter(map(tuple, pieces_of(tokenizer, make_text())))
    assert documents_of(training) + documents_of(validation) == expected
    assert validation.documents == recipe.text.validation


def test_the_seed_chooses_the_documents_for_validation(tokenizer, tmp_path):
    settings = {"packing__across_documents": False, "packing__length": 200}
    chosen = [
        documents_of(prepare(make_recipe(tmp_path, training__seed=seed, **settings), tokenizer)[1])
        for seed in (0, 0, 1)
    ]
    assert chosen[0] == chosen[1] != chosen[2]


def test_validation_may_be_text_of_its_own(tokenizer, tmp_path):
    own = write_text(tmp_path / "own.txt", ["lung cancer and fever"])
    recipe = make_recipe(
        tmp_path,
        text__validation=str(own),
        packing__across_documents=False,
        packing__length=200,
    )
    training, validation = prepare(recipe, tokenizer)
    assert training.documents == len(make_text())
    assert list(documents_of(validation)) == [
        tuple(pieces_of(tokenizer, ["lung cancer and fever"])[0])
    ]


def test_a_second_run_takes_what_the_first_has_packed(tokenizer, tmp_path, monkeypatch):
    recipe = make_recipe(tmp_path)
    first = prepare(recipe, tokenizer)
    monkeypatch.setattr(packing, "read_documents", None)
    second = prepare(recipe, tokenizer)
    assert [documents_of(one) for one in first] == [documents_of(one) for one in second]


def test_packing_that_was_cut_short_is_done_again(tokenizer, tmp_path, monkeypatch):
    recipe = make_recipe(tmp_path)

    def fail(*args, **settings):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(packing, "pack_documents", fail)
        with pytest.raises(KeyboardInterrupt):
            prepare(recipe, tokenizer)
    training, validation = prepare(recipe, tokenizer)
    assert training.documents + validation.documents == len(make_text())


def test_the_fingerprint_follows_content_tokenizer_and_packing(tokenizer, tmp_path):
    def make(**settings):
        return fingerprint(make_recipe(tmp_path, **settings), tokenizer)

    first = make()
    moved = write_text(tmp_path / "moved.txt")
    assert make(paths__text=str(moved)) == first
    assert make(training__learning_rate=0.5) == first
    other = write_text(tmp_path / "other.txt", make_text(41))
    changed = [
        make(paths__text=str(other)),
        make(packing__length=30),
        make(packing__across_documents=False),
        make(text__validation=7),
        make(training__seed=3),
        make(text__validation=str(other)),
    ]
    assert len({first, *changed}) == 1 + len(changed)


def test_text_that_leaves_nothing_to_train_on_is_refused_with_its_line(tokenizer, tmp_path):
    recipe = make_recipe(tmp_path, text__validation=40)
    with pytest.raises(BiomedError, match=r"recipe.cfg:\d+: text.paths: leaves no document"):
        prepare(recipe, tokenizer)
    assert not recipe.output.work.exists()
