"""`spacy_biomed.typed_text.v1`: training texts as people type them, as an augmenter of spaCy."""

import random
import re
import unicodedata
from collections.abc import Callable, Iterator

from spacy import attrs
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..annotations.pairs import PAIR_KEY
from ..errors import BiomedError
from ..formats.spelling import fold_case

# Columns at which a text is wrapped: between those of a letter in a mail and of a narrow form.
_WIDTHS = (40, 90)
_CAPITALISED = re.compile(r"(?<!\w)[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]+(?!\w)")
# What tokens say, besides their words. HEAD tells where sentences start, if there are heads.
_PARSED = [attrs.DEP, attrs.HEAD]
_ANNOTATED = [
    *(attrs.ENT_IOB, attrs.ENT_TYPE, attrs.ENT_KB_ID, attrs.ENT_ID),
    *(attrs.TAG, attrs.POS, attrs.MORPH, attrs.LEMMA),
]


def typed_text_v1(
    capitals: float = 0.1,
    lower: float = 0.2,
    names: float = 0.1,
    no_accents: float = 0.2,
    wrapped: float = 0.1,
) -> Callable[[Language, Example], Iterator[Example]]:
    """Create an augmenter that changes how the texts of a share of the examples are typed.

    Each example is given once, changed or not. No change moves an offset: the gold annotation
    stays as it is. Pairs of texts are not changed.

    Args:
        capitals, lower: shares of the examples whose whole text is in capitals, or in small
            letters.
        names: share of the other examples in which each capitalised word is in capitals with a
            probability of one half.
        no_accents: share of all examples whose letters have no accents.
        wrapped: share of all examples whose lines end at a column between 40 and 90.

    Raises:
        BiomedError: if a share is not from 0 to 1, or `capitals` and `lower` are more together.
    """
    shares = {"capitals": capitals, "lower": lower, "capitals + lower": capitals + lower}
    shares |= {"names": names, "no_accents": no_accents, "wrapped": wrapped}
    for name, share in shares.items():
        if not 0 <= share <= 1:
            raise BiomedError(f"[corpora.train.augmenter] {name} is {share}: use 0 to 1")

    def augment(nlp: Language, example: Example) -> Iterator[Example]:
        if PAIR_KEY in example.reference.spans or example.reference.has_unknown_spaces:
            yield example
            return
        text = old = example.predicted.text
        choice = random.random()
        if choice < capitals:
            text = upper_case(text)
        elif choice < capitals + lower:
            text = fold_case(text)
        elif random.random() < names:
            text = _CAPITALISED.sub(_maybe_upper, text)
        if random.random() < wrapped:
            text = wrap_lines(text, random.randint(*_WIDTHS))
        reference = example.reference
        if random.random() < no_accents:
            text = remove_accents(text)
            reference = _respell(reference, remove_accents(reference.text))
        yield example if text == old else Example(nlp.make_doc(text), reference)

    return augment


def _respell(doc: Doc, text: str) -> Doc:
    """A copy of a document with all annotation, but with the letters of a text of its length.

    spaCy aligns a predicted document only with a reference of the same letters.
    """
    words = [text[token.idx : token.idx + len(token)] for token in doc]
    copied = Doc(doc.vocab, words=words, spaces=[bool(token.whitespace_) for token in doc])
    attributes = _ANNOTATED + (_PARSED if doc.has_annotation("DEP") else [attrs.SENT_START])
    copied.from_array(attributes, doc.to_array(attributes))
    for key, group in doc.spans.items():
        copied.spans[key] = group.copy(doc=copied)
    copied.cats = dict(doc.cats)
    copied.user_data = doc.user_data
    return copied


def upper_case(text: str) -> str:
    """A text in capitals, of the same length: a letter such as µ or ß stays small."""
    upper = text.upper()
    if upper.lower() == text.lower():
        return upper
    return "".join(c.upper() if c.upper().lower() == c.lower() else c for c in text)


def remove_accents(text: str) -> str:
    """A text whose letters have no accents, of the same length."""
    if text.isascii():
        return text
    return "".join(unicodedata.normalize("NFD", c)[0] if c.isalpha() else c for c in text)


def wrap_lines(text: str, width: int) -> str:
    """A text with line ends in place of spaces, so that lines have at most `width` characters.

    A longer word is a line of its own.
    """
    # Where a line goes on for more than `width` characters: as many words as fit, or a longer one,
    # and the space after them.
    return re.sub(rf"(?<![^ \n])(?=.{{{width + 1}}})(.{{1,{width}}}|.+?) ", r"\1\n", text)


def _maybe_upper(word: re.Match[str]) -> str:
    return upper_case(word[0]) if random.random() < 0.5 else word[0]
