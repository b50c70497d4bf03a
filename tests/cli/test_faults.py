"""Every command that writes, with errors and kills at its system calls: an output stays whole.

A command is run in a folder that has an old output of its own and files of somebody else. What it
would write undisturbed is known; afterwards it must have that or what was there before.
A tenth of the calls is tried; with SPACY_BIOMED_CAMPAIGNS=1 in the environment, all of them.
"""

import ctypes
import errno
import importlib
import json
import os
import pkgutil
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import spacy
from distillation_recipe import RECIPE
from fault_injection import (
    Fault,
    Outcome,
    Snapshot,
    below,
    choose_tries,
    in_mount_namespace,
    mount,
    run,
    snapshot,
    start,
    temporary,
    without_temporary,
)
from forked_commands import ForkedCommand
from multitask_corpora import convert_tasks, write_small_template
from pretraining_recipes import write_recipe, write_text
from spacy.util import load_config

import spacy_biomed
from spacy_biomed.pipeline.checksums import CHECKSUMS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="faults are injected by /proc")

ERRORS = (errno.EIO, errno.ENOSPC, errno.EBUSY)
# Calls of the commands whose every call is tried; of the others, a sample.
QUICK = {
    "convert": 22,
    "init_config": 6,
    "init_config_multitask": 6,
    "vocabulary": 15,
    "clean": 15,
    "convert_encoder": 23,
    "teach": 22,
    "benchmark": 6,
}
SLOW = {
    "deidentify_file": 24,
    "deidentify_folder": 24,
    "study_scores": 6,
    "card": 12,
    "compress": 10,
    "train": 10,
    "pretrain": 8,
    "distill": 6,
}
COMMANDS = [*QUICK, *SLOW]


@dataclass
class Case:
    """A command, given in two ways: what the first writes is the old output of the second.

    outputs: what it writes, each a file or a directory that is whole or not.
    prepare: called in the process before the command.
    working: folder that it goes on in when it is given again.
    timed: files that say how long it took.
    """

    old: list
    new: list
    outputs: list[str] = field(default_factory=lambda: ["out"])
    prepare: Callable[[], object] = lambda: None
    working: str | None = None
    timed: tuple[str, ...] = ()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for name, times in (("a", 1), ("b", 2)):
        (folder / name).mkdir()
        for part in ("train", "dev", "test"):
            rows = "Lung\tB-D\ncancer\tI-D\n.\tO\n\nNo\tO\nsymptoms\tO\n.\tO\n\n"
            (folder / name / f"{part}.tsv").write_text(rows * times)
    return folder


@pytest.fixture(scope="module")
def convert(inputs):
    return Case(
        ["convert", "x", inputs / "a", "out", "--format", "columns"],
        ["convert", "x", inputs / "b", "out", "--format", "columns"],
    )


@pytest.fixture(scope="module")
def init_config(tiny_corpus):
    arguments = ["init-config", tiny_corpus, "out", "--encoder", "biobert"]
    return Case([*arguments, "--epochs", 1], [*arguments, "--epochs", 2])


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return convert_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="module")
def init_config_multitask(tasks):
    arguments = [
        "init-config",
        "multitask",
        "out",
        "--tasks",
        "drugs,topics",
        "--encoder",
        "biobert",
    ]
    arguments += ["--corpora-dir", tasks]
    return Case([*arguments, "--epochs", 1], [*arguments, "--epochs", 2])


@pytest.fixture(scope="module")
def vocabulary(inputs):
    write_text(inputs / "words.txt")
    arguments = ["vocabulary", inputs / "words.txt", "-o", "out", "--kind", "bpe", "--size"]
    return Case([*arguments, 290], [*arguments, 300])


@pytest.fixture(scope="module")
def clean(inputs):
    for name, last in (("c", "chest"), ("d", "leg")):
        (inputs / f"{name}.txt").write_text(
            "The patient was given aspirin for ten days. He had no more pain in the "
            f"{last}.\nBoth of the vaccines were safe in the children of this study.\n"
        )
    arguments = ["-o", "out.txt", "--lang", "en"]
    return Case(
        ["clean", f"x={inputs / 'c.txt'}", *arguments],
        ["clean", f"x={inputs / 'd.txt'}", *arguments],
        ["out.txt", "out.report.json"],
    )


@pytest.fixture(scope="module")
def card(tiny_pipeline, tiny_corpus, inputs):
    (inputs / "metrics.json").write_text(json.dumps({"ents_f": 0.5, "ents_p": 1, "ents_r": 0.3}))
    arguments = ["card", tiny_pipeline, "out", "--corpus", tiny_corpus]
    arguments += ["--metrics", inputs / "metrics.json", "--version"]
    return Case([*arguments, "0.1.0"], [*arguments, "0.2.0"])


@pytest.fixture(scope="module")
def compress(tiny_pipeline):
    arguments = ["compress", tiny_pipeline, "out", "--precision"]
    return Case([*arguments, "int8"], [*arguments, "fp32"])


@pytest.fixture(scope="module")
def convert_encoder(tiny_bert, inputs):
    import torch
    from transformers import AutoModel

    from spacy_biomed.encoders.loading import read_config

    for name in ("e", "f"):
        path = shutil.copytree(tiny_bert, inputs / name)
        model = AutoModel.from_config(read_config(path))
        torch.save(model.state_dict(), path / "pytorch_model.bin")
        (path / "model.safetensors").unlink()
    return Case(*([["convert-encoder", inputs / name, "out"] for name in ("e", "f")]))


@pytest.fixture(scope="module")
def teach(tiny_pipeline, tiny_corpus, inputs):
    (inputs / "texts.txt").write_text("Aspirin for lung cancer. No symptoms.\n")
    arguments = ["teach", tiny_pipeline, tiny_corpus, "out"]
    return Case(arguments, [*arguments, "--texts", inputs / "texts.txt"])


@pytest.fixture(scope="module")
def train(tiny_config):
    # Whether bf16 is the faster one is timed, and may be found otherwise when the machine is busy.
    precision = ["--components.biomed_transformer.model.precision", "fp32"]
    arguments = ["train", tiny_config, "-o", "out", *precision, "--training.seed"]
    return Case([*arguments, 1], [*arguments, 2], ["out/model-best", "out/model-last"])


TIMED = ("out/README.md", "out/log.jsonl")


@pytest.fixture(scope="module")
def pretrain(tmp_path_factory):
    recipe = write_recipe(tmp_path_factory.mktemp("recipe"), training__steps=3)
    arguments = ["pretrain", recipe, "--paths.output", "out", "--training.seed"]
    return Case([*arguments, 1], [*arguments, 2], working="out.training", timed=TIMED)


@pytest.fixture(scope="module")
def distill(inputs, tiny_bert):
    (inputs / "recipe.cfg").write_text(RECIPE)
    (inputs / "lines.txt").write_text("Aspirin reduced the risk of cancer.\n" * 20)
    arguments = ["distill", inputs / "recipe.cfg", "--paths.text", inputs / "lines.txt"]
    arguments += ["--paths.teacher", tiny_bert, "--paths.output", "out", "--training.seed"]
    return Case([*arguments, 1], [*arguments, 2], working="out.training", timed=TIMED)


@pytest.fixture(scope="module")
def finder(inputs):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "NAME", "pattern": "Ochoa"}])
    nlp.to_disk(inputs / "finder")
    for name, note in (("g", "Ochoa came."), ("h", "Then Ochoa came again.")):
        (inputs / name / "ward").mkdir(parents=True)
        (inputs / name / "ward" / "1.txt").write_text(note)
        (inputs / name / "2.txt").write_text(note)
        (inputs / f"{name}.jsonl").write_text(json.dumps({"text": note}) + "\n")
    return inputs / "finder"


@pytest.fixture(scope="module")
def deidentify_file(finder, inputs):
    arguments = ["deidentify", finder]
    options = ["--mode", "tags", "--annotations", "notes.jsonl"]
    return Case(
        *([*arguments, inputs / f"{name}.jsonl", "out.jsonl", *options] for name in "gh"),
        ["out.jsonl", "notes.jsonl"],
        working="out.jsonl.shards",
    )


@pytest.fixture(scope="module")
def deidentify_folder(finder, inputs):
    arguments = ["deidentify", finder]
    options = ["--mode", "tags", "--keep-names"]
    cases = ([*arguments, inputs / name, "out", *options] for name in "gh")
    return Case(*cases, working="out.shards")


@pytest.fixture(scope="module")
def benchmark(finder, inputs):
    from spacy_biomed.evaluation.benchmark import PipelineFigures

    def measure(pipelines, texts, **settings):
        figures = [PipelineFigures(path, len(texts), words=100) for path in pipelines]
        for one in figures:
            one.load_seconds.append(1.0)
            one.pipe_seconds.append(2.0)
        return figures

    def prepare():
        from spacy_biomed.evaluation import benchmark

        benchmark.measure_pipelines = measure

    arguments = ["benchmark", finder, inputs / "g.jsonl", "--output", "out", "--threads"]
    return Case([*arguments, 1], [*arguments, 2], prepare=prepare)


@pytest.fixture(scope="module")
def study_scores(tasks, tiny_bert, tmp_path_factory):
    folder = tmp_path_factory.mktemp("multitask")
    template = write_small_template(folder / "template.cfg")
    options = ["--corpora-dir", tasks, "--template", template, "--encoder", tiny_bert]
    options += ["--tasks", "drugs,topics", "--epochs", 1, "--batch-words", 60]
    for arguments in (
        ["init-config", "multitask", *options, "train.cfg"],
        ["train", "train.cfg", "-o", "trained"],
    ):
        assert run(strings(arguments), folder).status == 0
    pipeline = folder / "trained" / "model-best"
    fewer = shutil.copytree(pipeline, folder / "fewer")
    (fewer / CHECKSUMS).unlink()
    config = load_config(fewer / "config.cfg")
    config["training"]["score_weights"]["spans_drugs_f"] = 0.0
    config.to_disk(fewer / "config.cfg")
    options = ["--output", "out", "--part", "dev"]
    return Case(*(["study", "scores", one, *options] for one in (fewer, pipeline)))


# What happens without faults


@dataclass
class Undisturbed:
    """What a command does where nothing goes wrong.

    folder: with the old output in it.
    old, new: what is in the folder before and after.
    calls: that change something in it.
    """

    case: Case
    folder: Path
    old: Snapshot
    new: Snapshot
    calls: list[str]

    def place(self, path: Path) -> Path:
        """A copy of the folder."""
        return Path(shutil.copytree(self.folder, path, symlinks=True))

    def run(self, folder: Path, fault: Fault | None = None) -> Outcome:
        return run(strings(self.case.new), folder, fault, self.case.prepare)

    def start(self, folder: Path, fault: Fault | None = None):
        return start(strings(self.case.new), folder, fault, self.case.prepare)

    def content(self, found: Snapshot) -> Snapshot:
        """Without what takes a time of day or a duration."""
        working = self.case.working
        return {
            name: None if name in self.case.timed else content
            for name, content in found.items()
            if working is None or not f"{name}/".startswith(f"{working}/")
        }


def strings(arguments: list) -> list[str]:
    return [str(argument) for argument in arguments]


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Import everything now, and not in each process that is forked."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    importlib.import_module("encodings.utf_8_sig")
    for module in pkgutil.walk_packages(spacy_biomed.__path__, "spacy_biomed."):
        importlib.import_module(module.name)


@pytest.fixture(scope="module")
def undisturbed(request, tmp_path_factory):
    made: dict[str, Undisturbed] = {}

    def find(name: str) -> Undisturbed:
        if name not in made:
            made[name] = make(request.getfixturevalue(name), tmp_path_factory.mktemp(name))
        return made[name]

    return find


def make(case: Case, folder: Path) -> Undisturbed:
    before = folder / "before"
    before.mkdir()
    for name in ("mine.txt", "out.partial", ".out.partial", "other/mine.partial"):
        (before / name).parent.mkdir(exist_ok=True)
        (before / name).write_text("mine")
    outcome = run(strings(case.old), before, None, case.prepare)
    assert outcome.status == 0, outcome
    if case.working is not None:
        shutil.rmtree(before / case.working, ignore_errors=True)  # some commands delete it
    after = shutil.copytree(before, folder / "after")
    outcome = run(strings(case.new), after, None, case.prepare)
    assert outcome.status == 0, outcome
    found = Undisturbed(case, before, snapshot(before), snapshot(after), outcome.calls)
    assert outcome.lines == []
    for output in case.outputs:
        assert below(found.old, output), output
    assert found.content(found.old) != found.content(found.new)
    return found


# What must hold afterwards


class Wrong(AssertionError):
    pass


def check(known: Undisturbed, folder: Path, outcome: Outcome, failed_call: str) -> None:
    """Raise Wrong if an output is not whole, or something else has changed."""
    found = snapshot(folder)
    seen = known.content(without_temporary(found))
    old, new = known.content(known.old), known.content(known.new)
    left = temporary(found)
    check_others(known, seen)
    for output in known.case.outputs:
        check_whole(known, output, found, outcome)
    said = "\n".join(outcome.lines)
    if "Traceback" in said:
        raise Wrong("a traceback")
    if outcome.status < 0:
        return
    # What cannot be deleted stays, and is named unless it is an empty lock.
    may_stay = "os.remove" in failed_call or "os.rmdir" in failed_call
    for name in left:
        if Path(name).name not in said and not (may_stay and name.endswith(".lock")):
            raise Wrong(f"{name} was left and is not named")
    if outcome.status == 0:
        if seen != new:
            raise Wrong("it said that all is well, and the output is not the new one")
    else:
        lines = [line for line in outcome.lines if not line.startswith("⚠")]
        if outcome.status != 1 or len(lines) != 1 or not lines[0].startswith("✘ "):
            raise Wrong("not one line and status 1")
        is_one = known.case.working is None and len(known.case.outputs) == 1
        if is_one and seen not in (old, new):
            raise Wrong("something else has changed")


def check_others(known: Undisturbed, seen: Snapshot) -> None:
    def others(found: Snapshot) -> Snapshot:
        own = known.case.outputs
        return {
            name: content
            for name, content in known.content(found).items()
            if not any(f"{name}/".startswith(f"{one.split('/')[0]}/") for one in own)
        }

    if others(seen) != others(known.old):
        raise Wrong("files of somebody else have changed")


def check_whole(known: Undisturbed, output: str, found: Snapshot, outcome: Outcome) -> None:
    wholes = [known.content(below(one, output)) for one in (known.old, known.new)]
    seen = known.content(below(without_temporary(found), output))
    if seen in wholes or (known.case.outputs[0] == "out/model-best" and is_pipeline(seen, output)):
        return
    if outcome.status < 0 and not seen:  # killed between the renames: the next run finishes them
        for name in temporary(found):
            moved = {path.replace(name, output, 1): found[path] for path in below(found, name)}
            if known.content(moved) in wholes:
                return
    raise Wrong(f"{output} is neither the old nor the new one")


def is_pipeline(found: Snapshot, output: str) -> bool:
    """Whether a pipeline is all there, such as those that training writes on its way."""
    marker = json.loads(found.get(f"{output}/.spacy-biomed.json") or "{}")
    files = {name.removeprefix(f"{output}/") for name, text in found.items() if text is not None}
    return bool(marker) and files == {*marker["files"], ".spacy-biomed.json"}


def try_out(known: Undisturbed, folder: Path, fault: Fault, failed_call: str) -> str | None:
    """Return what went wrong with a fault, or in the run after it; None if nothing."""
    place = known.place(folder)
    try:
        outcome = known.run(place, fault)
        try:
            check(known, place, outcome, failed_call)
            if snapshot(place) != known.old:
                again = known.run(place)
                if again.status != 0:
                    raise Wrong(f"and the next run ends with {again}")
                if known.content(snapshot(place)) != known.content(known.new):
                    raise Wrong("the next run leaves something else than an undisturbed one")
        except Wrong as wrong:
            return f"{fault} {failed_call}: {wrong}\n{outcome}"
    finally:
        shutil.rmtree(place)
    return None


def report(wrong: list[str | None]) -> None:
    found = [one for one in wrong if one]
    assert not found, "\n\n".join([f"{len(found)} of {len(wrong)} tries:", *found])


def sample(calls: list[str], most: int) -> list[int]:
    """Numbers of calls: half of them rename something, the last ones among them."""
    renames = [number for number, call in enumerate(calls) if call.startswith("os.rename")]
    chosen = renames[-(most // 2) :]
    others = [number for number in range(len(calls)) if number not in chosen]
    return sorted([*chosen, *random.Random(0).sample(others, most - len(chosen))])


@pytest.mark.slow(least=3)
@pytest.mark.parametrize("name", COMMANDS)
def test_an_error_or_a_kill_at_a_call_leaves_the_old_output_or_the_new_one(
    name, undisturbed, tmp_path
):
    known = undisturbed(name)
    numbers = range(len(known.calls)) if name in QUICK else sample(known.calls, SLOW[name])
    assert len(numbers) >= {**QUICK, **SLOW}[name]
    numbers = choose_tries(numbers, name, fewest=2)
    wrong, tries = [], Counter()
    for number in numbers:
        call = known.calls[number]
        errors = [*ERRORS, 0] if "rename" in call else [ERRORS[number % 3], 0]
        for error in errors if name in QUICK else [errors[number % 2 - 1]]:
            fault = Fault(at=number, error=error)
            wrong.append(try_out(known, tmp_path / "try", fault, call))
            tries[errno.errorcode.get(error, "SIGKILL")] += 1
    print(f"{name}: {len(numbers)} of {len(known.calls)} calls, {dict(tries)}")
    report(wrong)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_an_error_or_a_kill_at_a_write_leaves_the_old_output_or_the_new_one(
    name, undisturbed, tmp_path
):
    """No file can grow beyond a size: whichever library writes, the system refuses."""
    known = undisturbed(name)
    sizes = sorted({len(content) for content in known.new.values() if content})
    random.Random(0).shuffle(sizes)
    wrong = []
    for size in choose_tries([1, *sizes[: 3 if name in QUICK else 1]], name):
        for error in (errno.EFBIG, 0):
            fault = Fault(file_size=size - 1, error=error)
            wrong.append(try_out(known, tmp_path / "try", fault, ""))
    report(wrong)


@pytest.mark.slow
def test_a_full_disk_leaves_the_old_output_or_the_new_one(undisturbed, tmp_path):
    names = ["convert", "clean", "convert_encoder", "deidentify_file", "card", "compress"]
    known = [undisturbed(name) for name in names]

    def work():
        mount("none", tmp_path, "size=64m")
        for one in known:
            for blocks in (0, 2, 8):
                fill_up_and_try(one, tmp_path / "try", blocks)

    explain(in_mount_namespace(work))


def fill_up_and_try(known: Undisturbed, folder: Path, blocks: int) -> None:
    """Let a command have so many blocks of the disk, and then all that it wants."""
    place = known.place(folder)
    filler = place.with_name("filler")
    with filler.open("wb") as file:
        system = os.statvfs(place)
        file.write(bytes(max(system.f_bavail - blocks, 0) * system.f_frsize))
    outcome = known.run(place)
    filler.unlink()
    check(known, place, outcome, "")
    again = known.run(place)
    assert again.status == 0, again
    assert known.content(snapshot(place)) == known.content(known.new)
    shutil.rmtree(place)


def explain(problem: str | None) -> None:
    if problem == "":
        pytest.skip("mounting is not permitted here")
    assert problem is None, problem


@pytest.mark.slow
def test_a_failed_system_call_in_a_process_of_its_own(undisturbed, tmp_path):
    """As above, without Python's knowledge: `strace` lets a write fail."""
    strace = ["strace", "-f", "-qq", "-o", str(tmp_path / "calls"), "-y", "-e", "trace=write"]
    if shutil.which("strace") is None or subprocess.run([*strace, "true"], check=False).returncode:
        pytest.skip("strace is not there, or not permitted")
    known = undisturbed("init_config")
    command = [sys.executable, "-m", "spacy", "biomed", *strings(known.case.new)]

    def trace(folder: Path, *options: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            [*strace, *options, *command],
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf8"},
            check=False,
        )

    place = known.place(tmp_path / "first")
    assert trace(place).returncode == 0
    assert snapshot(place) == known.new
    calls = (tmp_path / "calls").read_text(errors="replace").splitlines()
    [writing] = [call for call in calls if f"{place}/.out." in call]
    process = writing.split()[0]
    own = [call for call in calls if re.match(rf"{process} +write\(", call)]  # and no signals
    number = own.index(writing) + 1
    place = known.place(tmp_path / "second")
    done = trace(place, "-e", f"inject=write:error=ENOSPC:when={number}")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("✘ out: cannot be written (No space left on device)")
    assert snapshot(place) == known.old


# Something in the way


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["convert", "card", "compress"])
@pytest.mark.parametrize(
    ("in_the_way", "reason"),
    [
        ("out", r"out: this is a file; name a directory to write to"),
        ("folder", r"folder/out: cannot be written \(Not a directory\); nothing was changed: .*"),
    ],
)
def test_a_file_where_a_directory_is_to_be_is_named_and_stays(
    name, in_the_way, reason, undisturbed, tmp_path
):
    case = undisturbed(name).case
    (tmp_path / in_the_way).write_text("mine")
    before = snapshot(tmp_path)
    output = "out" if in_the_way == "out" else "folder/out"
    outcome = run([output if word == "out" else word for word in strings(case.new)], tmp_path)
    [line] = outcome.lines
    assert outcome.status == 1
    assert re.fullmatch(f"✘ {reason}", line)
    assert snapshot(tmp_path) == before


# Two at once


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    "name", ["convert", "clean", "deidentify_folder", "card", "compress", "train", "pretrain"]
)
def test_of_two_runs_to_one_output_one_wins_and_the_other_says_so(name, undisturbed, tmp_path):
    known = undisturbed(name)
    place = known.place(tmp_path / "place")
    reached, leave = os.pipe(), os.pipe()
    # At the last rename, when all work is done, and at a call after the lock has been taken.
    renames = [n for n, call in enumerate(known.calls) if call.startswith("os.rename")]
    fault = Fault(at=renames[-1], hold=(reached[1], leave[0]))
    first = known.start(place, fault)
    os.close(reached[1])
    assert os.read(reached[0], 1) == b"x"
    second = known.run(place)
    os.write(leave[1], b"x")
    outcome = first.wait()
    for descriptor in (reached[0], *leave):
        os.close(descriptor)
    assert second.status == 1
    [line] = second.lines
    assert re.fullmatch(r"✘ \S+: another process is writing it; wait, or name another .*", line)
    assert outcome.status == 0, outcome
    assert known.content(snapshot(place)) == known.content(known.new)


HOLD = """
import os, sys

def hold(event, arguments):
    if event == "os.mkdir" and ".model-last." in str(arguments[0]) and not held:
        held.append(True)
        open("reached", "w").close()  # waits until somebody reads
        open("leave").close()

held = []
sys.addaudithook(hold)
"""


@pytest.mark.slow
def test_of_two_trainings_into_one_folder_one_goes_on_and_the_other_says_so(
    undisturbed, tmp_path, run_spacy
):
    known = undisturbed("train")
    place = known.place(tmp_path / "place")
    for name in ("reached", "leave"):
        os.mkfifo(place / name)
    (place / "hold.py").write_text(HOLD)
    arguments = ["biomed", *strings(known.case.new)]
    first = ForkedCommand(
        [sys.executable, "-m", "spacy", *arguments, "--code", "hold.py"],
        cwd=place,
        stdout=subprocess.DEVNULL,
    )
    (place / "reached").read_bytes()
    second = run_spacy(*arguments, cwd=place)
    (place / "leave").write_bytes(b"")
    assert first.wait() == 0
    assert second.returncode == 1
    line = second.stderr.splitlines()[-1]
    assert line == "✘ out: another process is writing it; wait, or name another output"
    for name in ("reached", "leave", "hold.py"):
        (place / name).unlink()
    # Weights follow from the number of threads, which the undisturbed run had another one of.
    assert snapshot(place).keys() == known.new.keys()


# Places that stay where they are


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["convert", "compress"])
def test_a_mount_point_gets_the_output_and_then_the_next(name, undisturbed, tmp_path):
    known = undisturbed(name)
    place = tmp_path / "place"
    (place / "out").mkdir(parents=True)

    def work():
        mount("none", place / "out", "size=64m")
        for arguments, expected in ((known.case.old, known.old), (known.case.new, known.new)):
            outcome = run(strings(arguments), place)
            assert outcome.status == 0, outcome
            assert snapshot(place) == below(expected, "out")
        assert os.path.ismount(place / "out")

    explain(in_mount_namespace(work))


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", ["convert", "deidentify_folder", "convert_encoder"])
def test_an_old_output_that_cannot_be_deleted_is_named_and_the_new_one_is_there(
    name, undisturbed, tmp_path
):
    known = undisturbed(name)
    place = known.place(tmp_path / "place")
    locked = next(path for path in sorted((place / "out").iterdir()) if path.is_file())
    if shutil.which("chattr") is None or subprocess.run(["chattr", "+i", locked]).returncode:
        pytest.skip("no file can be made immutable here")
    try:
        outcome = known.run(place)
        found = snapshot(place)
        [left] = temporary(found)
    finally:
        for path in place.rglob(locked.name):
            subprocess.run(["chattr", "-i", path], check=False, stderr=subprocess.DEVNULL)
    assert outcome.status == 0
    [line] = outcome.lines
    assert line.startswith("⚠ ") and left in line and "could not be deleted" in line
    assert without_temporary(found) == known.new
    assert known.run(place).status == 0
    assert snapshot(place) == known.new


def drop_capabilities() -> None:
    """Leave root only what the permissions of a file's owner allow (capabilities(7))."""

    class Header(ctypes.Structure):
        _fields_ = [("version", ctypes.c_uint32), ("process", ctypes.c_int)]

    libc = ctypes.CDLL(None, use_errno=True)
    nothing = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, of 64 bits
    if libc.capset(ctypes.byref(Header(0x20080522, 0)), nothing):
        raise OSError(ctypes.get_errno(), "capset")


@pytest.mark.slow
def test_an_old_folder_that_may_not_be_changed_is_named_and_the_new_one_is_there(
    undisturbed, tmp_path
):
    known = undisturbed("deidentify_folder")
    place = known.place(tmp_path / "place")
    (place / "out" / "ward").chmod(0o555)
    prepare = drop_capabilities if os.geteuid() == 0 else None
    outcome = run(strings(known.case.new), place, None, prepare)
    found = snapshot(place)
    for path in place.rglob("ward"):
        path.chmod(0o755)
    assert outcome.status == 0, outcome
    [left] = temporary(found)
    [line] = outcome.lines
    assert line.startswith("⚠ ") and left in line and "could not be deleted" in line
    assert without_temporary(found) == known.new
