"""Factories of components, made from the constructors of their classes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature, signature
from typing import Any

from spacy.language import Language
from spacy.pipeline import Pipe
from thinc.api import Config


def register_factory(
    made: type[Any],
    default_config: str,
    *,
    assigns: Iterable[str],
    default_score_weights: dict[str, float | None] | None = None,
) -> Callable[..., Pipe]:
    """Register the factory of a class, whose settings are the arguments of the class.

    Settings and their types are so declared only once. As usual, all settings need a default, or
    have to be in the config.

    Args:
        made: its arguments are `name`, the settings, and the pipeline's `vocab` or the pipeline
            itself, `nlp`.
        default_config: a config with the defaults in a section that is named after the factory.
        assigns, default_score_weights: as in spaCy's `Language.factory`.

    Returns:
        the factory, a function of `nlp`, `name` and the settings.
    """
    parameters = signature(made, eval_str=True).parameters

    def make(nlp: Language, name: str, **settings: Any) -> Pipe:
        given = {"vocab": nlp.vocab, "nlp": nlp}
        needed = {key: given[key] for key in given if key in parameters}
        return made(name=name, **needed, **settings)

    # By their types spaCy checks a config.
    types = {key: parameter.annotation for key, parameter in parameters.items() if key != "vocab"}
    arguments = [
        Parameter(key, Parameter.KEYWORD_ONLY, annotation=kind)
        for key, kind in {**types, "nlp": Language}.items()
    ]
    make.__signature__ = Signature(arguments)  # type: ignore[attr-defined]
    make.__annotations__ = {"return": made}
    ((factory, defaults),) = Config().from_str(default_config).items()
    make.__name__ = make.__qualname__ = f"make_{factory}"
    make.__module__ = made.__module__
    make.__doc__ = f"Create the component; see `{made.__name__}` for the settings."
    return Language.factory(
        factory,
        default_config=defaults,
        assigns=assigns,
        default_score_weights=default_score_weights or {},
        func=make,
    )
