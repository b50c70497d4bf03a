"""Normal forms of a string, in which programs write the text of an annotation.

They write "TNF-a" or "TNF-alpha" for "TNF-α", "Mg2+" for "Mg²⁺", "naive" for "naïve", or hyphens,
quotes and ligatures as plain letters.
"""

import unicodedata
from collections.abc import Callable
from functools import cache
from html import unescape

# The Latin letters and the names of Greek letters, from alpha to omega.
_GREEK = "αβγδεζηθικλμνξοπρςστυφχψω"
_LATIN = "abgdezhqiklmnxoprsstufcyw"
# fmt: off
_NAMES = (
    "alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda",
    "mu", "nu", "xi", "omicron", "pi", "rho", "sigma", "sigma", "tau", "upsilon", "phi", "chi",
    "psi", "omega",
)
# fmt: on

# Signs that Unicode does not decompose.
_SIGNS = {
    **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u0060\u00b4", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2043\ufe63\uff0d", "-"),
    **{"×": "x", "≤": "<=", "≥": ">=", "±": "+/-", "→": "->", "←": "<-", "≈": "~"},
    **{"·": ".", "∙": "."},
    **{"⁄": "/", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "æ": "ae", "œ": "oe", "ı": "i"},
}

# As German, Danish and others write them without the signs.
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "ø": "oe"}

# How one character is written.
Spelling = Callable[[str], str]


def _spelling(letters: dict[str, str]) -> Spelling:
    signs = {**_SIGNS, **letters, **{sign.upper(): plain for sign, plain in letters.items()}}

    @cache
    def spell(character: str) -> str:
        if unicodedata.category(character) == "Cf":  # soft hyphens and what has no width
            return ""
        plain = ""
        for part in signs.get(character) or unicodedata.normalize("NFKD", character).lower():
            if not (unicodedata.combining(part) or part.isspace()):
                plain += signs.get(part, part)
        return plain

    return spell


# A micro sign is written as u or m, and a beta was often typed as ß.
SPELLINGS: tuple[Spelling, ...] = (
    _spelling({**dict(zip(_GREEK, _LATIN, strict=True)), "μ": "u", "ß": "b"}),
    _spelling({**dict(zip(_GREEK, _LATIN, strict=True)), "φ": "ph", "χ": "ch", "θ": "th"}),
    _spelling({**dict(zip(_GREEK, _NAMES, strict=True)), "ß": "ss"}),
    _spelling({**dict(zip(_GREEK, _NAMES, strict=True)), "ß": "ss", **_UMLAUTS}),
    _spelling({"'": "", '"': ""}),  # some programs drop quotes, or double them
)


def spell(text: str, spelling: Spelling) -> str:
    return "".join(map(spelling, text))


def reads_as(text: str, covered: str) -> bool:
    """Whether two strings are the same in one of the normal forms.

    Examples:
        >>> reads_as("TNF\u2010α", "TNF-alpha")
        True
        >>> reads_as("TNF-α", "TNF-β")
        False
    """
    covered = unescape(covered)
    for spelling in SPELLINGS:
        plain = spell(text, spelling)
        if plain and plain == spell(covered, spelling):
            return True
    # Some programs write a question mark for each character that is not ASCII.
    encoded = text.encode("ascii", "replace").decode()
    return encoded == covered and any(map(str.isalnum, encoded))


def fold_case(text: str) -> str:
    """Convert a text to lower case, with every character at the same offset.

    Examples:
        >>> fold_case("İZMİR")
        'İzmİr'
    """
    folded = text.lower()
    if len(folded) == len(text):
        return folded
    lowered = ((character, character.lower()) for character in text)
    return "".join(small if len(small) == 1 else character for character, small in lowered)
