"""Documents cut into what a paper trains on: sentences, or a text for each pair of mentions."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, combinations, pairwise
from operator import attrgetter

from ..annotations.marked_arguments import Argument, mark_arguments
from ..errors import BiomedError, quote
from ..formats.documents import Document, Mention, Offsets, mention_names
from ..formats.marked_relations import create_marked_document
from ..formats.repairs import note
from ..notes.sentence_starts import find_sentence_starts

# What `--pairs` is given for pairs of any types.
ALL = "all"

# What is left out, as the log of changes calls it.
BETWEEN_SENTENCES = "relations between sentences"
SHARED_WORDS = "pairs of mentions that share words"


def cut_documents(
    parts: Mapping[str, Sequence[Document]], language: str, *, sentences: bool, pairs: str
) -> dict[str, list[Document]]:
    """Cut the documents of each part into sentences, and these into pairs of mentions."""
    cut = {part: list(documents) for part, documents in parts.items()}
    if sentences:
        for part, documents in cut.items():
            cut[part] = [one for whole in documents for one in cut_sentences(whole, language)]
    if pairs:
        types = parse_pairs(pairs)
        for part, documents in cut.items():
            cut[part] = [one for sentence in documents for one in mark_pairs(sentence, types)]
        if not any(cut.values()):
            mentions = (one.mentions or () for documents in parts.values() for one in documents)
            found = sorted({mention.label for mention in chain.from_iterable(mentions)})
            raise BiomedError(
                f"--pairs {quote(pairs)}: no sentence has two mentions of these types; the corpus "
                f"has {', '.join(found) or 'none'}"
            )
    return cut


def cut_sentences(document: Document, language: str) -> list[Document]:
    """Cut a document into its sentences: those of the source, else as `find_sentence_starts` does.

    No mention is cut: the sentences that it touches are one. A relation stays where both its
    arguments are. The parts have the id of the document, "_s" and their number, from 0, and are
    `part_of` it. An annotation of the whole text, such as classes, is refused.
    """
    whole = {"classes": document.cats, "pairs": document.pair, "answers": document.answers}
    for name, value in whole.items():
        if value is not None:
            raise BiomedError(
                f"{document.source}: --sentences cuts documents of mentions, and this one has "
                f"{name}, which belong to whole texts; leave it out"
            )
    spans = _find_sentences(document, language)
    parts = [_copy_part(document, number, *span) for number, span in enumerate(spans)]
    kept = {relation for part in parts for relation in part.relations or ()}
    for relation in document.relations or ():
        if relation not in kept:
            note(BETWEEN_SENTENCES, f"{document.source}: {relation.label} in {quote(document.id)}")
            if parts:
                parts[0].changes.append(BETWEEN_SENTENCES)
    return parts


def _find_sentences(document: Document, language: str) -> Iterator[Offsets]:
    """The sentences without white space around them; no mention reaches over an end."""
    text = document.text
    starts = (
        find_sentence_starts(text, language)
        if document.sentences is None
        else [start for start, _ in document.sentences]
    )
    mentions = (*(document.mentions or ()), *document.uncertain)
    inside = {place for one in mentions for place in range(one.start + 1, one.end)}
    ends = [start for start in starts[1:] if start not in inside]
    for begin, end in pairwise([0, *ends, len(text)]):
        sentence = text[begin:end]
        if stripped := sentence.strip():
            start = begin + sentence.index(stripped)
            yield start, start + len(stripped)


def _copy_part(document: Document, number: int, start: int, end: int) -> Document:
    mentions, uncertain, relations = document.mentions, document.uncertain, document.relations
    if mentions is not None:
        mentions = [one.move(-start) for one in mentions if start <= one.start < end]
    if relations is not None:
        names = mention_names(mentions or (), document.mentions or ())
        relations = [one for one in relations if {one.head, one.tail} <= names]
    tokens = document.tokens
    if tokens is not None:
        tokens = [(a - start, b - start) for a, b in tokens if start <= a < end]
    return replace(
        document,
        id=f"{document.id}_s{number}",
        text=document.text[start:end],
        mentions=mentions,
        relations=relations,
        tokens=tokens,
        sentences=[(0, end - start)],
        uncertain=tuple(one.move(-start) for one in uncertain if start <= one.start < end),
        part_of=document.part_of or document.id,
        changes=[] if number else list(document.changes),
    )


def parse_pairs(pairs: str) -> frozenset[frozenset[str]] | None:
    """Read the types that `--pairs` names, as in `CHEMICAL+GENE`; None for all."""
    if pairs == ALL:
        return None
    types = [[one.strip() for one in pair.split("+")] for pair in pairs.split(",")]
    if any(len(pair) != 2 or not all(pair) for pair in types):
        raise BiomedError(f"--pairs {quote(pairs)}: write all, or types as in CHEMICAL+GENE")
    return frozenset(map(frozenset, types))


def mark_pairs(
    document: Document, types: Collection[frozenset[str]] | None = None
) -> Iterator[Document]:
    """Copy a sentence for each pair of its mentions, with tags such as @GENE$ in their places.

    So Peng et al. (2019, "Transfer Learning in Biomedical Natural Language Processing") prepare
    ChemProt, DDI and i2b2 2010. A pair with two relations gives two texts. A discontinuous mention
    is where its first fragment is. Two mentions that share words have one tag, if corpora have one
    for their types, and are left out otherwise. `types` are those of the two, in any order.
    """
    if document.relations is None:
        raise BiomedError(
            f"{document.source}: --pairs marks the mentions of annotated relations, and "
            f"{quote(document.id)} has none; leave it out"
        )
    mentions = sorted(document.mentions or (), key=attrgetter("start"))
    for pair in combinations(mentions, 2):
        if types is not None and frozenset(one.label for one in pair) not in types:
            continue
        names = [mention_names([mention], mentions) for mention in pair]
        labels = [
            relation.label
            for relation in document.relations
            if any({relation.head} <= a and {relation.tail} <= b for a, b in (names, names[::-1]))
        ]
        for label in dict.fromkeys(labels) or (None,):
            yield from _mark_pair(document, pair, label)


def _mark_pair(
    document: Document, pair: Sequence[Mention], label: str | None
) -> Iterator[Document]:
    id = ".".join([document.id, *(one.id for one in pair)])
    first, second = (Argument(*one.fragments[0], one.label) for one in pair)
    text = mark_arguments(document.text, first, second, "tags", (0, len(document.text)))
    marked = create_marked_document(id, text, label, document.source)
    if marked is None:
        note(SHARED_WORDS, f"{document.source}: {quote(id)}")
    else:
        marked.sentences = [(0, len(text))]
        marked.part_of = document.part_of or document.id
        yield marked
