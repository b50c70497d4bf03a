"""What a text says of a mention: `span._.is_negated` and four more."""

from collections.abc import Iterator, Mapping
from functools import partial

from spacy.tokens import Doc, Span

from .document_keys import declare_extension, get_user_data, span_key

ASSERTIONS = ("is_negated", "is_uncertain", "is_historical", "is_hypothetical", "is_family")
PROBABILITIES = "assertion_probabilities"
# The name of what is stored, in keys of `doc.user_data` such as ("._.", "assertions", 0, 7).
ASSERTIONS_KEY = "assertions"
THRESHOLD = 0.5


def install_assertions() -> None:
    """Declare `span._.is_negated`, `is_uncertain`, `is_historical`, `is_hypothetical`, `is_family`.

    Each is True or False; None where nobody looked. `span._.assertion_probabilities` has the
    probability of each by its name. They belong to a place of the text, whatever the label.
    """
    for name in ASSERTIONS:
        declare_extension(name, partial(_get, name), partial(_set, name), on=Span)
    declare_extension(PROBABILITIES, get_probabilities, on=Span)


def _get(name: str, span: Span) -> bool | None:
    return get_assertions(span).get(name)


def _set(name: str, span: Span, value: bool) -> None:
    set_assertions(span, {**get_probabilities(span), name: float(value)})


def get_assertions(span: Span) -> dict[str, bool]:
    """The assertions of a span by name, without those that nobody looked for."""
    return {name: value >= THRESHOLD for name, value in get_probabilities(span).items()}


def get_probabilities(span: Span) -> dict[str, float]:
    """`span._.assertion_probabilities`: 0 to 1 by name; empty where nobody looked."""
    return dict(get_user_data(span.doc).get(_key(span.start_char, span.end_char), ()))


def set_assertions(span: Span, probabilities: dict[str, float]) -> None:
    """Set the assertions of a span, which `Span.as_doc` and `Doc.to_disk` keep.

    Args:
        probabilities: 0 to 1 by name; a name that is left out is not annotated. It is not copied.
    """
    get_user_data(span.doc)[_key(span.start_char, span.end_char)] = probabilities


def list_assertions(doc: Doc) -> Iterator[tuple[int, int, Mapping[str, float]]]:
    """The places that have assertions, in characters, the ends exclusive, and each by its name."""
    for key, stored in get_user_data(doc).items():
        if isinstance(key, tuple) and key[:2] == ("._.", ASSERTIONS_KEY) and stored:
            yield key[2], key[3], stored


def copy_assertions(source: Doc, target: Doc) -> bool:
    """Copy the assertions of a document to another with the same text; say whether there are any.

    What is already said of a mention in the target stays.
    """
    found = list(list_assertions(source))
    data = get_user_data(target)
    for start, end, stored in found:
        data[_key(start, end)] = {**stored, **data.get(_key(start, end), {})}
    return bool(found)


def describe_assertions(span: Span) -> str:
    """What the text says of a span, as in "negated, family"; "" for nothing."""
    found = get_assertions(span)
    return ", ".join(name.removeprefix("is_") for name in ASSERTIONS if found.get(name))


def mark_assertions(doc: Doc) -> dict[str, object]:
    """The entities of a document for displaCy, with labels such as "DISEASE (negated)".

    Use it as `displacy.render(mark_assertions(doc), style="ent", manual=True)`.
    """
    ents = []
    for span in doc.ents:
        said = describe_assertions(span)
        label = f"{span.label_} ({said})" if said else span.label_
        ents.append({"start": span.start_char, "end": span.end_char, "label": label})
    return {"text": doc.text, "ents": ents, "title": None}


_key = partial(span_key, ASSERTIONS_KEY)
