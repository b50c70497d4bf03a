"""Pairs of texts (premise and hypothesis, question and context) as one Doc."""

import numpy as np
from spacy.attrs import IS_SPACE
from spacy.language import Language
from spacy.tokens import Doc, Span

from ..errors import BiomedError, quote

PAIR_KEY = "pair"
# ASCII's record separator: tokenizers treat it as white space, and people do not write it. With it
# a pair is recognised from the text alone, and `spacy evaluate` gives a pipeline nothing else.
PAIR_SEPARATOR = "\x1e"

Offsets = tuple[int, int]


def pair(nlp: Language, first: str, second: str) -> Doc:
    """Make the Doc of a pair of texts, which an encoder reads as one sequence of two segments.

    Returns:
        a Doc with the two texts as `doc.spans["pair"]`, for `nlp(doc)` or `nlp.pipe(docs)`.

    Raises:
        BiomedError: if a text contains the separator of pairs.

    Examples:
        >>> import spacy, spacy_biomed
        >>> nlp = spacy.blank("en")
        >>> doc = spacy_biomed.pair(nlp, "Can aspirin cause asthma?", "Is aspirin safe?")
        >>> [span.text for span in doc.spans["pair"]]
        ['Can aspirin cause asthma?', 'Is aspirin safe?']
    """
    text, _ = join_pair(first, second)
    return mark_pair(nlp.make_doc(text))


def join_pair(first: str, second: str) -> tuple[str, tuple[Offsets, Offsets]]:
    """Join a pair of texts into one; return it, and the (start, end) offsets of each text in it.

    Raises:
        BiomedError: if a text contains the separator.
    """
    for text in (first, second):
        if PAIR_SEPARATOR in text:
            raise BiomedError(
                f"{quote(text)}: a text of a pair has U+001E, which separates pairs; remove it"
            )
    joined = first + PAIR_SEPARATOR + second
    return joined, ((0, len(first)), (len(first) + 1, len(joined)))


def mark_pair(doc: Doc) -> Doc:
    """Set `doc.spans["pair"]` if the text is a pair and they are not set; return the Doc."""
    spans = get_pair(doc)
    if spans is not None and PAIR_KEY not in doc.spans:
        doc.spans[PAIR_KEY] = list(spans)
    return doc


def get_pair(doc: Doc) -> tuple[Span, Span] | None:
    """The two texts of a pair, from `doc.spans["pair"]` or the text; None if it is not a pair."""
    if len(group := doc.spans.get(PAIR_KEY, ())) == 2:  # another number is a program's own group
        return group[0], group[1]
    # The separator, with any white space next to it, is always a separate token. Searching these
    # tokens is several times faster than searching the text.
    for place in np.flatnonzero(doc.to_array(IS_SPACE)).tolist():
        if PAIR_SEPARATOR in doc[place].text:
            return doc[:place], doc[place + 1 :]
    return None
