import json
import shutil
import zipfile

import pytest
import spacy
from commands import call, refuse, run
from spacy.tokens import DocBin, Span
from without_training import WITHOUT_TRAINING, run_code

from spacy_biomed.pipeline.checksums import CHECKSUMS

CSV = "id,name,synonyms\nD9,Neoplasms,cancer|tumour\nC1,Aspirin,acetylsalicylic acid\n"


@pytest.fixture
def ruler(tmp_path):
    """A pipeline that finds "aspirin", with an id, and "cancer"."""
    nlp = spacy.blank("en")
    patterns = [{"label": "DRUG", "pattern": "aspirin", "id": "R1"}]
    patterns += [{"label": "DISEASE", "pattern": "cancer"}]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.to_disk(tmp_path / "ruler")
    return tmp_path / "ruler"


@pytest.fixture
def terms(tmp_path):
    (tmp_path / "terms.csv").write_text(CSV, encoding="utf8")
    result = call(
        "terminology", "build", tmp_path / "terms.csv", tmp_path / "terms", "--format", "csv"
    )
    assert result.exit_code == 0, result.output
    assert "2 concepts with 5 names" in result.output
    return tmp_path / "terms"


@pytest.mark.parametrize("beside", [False, True])
def test_a_linked_pipeline_gives_codes_and_annotate_writes_them(ruler, terms, tmp_path, beside):
    linked = tmp_path / "linked"
    options = ["--beside"] if beside else []
    shutil.copytree(ruler, ruler / "trainable")
    run("terminology", "link", ruler, linked, "--terminology", f"*={terms}", *options)
    assert (linked / "biomed_linker/terminologies").exists() != beside
    assert (linked / CHECKSUMS).is_file()
    # It would have no linker.
    assert not (linked / "trainable").exists()
    (tmp_path / "notes.jsonl").write_text('{"id": "n1", "text": "aspirin in cancer"}\n')
    output = tmp_path / "found.jsonl"
    arguments = ["annotate", str(linked), str(tmp_path / "notes.jsonl"), str(output)]
    run(*arguments)
    (line,) = next(output.glob("part-*.jsonl")).read_text("utf8").splitlines()
    first, second = json.loads(line)["entities"]
    assert (first["code"], first["code_name"]) == ("C1", "Aspirin")
    assert 0.5 <= first["code_confidence"] <= 1.0
    assert (second["code"], second["code_name"]) == ("D9", "Neoplasms")
    assert first["attributes"] == {"id": "R1", "kb_id": "C1"}


@pytest.mark.slow
def test_a_wheel_has_the_terminology_and_reads_it_in_place(ruler, terms, tmp_path, run_spacy):
    call("terminology", "link", ruler, tmp_path / "linked", "--terminology", f"*={terms}")
    (tmp_path / "out").mkdir()
    done = run_spacy(
        "package", tmp_path / "linked", tmp_path / "out", "--build", "wheel", "--name", "linked"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (tmp_path / "out").rglob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    shutil.rmtree(tmp_path / "linked")
    shutil.rmtree(terms)
    code = (
        "from pathlib import Path; nlp = spacy.load('en_linked');"
        "print(*[ent._.code for ent in nlp('aspirin in cancer').ents]);"
        "print('key_hashes.npy' in Path('/proc/self/maps').read_text())"
    )
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'installed')!r})\n" + code
    assert run_code(WITHOUT_TRAINING + code).split() == ["C1", "D9", "True"]


def test_a_linker_is_trained_on_a_corpus_with_identifiers(ruler, terms, tmp_path):
    nlp = spacy.blank("en")
    docs = []
    for word, id in (("cancer", "D9"), ("leukaemia", "D9"), ("aspirin", "C1")) * 5:
        doc = nlp.make_doc(f"With {word} here.")
        doc.set_ents([Span(doc, 1, 2, "DRUG", kb_id=id)])
        docs.append(doc)
    DocBin(store_user_data=True, docs=docs).to_disk(tmp_path / "train.spacy")
    options = ["--terminology", f"DRUG={terms}", "--train", tmp_path / "train.spacy"]
    run("terminology", "link", ruler, tmp_path / "linked", *options)
    linker = spacy.load(tmp_path / "linked").get_pipe("biomed_linker")
    doc = nlp.make_doc("With leukaemia here.")
    doc.set_ents([Span(doc, 1, 2, "DRUG")])
    assert linker(doc).ents[0]._.candidates[0][:2] == ("D9", "Neoplasms")


@pytest.mark.parametrize(
    ("terminology", "problem"),
    [
        ("DRUG", "write LABEL=DIRECTORY"),
        ("DRUGS=/nowhere", "use DISEASE or DRUG; did you mean DRUG?"),
        ("DRUG=/nowhere", "/nowhere: not a terminology"),
    ],
)
def test_a_wrong_terminology_is_one_line_and_nothing_is_written(
    ruler, tmp_path, terminology, problem
):
    assert problem in refuse(
        "terminology", "link", ruler, tmp_path / "linked", "--terminology", terminology
    )
    assert not (tmp_path / "linked").exists()


def test_training_mentions_without_identifiers_are_refused(ruler, terms, tmp_path):
    doc = spacy.blank("en")("With aspirin here.")
    doc.set_ents([Span(doc, 1, 2, "DRUG")])
    DocBin(docs=[doc]).to_disk(tmp_path / "train.spacy")
    options = ["--terminology", f"DRUG={terms}", "--train", tmp_path / "train.spacy"]
    line = refuse("terminology", "link", ruler, tmp_path / "linked", *options)
    assert "train.spacy: no entity of DRUG has an identifier" in line
    assert not (tmp_path / "linked").exists()


@pytest.mark.parametrize("row", ["C2,", ",heparin"])
def test_a_concept_without_id_or_name_is_an_error_of_its_line(tmp_path, row):
    (tmp_path / "terms.csv").write_text(f"id,name\nC1,aspirin\n{row}\n")
    options = [tmp_path / "terms.csv", tmp_path / "built", "--format", "csv"]
    assert "terms.csv:3: the " in refuse("terminology", "build", *options)
    assert not (tmp_path / "built").exists()


def test_a_pipeline_with_a_linker_gets_no_second_one(ruler, terms, tmp_path):
    call("terminology", "link", ruler, tmp_path / "linked", "--terminology", f"*={terms}")
    assert "has a biomed_linker" in refuse(
        "terminology", "link", tmp_path / "linked", tmp_path / "two", "--terminology", f"*={terms}"
    )


def test_a_label_with_two_terminologies_is_refused(ruler, terms, tmp_path):
    chosen = ["--terminology", f"DRUG={terms}", "--terminology", f"DRUG={tmp_path}"]
    assert "DRUG has another terminology; give one" in refuse(
        "terminology", "link", ruler, tmp_path / "linked", *chosen
    )
    assert not (tmp_path / "linked").exists()


def test_a_moved_terminology_is_found_whatever_its_name(ruler, terms, tmp_path):
    release = terms.rename(tmp_path / "drugs.2024")
    run(
        "terminology",
        "link",
        ruler,
        tmp_path / "linked",
        "--terminology",
        f"*={release}",
        "--beside",
    )
    moved = release.rename(tmp_path / "moved")
    place = {"components.biomed_linker.terminologies.drugs_2024": str(moved)}
    nlp = spacy.load(tmp_path / "linked", config=place)
    assert [ent._.code for ent in nlp("aspirin in cancer").ents] == ["C1", "D9"]


def test_an_unknown_format_is_one_line(tmp_path):
    (tmp_path / "x.txt").write_text("x")
    assert "did you mean csv" in refuse(
        "terminology", "build", tmp_path / "x.txt", tmp_path / "out", "--format", "cvs"
    )


def test_a_terminology_may_be_given_by_two_paths(ruler, terms, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = [f"--terminology={label}={path}" for label, path in (("DRUG", "terms"), ("*", terms))]
    run("terminology", "link", ruler, tmp_path / "linked", *pairs)
    assert [ent._.code for ent in spacy.load(tmp_path / "linked")("aspirin, cancer").ents] == [
        "C1",
        "D9",
    ]


def test_a_terminology_that_is_gone_stops_a_run_and_says_which_setting(ruler, terms, tmp_path):
    linked = tmp_path / "linked"
    run("terminology", "link", ruler, linked, "--terminology", f"*={terms}", "--beside")
    shutil.rmtree(terms)
    (tmp_path / "notes.jsonl").write_text('{"text": "No drug."}\n{"text": "aspirin"}\n')
    message = refuse("annotate", linked, tmp_path / "notes.jsonl", tmp_path / "found.jsonl")
    assert f"[components.biomed_linker.terminologies] terms: {terms}: not a termin" in message
    assert not list((tmp_path / "found.jsonl").glob("part-*"))
