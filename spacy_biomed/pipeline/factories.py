"""Factories of components, made from the constructors of their classes."""

from collections.abc import Callable, Iterable
from inspect import Parameter, Signature, signature
from typing import Any

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.util import SimpleFrozenDict


def register_factory(
    factory: str,
    made: type[Any],
    default_config: dict[str, object] = SimpleFrozenDict(),
    *,
    assigns: Iterable[str],
    default_score_weights: dict[str, float | None] | None = None,
) -> Callable[..., Pipe]:
    """Register a factory for a class, whose settings are the arguments of its constructor.

    So their names, types and defaults are written once. The class may also take `vocab` or `nlp`.
    `default_config` has the settings that are functions of a registry, such as the model.
    """
    parameters = signature(made, eval_str=True).parameters

    def make(nlp: Language, name: str, **settings: object) -> Pipe:
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
    make.__name__ = make.__qualname__ = f"make_{factory}"
    make.__module__ = made.__module__
    make.__doc__ = f"Create the component; see `{made.__name__}` for the settings."
    defaults = {
        key: dict(parameter.default) if isinstance(parameter.default, dict) else parameter.default
        for key, parameter in parameters.items()
        if key not in {"vocab", "nlp", "name", "model", *default_config}
    }
    return Language.factory(
        factory,
        default_config={**defaults, **default_config},
        assigns=assigns,
        default_score_weights=default_score_weights or {},
        func=make,
    )


def find_names(nlp: Language, factory: str) -> list[str]:
    """The names of a pipeline's components of a factory, in order."""
    return [name for name in nlp.pipe_names if nlp.get_pipe_meta(name).factory == factory]


def configure_head(architecture: str, scorer: str, pooling: str, **model: object) -> dict[str, Any]:
    """The default config of a head on an encoder: its model over a listener, and its scorer.

    Architecture and scorer are names in the registries, without package and version.
    """
    listener = {
        "@architectures": "spacy_biomed.EncoderListener.v1",
        "pooling": pooling,
        "grad_factor": 1.0,
        "upstream": "*",
    }
    return {
        "model": {
            "@architectures": f"spacy_biomed.{architecture}.v1",
            **model,
            "tok2vec": listener,
        },
        "scorer": {"@scorers": f"spacy_biomed.{scorer}.v1"},
    }
