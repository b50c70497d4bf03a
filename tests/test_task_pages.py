"""The pages of docs/tasks: run all commands and snippets of their first section."""

from __future__ import annotations

import io
import math
import re
import runpy
import shlex
import shutil
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import srsly
from spacy.tokens import Doc
from typer.testing import CliRunner

from spacy_biomed.corpora.corpus_catalogue import find_corpus

REPOSITORY = Path(__file__).parents[1]
NOTEBOOKS = runpy.run_path(str(REPOSITORY / "docs" / "write_notebooks.py"))
PAGES, read_section, find_blocks = (
    NOTEBOOKS[name] for name in ("PAGES", "read_section", "find_blocks")
)
# Pages that begin with a pipeline of the repository, or with rules, and train nothing.
WITHOUT_TRAINING = {"assertion", "deidentification", "linking", "patients"}

# The only difference from the pages: trainings stop after a few steps.
SHORT = ["--vars.max_steps", "4"]


def copy_inputs(section: str, folder: Path) -> None:
    """Copy the assets mentioned in a section."""
    for name in sorted(set(re.findall(r"assets/[\w-]+", section))):
        shutil.copytree(REPOSITORY / name, folder / name)


def run_commands(text: str) -> None:
    """Run lines of `python -m spacy ...`."""
    # The import registers the commands.
    import spacy.cli

    import spacy_biomed.cli  # noqa: F401

    for line in text.replace("\\\n", "").splitlines():
        words = shlex.split(line)
        assert words[:3] == ["python", "-m", "spacy"], line
        arguments = words[3:]
        if arguments[:2] == ["biomed", "train"]:
            arguments += SHORT
        result = CliRunner().invoke(spacy.cli.app, arguments)
        assert result.exit_code == 0, f"{line}\n{result.output}\n{result.exception!r}"


def run_section(section: str) -> tuple[dict[str, Any], list[str]]:
    """Run the blocks of a section in order.

    Returns:
        the variables of its snippets, and the lines they print.
    """
    names: dict[str, Any] = {}
    printed = io.StringIO()
    for kind, text in find_blocks(section):
        if kind == "commands":
            run_commands(text)
        elif kind == "python":
            with redirect_stdout(printed):
                exec(text, names)
    return names, printed.getvalue().splitlines()


def are_probabilities(values: Iterable[float]) -> bool:
    return all(0.0 <= value <= 1.0 for value in values)


def are_relations(doc: Doc, head: str, tail: str) -> bool:
    """Whether relations are annotated, and all have this head and tail text and valid labels."""
    relations = doc._.relations
    labels = find_corpus("starter_relations").labels
    return relations is not None and all(
        (one.head.text, one.tail.text) == (head, tail)
        and one.label in labels
        and are_probabilities([one.score])
        for one in relations
    )


def check_annotation_tools(names: dict[str, Any], printed: list[str]) -> None:
    kept = [region for task in names["tasks"] for region in task["annotations"][0]["result"]]
    reports = srsly.read_json("corpus/mynotes/corpus.json")["parts"].values()
    assert 0 < len(kept) == sum(sum(one["mentions"].values()) for one in reports)
    assert len(names["doc"].ents) == len(printed)


def check_assertion(names: dict[str, Any], printed: list[str]) -> None:
    said = {ent.text: ent._ for ent in names["doc"].ents}
    assert len(printed) == len(names["doc"].ents)
    assert said["asma"].is_family and said["neumonía"].is_uncertain
    assert said["alergias"].is_negated and said["fiebre"].is_hypothetical
    (rows,) = Path("facts.csv/entities").glob("*.csv")
    columns = rows.read_text(encoding="utf8").partition("\n")[0].split(",")
    assert {"section", "is_negated", "is_family"} <= set(columns)


def check_deidentification(names: dict[str, Any], printed: list[str]) -> None:
    deidentified = names["doc"]._.deidentified
    assert "Mary" not in printed[0]
    assert printed[1:] == [deidentified.text]
    for one in deidentified.replacements:
        assert deidentified.text[one.new_start : one.new_end] == one.text == f"[{one.label}]"
    paths = ("assets/starter_deid/test.jsonl", "deidentified.jsonl")
    given, written = (list(srsly.read_jsonl(path)) for path in paths)
    assert [set(row) for row in written] == [{"text"}] * len(given)


def check_entities(names: dict[str, Any], printed: list[str]) -> None:
    nlp, doc = names["nlp"], names["doc"]
    assert set(nlp.pipe_labels["biomed_ner"]) == set(find_corpus("starter_en").labels)
    assert doc.has_annotation("ENT_IOB")
    assert are_probabilities(entity._.confidence for entity in doc.ents)
    found = [f"{entity.text} {entity.label_}" for entity in doc.ents]
    assert [line.rpartition(" ")[0] for line in printed] == found


def check_linking(names: dict[str, Any], printed: list[str]) -> None:
    codes = {entity.text: entity._.code for entity in names["doc"].ents}
    assert codes == {
        "Escherichia coli": "562",
        "Staphylococcus aureus": "1280",
        "E. coli": "562",
        "ampicillin": None,
    }
    assert len(printed) == len(codes)


def check_multitask(names: dict[str, Any], printed: list[str]) -> None:
    entities, cats = names["doc"].spans["starter_en"], names["doc"].cats
    assert len(entities) == len(entities.attrs["scores"]) == len(printed) - 2
    assert are_probabilities(entities.attrs["scores"])
    assert set(cats) == set(find_corpus("starter_hallmarks").labels)
    assert are_probabilities(cats.values())
    assert are_relations(names["marked"], "Olaparib", "PARP1")


def check_pairs(names: dict[str, Any], printed: list[str]) -> None:
    classes, texts, number = printed
    assert set(eval(classes)) == set(find_corpus("starter_entailment").labels)
    assert sum(eval(classes).values()) == pytest.approx(1.0)
    assert texts == f"[{names['premise']}, The patient has bacteremia.]"
    assert math.isfinite(float(number))


def check_patients(names: dict[str, Any], printed: list[str]) -> None:
    rows = {(patient, label): now for patient, label, now in names["table"].fetchall()}
    assert {patient for patient, _ in rows} == {"1", "2"}
    assert len(printed) == len(rows)
    assert "metformina" in rows["1", "FARMACO"]
    problems = " ".join(rows["1", "DIAGNOSTICO"])
    assert "dolor abdominal" in problems
    # The father has it, the patient denies it, or it is past.
    assert not any(word in problems for word in ("cáncer", "ictericia", "diabetes"))


def check_question_answering(names: dict[str, Any], printed: list[str]) -> None:
    answers = names["doc"].spans["answer"]
    scores = [answer._.confidence for answer in answers]
    assert len(scores) == len(printed) == 5
    assert all(answer.text in names["context"] for answer in answers)
    assert are_probabilities(scores)
    assert scores == sorted(scores, reverse=True)


def check_relations(names: dict[str, Any], printed: list[str]) -> None:
    assert len(names["doc"]._.relations) == len(printed)
    assert are_relations(names["doc"], "Aspirin", "COX-1")


def check_text_classification(names: dict[str, Any], printed: list[str]) -> None:
    cats = names["doc"].cats
    assert set(cats) == set(find_corpus("starter_hallmarks").labels)
    assert are_probabilities(cats.values())
    assert [line.split()[0] for line in printed] == sorted(cats, key=cats.get, reverse=True)


def check_updating(names: dict[str, Any], printed: list[str]) -> None:
    nlp, doc = names["nlp"], names["doc"]
    assert nlp.pipe_labels["biomed_ner"] == ["CHEMICAL", "DISEASE", "GENE", "SPECIES"]
    assert are_probabilities(entity._.confidence for entity in doc.ents)
    assert len(doc.ents) == len(printed)


# Checks of the variables and printed lines of each page's snippets.
CHECKS: dict[str, Callable[[dict[str, Any], list[str]], None]] = {
    "annotation_tools": check_annotation_tools,
    "assertion": check_assertion,
    "deidentification": check_deidentification,
    "entities": check_entities,
    "linking": check_linking,
    "multitask": check_multitask,
    "pairs": check_pairs,
    "patients": check_patients,
    "question_answering": check_question_answering,
    "relations": check_relations,
    "text_classification": check_text_classification,
    "updating": check_updating,
}


@pytest.mark.slow(least=6)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_says_to_try_works_as_it_stands(page, tmp_path, monkeypatch):
    _, section = read_section(page.read_text(encoding="utf8"))
    if "import duckdb" in section:
        pytest.importorskip("duckdb", reason="needs DuckDB")
    assert {block.kind for block in find_blocks(section)} == {"text", "commands", "python"}
    assert "python -m spacy biomed train " in section or page.stem in WITHOUT_TRAINING
    copy_inputs(section, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    CHECKS[page.stem](*run_section(section))


def test_every_component_has_a_page():
    text = "".join(page.read_text(encoding="utf8") for page in PAGES)
    heads = [entry.name for entry in entry_points(group="spacy_factories")]
    heads = [name for name in heads if name.startswith("biomed_") and "transformer" not in name]
    assert heads and all(f"`{name}`" in text for name in heads)


@pytest.mark.parametrize(
    "rest", ["It does much.\n", "## Train\n\n    python -m spacy train x.cfg\n"]
)
def test_a_page_without_something_to_try_is_found_out(rest):
    with pytest.raises(AssertionError, match="first section"):
        read_section(f"# A task\n\n{rest}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_has_what_its_page_says_to_try(page):
    """Where it does not: python docs/write_notebooks.py"""
    written = srsly.read_json(REPOSITORY / "notebooks" / f"{page.stem}.ipynb")
    assert written == NOTEBOOKS["make_notebook"](page)


def test_blocks_are_read_as_they_are_pasted():
    section = "Do:\n\n    python -m spacy a \\\n        --b\n    python -m spacy c\n\n"
    section += "```python\nif True:\n    print(1)\n```\n\nand not `this`.\n"
    _, commands, snippet, _ = blocks = find_blocks(section)
    assert [block.kind for block in blocks] == ["text", "commands", "python", "text"]
    assert commands.text.count("python -m spacy") == 2
    assert snippet.text == "if True:\n    print(1)\n"


def test_a_line_that_cannot_be_run_is_found_out():
    with pytest.raises(AssertionError, match="pip install"):
        run_commands("    pip install something\n")
