"""The classes of registered components, found by factory name without creating a component."""

from collections.abc import Callable

from spacy.language import Language
from spacy.util import registry

from .described import Described
from .encoder_head import EncoderHead

# spaCy's components do not describe themselves. Each reads, writes and is scored like the
# component of this package with this factory name.
STAND_INS = {
    "ner": "biomed_ner",
    "textcat": "biomed_textcat",
    "textcat_multilabel": "biomed_textcat",
}


def find_described(factory: str) -> type[Described] | None:
    """The class of a factory's components or of its stand-in; None if it is not a `Described`."""
    factory = STAND_INS.get(factory, factory)
    if not Language.has_factory(factory):
        Language()  # makes spaCy load the entry points
    if not Language.has_factory(factory):
        return None
    made = _find_class(registry.factories.get(factory))
    return made if made is not None and issubclass(made, Described) else None


def find_head(factory: str) -> type[EncoderHead] | None:
    """Like `find_described`, but only for heads on an encoder; None for other components."""
    made = find_described(factory)
    return made if made is not None and issubclass(made, EncoderHead) else None


def list_heads() -> dict[str, type[EncoderHead]]:
    """The classes of all registered heads by factory name, sorted by this name."""
    Language()  # makes spaCy load the entry points
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
    """The class in the return annotation of a factory function; None if it is not a class."""
    # Other annotations may refer to names imported only for type checking.
    made = getattr(make, "__annotations__", {}).get("return")
    if isinstance(made, str):
        made = getattr(make, "__globals__", {}).get(made)
    return made if isinstance(made, type) else None
