"""Batches of documents that are annotated together, and batches of examples to learn from."""

from collections.abc import Iterable, Iterator

from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example, validate_examples
from thinc.api import Optimizer

# Maximum tokens of a batch, whose vectors are all in memory at once.
MAX_TOKENS = 8192


def batch_docs(
    stream: Iterable[Doc], batch_size: int, max_tokens: int = MAX_TOKENS
) -> Iterator[list[Doc]]:
    """Split a stream into batches of at most so many tokens; a longer document is one alone."""
    batch: list[Doc] = []
    tokens = 0
    for doc in stream:
        if batch and tokens + len(doc) > max_tokens:
            yield batch
            batch, tokens = [], 0
        batch.append(doc)
        tokens += len(doc)
        if len(batch) == batch_size:  # now, because the next document may arrive much later
            yield batch
            batch, tokens = [], 0
    if batch:
        yield batch


class BatchLearner(TrainablePipe):
    """A component that learns from a batch in `update_batch`."""

    def update(
        self,
        examples: Iterable[Example],
        *,
        drop: float = 0.0,
        sgd: Optimizer | None = None,
        losses: dict[str, float] | None = None,
    ) -> dict[str, float]:
        """Learn from a batch; without `sgd` the gradients wait for `finish_update`."""
        examples = list(examples)
        validate_examples(examples, f"{type(self).__name__}.update")
        losses = {} if losses is None else losses
        losses.setdefault(self.name, 0.0)
        if any(len(example.predicted) for example in examples):
            self.update_batch(examples, losses, drop, sgd)
        return losses

    def update_batch(
        self, examples: list[Example], losses: dict[str, float], drop: float, sgd: Optimizer | None
    ) -> None:
        raise NotImplementedError
