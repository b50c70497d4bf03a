"""Downloads of corpora from a git repository: what is fetched, checked, refused and left behind."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from commands import call, error_line, refuse

from spacy_biomed.corpora import downloads
from spacy_biomed.corpora.corpus_catalogue import CorpusEntry, find_corpus
from spacy_biomed.corpora.downloads import download_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.files.digests import digest_files, hash_file


def git(*arguments: str, folder: Path) -> str:
    names = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    done = subprocess.run(
        ["git", *names, *arguments], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def published(tmp_path: Path) -> CorpusEntry:
    """A corpus of a file and a folder, in a repository whose newest commit has another file."""
    repository = tmp_path / "published"
    (repository / "data" / "brat").mkdir(parents=True)
    (repository / "data" / "train.tsv").write_text("Aspirin\tB-Drug\r\n", encoding="utf8")
    (repository / "data" / "brat" / "1.txt").write_text("Aspirin.", encoding="utf8")
    (repository / "large.bin").write_bytes(bytes(1000))
    git("init", "--quiet", folder=repository)
    git("config", "uploadpack.allowFilter", "true", folder=repository)
    git("config", "uploadpack.allowAnySHA1InWant", "true", folder=repository)
    git("add", "-A", folder=repository)
    git("commit", "--quiet", "-m", "first", folder=repository)
    commit = git("rev-parse", "HEAD", folder=repository)
    sums = {
        "train.tsv": hash_file(repository / "data" / "train.tsv"),
        "test": digest_files(repository / "data" / "brat"),
    }
    (repository / "data" / "train.tsv").write_text("changed since\n", encoding="utf8")
    git("commit", "--quiet", "-a", "-m", "second", folder=repository)
    return replace(
        find_corpus("ncbi_disease"),
        name="published",
        splits={"train": ("train.tsv",), "test": ("test",)},
        repository=f"file://{repository}",
        commit=commit,
        repository_paths={"train.tsv": "data/train.tsv", "test": "data/brat"},
        sha256=sums,
    )


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_files_of_the_commit_are_fetched_and_no_others(published, tmp_path):
    folder = tmp_path / "assets" / "published"
    downloaded = download_corpus(published, folder)
    assert downloaded == [folder / "test", folder / "train.tsv"]
    assert files(tmp_path / "assets") == ["published/test/1.txt", "published/train.tsv"]
    assert (folder / "train.tsv").read_bytes() == b"Aspirin\tB-Drug\r\n"


def test_what_is_there_is_checked_and_not_fetched_again(published, tmp_path, monkeypatch):
    download_corpus(published, tmp_path / "mine")
    monkeypatch.setattr(downloads, "_fetch", None)
    assert download_corpus(published, tmp_path / "mine") == []
    (tmp_path / "mine" / "test" / "1.txt").write_text("Other.", encoding="utf8")
    with pytest.raises(BiomedError, match="test is not as published; remove it"):
        download_corpus(published, tmp_path / "mine")
    assert (tmp_path / "mine" / "test" / "1.txt").read_text(encoding="utf8") == "Other."


def test_nothing_is_left_of_files_that_are_not_as_published(published, tmp_path):
    other = replace(published, sha256={**published.sha256, "train.tsv": "0" * 64})
    with pytest.raises(BiomedError, match="train.tsv is not as published: removed") as error:
        download_corpus(other, tmp_path / "assets" / "published")
    assert "\n" not in str(error.value)
    assert files(tmp_path / "assets") == []


def test_files_of_the_users_own_stay(published, tmp_path):
    (tmp_path / "train.tsv").write_text("mine", encoding="utf8")
    with pytest.raises(BiomedError, match="train.tsv: is there already"):
        download_corpus(published, tmp_path)
    assert (tmp_path / "train.tsv").read_text(encoding="utf8") == "mine"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"repository": "file:///nowhere/at/all"}, "could not be downloaded .* try again"),
        ({"commit": "0" * 40}, "could not be downloaded"),
        ({"repository_paths": {"train.tsv": "data/gone.tsv"}}, "gone.tsv is not in file:"),
    ],
)
def test_a_download_that_fails_is_one_line(published, tmp_path, change, message):
    with pytest.raises(BiomedError, match=message) as error:
        download_corpus(replace(published, **change), tmp_path / "assets" / "published")
    assert "\n" not in str(error.value)
    assert files(tmp_path / "assets") == []


def test_a_missing_git_is_named(published, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BiomedError, match="need the command git"):
        download_corpus(published, tmp_path / "mine")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["cantemist"], "cantemist: no command can download it (by hand): Unpack"),
        (["i2b2_2010"], "i2b2_2010: no command can download it (data use agreement)"),
        (["starter_en"], "starter_en: comes with the project"),
        ([], "give the corpus to download"),
    ],
)
def test_the_command_says_what_to_do_where_there_is_no_download(
    arguments, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert refuse("corpora", *arguments, "--download").startswith(message)


def test_the_command_prints_what_it_wrote(published, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_biomed.corpora.corpus_catalogue.find_corpus", lambda _: published)
    arguments = ["corpora", "published", str(tmp_path / "mine"), "--download"]
    first = call(*arguments)
    assert first.stdout == f"✔ Downloaded {tmp_path}/mine/test, {tmp_path}/mine/train.tsv\n"
    again = call(*arguments)
    assert "has the files of published already" in again.stdout
    refused = call(*arguments[:-1])
    assert error_line(refused).startswith("give the corpus to download, and --download")
