"""The commands for each tool in docs/tasks/annotation_tools.md, on what is included."""

import io
import json
import re
import shlex
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
import spacy
from commands import call

from spacy_biomed.formats.label_studio import CHOICES, LABELS, TEXT

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "tasks" / "annotation_tools.md").read_text(encoding="utf8")


def read_section(title):
    return re.split(rf"^## {title}\n", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]


def run(command):
    arguments = shlex.split(command)
    assert arguments[:4] == ["python", "-m", "spacy", "biomed"]
    result = call(*arguments[4:])
    assert result.exit_code == 0, result.output


def submit():
    """Label Studio, where nothing is corrected."""
    tasks = json.loads(Path("notes.label_studio/part-00000.json").read_text("utf8"))
    for task in tasks:
        task["annotations"] = [{"result": one["result"]} for one in task["predictions"]]
    Path("corrected.json").write_text(json.dumps(tasks), encoding="utf8")


def accept():
    """Prodigy."""
    lines = Path("notes.prodigy/part-00000.jsonl").read_text("utf8").splitlines()
    answer = {"answer": "accept", "_view_id": "ner_manual"}
    lines = [json.dumps({**json.loads(line), **answer}) for line in lines]
    Path("corrected.jsonl").write_text("\n".join(lines), encoding="utf8")


def export():
    """INCEpTION: the annotator's zip of each document in the zip of the project."""
    folder = Path("notes.inception/part-00000")
    with zipfile.ZipFile("project.zip", "w") as project:
        for xmi in folder.glob("*.xmi"):
            content = io.BytesIO()
            with zipfile.ZipFile(content, "w") as archive:
                archive.write(xmi, "admin.xmi")
                archive.write(folder / "TypeSystem.xml", "TypeSystem.xml")
            project.writestr(f"annotation/{xmi.name}/admin.zip", content.getvalue())


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("title", "correct"),
    [("Label Studio", submit), ("Prodigy", accept), ("INCEpTION", export), ("brat", lambda: None)],
)
def test_commands_annotate_for_the_tool_and_convert_its_export(
    tmp_path, monkeypatch, title, correct
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").symlink_to(REPOSITORY / "assets")
    commands = re.findall(r"^ *(python -m spacy biomed .*)$", read_section(title), re.MULTILINE)
    assert [command.split()[4] for command in commands] == ["annotate", "convert"]
    annotate, convert = commands
    run(annotate)
    correct()
    run(convert)
    (finished,) = Path(annotate.split()[-1], "_finished.jsonl").read_text().splitlines()
    found = json.loads(finished)["counts"]["entities"]
    corpus = json.loads(Path(convert.split()[7], "corpus.json").read_text("utf8"))
    parts = corpus["parts"].values()
    assert sum(part["documents"] for part in parts) == 40
    assert sum(sum(part["mentions"].values()) for part in parts) == found > 100


def test_the_settings_of_the_tools_have_the_names_and_labels_that_are_written():
    nlp = spacy.load(REPOSITORY / "assets/pipelines/en_biomed_ner")
    labels = list(nlp.pipe_labels["biomed_ner"])
    config = re.search(r"<View>.*</View>", read_section("Label Studio"), re.DOTALL).group()
    view = ElementTree.fromstring(config)
    assert [label.get("value") for label in view.iter("Label")] == labels
    names = {(tag.tag, tag.get("name"), tag.get("toName")) for tag in view if tag.get("name")}
    assert names == {("Labels", LABELS, TEXT), ("Choices", CHOICES, TEXT), ("Text", TEXT, None)}
    conf = re.search(r"\[entities\]\n(.*?)\n\n", read_section("brat"), re.DOTALL).group(1)
    assert conf.split() == labels
