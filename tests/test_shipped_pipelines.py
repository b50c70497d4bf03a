"""The included pipelines: small, complete, and with the documented scores on real text."""

import json
import re
import shlex
from itertools import islice
from pathlib import Path

import pytest
import spacy
import srsly
import torch
from safetensors.torch import load_file
from spacy.training import Example

from spacy_biomed.cli import app
from spacy_biomed.training.corpus import read_docs

REPOSITORY = Path(__file__).parents[1]
PIPELINES = REPOSITORY / "assets" / "pipelines"
PROJECT = srsly.read_yaml(REPOSITORY / "project.yml")
NAMES = ["en_biomed_ner", "es_clinical_ner"]

# Number of scored documents of a test part, and tolerance of their F1.
DOCUMENTS, CHANCE = 60, 0.05


@pytest.fixture(scope="module", params=NAMES)
def pipeline(request):
    return PIPELINES / request.param


def test_a_pipeline_is_small_and_its_weights_are_in_half_precision(pipeline):
    size = sum(path.stat().st_size for path in pipeline.rglob("*") if path.is_file())
    assert size <= 14_000_000
    weights = load_file(pipeline / "biomed_transformer" / "encoder" / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float16}


def test_the_card_names_every_corpus_with_a_licence(pipeline):
    sources = json.loads((pipeline / "meta.json").read_text())["sources"]
    corpora = [one for one in sources if not one["name"].startswith("encoder: ")]
    assert len(corpora) >= 4
    card = (pipeline / "README.md").read_text()
    for corpus in corpora:
        assert corpus["license"] and corpus["license"] in card and corpus["name"] in card


def test_nothing_in_a_pipeline_names_a_place_on_the_machine_that_made_it(pipeline):
    for name in ("config.cfg", "meta.json", "README.md"):
        text = (pipeline / name).read_text()
        assert not re.search(r'["(= ]/(?!/)\w', text), name


def test_a_pipeline_keeps_no_words_of_the_texts_in_its_vocabulary(pipeline):
    strings = json.loads((pipeline / "vocab" / "strings.json").read_text())
    assert strings == sorted(spacy.load(pipeline).get_pipe("biomed_ner").labels)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "en_biomed_ner",
            "Gefitinib inhibits EGFR in patients with lung cancer, and in mice without the T790M "
            "mutation.",
            {
                ("Gefitinib", "CHEMICAL"),
                ("EGFR", "GENE"),
                ("patients", "SPECIES"),
                ("lung cancer", "DISEASE"),
                ("mice", "SPECIES"),
                ("T790M", "VARIANT"),
            },
        ),
        (
            "es_clinical_ner",
            "Paciente: Juana Robles Ortega, 64 años. Ingresó el 12/03/2019 con adenocarcinoma de "
            "colon; tratada con capecitabina.",
            {
                ("Juana Robles Ortega", "NOMBRE"),
                ("64 años", "EDAD"),
                ("12/03/2019", "FECHA"),
                ("adenocarcinoma", "MORFOLOGIA_NEOPLASIA"),
                ("capecitabina", "FARMACO"),
            },
        ),
    ],
)
def test_a_pipeline_finds_what_a_sentence_says(name, text, expected):
    doc = spacy.load(PIPELINES / name)(text)
    assert expected <= {(ent.text, ent.label_) for ent in doc.ents}


@pytest.mark.parametrize(
    ("name", "corpus", "measured"),
    [
        ("en_biomed_ner", "biored", {"GENE": 0.84, "DISEASE": 0.79, "SPECIES": 0.95}),
        ("en_biomed_ner", "nlm_gene", {"GENE": 0.87}),
        ("es_clinical_ner", "meddocan", {"NOMBRE": 0.98, "FECHA": 0.99, "LUGAR": 0.96}),
        ("es_clinical_ner", "pharmaconer", {"FARMACO": 0.88, "PROTEINA": 0.85}),
    ],
)
def test_a_pipeline_is_as_good_on_a_real_test_part(
    corpora_dir, tmp_path, monkeypatch, name, corpus, measured
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / corpus).symlink_to(corpora_dir(corpus))
    convert(corpus)
    nlp = spacy.load(PIPELINES / name)
    docs = islice(read_docs(Path("corpus/public") / corpus / "test.spacy", nlp.vocab), DOCUMENTS)
    scores = nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in docs])
    found = {label: scores["ents_per_type"][label]["f"] for label in measured}
    assert all(found[label] > f - CHANCE for label, f in measured.items()), found


def convert(corpus):
    """Convert a corpus with the workflow's command."""
    lines = [line for command in PROJECT["commands"] for line in command["script"]]
    (line,) = (line for line in lines if f" corpus/public/{corpus}" in line and " convert " in line)
    app(shlex.split(line)[4:], standalone_mode=False)
