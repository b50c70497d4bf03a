"""Build pipelines from a recipe: the commands that it stands for, and those that are to be run.

A command is skipped if it, its inputs and its outputs are as they were after it had run. What they
were is in `build.json` in the folder of the build.
"""

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import BiomedError
from ..files.digests import digest_files
from ..files.outputs import MARKER, replace_text, scratch_directory
from ..pipeline.checksums import TRAINABLE
from ..training.config import check_encoder_name, read_fields
from .pipeline_recipe import PipelineRecipe, SourceCorpus, Student, Training

STEPS = ("corpora", "teachers", "students", "wheels", "ship")
RECORD = "build.json"
# Commands of spaCy itself.
_OF_SPACY = ("evaluate", "package")

Options = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Command:
    """A command of spaCy: its step, its words after `python -m spacy`, and its files."""

    step: str
    words: tuple[str, ...]
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]

    def __str__(self) -> str:
        return shlex.join(["python", "-m", "spacy", *self.words])


def run_command(command: Command) -> None:
    """Run a command in a process of its own, whose output is this process's."""
    subprocess.run([sys.executable, "-m", "spacy", *command.words], check=True)


def build(
    recipe: PipelineRecipe,
    output: Path,
    *,
    steps: Sequence[str] = STEPS[:-1],
    gpu_id: int = -1,
    run: Callable[[Command], None] = run_command,
    skipped: Callable[[Command], None] = lambda command: None,
) -> None:
    """Run the commands of a recipe whose inputs or outputs have changed.

    Args:
        output: folder of the build: its corpora, trainings, scores, pipelines and packages.
        steps: the steps to run, of `STEPS`.
        gpu_id: of the GPU to train on; -1 for the CPU.
        run: runs a command; by default in a process of its own.
        skipped: called with the commands that are not run.

    Raises:
        BiomedError: if a corpus, text or encoder is missing. Then nothing is run.
        subprocess.CalledProcessError: if a command fails, after it has printed why.
    """
    check_inputs(recipe)
    record = output / RECORD
    known = read_fields(record, (), "python -m spacy biomed build") if record.is_file() else {}
    for command in plan(recipe, output, gpu_id):
        if command.step not in steps:
            continue
        if known.get(str(command)) == _digest(command):
            skipped(command)
            continue
        for path in command.outputs:
            # `spacy package` needs its folder, and the others the one that they write to.
            folder = path if command.words[0] == "package" else path.parent
            folder.mkdir(parents=True, exist_ok=True)
        run(command)
        known[str(command)] = _digest(command)
        replace_text(record, json.dumps(known, indent=1))
    if "ship" in steps:
        for name, student in recipe.students.items():
            if student.place is not None:
                ship(output / "pipelines" / name, student.place)


def check_inputs(recipe: PipelineRecipe) -> None:
    """Raise BiomedError if a corpus, text or encoder of a recipe is missing."""
    for name, corpus in recipe.corpora.items():
        folder = _folder(name, corpus)
        if not folder.exists():
            raise recipe.error(
                f"corpora.{name}",
                f"{folder}: not there; `python -m spacy biomed corpora {corpus.name or name} "
                "--download` downloads it, or says where it belongs",
            )
    is_taught = any(map(recipe.teachers_of, recipe.students))
    for path in recipe.texts.paths if recipe.texts and is_taught else ():
        if not path.exists():
            raise recipe.error("texts.paths", f"{path}: missing; put text there, a document a line")
    named = {f"teachers.{name}.encoder": one.encoder for name, one in recipe.teachers.items()}
    named |= {f"students.{name}.encoder": one.encoder for name, one in recipe.students.items()}
    for setting, encoder in named.items():
        if encoder is not None:
            try:
                check_encoder_name(encoder)
            except BiomedError as error:
                raise recipe.error(setting, str(error)) from error


def plan(recipe: PipelineRecipe, output: Path, gpu_id: int = -1) -> Iterator[Command]:
    """Yield all commands of a recipe, in their order."""
    plans = _Plans(recipe, output, gpu_id)
    yield from plans.convert()
    for name, teacher in recipe.teachers.items():
        for seed in teacher.seeds if teacher.encoder else ():
            start = {"encoder": teacher.encoder, "seed": seed}
            place = output / "teachers" / f"{name}_{seed}"
            yield from plans.train("teachers", plans.corpus, place, teacher, start)
    for name, student in recipe.students.items():
        yield from plans.teach_and_train(name, student)
        yield from plans.describe(name, student)


def ship(pipeline: Path, place: Path) -> None:
    """Put a built pipeline into a folder, with its form for training in `trainable`.

    What is in the folder is replaced.
    """
    for built in (pipeline, _half(pipeline)):
        if not built.is_dir():
            raise BiomedError(f"{built}: not built yet; run the steps before `ship` first")
    place.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(place) as scratch:
        left_out = shutil.ignore_patterns(MARKER)
        shutil.copytree(pipeline, scratch / "new", ignore=left_out)
        shutil.copytree(_half(pipeline), scratch / "new" / TRAINABLE, ignore=left_out)
        if place.exists():
            place.rename(scratch / "old")
        (scratch / "new").rename(place)


class _Plans:
    """The commands of a recipe whose files are in a folder; `corpus` is its combined corpus."""

    def __init__(self, recipe: PipelineRecipe, output: Path, gpu_id: int):
        self._recipe, self._output, self._gpu_id = recipe, output, gpu_id
        self.corpus = output / "corpora" / recipe.corpus.name

    def convert(self) -> Iterator[Command]:
        converted = []
        for name, corpus in self._recipe.corpora.items():
            folder = _folder(name, corpus)
            options = corpus.model_dump(
                exclude={"name", "folder", "labels", "map"}, exclude_defaults=True
            )
            options["labels"] = ",".join(corpus.labels)
            options["map"] = [f"{label}={target}" for label, target in corpus.map.items()]
            converted.append(self.corpus.with_name(name))
            words = ["convert", corpus.name or name, folder, converted[-1], *_spell(options)]
            yield _command("corpora", words, [folder], [converted[-1]])
        options = {"train_first": self._recipe.corpus.train_first}
        words = ["combine", self.corpus, *converted, *_spell(options)]
        yield _command("corpora", words, converted, [self.corpus])

    def train(
        self, step: str, corpus: Path, place: Path, settings: Training, start: Options
    ) -> Iterator[Command]:
        config = place / "config.cfg"
        given = settings.model_dump(include={"epochs", "batch_words", "learn_rate", "template"})
        words = ["init-config", corpus, config, *_spell({"task": "ner", **start, **given})]
        before = [Path(path) for path in (start.get("encoder"), start.get("source")) if path]
        yield _command(step, words, [corpus, *before], [config])
        words = ["train", config, *_spell({"output": place, "gpu_id": self._gpu_id})]
        for key, value in settings.config.items():
            words += [f"--{key}", json.dumps(value)]  # overrides are read as JSON
        yield _command(step, words, [config, corpus, *before], [place / "model-best"])

    def teach_and_train(self, name: str, student: Student) -> Iterator[Command]:
        """Train a student on what its teachers, if any, find in the corpus and the texts."""
        place, corpus, texts = self._place(name), self.corpus, self._recipe.texts
        own = self._recipe.teachers_of(name)
        if own:
            teachers = []
            for teacher, section in own.items():
                seeds = (f"{teacher}_{seed}/model-best" for seed in section.seeds)
                trained = [self._output / "teachers" / seed for seed in seeds]
                teachers += [Path(section.pipeline)] if section.pipeline else trained
            corpus = corpus.with_name("_".join([corpus.name, *own]))
            options: Options = {}
            if texts is not None:
                options = {"texts": texts.paths, "max_words": texts.words, "seed": texts.seed}
            words = ["teach", *teachers, self.corpus, corpus, *_spell(options)]
            inputs = [*teachers, self.corpus, *(texts.paths if texts else ())]
            yield _command("students", words, inputs, [corpus])
        start = {"encoder": student.encoder, "source": student.source, "seed": student.seed}
        yield from self.train("students", corpus, place, student, start)
        if student.source is not None and student.source_share:
            output, best = place / "averaged", place / "model-best"
            share = student.source_share
            options = {"share": [share, round(1 - share, 9)]}
            words = ["average", output, student.source, best, *_spell(options)]
            yield _command("students", words, [Path(student.source), best], [output])

    def describe(self, name: str, student: Student) -> Iterator[Command]:
        """Compress a student, score it, and make its card and its wheel."""
        compressed, pipeline, metrics, package = (
            self._output / folder / name
            for folder in ("compressed", "pipelines", "metrics", "packages")
        )
        yield self._compress(name, student, compressed, student.precision)
        recipe_card = self._recipe.card
        corpora = list(self._recipe.corpora) if recipe_card.tests is None else recipe_card.tests
        for corpus in (self.corpus.name, *corpora):
            scores, test = metrics / f"{corpus}.json", self._test(corpus)
            options = {"output": scores, "gpu_id": self._gpu_id, "spans_key": "unseen"}
            words = ["evaluate", compressed, test, *_spell(options)]
            yield _command("wheels", words, [compressed, test], [scores])
        robustness = {
            corpus: metrics / f"{corpus}_robustness.json" for corpus in recipe_card.robustness
        }
        for corpus, changed in robustness.items():
            test = self._test(corpus)
            words = ["benchmark", compressed, *_spell({"robustness": test, "output": changed})]
            yield _command("wheels", words, [compressed, test], [changed])
        card = {
            "corpus": self.corpus,
            "metrics": metrics / f"{self.corpus.name}.json",
            "other_metrics": [f"{corpus}={metrics / corpus}.json" for corpus in corpora],
            "robustness": list(robustness.values()),
            "name": name.partition("_")[2],
            "version": recipe_card.version,
        }
        words = ["card", compressed, pipeline, *_spell(card)]
        yield _command("wheels", words, [compressed, metrics], [pipeline])
        words = ["package", pipeline, package, "--build", "wheel", "--force"]
        yield _command("wheels", words, [pipeline], [package])
        half = _half(compressed)
        yield self._compress(name, student, half, "fp16")
        words = ["card", half, _half(pipeline), *_spell(card)]
        yield _command("wheels", words, [half, metrics], [_half(pipeline)])

    def _compress(self, name: str, student: Student, output: Path, precision: str) -> Command:
        trained = self._place(name) / ("averaged" if student.source_share else "model-best")
        check = self.corpus / "dev.spacy"
        options = {
            "precision": precision,
            "check": check,
            "max_loss": student.max_loss,
            "unseen_share": student.unseen_share,
            "target_recall": student.target_recall,
        }
        words = ["compress", trained, output, *_spell(options)]
        return _command("wheels", words, [trained, check], [output])

    def _place(self, student: str) -> Path:
        return self._output / "students" / student

    def _test(self, corpus: str) -> Path:
        return self.corpus.with_name(corpus) / "test.spacy"


def _half(path: Path) -> Path:
    """Beside a pipeline, its form for training in half precision."""
    return path.with_name(f"{path.name}_fp16")


def _folder(name: str, corpus: SourceCorpus) -> Path:
    return corpus.folder or Path("assets", corpus.name or name)


def _command(
    step: str, words: Sequence[object], inputs: Sequence[Path], outputs: Sequence[Path]
) -> Command:
    spelt = [*([] if words[0] in _OF_SPACY else ["biomed"]), *map(str, words)]
    return Command(step, tuple(spelt), tuple(inputs), tuple(outputs))


def _spell(options: Options) -> list[str]:
    """Options as words: None, False and "" are left out, and lists are repeated."""
    words: list[str] = []
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(option)
        elif value is not None and value is not False and value != "":
            for one in value if isinstance(value, list) else [value]:
                words += [option, str(one)]
    return words


def _digest(command: Command) -> dict[str, str]:
    """The digests of a command's inputs and outputs; "" for a name or a path without a file."""
    paths = (*command.inputs, *command.outputs)
    return {str(path): digest_files(path) if path.exists() else "" for path in paths}
