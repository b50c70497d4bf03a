"""The programs in benchmarks/: that they can be read, and what they compute from measurements."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_biomed.corpora.convert import convert_corpus

REPOSITORY = Path(__file__).parents[1]
PROGRAMS = sorted(path.stem for path in (REPOSITORY / "benchmarks").glob("*.py"))
DISEASE = "DISEASE"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_shows_its_help(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module(name)
    if not hasattr(module, "main"):
        return
    monkeypatch.setattr("sys.argv", [f"{name}.py", "--help"])
    with pytest.raises(SystemExit) as stop:
        module.main()
    assert stop.value.code == 0
    assert f"usage: {name}.py" in capsys.readouterr().out


def test_speeds_are_medians_and_missing_contestants_have_none() -> None:
    comparisons = import_module("comparisons")
    contest = comparisons.Contest(threads=1, repeats=3)
    contest.sets["texts"] = comparisons.TextSet("texts", ["one two"], 20)
    contest.seconds["texts"] = {"ours": [3.0, 2.0, 2.5], "stock": [5.0, 10.0, 4.0]}
    assert contest.words_per_second("texts", "ours") == 8.0
    assert contest.ratio("texts", "ours", "stock") == 2.0
    assert contest.ratio("texts", "ours", "another") is None
    assert contest.words_per_second("other", "ours") is None


@pytest.mark.parametrize(
    ("value", "target", "at_least", "met"),
    [(3.0, 3, True, True), (2.9, 3, True, False), (2.9, 3, False, True), (None, 3, True, None)],
)
def test_a_figure_is_compared_with_its_target(value, target, at_least, met) -> None:
    check = import_module("comparisons").Check("speed", value, target, at_least=at_least)
    assert check.to_json()["met"] is met


def test_answers_of_the_server_may_differ_in_the_last_digits_of_a_confidence() -> None:
    is_equal = import_module("serving").is_equal
    expected = {"entities": [{"start": 0, "label": DISEASE, "confidence": 0.9}]}
    for confidence, equal in ((0.9004, True), (0.92, False)):
        answer = {"entities": [{"start": 0, "label": DISEASE, "confidence": confidence}], "ms": 3}
        assert is_equal(answer, expected) is equal
    assert not is_equal({"entities": []}, expected)


def test_the_plain_loop_learns_tags_on_first_word_pieces(tiny_bert: Path, tmp_path: Path) -> None:
    training = import_module("training")
    convert_corpus("starter_en", REPOSITORY / "assets" / "starter_en", tmp_path / "corpus")
    schedule = training.Schedule(steps=2, learn_rate=1e-3, batch=2, seed=0)
    trainer = training.PlainTrainer(tmp_path / "corpus", str(tiny_bert), schedule)
    doc = Doc(Vocab(), words=["metformin", "and", "lung", "cancer"])
    doc.ents = [Span(doc, 0, 1, "CHEMICAL"), Span(doc, 2, 4, DISEASE)]
    [sequence] = trainer.encode(doc)
    tags = [trainer.tags[label] for label in sequence["labels"] if label != -100]
    assert tags == ["B-CHEMICAL", "O", "B-DISEASE", "I-DISEASE"]
    before = trainer.model.classifier.weight.detach().clone()
    steps = trainer.steps(1)
    next(steps)
    next(steps)
    assert not before.equal(trainer.model.classifier.weight)
