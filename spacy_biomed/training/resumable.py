"""Training as `spacy train` does it, which resumes from its last evaluation when it was stopped.

`_Run` has spaCy's training loop (`spacy.training.loop`), with a checkpoint after each evaluation.
To resume, batches and schedules are led to its step, and the checkpoint puts back everything else.
"""

import itertools
import random
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from timeit import default_timer as timer
from typing import IO, Any, cast

from spacy.errors import Errors
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.schemas import ConfigSchemaTraining
from spacy.training import Example, loop
from spacy.util import registry, resolve_dot_names
from thinc.api import Config, fix_random_seed, set_gpu_allocator
from wasabi import Printer

from ..errors import BiomedError, DamagedPipelineError
from ..files import outputs
from ..pipeline.checksums import replacing_pipeline
from ..pipeline.saved_words import write_pipeline
from .checkpoint import SECTIONS_WITH_INPUTS, Checkpoint, Progress, fingerprint

DIR_CHECKPOINT = "checkpoint"
CHECKPOINT_FILE = "training.safetensors"

# What the markers of the directories say.
MADE_BY = "spacy biomed train"


def train(
    nlp: Language,
    output: Path,
    *,
    use_gpu: int = -1,
    resume: bool = True,
    evaluate_first: bool = True,
    stdout: IO | None = None,
    stderr: IO | None = None,
) -> float:
    """Train a pipeline as `spacy.training.loop.train` does: same seed, same weights and scores.

    Each evaluation writes the state of the run to the folder `checkpoint` of the output, which is
    removed when training is done. A run that was stopped resumes from there, and ends with the
    weights of an uninterrupted run, bit for bit where computing is deterministic. Two things
    differ: on a GPU the dropout of thinc's layers, since the state of cupy's generator cannot be
    read, and an augmented corpus with max_epochs = -1 if components draw from the module `random`.

    Args:
        nlp: the initialized pipeline.
        output: folder that gets `model-best` and `model-last`; it is made if needed.
        use_gpu: number of the GPU, which is already the current one; -1 for none.
        resume: whether to resume. With a checkpoint of another config or of other data, training
            starts from the beginning, and the output says so.
        evaluate_first: whether to evaluate after the first step too, as spaCy does, even if a later
            evaluation is certain.
        stdout, stderr: for messages and the config's logger; by default the process's.

    Returns:
        the seconds until the last evaluation, those before the run was stopped included.

    Raises:
        BiomedError: if the output cannot be written, another process trains into it, or its
            `model-best`, `model-last` or `checkpoint` was made by something else.
    """
    config = nlp.config.interpolate()
    check_training_output(output, config)
    if config["training"]["seed"] is not None:
        fix_random_seed(config["training"]["seed"])
    if use_gpu >= 0 and config["training"]["gpu_allocator"]:
        set_gpu_allocator(config["training"]["gpu_allocator"])
    run = _Run(nlp, config, output, evaluate_first, stdout or sys.stdout, stderr or sys.stderr)
    with outputs.locked_place(output, stays=True):
        run.train(run.find_checkpoint() if resume else None)
    return run.progress.seconds


def check_training_output(output: Path, config: Config) -> None:
    """Check that training can write to a folder, and would not replace its own inputs."""
    if output.exists() and not output.is_dir():
        raise BiomedError(f"{output}: this is a file; name a folder to write to")
    sections = [config.get(section, {}) for section in SECTIONS_WITH_INPUTS]
    sources = list(outputs.find_paths(sections))
    for name in (loop.DIR_MODEL_BEST, loop.DIR_MODEL_LAST, DIR_CHECKPOINT):
        outputs.check_replaceable(output / name, MADE_BY, sources)


class _Run:
    """A training run: the parts that the config names, and how far they have come."""

    def __init__(
        self,
        nlp: Language,
        config: Config,
        output: Path,
        evaluate_first: bool,
        stdout: IO,
        stderr: IO,
    ):
        settings = registry.resolve(config["training"], schema=ConfigSchemaTraining)
        self.train_corpus, dev_corpus = resolve_dot_names(
            config, [settings["train_corpus"], settings["dev_corpus"]]
        )
        self.nlp = nlp
        self.output = output
        self.checkpoint_path = output / DIR_CHECKPOINT / CHECKPOINT_FILE
        self.stdout, self.stderr = stdout, stderr
        self.msg = Printer(no_print=True)
        self.settings = settings
        self.frozen: list[str] = settings["frozen_components"]
        self.optimizer = settings["optimizer"]
        dropout = settings["dropout"]
        self.dropouts = itertools.repeat(dropout) if isinstance(dropout, float) else dropout
        self.batches = self._make_batches()
        self.evaluate = loop.create_evaluation_callback(nlp, dev_corpus, settings["score_weights"])
        self.before_to_disk = loop.create_before_to_disk_callback(settings["before_to_disk"])
        self.progress = Progress(fingerprint(nlp))
        has_later = settings["max_epochs"] <= 0 and (
            settings["max_steps"] >= settings["eval_frequency"]
        )
        self.skips_first = has_later and not evaluate_first

    def find_checkpoint(self) -> Checkpoint | None:
        """The checkpoint to resume from, if there is one and it is of this run."""
        if not self.checkpoint_path.is_file():
            return None
        outputs.finish_replacing(self.output / loop.DIR_MODEL_BEST)
        try:
            checkpoint = Checkpoint.read(self.checkpoint_path)
            self._check(checkpoint)
        except BiomedError as error:
            self._say(self.msg.warn(f"{error}; training starts from the beginning"))
            return None
        return checkpoint

    def _check(self, checkpoint: Checkpoint) -> None:
        """Raise BiomedError if a checkpoint is not one of this run."""
        now, then = self.progress.fingerprint, checkpoint.progress.fingerprint
        changed = sorted(name for name in {*now, *then} if now.get(name) != then.get(name))
        difference = ""
        if changed:
            difference = f"{' and '.join(changed)} changed since"
        elif not checkpoint.fits(self.nlp):
            difference = "its weights are of another shape"
        elif not (self.output / loop.DIR_MODEL_BEST).is_dir():
            difference = f"the {loop.DIR_MODEL_BEST} of its run is gone"
        if difference:
            raise BiomedError(f"{self.checkpoint_path.parent} is not continued: {difference}")

    def train(self, checkpoint: Checkpoint | None) -> None:
        """Train, from the beginning or from a checkpoint."""
        if checkpoint is None:
            outputs.remove_directory(self.checkpoint_path.parent, MADE_BY)
        else:
            self.progress = checkpoint.progress
        self._announce()
        with self.nlp.select_pipes(disable=self.frozen):
            log_step, finalize = self.settings["logger"](self.nlp, self.stdout, self.stderr)
        if checkpoint is not None:
            self._restore(checkpoint)
        try:
            self._loop(log_step)
        except Exception as error:
            stopped = "Aborting and saving the final best model. Encountered exception: "
            self._say(self.msg.warn(f"{stopped}{error!r}"))
            raise
        finally:
            finalize()
            self._save_pipeline(is_best=False)
        outputs.remove_directory(self.checkpoint_path.parent, MADE_BY)
        last = self.output / loop.DIR_MODEL_LAST
        self._say(self.msg.good("Saved pipeline to output directory", last))

    def _restore(self, checkpoint: Checkpoint) -> None:
        """Put everything where it was after the checkpoint's step."""
        for step, (epoch, _) in enumerate(itertools.islice(self.batches, self.progress.step + 1)):
            self._begin_step(step, epoch)
            self.optimizer.step_schedules()
        checkpoint.restore(self.nlp, self.optimizer)
        checkpoint.tensors.clear()  # up to four times the pipeline's weights

    def _loop(self, log_step: Callable[[dict[str, Any] | None], None]) -> None:
        """Make the steps that are left, with an evaluation and a checkpoint after some of them."""
        progress = self.progress
        losses: dict[str, float] = {}
        start = timer() - progress.seconds
        while not self._is_done() and (batch := next(self.batches, None)) is not None:
            epoch, examples = batch
            progress.step += 1
            self._update(epoch, examples, losses)
            progress.words += sum(len(example) for example in examples)
            is_between = bool(progress.step % self.settings["eval_frequency"])
            if is_between or (progress.step == 0 and self.skips_first):
                log_step(None)
                continue
            info = self._evaluate()
            progress.seconds = timer() - start
            info.update(epoch=epoch, losses=losses, seconds=int(progress.seconds))
            with self.nlp.select_pipes(disable=self.frozen):
                loop.update_meta(self.settings, self.nlp, info)
            self._save_pipeline(is_best=info["score"] == max(progress.scores))
            log_step(info)
            self._write_checkpoint()
            losses = {}

    def _is_done(self) -> bool:
        """Whether the last step is made, or no evaluation was better for `patience` steps."""
        if not self.progress.scores:
            return False
        # The first of equally good evaluations counts.
        _, best_step = max(self._results(), key=lambda result: (result[0], -result[1]))
        step, patience = self.progress.step, self.settings["patience"]
        if patience and step - best_step >= patience:
            return True
        return bool(self.settings["max_steps"]) and step >= self.settings["max_steps"]

    def _results(self) -> list[tuple[float, int]]:
        """The score and the step of each evaluation."""
        frequency, scores = self.settings["eval_frequency"], self.progress.scores
        # 1 if the first step was not evaluated, else 0
        first = self.progress.step // frequency + 1 - len(scores)
        return [(score, number * frequency) for number, score in enumerate(scores, start=first)]

    def _make_batches(self) -> Iterator[tuple[int, list[Example]]]:
        """The batches of all epochs, as spaCy makes them, with the numbers of their epochs.

        Epochs whose state of Python's generator `progress` has are repeated.
        """
        max_epochs, epochs = self.settings["max_epochs"], self.progress.epochs
        is_stream = max_epochs < 0  # read again in each epoch, and not shuffled
        examples = [] if is_stream else list(self.train_corpus(self.nlp))
        if not (is_stream or examples):
            raise ValueError(Errors.E986)
        for epoch in range(max_epochs) if max_epochs > 0 else itertools.count():
            if epoch < len(epochs):
                random.setstate(epochs[epoch])
            else:
                epochs.append(random.getstate())
            if not is_stream:
                random.shuffle(examples)
            batcher = self.settings["batcher"]
            for batch in batcher(self.train_corpus(self.nlp) if is_stream else examples):
                yield epoch, batch

    def _begin_step(self, step: int, epoch: int) -> float:
        """Call the config's `before_update`; give the step's rate of dropout."""
        if before_update := self.settings["before_update"]:
            before_update(self.nlp, {"step": step, "epoch": epoch})
        return next(self.dropouts)

    def _update(self, epoch: int, examples: list[Example], losses: dict[str, float]) -> None:
        """Make a step: the gradients of the parts of the batch, then the optimizer."""
        dropout = self._begin_step(self.progress.step, epoch)
        for part in loop.subdivide_batch(examples, self.settings["accumulate_gradient"]):
            self.nlp.update(
                part,
                drop=dropout,
                losses=losses,
                sgd=False,
                exclude=self.frozen,
                annotates=self.settings["annotating_components"],
            )
        for name, pipe in self.nlp.pipeline:
            is_trained = name not in self.frozen and getattr(pipe, "is_trainable", False)
            if is_trained and getattr(pipe, "model", None) not in (True, False, None):
                cast(TrainablePipe, pipe).finish_update(self.optimizer)
        self.optimizer.step_schedules()

    def _evaluate(self) -> dict[str, Any]:
        """Evaluate, with the averaged weights if the optimizer averages. Returns what is logged."""
        progress = self.progress
        try:
            with self.nlp.use_params(self.optimizer.averages):
                score, other_scores = self.evaluate()
        except DamagedPipelineError as error:
            raise BiomedError(
                f"after step {progress.step} the scores are not finite numbers: training has "
                "diverged; lower the learning rate (--vars.learn_rate)"
            ) from error
        weights = self.settings["score_weights"]
        weighted = [name for name, weight in weights.items() if weight]
        has_documents = "token_acc" in other_scores
        if has_documents and weighted and not any(name in other_scores for name in weighted):
            raise BiomedError(
                f"training.score_weights.{weighted[0]}: no such score is measured, and so no best "
                "pipeline; annotate in the development part what is learned, or give one of "
                f"{', '.join(other_scores)}"
            )
        progress.scores.append(score)
        return {
            "step": progress.step,
            "score": score,
            "other_scores": other_scores,
            "checkpoints": self._results(),
            "words": progress.words,
            "output_path": str(self.output / loop.DIR_MODEL_LAST),
        }

    def _save_pipeline(self, is_best: bool) -> None:
        """Save as spaCy does, with the averaged weights if the optimizer averages."""
        last, best = self.output / loop.DIR_MODEL_LAST, self.output / loop.DIR_MODEL_BEST
        with (
            self.nlp.use_params(self.optimizer.averages),
            replacing_pipeline(last, MADE_BY) as partial,
        ):
            write_pipeline(self.before_to_disk(self.nlp), partial)
        if is_best:
            with outputs.replacing_directory(best, MADE_BY) as partial:
                shutil.copytree(last, partial, dirs_exist_ok=True)

    def _write_checkpoint(self) -> None:
        """Save the state. After the pipelines: those newer than a checkpoint are made again."""
        self.progress.performance = self.nlp.meta["performance"]
        outputs.claim_directory(self.checkpoint_path.parent, MADE_BY)
        Checkpoint.take(self.nlp, self.optimizer, self.progress).write(self.checkpoint_path)

    def _announce(self) -> None:
        lines = [
            f"Pipeline: {self.nlp.pipe_names}",
            f"Frozen components: {self.frozen}",
            f"Set annotations on update for: {self.settings['annotating_components']}",
            f"Initial learn rate: {self.optimizer.learn_rate}",
        ]
        if self.progress.step >= 0:
            folder = self.checkpoint_path.parent
            lines.append(f"Continuing after step {self.progress.step} from {folder}")
        for line in lines:
            self._say(self.msg.info(line))

    def _say(self, message: str) -> None:
        self.stdout.write(message + "\n")
