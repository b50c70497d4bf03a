"""Pipelines of classifiers that were fine-tuned with transformers, with the same predictions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import spacy
from spacy.language import Language
from spacy.training import Example

from ..encoders.published_classifier import Layer, load_classifier
from ..errors import BiomedError, quote
from ..models.tagging import Scheme

if TYPE_CHECKING:
    from ..pipeline.encoder_head import EncoderHead
    from ..pipeline.encoder_pipe import SharedEncoder
    from ..pipeline.ner import BiomedNER

# The score of a tag that the model does not have: in fp32 its probability is 0.
ABSENT = -1e4

# What the parts of entities are called in BIO, BIOES, BILOU and BMES, and in our tag schemes.
_PARTS = {"B": "B", "I": "I", "M": "I", "E": "L", "L": "L", "S": "U", "U": "U"}
_TAG = re.compile(r"([BIMELSU])[-_](.+)")
_OUTSIDE = "O"


class Tagging(NamedTuple):
    """The classes of a token classifier as tags, each with the column of its score.

    The labels are in the order of their first tags. Tags without parts have the scheme "bio".
    """

    scheme: Scheme
    labels: list[str]
    columns: dict[str, int]


def import_model(
    name: str,
    revision: str | None = None,
    *,
    language: str = "en",
    classes: Sequence[str] | None = None,
) -> Language:
    """Make a pipeline of a token or text classifier that was fine-tuned with transformers.

    All scores are the same as in transformers. A token has the tag of its first word piece, and
    entities are put together from the tags as by transformers' pipeline (`decoding = "argmax"`).
    Texts longer than the encoder's positions are read in overlapping windows; a text classifier
    reads the first window.

    Args:
        name: a hub id, or a directory in Hugging Face layout.
        revision: commit, branch or tag on the hub.
        language: code of the pipeline's language, such as "es".
        classes: names of the model's classes, in the order of their scores, for a model whose
            config.json does not name them.

    Returns:
        a pipeline of `biomed_transformer` and `biomed_ner` or `biomed_textcat`.

    Raises:
        BiomedError: if the model cannot be imported (`encoders.published_classifier`), or if a
            token classifier's classes are not tags of entities.
    """
    config = {"nlp": {"tokenizer": {"@tokenizers": "spacy_biomed.Tokenizer.v1"}}}
    try:
        nlp = spacy.blank(language, config=config)
    except ImportError as error:
        raise BiomedError(
            f"spaCy has no language {quote(language)}: use a code such as en or es"
        ) from error
    classifier = load_classifier(name, revision)
    known = classifier.classes
    names = known if classes is None else list(classes)
    if len(names) != len(known) or len(set(names)) < len(names):
        raise BiomedError(
            f"{name}: it has {len(known)} classes ({_list(known)}): give each a name of its own in "
            "their order, such as --classes O,B-DRUG,I-DRUG"
        )
    tagging = read_tags(name, names) if classifier.hidden is None else None
    source = {"name": name, "revision": classifier.revision}
    encoder = cast("SharedEncoder", nlp.add_pipe("biomed_transformer", config={"model": source}))
    encoder.model.shims[0].set_encoder(classifier.tokenizer, classifier.encoder)
    if tagging is not None:
        settings: dict[str, object] = {"scheme": tagging.scheme, "decoding": "argmax"}
        head = _add_head(nlp, "biomed_ner", settings, tagging.labels)
        tags = cast("BiomedNER", head).classes()
        layers = {"output": _order_scores(classifier.output, tagging, tags)}
    else:
        hidden = cast(Layer, classifier.hidden)
        model = {"hidden_width": len(hidden.b), "activation": classifier.activation}
        settings = {"exclusive": classifier.is_exclusive, "model": model}
        head = _add_head(nlp, "biomed_textcat", settings, names)
        layers = {"hidden_layer": hidden, "output_layer": classifier.output}
    for reference, layer in layers.items():
        node = head.model.get_ref(reference)
        node.set_param("W", node.ops.asarray2f(layer.W))
        node.set_param("b", node.ops.asarray1f(layer.b))
    return nlp


def read_tags(name: str, classes: Sequence[str]) -> Tagging:
    """Understand the classes of a token classifier, whose name is for messages.

    They are such as O, B-DRUG and I-DRUG; or BIOES, BILOU or BMES; or labels without parts, whose
    neighbouring tokens belong to the same entity, like I-DRUG.
    """
    if _OUTSIDE not in classes:
        raise BiomedError(
            f"{name}: none of its classes is O, outside of entities ({_list(classes)}): name them "
            "in their order, such as --classes O,B-DRUG,I-DRUG"
        )
    has_parts = all(_TAG.fullmatch(written) for written in classes if written != _OUTSIDE)
    columns: dict[str, int] = {}
    for column, written in enumerate(classes):
        tag = written
        if written != _OUTSIDE:  # a label without parts is inside of an entity
            tag = f"{_PARTS[written[0]]}-{written[2:]}" if has_parts else f"I-{written}"
        if tag in columns:
            raise BiomedError(
                f"{name}: its classes {quote(classes[columns[tag]])} and {quote(written)} are the "
                "same tag: name all in their order, such as --classes O,B-DRUG,I-DRUG"
            )
        columns[tag] = column
    labels = dict.fromkeys(tag[2:] for tag in columns if tag != _OUTSIDE)
    is_bio = all(tag[0] in "OBI" for tag in columns)
    return Tagging("bio" if is_bio else "biluo", list(labels), columns)


def _list(classes: Sequence[str]) -> str:
    shown = ", ".join(map(quote, classes[:5]))
    return f"{shown}, ..." if len(classes) > 5 else shown


def _add_head(
    nlp: Language, factory: str, settings: dict[str, object], labels: list[str]
) -> EncoderHead:
    """Add a head whose weights have the sizes for the labels."""
    head = cast("EncoderHead", nlp.add_pipe(factory, config=settings))
    cats = dict.fromkeys(labels, 1.0 / max(len(labels), 2))
    example = Example.from_dict(nlp.make_doc("text"), {"cats": cats})
    nlp.config["initialize"]["components"][factory] = {"labels": labels}
    nlp.initialize(lambda: [example])
    return head


def _order_scores(output: Layer, tagging: Tagging, tags: Sequence[str]) -> Layer:
    """The layer of the scores with a row for each of our tags."""
    W = np.zeros((len(tags), output.W.shape[1]), dtype="float32")
    b = np.full(len(tags), ABSENT, dtype="float32")
    for row, tag in enumerate(tags):
        if tag in tagging.columns:
            column = tagging.columns[tag]
            W[row], b[row] = output.W[column], output.b[column]
    return Layer(W, b)
