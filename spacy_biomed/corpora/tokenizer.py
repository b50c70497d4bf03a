"""The tokenizer: words and single signs, so that annotated mentions start and end on tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

from spacy.language import Language
from spacy.tokenizer import Tokenizer

# A word character is a letter, a digit or a mark that combines with the letter before it. What is
# neither that nor white space is a sign.
_MARKS = "\u0300-\u036f"
_SIGN = rf"[^\w{_MARKS}]|_"
# A sign between words. Points and commas between digits belong to their number: 0.05, 1,25.
_INFIX = rf"(?<!\d)[.,]|[.,](?!\d)|[^\w{_MARKS}.,]|_"
# A tumour's grade and its stage, which reports write without a space: G3pT2N0M0.
_GRADE_END = r"(?<=\bG[1-4])(?=[acpruy]{0,2}T[0-4Xi])"
_EMAIL = r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+\Z"
# What a language writes together with an apostrophe: the English genitive, the French elision.
_SUFFIXES = {"en": r"(?<=[^\W\d_])['’][sS]"}
_PREFIXES = {"fr": r"(?:[cdjlmnstCDJLMNST]|(?:[Jj]us|[Ll]ors|[Pp]uis|[Qq]uoi)?[Qq]u)['’](?=\w)"}


def create_tokenizer() -> Callable[[Language], Tokenizer]:
    """Create the factory registered as `spacy_biomed.Tokenizer.v1`, for any language.

    A token is a run of letters and digits, a decimal number, an e-mail address, or one sign:
    `IL-2/p53` becomes `IL`, `-`, `2`, `/`, `p53`. Letters and digits are not separated, except
    after a tumour's grade (`G3`, `pT2N0M0`): fewer than one mention in a thousand of jnlpba,
    cantemist and meddocan starts or ends inside such a run.

    Of the language's own exceptions, those with an apostrophe (`don't`) and the abbreviations of
    several points (`e.g.`, `p.ej.`) hold, and so do the English genitive (`Crohn`, `'s`) and the
    French elision (`l'`, `apnée`). A single point stands alone, because mentions end before it.

    The tokenizer is spaCy's own class and serialises as part of the pipeline.
    """

    def make_tokenizer(nlp: Language) -> Tokenizer:
        rules = nlp.Defaults.tokenizer_exceptions
        prefix = "|".join(filter(None, (_PREFIXES.get(nlp.lang), _SIGN)))
        suffix = "|".join(filter(None, (_SUFFIXES.get(nlp.lang), _SIGN)))
        return Tokenizer(
            nlp.vocab,
            rules={word: rules[word] for word in rules if _is_kept(word, rules[word])},
            prefix_search=re.compile(rf"^(?:{prefix})").search,
            suffix_search=re.compile(rf"(?:{suffix})$").search,
            infix_finditer=re.compile(f"{_INFIX}|{_GRADE_END}").finditer,
            token_match=re.compile(_EMAIL).match,
        )

    return make_tokenizer


def _is_kept(word: str, tokens: list[dict[int, str]]) -> bool:
    """Tell whether an exception has an apostrophe or is an abbreviation of several points."""
    if not any(character.isalpha() for character in word) or any(map(str.isdigit, word)):
        return False
    if "'" in word or "’" in word:
        return True
    return len(tokens) == 1 and re.fullmatch(r"(?:[^\W\d_]+\.){2,}", word) is not None
