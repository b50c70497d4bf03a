"""`spacy biomed corpora`: the table, one corpus, filters, JSON."""

import json

from commands import run

from spacy_biomed.corpora.corpus_catalogue import all_corpora


def test_columns_of_the_table() -> None:
    header = " ".join(run("corpora", columns=120).splitlines()[1].split())
    assert header == "Name Task Lang Labels Splits Metric Licence Access From"


def test_filters_choose_rows() -> None:
    printed = run("corpora", "--task", "ner", "--language", "ES", "--json")
    names = {entry["name"] for entry in json.loads(printed)}
    published = {"pharmaconer", "cantemist", "ictusnet"}
    starters = {"starter_es", "starter_clinical_es"}
    assert names == {*starters, *published, *(f"{name}_sentences" for name in published)}


def test_json_has_every_field_of_every_corpus() -> None:
    entries = json.loads(run("corpora", "--json"))
    assert len(entries) == len(all_corpora())
    assert entries[0]["splits"]["dev"] == ["devel.tsv"]


def test_a_corpus_under_an_agreement_shows_where_its_files_go() -> None:
    shown = " ".join(run("corpora", "i2b2-2010", columns=120).split())
    assert "Access data use agreement" in shown
    assert "under assets/i2b2_2010/" in shown


def test_one_corpus_shows_all_that_is_known() -> None:
    shown = run("corpora", "NCBI-Disease", columns=120)
    for text in ("CC BY 4.0", "train.tsv", "devel.tsv", "787 mentions", "exact match", "columns"):
        assert text in shown
    assert "df0df02fae6dbb87d88ffcf323b9096528f06f84" in shown
    assert json.loads(run("corpora", "NCBI-Disease", "--json"))["name"] == "ncbi_disease"
