"""How well a pipeline works on text as people type it: in capitals, without accents, ..."""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc

from ..annotations.document_keys import get_unaligned, locate_span
from ..errors import BiomedError
from ..formats.spelling import fold_case
from ..pipeline.deidentification_scores import DeidentificationScores
from ..pipeline.deidentify import BiomedDeidentifier
from ..pipeline.mention_layer import GoldLayer, list_finders
from ..pipeline.ner import BiomedNER
from ..training.typed_text import remove_accents, upper_case, wrap_lines

# What each character of a text becomes: nothing, or any number of characters.
Change = Callable[[str], Sequence[str]]


def _insert(inserted: str, every: int) -> Change:
    """Insert something between the letters of words, before each letter that a number divides."""

    def change(text: str) -> list[str]:
        return [
            inserted + c if i and i % every == 0 and c.isalpha() and text[i - 1].isalpha() else c
            for i, c in enumerate(text)
        ]

    return change


def _replace(old: str, new: str, every: int = 1) -> Change:
    return lambda text: [new if c == old and i % every == 0 else c for i, c in enumerate(text)]


CHANGES: dict[str, Change] = {
    "as it is": list,
    "in capitals": upper_case,
    "in lower case": fold_case,
    "without accents": remove_accents,
    "in capitals, without accents": lambda text: upper_case(remove_accents(text)),
    "decomposed accents": lambda text: [unicodedata.normalize("NFD", c) for c in text],
    "U+2010 for hyphens": _replace("-", "\u2010"),
    "no-break spaces": _replace(" ", "\u00a0", every=3),
    "two spaces": _replace(" ", "  "),
    "tabs": _replace(" ", "\t"),
    "soft hyphens": _insert("\u00ad", every=4),
    "zero-width spaces": _insert("\u200b", every=4),
    "lines of 60": lambda text: wrap_lines(text, 60),
}


@dataclass(frozen=True, slots=True)
class Robustness:
    """The scores of a pipeline on a corpus whose texts are changed in one way, a key of `CHANGES`.

    They are of the exact match of entities. If the pipeline de-identifies, precision is the share
    of its replacements that touch a gold mention. Recall is the share of gold mentions that it
    wholly replaces, and `clean` the share of documents without a readable gold mention.
    """

    change: str
    precision: float
    recall: float
    f1: float
    clean: float | None = None


def measure_robustness(
    nlp: Language,
    references: Iterable[Doc],
    changes: Sequence[str] = tuple(CHANGES),
    progress: Callable[[str], None] = lambda change: None,
) -> list[Robustness]:
    """Score a pipeline on changed texts of documents with gold mentions in `doc.ents`."""
    references = [doc for doc in references if doc.has_annotation("ENT_IOB")]
    if not references:
        raise BiomedError("no document of the corpus has annotated entities to score against")
    pipes = [pipe for _, pipe in nlp.pipeline]
    deidentifier = next((pipe for pipe in pipes if isinstance(pipe, BiomedDeidentifier)), None)
    has_ner = any(isinstance(pipe, BiomedNER) for pipe in pipes)
    if deidentifier is None and not (has_ner and list_finders(nlp, None, None).names):
        raise BiomedError(
            "the pipeline has neither biomed_ner nor biomed_deidentify to score: one that writes "
            "to doc.ents, where the corpus has its mentions"
        )
    results = []
    for change in changes:
        progress(change)
        pairs = _annotate(nlp, references, CHANGES[change])
        if deidentifier is None:
            results.append(_score_entities(change, pairs))
        else:
            results.append(_score_replacements(change, pairs, deidentifier))
    return results


def _annotate(
    nlp: Language, references: Sequence[Doc], change: Change
) -> Iterator[tuple[Doc, list[int], Doc]]:
    """Each reference, where each of its characters begins in the changed text, and that text."""
    changed = [change(doc.text) for doc in references]
    docs = nlp.pipe("".join(parts) for parts in changed)
    for reference, parts, doc in zip(references, changed, docs, strict=True):
        yield reference, [*accumulate(map(len, parts), initial=0)], doc


def _score_entities(change: str, pairs: Iterable[tuple[Doc, list[int], Doc]]) -> Robustness:
    score = PRFScore()
    for reference, places, doc in pairs:
        layer = GoldLayer.read(reference, None)
        assert layer is not None  # has_annotation, above
        # Back to the original text, in which the layer says what is annotated.
        original = {place: i for i, place in enumerate(places)}
        found = {
            (original.get(e.start_char, -1), original.get(e.end_char, -1), e.label_)
            for e in doc.ents
        }
        judged = [layer.judge(*one) for one in found]
        score.tp += judged.count(True)
        score.fp += judged.count(False)
        score.fn += len(layer.mentions - found) + len(get_unaligned(reference))
    return Robustness(change, score.precision, score.recall, score.fscore)


def _score_replacements(
    change: str, pairs: Iterable[tuple[Doc, list[int], Doc]], deidentifier: BiomedDeidentifier
) -> Robustness:
    counts = DeidentificationScores()
    for reference, places, doc in pairs:
        gold = {*map(locate_span, reference.ents), *get_unaligned(reference)}
        moved = [
            (places[start], places[end], label)
            for start, end, label in gold
            if deidentifier.kind(label) != "keep"
        ]
        deidentified = doc._.deidentified
        if deidentified is None:
            raise BiomedError(
                f"a text {change} was not de-identified: what is before {deidentifier.name} has to "
                "set its mentions, also where it finds none"
            )
        counts.add(doc.text, moved, deidentified.replacements)
    scores = counts.scores()
    names = ("deid_p", "deid_r", "deid_f", "deid_clean_documents")
    return Robustness(change, *(scores[name] for name in names))
