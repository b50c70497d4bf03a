"""The component `biomed_transformer`: one PyTorch encoder, shared by the heads after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from spacy.training import Example
from thinc.api import Optimizer, set_dropout_rate
from thinc.types import Floats2d

from .encoder_pipe import EncoderPipe
from .factories import register_factory


@dataclass(slots=True)
class _PendingBackprop:
    """A training batch whose backward pass waits for the heads' gradients."""

    gradient: Floats2d
    backprop: Callable[[Floats2d], object]
    waiting_for: int
    sgd: Optimizer | None
    received: int = 0


class SharedEncoder(EncoderPipe):
    """Encode each document once with PyTorch, for all heads after it that listen.

    It learns from the gradients that the heads send back. spaCy's `ner`, `textcat`, `spancat`,
    `tagger` and `parser` train on it as on spacy-transformers' component `transformer`, through the
    same `spacy-transformers.TransformerListener.v1`.

    Its model is `spacy_biomed.TransformerModel.v1`. `EncoderPipe` describes the settings.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> encoder = nlp.add_pipe("biomed_transformer")
        >>> nlp.pipe_names
        ['biomed_transformer']
    """

    _pending: _PendingBackprop | None = None

    def update_batch(
        self, examples: list[Example], losses: dict[str, float], drop: float, sgd: Optimizer | None
    ) -> None:
        """Encode a batch and pass it to the listeners, which send back their gradients.

        The last listener's gradient starts the backward pass. So each listener must send a gradient
        for each batch; None stands for zeros if there is nothing to learn.
        """
        docs = [example.predicted for example in examples]
        if not any(len(doc) for doc in docs):
            return
        self._finish_pending()
        set_dropout_rate(self.model, drop)
        losses.setdefault(self.name, 0.0)
        batch, backprop_model = self.model.begin_update(docs)
        pending = _PendingBackprop(
            gradient=self.model.ops.alloc2f(*batch.hidden.shape),
            backprop=backprop_model,
            waiting_for=len(self.listeners),
            sgd=sgd,
        )
        self._pending = pending

        def backprop(d_hidden: Floats2d | None) -> None:
            if d_hidden is not None:
                losses[self.name] += float((d_hidden**2).sum())
                pending.gradient += d_hidden
            pending.received += 1
            if pending.received == pending.waiting_for:
                self._finish_pending()

        self.feed_listeners(docs, batch, backprop)

    def finish_update(self, sgd: Optimizer) -> None:
        """Update the weights; if no head has sent a gradient yet, wait until all have."""
        if self._pending is not None and self._pending.received == 0:
            self._pending.sgd = sgd
            return
        self._finish_pending()
        if hasattr(sgd, "clip_with"):
            sgd.clip_with(self.heads)
        self.model.finish_update(sgd)

    def _finish_pending(self) -> None:
        """Run the backward pass of the last batch with the gradients received so far.

        A frozen head sends no gradient, so this cannot wait for all heads.
        """
        pending, self._pending = self._pending, None
        if pending is None or pending.received == 0:
            return
        pending.backprop(pending.gradient)
        if pending.sgd is not None:
            self.model.finish_update(pending.sgd)


make_biomed_transformer = register_factory(
    "biomed_transformer",
    SharedEncoder,
    {"model": {"@architectures": "spacy_biomed.TransformerModel.v1", "name": "roberta-base"}},
    assigns=["doc._.trf_data"],
)
