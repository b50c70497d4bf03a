import json
import subprocess
import sys

import pytest
from commands import call, error_line, run

TRAIN = "Lung\tB-D\ncancer\tI-D\n\nAspirin\tB-C\n\n"


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for part in ("train", "dev", "test"):
        (folder / f"{part}.tsv").write_text(TRAIN)
    return folder


def rows_of(result):
    return {
        cells[0].strip(): [cell.strip() for cell in cells[1:]]
        for cells in (line.strip("│").split("│") for line in result.stdout.splitlines())
    }


def test_convert_prints_what_it_found_and_where_it_wrote(source, tmp_path):
    arguments = ["convert", "own", str(source), str(tmp_path / "out"), "--format", "columns"]
    result = call(*arguments, columns=120)
    assert result.exit_code == 0
    rows = rows_of(result)
    assert rows["documents"] == ["2", "2", "2"]
    assert rows["mentions"] == ["2", "2", "2"]
    assert rows["off token boundaries"] == ["0", "0", "0"]
    assert rows["texts of an earlier part"] == ["0", "2", "2"]
    assert "Test mentions that never occur in train: 0.0%." in result.stdout
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        ".spacy-biomed.json",
        "conversion.json",
        "corpus.json",
        "dev.spacy",
        "test.spacy",
        "train.spacy",
    ]


def test_files_of_another_corpus_are_doubted(tmp_path):
    for folder, label in (("same", "DISEASE"), ("other", "NOMBRE")):
        (tmp_path / folder).mkdir()
        span = {"start": 0, "end": 4, "label": label}
        for part in ("train", "dev", "test"):
            row = json.dumps({"text": f"Gout in {part}.", "spans": [span]})
            (tmp_path / folder / f"{part}.jsonl").write_text(row, encoding="utf8")
    doubt = "⚠ No mention is a CHEMICAL or DISEASE or GENE or SPECIES, as the catalogue has it"
    assert doubt in run("convert", "starter_en", tmp_path / "other", tmp_path / "a")
    assert doubt not in run("convert", "starter_en", tmp_path / "same", tmp_path / "b")


def test_a_conversion_prints_no_bar_and_no_empty_lines_into_a_pipe(source, tmp_path):
    arguments = ["convert", "own", str(source), str(tmp_path / "out"), "--format", "columns"]
    printed = run(*arguments)
    assert all(line.strip() for line in printed.splitlines())


def test_relations_are_printed_by_label(tmp_path):
    folder = tmp_path / "in" / "train"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("Aspirin 81 mg daily for aches\n")
    (folder / "a.ann").write_text(
        "T1\tDrug 0 7\tAspirin\nT2\tStrength 8 13\t81 mg\nT3\tReason 24 28\tache\n"
        "R1\tStrength-Drug Arg1:T2 Arg2:T1\nR2\tReason-Drug Arg1:T3 Arg2:T1\n"
    )
    arguments = ["convert", "own", str(tmp_path / "in"), str(tmp_path / "out"), "--format", "brat"]
    rows = rows_of(call(*arguments, columns=120))
    assert rows["relations"][0] == "2"
    assert rows["Strength-Drug"][0] == rows["Reason-Drug"][0] == "1"
    assert rows["relations without spans"][0] == "1"


def test_pairs_and_mean_scores_are_printed(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    lines = [f"{number}\tOne {number}.\tTwo.\n" for number in range(6)]
    for part in ("train", "val", "test"):
        content = "".join(lines if part == "test" else lines[:2])
        (folder / f"2015.{part}.tsv").write_text(content)
    arguments = ["convert", "sts", str(folder), str(tmp_path / "out")]
    rows = rows_of(call(*arguments, columns=120))
    assert rows["pairs of texts"] == ["2", "0", "4"]
    assert rows["similarity (mean)"] == ["0.50", "", "3.50"]
    assert rows["repeats left out"] == ["0", "2", "2"]


def test_labels_are_names_with_commas_between(source, tmp_path):
    arguments = ["convert", "own", str(source), str(tmp_path / "out"), "--format", "columns"]
    rows = rows_of(call(*arguments, "--labels", "D"))
    assert rows["mentions"] == rows["D"] == ["1", "1", "1"] and "C" not in rows
    rows = rows_of(call(*arguments, "--labels", "C, D"))
    assert rows["mentions"] == ["2", "2", "2"]


@pytest.mark.parametrize("labels", ["", " , "])
def test_labels_that_name_nothing_are_refused(source, tmp_path, labels):
    arguments = ["convert", "own", str(source), str(tmp_path / "out"), "--format", "columns"]
    result = call(*arguments, "--labels", labels)
    assert result.exit_code == 1 and not (tmp_path / "out").exists()
    assert "--labels names no label" in error_line(result) + result.output


def test_paths_of_parts_may_be_relative_to_the_source(source, tmp_path):
    arguments = ["convert", "own", str(source), str(tmp_path / "out"), "--format", "columns"]
    printed = run(*arguments, "--train", "dev.tsv", "--test", "test.tsv")
    assert "drawn with seed 0: dev" in printed


def test_help_has_an_example():
    result = call("convert", "--help")
    assert "python -m spacy biomed convert ncbi_disease" in result.stdout


@pytest.mark.slow
def test_bad_input_is_one_line_and_exit_status_1(source, tmp_path):
    (source / "dev.tsv").write_text("Lung\tB-D\ncancer\n")
    arguments = ["convert", "own", str(source), str(tmp_path / "out"), "--format", "columns"]
    result = subprocess.run(
        [sys.executable, "-m", "spacy", "biomed", *arguments], capture_output=True, text=True
    )
    assert result.returncode == 1
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith(f"✘ {source / 'dev.tsv'}:2: expected a token and a tag")
    assert not (tmp_path / "out").exists()


def test_documents_become_sentences_and_pairs_of_mentions(tmp_path):
    for part in ("train", "dev", "test"):
        (tmp_path / "in" / part).mkdir(parents=True)
        (tmp_path / "in" / part / "a.txt").write_text("Aspirin inhibits COX-1. So it works.")
        annotated = "T1\tDRUG 0 7\tAspirin\nT2\tGENE 17 22\tCOX-1\nR1\tBLOCKS Arg1:T1 Arg2:T2\n"
        (tmp_path / "in" / part / "a.ann").write_text(annotated)
    command = ["convert", "own", str(tmp_path / "in"), str(tmp_path / "out"), "--format", "brat"]
    for options, documents in ((["--sentences"], "2"), (["--pairs", "GENE+DRUG"], "1")):
        result = call(*command, *options, columns=120)
        assert result.exit_code == 0, result.output
        rows = rows_of(result)
        assert rows["documents"] == rows["sentences"] == [documents] * 3
        assert rows["BLOCKS"] == ["1"] * 3
    wrong = call(*command, "--pairs", "GENE")
    assert "--pairs 'GENE': write all, or types as in CHEMICAL+GENE" in error_line(wrong)


def test_a_part_without_documents_is_told(tmp_path):
    (tmp_path / "one.jsonl").write_text('{"text": "Aspirin helps.", "spans": []}\n')
    result = call("convert", "one", tmp_path / "one.jsonl", tmp_path / "out", "--format", "jsonl")
    assert result.exit_code == 0, result.output
    assert "⚠ No document is in dev and test" in result.output
    assert "⚠ No document has an annotation" in result.output
