"""The commands and snippets of docs/scale.md, on what is included."""

import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest
from commands import call
from fault_injection import snapshot

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.slow
def test_commands_and_snippets_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").symlink_to(REPOSITORY / "assets")
    page = (REPOSITORY / "docs" / "scale.md").read_text(encoding="utf8")
    blocks = re.findall(
        r"^```python\n(.*?)^```$|^ {4}python -m spacy biomed (annotate (?:[^\n]*\\\n)*[^\n]*)$",
        page,
        flags=re.MULTILINE | re.DOTALL,
    )
    assert [bool(snippet) for snippet, _ in blocks] == [False, True, False, False, True]
    for snippet, command in blocks:
        if snippet:
            exec(compile(snippet, "docs/scale.md", "exec"), {})
            assert "Empagliflozin" in capsys.readouterr().out
        elif "--engine ray" not in command or find_spec("ray"):
            result = call(*shlex.split(command.replace("\\\n", " ")))
            assert result.exit_code == 0, result.output
            assert "40" in result.output
    first, second = (snapshot(tmp_path / f"{name}.parquet") for name in ("annotated", "processes"))
    assert [len([n for n in one if n.startswith("entities/")]) for one in (first, second)] == [1, 4]
    if find_spec("ray"):
        assert snapshot(tmp_path / "ray.parquet") == second
