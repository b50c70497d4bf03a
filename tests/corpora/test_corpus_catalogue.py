"""The corpus catalogue: who is in it, and the facts that other code and users rely on."""

import json
import os
from pathlib import Path

import pytest

from spacy_biomed.corpora.corpus_catalogue import all_corpora, find_corpus
from spacy_biomed.corpora.downloads import download_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats import medrqe, nli
from spacy_biomed.formats.registry import list_formats

_BESIDE = Path(__file__).parents[3] / "shared" / "corpora"
ARCHIVES = Path(os.environ.get("SPACY_BIOMED_CORPORA", _BESIDE))
# Corpora that the archives hold as the catalogue describes them.
STAGED = [
    "ncbi_disease",
    "bc5cdr",
    "jnlpba",
    "cantemist",
    "meddocan",
    "hoc",
    "chemprot",
    "medrqe",
    "sts",
    "biored",
    "nlm_gene",
    "s800",
    "pharmaconer",
    "bc5cdr_ids",
    "ncbi_disease_ids",
    "gnormplus",
    "bioid",
    "bionlp13pc",
    "bionlp11id",
    "quaero",
    "nubes",
]

IN_THE_PAPERS = [
    "BC5CDR",
    "JNLPBA",
    "NCBI-disease",
    "BC4CHEMD",
    "BC2GM",
    "LINNAEUS",
    "Species-800",
    "i2b2-2010",
    "i2b2-2012",
    "i2b2-2014",
    "HoC",
    "MedNLI",
    "ChemProt",
    "GAD",
    "EU-ADR",
    "DDI-2013",
    "i2b2-2010-RE",
    "n2c2-2018",
    "n2c2-2019",
    "ClinicalSTS",
    "MedRQE",
    "QUAERO",
    "ShARe/CLEF eHealth 2013",
    "PharmaCoNER",
    "CANTEMIST",
    "ICTUSnet",
    "BioASQ 7b",
]
PAPERS_OF = {
    1: 17,  # BC5CDR's two tasks are one corpus here
    2: 10,
    3: 8,
    4: 3,
    5: 7,
}


@pytest.mark.parametrize("name", IN_THE_PAPERS)
def test_every_corpus_of_the_papers_is_found_as_they_spell_it(name: str) -> None:
    assert find_corpus(name).papers


@pytest.mark.parametrize("name", ["MEDDOCAN", "starter_en", "starter_es", "starter-hallmarks"])
def test_meddocan_and_the_starters_are_there_too(name: str) -> None:
    assert find_corpus(name).papers == ()


@pytest.mark.parametrize(("paper", "count"), PAPERS_OF.items())
def test_each_paper_has_as_many_corpora_as_it_evaluates_on(paper: int, count: int) -> None:
    assert sum(paper in entry.papers for entry in all_corpora()) == count


def test_names_and_aliases_lead_to_one_entry_each() -> None:
    for entry in all_corpora():
        for name in (entry.name, entry.name.upper(), entry.name.replace("_", "-"), *entry.aliases):
            assert find_corpus(name) is entry


def test_an_unknown_name_gets_those_that_are_close() -> None:
    with pytest.raises(BiomedError, match="'ncbi_diseases'.* did you mean ncbi_disease") as error:
        find_corpus("ncbi_diseases")
    assert "\n" not in str(error.value)


def test_a_name_like_no_other_gets_the_command_that_lists_them() -> None:
    with pytest.raises(BiomedError, match="spacy biomed corpora.*your own with --format") as error:
        find_corpus("zzzz")
    assert "did you mean" not in str(error.value)


@pytest.mark.parametrize("entry", all_corpora(), ids=lambda entry: entry.name)
def test_every_entry_says_what_the_catalogue_is_asked_for(entry) -> None:
    for field in ("title", "task", "language", "metric", "licence", "source"):
        assert getattr(entry, field), field
    assert entry.access in {"download", "by hand", "data use agreement", "ships"}
    assert entry.format is None or entry.format in list_formats()
    assert set(entry.splits) <= {"train", "dev", "test"} or set(entry.splits) == {"all"}
    assert all(paths for paths in entry.splits.values())
    assert entry.format is None or entry.splits


@pytest.mark.parametrize(
    "entry",
    [entry for entry in all_corpora() if entry.access in ("by hand", "data use agreement")],
    ids=lambda entry: entry.name,
)
def test_files_that_no_command_downloads_have_a_place(entry) -> None:
    assert f"assets/{entry.folder}/" in entry.instructions


@pytest.mark.parametrize(
    "entry",
    [entry for entry in all_corpora() if entry.access == "download"],
    ids=lambda entry: entry.name,
)
def test_a_download_has_a_pinned_repository(entry) -> None:
    assert entry.repository and len(entry.commit) == 40
    assert not entry.instructions


@pytest.mark.parametrize(
    "name",
    [
        *("starter_clinical", "starter_clinical_es", "starter_deid"),
        *("starter_en", "starter_es", "starter_hallmarks"),
    ],
)
def test_the_starters_ship_as_json_lines(name: str) -> None:
    entry = find_corpus(name)
    assert (entry.access, entry.format) == ("ships", "jsonl")
    assert entry.splits == {part: (f"{part}.jsonl",) for part in ("train", "dev", "test")}


def test_the_labels_of_the_starters() -> None:
    assert find_corpus("starter_en").labels == ("CHEMICAL", "DISEASE", "GENE", "SPECIES")
    assert len(find_corpus("starter_es").labels) == 11
    assert len(find_corpus("starter_hallmarks").labels) == 10


def test_the_parts_of_cantemist_are_the_shared_tasks() -> None:
    assert find_corpus("cantemist").splits == {
        "train": ("train-set",),
        "dev": ("dev-set1", "dev-set2"),
        "test": ("test-set",),
    }


def test_corpora_without_a_published_part_do_not_claim_it() -> None:
    assert "dev" not in find_corpus("jnlpba").splits
    assert set(find_corpus("hoc").splits) == {"all"}


@pytest.mark.slow
@pytest.mark.parametrize("name", STAGED)
def test_the_paths_of_the_splits_exist_and_are_as_published(name: str, corpora_dir) -> None:
    folder, entry = corpora_dir(name), find_corpus(name)
    for paths in entry.splits.values():
        for path in paths:
            assert (folder / path).exists(), path
    assert entry.sha256
    assert download_corpus(entry, folder) == []  # as it checks all of them


@pytest.mark.skipif(
    not (ARCHIVES / "MANIFEST.json").exists(),
    reason="no manifest of archives: set SPACY_BIOMED_CORPORA to its folder",
)
def test_repositories_and_commits_are_those_of_the_archives() -> None:
    manifest = json.loads((ARCHIVES / "MANIFEST.json").read_text(encoding="utf-8"))
    known = {entry.name: entry for entry in all_corpora()}
    for name in (*STAGED, "covid_qa"):
        assert known[name].repository == f"https://{manifest[name]['source']}"
        assert known[name].commit == manifest[name]["commit"]


@pytest.mark.parametrize(("name", "module"), [("mednli", nli), ("medrqe", medrqe)])
def test_the_labels_of_pairs_are_their_readers(name: str, module) -> None:
    assert set(find_corpus(name).labels) == set(module.LABELS)


def test_the_labels_of_hoc_are_its_readers() -> None:
    from spacy_biomed.formats.hoc import HALLMARKS

    assert set(find_corpus("hoc").labels) == set(HALLMARKS)
