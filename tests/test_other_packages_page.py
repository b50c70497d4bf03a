"""The snippets of docs/other_packages.md, each where its package is installed."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from spacy_biomed.pipeline.pipeline_loading import load_pipeline

REPOSITORY = Path(__file__).parents[1]
PAGE = (REPOSITORY / "docs" / "other_packages.md").read_text(encoding="utf8")
SECTIONS = {
    "negspacy": ("negspacy", "negspacy.negation"),
    "EDS-NLP": ("edsnlp", "edsnlp"),
    "medspaCy": ("medspacy", "medspacy.context"),
}


def test_every_section_with_a_snippet_is_run():
    titles = re.findall(r"^## (.+)\n(?:(?!## ).*\n)*?```python\n", PAGE, flags=re.MULTILINE)
    assert titles == list(SECTIONS)


@pytest.mark.parametrize("title", SECTIONS)
def test_a_snippet_finds_the_negated_entity_and_saves_the_pipeline(
    title, tmp_path, monkeypatch, capsys
):
    package, module = SECTIONS[title]
    if find_spec(package) is None:
        pytest.skip(f"needs {package}: python -m pip install {package}")
    section = PAGE.split(f"## {title}\n")[1].split("\n## ")[0]
    (snippet,) = re.findall(r"^```python\n(.*?)^```$", section, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").symlink_to(REPOSITORY / "assets")
    exec(compile(snippet, "docs/other_packages.md", "exec"), {})
    (negated, first), (other, second) = eval(capsys.readouterr().out)
    assert (negated, other) in {("adenocarcinoma", "capecitabina"), ("lung cancer", "gefitinib")}
    assert (first, second) == (True, False)
    (saved,) = tmp_path.glob("with_*")
    (tmp_path / "register.py").write_text(f"import {module}\n", encoding="utf8")
    load_pipeline(str(saved), tmp_path / "register.py")
