"""`spacy biomed benchmark`."""

import json
from pathlib import Path

import pytest
import spacy
import srsly
from commands import run

TEXTS = ["Aspirin reduced pain.", "No symptoms."]


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    """A pipeline and a file of texts."""
    nlp = spacy.blank("en")
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    return tmp_path / "pipeline", tmp_path / "texts.txt"


@pytest.mark.slow
def test_a_pipeline_is_measured_against_another(files, tmp_path, run_spacy):
    pipeline, texts = files
    spacy.blank("es").to_disk(tmp_path / "other")
    output = tmp_path / "figures.json"
    options = ["--against", tmp_path / "other", "--repeats", 1, "--threads", 1, "--output", output]
    done = run_spacy("biomed", "benchmark", pipeline, texts, *options)
    assert done.returncode == 0, done.stderr
    assert "2 documents, 7 words" in done.stdout
    for title in ("words a second", "99th percentile", "times better", "size on disk"):
        assert title in done.stdout
    content = json.loads(output.read_text(encoding="utf8"))
    assert [one["words"] for one in content["pipelines"]] == [7, 7]
    assert content["threads"] == content["repeats"] == 1
    assert content["times_better"]["words_per_second"] > 0


@pytest.mark.slow
def test_one_pipeline_alone_has_no_ratios(files, tmp_path, run_spacy):
    output = tmp_path / "figures.json"
    done = run_spacy("biomed", "benchmark", *files, "--repeats", 1, "--output", output)
    assert done.returncode == 0, done.stderr
    assert "times better" not in done.stdout
    assert "times_better" not in json.loads(output.read_text(encoding="utf8"))


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    "change, message",
    [
        ({"pipeline": "nowhere"}, "neither an installed pipeline package nor a pipeline directory"),
        ({"texts": "nowhere.txt"}, "no such file"),
        ({"options": ["--repeats", "0"]}, "--repeats"),
        ({"options": ["--against", "nowhere"]}, "neither an installed pipeline package"),
    ],
)
def test_bad_input_is_one_line(files, tmp_path, run_spacy, change, message):
    output = tmp_path / "figures.json"
    pipeline, texts = change.get("pipeline", files[0]), change.get("texts", files[1])
    options = ["--output", output, *change.get("options", [])]
    done = run_spacy("biomed", "benchmark", pipeline, texts, *options)
    assert done.returncode == 1
    [line] = done.stderr.strip().splitlines()
    assert message in line
    assert not output.exists()


@pytest.mark.slow
def test_a_pipeline_is_scored_on_all_corpora_of_a_folder(tiny_corpus, tmp_path, run_spacy):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "C", "pattern": "Aspirin"}])
    nlp.to_disk(tmp_path / "pipeline")
    output = tmp_path / "scores.json"
    options = ["--corpora", tiny_corpus.parent, "--map", "tiny:D=C", "--output", output]
    options += ["--trained-on", tiny_corpus / "train.spacy"]
    done = run_spacy("biomed", "benchmark", tmp_path / "pipeline", *options)
    assert done.returncode == 0, done.stderr
    assert "lenient" in done.stdout and "33.3" in done.stdout
    content = json.loads(output.read_text(encoding="utf8"))
    (row,) = content["rows"]
    assert (row["corpus"], row["label"], row["mentions"]) == ("tiny", "C", 5)
    # Aspirin is a C in the training part; lung cancer, stroke and diabetes are Ds there.
    assert [row["scores"][name]["r"] for name in ("exact", "exact seen")] == [0.2, 0.5]
    assert row["scores"]["lenient unseen"] == {"p": 0.0, "r": 0.0, "f": 0.0}
    assert content["left_out"] == []


@pytest.mark.parametrize("language", ["en", "es", "xx"])
def test_corpora_of_another_language_are_named(tiny_corpus, tmp_path, language):
    nlp = spacy.blank(language)
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "C", "pattern": "Aspirin"}])
    nlp.to_disk(tmp_path / "pipeline")
    printed = run("benchmark", tmp_path / "pipeline", "--corpora", tiny_corpus.parent)
    line = "Of another language than the pipeline's (es): tiny (en)"
    assert (line in printed) == (language == "es")


def test_scores_without_precision_and_recall_are_printed_too(tmp_path):
    nlp = spacy.blank("en")
    for factory in ("biomed_qa", "biomed_similarity", "biomed_textcat"):
        nlp.add_pipe(factory)
    nlp.config.to_disk(tmp_path / "config.cfg")
    measured = {"qa_f1": 0.125, "similarity_pearson": 0.25, "cats_score": 0.375}
    srsly.write_json(tmp_path / "metrics.json", measured)
    printed = run("scores", tmp_path, tmp_path / "metrics.json")
    assert all(number in printed for number in ("12.50", "25.00", "37.50"))
    assert printed.count("precision") == 1  # no empty tables
