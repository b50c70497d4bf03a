"""Training as `spacy train` does it, which goes on from its last evaluation when it was stopped."""

from __future__ import annotations

import itertools
import random
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

from spacy.errors import Errors
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example
from spacy.training.loop import (
    DIR_MODEL_BEST,
    DIR_MODEL_LAST,
    create_before_to_disk_callback,
    create_evaluation_callback,
    train_while_improving,
    update_meta,
)
from spacy.util import registry, resolve_dot_names
from thinc.api import fix_random_seed, set_gpu_allocator
from wasabi import Printer

from ..errors import BiomedError
from ..outputs import (
    check_replaceable,
    claim_directory,
    find_paths,
    finish_replacing,
    locked_directory,
    remove_directory,
    replacing_directory,
)
from .checkpoint import SECTIONS_WITH_INPUTS, Checkpoint, Progress, PythonState, fingerprint

DIR_CHECKPOINT = "checkpoint"
CHECKPOINT_FILE = "training.safetensors"

# What the markers of the directories say.
MADE_BY = "spacy biomed train"

Batches = Iterator[tuple[int, list[Example]]]


def train(
    nlp: Language,
    output: Path,
    *,
    use_gpu: int = -1,
    resume: bool = True,
    stdout: IO | None = None,
    stderr: IO | None = None,
) -> None:
    """Train a pipeline, as `spacy.training.loop.train` does: same seed, same weights and scores.

    At every evaluation the run is written to the folder `checkpoint` of the output, which is
    removed when training is done. A run that was stopped is continued from there, and ends with
    the weights of one that was not, bit for bit where computing is deterministic. On a GPU the
    dropout of thinc's layers is not: cupy's generator cannot be read, and begins anew. Nor is it
    where a corpus of max_epochs = -1 is augmented, if components draw from the module `random`.

    Args:
        nlp: the initialized pipeline.
        output: folder that gets `model-best` and `model-last`; made if it is not there. Those of an
            earlier run stay until the first evaluation replaces them.
        use_gpu: number of the GPU, which has been made the current one; -1 for none.
        resume: whether to continue. A checkpoint of another config, or of other data, is not
            continued: the output says so, and training starts from the beginning.
        stdout, stderr: for messages and the config's logger; by default the process's.

    Raises:
        BiomedError: if the output cannot be written, another process trains into it, or it has a
            `model-best`, `model-last` or `checkpoint` that no such training made.
    """
    check_training_output(output, nlp.config.interpolate())
    run = _Run(
        nlp, output, use_gpu=use_gpu, stdout=stdout or sys.stdout, stderr=stderr or sys.stderr
    )
    with locked_directory(output):
        checkpoint = run.find_checkpoint() if resume else None
        run.train(checkpoint)


def check_training_output(output: Path, config: dict[str, Any]) -> None:
    """See that training can write to a folder, and would not replace what it reads there.

    Args:
        config: interpolated.

    Raises:
        BiomedError: as `train` does.
    """
    if output.exists() and not output.is_dir():
        raise BiomedError(f"{output}: this is a file; name a folder to write to")
    sections = [config.get(section, {}) for section in SECTIONS_WITH_INPUTS]
    sources = list(find_paths(sections))
    for name in (DIR_MODEL_BEST, DIR_MODEL_LAST, DIR_CHECKPOINT):
        check_replaceable(output / name, MADE_BY, sources)


class _Run:
    """The parts of a training run, resolved from the config.

    A run is continued by leading spaCy's own loop over the steps that were made, with nothing to
    learn from and the scores that are known: in no time the schedules, the patience and the
    batches are where they were, and then `Checkpoint.restore` puts back the rest.
    """

    def __init__(self, nlp: Language, output: Path, *, use_gpu: int, stdout: IO, stderr: IO):
        config = nlp.config.interpolate()
        if config["training"]["seed"] is not None:
            fix_random_seed(config["training"]["seed"])
        if use_gpu >= 0 and config["training"]["gpu_allocator"]:
            set_gpu_allocator(config["training"]["gpu_allocator"])
        self.settings = registry.resolve(config["training"], schema=ConfigSchemaTraining)
        self.train_corpus, self.dev_corpus = resolve_dot_names(
            config, [self.settings["train_corpus"], self.settings["dev_corpus"]]
        )
        self.nlp = nlp
        self.output = output
        self.stdout, self.stderr = stdout, stderr
        self.msg = Printer(no_print=True)
        self.optimizer = self.settings["optimizer"]
        self.before_to_disk = create_before_to_disk_callback(self.settings["before_to_disk"])
        self.checkpoint_path = output / DIR_CHECKPOINT / CHECKPOINT_FILE
        self.progress = Progress(fingerprint(nlp))
        self.replay_seconds = 0

    def find_checkpoint(self) -> Checkpoint | None:
        """The checkpoint to continue from, if there is one, and it is of this very run."""
        if not self.checkpoint_path.is_file():
            return None
        finish_replacing(self.output / DIR_MODEL_BEST)
        try:
            checkpoint = Checkpoint.read(self.checkpoint_path)
        except BiomedError as error:
            self._say(self.msg.warn(f"{error}; training starts from the beginning"))
            return None
        if difference := self._compare(checkpoint):
            self._say(
                self.msg.warn(
                    f"{self.checkpoint_path.parent} is not continued: {difference}; training "
                    "starts from the beginning"
                )
            )
            return None
        return checkpoint

    def _compare(self, checkpoint: Checkpoint) -> str | None:
        """Why a checkpoint is not one of this run."""
        now, then = self.progress.fingerprint, checkpoint.progress.fingerprint
        changed = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        if changed:
            return f"{' and '.join(changed)} changed since"
        if not checkpoint.fits(self.nlp):
            return "its weights are of another shape"
        if not (self.output / DIR_MODEL_BEST).is_dir():
            return f"the {DIR_MODEL_BEST} of its run is gone"
        return None

    def train(self, checkpoint: Checkpoint | None) -> None:
        """Run the loop, from the beginning or from a checkpoint."""
        if checkpoint is None:
            remove_directory(self.checkpoint_path.parent, MADE_BY)
        else:
            self.progress = checkpoint.progress
        self._announce()
        with self.nlp.select_pipes(disable=self.settings["frozen_components"]):
            log_step, finalize = self.settings["logger"](self.nlp, self.stdout, self.stderr)
        steps = self._steps()
        restored = checkpoint is None
        try:
            if checkpoint is not None:
                self._replay(steps, checkpoint, log_step)
                restored = True
            self._go_on(steps, log_step)
        except Exception as error:
            self._say(
                self.msg.warn(
                    f"Aborting and saving the final best model. Encountered exception: {error!r}"
                )
            )
            raise
        finally:
            finalize()
            if restored:
                self._save_pipeline(is_best=False)
        remove_directory(self.checkpoint_path.parent, MADE_BY)
        last = self.output / DIR_MODEL_LAST
        self._say(self.msg.good("Saved pipeline to output directory", last))

    def _steps(self) -> Iterator[tuple[list[Example], dict[str, Any], bool | None]]:
        """spaCy's loop; empty batches and known scores up to where the run is continued from."""
        settings = self.settings
        return train_while_improving(
            self.nlp,
            self.optimizer,
            self._batches(),
            self._create_evaluate(),
            dropout=settings["dropout"],
            accumulate_gradient=settings["accumulate_gradient"],
            patience=settings["patience"],
            max_steps=settings["max_steps"],
            eval_frequency=settings["eval_frequency"],
            exclude=settings["frozen_components"],
            annotating_components=settings["annotating_components"],
            before_update=settings["before_update"],
        )

    def _batches(self) -> Batches:
        made = self.progress.step
        batches = create_train_batches(
            self.nlp,
            self.train_corpus,
            self.settings["batcher"],
            self.settings["max_epochs"],
            self.progress.epochs,
        )
        for step, (epoch, batch) in enumerate(batches):
            yield epoch, batch if step > made else []

    def _create_evaluate(self) -> Callable[[], tuple[float, dict[str, Any]]]:
        evaluate = create_evaluation_callback(
            self.nlp, self.dev_corpus, self.settings["score_weights"]
        )
        known = iter(list(self.progress.scores))

        def evaluate_once() -> tuple[float, dict[str, Any]]:
            score = next(known, None)
            return evaluate() if score is None else (score, {})

        return evaluate_once

    def _replay(self, steps: Iterator, checkpoint: Checkpoint, log_step: Callable) -> None:
        """Lead the loop to the end of the checkpoint's last step, and put everything back."""
        for _, info, _ in steps:
            log_step(None)
            if info["step"] == checkpoint.progress.step:
                break
        checkpoint.restore(self.nlp, self.optimizer)
        checkpoint.tensors.clear()  # up to four times the pipeline's weights
        self.replay_seconds = info["seconds"]

    def _go_on(self, steps: Iterator, log_step: Callable) -> None:
        """Make the steps that are left, and save and log what each evaluation gives."""
        words = self.progress.words
        seconds = self.progress.seconds - self.replay_seconds
        frozen = self.settings["frozen_components"]
        for _, info, is_best in steps:
            info["words"] += words
            info["seconds"] += seconds
            if is_best is None:
                log_step(None)
                continue
            with self.nlp.select_pipes(disable=frozen):
                update_meta(self.settings, self.nlp, info)
            self._save_pipeline(is_best)
            info["output_path"] = str(self.output / DIR_MODEL_LAST)
            log_step(info)
            self._save_checkpoint(info)

    def _save_pipeline(self, is_best: bool) -> None:
        """As spaCy does: the averaged weights, if the optimizer averages."""
        last, best = self.output / DIR_MODEL_LAST, self.output / DIR_MODEL_BEST
        with (
            self.nlp.use_params(self.optimizer.averages),
            replacing_directory(last, MADE_BY) as partial,
        ):
            self.before_to_disk(self.nlp).to_disk(partial)
        if is_best:
            with replacing_directory(best, MADE_BY) as partial:
                shutil.copytree(last, partial, dirs_exist_ok=True)

    def _save_checkpoint(self, info: dict[str, Any]) -> None:
        """After the pipelines: one that is newer than the checkpoint is made again."""
        progress = self.progress
        progress.step, progress.scores = info["step"], [score for score, _ in info["checkpoints"]]
        progress.words, progress.seconds = info["words"], info["seconds"]
        progress.performance = self.nlp.meta["performance"]
        claim_directory(self.checkpoint_path.parent, MADE_BY)
        Checkpoint.take(self.nlp, self.optimizer, progress).write(self.checkpoint_path)

    def _announce(self) -> None:
        frozen = self.settings["frozen_components"]
        annotating = self.settings["annotating_components"]
        self._say(self.msg.info(f"Pipeline: {self.nlp.pipe_names}"))
        if frozen:
            self._say(self.msg.info(f"Frozen components: {frozen}"))
        if annotating:
            self._say(self.msg.info(f"Set annotations on update for: {annotating}"))
        self._say(self.msg.info(f"Initial learn rate: {self.optimizer.learn_rate}"))
        if self.progress.step >= 0:
            self._say(
                self.msg.info(
                    f"Continuing after step {self.progress.step} from {self.checkpoint_path.parent}"
                )
            )

    def _say(self, message: str) -> None:
        self.stdout.write(message + "\n")


def create_train_batches(
    nlp: Language,
    corpus: Callable[[Language], Iterable[Example]],
    batcher: Callable[[Iterable[Example]], Iterable[list[Example]]],
    max_epochs: int,
    epochs: list[PythonState],
) -> Batches:
    """spaCy's function of this name, which can be made to give the same batches again.

    Args:
        max_epochs: -1 for a corpus that is read anew in each epoch and not shuffled; 0 for no
            limit.
        epochs: states of Python's generator at the beginning of the epochs to repeat; those of the
            epochs after them are added.
    """
    streamed = max_epochs < 0
    examples = [] if streamed else list(corpus(nlp))
    if not streamed and not examples:
        raise ValueError(Errors.E986)
    for epoch in range(max_epochs) if max_epochs > 0 else itertools.count():
        if epoch < len(epochs):
            random.setstate(epochs[epoch])
        else:
            epochs.append(random.getstate())
        if not streamed:
            random.shuffle(examples)
        for batch in batcher(corpus(nlp) if streamed else examples):
            yield epoch, batch
