"""What is tried to find the fastest way to annotate."""

import pytest
import spacy
from commands import call, error_line

from spacy_biomed.evaluation import benchmark
from spacy_biomed.evaluation.benchmark import Way, create_texts, find_fastest
from spacy_biomed.workers.process import WorkerFailed


@pytest.fixture
def rules(tmp_path) -> str:
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "DRUG", "pattern": "Aspirin"}])
    nlp.to_disk(tmp_path / "rules")
    return str(tmp_path / "rules")


@pytest.mark.slow
def test_the_processors_are_divided_among_processes(rules, monkeypatch):
    monkeypatch.setattr(benchmark, "SECONDS", 0.01)
    ways = find_fastest(rules, create_texts(2), processors=2)
    assert sorted(way[:4] for way in ways) == [(rules, "", 1, 2), (rules, "", 2, 1)]
    assert [way.words_per_second for way in ways] == sorted(
        (way.words_per_second for way in ways), reverse=True
    )
    assert min(way.words_per_second for way in ways) > 0


def test_engines_are_tried_first_and_the_fastest_is_divided(monkeypatch, tmp_path):
    speeds = {"onnxruntime": 100.0, "openvino": 300.0, "": 50.0}

    class Exported:
        pipeline = (("encoder", type("Pipe", (), {"engine": "onnxruntime"})),)

    def measure(pipeline, engine, processes, threads, texts):
        if engine == "":
            raise WorkerFailed("PyTorch is not installed")
        return engine, speeds[engine] * (2 if processes == 2 else 1)

    (tmp_path / "trainable").mkdir()
    (tmp_path / "trainable" / "config.cfg").touch()
    monkeypatch.setattr(
        "spacy_biomed.pipeline.pipeline_loading.load_pipeline", lambda name: Exported()
    )
    monkeypatch.setattr(benchmark, "_measure", measure)
    ways = find_fastest(str(tmp_path), [], processors=8)
    assert [way[1:] for way in ways] == [
        ("openvino", 2, 4, 600.0),
        ("openvino", 1, 8, 300.0),
        ("openvino", 8, 1, 300.0),
        ("onnxruntime", 1, 8, 100.0),
    ]


def test_the_fastest_way_is_printed_as_a_command(rules, monkeypatch):
    monkeypatch.setattr(benchmark, "SECONDS", 0.01)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    result = call("benchmark", rules, "--advise")
    assert result.exit_code == 0, result.output
    assert f"OMP_NUM_THREADS=1 python -m spacy biomed annotate {rules} INPUT" in result.output


def test_the_table_has_whole_names_of_pipelines_in_long_folders(monkeypatch):
    paths = (f"{'folder/' * 30}pipeline", f"{'folder/' * 30}pipeline/trainable")
    ways = [
        Way(path, engine, 1, 2, 3.0)
        for path, engine in zip(paths, ("onnxruntime", ""), strict=True)
    ]
    monkeypatch.setattr(benchmark, "find_fastest", lambda *given: ways)
    result = call("benchmark", paths[0], "--advise", columns=80)
    rows = [[cell.strip() for cell in line.split("│")] for line in result.stdout.splitlines()]
    assert ["", "pipeline", "onnxruntime", "1", "2", "3", ""] in rows
    assert ["", "trainable", "its own", "1", "2", "3", ""] in rows


def test_advice_is_for_one_pipeline(rules):
    result = call("benchmark", rules, "--advise", "--against", rules)
    assert error_line(result).startswith("--against is not for --advise")
    result = call("benchmark", rules, "--advise", "--robustness", "x.spacy")
    assert error_line(result).startswith("--robustness is not for --advise")
    result = call("benchmark", rules, "--advise", "--output", "x.json")
    assert error_line(result) == "--output is not for --advise: leave it out"
    result = call("benchmark", rules, "--advise", "--repeats", "2")
    assert error_line(result).startswith("--repeats is not for --advise")


@pytest.mark.parametrize("option", ["--threads", "--repeats", "--batch-size", "--text-column"])
def test_options_of_speed_are_not_ignored_where_scores_are_measured(rules, option):
    for mode in ("--robustness", "--corpora"):
        line = error_line(call("benchmark", rules, mode, "x", option, "2"))
        assert line == f"{option} is not for --robustness and --corpora: leave it out"


def test_the_command_can_be_copied_with_a_space_in_the_path(monkeypatch):
    monkeypatch.setattr(benchmark, "find_fastest", lambda *given: [Way("my notes", "", 1, 2, 3.0)])
    result = call("benchmark", "my notes", "--advise")
    assert "python -m spacy biomed annotate 'my notes' INPUT OUTPUT" in result.stdout
