"""The README, the site's first page, what its configuration lists, and the pictures."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from without_training import WITHOUT_TRAINING, run_code

from spacy_biomed.formats import list_formats, list_outputs

REPOSITORY = Path(__file__).parents[1]


def read_blocks(page: str, kind: str = r"\w+") -> list[str]:
    text = (REPOSITORY / page).read_text(encoding="utf8")
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_commands_and_the_code_of_the_quick_start_are_the_readmes():
    quick_start = read_blocks("docs/index.md")
    assert quick_start
    assert set(quick_start) <= set(read_blocks("README.md"))


def test_the_readme_is_short_and_has_two_commands():
    text = (REPOSITORY / "README.md").read_text(encoding="utf8")
    assert len(text.split()) <= 700
    main, tests = read_blocks("README.md", "bash")
    assert main.endswith("python -m spacy project run all\n")
    assert tests.endswith("python -m pytest\n")


@pytest.mark.slow
def test_the_readme_begins_with_a_pipeline_that_runs_without_pytorch():
    (snippet,) = read_blocks("README.md", "python")
    (commands,) = read_blocks("README.md", "sh")
    installation, shown = commands.split("\n", 1)
    assert installation == "python -m pip install -e ."
    arguments = shlex.split(shown.replace("\\\n", " "))
    assert arguments[:5] == ["python", "-m", "spacy", "biomed", "annotate"]
    command = "import sys; sys.argv[1:] = {}; from spacy_biomed.cli import app; app()"
    for code in (snippet, command.format(arguments[4:])):
        printed = run_code(WITHOUT_TRAINING + code, REPOSITORY)
        assert all(text in printed for text in ("64 años", "adenocarcinoma", "capecitabina"))


DRAWING = runpy.run_path(str(REPOSITORY / "docs" / "draw_annotated_text.py"))


def read_texts(picture: str) -> list[str]:
    """The texts of a picture without probabilities, which differ by processor."""
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    return [re.sub(r" [01]\.\d\d$", "", text) for text in texts]


@pytest.mark.slow(least=2)
@pytest.mark.parametrize("name", DRAWING["INCLUDED"])
def test_a_picture_shows_what_the_included_pipelines_find(name):
    """Where it does not: python docs/draw_annotated_text.py"""
    draw_rows = DRAWING["INCLUDED"][name]
    title = DRAWING["tell_title"](draw_rows)
    picture = (REPOSITORY / "docs" / f"{name}.svg").read_text(encoding="utf8")
    shown = read_texts(picture)
    assert shown == read_texts(DRAWING["draw"](draw_rows(), title)) and shown
    assert f"<title>{title}</title>" in picture


@pytest.mark.parametrize("page", sorted((REPOSITORY / "docs" / "tasks").glob("*.md")))
def test_each_task_page_has_a_picture_of_what_comes_out(page):
    title = DRAWING["tell_title"]((DRAWING["INCLUDED"] | DRAWING["TRAINED"])[f"tasks/{page.stem}"])
    assert f"\n![{title}]({page.stem}.svg)\n" in page.read_text(encoding="utf8")
    picture = page.with_suffix(".svg").read_text(encoding="utf8")
    assert f"<title>{title}</title>" in picture and read_texts(picture)


def test_every_room_with_public_names_has_a_page_in_the_reference():
    rooms = [
        ".".join(path.relative_to(REPOSITORY).parent.parts)
        for path in (REPOSITORY / "spacy_biomed").rglob("__init__.pyi")
    ]
    site = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf8")
    pages = re.findall(r"reference/(spacy_biomed[\w.]*)\.md", site)
    assert sorted(pages) == sorted(rooms)


def test_the_picture_of_the_rooms_shows_the_layers_of_the_contract():
    """Where it does not: python docs/draw_rooms.py"""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 has no reader of TOML")
    settings = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    picture = (REPOSITORY / "docs" / "rooms.svg").read_text(encoding="utf8")
    shown = re.findall(r'y="(\d+)" font-weight="bold">(\w+)<', picture)
    rows = [[room for y, room in shown if y == row] for row in dict.fromkeys(y for y, _ in shown)]
    assert rows == [layer.split(" | ") for layer in layers]


def test_the_pages_list_the_formats_that_are_registered():
    corpora = (REPOSITORY / "docs" / "corpora.md").read_text(encoding="utf8")
    table = corpora.partition("## Formats")[2].partition("\n\n|")[2].partition("\n\n")[0]
    cells = [row.split("|")[1] for row in f"|{table}".splitlines()[2:]]
    read = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    extra = {"i2b2_2012_temporal", "bio"}  # in the row of another
    assert read | extra == set(list_formats())
    scale = (REPOSITORY / "docs" / "scale.md").read_text(encoding="utf8")
    output = scale.partition("## The output")[2].partition("\n## ")[0]
    written = re.findall(r"`\.([\w.]+)`", output)
    assert set(list_outputs()) <= set(written)
