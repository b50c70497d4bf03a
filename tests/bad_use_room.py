"""A folder with valid and invalid files, and commands that run in it in separate processes.

A process is a fork of the tests' process, since a new process takes seconds to import everything.
If the tests run as root, it gives up root's privileges, so that permissions apply.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import random
import resource
import shutil
import signal
import stat
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import huggingface_hub.constants
import spacy
from distillation_recipe import RECIPE as DISTILLATION
from fault_injection import call
from multitask_corpora import convert_tasks
from pretraining_recipes import RECIPE as PRETRAINING
from pretraining_recipes import make_text
from spacy.cli import app as spacy_app
from spacy.tokens import DocBin
from typer.main import get_command

import spacy_biomed
from spacy_biomed.files.outputs import MARKER
from spacy_biomed.training.config import TEMPLATES, fill_config

LONG_NAME = "n" * 300

STUDY = """
[study]
title = "A study"

[grid]
epochs = 1

[rows]

[rows.small]
encoder = "encoder"

[corpora]

[corpora.drugs]
"""

# A command that takes longer is stuck.
SECONDS = 60
_MEMORY = 8 << 30
# From linux/prctl.h and linux/capability.h.
_DROP_FROM_BOUNDING_SET, _CAPABILITY_VERSION = 24, 0x20080522


@dataclass
class Outcome:
    """The exit status of a command (negative for a signal), and its output."""

    status: int
    output: str
    errors: str


@cache
def import_everything() -> Callable[..., object]:
    """Import the modules of all commands, once for all processes.

    Returns:
        the function that `python -m spacy` calls.
    """
    for module in pkgutil.walk_packages(spacy_biomed.__path__, "spacy_biomed."):
        importlib.import_module(module.name)
    command = get_command(spacy_app)
    gc.collect()
    gc.freeze()
    return command


def run_in(room: Path, arguments: list[str]) -> Outcome:
    """Run `spacy biomed` with arguments in a room, like `python -m spacy`."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = os.fork()
        if process == 0:
            _be_the_command(room, arguments, output.fileno(), errors.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        output.seek(0)
        errors.seek(0)
        return Outcome(status, output.read().decode(), errors.read().decode())


def _be_the_command(room: Path, arguments: list[str], output: int, errors: int) -> None:
    status = 70
    try:
        signal.alarm(SECONDS)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        nothing = os.open(os.devnull, os.O_RDONLY)
        for old, new in ((nothing, 0), (output, 1), (errors, 2)):
            os.dup2(old, new)
        sys.stdin = os.fdopen(0, encoding="utf8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf8", closefd=False)
        tempfile.tempdir = None
        home, temporary = str(room.parent / "home"), str(room.parent / "tmp")
        os.environ.update(HOME=home, TMPDIR=temporary, TOKENIZERS_PARALLELISM="false")
        huggingface_hub.constants.HF_HUB_OFFLINE = True
        os.chdir(room)
        if os.geteuid() == 0:
            _give_up_privileges()
        status = call(arguments, partial(import_everything(), prog_name="python -m spacy"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _give_up_privileges() -> None:
    """Stay root, who owns the interpreter, without the capabilities to access all files."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(64):  # so that started programs do not get them back
        libc.prctl(_DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    if libc.capset(header, (ctypes.c_uint32 * 6)()):
        raise OSError(ctypes.get_errno(), "capset")


def list_files(folder: Path) -> dict[str, tuple[int, ...] | str]:
    """Everything below a folder: modes, sizes and times of files, and targets of links."""
    listing: dict[str, tuple[int, ...] | str] = {}
    for directory, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = f"{directory}/{name}"
            status = os.lstat(path)
            listing[path] = (status.st_mode,)
            if stat.S_ISREG(status.st_mode):
                listing[path] += (status.st_size, status.st_mtime_ns)
            elif stat.S_ISLNK(status.st_mode):
                listing[path] = os.readlink(path)
    return listing


class Room:
    """A folder with all files for the commands, and many other files.

    Attributes:
        path: where commands run; next to it are a home and a folder for temporary files.
    """

    def __init__(self, base: Path, encoder: Path, pipeline: Path):
        self._master = base / "master"
        self._master.mkdir()
        _make_good_files(self._master, encoder, pipeline)
        self.path = base / "place" / "room"
        self.restore()

    def restore(self) -> None:
        """Restore its original state."""
        place = self.path.parent
        if place.exists():
            _open_everything(place)
            shutil.rmtree(place)
        (place / "home").mkdir(parents=True)
        (place / "tmp").mkdir()
        shutil.copytree(self._master, self.path)
        _make_bad_files(self.path)


def _open_everything(folder: Path) -> None:
    for name in ("unreadable", "locked", "unreadable_file"):
        (folder / "room" / name).chmod(0o700)


def _make_good_files(room: Path, encoder: Path, pipeline: Path) -> None:
    convert_tasks(room / "corpus")
    shutil.move(room / "corpus" / "sources", room / "sources")
    shutil.copytree(TEMPLATES, room / "configs")
    shutil.copytree(encoder, room / "encoder")
    shutil.copytree(pipeline, room / "pipeline")
    spacy.blank("en").to_disk(room / "blank")
    (room / "notes").mkdir()
    for number, text in enumerate(make_text(3)):
        (room / "notes" / f"{number}.txt").write_text(text)
    (room / "texts.txt").write_text("\n".join(make_text(8)) + "\n")
    rows = [json.dumps({"text": text}) for text in make_text(8)]
    (room / "texts.jsonl").write_text("\n".join(rows) + "\n")
    (room / "metrics.json").write_text('{"ents_f": 0.5}')
    (room / "recipe.cfg").write_text(PRETRAINING)
    (room / "distillation.cfg").write_text(DISTILLATION)
    (room / "study.cfg").write_text(STUDY)
    corpus = room / "corpus" / "diseases"
    config = fill_config(corpus, encoder="here", epochs=1)
    config["vars"].update(max_steps=3, eval_frequency=3, warmup_steps=1)
    text = config.to_str().replace(f"{room}/", "").replace('"here"', '"encoder"')
    (room / "train.cfg").write_text(text)
    (room / "terms").mkdir()
    (room / "terms" / "DRUG.txt").write_text("Ibuprofen\nCodeine\n")


def _make_bad_files(room: Path) -> None:
    noise = random.Random(0).randbytes(5000)
    (room / "file").write_text("a file\n")
    (room / "empty_folder").mkdir()
    (room / "mine").mkdir()
    (room / "mine" / "thesis.txt").write_text("All my work.\n")
    (room / "marked").mkdir()
    (room / "marked" / MARKER).write_text('{"made_by": "spacy biomed other", "files": []}')
    (room / "badly_marked").mkdir()
    (room / "badly_marked" / MARKER).write_bytes(noise)
    os.mkfifo(room / "fifo")
    (room / "broken_link").symlink_to("nowhere")
    (room / "loop").symlink_to("loop")
    for suffix in SUFFIXES:
        (room / f"empty{suffix}").touch()
        (room / f"noise{suffix}").write_bytes(noise)
        (room / f"folder{suffix}").mkdir()
        (room / f"latin{suffix}").write_bytes("[nlp]\nlang = é\n".encode("latin1"))
    _make_bad_corpora(room)
    _make_bad_configs(room)
    _make_bad_json(room)
    _make_bad_pipelines(room)
    _make_bad_encoders(room)
    _make_bad_wheels(room)
    (room / "unreadable_file").write_text("a file")
    (room / "unreadable_file").chmod(0)
    (room / "locked").mkdir()
    (room / "locked" / "file").write_text("a file")
    (room / "locked").chmod(0o555)
    (room / "unreadable").mkdir()
    (room / "unreadable").chmod(0)


SUFFIXES = ("", ".spacy", ".cfg", ".json", ".jsonl", ".txt", ".parquet", ".txt.gz", ".txt.xz")
SUFFIXES += (".txt.zst", ".whl")


def _make_bad_corpora(room: Path) -> None:
    good = room / "corpus" / "diseases"
    (room / "cut.spacy").write_bytes((good / "test.spacy").read_bytes()[:100])
    DocBin().to_disk(room / "none.spacy")
    (room / "text.spacy").write_text("Aspirin reduced the risk.\n")

    def damage(name: str, change: Callable[[Path], None]) -> None:
        shutil.copytree(good, room / "corpus" / name)
        change(room / "corpus" / name)

    def translate(folder: Path) -> None:
        description = json.loads((folder / "corpus.json").read_text())
        (folder / "corpus.json").write_text(json.dumps({**description, "language": "es"}))

    damage("spanish", translate)
    damage("no_description", lambda folder: (folder / "corpus.json").unlink())
    damage("no_train", lambda folder: (folder / "train.spacy").unlink())
    damage("no_test", lambda folder: (folder / "test.spacy").unlink())
    for part in ("train", "dev", "test"):
        damage(f"cut_{part}", lambda folder, part=part: _cut(folder / f"{part}.spacy"))
        damage(
            f"empty_{part}", lambda folder, part=part: DocBin().to_disk(folder / f"{part}.spacy")
        )
    for name, content in BAD_JSON.items():
        damage(
            f"json_{name}",
            lambda folder, content=content: (folder / "corpus.json").write_bytes(content),
        )


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


BAD_JSON = {
    "cut": b'{"text": "a"',
    "list": b"[1, 2]",
    "number": b"5",
    "null": b"null",
    "text": b'"text"',
    "latin": '{"text": "é"}'.encode("latin1"),
    "bom": '{"text": 5}'.encode("utf-16"),
    "deep": b"[" * 100_000,
    "digits": b'{"text": ' + b"9" * 5000 + b"}",
    "nothing": b"{}",
}


def _make_bad_json(room: Path) -> None:
    for name, content in BAD_JSON.items():
        (room / f"{name}.json").write_bytes(content)
        (room / f"{name}.jsonl").write_bytes(content + b"\n")
    for name, value in {"number": 5, "null": None, "list": ["a"], "object": {"a": "b"}}.items():
        (room / f"{name}_text.jsonl").write_text(json.dumps({"text": value}) + "\n")
    (room / "other_field.jsonl").write_text('{"txt": "a"}\n')


BAD_CONFIGS = {
    "no_section": "pipeline = []\n",
    "other": "[nlp]\n[nlp.a\n",
    "twice": "[nlp]\nlang = 'en'\n[nlp]\nlang = 'es'\n",
    "variable": "[nlp]\nlang = ${vars.none}\n",
    "orphan": "[training.optimizer]\n@optimizers = 'Adam.v1'\n",
    "value": "[nlp]\nlang = [1, 2\n",
    "little": '[nlp]\nlang = "en"\npipeline = []\n',
    "numbers": "[nlp]\nlang = 5\npipeline = 7\n\n[components]\na = 5\n\n[training]\nseed = 'x'\n",
    "null": "[nlp]\nlang = null\n\n[components]\n\n[training]\n",
    "itself": "[nlp]\nlang = ${nlp.lang}\n",
    "prose": "Aspirin reduced the risk of stroke.\n",
    "sections": "[" + "a." * 500 + "a]\nb = 1\n",
}


def _make_bad_configs(room: Path) -> None:
    for name, content in BAD_CONFIGS.items():
        (room / f"{name}.cfg").write_text(content)


def _make_bad_pipelines(room: Path) -> None:
    def damage(name: str, change: Callable[[Path], object]) -> None:
        shutil.copytree(room / "pipeline", room / name)
        change(room / name)

    damage("p_no_meta", lambda folder: (folder / "meta.json").unlink())
    damage("p_no_config", lambda folder: (folder / "config.cfg").unlink())
    damage("p_no_encoder", lambda folder: shutil.rmtree(folder / "biomed_transformer"))
    damage("p_no_tokenizer", lambda folder: (folder / "tokenizer").unlink())
    damage("p_no_vocab", lambda folder: shutil.rmtree(folder / "vocab"))
    damage("p_noise_meta", lambda folder: (folder / "meta.json").write_bytes(b"\xff\x00 noise"))
    damage("p_list_meta", lambda folder: (folder / "meta.json").write_text("[]"))
    damage("p_empty_config", lambda folder: (folder / "config.cfg").write_text(""))
    damage("p_factory", lambda folder: _replace(folder, '"biomed_ner"', '"biomed_none"'))
    damage("p_language", lambda folder: _replace(folder, 'lang = "en"', 'lang = "e\\u0007n"'))
    damage("p_cut_model", lambda folder: _cut(folder / "biomed_ner" / "model"))
    damage("p_no_model", lambda folder: (folder / "biomed_ner" / "model").unlink())
    for path in (room / "pipeline" / "biomed_transformer").rglob("*"):
        if path.is_file() and path.name != MARKER:
            name = path.relative_to(room / "pipeline")
            damage(f"p_cut_{path.name}", lambda folder, name=name: _cut(folder / name))


def _replace(folder: Path, old: str, new: str) -> None:
    path = folder / "config.cfg"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _make_bad_wheels(room: Path) -> None:
    for kind in ("name", "empty", "noise", "folder", "link", "zip", "text"):
        (room / f"wheel_{kind}").mkdir()
    name = "en_none-1.0-py3-none-any.whl"
    (room / "wheel_name" / "none.whl").touch()
    (room / "wheel_empty" / name).touch()
    (room / "wheel_noise" / name).write_bytes(random.Random(1).randbytes(5000))
    (room / "wheel_folder" / name).mkdir()
    (room / "wheel_link" / name).symlink_to("../nowhere")
    (room / "wheel_text" / name).write_text("a wheel\n")
    with zipfile.ZipFile(room / "wheel_zip" / "none.whl", "w"):
        pass


def _make_bad_encoders(room: Path) -> None:
    names = sorted(path.name for path in (room / "encoder").iterdir() if path.name != MARKER)
    for name in names:
        for kind, content in (("none", None), ("noise", b"\xff\x00 noise"), ("list", b"[]")):
            copy = room / f"e_{kind}_{name}"
            shutil.copytree(room / "encoder", copy)
            if content is None:
                (copy / name).unlink()
            else:
                (copy / name).write_bytes(content)
