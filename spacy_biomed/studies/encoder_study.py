"""Compare encoders: fine-tune them on the same corpora, quantise, score and time them.

Like tables 1 to 3 and figure 2 of Rohanian et al. 2022, "On the Effectiveness of Compact Biomedical
Transformers", for named entity recognition.
"""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import spacy
from spacy.language import Language
from spacy.vocab import Vocab
from thinc.api import Config

from ..encoders.loading import load_pretrained, save_encoder
from ..encoders.onnx.onnx_model import MODEL
from ..encoders.thinc_shims import get_module
from ..errors import BiomedError
from ..evaluation.benchmark import MEASURES, describe_machine, measure_speed, read_texts
from ..outputs import delete_directory, replace_text, replacing_directory
from ..packaging.compression import find_encoders, write_compressed
from ..training.checkpoint import digest_files
from ..training.config import fill_config
from ..training.corpus import Corpus_v1, read_docs
from ..training.resumable import DIR_MODEL_BEST
from .encoder_report import EncoderFigures, write_report
from .trainings import Progress, create_digest, read_result, train_in

RECORDS, SPEEDS = "runs.jsonl", "speeds.json"
RUNS, RANDOM, PIPELINES = "runs", "random", "pipelines"
MADE_BY = "spacy biomed study encoders"
TRAINED = "trained.txt"

_RANDOM_PREFIX = "random:"


@dataclass(frozen=True, slots=True)
class Contestant:
    """An encoder to compare.

    Attributes:
        name: name in the table, and of its folder.
        encoder: a directory, a catalogue name or a hub id.
        is_random: whether to replace its weights by random weights, with the seed of each training.
    """

    name: str
    encoder: str
    is_random: bool = False


class Corpus(NamedTuple):
    """A converted corpus, and the number of epochs for the fine-tuning on it."""

    folder: Path
    epochs: int

    @property
    def name(self) -> str:
        return self.folder.name


@dataclass(frozen=True, slots=True)
class EncoderStudySettings:
    """The settings of all trainings and measurements of a study.

    Attributes:
        template, batch_words, learn_rate: as in `fill_config`.
        seeds: each training is run once with each seed.
        texts: file of texts for the timing, as in `read_texts`; by default the test part of the
            first corpus.
        repeats, threads: of the timing, as in `measure_speed`.
        gpu: number of the GPU to train on; -1 for none. Pipelines are timed on the CPU.
    """

    template: Path
    batch_words: int | None = None
    learn_rate: float | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    texts: Path | None = None
    repeats: int = 5
    threads: int | None = None
    gpu: int = -1


@dataclass(frozen=True, slots=True)
class Run:
    """A training.

    Attributes:
        contestant, corpus, seed, config: encoder, corpus, seed and config of the training.
        place: its folder while it runs.
        digest: a hash of everything that determines its scores.
        pipeline: directory to keep its quantised pipeline for timing; None if it is not timed.
    """

    contestant: Contestant
    corpus: Corpus
    seed: int
    config: Config
    place: Path
    digest: str
    pipeline: Path | None


class Record(NamedTuple):
    """The result of a training.

    Attributes:
        f1, int8_f1: F1 of the best pipeline on the test part, 0 to 1, before and after
            quantisation.
        parameters: number of parameters of the encoder, without pooler and language-model head.
        int8_bytes: size of the exported encoder's file.
    """

    f1: float
    int8_f1: float
    parameters: int
    int8_bytes: int


def parse_contestants(names: list[str]) -> list[Contestant]:
    """Parse encoders of the command line: ENCODER, random:ENCODER, or NAME= before either.

    The default name is that of the directory or of the catalogue, with "_random" for random
    weights.

    Raises:
        BiomedError: if two have the same name, or a name is not suitable for a folder.
    """
    contestants: dict[str, Contestant] = {}
    for given in names:
        name, found, encoder = given.rpartition("=")
        is_random = encoder.startswith(_RANDOM_PREFIX)
        encoder = encoder.removeprefix(_RANDOM_PREFIX)
        if not found:
            name = Path(encoder).expanduser().resolve().name + ("_random" if is_random else "")
        if not re.fullmatch(r"[\w.+-]+", name):
            raise BiomedError(
                f"--encoders {given}: '{name}' is not a valid name; use letters, digits, '_', '.' "
                "and '-'"
            )
        if name in contestants:
            raise BiomedError(f"--encoders: two are called {name}; give one as NAME={encoder}")
        contestants[name] = Contestant(name, encoder, is_random)
    return list(contestants.values())


def study_encoders(
    contestants: list[Contestant],
    corpora: list[Corpus],
    output: Path,
    settings: EncoderStudySettings,
    *,
    baseline: str | None = None,
    progress: Progress | None = None,
) -> list[EncoderFigures]:
    """Fine-tune each encoder on each corpus with each seed, and report scores, speed and size.

    It writes `encoders.md`, a table; `encoders.json`, all numbers; and `encoders.svg`, F1 against
    words per second and against size. Each finished training is a line of `runs.jsonl`. Only the
    quantised pipelines for the timing are kept, those of the first corpus and seed. When run again,
    the study resumes the interrupted training and runs the missing trainings. A training whose
    config, corpus or encoder has changed is run again. If a pipeline has changed, all pipelines are
    timed again in turns.

    Args:
        contestants: the encoders.
        corpora: the converted corpora.
        output: folder for all files.
        settings: settings of trainings and measurements.
        baseline: name of the contestant to compare the others with.
        progress: called before each of `count_steps` steps.

    Returns:
        the results, in the order of the contestants.

    Raises:
        BiomedError: if an encoder, a corpus or the texts cannot be read, or as in training.
    """
    if not contestants or not corpora:
        raise BiomedError("--encoders and --tasks: a study needs one of each at least")
    _check_contestants(contestants, baseline)
    texts = check_corpora(corpora, settings)
    records = _read_records(output / RECORDS)
    report = progress or (lambda doing: None)
    runs = _plan(contestants, corpora, output, settings)
    for run in runs:
        report(f"{run.contestant.name}, {run.corpus.name}, seed {run.seed}")
        if run.digest not in records or not (run.pipeline is None or run.pipeline.is_dir()):
            records[run.digest] = _make(run, settings.gpu)
            _append(output / RECORDS, run, records[run.digest])
            delete_directory(run.place)
    shutil.rmtree(output / RUNS, ignore_errors=True)  # empty folders
    report("Timing the pipelines")
    speeds = _time([run for run in runs if run.pipeline], texts, output / SPEEDS, settings)
    figures = [
        _collect(contestant.name, runs, records, speeds[contestant.name])
        for contestant in contestants
    ]
    write_report(figures, output, baseline, _describe(corpora, settings, runs[0].config, texts))
    return figures


def count_steps(contestants: int, corpora: int, settings: EncoderStudySettings) -> int:
    """The number of calls of `progress` in `study_encoders`."""
    return contestants * corpora * len(settings.seeds) + 1


def check_corpora(corpora: list[Corpus], settings: EncoderStudySettings) -> list[str]:
    """Check the inputs of all trainings before the first training.

    Returns:
        the texts for the timing; empty without corpora.

    Raises:
        BiomedError: if a corpus, the template or the texts cannot be read, if a corpus has no
            mentions to score, or if two corpora have the same name.
    """
    names = [corpus.name for corpus in corpora]
    if len(set(names)) < len(names):
        raise BiomedError(f"--tasks: two corpora are called {max(names, key=names.count)}")
    for corpus in corpora:
        _create_config(corpus, settings)
        for part in ("dev", "test"):
            path = corpus.folder / f"{part}.spacy"
            if not any(doc.ents for doc in read_docs(path, Vocab())):
                raise BiomedError(f"{path}: no mentions to score; give a corpus of entities")
    return read_texts(settings.texts or corpora[0].folder / "test.spacy") if corpora else []


def _check_contestants(contestants: list[Contestant], baseline: str | None) -> None:
    names = [contestant.name for contestant in contestants]
    if baseline is not None and baseline not in names:
        raise BiomedError(f"--baseline {baseline}: no such encoder; use one of {', '.join(names)}")
    for contestant in contestants:
        load_pretrained(contestant.encoder)


# --- Training and scoring ---


def _plan(
    contestants: list[Contestant],
    corpora: list[Corpus],
    output: Path,
    settings: EncoderStudySettings,
) -> list[Run]:
    configs = [_create_config(corpus, settings) for corpus in corpora]
    files = [_digest_corpus(corpus) for corpus in corpora]
    runs = []
    for contestant in contestants:
        encoders = [_find_encoder(contestant, seed, output) for seed in settings.seeds]
        for corpus, template, corpus_digest in zip(corpora, configs, files, strict=True):
            for seed, encoder in zip(settings.seeds, encoders, strict=True):
                config = template.copy()
                config["vars"].update(encoder=encoder, seed=seed)
                digest = _digest(contestant, config, corpus_digest)
                place = output / RUNS / contestant.name / corpus.name / f"seed_{seed}"
                is_timed = corpus is corpora[0] and seed == settings.seeds[0]
                pipeline = output / PIPELINES / contestant.name / digest[:16] if is_timed else None
                runs.append(Run(contestant, corpus, seed, config, place, digest, pipeline))
    return runs


def _create_config(corpus: Corpus, settings: EncoderStudySettings) -> Config:
    return fill_config(
        corpus.folder,
        encoder="",
        epochs=corpus.epochs,
        task="ner",
        template=settings.template,
        batch_words=settings.batch_words,
        learn_rate=settings.learn_rate,
    )


def _find_encoder(contestant: Contestant, seed: int, output: Path) -> str:
    """The encoder for a config: the contestant's, or a new directory with random weights."""
    if not contestant.is_random:
        return contestant.encoder
    place = output / RANDOM / contestant.name / f"seed_{seed}"
    write_random_encoder(contestant.encoder, place, seed)
    return str(place)


def write_random_encoder(encoder: str, output: Path, seed: int) -> None:
    """Write an encoder directory with the same shape and vocabulary and random initial weights.

    Args:
        encoder: as in `load_pretrained`.
        output: directory to write; replaced if it exists.
        seed: seed of the weights.
    """
    import torch

    tokenizer, pretrained = load_pretrained(encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = type(pretrained)(pretrained.config)
    with replacing_directory(output, MADE_BY, [encoder]) as partial:
        save_encoder(partial, tokenizer, model)


def _digest_corpus(corpus: Corpus) -> str:
    files = (corpus.folder / f"{part}.spacy" for part in ("train", "dev", "test"))
    return "\n".join([corpus.name, *map(digest_files, files)])


def _digest(contestant: Contestant, config: Config, corpus: str) -> str:
    """A hash of everything that determines a training's scores; files count by their content.

    Args:
        contestant, config: of the training.
        corpus: digest of the corpus's files.
    """
    found = config.copy()
    encoder = Path(found["vars"]["encoder"]).expanduser()
    if encoder.is_dir():
        found["vars"]["encoder"] = digest_files(encoder)
    del found["paths"]
    return create_digest(contestant.name, found.to_str(interpolate=False), corpus)


def _make(run: Run, gpu: int) -> Record:
    """Train, score, quantise and score again, resuming where this was interrupted."""
    trained = run.place / TRAINED
    if not (trained.is_file() and trained.read_text(encoding="utf8") == run.digest):
        train_in(run.place, run.config, gpu)
        trained.write_text(run.digest, encoding="utf8")
    nlp = spacy.load(run.place / DIR_MODEL_BEST)
    [(name, encoder)] = find_encoders(nlp).items()
    pipeline = run.pipeline or run.place / PIPELINES
    with replacing_directory(pipeline, MADE_BY) as partial:
        write_compressed(nlp, partial, "int8", quantize_embeddings=True)
    test = run.corpus.folder / "test.spacy"
    return Record(
        f1=_score(nlp, test),
        int8_f1=_score(spacy.load(pipeline), test),
        parameters=sum(
            weight.numel() for weight in get_module(encoder.model.shims[0]).parameters()
        ),
        int8_bytes=(pipeline / name / "encoder" / MODEL).stat().st_size,
    )


def _score(nlp: Language, test: Path) -> float:
    return nlp.evaluate(list(Corpus_v1(test)(nlp)))["ents_f"]


def _read_records(path: Path) -> dict[str, Record]:
    """The results of finished trainings, by digest."""
    records = {}
    lines = path.read_text(encoding="utf8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            content = json.loads(line)
            records[content["run"]] = Record(*(content[name] for name in Record._fields))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise BiomedError(
                f"{path}:{number}: not the record of a training; remove the line"
            ) from error
    return records


def _append(path: Path, run: Run, record: Record) -> None:
    key = {"encoder": run.contestant.name, "corpus": run.corpus.name, "seed": run.seed}
    line = {**key, "run": run.digest, **record._asdict()}
    with path.open("a", encoding="utf8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


# --- Timing and results ---


def _time(
    runs: list[Run], texts: list[str], path: Path, settings: EncoderStudySettings
) -> dict[str, float]:
    """The words per second of each contestant's quantised pipeline, by name.

    Args:
        runs: the trainings whose pipelines are timed.
        texts: texts to annotate.
        path: file with earlier measurements, which are reused if nothing has changed.
        settings: settings of the timing.
    """
    timing = [str(settings.repeats), str(settings.threads)]
    digest = create_digest(*(run.digest for run in runs), *texts, *timing)
    earlier = read_result(path, digest)
    if earlier is not None:
        return earlier["words_per_second"]
    measured = measure_speed(
        [str(run.pipeline) for run in runs],
        texts,
        repeats=settings.repeats,
        threads=settings.threads,
    )
    [words_per_second] = [measure for measure in MEASURES if measure.name == "words_per_second"]
    speeds: dict[str, Any] = {
        run.contestant.name: words_per_second.value(figures)
        for run, figures in zip(runs, measured, strict=True)
    }
    content = {
        "run": digest,
        "words_per_second": speeds,
        "machine": describe_machine(),
        "pipelines": [figures.to_json() for figures in measured],
    }
    replace_text(path, json.dumps(content, indent=2) + "\n")
    return speeds


def _collect(
    name: str, runs: list[Run], records: dict[str, Record], words_per_second: float
) -> EncoderFigures:
    found = [(run.corpus.name, records[run.digest]) for run in runs if run.contestant.name == name]
    f1: dict[str, list[float]] = {}
    int8_f1: dict[str, list[float]] = {}
    for corpus, record in found:
        f1.setdefault(corpus, []).append(record.f1)
        int8_f1.setdefault(corpus, []).append(record.int8_f1)
    first = found[0][1]
    return EncoderFigures(name, first.parameters, first.int8_bytes, words_per_second, f1, int8_f1)


def _describe(
    corpora: list[Corpus], settings: EncoderStudySettings, config: Config, texts: list[str]
) -> dict[str, Any]:
    """The settings that are the same for all encoders.

    Args:
        config: the config of any training.
    """
    source = settings.texts.name if settings.texts else f"test part of {corpora[0].name}"
    return {
        "epochs": {corpus.name: corpus.epochs for corpus in corpora},
        "learn_rate": config["vars"]["learn_rate"],
        "batch_words": config["vars"]["batch_words"],
        "seeds": list(settings.seeds),
        "texts": f"{len(texts):,} texts ({source})",
        "threads": settings.threads,
        "repeats": settings.repeats,
    }
