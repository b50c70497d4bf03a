"""Tags of tokens, as IOB1, IOB2 and BIOES (or BILOU) have them, and the mentions that they make."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from ..errors import BiomedError, escape, quote
from .documents import Document, Mention, Offsets

# The tags that may start a mention, by scheme.
STARTS = {"iob1": "BI", "iob2": "B", "bioes": "BS"}
# If I- begins more mentions than this, and more than a tenth of all, it is intended.
_MOST_SLIPS = 10

# BILOU uses other letters than BIOES.
_CANONICAL = {"L": "E", "U": "S"}
# Several tags in one, as nested mentions have.
_SEVERAL = re.compile(r"[|,;](?:O\b|[BIESLU]-)")


@dataclass(slots=True)
class Row:
    """One token: `file:line`, string, tag prefix ("O" outside), label ("" outside), other cells."""

    where: str
    token: str
    prefix: str = "O"
    label: str = ""
    others: tuple[str, ...] = ()


def parse_tag(where: str, token: str, tag: str) -> Row:
    """Parse a tag; raise BiomedError, at `where`, if it cannot be one."""
    if tag == "O":
        return Row(where, token)
    prefix, dash, label = (part.strip() for part in tag.partition("-"))
    prefix = _CANONICAL.get(prefix, prefix)
    if bool(dash) != bool(label) or prefix not in {"B", "I", "E", "S"} or _SEVERAL.search(tag):
        raise BiomedError(
            f"{where}: {quote(tag)} is not a tag; write O, or B-, I- (E-, S-, L-, U-) and a label"
        )
    return Row(where, token, prefix, label)


def find_scheme(sentences: list[list[Row]]) -> str:
    """Find the scheme of a file by its tags.

    Only BIOES has E- and S-. In IOB1 a B- always follows another mention of its label; any other B-
    makes the file IOB2. Some files have B- for mentions of several tokens and I- for mentions of
    one token. Reading them as IOB1 gives the intended mentions, and valid IOB2 reads the same.
    """
    if any(row.prefix in "ES" for sentence in sentences for row in sentence):
        return "bioes"
    pairs = (pairwise([Row("", ""), *sentence]) for sentence in sentences)
    changes = ((last, row) for last, row in chain.from_iterable(pairs) if row.label != last.label)
    first_tags = Counter(row.prefix for _, row in changes if row.label)
    if not first_tags["B"]:
        return "iob1" if first_tags["I"] else "iob2"
    return "iob1" if first_tags["I"] > max(_MOST_SLIPS, 0.1 * first_tags.total()) else "iob2"


def create_tagged(id: str, tokens: Sequence[str], tags: Sequence[str], where: str) -> Document:
    """Create the document of a sentence, given as tokens and their tags.

    Raises:
        BiomedError: at `where`, if a tag is unknown, has no label, or cannot follow another.
    """
    rows = [parse_tag(where, token, tag) for token, tag in zip(tokens, tags, strict=True)]
    if bare := next((row for row in rows if row.prefix != "O" and not row.label), None):
        raise BiomedError(
            f"{where}: the tag {quote(bare.prefix)} has no label; write it, as B-DRUG"
        )
    return create_document(id, [rows], find_scheme([rows]))


def create_document(id: str, sentences: list[list[Row]], scheme: str) -> Document:
    """Create a document; raise BiomedError if the scheme does not allow a tag after another."""
    tokens: list[Offsets] = []
    mentions: list[Mention] = []
    sentence_offsets: list[Offsets] = []
    start = 0
    for sentence in sentences:
        first = len(tokens)
        for row in sentence:
            tokens.append((start, start + len(row.token)))
            start += len(row.token) + 1
        for begin, stop, label in _find_mentions(sentence, scheme):
            fragment = (tokens[first + begin][0], tokens[first + stop - 1][1])
            mentions.append(Mention(label, (fragment,)))
        sentence_offsets.append((tokens[first][0], tokens[-1][1]))
    text = " ".join(row.token for sentence in sentences for row in sentence)
    source = sentences[0][0].where
    return Document(id, text, mentions, tokens=tokens, sentences=sentence_offsets, source=source)


def _find_mentions(sentence: list[Row], scheme: str) -> Iterator[tuple[int, int, str]]:
    """Yield `(first token, token after the last, label)` of a sentence's mentions."""
    start, label = 0, ""
    end = Row(sentence[-1].where, "")
    for place, row in enumerate([*sentence, end]):
        goes_on = bool(label) and row.prefix in "IE" and row.label == label
        if label and not goes_on:
            if scheme == "bioes":
                problem = (
                    f"the sentence ends inside a mention of {quote(label)}"
                    if row is end
                    else f"the mention of {quote(label)} before this line has no end"
                )
                raise BiomedError(
                    f"{row.where}: {problem}; tag its last token E-{escape(label)}, or "
                    f"S-{escape(label)} where it is the only one"
                )
            yield start, place, label
            label = ""
        if row.prefix == "O":
            continue
        if not goes_on:
            if row.prefix not in STARTS[scheme]:
                raise BiomedError(
                    f"{row.where}: {row.prefix}-{escape(row.label)} does not follow a token "
                    f"of the same mention; a mention of {quote(row.label)} starts with "
                    f"B-{escape(row.label)} in {scheme.upper()}, or with I- in IOB1 (--format iob1)"
                )
            start, label = place, row.label
        if scheme == "bioes" and row.prefix in "ES":
            yield start, place + 1, label
            label = ""
