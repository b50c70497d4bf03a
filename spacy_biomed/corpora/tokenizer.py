"""The tokenizer: words and single signs, so that mentions start and end at token boundaries."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from spacy.attrs import NORM, ORTH, SPACY
from spacy.language import Language
from spacy.tokenizer import Tokenizer
from spacy.tokens import Doc

from ..normalization import INVISIBLE, MARKS

# A word character is a letter, a digit, a mark that combines with the letter before it, or a
# character that cannot be seen. Any other character except white space is a sign.
_MARKS = MARKS + INVISIBLE
_SIGN = rf"[^\w{_MARKS}]|_"
# A sign between words. Points and commas between digits belong to their number: 0.05, 1,25.
_INFIX = rf"(?<!\d)[.,]|[.,](?!\d)|[^\w{_MARKS}.,]|_"
# A tumour's grade and its stage, which reports write without a space: G3pT2N0M0.
_GRADE_END = r"(?<=\bG[1-4])(?=[acpruy]{0,2}T[0-4Xi])"
_EMAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+\Z"
# Long runs of characters without a change to or from white space; and where they may be cut.
_LONG_RUN = re.compile(r"(?<!\S)\S{256,}|(?<!\s)\s{256,}")
_PIECE = 128
_CUT = re.compile(rf"(?<=[^\w{_MARKS}]|_)(?!\d)")
# What a language writes with an apostrophe: the English genitive, the French elision.
_SUFFIXES = {"en": r"(?<=[^\W\d_])['’][sS]"}
_PREFIXES = {"fr": r"(?:[cdjlmnstCDJLMNST]|(?:[Jj]us|[Ll]ors|[Pp]uis|[Qq]uoi)?[Qq]u)['’](?=\w)"}


class LinearTokenizer(Tokenizer):
    """spaCy's tokenizer, in time linear in the length of the text.

    spaCy removes signs from the ends of a run of characters one by one, and reads all remaining
    characters each time. Runs of over 256 characters without a change to or from white space are
    therefore cut after signs into pieces of half that length, which are tokenized separately. Every
    other text is tokenized by spaCy.
    """

    def __call__(self, string: str) -> Doc:
        """Tokenize a text of up to 2**30 characters."""
        if _LONG_RUN.search(string) is None:
            return super().__call__(string)
        parts = []
        for part, has_space in _split_runs(string):
            doc = super().__call__(part)
            array = doc.to_array([ORTH, SPACY, NORM])
            array[-1, 1] |= has_space
            parts.append(array)
        # Words are given by ids, which spaCy's types do not include.
        joined: Any = np.concatenate(parts)
        doc = Doc(self.vocab, words=joined[:, 0], spaces=joined[:, 1].astype(bool))
        return doc.from_array([NORM], joined[:, 2:])


def _split_runs(text: str) -> Iterator[tuple[str, bool]]:
    """Split a text into long runs, cut into pieces after signs, and the parts between them.

    The second of each pair is whether the space that follows the part belongs to its last token.
    """
    place = 0
    for run in _LONG_RUN.finditer(text):
        start, end = run.span()
        # A space after a word is not a token; it belongs to the word.
        is_space = start > 0 and text[start] == " "
        if place < start:
            yield text[place:start], is_space
        start += is_space
        while (cut := _CUT.search(text, start + _PIECE, end)) and cut.start() < end:
            yield text[start : cut.start()], False
            start = cut.start()
        has_space = text[end : end + 1] == " " and not text[start].isspace()
        yield text[start:end], has_space
        place = end + has_space
    if place < len(text):
        yield text[place:], False


def create_tokenizer() -> Callable[[Language], Tokenizer]:
    """Create the factory registered as `spacy_biomed.Tokenizer.v1`, for any language.

    A token is a run of letters and digits, a decimal number, an e-mail address, or one sign:
    `IL-2/p53` becomes `IL`, `-`, `2`, `/`, `p53`. Letters and digits are not separated, except
    after a tumour's grade (`G3`, `pT2N0M0`): fewer than one mention in a thousand of jnlpba,
    cantemist and meddocan starts or ends inside such a run.

    The language's exceptions for words with an apostrophe (`don't`) and for abbreviations with
    several points (`e.g.`, `p.ej.`) are kept. So are the English genitive (`Crohn`, `'s`) and the
    French elision (`l'`, `apnée`). A single point is a token, because mentions end before it.

    The tokenizer works as spaCy's does, except for runs of hundreds of characters
    (`LinearTokenizer`), and is saved with the pipeline.
    """

    def make_tokenizer(nlp: Language) -> Tokenizer:
        rules = nlp.Defaults.tokenizer_exceptions
        prefix = "|".join(filter(None, (_PREFIXES.get(nlp.lang or ""), _SIGN)))
        suffix = "|".join(filter(None, (_SUFFIXES.get(nlp.lang or ""), _SIGN)))
        return LinearTokenizer(
            nlp.vocab,
            rules={word: rules[word] for word in rules if _is_kept(word, rules[word])},
            prefix_search=re.compile(rf"^(?:{prefix})").search,
            suffix_search=re.compile(rf"(?:{suffix})$").search,
            infix_finditer=re.compile(f"{_INFIX}|{_GRADE_END}").finditer,
            token_match=re.compile(_EMAIL).match,
        )

    return make_tokenizer


def _is_kept(word: str, tokens: list[dict[int, str]]) -> bool:
    """Whether an exception has an apostrophe or is an abbreviation with several points."""
    if not any(character.isalpha() for character in word) or any(map(str.isdigit, word)):
        return False
    if "'" in word or "’" in word:
        return True
    return len(tokens) == 1 and re.fullmatch(r"(?:[^\W\d_]+\.){2,}", word) is not None
