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
from ..files.output_places import MARKER
from ..files.outputs import replace_text, scratch_directory
from ..pipeline.checksums import TRAINABLE
from ..training.config import check_encoder_name
from .pipeline_recipe import PipelineRecipe, SourceCorpus, Student, Training

STEPS = ("corpora", "teachers", "students", "wheels", "ship")
RECORD = "build.json"

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


def build(
    recipe: PipelineRecipe,
    output: Path,
    *,
    steps: Sequence[str] = STEPS[:-1],
    gpu_id: int = -1,
    run: Callable[[Command], None] | None = None,
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
    run = run or run_command
    record = output / RECORD
    known = json.loads(record.read_text(encoding="utf8")) if record.is_file() else {}
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


def run_command(command: Command) -> None:
    """Run a command in a process of its own, whose output is this process's."""
    subprocess.run([sys.executable, "-m", "spacy", *command.words], check=True)


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
            raise recipe.error(
                "texts.paths", f"{path}: not there; put text there, a document a line"
            )
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
    combined = output / "corpora" / recipe.corpus.name
    yield from _plan_corpora(recipe, combined)
    yield from _plan_teachers(recipe, output, combined, gpu_id)
    for name, student in recipe.students.items():
        teachers = _find_teachers(recipe, output, name)
        taught = combined
        if teachers:
            taught = combined.with_name("_".join([combined.name, *recipe.teachers_of(name)]))
            yield _teach(recipe, teachers, combined, taught)
        start = {"encoder": student.encoder, "source": student.source}
        place = output / "students" / name
        yield from _train(
            "students", taught, place, student, {**start, "seed": student.seed}, gpu_id
        )
        trained = place / "model-best"
        if student.source is not None and student.source_share:
            yield _average(student.source, student.source_share, trained, place / "averaged")
            trained = place / "averaged"
        yield from _plan_wheel(recipe, output, name, trained, combined, gpu_id)


def ship(pipeline: Path, place: Path) -> None:
    """Put a built pipeline into a folder, with its form for training in `trainable`.

    What is in the folder is replaced.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    with scratch_directory(place) as scratch:
        for form, folder in ((pipeline, "."), (_half(pipeline), TRAINABLE)):
            shutil.copytree(
                form,
                scratch / "new" / folder,
                ignore=shutil.ignore_patterns(MARKER),
                dirs_exist_ok=True,
            )
        if place.exists():
            place.rename(scratch / "old")
        (scratch / "new").rename(place)


def _plan_corpora(recipe: PipelineRecipe, combined: Path) -> Iterator[Command]:
    converted = []
    for name, corpus in recipe.corpora.items():
        folder = _folder(name, corpus)
        options = corpus.model_dump(
            exclude={"name", "folder", "labels", "map"}, exclude_defaults=True
        )
        options["labels"] = ",".join(corpus.labels)
        options["map"] = [f"{label}={target}" for label, target in corpus.map.items()]
        converted.append(combined.with_name(name))
        words = ["convert", corpus.name or name, folder, converted[-1], *_spell(options)]
        yield _command("corpora", words, [folder], [converted[-1]])
    options = {"train_first": recipe.corpus.train_first}
    words = ["combine", combined, *converted, *_spell(options)]
    yield _command("corpora", words, converted, [combined])


def _plan_teachers(
    recipe: PipelineRecipe, output: Path, combined: Path, gpu_id: int
) -> Iterator[Command]:
    for name, teacher in recipe.teachers.items():
        for seed in teacher.seeds if teacher.encoder else ():
            place = output / "teachers" / f"{name}_{seed}"
            start = {"encoder": teacher.encoder, "seed": seed}
            yield from _train("teachers", combined, place, teacher, start, gpu_id)


def _find_teachers(recipe: PipelineRecipe, output: Path, student: str) -> list[Path]:
    found = []
    for name, teacher in recipe.teachers_of(student).items():
        if teacher.pipeline:
            found.append(Path(teacher.pipeline))
        else:
            places = [output / "teachers" / f"{name}_{seed}" for seed in teacher.seeds]
            found += [place / "model-best" for place in places]
    return found


def _teach(
    recipe: PipelineRecipe, teachers: Sequence[Path], combined: Path, taught: Path
) -> Command:
    texts = recipe.texts
    options: Options = {}
    if texts is not None:
        options = {"texts": texts.paths, "max_words": texts.words, "seed": texts.seed}
    words = ["teach", *teachers, combined, taught, *_spell(options)]
    inputs = [*teachers, combined, *(texts.paths if texts else ())]
    return _command("students", words, inputs, [taught])


def _train(
    step: str, corpus: Path, place: Path, settings: Training, start: Options, gpu_id: int
) -> Iterator[Command]:
    config = place / "config.cfg"
    given = settings.model_dump(include={"epochs", "batch_words", "learn_rate", "template"})
    words = ["init-config", corpus, config, "--task", "ner", *_spell({**start, **given})]
    before = [Path(path) for path in (start.get("encoder"), start.get("source")) if path]
    yield _command(step, words, [corpus, *before], [config])
    # Overrides are read as JSON.
    spelt = ((f"--{key}", json.dumps(value)) for key, value in settings.config.items())
    others = [word for pair in spelt for word in pair]
    words = ["train", config, "--output", place, "--gpu-id", gpu_id, *others]
    yield _command(step, words, [config, corpus, *before], [place / "model-best"])


def _average(source: str, share: float, trained: Path, output: Path) -> Command:
    options = {"share": [share, round(1 - share, 9)]}
    words = ["average", output, source, trained, *_spell(options)]
    return _command("students", words, [Path(source), trained], [output])


def _plan_wheel(
    recipe: PipelineRecipe, output: Path, name: str, trained: Path, combined: Path, gpu_id: int
) -> Iterator[Command]:
    student = recipe.students[name]
    compressed, pipeline = output / "compressed" / name, output / "pipelines" / name
    metrics, package = output / "metrics" / name, output / "packages" / name
    yield _compress(student, trained, compressed, combined, student.precision)
    corpora = list(recipe.corpora) if recipe.card.tests is None else recipe.card.tests
    for corpus in (combined.name, *corpora):
        scores, test = metrics / f"{corpus}.json", combined.with_name(corpus) / "test.spacy"
        words = ["evaluate", compressed, test, "--output", scores, "--gpu-id", gpu_id]
        words += ["--spans-key", "unseen"]
        yield _command("wheels", words, [compressed, test], [scores], biomed=False)
    for corpus in recipe.card.robustness:
        changed = metrics / f"{corpus}_robustness.json"
        test = combined.with_name(corpus) / "test.spacy"
        words = ["benchmark", compressed, "--robustness", test, "--output", changed]
        yield _command("wheels", words, [compressed, test], [changed])
    card = {
        "corpus": combined,
        "metrics": metrics / f"{combined.name}.json",
        "other_metrics": [f"{corpus}={metrics / corpus}.json" for corpus in corpora],
        "robustness": [metrics / f"{name}_robustness.json" for name in recipe.card.robustness],
        "name": name.partition("_")[2],
        "version": recipe.card.version,
    }
    yield _command(
        "wheels", ["card", compressed, pipeline, *_spell(card)], [compressed, metrics], [pipeline]
    )
    words = ["package", pipeline, package, "--build", "wheel", "--force"]
    yield _command("wheels", words, [pipeline], [package], biomed=False)
    half = _half(compressed)
    yield _compress(student, trained, half, combined, "fp16")
    words = ["card", half, _half(pipeline), *_spell(card)]
    yield _command("wheels", words, [half, metrics], [_half(pipeline)])


def _compress(
    student: Student, trained: Path, output: Path, combined: Path, precision: str
) -> Command:
    check = combined / "dev.spacy"
    options = {
        "precision": precision,
        "check": check,
        "max_loss": student.max_loss,
        "unseen_share": student.unseen_share,
        "target_recall": student.target_recall,
    }
    words = ["compress", trained, output, *_spell(options)]
    return _command("wheels", words, [trained, check], [output])


def _half(path: Path) -> Path:
    """Beside a pipeline, its form for training in half precision."""
    return path.with_name(f"{path.name}_fp16")


def _folder(name: str, corpus: SourceCorpus) -> Path:
    return corpus.folder or Path("assets", corpus.name or name)


def _command(
    step: str,
    words: Sequence[object],
    inputs: Sequence[Path],
    outputs: Sequence[Path],
    *,
    biomed: bool = True,
) -> Command:
    spelt = [*(["biomed"] if biomed else []), *map(str, words)]
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
