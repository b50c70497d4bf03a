"""The included pipelines: small, complete, and with the documented scores on real text.

Each is there twice: in int8, and below it in PyTorch, for training.
"""

import json
import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest
import spacy
import torch
from browser import CHROMIUM, browsing
from safetensors.torch import load_file
from spacy.training import Example
from without_training import WITHOUT_TRAINING, run_code

from spacy_biomed.cli import app
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.packaging.building import plan
from spacy_biomed.packaging.pipeline_recipe import read_pipeline_recipe
from spacy_biomed.training.updating import create_update

REPOSITORY = Path(__file__).parents[1]
PIPELINES = REPOSITORY / "assets" / "pipelines"
NAMES = ["en_biomed_ner", "en_clinical_deid", "es_clinical_ner"]
NOTE = "Gefitinib 250 mg, Mary Smith, 64 años."

# Number of scored documents of a test part, and tolerance of their F1.
DOCUMENTS, CHANCE = 60, 0.05


@pytest.fixture(scope="module", params=[*NAMES, *(f"{name}/trainable" for name in NAMES)])
def pipeline(request):
    return PIPELINES / request.param


def test_a_pipeline_is_small(pipeline):
    size = sum(
        path.stat().st_size
        for path in pipeline.rglob("*")
        if path.is_file() and path.relative_to(pipeline).parts[0] != "trainable"
    )
    most = {"en_clinical_deid": 30_000_000, "en_clinical_deid/trainable": 50_000_000}
    assert size <= most.get(pipeline.relative_to(PIPELINES).as_posix(), 14_000_000)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_trained_further_has_weights_in_half_precision(name):
    encoder = PIPELINES / name / "trainable" / "biomed_transformer" / "encoder"
    weights = load_file(encoder / "model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float16}


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_of_a_pipeline_have_the_same_components_and_labels(name):
    ours, trainable = (
        json.loads((PIPELINES / form / "meta.json").read_text(encoding="utf8"))
        for form in (name, f"{name}/trainable")
    )
    for key in ("name", "version", "pipeline", "labels", "spacy_biomed", "sources"):
        assert ours[key] == trainable[key], key


@pytest.mark.parametrize("name", NAMES)
def test_a_pipeline_runs_without_pytorch(name):
    code = f"nlp = spacy.load({str(PIPELINES / name)!r}); print(len(nlp({NOTE!r}).ents))"
    assert int(run_code(WITHOUT_TRAINING + code)) > 0


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", NAMES)
def test_processes_that_are_spawned_find_what_one_finds(name, tmp_path):
    """Windows and macOS spawn them; the extensions of the tokens have to travel, too."""
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys, spacy\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.set_start_method('spawn')\n"
        "    nlp = spacy.load(sys.argv[1])\n"
        "    texts = ['Sin metástasis. Niega fiebre.', 'Con tos, sin asma.']\n"
        "    if nlp.lang == 'en':\n"
        "        texts = ['Mary Smith denies asthma.', 'No diabetes, but cough: Mary Smith, 64.']\n"
        "    found = [\n"
        "        [[(ent.text, ent._.has('is_negated') and ent._.is_negated)\n"
        "          for ent in doc.ents] for doc in docs]\n"
        "        for docs in (nlp.pipe(texts), nlp.pipe(texts, n_process=2, batch_size=1))\n"
        "    ]\n"
        "    assert found[0] == found[1] and any(found[0]), found\n",
        encoding="utf8",
    )
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_TRAINING, encoding="utf8")
    command = [sys.executable, str(script), str(PIPELINES / name)]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_training_goes_on_from_the_pytorch_form_of_an_included_pipeline(name, convert_starter):
    corpus = {"en_biomed_ner": "starter_en", "en_clinical_deid": "starter_deid"}.get(
        name, "starter_es"
    )
    folder = convert_starter(corpus).output
    update = create_update(folder, source=str(PIPELINES / name))
    assert update.config["vars"]["source"] == str(PIPELINES / name / "trainable")


def test_the_card_names_every_corpus_with_a_licence(pipeline):
    sources = json.loads((pipeline / "meta.json").read_text())["sources"]
    corpora = [one for one in sources if "encoder: " not in one["name"]]
    assert len(corpora) >= 2
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


@pytest.mark.slow(least=1)
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
@pytest.mark.parametrize("form", ["", "trainable"])
def test_a_pipeline_finds_what_a_sentence_says(name, text, expected, form):
    doc = spacy.load(PIPELINES / name / form)(text)
    assert expected <= {(ent.text, ent.label_) for ent in doc.ents}


@pytest.mark.slow(least=2)
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
    test = convert_staged(name, corpus, corpora_dir, tmp_path, monkeypatch)
    check_scores(name, test, measured)


@pytest.mark.parametrize(
    ("name", "corpus", "measured"),
    [
        ("en_biomed_ner", "starter_clinical", {"DISEASE": 0.9, "CHEMICAL": 0.98}),
        ("es_clinical_ner", "starter_clinical_es", {"DIAGNOSTICO": 0.85, "PROCEDIMIENTO": 0.83}),
    ],
)
def test_a_pipeline_reads_clinical_notes(convert_starter, name, corpus, measured):
    check_scores(name, convert_starter(corpus).output / "test.spacy", measured)


def check_scores(name, test, measured):
    """Compare the F1 of the first documents of a test part with what was measured on them."""
    nlp = spacy.load(PIPELINES / name)
    docs = islice(read_docs(test, nlp.vocab), DOCUMENTS)
    scores = nlp.evaluate([Example(nlp.make_doc(doc.text), doc) for doc in docs])
    found = {label: scores["ents_per_type"][label]["f"] for label in measured}
    assert all(found[label] > f - CHANCE for label, f in measured.items()), found


def convert_staged(name, corpus, corpora_dir, tmp_path, monkeypatch):
    """Convert a corpus with the command of a pipeline's recipe, and return its test part."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / corpus).symlink_to(corpora_dir(corpus))
    recipe = read_pipeline_recipe(REPOSITORY / "configs" / "pipelines" / f"{name}.cfg")
    commands = plan(recipe, Path("build"))
    command = next(one for one in commands if one.words[1:3] == ("convert", corpus))
    app(command.words[1:], standalone_mode=False)
    return command.outputs[0] / "test.spacy"


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize(
    ("name", "corpus"), [("en_biomed_ner", "ncbi_disease_ids"), ("es_clinical_ner", "meddocan")]
)
def test_a_browser_shows_the_errors_on_a_real_test_part(
    corpora_dir, tmp_path, monkeypatch, name, corpus
):
    test = convert_staged(name, corpus, corpora_dir, tmp_path, monkeypatch)
    page = tmp_path / "errors.html"
    words = ["errors", str(PIPELINES / name), str(test), str(page)]
    app(words, standalone_mode=False)
    with browsing(tmp_path / "profile") as browser:
        browser.open(page.as_uri())
        shown = "document.querySelectorAll('article:not([hidden])').length"
        every = browser.evaluate(shown)
        assert every > 20
        assert browser.evaluate("shown.value") == f"{every} of {every}"
        assert browser.evaluate("document.body.scrollWidth <= window.innerWidth")
        browser.evaluate("error.value = 'missed'; error.dispatchEvent(new Event('change')); null")
        assert 0 < browser.evaluate(shown) < every
        assert len([e for e in browser.events if e["method"] == "Network.requestWillBeSent"]) == 1
