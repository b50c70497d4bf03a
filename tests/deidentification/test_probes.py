"""Personal data as people write it, and what only looks like it, through the shipped pipelines."""

import re
from pathlib import Path

import pytest
import spacy

from spacy_biomed.bulk.deidentification import Deidentification

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent
# Strings that may stay in each file.
MOST_THAT_STAY = {"probes.txt": 2, "more_probes.txt": 40, "english_probes.txt": 11}


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
            yield decode(note), decode(rest).split(" ; ")


def decode(text):
    text = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)
    return text.replace("\\n", "\n").replace("\\t", "\t")


@pytest.fixture(scope="module")
def english():
    return spacy.load(ROOT / "assets" / "pipelines" / "en_clinical_deid")


def deidentify_probes(name, nlp, english):
    """Each note of a file, the strings that are marked in it, and what becomes of it."""
    probes = list(read(name))
    docs = (english if name.startswith("english") else nlp).pipe([note for note, _ in probes])
    return [
        (doc.text, marked, doc._.deidentified.text)
        for doc, (_, marked) in zip(docs, probes, strict=True)
    ]


@pytest.mark.parametrize("name", MOST_THAT_STAY)
def test_few_probes_stay(name, nlp, english):
    probes = deidentify_probes(name, nlp, english)
    assert len(probes) >= 90
    stay = [(note, one) for note, marked, after in probes for one in marked if one in after]
    assert len(stay) <= MOST_THAT_STAY[name], stay


@pytest.mark.parametrize(("name", "most"), [("harmless.txt", 9), ("english_harmless.txt", 12)])
def test_what_only_looks_like_personal_data_stays(name, most, nlp, english):
    probes = deidentify_probes(name, nlp, english)
    assert len(probes) >= 40
    eaten = [(note, one) for note, marked, after in probes for one in marked if one not in after]
    assert len(eaten) <= most, eaten
