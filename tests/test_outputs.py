"""Outputs are written atomically, replace only their own kind, and survive errors and kills."""

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.files import outputs
from spacy_biomed.files.outputs import (
    MARKER,
    check_output,
    claim_directory,
    finish_replacing,
    record_file,
    remove_directory,
    replacing_directory,
    replacing_file,
    scratch_directory,
    working_directory,
)

COMMAND = "spacy biomed convert"


def write(output, content, **arguments):
    with replacing_directory(output, COMMAND, **arguments) as partial:
        (partial / "sub").mkdir()
        (partial / "sub" / "b.txt").write_text(content)
        (partial / "a.txt").write_text(content)


def read(output):
    return {
        path.relative_to(output).as_posix(): path.read_text()
        for path in output.rglob("*")
        if path.is_file() and ".spacy-biomed" not in str(path.relative_to(output))
    }


def whole(content):
    return {"a.txt": content, "sub/b.txt": content}


def test_a_directory_appears_with_a_marker_and_nothing_beside_it(tmp_path):
    write(tmp_path / "deep" / "out", "new", sources=[tmp_path / "in"])
    assert read(tmp_path / "deep" / "out") == whole("new")
    marker = json.loads((tmp_path / "deep" / "out" / MARKER).read_text())
    assert marker == {"made_by": COMMAND, "from": ["in"], "files": ["a.txt", "sub/b.txt"]}
    assert os.listdir(tmp_path / "deep") == ["out"]


def test_permissions_are_those_of_any_new_directory_and_file(tmp_path):
    (tmp_path / "other").mkdir()
    write(tmp_path / "out", "new")
    assert (tmp_path / "out").stat().st_mode == (tmp_path / "other").stat().st_mode
    (tmp_path / "other.txt").write_text("")
    with replacing_file(tmp_path / "out.txt") as partial:
        partial.write_text("new")
    assert (tmp_path / "out.txt").stat().st_mode == (tmp_path / "other.txt").stat().st_mode


def test_an_output_of_the_same_command_is_replaced_whole(tmp_path):
    write(tmp_path / "out", "old")
    with replacing_directory(tmp_path / "out", COMMAND) as partial:
        (partial / "c.txt").write_text("new")
        assert read(tmp_path / "out") == whole("old")
    assert read(tmp_path / "out") == {"c.txt": "new"}


def test_an_output_through_a_link_is_replaced_where_the_link_leads(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk")
    write(tmp_path / "out", "new")
    assert (tmp_path / "out").is_symlink()
    assert read(tmp_path / "disk") == whole("new")


@pytest.mark.parametrize("prepare", ["files", "marker of another", "added", "broken marker"])
def test_what_a_command_did_not_write_is_left_alone(tmp_path, prepare):
    output = tmp_path / "out"
    if prepare == "files":
        output.mkdir()
        (output / "mine.txt").write_text("mine")
    else:
        write(output, "old")
    if prepare == "marker of another":
        marker = json.loads((output / MARKER).read_text())
        (output / MARKER).write_text(json.dumps({**marker, "made_by": "spacy biomed teach"}))
    elif prepare == "added":
        (output / "sub" / "mine.txt").write_text("mine")
    elif prepare == "broken marker":
        (output / MARKER).write_text("{")
    before = read(output)
    with pytest.raises(BiomedError, match="another directory"):
        write(output, "new")
    assert read(output) == before
    assert os.listdir(tmp_path) == ["out"]


def test_an_empty_directory_and_what_file_managers_leave_are_replaced(tmp_path):
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", "old")
    (tmp_path / "out" / ".DS_Store").write_text("")
    write(tmp_path / "out", "new")
    assert read(tmp_path / "out") == whole("new")


def test_a_file_that_was_recorded_counts_as_the_commands_own(tmp_path):
    write(tmp_path / "out", "old")
    (tmp_path / "out" / "more.txt").write_text("more")
    record_file(tmp_path / "out", "more.txt")
    write(tmp_path / "out", "new")
    assert read(tmp_path / "out") == whole("new")


def test_an_error_while_writing_leaves_everything_as_it_was(tmp_path):
    write(tmp_path / "out", "old")
    with pytest.raises(RuntimeError), replacing_directory(tmp_path / "out", COMMAND) as partial:
        (partial / "a.txt").write_text("new")
        raise RuntimeError
    with (
        pytest.raises(RuntimeError),
        replacing_directory(tmp_path / "new" / "out", COMMAND) as partial,
    ):
        raise RuntimeError
    with pytest.raises(RuntimeError), replacing_file(tmp_path / "new" / "out") as partial:
        raise RuntimeError
    assert read(tmp_path / "out") == whole("old")
    assert os.listdir(tmp_path) == ["out"]


def test_files_of_people_with_the_old_temporary_names_stay(tmp_path):
    (tmp_path / "out.partial").mkdir()
    (tmp_path / "out.partial" / "mine").write_text("mine")
    (tmp_path / "file.partial").write_text("mine")
    write(tmp_path / "out", "new")
    with replacing_file(tmp_path / "file") as partial:
        partial.write_text("new")
    assert (tmp_path / "out.partial" / "mine").read_text() == "mine"
    assert (tmp_path / "file.partial").read_text() == "mine"


# Paths


@pytest.mark.parametrize(
    ("output", "source", "relation"),
    [
        ("a", "a", "is what is read"),
        ("a/b/../../a", "a", "is what is read"),
        ("link", "a", "is what is read"),
        ("hard", "a/file", "is what is read"),
        ("a/new", "a", "lies in"),
        ("link/new/deep", "a", "lies in"),
        ("a", "a/file", "holds"),
        (".", "a", "holds"),
    ],
)
def test_an_output_may_not_be_in_its_source_or_around_it(
    tmp_path, monkeypatch, output, source, relation
):
    monkeypatch.chdir(tmp_path)
    Path("a", "b").mkdir(parents=True)
    Path("a", "file").write_text("")
    Path("link").symlink_to("a")
    os.link("a/file", "hard")
    with pytest.raises(BiomedError, match=relation):
        check_output(Path(output), [Path("nowhere"), source])


def test_names_that_begin_alike_are_different_places(tmp_path):
    (tmp_path / "corpus").mkdir()
    check_output(tmp_path / "corpus2", [tmp_path / "corpus"])


@pytest.mark.parametrize("kind", ["directory", "fifo", "under a file"])
def test_a_file_is_written_only_where_a_file_can_be(tmp_path, kind):
    output = tmp_path / "out"
    if kind == "directory":
        output.mkdir()
    elif kind == "fifo":
        os.mkfifo(output)
    else:
        output.write_text("mine")
        output = output / "new"
    with pytest.raises(BiomedError), replacing_file(output):
        pass
    assert os.listdir(tmp_path) == ["out"]


def test_a_file_does_not_become_a_directory(tmp_path):
    (tmp_path / "out").write_text("mine")
    for output in (tmp_path / "out", tmp_path / "out" / "new"):
        with pytest.raises(BiomedError):
            write(output, "new")
    with pytest.raises(BiomedError), working_directory(tmp_path / "out", COMMAND):
        pass
    assert (tmp_path / "out").read_text() == "mine"


# Working directories


def test_a_working_directory_is_gone_on_with_by_its_command_alone(tmp_path):
    with working_directory(tmp_path / "work", COMMAND):
        (tmp_path / "work" / "part").write_text("1")
    with working_directory(tmp_path / "work", COMMAND):
        assert (tmp_path / "work" / "part").read_text() == "1"
    with (
        pytest.raises(BiomedError, match="was made by `spacy biomed convert`"),
        working_directory(tmp_path / "work", "spacy biomed study"),
    ):
        pass
    assert sorted(os.listdir(tmp_path / "work")) == [MARKER, "part"]


def test_a_working_directory_that_nothing_comes_into_is_taken_away_again(tmp_path):
    with pytest.raises(RuntimeError), working_directory(tmp_path / "new" / "work", COMMAND):
        raise RuntimeError
    assert os.listdir(tmp_path) == []


def test_only_directories_of_the_command_are_removed(tmp_path):
    claim_directory(tmp_path / "ours", COMMAND)
    (tmp_path / "ours" / "part").write_text("")
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "part").write_text("")
    remove_directory(tmp_path / "ours", COMMAND)
    remove_directory(tmp_path / "ours", COMMAND)
    with pytest.raises(BiomedError):
        remove_directory(tmp_path / "theirs", COMMAND)
    assert os.listdir(tmp_path) == ["theirs"]


def test_a_directory_that_cannot_be_deleted_is_one_line(tmp_path, monkeypatch):
    claim_directory(tmp_path / "ours", COMMAND)

    def fail(path):  # by its last name, as `rmtree` calls it
        raise OSError(errno.EIO, "Input/output error", "part")

    monkeypatch.setattr(outputs.shutil, "rmtree", fail)
    with pytest.raises(BiomedError, match="ours: cannot be deleted"):
        remove_directory(tmp_path / "ours", COMMAND)


# Two processes

HOLDER = """
import sys
from pathlib import Path
from spacy_biomed.files.outputs import *
output = Path(sys.argv[1])
is_file = sys.argv[2] == "file"
with replacing_file(output) if is_file else replacing_directory(output, "x") as partial:
    print("holding", flush=True)
    sys.stdin.read()
    (partial if is_file else partial / "a.txt").write_text("first")
"""


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_of_two_processes_one_writes_and_the_other_says_so(tmp_path, kind):
    output = tmp_path / "out"
    command = [sys.executable, "-c", HOLDER, str(output), kind]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout.readline() == "holding\n"
        second = subprocess.run(command, input="", capture_output=True, text=True)
        first.communicate()
    assert second.returncode == 1
    assert f"{output}: another process is writing it" in second.stderr
    assert "holding" not in second.stdout
    assert first.returncode == 0
    assert (output if kind == "file" else output / "a.txt").read_text() == "first"
    assert os.listdir(tmp_path) == ["out"]


def test_a_killed_process_leaves_no_lock_and_no_leftovers_to_the_next_run(tmp_path):
    output = tmp_path / "out"
    write_x = [sys.executable, "-c", HOLDER, str(output), "directory"]
    with subprocess.Popen(
        write_x, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout.readline() == "holding\n"
        first.kill()
    assert len(os.listdir(tmp_path)) == 2  # a stale lock, and an incomplete output
    write(output, "new")
    assert os.listdir(tmp_path) == ["out"]


# Faults: each system call that changes a directory, and each flush, fails or is killed in turn.

CALLS = ("rename", "replace", "unlink", "rmdir", "mkdir", "fsync", "link")


class Injected:
    """Makes the n-th call fail with an error, or kills the process at this call."""

    def __init__(self, monkeypatch, number, error):
        self.count, self.number, self.error = 0, number, error
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name)))

    def _wrap(self, function):
        def call(*args, **settings):
            self.count += 1
            if self.count - 1 == self.number:
                if self.error == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                name = [] if isinstance(args[0], int) else [str(args[0])]
                raise OSError(self.error, os.strerror(self.error), *name)
            return function(*args, **settings)

        return call


def write_file(output, content):
    with replacing_file(output) as partial:
        partial.write_text(content)


def write_in_place(output, content):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "_must_stay", Path.is_dir)
        write(output, content)


WRITERS = {"file": write_file, "directory": write, "directory that stays": write_in_place}


def content_of(output):
    return output.read_text() if output.is_file() else read(output) if output.exists() else None


def count_calls(writer, tmp_path):
    output = tmp_path / "counted" / "out"
    writer(output, "old")
    with pytest.MonkeyPatch.context() as patch:
        injected = Injected(patch, -1, 0)
        writer(output, "new")
    return injected.count


@pytest.mark.parametrize("error", ["EIO", "ENOSPC", "EBUSY"])
@pytest.mark.parametrize("writer", WRITERS)
def test_an_error_at_any_call_leaves_the_old_or_the_new_output_whole(tmp_path, writer, error):
    expected = (
        {"old": "old", "new": "new"}
        if writer == "file"
        else {
            "old": whole("old"),
            "new": whole("new"),
        }
    )
    calls = count_calls(WRITERS[writer], tmp_path)
    assert calls >= 3  # in Python 3.10 those of pathlib cannot be counted
    for number in range(calls):
        output = tmp_path / str(number) / "out"
        WRITERS[writer](output, "old")
        with pytest.MonkeyPatch.context() as patch:
            Injected(patch, number, getattr(errno, error))
            try:
                WRITERS[writer](output, "new")
                left = expected["new"]
            except BiomedError as failed:
                assert "\n" not in str(failed)
                left = expected["old"]
        if writer == "directory that stays":
            assert content_of(output).keys() == left.keys()
        else:
            assert content_of(output) == left, number
        WRITERS[writer](output, "next")
        assert os.listdir(output.parent) == ["out"]
        assert "next" in str(content_of(output))


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_kill_at_any_call_leaves_the_old_or_the_new_output_whole(tmp_path, writer):
    for number in range(count_calls(WRITERS[writer], tmp_path)):
        output = tmp_path / str(number) / "out"
        WRITERS[writer](output, "old")
        child = os.fork()
        if not child:
            Injected(pytest.MonkeyPatch(), number, "kill")
            WRITERS[writer](output, "new")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status)
        if writer != "file":
            finish_replacing(output)
        if writer == "directory that stays":
            assert content_of(output).keys() == whole("").keys()
        else:
            one = [content_of(output)]
            assert one in ([whole("old")], [whole("new")], ["old"], ["new"]), number
        WRITERS[writer](output, "next")
        assert os.listdir(output.parent) == ["out"]
        assert "next" in str(content_of(output))


def test_a_result_that_cannot_be_put_in_its_place_is_kept_and_named(tmp_path, monkeypatch):
    write(tmp_path / "out", "old")
    rename = os.rename

    def fail(source, target):
        if str(target) == str(tmp_path / "out") and ".partial" in str(source):
            raise OSError(errno.EIO, "Input/output error", str(source))
        rename(source, target)

    monkeypatch.setattr(os, "rename", fail)
    with pytest.raises(BiomedError, match="the new one is complete in") as raised:
        write(tmp_path / "out", "new")
    kept = Path(str(raised.value).partition("complete in ")[2].partition(": ")[0])
    assert read(kept) == whole("new")
    assert read(tmp_path / "out") == whole("old")
    monkeypatch.undo()
    write(tmp_path / "out", "next")
    assert os.listdir(tmp_path) == ["out"]


def test_an_old_output_that_cannot_be_deleted_is_named_and_the_new_one_is_there(
    tmp_path, monkeypatch, capsys
):
    write(tmp_path / "out", "old")
    monkeypatch.setattr(outputs.shutil, "rmtree", lambda *args, **settings: os.rmdir(args[0]))
    write(tmp_path / "out", "new")
    assert read(tmp_path / "out") == whole("new")
    assert "the old output could not be deleted" in capsys.readouterr().err


def test_a_full_disk_is_one_line_whichever_library_writes(tmp_path):
    for error, reason in (
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (RuntimeError("I/O error: No space left on device (os error 28)"), "No space left"),
        (ValueError("database or disk is full"), "disk is full"),
        (RuntimeError("I/O error: File too large (os error 27)"), "File too large"),
        (RuntimeError("disk I/O error"), "disk I/O error"),
        (RuntimeError("PytorchStreamWriter failed writing file data/0"), "failed writing"),
        (shutil.Error([("a", "b", "[Errno 28] No space left on device: 'b'")]), "No space left"),
    ):
        with (
            pytest.raises(BiomedError, match=rf"out: cannot be written \({reason}"),
            replacing_file(tmp_path / "out"),
        ):
            raise error
    assert os.listdir(tmp_path) == []


def test_a_working_directory_whose_marker_could_not_be_written_is_still_the_commands(
    tmp_path, monkeypatch
):
    work = tmp_path / "work"

    def fail(path, marker):
        path.write_text("{")
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(outputs, "write_marker", fail)
        with pytest.raises(BiomedError), working_directory(work, COMMAND):
            pass
    assert os.listdir(tmp_path) == []
    work.mkdir()
    (work / ".spacy-biomed.0123abcd.partial").write_text("{")  # from a killed process
    with working_directory(work, COMMAND):
        (work / "part").write_text("1")
    assert sorted(os.listdir(work)) == [MARKER, "part"]


def test_errors_of_files_that_are_read_are_not_taken_for_the_outputs(tmp_path):
    with pytest.raises(FileNotFoundError), replacing_file(tmp_path / "out"):
        (tmp_path / "gone.txt").read_text()


def test_a_scratch_directory_is_for_its_owner_alone_and_goes_with_the_next_run(tmp_path):
    with replacing_file(tmp_path / "out") as partial, scratch_directory(tmp_path / "out") as path:
        assert path.stat().st_mode & 0o777 == 0o700
        partial.write_text("new")
    assert os.listdir(tmp_path) == ["out"]
    left = tmp_path / ".out.0123abcd.partial"
    left.mkdir()
    write_file(tmp_path / "out", "next")
    assert os.listdir(tmp_path) == ["out"]
