"""Training that goes on from a trained pipeline, on a corpus that may have further labels."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import spacy
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.util import resolve_dot_names
from thinc.api import Config

from ..errors import BiomedError, quote
from ..pipeline.component_classes import find_described
from ..pipeline.encoder_head import CalibratedHead, EncoderHead, add_labels, has_weights
from ..pipeline.ner import BiomedNER
from ..pipeline.pipeline_loading import find_trainable, load_pipeline
from .config import fill_config, read_description

# spaCy's own logger, which its commands make visible with --verbose.
logger = logging.getLogger("spacy")

# The rate is this share of the one that random weights were trained with.
LEARN_RATE_SHARE = 0.5

# An encoder that only predicts, and what it was exported from.
EXPORTED, TRAINABLE = "biomed_onnx_transformer", "biomed_transformer"


@dataclass(frozen=True, slots=True)
class Update:
    """A training that goes on from a pipeline.

    Attributes:
        config: for `spacy train`.
        new: labels of the corpus that the pipeline does not know.
        unannotated: labels of the pipeline that the corpus neither annotates nor teaches.
        moved: components that stay as they are, on an encoder that learns.
    """

    config: Config
    new: list[str]
    unannotated: list[str]
    moved: list[str]


def create_update(
    corpus: Path,
    *,
    source: str,
    learn_rate: float | None = None,
    **settings: Any,
) -> Update:
    """Make the config of a training that goes on from a pipeline.

    Every component of the pipeline is sourced. It learns if the template trains it; else it is
    frozen. Tokenizer and settings of the components are the pipeline's, all else is the template's.

    Args:
        source: an installed package, or a pipeline directory, which may hold its PyTorch form.
        learn_rate: highest learning rate; by default half of what the pipeline was trained with, or
            the same if it went on learning before.
        settings: further arguments of `fill_config`.

    Raises:
        BiomedError: if the template, the corpus or the pipeline is not there, or is not one; if the
            pipeline has not what the template trains, or is of another language.
    """
    description = read_description(corpus)
    source = find_trainable(source)
    # The source in place of an encoder, until its encoder is sourced too.
    config = fill_config(corpus, encoder=source, learn_rate=learn_rate, **settings)
    nlp = load_pipeline(source)
    trained = _find_trained(nlp, source, config)
    if nlp.lang != description["language"]:
        raise BiomedError(
            f"--source {source}: a pipeline of the language {quote(nlp.lang)}, and {corpus} is of "
            f"{quote(description['language'])}; give one of the same language"
        )
    if learn_rate is None and (rate := _choose_rate(nlp, config)) is not None:
        config["vars"]["learn_rate"] = rate
    config["vars"]["source"] = config["vars"].pop("encoder")
    _take_pipeline(config, nlp, trained)
    frozen = {name: pipe for name, pipe in nlp.components if name not in trained}
    learning: list[Any] = [pipe for name, pipe in nlp.components if name in trained]
    heads = [pipe for pipe in learning if isinstance(pipe, BiomedNER)]
    annotated = set(description.get("annotated_labels", ()))
    known = {label for head in heads for label in head.labels}
    taught = description.get("taught", {}).get("components", ())
    untaught = {label for head in heads if head.name not in taught for label in head.labels}
    moved = {name for pipe in learning for name in getattr(pipe, "listening_components", ())}
    return Update(
        config,
        sorted(annotated - known) if heads else [],
        sorted(untaught - annotated),
        [name for name, p in frozen.items() if name in moved or isinstance(p, EncoderHead)],
    )


def _find_trained(nlp: Language, source: str, config: Config) -> list[str]:
    """The components that a template trains; raise BiomedError if the pipeline lacks one."""
    own = {name: nlp.get_pipe_meta(name).factory for name in nlp.component_names}
    trained = []
    for name in config["nlp"].get("pipeline", ()):
        factory = config.get("components", {}).get(name, {}).get("factory", name)
        made = find_described(factory)
        if made is not None and not issubclass(made, TrainablePipe):
            continue
        if own.get(name) == EXPORTED and factory == TRAINABLE:
            raise BiomedError(
                f"--source {source}: training needs the PyTorch pipeline, and this one's encoder "
                f"is exported ({EXPORTED}); give the pipeline that it was compressed from"
            )
        if own.get(name) != factory:
            raise BiomedError(
                f"--source {source}: has no component '{name}' of the kind '{factory}', which is "
                f"to be trained on the corpus; it has {', '.join(own) or 'no components'}"
            )
        trained.append(name)
    return trained


def _choose_rate(nlp: Language, config: Config) -> float | None:
    """The highest learning rate of a training that goes on; None for the template's."""
    own = nlp.config.interpolate().get("vars", {})
    rate = own.get("learn_rate", config["vars"].get("learn_rate"))
    if not isinstance(rate, int | float):
        return None
    return rate if "source" in own else LEARN_RATE_SHARE * rate


def _take_pipeline(config: Config, nlp: Language, trained: Sequence[str]) -> None:
    """Let a config have the components of a pipeline, which its [vars] name as the source."""
    names = list(nlp.component_names)  # spaCy's cannot be copied
    config["nlp"]["pipeline"] = names
    config["nlp"]["disabled"] = list(nlp.disabled)
    config["nlp"]["tokenizer"] = nlp.config.interpolate()["nlp"]["tokenizer"]
    config["components"] = {name: {"source": "${vars.source}"} for name in names}
    config["training"]["frozen_components"] = [name for name in names if name not in trained]
    initialize = config.setdefault("initialize", {})
    initialize.pop("components", None)  # which spaCy does not initialize
    initialize["before_init"] = {
        "@callbacks": "spacy_biomed.continue_pipeline.v1",
        "source": "${vars.source}",
        "components": list(trained),
    }


def continue_pipeline_v1(source: str, components: list[str]) -> Callable[[Language], Language]:
    """Prepare sourced components, which spaCy does not initialize: `[initialize.before_init]`.

    The pipeline gets the tokenizer of its source, and each component the labels of the training
    corpus that it does not know. What was calibrated before is dropped.

    Args:
        source: the pipeline that they come from: an installed package, or a directory.
        components: those that learn.

    Raises:
        BiomedError: if the tokenizers are of different kinds, or a component that is to have
            further labels cannot have any.
    """

    def prepare(nlp: Language) -> Language:
        _copy_tokenizer(nlp, source)
        config = nlp.config.interpolate()
        (corpus,) = resolve_dot_names(config, [config["training"]["train_corpus"]])
        for name in components:
            head: Any = nlp.get_pipe(name)
            if not has_weights(head.model):
                raise BiomedError(
                    f"[components.{name}] has no weights to go on from: give it source = "
                    f"{quote(source)}, as `spacy biomed init-config --source` does"
                )
            if isinstance(head, EncoderHead) and (new := add_labels(head, corpus(nlp))):
                logger.info("Added labels to '%s': %s", name, ", ".join(new))
        has_moving_encoder = any(nlp.get_pipe_meta(one).factory == TRAINABLE for one in components)
        for name, pipe in nlp.components:
            if isinstance(pipe, CalibratedHead) and (has_moving_encoder or name in components):
                pipe.forget_calibration()
        return nlp

    return prepare


def _copy_tokenizer(nlp: Language, source: str) -> None:
    """Raise BiomedError if the pipeline `source` is not there, or has another kind of tokenizer."""
    try:
        other = spacy.load(source, exclude=nlp.component_names)
    except OSError as error:
        raise BiomedError(
            f"[initialize.before_init] source = {quote(source)}: no such pipeline, and training "
            "begins with it; to train a loaded pipeline further, use `nlp.resume_training()` in "
            "place of `nlp.initialize()`, and `initialize` of a component that you have added"
        ) from error
    own, others = (one.config.interpolate()["nlp"]["tokenizer"] for one in (nlp, other))
    if own != others:
        raise BiomedError(
            f"[nlp.tokenizer] of the config is not that of {source}, whose components are "
            "sourced; `spacy biomed init-config --source` writes a config with the same"
        )
    tokenizer: Any = nlp.tokenizer
    source_tokenizer: Any = other.tokenizer
    tokenizer.from_bytes(source_tokenizer.to_bytes(exclude=["vocab"]), exclude=["vocab"])
