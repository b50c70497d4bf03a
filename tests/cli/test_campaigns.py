"""Random damage of pipelines, half-finished outputs and inputs: the right result, or one line.

A tenth of each campaign runs; with SPACY_BIOMED_CAMPAIGNS=1 in the environment, all of it.
"""

import gzip
import json
import os
import random
import re
import shutil
import signal
import sys
from pathlib import Path

import fault_injection
import numpy as np
import pytest
from fault_injection import Fault, choose_tries, snapshot
from safetensors.numpy import load_file, save_file

PIPELINES = Path(__file__).parents[2] / "assets" / "pipelines"
CHECKSUMS = "SHA256SUMS"
NOTES = [
    "Nombre: Marta Ochoa Ibáñez. NHC 1234567. Ingresa el 12/03/2019 en el Hospital La Paz.",
    "El Sr. Juan Pérez García, de 64 años, acude por dolor torácico. Tel. 912 345 678.",
    "Fdo.: Dra. Lucía Sanz Romero, C/ Mayor, 3, 28013 Madrid. lucia.sanz@hospital.es",
    "Sin hallazgos.",
]
NAMES = ["Marta Ochoa", "Juan Pérez", "Lucía Sanz"]
PATTERNS = [{"label": "NOMBRE", "pattern": name} for name in NAMES]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are run in forks")


def seeds(number: int) -> list[int]:
    return choose_tries(range(number), "")


def check_refused(outcome, output: Path) -> None:
    """A command that ends with status 1 says why in one line, quotes no text and writes nothing."""
    assert outcome.status == 1, outcome
    assert len(outcome.lines) == 1 and outcome.lines[0].startswith("✘ "), outcome
    assert not any(name in outcome.lines[0] for name in NAMES), outcome
    assert not output.exists()


def flip_bit(file: Path, chance: random.Random) -> None:
    content = bytearray(file.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    file.write_bytes(content)


def truncate(file: Path, chance: random.Random) -> None:
    os.truncate(file, chance.randrange(file.stat().st_size))


def list_files(folder: Path) -> list[Path]:
    """All files below a folder that are not empty."""
    return sorted(file for file in folder.rglob("*") if file.is_file() and file.stat().st_size)


# --- Pipelines ---


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The pipeline in ONNX and in PyTorch, and what each writes of the notes."""
    folder = tmp_path_factory.mktemp("sound")
    (folder / "notes.txt").write_text("".join(f"{note}\n" for note in NOTES), encoding="utf8")
    places = [PIPELINES / "es_clinical_ner", PIPELINES / "es_clinical_ner" / "trainable"]
    written = {}
    for number, place in enumerate(places):
        command = ["deidentify", str(place), "notes.txt", f"{number}.txt"]
        outcome = fault_injection.run(command, folder)
        assert outcome.status == 0, outcome
        written[place] = (folder / f"{number}.txt").read_bytes()
        assert not any(name.encode() in written[place] for name in NAMES)
    return written


def copy_pipeline(place: Path, target: Path) -> Path:
    return Path(shutil.copytree(place, target, ignore=shutil.ignore_patterns("trainable")))


def damage_tensors(pipeline: Path, kind: str, chance: random.Random) -> None:
    """Damage the encoder's weights, whose checksums are then removed too."""
    (pipeline / CHECKSUMS).unlink()
    file = pipeline / "biomed_transformer" / "encoder" / "model.safetensors"
    tensors = load_file(file)
    name = chance.choice(sorted(tensors))
    tensor = tensors.pop(name)
    if kind == "renamed tensor":
        tensors[f"{name}s"] = tensor
    elif kind == "no number":
        tensor.flat[chance.randrange(tensor.size)] = chance.choice([np.nan, np.inf, -np.inf])
        tensors[name] = tensor
    save_file(tensors, file, metadata={"format": "pt"})


def damage_pipeline(pipeline: Path, chance: random.Random) -> str:
    kinds = ["bit", "bit of weights", "truncated", "removed", "renamed"]
    if (pipeline / "biomed_transformer" / "encoder" / "model.safetensors").exists():
        kinds += ["removed tensor", "renamed tensor", "no number"]
    kind = chance.choice(kinds)
    file = chance.choice(list_files(pipeline))
    if kind == "bit of weights":
        file = max(list_files(pipeline), key=lambda one: one.stat().st_size)
    if kind.startswith("bit"):
        flip_bit(file, chance)
    elif kind == "truncated":
        truncate(file, chance)
    elif kind == "removed":
        file.unlink()
    elif kind == "renamed":
        file.rename(file.with_name(f"{file.name}.old"))
    else:
        damage_tensors(pipeline, kind, chance)
        return kind
    return f"{kind} {file.relative_to(pipeline)}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(200))
def test_deidentification_with_a_damaged_pipeline(sound, tmp_path, seed):
    chance = random.Random(seed)
    place, expected = list(sound.items())[seed // 10 % 2]
    pipeline = copy_pipeline(place, tmp_path / "pipeline")
    kind = damage_pipeline(pipeline, chance)
    (tmp_path / "notes.txt").write_text("".join(f"{note}\n" for note in NOTES), encoding="utf8")
    outcome = fault_injection.run(["deidentify", "pipeline", "notes.txt", "out.txt"], tmp_path)
    print(kind, outcome.status, outcome.lines)
    if outcome.status:
        check_refused(outcome, tmp_path / "out.txt")
    else:
        assert (tmp_path / "out.txt").read_bytes() == expected


# --- Half-finished outputs ---


def make_texts(number: int, mark: str) -> list[str]:
    return [f"{mark} {i}: {NAMES[i % 3]} vino el 1{i % 9}/03/2019." for i in range(number)]


FORMATS = ["notes.txt", "notes.jsonl", "notes.csv", "notes.parquet", "notes.txt.gz", "notes"]


def write_input(path: Path, texts: list[str]) -> None:
    """Write texts to a file, or to a folder where there is no ending."""
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow.parquet import write_table

        write_table(pa.table({"text": texts}), path)
    elif not path.suffix:
        path.mkdir(exist_ok=True)
        for number, text in enumerate(texts):
            (path / f"{number:03}.txt").write_text(text, encoding="utf8")
    else:
        rows = {
            ".jsonl": [json.dumps({"text": text}) for text in texts],
            ".csv": ["text", *texts],
        }
        content = "".join(f"{row}\n" for row in rows.get(path.suffix, texts)).encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def result_of(output: Path) -> dict | bytes:
    """What `deidentify` wrote, or the parts and the list of failed documents of `annotate`."""
    if output.is_file():
        return output.read_bytes()
    return {
        name: content
        for name, content in snapshot(output).items()
        if re.search(r"(^|/)part-|^_errors|\.txt$", name)
    }


def make_use(command: str, finder: Path, name: str, output: str) -> list[str]:
    return [command, str(finder), name, output, "--shard-size", "5"]


@pytest.fixture(scope="module")
def half_finished(finder, tmp_path_factory):
    """By command: a folder with a run that was killed, its arguments, output and right result."""
    made = {}
    for command, output in [
        ("deidentify", "out.csv"),
        ("annotate", "out"),
        ("annotate", "out.brat"),
    ]:
        folder = tmp_path_factory.mktemp("half")
        write_input(folder / "notes.csv", make_texts(40, "Nota"))
        use = make_use(command, finder, "notes.csv", output)
        outcome = fault_injection.run(use, folder)
        assert outcome.status == 0, outcome
        expected = result_of(folder / output)
        work = "out.csv.shards" if command == "deidentify" else output
        parts = [
            i
            for i, call in enumerate(outcome.calls)
            if call.startswith("open") and "_finished" in call
        ]
        _remove(folder / output)
        killed = fault_injection.run(use, folder, Fault(parts[len(parts) // 2]))
        assert killed.status == -signal.SIGKILL
        assert 2 < len((folder / work / "_finished.jsonl").read_bytes().splitlines()) < 7
        made[output] = folder, use, work, expected
    return made


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def damage_output(folder: Path, chance: random.Random) -> str:
    file, other = chance.sample(list_files(folder), 2)
    kind = chance.choice(["bit", "truncated", "empty", "removed", "renamed", "copied", "doubled"])
    if kind == "bit":
        flip_bit(file, chance)
    elif kind == "truncated":
        truncate(file, chance)
    elif kind == "empty":
        os.truncate(file, 0)
    elif kind == "removed":
        file.unlink()
    elif kind == "renamed":
        file.rename(file.with_name(other.name))
    elif kind == "copied":
        shutil.copy(file, other)
    else:
        file.write_bytes(file.read_bytes() * 2)
    return f"{kind} {file.relative_to(folder)}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(200))
def test_a_run_that_goes_on_with_a_damaged_output(half_finished, tmp_path, seed):
    chance = random.Random(seed)
    folder, use, work, expected = list(half_finished.values())[(seed // 10) % 3]
    shutil.copytree(folder, tmp_path / "run")
    kind = damage_output(tmp_path / "run" / work, chance)
    outcome = fault_injection.run(use, tmp_path / "run")
    print(kind, outcome.status, outcome.lines)
    if outcome.status and use[0] == "deidentify":
        check_refused(outcome, tmp_path / "run" / use[3])
    elif outcome.status:  # finished shards are kept
        check_refused(outcome, tmp_path / "none")
    else:
        assert result_of(tmp_path / "run" / use[3]) == expected


# --- Inputs ---


def rewrite(path: Path, kind: str, chance: random.Random) -> None:
    """Change an input, or a file of an input folder."""
    file = chance.choice(sorted(path.iterdir())) if path.is_dir() else path
    if kind == "rewritten":
        write_input(path, make_texts(40, "Otra nota"))
    elif kind == "replaced":
        new = path.with_name(f"new.{path.name}")
        write_input(new, make_texts(40, "Una nueva"))
        path.rename(path.with_name(f"old.{path.name}"))
        new.rename(path)
    elif kind == "halved":
        os.truncate(file, file.stat().st_size // 2)
    elif kind == "grown":
        write_input(path, make_texts(60, "Nota"))
    elif kind == "removed":
        file.unlink()
    else:
        file.chmod(0)


def change_at(number: int, path: Path, kind: str, chance: random.Random) -> None:
    """Change an input at a certain call that opens a file in its folder, for reading or writing."""
    count = 0
    folder = f"{path.parent.resolve()}/"

    def watch(event: str, arguments: tuple) -> None:
        nonlocal count
        if event != "open" or isinstance(arguments[0], int):
            return
        if os.path.abspath(os.fsdecode(arguments[0])).startswith(folder):
            count += 1
            if count == number:
                rewrite(path, kind, chance)

    sys.addaudithook(watch)


CHANGES = ["rewritten", "replaced", "halved", "grown", "removed", "permissions"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(100))
def test_an_input_that_changes_during_a_run(finder, tmp_path, seed):
    chance = random.Random(seed)
    command = chance.choice(["annotate", "deidentify"])
    name, kind = chance.choice(FORMATS), chance.choice(CHANGES)
    output = "out.jsonl" if command == "annotate" else name.replace("notes", "out")
    use = make_use(command, finder, name, output)
    right = []
    for place in ("before", "after"):
        (tmp_path / place).mkdir()
        write_input(tmp_path / place / name, make_texts(40, "Nota"))
        if place == "after":
            rewrite(tmp_path / place / name, kind, random.Random(seed))
        outcome = fault_injection.run(use, tmp_path / place)
        right += [result_of(tmp_path / place / output)] if outcome.status == 0 else []
    run = tmp_path / "run"
    run.mkdir()
    write_input(run / name, make_texts(40, "Nota"))
    shutil.copytree(run, tmp_path / "saved")
    number = chance.randint(1, 30)
    outcome = fault_injection.run(
        use, run, prepare=lambda: change_at(number, run / name, kind, random.Random(seed))
    )
    print(command, name, kind, number, outcome.status, outcome.lines)
    if outcome.status == 0:
        assert result_of(run / output) in right
        return
    if kind == "permissions" and command == "deidentify" and (run / output).is_dir():
        # A note that cannot be read is left out and listed.
        assert result_of(run / output).items() < right[0].items()
        return
    check_refused(outcome, run / output if command == "deidentify" else run / "none")
    # What was kept is not of the changed input: with the old one the run goes on, or is refused.
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).unlink(missing_ok=True)
    shutil.copytree(tmp_path / "saved", run, dirs_exist_ok=True)
    outcome = fault_injection.run(use, run)
    print(outcome.status, outcome.lines)
    if outcome.status:
        check_refused(outcome, run / "none")
    else:
        assert result_of(run / output) in right
