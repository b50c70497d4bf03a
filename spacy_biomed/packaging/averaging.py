"""The mean of the weights of trained pipelines (Wortsman et al. 2022a, "Model soups")."""

import math
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from spacy.language import Language
from thinc.api import Model, PyTorchShim

from ..arrays import FloatsXd
from ..encoders.encoder_model import get_module
from ..errors import BiomedError
from ..pipeline.checksums import replacing_pipeline
from ..pipeline.encoder_head import CalibratedHead
from ..pipeline.pipeline_loading import find_trainable, load_pipeline
from ..pipeline.saved_words import write_pipeline
from ..training.updating import EXPORTED

MADE_BY = "spacy biomed average"


def average_pipelines(
    pipelines: Sequence[str], output: Path, shares: Sequence[float] = ()
) -> Language:
    """Write a pipeline whose weights are the mean of those of pipelines with the same components.

    The first pipeline gives its settings. Its scores and its calibration are dropped.

    Args:
        pipelines: directories or installed packages, in PyTorch. Where one holds its PyTorch form,
            that is taken.
        output: directory to write; replaced if it is there.
        shares: of each pipeline, with 1 as their sum; by default equal ones.

    Raises:
        BiomedError: if pipelines or shares are too few, a pipeline cannot be read or lacks finite
            weights, or components, labels, word pieces, vectors or shapes of weights differ.
            Nothing is written then.
    """
    if len(pipelines) < 2:
        raise BiomedError(f"{', '.join(pipelines)}: a mean is of two pipelines; name another one")
    shares = list(shares) or [1 / len(pipelines)] * len(pipelines)
    if len(shares) != len(pipelines) or not math.isclose(sum(shares), 1, abs_tol=1e-6):
        raise BiomedError(
            f"--share: {len(shares)} shares with {sum(shares):g} as their sum, for "
            f"{len(pipelines)} pipelines; give one for each, with 1 as their sum"
        )
    sources = list(map(find_trainable, pipelines))
    with replacing_pipeline(output, MADE_BY, sources) as partial:
        mean = _average(sources, shares)
        mean.meta["performance"] = {}
        for _, pipe in mean.components:
            if isinstance(pipe, CalibratedHead):
                pipe.forget_calibration()
        write_pipeline(mean, partial)
    return mean


def _average(sources: Sequence[str], shares: Sequence[float]) -> Language:
    """The first pipeline, with the mean of the weights of all."""
    mean = load_pipeline(sources[0])
    weights = _check_weights(sources[0], mean)
    parts = _list_parts(mean, weights)
    for weight in weights.values():
        weight *= shares[0]
    for source, share in zip(sources[1:], shares[1:], strict=True):
        nlp = load_pipeline(source)
        others = _check_weights(source, nlp)
        own = _list_parts(nlp, others)
        different = next((one for one in parts | own if parts.get(one) != own.get(one)), None)
        if different is not None:
            raise BiomedError(
                f"{source}: not as in {sources[0]}: {different}; only pipelines that were trained "
                "from the same one, with the same labels, have a mean"
            )
        for place, weight in weights.items():
            weight += share * others[place]
    return mean


def _check_weights(source: str, nlp: Language) -> dict[str, FloatsXd]:
    """The weights of a pipeline in PyTorch, by where they are; all finite, and at least one."""
    for name in nlp.pipe_names:
        if nlp.get_pipe_meta(name).factory == EXPORTED:
            raise BiomedError(
                f"{source}: {name} is in ONNX; give the pipeline that it was compressed from"
            )
    weights = dict(_list_weights(nlp))
    if not weights:
        raise BiomedError(f"{source}: has no weights; name a trained pipeline")
    for place, weight in weights.items():
        if not np.isfinite(weight).all():
            raise BiomedError(f"{source}: {place}: has weights that are not finite; train it again")
    return weights


def _list_weights(nlp: Language) -> Iterator[tuple[str, FloatsXd]]:
    """The weights of a pipeline, to be changed in place, and where they are."""
    for name, pipe in nlp.components:
        model = getattr(pipe, "model", None)
        for number, node in enumerate(model.walk() if isinstance(model, Model) else ()):
            for param in node.param_names:
                if node.has_param(param):
                    yield f"{name}: {node.name} {number}, {param}", node.get_param(param)
            for shim in node.shims:
                if isinstance(shim, PyTorchShim):
                    module = get_module(shim)
                    # Unlike those of `state_dict`, weights that layers share are there once.
                    for key, tensor in chain(module.named_parameters(), module.named_buffers()):
                        if tensor.is_floating_point():
                            yield f"{name}: {key}", tensor.detach().numpy()


def _list_parts(nlp: Language, weights: dict[str, FloatsXd]) -> dict[str, object]:
    """What pipelines whose weights have a mean share, by its name."""
    parts: dict[str, object] = {
        "the components": nlp.pipe_names,
        "the word vectors": hash(nlp.vocab.vectors.to_bytes(exclude=["strings"])),
    }
    for name, pipe in nlp.components:
        parts[f"the factory of {name}"] = nlp.get_pipe_meta(name).factory
        parts[f"the labels of {name}"] = list(getattr(pipe, "labels", ()))
        model = getattr(pipe, "model", None)
        for node in model.walk() if isinstance(model, Model) else ():
            for tokenizer in (getattr(shim, "tokenizer", None) for shim in node.shims):
                if tokenizer is not None:
                    parts[f"the word pieces of {name}"] = tokenizer.to_str()
    return parts | {place: weight.shape for place, weight in weights.items()}
