"""Create students for distillation: layers of the teacher, or a new model of a smaller shape."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import BiomedError
from .objectives.objective import check_layers, map_layers

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_LAYER = re.compile(r"\.(?:encoder|transformer)\.layer\.(\d+)\.")


def take_layers(teacher: PreTrainedModel, layers: int | Sequence[int]) -> PreTrainedModel:
    """Copy some of the teacher's layers, its embeddings, and its head if it has one.

    The initialisation of Sanh et al. 2019, "DistilBERT", also used in "On the Effectiveness of
    Compact Biomedical Transformers", section 4.1.2.

    Args:
        teacher: a model whose layers are named as in BERT, RoBERTa or DistilBERT.
        layers: indices of the teacher's layers, from 1, or their number. A number selects every
            k-th layer including the last, the layers of the default layer map.

    Returns:
        a model of the teacher's class and width, with copied weights.

    Raises:
        BiomedError: if the teacher does not have these layers, or its layers cannot be identified.
    """
    depth = teacher.config.num_hidden_layers
    layers = _choose(layers, depth)
    weights = teacher.state_dict()
    if not any(_LAYER.search(name) for name in weights):
        raise BiomedError(
            f"teacher of type {teacher.config.model_type}: has no layers that a student could "
            "take; give the student a shape"
        )
    config = copy.deepcopy(teacher.config)
    config.num_hidden_layers = len(layers)
    student = type(teacher)(config)
    student.load_state_dict(_renumber(weights, layers))
    return student


def create_smaller(
    teacher: PreTrainedModel,
    *,
    layers: int,
    width: int,
    heads: int,
    feed_forward: int | None = None,
    seed: int = 0,
) -> PreTrainedModel:
    """Create a model of the teacher's class and vocabulary in another shape, with random weights.

    All other settings (activation, dropout, positions) are the teacher's.

    Args:
        feed_forward: inner width of the feed-forward layers; four times `width` by default.

    Raises:
        BiomedError: if the heads do not divide the width, or if the teacher's type is not supported
            because its shape has further sizes.
    """
    import torch

    if width % heads:
        raise BiomedError(f"width {width} is not a multiple of {heads} heads: change one of them")
    config = copy.deepcopy(teacher.config)
    if config.model_type not in _FEED_FORWARD:
        raise BiomedError(
            f"teacher of type {config.model_type}: only students of {', '.join(_FEED_FORWARD)} can "
            "have another shape; take layers of the teacher, or an encoder"
        )
    config.num_hidden_layers = layers
    config.hidden_size = width
    config.num_attention_heads = heads
    setattr(config, _FEED_FORWARD[config.model_type], feed_forward or 4 * width)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return type(teacher)(config)


# The setting for the inner width of feed-forward layers, for types with just these four sizes.
_FEED_FORWARD = {
    "bert": "intermediate_size",
    "roberta": "intermediate_size",
    "xlm-roberta": "intermediate_size",
    "distilbert": "hidden_dim",
}


def _choose(layers: int | Sequence[int], depth: int) -> list[int]:
    if isinstance(layers, int):
        if not 1 <= layers <= depth:
            raise BiomedError(
                f"layers = {layers}: the student takes its layers from the teacher, which has "
                f"{depth}; give 1 to {depth}"
            )
        return map_layers(layers, depth)
    if not layers:
        raise BiomedError("teacher_layers = []: name at least one layer of the teacher")
    check_layers("teacher_layers", layers, depth)
    return list(layers)


def _renumber(weights: dict, layers: list[int]) -> dict:
    """The weights of the selected layers, renumbered for the student, and all other weights."""
    taken = {}
    for name, weight in weights.items():
        match = _LAYER.search(name)
        if match is None:
            taken[name] = weight
            continue
        for place, layer in enumerate(layers):
            if int(match.group(1)) == layer - 1:
                taken[name[: match.start(1)] + str(place) + name[match.end(1) :]] = weight
    return taken
