"""Classifiers that others have fine-tuned: an encoder, and the layers that classify."""

from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

import torch
import transformers
from transformers import PretrainedConfig, PreTrainedModel

from ..arrays import Floats1d, Floats2d
from ..errors import BiomedError, escape
from . import loading
from .batching.word_piece_tokenizer import WordPieceTokenizer
from .pickled import fetch_pickle, read_checkpoint

# The class that loads a model, by the end of the name that its config.json gives.
TOKENS, TEXTS = "ForTokenClassification", "ForSequenceClassification"


class Layer(NamedTuple):
    """A linear layer: W, (outputs, inputs), and b, (outputs,)."""

    W: Floats2d
    b: Floats1d


class HiddenLayer(NamedTuple):
    """The layers of a text classifier."""

    place: str  # the layer over the vector of the first position, as an attribute of the model
    activation: str  # the function after it, or the setting of config.json with its name
    output: str  # the layer of the scores, as an attribute of the model


_ROBERTA = HiddenLayer("classifier.dense", "tanh", "classifier.out_proj")
# By the model type in config.json.
_TEXT_CLASSIFIERS = {
    "bert": HiddenLayer("base_model.pooler.dense", "tanh", "classifier"),
    "deberta-v2": HiddenLayer("pooler.dense", "pooler_hidden_act", "classifier"),
    "distilbert": HiddenLayer("pre_classifier", "relu", "classifier"),
    "electra": _ROBERTA._replace(activation="gelu"),
    **dict.fromkeys(("camembert", "roberta", "xlm-roberta"), _ROBERTA),
}


@dataclass(frozen=True, slots=True)
class PublishedClassifier:
    """A classifier of tokens or texts, as transformers saves it."""

    tokenizer: WordPieceTokenizer
    encoder: PreTrainedModel  # without the layers below
    # The layer over the vector of a text's first position. None for a classifier of tokens, whose
    # scores are linear in the vectors of their word pieces.
    hidden: Layer | None
    activation: str  # the function after the hidden layer: "tanh", "relu" or "gelu"
    output: Layer
    classes: list[str]
    is_exclusive: bool  # whether exactly one class applies (softmax), or any number (sigmoid)
    revision: str | None  # its commit on the hub; None for a directory


def load_classifier(name: str, revision: str | None = None) -> PublishedClassifier:
    """Load what transformers' classes for token and sequence classification save.

    Only numbers are read from a pickle. It refuses what is not a classifier of known layers.
    """
    source, revision = loading.locate(name, revision)
    tokenizer = loading.load_tokenizer(name, revision)
    with loading.explaining(name, source, revision):
        config = loading.read_config(source, revision)
        kind = _find_kind(source, config)
        model = _read_model(kind, source, config)
    layers = _find_layers(kind, source, model)
    classes = [config.id2label.get(i) for i in range(config.num_labels)]
    if None in classes:
        raise BiomedError(
            f"{source}: its config.json does not number its classes from 0 (id2label): number them "
            "there in the order of their scores"
        )
    return PublishedClassifier(
        tokenizer=tokenizer,
        encoder=model.base_model,
        hidden=_read_layer(model, layers.place) if layers.place else None,
        activation=getattr(config, layers.activation, layers.activation),
        output=_read_layer(model, layers.output),
        classes=list(map(str, classes)),
        is_exclusive=config.problem_type != "multi_label_classification",
        revision=loading.commit_of(config),
    )


def _find_kind(source: str, config: PretrainedConfig) -> str:
    (architecture,) = (config.architectures or ["a model without `architectures`"])[:1]
    for kind in (TOKENS, TEXTS):
        if architecture.endswith(kind):
            if config.num_labels < 2:
                raise BiomedError(
                    f"{source}: it predicts a number, and only classifiers can be imported"
                )
            return kind
    raise BiomedError(
        f"{source}: by its config.json it is {escape(architecture)}, and only classifiers of "
        f"tokens (...{TOKENS}) and of texts (...{TEXTS}) can be imported; fine-tune others "
        "(`spacy biomed init-config --encoder`)"
    )


def _read_model(kind: str, source: str, config: PretrainedConfig) -> PreTrainedModel:
    loader = getattr(transformers, f"AutoModel{kind}")
    where = loading.files_of(source, loading.commit_of(config))
    if loading.has_only_pickles(source, where):
        model, missing = read_checkpoint(loader, fetch_pickle(source, where["revision"]))
    else:
        model, missing = loading.read_weights(loader, source, config, **loading.choose_attention())
    if missing:
        raise BiomedError(
            f"{source}: its weights lack {escape(missing[0])} ({len(missing)} in all); get it from "
            "its authors again"
        )
    return model


def _find_layers(kind: str, source: str, model: PreTrainedModel) -> HiddenLayer:
    """The layers after the encoder; raise BiomedError if there are others."""
    others = {name for name, _ in model.named_children()} - {model.base_model_prefix}
    if kind == TOKENS and others <= {"dropout", "classifier"}:
        return HiddenLayer("", "tanh", "classifier")
    type_ = model.config.model_type
    if kind == TEXTS and type_ in _TEXT_CLASSIFIERS:
        return _TEXT_CLASSIFIERS[type_]
    raise BiomedError(
        f"{source}: the layers of {type(model).__name__} cannot be imported; fine-tune its encoder "
        "(`spacy biomed init-config --encoder`)"
    )


def _read_layer(model: PreTrainedModel, place: str) -> Layer:
    layer = attrgetter(place)(model)
    with torch.no_grad():
        bias = torch.zeros(layer.out_features) if layer.bias is None else layer.bias
        return Layer(layer.weight.float().numpy().copy(), bias.float().numpy().copy())
