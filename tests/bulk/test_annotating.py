"""Annotation of a collection: what is written, and that it is written exactly once."""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import fault_injection
import pyarrow.parquet as pq
import pytest
import spacy
from fault_injection import Fault, in_mount_namespace, mount, snapshot
from forked_commands import ForkedCommand
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_biomed import BiomedError
from spacy_biomed.bulk import BulkSettings, annotate_collection, annotating, shards
from spacy_biomed.bulk.manifest import FinishedShard, Manifest, read_manifest
from spacy_biomed.files import Columns
from spacy_biomed.files.sources import Part, plan_shards
from spacy_biomed.formats.inputs import find_parts
from spacy_biomed.pipeline.mention_layer import install_extensions

TEXTS = ["aspirin for cancer", "nothing", "no aspirin", "", "cancer, cancer", "end"]
SIZE = 2
SMALL = BulkSettings(shard_size=SIZE)


@Language.component("test_fails")
def fail(doc: Doc) -> Doc:
    """Fail on some documents, quoting their text."""
    if "fails" in doc.text:
        raise ValueError(doc.text)
    return doc


@Language.component("test_attributes")
def add_attributes(doc: Doc) -> Doc:
    install_extensions()
    for name in ("negated", "computed"):
        if not Span.has_extension(name):
            how = {"getter": len} if name == "computed" else {"default": None}
            Span.set_extension(name, **how)
    for number, span in enumerate(doc.ents):
        span._.negated = True
        span._.confidence = 0.5 + number / 4
    doc.spans["others"] = [Span(doc, 1, 2, label="SECOND", kb_id="Q1")] if len(doc) > 1 else []
    return doc


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.jsonl"
    write(path, TEXTS)
    return path


def write(path: Path, texts: list[str]) -> None:
    rows = ({"id": f"n{number}", "text": text} for number, text in enumerate(texts))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf8")


def add_pipe(ruler: Path, name: str, folder: Path) -> Path:
    nlp = spacy.load(ruler)
    nlp.add_pipe(name)
    nlp.to_disk(folder / "pipeline")
    return folder / "pipeline"


def read_json(output: Path, pattern: str = "part-*.jsonl") -> list[dict]:
    files = sorted(output.glob(pattern))
    return [json.loads(line) for file in files for line in file.read_text("utf8").splitlines()]


def read_table(output: Path, name: str) -> list[dict]:
    files = sorted((output / name).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def entity(start: int, end: int, text: str, label: str, id: str | None = None) -> dict:
    return {
        "start": start,
        "end": end,
        "text": text,
        "label": label,
        "group": None,
        "confidence": None,
        "attributes": {} if id is None else {"id": id},
    }


def test_json_lines_have_what_was_found_in_each_document(ruler, notes, tmp_path):
    report = annotate_collection(str(ruler), notes, tmp_path / "out.jsonl", SMALL)
    rows = read_json(tmp_path / "out.jsonl")
    assert [(row["document"], row["id"]) for row in rows] == [(n, f"n{n}") for n in range(6)]
    aspirin = entity(0, 7, "aspirin", "DRUG", "D1")
    assert rows[0]["entities"] == [aspirin, entity(12, 18, "cancer", "DISEASE")]
    assert [len(row["entities"]) for row in rows] == [2, 0, 1, 0, 2, 0]
    assert [row["words"] for row in rows] == [3, 1, 2, 0, 3, 1]
    assert [row["characters"] for row in rows] == [18, 7, 10, 0, 14, 3]
    counts = {"documents": 6, "words": 10, "characters": 52, "entities": 5}
    assert (report.counts, len(report.failed), report.shards, report.continued) == (counts, 0, 3, 0)


def test_parquet_has_documents_and_entities(ruler, notes, tmp_path):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    documents, entities = (read_table(tmp_path / "out", name) for name in ("documents", "entities"))
    assert documents[2] == {"document": 2, "id": "n2", "characters": 10, "words": 2}
    assert [row["id"] for row in documents] == [f"n{n}" for n in range(6)]
    assert entities[0] == {
        "document": 0,
        "id": "n0",
        **entity(0, 7, "aspirin", "DRUG"),
        "attributes": [("id", "D1")],
    }
    assert [(row["document"], row["start"]) for row in entities] == [
        (0, 0),
        (0, 12),
        (2, 3),
        (4, 0),
        (4, 8),
    ]
    schemas = {pq.read_schema(file) for file in (tmp_path / "out" / "entities").iterdir()}
    assert len(schemas) == 1


def test_entities_have_their_confidence_attributes_and_group(ruler, notes, tmp_path):
    pipeline = add_pipe(ruler, "test_attributes", tmp_path)
    annotate_collection(str(pipeline), notes, tmp_path / "out.jsonl", SMALL)
    first = read_json(tmp_path / "out.jsonl")[0]["entities"]
    assert [one["confidence"] for one in first] == [0.5, 0.75, None]
    assert [one["group"] for one in first] == [None, None, "others"]
    assert [one["attributes"] for one in first] == [
        {"id": "D1", "negated": "true"},
        {"negated": "true"},
        {"kb_id": "Q1"},
    ]


@pytest.mark.slow
def test_entities_of_a_lower_confidence_are_left_out(ruler, notes, tmp_path):
    """Those without a confidence, of other components, stay."""
    pipeline = add_pipe(ruler, "test_attributes", tmp_path)
    settings = replace(SMALL, min_confidence=0.6)
    annotate_collection(str(pipeline), notes, tmp_path / "out.jsonl", settings)
    first = read_json(tmp_path / "out.jsonl")[0]["entities"]
    assert [one["confidence"] for one in first] == [0.75, None]
    with pytest.raises(BiomedError, match=r"other values of the settings \(min_confidence\)"):
        annotate_collection(str(pipeline), notes, tmp_path / "out.jsonl", SMALL)


def test_a_run_that_stops_after_any_shard_continues_to_the_same_bytes(
    ruler, notes, tmp_path, monkeypatch
):
    annotate_collection(str(ruler), notes, tmp_path / "whole", SMALL)
    whole = snapshot(tmp_path / "whole")
    read: list[int] = []
    read_shard = Part.read
    monkeypatch.setattr(Part, "read", lambda self, s: [read.append(s.row), read_shard(self, s)][1])
    for stop in range(1, 3):
        output = tmp_path / f"out{stop}"

        def stop_there(rows: int, total: int, words: int, stop: int = stop) -> None:
            if rows > stop * SIZE:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            annotate_collection(str(ruler), notes, output, SMALL, on_progress=stop_there)
        assert len(list((output / "documents").iterdir())) == stop
        read.clear()
        report = annotate_collection(str(ruler), notes, output, SMALL)
        assert read == list(range(stop * SIZE, 6, SIZE))
        assert report.continued == stop
        assert snapshot(output) == whole


def test_a_finished_run_is_left_as_it_is(ruler, notes, tmp_path):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*")}
    report = annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    assert (report.continued, report.counts["documents"]) == (3, 6)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.*")} == {
        path: time for path, time in times.items() if path.is_file()
    }


def test_the_engine_is_named_only_while_a_run_lasts(ruler, notes, tmp_path, monkeypatch):
    monkeypatch.delenv("SPACY_BIOMED_ENGINE")
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    assert read_manifest(tmp_path / "out").settings["engine"] == "onnxruntime"
    assert "SPACY_BIOMED_ENGINE" not in os.environ
    monkeypatch.setenv("SPACY_BIOMED_ENGINE", "openvino")
    annotate_collection(str(ruler), notes, tmp_path / "other", SMALL)
    other = read_manifest(tmp_path / "other").settings["engine"]
    assert other == os.environ["SPACY_BIOMED_ENGINE"]


def test_a_finished_shard_whose_file_is_gone_is_annotated_again(ruler, notes, tmp_path):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    whole = snapshot(tmp_path / "out")
    (tmp_path / "out" / "entities" / "part-00001.parquet").unlink()
    report = annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    assert report.continued == 2
    assert snapshot(tmp_path / "out") == whole


def arguments(ruler: Path, output: str = "out") -> list[str]:
    return ["annotate", str(ruler), "notes.jsonl", output, "--shard-size", "2"]


@pytest.mark.slow(least=1)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are run in forks")
@pytest.mark.parametrize(
    ("error", "output"),
    [(0, "out"), (0, "out.brat"), (errno.ENOSPC, "out"), (errno.EROFS, "out.brat")],
)
def test_after_a_kill_or_an_error_at_a_call_the_run_continues_to_the_same_bytes(
    ruler, notes, tmp_path, error, output
):
    use = arguments(ruler, output)
    outcome = fault_injection.run(use, tmp_path)
    assert outcome.status == 0, outcome
    files, calls = snapshot(tmp_path / output), outcome.calls
    shutil.rmtree(tmp_path / output)
    assert len(calls) > 30
    for at in fault_injection.choose_tries(range(len(calls)), f"{error} {output}", fewest=3):
        outcome = fault_injection.run(use, tmp_path, Fault(at, error))
        if error:
            # What is deleted at the end may stay, with or without a warning.
            assert outcome.status in (0, 1), outcome
            assert len(outcome.lines) <= 1, outcome
            assert outcome.status == 0 or outcome.lines[0].startswith("✘ "), outcome
        else:
            assert outcome.status == -signal.SIGKILL
        outcome = fault_injection.run(use, tmp_path)
        assert outcome.status == 0, outcome
        found = snapshot(tmp_path / output)
        assert found == files, calls[at]
        shutil.rmtree(tmp_path / output)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts a file system")
def test_on_a_full_disk_finished_shards_are_kept_and_the_run_continues(ruler, tmp_path):
    write(tmp_path / "notes.jsonl", TEXTS * 20)
    assert fault_injection.run(arguments(ruler), tmp_path).status == 0
    (tmp_path / "disk").mkdir()

    def work() -> None:
        mount("tmpfs", tmp_path / "disk", "size=2m")
        system = os.statvfs(tmp_path / "disk")
        filler = tmp_path / "disk" / "filler"
        filler.write_bytes(bytes((system.f_bavail - 60) * system.f_frsize))
        outcome = fault_injection.run(arguments(ruler, "disk/out"), tmp_path)
        assert (outcome.status, len(outcome.lines)) == (1, 1), outcome
        assert "No space left on device" in outcome.lines[0]
        assert "finished shards are kept: run it again" in outcome.lines[0]
        finished = (tmp_path / "disk" / "out" / "_finished.jsonl").read_bytes().splitlines()
        assert 5 < len(finished) < 60
        filler.unlink()
        again = fault_injection.run(arguments(ruler, "disk/out"), tmp_path)
        assert again.status == 0, again
        assert snapshot(tmp_path / "disk" / "out") == snapshot(tmp_path / "out")

    problem = in_mount_namespace(work)
    if problem == "":
        pytest.skip("mounting is not permitted here")
    assert problem is None, problem


@pytest.mark.slow
def test_a_process_that_is_killed_continues_to_the_same_bytes(ruler, tmp_path):
    write(tmp_path / "notes.jsonl", TEXTS * 100)
    settings = BulkSettings(shard_size=10)
    annotate_collection(str(ruler), tmp_path / "notes.jsonl", tmp_path / "whole", settings)
    command = [sys.executable, "-m", "spacy", "biomed", *arguments(ruler)[:-1], "10"]
    process = ForkedCommand(command, cwd=tmp_path, stdout=subprocess.DEVNULL)
    finished = tmp_path / "out" / "_finished.jsonl"
    while process.poll() is None and not finished.exists():
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert 0 < len(finished.read_bytes().splitlines()) < 60
    report = annotate_collection(str(ruler), tmp_path / "notes.jsonl", tmp_path / "out", settings)
    assert 0 < report.continued < 60
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "whole")


def test_a_changed_input_is_refused(ruler, notes, tmp_path):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    before = snapshot(tmp_path / "out")
    write(notes, [*TEXTS[:-1], "END"])
    with pytest.raises(BiomedError, match="the input has changed since"):
        annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    assert snapshot(tmp_path / "out") == before


def test_an_input_that_was_only_copied_is_the_same(ruler, notes, tmp_path):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    os.utime(notes, (1, 1))
    assert annotate_collection(str(ruler), notes, tmp_path / "out", SMALL).continued == 3


def test_a_changed_pipeline_is_refused(ruler, notes, tmp_path):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    changed = add_pipe(ruler, "test_attributes", tmp_path)
    with pytest.raises(BiomedError, match=r"other values of the pipeline \(sha256\)"):
        annotate_collection(str(changed), notes, tmp_path / "out", SMALL)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("settings", "name"),
    [
        (BulkSettings(shard_size=3), "shard_size"),
        (BulkSettings(shard_size=2, batch_size=7), "batch_size"),
        (BulkSettings(shard_size=2, min_confidence=0.5), "min_confidence"),
        (BulkSettings(Columns("id"), shard_size=2), "text"),
        (BulkSettings(Columns(id="id"), shard_size=2), "id"),
    ],
)
def test_a_changed_setting_is_refused(ruler, notes, tmp_path, settings, name):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    with pytest.raises(BiomedError, match=rf"other values of the settings \({name}\)"):
        annotate_collection(str(ruler), notes, tmp_path / "out", settings)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_documents_that_fail_are_listed_without_their_text(ruler, notes, tmp_path, batch_size):
    texts = ["aspirin", "secret fails", "aspirin", "fails", "cancer", "fails"]
    write(notes, texts)
    with notes.open("a") as file:
        file.write('{"id": "n6", "text": 7}\n')
    pipeline = add_pipe(ruler, "test_fails", tmp_path)
    settings = BulkSettings(shard_size=5, batch_size=batch_size)
    report = annotate_collection(str(pipeline), notes, tmp_path / "out.jsonl", settings)
    assert [(row["document"], row["id"]) for row in read_json(tmp_path / "out.jsonl")] == [
        (0, "n0"),
        (2, "n2"),
        (4, "n4"),
    ]
    errors = read_json(tmp_path / "out.jsonl", "_errors.jsonl")
    assert [error["id"] for error in errors] == ["n1", "n3", "n5", "n6"]
    assert errors[-1]["reason"] == "no text in the column text"
    assert all(error["reason"].startswith("ValueError in ") for error in errors[:-1])
    assert len(report.failed) == 4
    everything = b"".join(filter(None, snapshot(tmp_path / "out.jsonl").values()))
    assert b"secret" not in everything


def test_a_document_that_is_too_long_does_not_stop_the_others(ruler, notes, tmp_path, monkeypatch):
    write(notes, ["aspirin", "word " * 200_001, "cancer"])
    monkeypatch.setattr(shards, "LEARNED_CHARACTERS", 10**9)
    annotate_collection(str(ruler), notes, tmp_path / "out.jsonl", SMALL)
    assert [row["id"] for row in read_json(tmp_path / "out.jsonl")] == ["n0", "n2"]
    (error,) = read_json(tmp_path / "out.jsonl", "_errors.jsonl")
    reason = "1,000,005 characters, and the pipeline reads 1,000,000"
    assert error == {"id": "n1", "reason": reason}


def test_too_many_errors_stop_the_run_which_can_be_continued(ruler, notes, tmp_path):
    write(notes, ["fails", "a", "fails", "fails", "b", "c"])
    pipeline = str(add_pipe(ruler, "test_fails", tmp_path))
    output = tmp_path / "out.jsonl"
    with pytest.raises(BiomedError, match=r"3 documents could not be annotated, and --max-errors"):
        annotate_collection(pipeline, notes, output, BulkSettings(shard_size=2, max_errors=2))
    assert [row["id"] for row in read_json(output)] == ["n1"]
    assert len(read_json(output, "_errors.jsonl")) == 3
    report = annotate_collection(pipeline, notes, output, BulkSettings(shard_size=2, max_errors=3))
    assert (report.continued, len(report.failed)) == (2, 3)
    assert [row["id"] for row in read_json(output)] == ["n1", "n4", "n5"]


def test_documents_of_one_id_are_told_apart_by_their_number(ruler, notes, tmp_path):
    notes.write_text('{"id": "n", "text": "aspirin"}\n' * 3)
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    entities = read_table(tmp_path / "out", "entities")
    assert [(row["document"], row["id"]) for row in entities] == [(0, "n"), (1, "n"), (2, "n")]


def test_an_empty_input_gives_no_documents(ruler, notes, tmp_path):
    notes.write_text("")
    report = annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    assert (report.shards, report.counts["documents"]) == (0, 0)


def test_an_output_of_another_command_or_in_the_input_is_refused(ruler, notes, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(BiomedError, match="holds files that `spacy biomed annotate` did not write"):
        annotate_collection(str(ruler), notes, tmp_path / "mine", SMALL)
    with pytest.raises(BiomedError, match="holds .*, which is read"):
        annotate_collection(str(ruler), notes, tmp_path, SMALL)
    with pytest.raises(BiomedError, match="no known ending"):
        annotate_collection(str(ruler), notes, tmp_path / "out.docx", SMALL)


@pytest.mark.parametrize("output", ["out.jsonl", "out.brat", "out.parquet"])
def test_a_finished_shard_that_was_damaged_is_annotated_again(ruler, notes, tmp_path, output):
    output = tmp_path / output
    annotate_collection(str(ruler), notes, output, SMALL)
    whole = snapshot(output)
    parts = [name for name in whole if "part-00001" in name and (output / name).is_file()]
    assert parts
    for name in [*parts, "_finished.jsonl"]:
        content = (output / name).read_bytes()
        if not content:
            continue
        middle = len(content) // 2
        changed = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        for damaged in (b"", content[:-1], changed):
            (output / name).write_bytes(damaged)
            report = annotate_collection(str(ruler), notes, output, SMALL)
            assert report.continued == (0 if name.startswith("_") and not damaged else 2)
            assert snapshot(output) == whole


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["part-00003.jsonl", "part-00001 (copy).jsonl"])
def test_copies_of_parts_are_refused(ruler, notes, tmp_path, name):
    output = tmp_path / "out.jsonl"
    annotate_collection(str(ruler), notes, output, SMALL)
    shutil.copy(output / "part-00001.jsonl", output / name)
    with pytest.raises(BiomedError, match="not a part of this run"):
        annotate_collection(str(ruler), notes, output, SMALL)
    (output / name).unlink()
    assert annotate_collection(str(ruler), notes, output, SMALL).continued == 3


def test_a_damaged_manifest_is_refused(ruler, notes, tmp_path):
    annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)
    manifest = tmp_path / "out" / "_manifest.json"
    content = manifest.read_text()
    assert content.count("[0, 0, 0, 2, 0]") == 1
    for damaged in ("[]\n", content[:-4], content.replace("[0, 0, 0, 2, 0]", "[0, 0, 0, 1, 0]")):
        manifest.write_text(damaged)
        with pytest.raises(BiomedError, match="damaged"):
            annotate_collection(str(ruler), notes, tmp_path / "out", SMALL)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("change", "n_process"),
    # Processes start slowly, and see a change as one process does.
    [("rewritten", 1), ("halved", 1), ("grown", 1), ("replaced", 1), ("removed", 1)]
    + [("halved", 2), ("removed", 2)],
)
def test_an_input_that_changes_during_a_run_stops_it(
    ruler, notes, tmp_path, monkeypatch, change, n_process
):
    """And what was read before is right, if the input is restored."""
    write(notes, TEXTS * 4)
    annotate_collection(str(ruler), notes, tmp_path / "whole", SMALL)
    content, times = notes.read_bytes(), notes.stat()
    record = annotating.record_finished

    def change_input(output: Path, finished: FinishedShard) -> None:
        record(output, finished)
        if finished.shard != 3:
            return
        if change == "replaced":
            (tmp_path / "new").write_bytes(content.replace(b"cancer", b"cramps"))
            os.replace(tmp_path / "new", notes)
        elif change == "removed":
            notes.unlink()
        else:
            new = {
                "rewritten": content.replace(b"aspirin", b"nothing"),
                "halved": content[: len(content) // 2],
                "grown": content + b'{"id": "n", "text": "aspirin"}\n',
            }
            notes.write_bytes(new[change])

    settings = replace(SMALL, n_process=n_process)
    with monkeypatch.context() as patched, pytest.raises(BiomedError) as error:
        patched.setattr(annotating, "record_finished", change_input)
        annotate_collection(str(ruler), notes, tmp_path / "out", settings)
    assert re.search("changes while it is read|cannot be read|no such file", str(error.value))
    notes.write_bytes(content)
    os.utime(notes, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert annotate_collection(str(ruler), notes, tmp_path / "out", settings).continued > 0
    assert snapshot(tmp_path / "out") == snapshot(tmp_path / "whole")


@pytest.mark.parametrize("change", ["rewritten", "added", "removed"])
def test_a_folder_that_changes_during_a_run_stops_it(ruler, tmp_path, monkeypatch, change):
    (tmp_path / "notes").mkdir()
    for number, text in enumerate(TEXTS):
        (tmp_path / "notes" / f"{number}.txt").write_text(text)
    record = annotating.record_finished

    def change_input(output: Path, finished: FinishedShard) -> None:
        record(output, finished)
        name = {"rewritten": "2.txt", "added": "9.txt", "removed": "5.txt"}[change]
        file = tmp_path / "notes" / name
        if change == "removed":
            file.unlink(missing_ok=True)
        else:
            file.write_text("another")

    monkeypatch.setattr(annotating, "record_finished", change_input)
    with pytest.raises(BiomedError, match="changes while it is read|cannot be read"):
        annotate_collection(str(ruler), tmp_path / "notes", tmp_path / "out", SMALL)


def test_if_the_last_file_of_a_folder_changes_the_first_is_not_named(ruler, tmp_path, monkeypatch):
    (tmp_path / "notes").mkdir()
    for name in ("a", "b"):
        write(tmp_path / "notes" / f"{name}.jsonl", TEXTS)
    record = annotating.record_finished

    def change_input(output: Path, finished: FinishedShard) -> None:
        record(output, finished)
        if finished.shard == 5:
            write(tmp_path / "notes" / "b.jsonl", [*TEXTS, "another"])

    monkeypatch.setattr(annotating, "record_finished", change_input)
    with pytest.raises(BiomedError, match=r"notes: changes while it is read"):
        annotate_collection(str(ruler), tmp_path / "notes", tmp_path / "out", SMALL)


def test_words_are_forgotten_after_each_shard_but_not_those_of_the_first_texts(
    notes, ruler, tmp_path, monkeypatch
):
    write(notes, ["a word", "of one shard", "and another", "of the next", "the last"])
    parts = find_parts(notes, Columns())
    fixed = {"format": "jsonl", "batch_size": SIZE, "threads": 1}
    manifest = Manifest({}, fixed, [], plan_shards(parts, SIZE))

    def annotate(learned: int) -> list[bool]:
        """Whether a word of the first shard is known after each of them."""
        monkeypatch.setattr(shards, "LEARNED_CHARACTERS", learned)
        nlp = spacy.load(ruler)
        settings = shards.BulkSettings()
        work = shards.ShardWork("", notes, tmp_path, settings, None, manifest, {})
        annotator = shards.ShardAnnotator(work, nlp, parts)
        known = []
        for number in range(len(manifest.shards)):
            annotator.annotate(number)
            known.append("word" in nlp.vocab.strings)
        return known

    assert annotate(0) == [False, False, False]
    assert annotate(len("a word")) == [True, True, True]
