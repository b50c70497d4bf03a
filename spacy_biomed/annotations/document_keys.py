"""What a `Doc` keeps about its document: keys of `doc.user_data`, and gold that fits no tokens."""

import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from spacy.tokens import Doc, Span

UNALIGNED_MENTIONS = "unaligned_mentions"
UNALIGNED_ANSWERS = "unaligned_answers"
DOCUMENT_ID = "document_id"
PART_OF = "part_of"
QUESTION_ID = "question_id"
# The key of answers in `doc.spans`.
ANSWER_KEY = "answer"
# What spaCy has as `span.kb_id_` of a mention whose concept is in no knowledge base.
NIL = "NIL"

UnalignedMention = tuple[int, int, str]

# A variant as tmVar writes it, `p|SUB|V|600|E`, is one identifier.
_VARIANT = re.compile(r"\s*[a-z]\|[A-Za-z]+\|")


def split_ids(value: str) -> list[str]:
    """The identifiers of a mention that may mean several concepts: `,`, `;` and `|` separate."""
    ids = [
        id.strip()
        for part in re.split("[;,]", value)
        for id in ([part] if _VARIANT.match(part) else part.split("|"))
    ]
    return [id for id in ids if id]


def get_user_data(doc: Doc) -> dict[Any, Any]:
    """`doc.user_data`, whose keys may be tuples, as those of spaCy's extensions are."""
    return doc.user_data


def span_key(name: str, start: int, end: int) -> tuple[str, str, int, int]:
    """A key as of spaCy's extensions, whose offsets move when a part of a document is copied."""
    return "._.", name, start, end


def declare_extension(
    name: str, getter: Callable, setter: Callable | None = None, on: type[Doc | Span] = Doc
) -> None:
    """Declare `doc._.NAME` or `span._.NAME`.

    One that a program has declared before stays, with a warning if it is a value alone.
    """
    if not on.has_extension(name):
        on.set_extension(name, getter=getter, setter=setter)
    elif on.get_extension(name)[2] is None:
        warnings.warn(
            f"{on.__name__}._.{name} was declared before, and does not show what the pipeline "
            "finds: load the pipeline first, or give the other extension another name",
            stacklevel=2,
        )


def locate_span(span: Span) -> tuple[int, int, str]:
    """The first character of a span, the one after its last, and its label."""
    return span.start_char, span.end_char, span.label_


def get_unaligned(doc: Doc, *, name: str = UNALIGNED_MENTIONS) -> list[UnalignedMention]:
    """The gold mentions (or answers) of a document that no span of tokens represents."""
    return [(start, end, label) for start, end, label in doc.user_data.get(name, ())]


def set_unaligned(
    doc: Doc, mentions: Sequence[UnalignedMention], *, name: str = UNALIGNED_MENTIONS
) -> None:
    """Set what `get_unaligned` gives."""
    doc.user_data[name] = [tuple(mention) for mention in mentions]


def question_id(doc: Doc) -> str | None:
    """The id of the question that a document asks: `doc.user_data["question_id"]`, or by its id."""
    if QUESTION_ID in doc.user_data:
        return doc.user_data[QUESTION_ID]
    id = doc.user_data.get(DOCUMENT_ID)
    return None if id is None else split_id(str(id))


def split_id(document_id: str) -> str:
    """The question's id in a document's id, to which readers append a colon and a number."""
    question, colon, _ = document_id.rpartition(":")
    return question if colon else document_id


# Both have (start character, end character, label) of what no span of tokens represents, and so is
# in no layer of the `Doc`. Evaluation counts it as missed.
for _name in (UNALIGNED_MENTIONS, UNALIGNED_ANSWERS):
    declare_extension(_name, partial(get_unaligned, name=_name), partial(set_unaligned, name=_name))
