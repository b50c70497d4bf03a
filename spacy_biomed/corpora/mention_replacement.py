"""More training text from the same annotations: mentions replaced by other terms of the label."""

import random
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import chain, pairwise
from operator import attrgetter
from pathlib import Path

from ..annotations.assertions import ASSERTIONS
from ..annotations.deidentified import Deidentified
from ..errors import BiomedError, escape, quote
from ..formats.documents import Document, Mention, Offsets, read_lines

REPLACEMENT_PROBABILITY = 0.75

_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")
_BEFORE_SENTENCE = re.compile(r"(?:^|[.!?][\"')\]]*\s+|\n\s*)$")
_PLAIN_WORD = re.compile(r"[^\W\d_]{2,}(?:-[^\W\d_]+)*(?=\W|$)")
# An abbreviation in capitals is not a heading; a heading has a word of this many letters.
_LONG_WORD = 7


def replace_mentions(
    documents: Iterable[Document], terms_dir: Path | str | None, copies: int, seed: int
) -> list[Document]:
    """Add copies of every document in which other terms replace its mentions.

    A mention is replaced with probability 0.75 by a different term. Mentions of one label that
    differ only in case get the same term within a copy. The new term takes over a capital that only
    begins a sentence, and the capitals of a heading. Offsets, tokens and sentences follow the new
    text: a new term is split into words and signs, and tokens or sentences become None if one of
    them has a boundary inside a replaced mention. Classes, relations and assertions stay;
    identifiers of replaced mentions do not.

    Documents with a discontinuous mention, with overlapping mentions or without mentions, and pairs
    of texts, get no copies. Agreement in gender and number, and English articles, are not
    corrected.

    Args:
        documents: the training part.
        terms_dir: folder of term lists, `LABEL.txt` for a label, with one term per line; lines that
            start with `#` and empty lines are ignored. A label without a list takes its terms from
            the mentions of that label in `documents`; if None, every label does.
        copies: number of copies of each document, with the ids `ID#1`, `ID#2` and so on.
        seed: of the choices. They depend only on the seed, the document's id and the number of the
            copy, not on the order of the documents.

    Returns:
        each document, followed by its copies.

    Raises:
        BiomedError: if the number of copies is negative. If the folder does not exist, or has no
            list for any label. If a list is empty, or has a line that is not a term.
    """
    if copies < 0:
        raise BiomedError(f"copies is {copies}: give 0 or more")
    documents = list(documents)
    pools = _collect_terms(documents, None if terms_dir is None else Path(terms_dir))
    result = []
    for document in documents:
        result.append(document)
        if _is_replaceable(document):
            result.extend(_copy(document, pools, number + 1, seed) for number in range(copies))
    return result


def original_id(document_id: str) -> str:
    """The id of the document that a copy was made of; of any other document, its own."""
    return re.sub(r"#\d+$", "", document_id)


def read_terms(path: Path) -> list[str]:
    """Read a term list: the terms in the file's order, each once, without spaces around them.

    Raises:
        BiomedError: if the list has no term, or a line (which the message names) has a tab or
            another control character.
    """
    terms: dict[str, None] = {}
    for number, line in enumerate(read_lines(path, may_be_empty=True), start=1):
        term = line.strip(" ")
        if not term or term.startswith("#"):
            continue
        if not term.isprintable():
            raise BiomedError(
                f"{path}:{number}: {quote(term)} holds a tab or control character; write one term "
                f"a line"
            )
        terms[term] = None
    if not terms:
        raise BiomedError(f"{path}: the list has no term; write one a line, or delete the file")
    return list(terms)


def _is_replaceable(document: Document) -> bool:
    if not document.mentions or document.pair is not None:
        return False
    mentions = sorted((*document.mentions, *document.uncertain), key=attrgetter("start"))
    overlaps = any(following.start < one.end for one, following in pairwise(mentions))
    return not overlaps and not any(mention.is_discontinuous for mention in mentions)


def _collect_terms(documents: Sequence[Document], folder: Path | None) -> dict[str, list[str]]:
    """Map each label to its terms: those of its list, or its mentions, sorted."""
    pools = {label: sorted(terms) for label, terms in _collect_mentions(documents).items()}
    if folder is None:
        return pools
    if not folder.is_dir():
        raise BiomedError(f"{folder}: no such folder of term lists; make it, or leave it out")
    # A label is used as a file name only if the file is in the folder.
    lists = {label: folder / f"{label}.txt" for label in pools if Path(label).name == label}
    lists = {label: file for label, file in lists.items() if file.exists()}
    if pools and not lists:
        raise BiomedError(
            f"{folder}: no list of terms for a label of the corpus; name the lists LABEL.txt after "
            f"its labels ({escape(', '.join(sorted(pools)), 200)})"
        )
    return pools | {label: read_terms(file) for label, file in lists.items()}


def _collect_mentions(documents: Sequence[Document]) -> dict[str, set[str]]:
    """Map each label to the surface forms of its mentions.

    Forms with capitals due to their position are left out, unless a label has only such forms.
    """
    everywhere: dict[str, set[str]] = defaultdict(set)
    as_spelled: dict[str, set[str]] = defaultdict(set)
    for document in documents:
        for mention in document.mentions or []:
            if mention.is_discontinuous:
                continue
            surface = " ".join(document.text[mention.start : mention.end].split())
            everywhere[mention.label].add(surface)
            if not (_begins_sentence(document, mention) or _is_in_capitals(document, mention)):
                as_spelled[mention.label].add(surface)
    return {label: as_spelled.get(label) or forms for label, forms in everywhere.items()}


def _copy(document: Document, pools: dict[str, list[str]], number: int, seed: int) -> Document:
    generator = random.Random(f"{seed} {document.id} {number}")
    # The new term of each form of a label; None if the form stays. Two forms get the same term only
    # if the label has too few terms.
    choices: dict[tuple[str, str], str | None] = {}
    replaced = []
    for mention in sorted(document.mentions or [], key=attrgetter("start")):
        form = " ".join(mention.read(document.text).split()).casefold()
        key = mention.label, form
        if key not in choices:
            is_replaced = generator.random() < REPLACEMENT_PROBABILITY
            terms, used = pools[mention.label], set(choices.values())
            choices[key] = _draw(terms, form, used, generator) if is_replaced else None
        if (term := choices[key]) is not None:
            term = _match_case(term, document, mention)
            replaced.append((mention.start, mention.end, mention.label, term))
    edit = Deidentified(document.text, replaced)
    starts = {start for start, *_ in replaced}
    return replace(
        document,
        id=f"{document.id}#{number}",
        text=edit.text,
        mentions=[_move(one, edit, one.start in starts) for one in document.mentions or []],
        uncertain=tuple(_move(region, edit) for region in document.uncertain),
        tokens=_move_tokens(document.tokens, edit),
        sentences=_move_sentences(document.sentences, edit),
    )


def _draw(
    terms: list[str], surface: str, used: Collection[str | None], generator: random.Random
) -> str | None:
    """Draw a term that is not the surface form and is unused, as far as there is one."""
    # Nearly every draw succeeds, so long lists need not be searched.
    for _ in range(10):
        term = generator.choice(terms)
        if term not in used and term.casefold() != surface:
            return term
    others = [term for term in terms if term.casefold() != surface]
    unused = [term for term in others if term not in used]
    return generator.choice(unused or others) if others else None


def _begins_sentence(document: Document, mention: Mention) -> bool:
    if document.sentences is not None:
        index = bisect_left(document.sentences, (mention.start,))
        return [start for start, _ in document.sentences[index : index + 1]] == [mention.start]
    first = max(0, mention.start - 20)
    return _BEFORE_SENTENCE.search(document.text, first, mention.start) is not None


def _is_in_capitals(document: Document, mention: Mention) -> bool:
    """Whether a mention is in capitals because it is in a heading, and not an abbreviation."""
    text = document.text
    surface = text[mention.start : mention.end]
    if not surface.isupper():
        return False
    words = re.findall(r"[^\W\d_]+", surface)
    if sum(len(word) > 2 for word in words) > 1 or max(map(len, words), default=0) >= _LONG_WORD:
        return True
    line_start = text.rfind("\n", 0, mention.start) + 1
    line_end = text.find("\n", mention.end)
    line = text[line_start : line_end if line_end >= 0 else len(text)]
    return line.isupper() and len(line.split()) > len(surface.split())


def _match_case(term: str, document: Document, mention: Mention) -> str:
    if _is_in_capitals(document, mention):
        return term.upper()
    first_word = _PLAIN_WORD.match(term)
    # 'mTOR' and 'p53' keep their lower-case letter at the start of a sentence.
    is_plain = first_word is not None and first_word[0].islower()
    starts_upper = document.text[mention.start : mention.end][:1].isupper()
    if is_plain and starts_upper and _begins_sentence(document, mention):
        return term[0].upper() + term[1:]
    return term


def _move(mention: Mention, edit: Deidentified, is_replaced: bool = False) -> Mention:
    """Move a mention; of a new term, the old identifiers have other names, for relations alone."""
    attributes = {
        f"replaced {name}" if is_replaced and name not in ASSERTIONS else name: value
        for name, value in mention.attributes.items()
    }
    fragments = (edit.span_to_new(mention.start, mention.end),)
    return replace(mention, attributes=attributes, fragments=fragments)


def _move_sentences(sentences: list[Offsets] | None, edit: Deidentified) -> list[Offsets] | None:
    """Map sentences to the new text; None if a boundary lies inside a replaced mention."""
    inside = {place for one in edit.replacements for place in range(one.start + 1, one.end)}
    if sentences is None or not inside.isdisjoint(chain.from_iterable(sentences)):
        return None
    return [edit.span_to_new(*sentence) for sentence in sentences]


def _move_tokens(tokens: list[Offsets] | None, edit: Deidentified) -> list[Offsets] | None:
    """Map tokens to the new text, with the tokens of new terms; None if a token straddles."""
    if tokens is None:
        return None
    # The replacement of each replaced character.
    holders = {place: one for one in edit.replacements for place in range(one.start, one.end)}
    moved, cut = [], set()
    for start, end in tokens:
        holder, *others = {holders.get(place) for place in range(start, end)}
        if others:
            return None
        if holder is None:
            moved.append(edit.span_to_new(start, end))
        else:
            cut.add(holder)
    for term in cut:
        words = _WORD_OR_SIGN.finditer(term.text)
        moved += [(term.new_start + word.start(), term.new_start + word.end()) for word in words]
    return sorted(moved)
