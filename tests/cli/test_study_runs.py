"""`spacy biomed study run` and `spacy biomed study list`."""

from pathlib import Path

import pytest
from commands import call, error_line
from multitask_corpora import STUDY


@pytest.fixture
def invoke(corpora, tiny_bert, tmp_path):
    (tmp_path / "study.cfg").write_text(STUDY.format(encoder=tiny_bert))

    def invoke(*arguments, fails=False):
        arguments = ["study", *map(str, arguments), "--corpora-dir", str(corpora)]
        result = call(*arguments, columns=200)
        if fails:
            return error_line(result)
        assert result.exit_code == 0, result.output
        return result.stdout

    return invoke


def test_a_plan_is_described_and_then_run(invoke, tmp_path):
    command = ["run", tmp_path / "study.cfg", tmp_path / "out"]
    assert "Drugs: 1 runs, 0 finished, 1 to make" in invoke(*command, "--dry-run")
    assert not (tmp_path / "out").exists()
    printed = invoke(*command)
    assert "1/1: " in printed and "# Drugs" in printed and "report.html" in printed
    assert "Drugs: 1 runs, 1 finished, 0 to make" in invoke(*command, "--dry-run")
    more = invoke(*command, "--dry-run", "--grid.seeds", "[0, 1]")
    assert "Drugs: 2 runs, 1 finished, 1 to make" in more


def test_what_is_missing_is_one_line_and_nothing_is_written(invoke, tmp_path):
    line = invoke("run", "mulyar_table_2", tmp_path / "out", fails=True)
    assert "corpora.n2c2_2019: " in line and "--allow-missing" in line
    line = invoke("run", tmp_path / "study.cfg", tmp_path / "out", "--gpu-ids", "a", fails=True)
    assert "--gpu-ids a: 'a' is not the number of a GPU" in line
    for jobs in ("1", "2"):
        options = ["--gpu-ids", "99", "--jobs", jobs]
        line = invoke("run", tmp_path / "study.cfg", tmp_path / "out", *options, fails=True)
        assert "--gpu-ids 99" in line
    assert not (tmp_path / "out").exists()


def test_the_studies_that_ship_are_listed_with_what_is_there(invoke):
    printed = invoke("list")
    assert "lewis_table_2" in printed and "peng_figure_2_clinical" in printed
    assert "Missing corpora" in printed


def test_what_a_study_needs_is_converted_once(tiny_bert, tmp_path):
    assets = Path(__file__).parents[2] / "assets"
    options = ["--corpora-dir", str(tmp_path / "corpus"), "--assets-dir", str(assets)]
    command = ["study", "run", "starter_pairs", "--prepare", *options]
    first, second = (call(*command).stdout for _ in range(2))
    assert first.count("Converting") == 4 and second.count("Converting") == 0
    assert f"4 of 4 corpora are in {tmp_path / 'corpus'}" in second
    assert len(list((tmp_path / "corpus").glob("*/train.spacy"))) == 4


def test_what_cannot_be_prepared_is_named(tmp_path):
    options = ["--corpora-dir", str(tmp_path / "corpus"), "--assets-dir", str(tmp_path / "assets")]
    command = ["study", "run", "carrino_table_2", "--prepare", *options]
    printed = call(*command).stdout
    assert "corpora.ictusnet: " in printed and "data use agreement" in printed
    assert "`spacy biomed corpora pharmaconer_sentences` says how to get it (by hand)" in printed
    assert "0 of 3 corpora are in" in printed


def test_a_run_needs_an_output(invoke, tmp_path):
    assert "give OUTPUT" in invoke("run", tmp_path / "study.cfg", fails=True)
