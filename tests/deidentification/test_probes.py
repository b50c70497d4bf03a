"""Personal data as people write it, and what only looks like it, through the shipped pipeline."""

from pathlib import Path

import pytest
import spacy

from spacy_biomed.bulk.deidentification import Deidentification

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
MOST_THAT_STAY = 10


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.load(ROOT / "assets" / "pipelines" / "es_clinical_ner")
    Deidentification(mode="tags").prepare(nlp)
    return nlp


def read(name):
    """The lines of a file of probes: a note, and what comes after the arrow."""
    for line in (FOLDER / name).read_text(encoding="utf8").splitlines():
        if line and not line.startswith("#"):
            note, _, rest = line.partition(" => ")
            note = note.replace("\\n", "\n").replace("\\t", "\t")
            for code in ("00ad", "200b", "2060", "00a0", "2011", "0301", "0430"):
                note = note.replace(f"\\u{code}", chr(int(code, 16)))
            yield note, rest.replace("\\n", "\n").split(" ; ")


def test_at_most_ten_probes_stay(nlp):
    probes = list(read("probes.txt"))
    assert len(probes) >= 146
    docs = nlp.pipe([note for note, _ in probes])
    stay = [
        (doc.text, secret)
        for doc, (_, secrets) in zip(docs, probes, strict=True)
        for secret in secrets
        if secret in doc._.deidentified.text
    ]
    assert len(stay) <= MOST_THAT_STAY, stay


def test_what_only_looks_like_personal_data_stays(nlp):
    for note, stays in read("harmless.txt"):
        text = nlp(note)._.deidentified.text
        for one in stays:
            assert one in text, note
