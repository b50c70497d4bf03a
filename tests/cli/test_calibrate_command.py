"""`spacy biomed calibrate`, and the confidence that `annotate` prints."""

import re

import pytest
import spacy
from commands import refuse, run
from spacy.tokens import DocBin, Span

from spacy_biomed.annotations import AnnotationScope, set_scope
from spacy_biomed.pipeline.checksums import CHECKSUMS


@pytest.fixture(scope="module")
def calibrated(tiny_pipeline, tiny_corpus, tmp_path_factory):
    """A calibrated copy, and what the command printed."""
    output = tmp_path_factory.mktemp("calibrated") / "pipeline"
    arguments = ["--dev", tiny_corpus / "dev.spacy", "--target-recall", "1"]
    return output, run("calibrate", tiny_pipeline, output, *arguments)


def contents(path):
    files = (file for file in path.rglob("*") if file.is_file() and file.suffix != ".json")
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def test_only_the_settings_of_the_component_differ(calibrated, tiny_pipeline):
    before, after = contents(tiny_pipeline), contents(calibrated[0])
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {"biomed_ner/cfg", CHECKSUMS}
    assert set(after) == {*before, CHECKSUMS}


def test_recall_and_precision_of_each_label_are_printed(calibrated, tiny_corpus):
    output, printed = calibrated
    nlp = spacy.load(output)
    gold = [
        ent.label_
        for doc in DocBin().from_disk(tiny_corpus / "dev.spacy").get_docs(nlp.vocab)
        for ent in doc.ents
    ]
    rows = [re.split(" *[│┃|] *", line) for line in printed.splitlines()]
    found = {
        row[1]: row for row in rows if len(row) > 8 and row[1] in nlp.get_pipe("biomed_ner").labels
    }
    assert set(found) == set(gold)
    for label, row in found.items():
        assert row[2] == str(gold.count(label))
        assert row[3] == "100.0"
        assert float(row[5]) >= float(row[4])
        assert (row[9] == "not reached") is (float(row[5]) < 100)
    assert "biomed_ner: confidence is calibrated on " in printed
    assert nlp.get_pipe("biomed_ner").cfg["target_recall"] == {"*": 1.0}


def test_a_corpus_in_which_nothing_is_found_calibrates_nothing(tiny_pipeline, tmp_path):
    """An earlier calibration would be lost."""
    doc = spacy.blank("en")("Aspirin for cancer.")
    doc.set_ents([Span(doc, 0, 1, "OTHER")])
    set_scope(doc, AnnotationScope(frozenset({"OTHER"})))
    DocBin(docs=[doc], store_user_data=True).to_disk(tmp_path / "dev.spacy")
    arguments = ["--dev", tmp_path / "dev.spacy"]
    assert "has nothing that a biomed_ner" in refuse(
        "calibrate", tiny_pipeline, tmp_path / "out", *arguments
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_annotate_says_whether_confidence_is_calibrated(calibrated, tiny_pipeline):
    line = "the confidence of biomed_ner is not calibrated: see `spacy biomed calibrate`"
    assert line in run("annotate", tiny_pipeline, "Aspirin for cancer.")
    assert line not in run("annotate", calibrated[0], "Aspirin for cancer.")


@pytest.mark.slow
def test_annotate_leaves_out_entities_of_a_lower_confidence(calibrated, tiny_corpus):
    path, _ = calibrated
    nlp = spacy.load(path)
    corpus = DocBin().from_disk(tiny_corpus / "dev.spacy")
    [text, *_] = [doc.text for doc in corpus.get_docs(nlp.vocab) if nlp(doc.text).ents]
    confidences = sorted(ent._.confidence for ent in nlp(text).ents)
    for least, count in ((confidences[-1], 1), (1.0, 0), (0.0, len(confidences))):
        printed = run("annotate", path, text, "--min-confidence", str(least))
        assert printed.count(" [") == count
