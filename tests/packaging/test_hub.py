"""`spacy biomed push` and `pull`, against a stand-in of the hub on this machine."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from hashlib import sha256
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest
import spacy
from commands import call, error_line, refuse
from hub_stand_in import COMMIT, running

from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging import hub
from spacy_biomed.pipeline.checksums import write_checksums

CARD = "---\nlicense: other\n---\n# A pipeline\n"
SOURCES = [
    {"name": "A", "license": "CC BY 4.0 (texts); annotations in the public domain"},
    {"name": "B", "license": "CC BY-SA 3.0"},
    {"name": "C", "license": "CC BY-NC 4.0"},
    {"name": "D", "license": "Terms of D"},
    {"name": "E", "license": "MIT"},
    {"name": "encoder: F"},
]


@pytest.fixture
def described(tmp_path) -> Path:
    """A pipeline with card and checksums, and two files that are not a part of it."""
    nlp = spacy.blank("en", meta={"name": "tiny", "version": "1.2.0", "license": "as A's"})
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "DRUG", "pattern": "Aspirin"}])
    directory = tmp_path / "pipeline"
    nlp.to_disk(directory)
    write_checksums(directory)
    (directory / "README.md").write_text(CARD)
    (directory / "notes.txt").write_text("Marta Ochoa")
    (directory / ".hidden").write_text("Marta Ochoa")
    return directory


@pytest.fixture
def server():
    with running() as started:
        yield started


@pytest.fixture
def run(server, tmp_path):
    """Run a command in a process of its own, whose hub is the stand-in."""

    def run_biomed(*arguments):
        home = {"HOME": str(tmp_path), "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "127.0.0.1"}
        return subprocess.run(
            [sys.executable, "-m", "spacy", "biomed", *map(str, arguments)],
            capture_output=True,
            text=True,
            env={**os.environ, **home, "HF_ENDPOINT": server.url, "HF_HUB_OFFLINE": "0"},
            check=False,
        )

    return run_biomed


def add_sources(directory, sources):
    meta = json.loads((directory / "meta.json").read_text())
    (directory / "meta.json").write_text(json.dumps({**meta, "sources": sources}))


def contents(directory):
    files = (path for path in directory.rglob("*") if path.is_file())
    return {path.relative_to(directory).as_posix(): path.read_bytes() for path in files}


@pytest.mark.slow
def test_a_pipeline_comes_back_as_it_was_sent(described, server, run, tmp_path):
    wheel = tmp_path / "dist" / "en_tiny-1.2.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("en_tiny/__init__.py", "")
    options = ["--wheel", wheel.parent, "--private", "--confirm-licences"]
    sent = run("push", described, "me/tiny", *options)
    assert sent.returncode == 0, sent.stderr
    assert f"pull me/tiny@{COMMIT} DIR" in sent.stdout
    parts = contents(described)
    for other in ("notes.txt", ".hidden"):
        del parts[other]
    assert server.files == {**parts, wheel.name: wheel.read_bytes()}
    assert server.private is True
    server.files["unlisted.py"] = b"raise SystemExit"
    pulled = run("pull", f"me/tiny@{COMMIT}", tmp_path / "pulled")
    assert pulled.returncode == 0, pulled.stderr
    assert "en_tiny 1.2.0" in pulled.stdout
    assert {n: c for n, c in contents(tmp_path / "pulled").items() if n[0] != "."} == parts
    assert [ent.label_ for ent in spacy.load(tmp_path / "pulled")("Aspirin helps.").ents] == [
        "DRUG"
    ]


@pytest.mark.slow
def test_what_is_not_as_listed_is_refused_and_nothing_is_written(described, server, run, tmp_path):
    server.files = contents(described)
    good = server.files["SHA256SUMS"]
    changed = server.files["tokenizer"] + b" "
    outside = f"{sha256(b'').hexdigest()}  ../tokenizer\n".encode()
    for files, message in (
        ({"tokenizer": changed}, "is not as it was written"),
        ({"SHA256SUMS": outside + good}, "'../tokenizer' is not a file of the pipeline"),
        ({"SHA256SUMS": b"0" * 64 + b"  gone\n"}, "me/tiny: 404"),
    ):
        server.files = {**contents(described), **files}
        pulled = run("pull", f"me/tiny@{COMMIT}", tmp_path / "new" / "pulled")
        assert pulled.returncode == 1
        assert message in pulled.stderr.splitlines()[-1]
        assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_a_public_repository_gets_nothing_that_is_to_be_private(described, server, run):
    server.private = False
    sent = run("push", described, "me/tiny", "--private", "--confirm-licences")
    assert sent.returncode == 1
    assert "me/tiny: this repository is public" in sent.stderr
    assert server.files == {}
    assert not any("preupload" in request for request in server.requests)


@pytest.mark.slow
def test_a_dry_run_lists_all_files_and_asks_nobody(described, server, run):
    add_sources(described, SOURCES)
    done = run("push", described, "me/tiny", "--dry-run")
    assert done.returncode == 0, done.stderr
    rows = dict(line.split() for line in done.stdout.splitlines() if len(line.split()) == 2)
    parts = [name for name in contents(described) if name not in ("notes.txt", ".hidden")]
    assert {name: int(rows[name].replace(",", "")) for name in parts} == {
        name: (described / name).stat().st_size for name in parts
    }
    assert "notes.txt" not in done.stdout
    assert "Nothing was sent" in done.stdout
    assert server.requests == []


def test_licences_that_are_not_plainly_free_are_confirmed(described, monkeypatch):
    sent = []
    monkeypatch.setattr(
        "spacy_biomed.packaging.hub.push_pipeline",
        lambda shipment, repo_id, private: sent.append(repo_id) or COMMIT,
    )
    add_sources(described, SOURCES)
    result = call("push", described, "me/tiny")
    assert "licences that may not allow passing it on: 4" in error_line(result)
    listed = [line for line in result.stdout.splitlines() if line.startswith("Licence")]
    assert [line.partition(": ")[2] for line in listed] == [
        "B: CC BY-SA 3.0",
        "C: CC BY-NC 4.0",
        "D: Terms of D",
        "encoder: F: not stated",
    ]
    assert sent == []
    assert call("push", described, "me/tiny", "--confirm-licences").exit_code == 0
    add_sources(described, SOURCES[:1])
    assert call("push", described, "me/tiny").exit_code == 0
    assert sent == ["me/tiny"] * 2
    add_sources(described, [])
    assert "passing it on: 1 " in error_line(result := call("push", described, "me/tiny"))
    assert "Licence to confirm: en_tiny: as A's" in result.stdout


def test_what_is_not_described_is_not_sent(described, tmp_path):
    def refused(*options):
        return refuse("push", described, "me/tiny", "--dry-run", *options)

    with zipfile.ZipFile(tmp_path / "en_other-1.2.0-py3-none-any.whl", "w") as archive:
        archive.writestr("en_other/__init__.py", "")
    assert "not a wheel of en_tiny 1.2.0" in refused("--wheel", tmp_path)
    (described / "README.md").write_text("# A pipeline\n")
    assert "gives no license" in refused()
    (described / "README.md").unlink()
    assert "gives no license" in refused()
    (described / "tokenizer").write_text("changed")
    assert "is not as it was written" in refused()
    (described / "SHA256SUMS").unlink()
    assert "has no SHA256SUMS" in refused()
    shutil.rmtree(described)
    assert "neither a pipeline directory" in refused()


def test_an_installed_pipeline_can_be_sent(described, tmp_path, monkeypatch):
    package = tmp_path / "site" / "en_tiny"
    shutil.copytree(described, package / "en_tiny-1.2.0")
    (package / "__init__.py").touch()
    (tmp_path / "site" / "en_tiny-1.2.0.dist-info").mkdir()
    (tmp_path / "site" / "en_tiny-1.2.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: en_tiny\nVersion: 1.2.0\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "site")
    shipment = hub.prepare_shipment("en_tiny")
    assert shipment.title == "en_tiny 1.2.0"
    assert shipment.files["tokenizer"] == package / "en_tiny-1.2.0" / "tokenizer"


@pytest.mark.parametrize("source", ["me/tiny", "me/tiny@main", f"me/tiny@{COMMIT[:39]}", "@x"])
def test_a_revision_is_the_hash_of_a_commit(source, tmp_path):
    assert "the hash of a commit" in refuse("pull", source, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_config_that_names_code_of_another_package_is_refused(monkeypatch):
    points = EntryPoints(
        EntryPoint(name, value, group)
        for name, value, group in (
            ("own", "spacy_biomed.pipeline.ner:make_biomed_ner", "spacy_factories"),
            ("other", "other.pipe:make", "spacy_factories"),
            ("other.Model.v1", "other.model:create", "spacy_architectures"),
            ("en", "tables.en:load", "spacy_lookups"),
        )
    )
    monkeypatch.setattr(
        hub, "entry_points", lambda **chosen: points.select(**chosen) if chosen else points
    )
    model = {"@architectures": "spacy.Tagger.v2"}
    config = {"nlp": {"lang": "en"}, "components": {"other": {"factory": "own", "model": model}}}
    hub.refuse_foreign_code(config, "me/tiny")
    for changed in ({"factory": "other"}, {"model": {"@architectures": "other.Model.v1"}}):
        with pytest.raises(BiomedError, match="of the package other"):
            hub.refuse_foreign_code({**config, "components": {"a": changed}}, "me/tiny")
