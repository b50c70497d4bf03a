"""The commands and snippets of docs/serving.md, on what is included."""

import json
import re
import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from running_server import running

REPOSITORY = Path(__file__).parents[2]
PAGE = (REPOSITORY / "docs" / "serving.md").read_text(encoding="utf8")


def read_blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def read_options() -> list[list[str]]:
    """The options of each command that serves, without its port, for which the test has another."""
    commands = re.findall(r"^ {4}python -m spacy biomed serve (\S+)(.*)$", PAGE, flags=re.MULTILINE)
    assert {pipeline for pipeline, _ in commands} == {"assets/pipelines/en_biomed_ner"}
    return [shlex.split(re.sub(r"--port \d+", "", options)) for _, options in commands]


@pytest.mark.slow
def test_commands_and_snippets_run(tmp_path, monkeypatch, capsys):
    if shutil.which("curl") is None or "--json" not in run("curl --help all"):
        pytest.skip("needs curl 7.82 or newer")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "assets").symlink_to(REPOSITORY / "assets")
    (make_token,) = re.findall(r"^ {4}(python -c .*)$", PAGE, flags=re.MULTILINE)
    run(make_token)
    ours, token = read_options()
    pipeline = REPOSITORY / "assets" / "pipelines" / "en_biomed_ner"
    ask, ask_with_token = read_blocks("bash")
    snippet, application = read_blocks("python")
    with ExitStack() as stack:
        first = stack.enter_context(running(pipeline, tmp_path / "first.txt", *ours))
        second = stack.enter_context(running(pipeline, tmp_path / "second.txt", *token))
        answer = json.loads(run(ask.replace("http://127.0.0.1:8000", first.address)))
        there = second.address.replace("0.0.0.0", "127.0.0.1")
        assert "entities" in run(ask_with_token.replace("http://127.0.0.1:8001", there))
        snippet = snippet.replace("http://127.0.0.1:8000", first.address)
        exec(compile(snippet, "docs/serving.md", "exec"), {})
    assert "BRCA1" in capsys.readouterr().out
    (shown,) = map(json.loads, read_blocks("json"))
    for entity in [*answer["entities"], *shown["entities"]]:
        assert entity.pop("confidence") > 0.9
    assert answer == shown
    values: dict = {}
    exec(compile(application, "docs/serving.md", "exec"), values)
    assert callable(values["app"])


def run(command: str) -> str:
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_defaults_of_the_page_are_the_commands():
    from spacy_biomed.serving import ServerLimits

    limits = ServerLimits()
    shown = dict(re.findall(r"^\| `--([\w-]+)` \| ([\d,]+) \|", PAGE, flags=re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in shown.items()} == {
        "max-characters": limits.max_characters,
        "max-documents": limits.max_documents,
        "max-body": limits.max_body,
        "max-waiting": limits.max_waiting,
        "max-wait": limits.max_wait,
        "timeout": limits.timeout,
        "batch-size": limits.batch_documents,
    }
