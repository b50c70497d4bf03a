"""Duplicates of sentences and documents."""

import random
import re
import sqlite3

import numpy as np
import pytest

from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.language_models.deduplication import (
    DuplicateIndex,
    NearDuplicates,
    Sketch,
    Sketcher,
    hash_text,
    normalize,
)

SIGNATURE = np.arange(128, dtype="<u4")


@pytest.fixture
def index(tmp_path):
    index = DuplicateIndex(tmp_path / "seen", similarity=0.8)
    yield index
    index.close()


@pytest.fixture(scope="module")
def sketcher():
    return Sketcher(NearDuplicates())


def make_words(count: int, seed: int = 0) -> list[str]:
    return [f"w{number}" for number in random.Random(seed).sample(range(10**6), count)]


def similarity(one: Sketch, other: Sketch) -> float:
    values = [np.frombuffer(sketch.signature, dtype="<u4") for sketch in (one, other)]
    return float(np.mean(values[0] == values[1]))


def share_bands(one: Sketch, other: Sketch) -> bool:
    return not set(one.bands).isdisjoint(other.bands)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("No METASTASIS was found.", "no metastasis was found"),
        ("  No\tmetastasis\u00a0was\nfound ", "no metastasis was found"),
        ("«Metástasis» — (no).", "metastasis no"),
        ("Año, año; ÑANDÚ", "ano ano nandu"),
        ("re\ufb01ll the anti-viral dose", "refill the anti viral dose"),
        ("10 μm and 10 µm", "10 μm and 10 μm"),
        ("Straße", "strasse"),
        ("?!", ""),
    ],
)
def test_what_makes_no_difference_is_folded(text, same):
    assert normalize(text) == same


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Sodium was 142.", "Sodium was 124."),
        ("It was 1.5 mg.", "It was 15 mg."),
        ("HER2 +", "HER2"),
        ("p < 0.05", "p > 0.05"),
        ("metastasis", "metastases"),
    ],
)
def test_what_changes_a_finding_is_kept(one, other):
    assert normalize(one) != normalize(other)


def test_keys_are_integers_that_sqlite_can_hold():
    keys = {hash_text(str(number)) for number in range(1000)}
    assert len(keys) == 1000
    assert min(keys) < 0 < max(keys)
    assert all(-(2**63) <= key < 2**63 for key in keys)
    assert hash_text("a") == hash_text("a")


def test_the_last_source_of_a_text_is_told(index):
    assert index.last_source("sentence", 7, source=0) is None
    assert index.last_source("sentence", 7, source=0) == 0
    assert index.last_source("sentence", 7, source=2) == 0
    assert index.last_source("sentence", 7, source=2) == 2
    assert index.last_source("sentence", 8, source=2) is None


def test_sentences_and_documents_are_told_apart(index):
    assert index.last_source("sentence", 7, source=0) is None
    assert index.last_source("document", 7, source=0) is None


def test_many_keys_lie_on_disk(tmp_path):
    index = DuplicateIndex(tmp_path / "seen", similarity=0.8)
    for key in range(20_000):
        index.last_source("sentence", hash_text(str(key)), source=0)
    index.connection.execute("COMMIT")
    index.close()
    assert (tmp_path / "seen").stat().st_size > 20_000 * 8
    with sqlite3.connect(tmp_path / "seen") as connection:
        assert connection.execute("SELECT COUNT(*) FROM sentence").fetchone() == (20_000,)


def test_equal_texts_have_equal_sketches(sketcher):
    text = " ".join(make_words(100))
    assert sketcher.sketch(text) == sketcher.sketch(text)
    assert Sketcher(NearDuplicates()).sketch(text) == sketcher.sketch(text)


def test_the_similarity_of_sketches_is_about_that_of_the_sets_of_shingles(sketcher):
    words = make_words(1004)
    for cut in (100, 300, 500):
        # 1000 shingles; the other text has the same without the last `cut`.
        one, other = sketcher.sketch(" ".join(words)), sketcher.sketch(" ".join(words[:-cut]))
        expected = (1000 - cut) / 1000
        assert similarity(one, other) == pytest.approx(expected, abs=0.1)


def test_order_of_words_makes_shingles(sketcher):
    words = make_words(200)
    one = sketcher.sketch(" ".join(words))
    assert similarity(one, sketcher.sketch(" ".join(reversed(words)))) < 0.05


def test_long_documents_are_hashed_in_parts_without_a_difference(sketcher, monkeypatch):
    text = " ".join(make_words(1000))
    whole = sketcher.sketch(text)
    monkeypatch.setattr("spacy_biomed.language_models.deduplication._SHINGLES_AT_A_TIME", 7)
    assert sketcher.sketch(text) == whole


def test_similar_documents_share_a_band_and_different_ones_do_not(sketcher):
    near = far = 0
    for seed in range(50):
        words = make_words(300, seed)
        one = sketcher.sketch(" ".join(words))
        near += share_bands(one, sketcher.sketch(" ".join(words[:-15])))  # similarity 0.95
        far += share_bands(one, sketcher.sketch(" ".join([*words[:60], *make_words(240, ~seed)])))
    assert near == 50
    assert far <= 1


def test_a_text_shorter_than_a_shingle_has_no_sketch(sketcher):
    assert sketcher.sketch("one two three four") is None
    assert sketcher.sketch("one two three four five") is not None
    assert Sketcher(NearDuplicates(shingle_words=4)).sketch("one two three four") is not None


def test_settings_decide_the_bands():
    sketch = Sketcher(NearDuplicates(similarity=0.5, permutations=64)).sketch("a b c d e f")
    assert len(sketch.signature) == 4 * 64
    low, high = (Sketcher(NearDuplicates(similarity=value)) for value in (0.5, 0.9))
    assert low.rows < high.rows


def test_a_document_is_near_to_one_that_was_added(index):
    index.add_near(Sketch(SIGNATURE.tobytes(), (1, 2)), source=0)
    # At least 0.8 of the values, which means 103 of 128.
    close, apart = SIGNATURE.copy(), SIGNATURE.copy()
    close[103:] = apart[102:] = 999
    assert index.find_near(Sketch(close.tobytes(), (2, 3)), source=1) == 0
    assert index.find_near(Sketch(apart.tobytes(), (2, 3)), source=1) is None


def test_only_documents_with_a_band_in_common_are_compared(index):
    index.add_near(Sketch(SIGNATURE.tobytes(), (1, 2)), source=0)
    assert index.find_near(Sketch(SIGNATURE.tobytes(), (3, 4)), source=0) is None


def test_a_near_document_of_the_same_source_goes_first(index):
    for source in (0, 1, 2):
        index.add_near(Sketch(SIGNATURE.tobytes(), (1, 2)), source)
    assert index.find_near(Sketch(SIGNATURE.tobytes(), (1, 2)), source=1) == 1


def test_what_was_only_looked_for_is_not_remembered(index):
    sketch = Sketch(SIGNATURE.tobytes(), (1, 2))
    assert index.find_near(sketch, source=0) is None
    assert index.find_near(sketch, source=0) is None


def test_documents_from_one_mould_take_no_quadratic_time(index):
    seen = []
    index.connection.set_trace_callback(seen.append)
    for number in range(200):
        signature = (SIGNATURE + number).tobytes()
        sketch = Sketch(signature, (1, 2))
        assert index.find_near(sketch, source=0) is None
        seen.clear()
        index.add_near(sketch, source=0)
    index.find_near(Sketch((SIGNATURE + 1000).tobytes(), (1, 2)), source=0)
    assert sum("FROM near" in statement for statement in seen) <= 40


def test_without_datasketch_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("spacy_biomed.language_models.deduplication.find_spec", lambda name: None)
    with pytest.raises(BiomedError, match=re.escape(f"datasketch: {install_command('train')}")):
        Sketcher(NearDuplicates())
