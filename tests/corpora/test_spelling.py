"""Annotations whose text is a normal form of what they cover stay where they are."""

import json
import unicodedata

import pytest

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.repairs import keeping_log
from spacy_biomed.formats.spelling import reads_as

SAME = [
    ("TNF-α", "TNF-a"),
    ("TNF-α", "TNF-alpha"),
    ("TNFΑ", "tnf alpha"),
    ("IL-1β", "IL-1b"),
    ("IL-1ß", "IL-1β"),
    ("IFN‐γ", "IFN-g"),
    ("anti‑TNF", "anti-TNF"),
    ("Mg²⁺", "Mg2+"),
    ("CO₂", "CO2"),
    ("ﬁbrosis", "fibrosis"),
    ("naïve", "naive"),
    ("Sjögren", "Sjogren"),
    ("Crohn’s", "Crohn's"),
    ("5 μm", "5 um"),
    ("5 µg", "5 μg"),
    ("Løgren", "Logren"),
    ("Straße", "Strasse"),
    ("Müller-Jürß", "Mueller-Juerss"),
    ("ÖSTERREICH", "OESTERREICH"),
    ("Ørsted Åland", "Oersted Aaland"),
    ("≈5", "~5"),
    ("ＢＲＣＡ１", "BRCA1"),
    ("½ tablet", "1/2 tablet"),
    ("a\u00adspirin", "aspirin"),
    ("as\u200bpirin", "aspirin"),
    ("10 × 5", "10 x 5"),
    ("≥5", ">=5"),
    ("p<5", "p&lt;5"),
    ("náusea", unicodedata.normalize("NFD", "náusea")),
    (unicodedata.normalize("NFD", "náusea"), "náusea"),
    ("TNF-α", "TNF-?"),
    ('"TATA" box', " TATA  box"),
    ("Sjögren's", "Sjogren''s"),
]
OTHER = [
    ("TNF-α", "TNF-β"),
    ("IL-1β", "IL-2b"),
    ("Mg²⁺", "Mg3+"),
    ("naïve", "nave"),
    ("Müller", "Meller"),
    ("α", "?"),
    ("\u200b", ""),
]


@pytest.mark.parametrize(("text", "covered"), SAME)
def test_a_normal_form_reads_as_the_text(text, covered):
    assert reads_as(text, covered)


@pytest.mark.parametrize(("text", "covered"), OTHER)
def test_another_word_does_not(text, covered):
    assert not reads_as(text, covered)


def read(format, path):
    with keeping_log("stop") as log:
        (document,) = read_documents(format, [path])
    found = [(mention.start, mention.read(document.text)) for mention in document.mentions]
    return found, [change.kind for change in log.changes]


@pytest.mark.parametrize(("text", "covered"), SAME)
def test_a_mention_of_pubtator_is_kept_at_its_offsets(tmp_path, text, covered):
    lines = ["1|t|Of mice", f"1|a|It binds {text} here.", f"1\t17\t{17 + len(text)}\t{covered}\tG"]
    (tmp_path / "a.pubtator").write_text("\n".join(lines), encoding="utf8")
    assert read("pubtator", tmp_path) == ([(17, text)], ["spelt otherwise"])


@pytest.mark.parametrize(("text", "covered"), SAME)
def test_a_mention_of_bioc_is_kept_at_its_offsets(tmp_path, text, covered):
    annotation = {
        "id": "T1",
        "infons": {"type": "G"},
        "text": covered,
        "locations": [{"offset": 9, "length": len(text)}],
    }
    passage = {"offset": 0, "text": f"It binds {text} here.", "annotations": [annotation]}
    content = {"documents": [{"id": "1", "passages": [passage]}]}
    (tmp_path / "a.json").write_text(json.dumps(content), encoding="utf8")
    assert read("bioc", tmp_path) == ([(9, text)], ["spelt otherwise"])


def write_brat(folder, text, *covered):
    """Write words with the offsets of the composed or decomposed text that is annotated."""
    lines = [f"T{i}\tD {start} {end}\t{word}" for i, (start, end, word) in enumerate(covered, 1)]
    (folder / "a.txt").write_text(text, encoding="utf8")
    (folder / "a.ann").write_text("\n".join(lines), encoding="utf8")


def test_a_decomposed_brat_text_keeps_its_offsets(tmp_path):
    text = unicodedata.normalize("NFD", "El niño presentó náuseas y cefalea.")
    word, last = unicodedata.normalize("NFD", "náuseas"), "cefalea"
    start, end = text.index(word), text.index(last)
    write_brat(tmp_path, text, (start, start + 8, "náuseas"), (end, end + 7, last))
    found, changes = read("brat", tmp_path)
    assert found == [(start, word), (end, last)]
    assert changes == ["spelt otherwise"]


def test_brat_offsets_may_count_composed_characters(tmp_path):
    text = "Él está así: áéíóú. " * 12 + "Presentó náuseas."
    start = text.index("náuseas")
    decomposed, word = (unicodedata.normalize("NFD", one) for one in (text, "náuseas"))
    write_brat(tmp_path, decomposed, (start, start + 7, "náuseas"))
    (found,), changes = read("brat", tmp_path)
    assert found == (decomposed.index(word), word)
    assert set(changes) <= {"spelt otherwise"}


def test_a_moved_mention_ends_after_its_last_accent(tmp_path):
    text = unicodedata.normalize("NFD", "Un tumor de café.")
    write_brat(tmp_path, text, (10, 14, "café"))
    assert read("brat", tmp_path)[0] == [(12, unicodedata.normalize("NFD", "café"))]


def test_conversion_counts_what_is_spelt_otherwise(tmp_path):
    (tmp_path / "in").mkdir()
    lines = ["1|t|TNF-α and IL-1β", "1|a|None.", "1\t0\t5\tTNF-a\tG", "1\t10\t15\tIL-1b\tG"]
    (tmp_path / "in" / "train.pubtator").write_text("\n".join(lines), encoding="utf8")
    convert_corpus("mine", tmp_path / "in", tmp_path / "out", format="pubtator")
    written = json.loads((tmp_path / "out" / "conversion.json").read_text(encoding="utf8"))
    assert written["counts"] == {"spelt otherwise": 2}
