"""The classes of registered components, found by their factories without making one."""

from __future__ import annotations

from collections.abc import Callable

from spacy.language import Language
from spacy.util import registry

from .described import Described
from .encoder_head import EncoderHead

# spaCy's own components say nothing of themselves: each reads, writes and is scored as this one of
# ours under its factory's name.
STAND_INS = {
    "ner": "biomed_ner",
    "textcat": "biomed_textcat",
    "textcat_multilabel": "biomed_textcat",
}


def find_described(factory: str) -> type[Described] | None:
    """The class of a factory's components, or of what stands in for it; None where it is not there
    or does not describe itself."""
    factory = STAND_INS.get(factory, factory)
    if not Language.has_factory(factory):
        Language()  # has spaCy load the entry points
    if not Language.has_factory(factory):
        return None
    made = _find_class(registry.factories.get(factory))
    return made if made is not None and issubclass(made, Described) else None


def find_head(factory: str) -> type[EncoderHead] | None:
    """The same of heads on an encoder; None for other components."""
    made = find_described(factory)
    return made if made is not None and issubclass(made, EncoderHead) else None


def list_heads() -> dict[str, type[EncoderHead]]:
    """The classes of all registered heads, by their factories and in the order of these."""
    Language()  # has spaCy load the entry points
    classes = {name: _find_class(make) for name, make in registry.factories.get_all().items()}
    return {
        name: made
        for name, made in sorted(classes.items())
        if made is not None and issubclass(made, EncoderHead)
    }


def list_annotation_keys() -> set[str]:
    """The keys of `doc.user_data` that belong to the layer of some head."""
    return {key for head in list_heads().values() for key in head.annotation_keys}


def _find_class(make: Callable) -> type | None:
    """What a factory's function says that it returns.

    Only that annotation is looked up: others may name what is imported for type checkers alone.
    """
    made = getattr(make, "__annotations__", {}).get("return")
    if isinstance(made, str):
        made = getattr(make, "__globals__", {}).get(made)
    return made if isinstance(made, type) else None
