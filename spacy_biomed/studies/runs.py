"""The runs of studies: each training is made once, and leaves its scores.

`runs/RUN/` of a study's folder has `result.json`, the config and the log of a finished run; RUN is
a hash of everything that determines its scores. It is written at once and whole, so that no kill
loses a finished run. `trainings/RUN/` is where an unfinished run resumes, and `pipelines/RUN/` has
pipelines that are needed later.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import dataclass, field
from itertools import chain, cycle
from pathlib import Path
from typing import Any, Literal, cast

import spacy
from spacy.language import Language
from spacy.scorer import Scorer
from spacy.tokens import Doc, DocBin
from spacy.training.initialize import init_nlp
from spacy.training.loop import DIR_MODEL_BEST, DIR_MODEL_LAST
from spacy.vocab import Vocab
from thinc.api import Config

from .. import __version__
from ..annotations.document_keys import PART_OF
from ..corpora.convert import ATTRIBUTES
from ..corpora.splits import PARTS
from ..encoders.encoder_model import get_module
from ..encoders.loading import load_pretrained, save_encoder
from ..encoders.onnx.onnx_model import MODEL
from ..errors import BiomedError
from ..evaluation.tasks import Head, find_heads
from ..files.outputs import delete_directory, replacing_directory, write_part
from ..formats.spacy_docs import read_docs
from ..packaging.compression import find_encoders, write_compressed
from ..pipeline.checksums import replacing_pipeline
from ..pipeline.encoder_head import EncoderHead
from ..pipeline.pipeline_loading import use_gpu
from ..pipeline.saved_words import write_pipeline
from ..training.config import fill_config, read_description, write_description
from ..training.corpus import Corpus_v1
from ..training.multitask import MultiTaskCorpus
from ..training.multitask_config import create_multitask_config
from ..training.resumable import train
from ..workers.process import ProcessPool, WorkerDied
from .study_config import RANDOM

RUNS, TRAININGS, PIPELINES = "runs", "trainings", "pipelines"
RESULT, CONFIG, LOG, TRAINED = "result.json", "config.cfg", "log.txt", "trained.txt"
MADE_BY = "spacy biomed study"

# Path of the encoder in a pipeline that was trained together.
ENCODER = Path("biomed_transformer", "encoder")

Scores = dict[str, float]


@dataclass(frozen=True, slots=True)
class CorpusOfRun:
    """A converted corpus as a run reads it: whole, a fold of it, or its first `documents`.

    The texts of the training part, with all their sentences, are dealt to the folds in turn. Fold
    `fold`, from 0, is for testing, the next one for development, and the others for training.
    `folds` is None for the parts as they are, `digest` is a hash of the files.
    """

    folder: Path
    digest: str
    folds: int | None = None
    fold: int = 0
    documents: int = 0

    @property
    def is_cut(self) -> bool:
        return bool(self.folds or self.documents)

    def place(self, output: Path) -> Path:
        """The folder with the parts to read; those of a corpus that is cut are written to it."""
        if not self.is_cut:
            return self.folder
        if self.folds is None:
            parts = {part: _read_docs(self.folder / f"{part}.spacy") for part in PARTS}
        else:
            parts = {part: [] for part in PARTS}
            texts: dict[object, int] = {}
            for number, doc in enumerate(_read_docs(self.folder / "train.spacy")):
                text = texts.setdefault(doc.user_data.get(PART_OF, number), len(texts))
                place = (text - self.fold) % self.folds
                parts[{0: "test", 1: "dev"}.get(place, "train")].append(doc)
        output.mkdir(parents=True, exist_ok=True)
        for part, docs in parts.items():
            chosen = docs[: self.documents] if self.documents else docs
            if chosen:
                content = DocBin(attrs=ATTRIBUTES, store_user_data=True, docs=chosen)
                content.to_disk(output / f"{part}.spacy")
        write_description(output, read_description(self.folder))
        return output


def _read_docs(path: Path) -> list[Doc]:
    return list(read_docs(path, Vocab())) if path.is_file() else []


@dataclass(frozen=True, slots=True)
class Run:
    """A training, with settings as for `create_multitask_config`.

    Attributes:
        is_joint: whether it has a head for each corpus, by its name.
        encoder_digest: a hash of the encoder's directory; "" of others.
        starts_from: digest of the run together whose encoder it starts from.
        export: precision of the exported pipeline that is scored too.
        keep: whether its pipeline stays, exported if it is exported.
        tracking: settings of a tracking logger.
    """

    corpora: Mapping[str, CorpusOfRun]
    is_joint: bool
    encoder: str
    encoder_digest: str
    template: str | None
    template_text: str
    epochs: int | None
    learn_rate: float | None
    batch_size: int | None
    seed: int
    schedule: Literal["round_robin", "proportional"] | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    starts_from: str | None = None
    export: Literal["fp32", "int8"] | None = None
    keep: bool = False
    tracking: Mapping[str, object] | None = None

    @property
    def digest(self) -> str:
        """A hash of everything that determines its scores; files count by their content."""
        corpora = {
            name: [one.digest, one.folds, one.fold, one.documents]
            for name, one in self.corpora.items()
        }
        # Random weights are of the seed.
        encoder = self.starts_from or self.encoder_digest or self.encoder
        is_random = self.encoder.startswith(RANDOM)
        numbers = [self.epochs, self.learn_rate, self.batch_size, self.seed, self.schedule]
        parts = [corpora, self.is_joint, encoder, is_random, self.template_text, numbers]
        parts += [self.settings, self.export, __version__]
        # Their order decides the random weights of heads, and how examples are shuffled.
        parts += [] if [*corpora] == sorted(corpora) else [[*corpora]]
        return create_digest(json.dumps(parts, sort_keys=True))[:32]

    def describe(self) -> str:
        """Its settings in a few words, without paths."""
        is_random = self.encoder.startswith(RANDOM)
        words = [
            ("random " if is_random else "") + Path(self.encoder).name,
            " + ".join(self.corpora),
            describe_settings(self.learn_rate, self.batch_size),
            f"seed {self.seed}",
            *(f"fold {one.fold + 1}" for one in self.corpora.values() if one.folds),
        ]
        return ", ".join(filter(None, words))


def describe_settings(learn_rate: float | None, batch_size: int | None) -> str:
    """A setting of the grid in words; "" if it is the template's."""
    words = [] if learn_rate is None else [f"rate {learn_rate:g}"]
    words += [] if batch_size is None else [f"batches of {batch_size}"]
    return ", ".join(words)


def find_result(output: Path, run: Run) -> dict[str, Any] | None:
    """The result of a finished run; None if it is to be made."""
    if run.keep and not (output / PIPELINES / run.digest).is_dir():
        return None
    return read_result(output / RUNS / run.digest / RESULT, run.digest)


def create_digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def read_result(path: Path, digest: str) -> dict[str, Any] | None:
    """What a training or measurement left; None if nothing, or of another digest."""
    if not path.is_file():
        return None
    content = json.loads(path.read_text(encoding="utf8"))
    return content if content["run"] == digest else None


def make_runs(
    runs: Sequence[Run],
    output: Path,
    *,
    jobs: int = 1,
    gpus: Sequence[int] = (),
    progress: Callable[[Run], None],
) -> None:
    """Make runs; those that start from another come after it.

    Args:
        output: folder of the study, which this process has locked.
        gpus: numbers of GPUs, which the processes take in turn; none for the CPU.
        progress: called with each run when it is finished.

    Raises:
        BiomedError: as training does, or if a process was killed.
    """
    (output / RUNS).mkdir(exist_ok=True)
    first = [run for run in runs if run.starts_from is None]
    then = [run for run in runs if run.starts_from is not None]
    if jobs == 1:
        use_gpu(gpus[0] if gpus else -1, "--gpu-ids")
        for run in chain(first, then):
            make_run(run, output, gpus[0] if gpus else -1)
            progress(run)
    else:
        openings = cycle({"gpu": gpu, "jobs": jobs} for gpu in gpus or [-1])
        with ProcessPool(f"{__name__}:_RunWorker", jobs, openings, keep_errors=False) as pool:
            for stage in (first, then):
                made = {pool.submit("make", run=run, output=output): run for run in stage}
                try:
                    for future in as_completed(made):
                        future.result()
                        progress(made[future])
                except WorkerDied as error:
                    raise BiomedError(
                        "the process of a training was killed, as when memory runs out; give the "
                        "same command again, with fewer --jobs: it resumes"
                    ) from error
    shutil.rmtree(output / TRAININGS, ignore_errors=True)  # empty folders


class _RunWorker:
    def open(self, gpu: int, jobs: int) -> None:
        import torch

        torch.set_num_threads(max(torch.get_num_threads() // jobs, 1))
        use_gpu(gpu, "--gpu-ids")
        self._gpu = gpu

    def make(self, run: Run, output: Path) -> None:
        make_run(run, output, self._gpu)


# --- One run ---


def make_run(run: Run, output: Path, gpu: int) -> None:
    """Train and score, resuming where this was interrupted, and write the result."""
    place = output / TRAININGS / run.digest
    place.mkdir(parents=True, exist_ok=True)
    folders = {name: one.place(place / "corpora" / name) for name, one in run.corpora.items()}
    config = _create_config(run, folders, _find_encoder(run, output, place))
    seconds = _train(place, config, gpu)
    nlp = spacy.load(place / DIR_MODEL_BEST)
    # The encoders, without pooling layer and language-model head.
    modules = [get_module(encoder.model.shims[0]) for encoder in find_encoders(nlp).values()]
    result: dict[str, Any] = {
        "run": run.digest,
        "settings": run.describe(),
        "train_seconds": seconds,
        "parameters": sum(one.numel() for module in modules for one in module.parameters()),
        "corpora": {name: _score(nlp, run, folder) for name, folder in folders.items()},
    }
    if run.export is not None:
        exported = place / "exported"
        with replacing_directory(exported, MADE_BY) as partial:
            write_compressed(nlp, partial, run.export, quantize_embeddings=True)
        models = exported.glob(f"*/encoder/{MODEL}")
        result["encoder_bytes"] = sum(path.stat().st_size for path in models)
        nlp = spacy.load(exported)
        for name, folder in folders.items():
            head = folder.name if run.is_joint else None
            result["corpora"][name]["exported"], _ = score_part(nlp, head, folder / "test.spacy")
    if run.keep:
        with replacing_pipeline(output / PIPELINES / run.digest, MADE_BY) as partial:
            write_pipeline(nlp, partial)
    files = {name: (place / name).read_bytes() for name in (CONFIG, LOG)}
    files[RESULT] = (json.dumps(result, ensure_ascii=False) + "\n").encode()
    write_part(output, f"{RUNS}/{run.digest}", files)
    delete_directory(place)


def _find_encoder(run: Run, output: Path, place: Path) -> str:
    if run.starts_from is not None:
        return str(output / PIPELINES / run.starts_from / ENCODER)
    if not run.encoder.startswith(RANDOM):
        return run.encoder
    write_random_encoder(run.encoder.removeprefix(RANDOM), place / "encoder", run.seed)
    return str(place / "encoder")


def write_random_encoder(encoder: str, output: Path, seed: int) -> None:
    """Write a directory with an encoder's shape and vocabulary and random initial weights."""
    import torch

    tokenizer, pretrained = load_pretrained(encoder)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = type(pretrained)(pretrained.config)
    with replacing_directory(output, MADE_BY, [encoder]) as partial:
        save_encoder(partial, tokenizer, model)


def _create_config(run: Run, folders: Mapping[str, Path], encoder: str) -> Config:
    common: dict[str, Any] = {
        "encoder": encoder,
        "epochs": run.epochs,
        "learn_rate": run.learn_rate,
        "batch_size": run.batch_size,
        "seed": run.seed,
        "settings": run.settings,
    }
    if run.is_joint:
        config, _ = create_multitask_config(
            list(folders.values()),
            template=cast(str, run.template),
            schedule=run.schedule,
            **common,
        )
    else:
        [folder] = folders.values()
        config = fill_config(folder, template=run.template, **common)
    if run.tracking is not None:
        config["training"]["logger"] = {
            "@loggers": "spacy_biomed.TrackingLogger.v1",
            "run_name": run.describe(),
            **run.tracking,
        }
    return config


def _train(place: Path, config: Config, gpu: int) -> float:
    """Train in a folder, which also gets the config and a log; return the seconds of training."""
    marker = place / TRAINED
    if not marker.is_file():
        config.to_disk(place / CONFIG)
        nlp = init_nlp(config, use_gpu=gpu)
        with (place / LOG).open("a", encoding="utf8") as log:
            seconds = train(nlp, place, use_gpu=gpu, evaluate_first=False, stdout=log, stderr=log)
        marker.write_text(f"{seconds:.1f}", encoding="utf8")
        shutil.rmtree(place / DIR_MODEL_LAST, ignore_errors=True)
    return float(marker.read_text(encoding="utf8"))


# --- Scores ---


def _score(nlp: Language, run: Run, folder: Path) -> dict[str, object]:
    name = folder.name if run.is_joint else None  # as the heads of a joint training are called
    head = find_head_of(nlp, name)
    test, tallies = score_part(nlp, name, folder / "test.spacy")
    config = nlp.config.interpolate()
    learned_dev = config["corpora"]["dev"].get("@readers") == "spacy_biomed.NoCorpus.v1"
    dev: Scores = {}
    if (folder / "dev.spacy").is_file() and not learned_dev:
        dev, _ = score_part(nlp, name, folder / "dev.spacy")
    main = cast(type[EncoderHead], head.kind).main_score(head.scored_as, head.settings)
    metric = main.removeprefix(_begin(head))
    return {"metric": metric, "dev": dev, "test": test, "tallies": tallies}


def score_part(
    nlp: Language, name: str | None, path: Path
) -> tuple[Scores, list[dict[str, list[float]]]]:
    """Score a head of a joint training by its name, or the only head of another, on a part.

    Scores are 0 to 1, by the endings of their names, such as "f"; with them `EncoderHead.tally`.
    """
    head = find_head_of(nlp, name)
    if name is not None:
        prefixed = nlp.config.interpolate()["corpora"]["train"].get("prefixed") or []
        own = [name] if name in prefixed else []
        examples = list(MultiTaskCorpus({name: path}, {}, own, 0, {})(nlp))
    else:
        gold_entities = cast(type[EncoderHead], head.kind).reads_entities
        examples = list(Corpus_v1(path, gold_entities=gold_entities)(nlp))
    for example, doc in zip(examples, nlp.pipe([one.predicted for one in examples]), strict=True):
        example.predicted = doc
    scores = Scorer(nlp=nlp).score(examples)
    begin, pipe = _begin(head), nlp.get_pipe(head.name)
    found = {
        key.removeprefix(begin): float(value)
        for key, value in scores.items()
        if key.startswith(begin) and isinstance(value, int | float)
    }
    return found, pipe.tally(examples) if isinstance(pipe, EncoderHead) else []


def find_head_of(nlp: Language, name: str | None) -> Head:
    """The head of a pipeline with a name; without a name its only one."""
    heads = [
        head
        for head in find_heads(nlp.config.interpolate())
        if issubclass(head.kind, EncoderHead) and name in (None, head.name)
    ]
    if len(heads) != 1:
        raise BiomedError(
            f"the pipeline has {len(heads)} heads to score: use a template with one head for a "
            'corpus alone, and training = "together" for several'
        )
    return heads[0]


def _begin(head: Head) -> str:
    kind = cast(type[EncoderHead], head.kind)
    return f"{kind.begin_scores(head.scored_as, head.settings)}_"
