"""Split text into sentences, and find those that are noisy, ill-formed or in another language."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from spacy.language import BaseDefaults
from spacy.util import get_lang_class

from ..errors import BiomedError, install_command

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier as Identifier

# Abbreviations of scientific and clinical writing that are missing in spaCy's lists.
# fmt: off
ABBREVIATIONS = (
    "al", "approx", "aprox", "ca", "cf", "col", "cols", "ctra", "eq", "eqs", "fig", "figs",
    "max", "min", "mín", "máx", "núm", "pág", "págs", "pers", "pl", "pp", "prof", "ref", "refs",
    "resp", "sp", "spp", "ssp", "subsp", "suppl", "tel", "var", "vol", "vols", "vs",
)
# fmt: on

# After this many characters in an open parenthesis, it is assumed to be a stray bracket.
_MAX_PARENTHESIS = 1000

_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")
# The end of a sentence, a space, and the beginning of the next sentence.
_BOUNDARY = re.compile(r"(?<![.!?…。])[.!?…。]+[\"'”’»)\]]*( )(?=[\"'“‘«¿¡(\[*•–-]* ?(\w))")
_OPENING = "([\"'“‘«¿¡"


class SentenceSplitter:
    """Splits text into sentences.

    A sentence ends with its paragraph, and with a full stop, a question or an exclamation mark and
    the closing quotes and brackets after it. It does not end after an abbreviation or an initial,
    inside a parenthesis, or before a lower-case letter.

    Attributes:
        lang: code of the language, whose abbreviations spaCy's tokenizer knows.

    Raises:
        BiomedError: if spaCy does not know the language.
    """

    def __init__(self, lang: str):
        exceptions = find_language(lang).tokenizer_exceptions
        known = [orth[:-1] for orth in exceptions if orth[:1].isalpha() and orth[-1] == "."]
        # Case-sensitive: "Mass." is a state, and "mass." ends a sentence.
        self.abbreviations = {*known, *ABBREVIATIONS, *map(str.capitalize, ABBREVIATIONS)}

    def split(self, text: str) -> list[str]:
        """The sentences in order; any white space in them becomes a single space."""
        sentences = []
        for paragraph in _PARAGRAPH_BREAK.split(text):
            paragraph = " ".join(paragraph.split())
            start = 0
            for match in _BOUNDARY.finditer(paragraph):
                if self._ends(paragraph, start, match):
                    sentences.append(paragraph[start : match.start(1)])
                    start = match.end(1)
            sentences.append(paragraph[start:])
        return list(filter(None, sentences))

    def _ends(self, text: str, start: int, match: re.Match[str]) -> bool:
        """Whether the sentence that starts at `start` ends at the match."""
        if match[2].islower():
            return False
        stop, end = match.start(), match.start(1)
        word = text[max(start, text.rfind(" ", start, stop) + 1) : stop].lstrip(_OPENING)
        is_abbreviation = word in self.abbreviations or (len(word) == 1 and word.isalpha())
        if text[stop] == "." and is_abbreviation:
            return False
        if end - start > _MAX_PARENTHESIS:
            return True
        return text.count("(", start, end) <= text.count(")", start, end)


def find_language(lang: str) -> type[BaseDefaults]:
    """spaCy's defaults of a language: stop words, and tokenizer exceptions with abbreviations."""
    try:
        return get_lang_class(lang).Defaults
    except ImportError as error:
        raise BiomedError(f"spaCy knows no language {lang!r}; give a code like en or es") from error


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of the rules. Shares are from 0 to 1.

    They were chosen on biomedical abstracts, patient information and clinical cases in English and
    Spanish, so that the sentences that a rule removes are nearly always noise.

    Attributes:
        min_words, max_words: number of words (separated by white space, with at least one letter).
            Shorter are headings and fragments; longer are tables and lists without line breaks.
        max_word_length: characters. Longer are sequences, addresses, and words run together.
        max_digits, max_symbols: share of digits, and of characters that are neither digits nor
            letters, among those that are not white space. Above are tables, formulas, references.
        min_letters: share of letters among the same characters.
        max_repeats: consecutive repetitions of a character except digits. Above are dot leaders
            and horizontal rules.
        max_capitals, capitals_from: share of capitals among the letters, in sentences with at least
            `capitals_from` words. Above are headings and disclaimers.
        min_distinct, distinct_from: share of distinct words, in sentences with at least
            `distinct_from` words. Below are menus, key words and formulas.
        stop_words_from: fewest words of a sentence that must have a stop word of its language.
            Enumerations and parts of tables have none.
        language_from: fewest characters to identify the language of a sentence.
        language_odds: another language must be this many times as probable as the corpus's. In
            telegraphic sentences, a closely related language is often slightly more probable.
    """

    min_words: int = 3
    max_words: int = 250
    max_word_length: int = 60
    max_digits: float = 0.3
    max_symbols: float = 0.3
    min_letters: float = 0.5
    max_repeats: int = 5
    max_capitals: float = 0.7
    capitals_from: int = 4
    min_distinct: float = 0.35
    distinct_from: int = 10
    stop_words_from: int = 15
    language_from: int = 50
    language_odds: float = 10.0


# Control, private and replacement characters; UTF-8 that was read as Latin-1 or Windows-1252.
_BROKEN_ENCODING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ue000-\uf8ff\ufffd]"
    "|[ÂÃ][\u00a0-\u00bf]|Ã[‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ]|â€"
)
_MARKUP = re.compile(
    r"</?(?:a|abbr|article|b|blockquote|body|br|cite|code|div|em|fig|font|form|h[1-6]|head|hr|html"
    r"|i|iframe|img|input|italic|label|li|link|meta|ol|option|p|pre|script|sec|section|select|small"
    r"|span|strong|style|sub|sup|table|tbody|td|th|thead|title|tr|u|ul|xref)\b[^<>]*>"
    r"|<!--|&(?:[a-z]{2,8}|#\d{2,5}|#x[0-9a-f]{2,5});"  # SGML's
    r"|\\[a-z]{3,}|\{[^{}:;]*[:;][^{}]*\}|\{\{|\}\}",  # TeX's; style sheets' and programs'; wikis'
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"\b(?:https?|ftp):|\bwww\.|\w@[\w-]+\.\w", re.IGNORECASE)
_CUT_OFF = re.compile(r"(?:…|\.\.\.|\[\.\.\.\]|\w,|\w-|[(\[/&])[\"'”’»)\]]*$")
_ENUMERATOR = re.compile(r"(?<!\S)\w{1,3}\)")
_LETTERS = re.compile(r"[^\W\d_]+")
_DIGIT = re.compile(r"\d")

# The patterns are not tried on texts with more characters, since they can take quadratic time.
_LONGEST = 20_000

# Maximum number of characters for the identification of a text's language.
_ENOUGH = 2000


class Sentence:
    """A sentence and its counts for the rules.

    Attributes:
        words: parts separated by white space that have a letter.
        runs: uninterrupted runs of letters, in lower case.
        size, letters, digits: number of characters except white space, of letters, and of digits.
    """

    def __init__(self, text: str):
        self.text = text
        pieces = text.split()
        runs = _LETTERS.findall(text)
        self.size = sum(map(len, pieces))
        self.letters = sum(map(len, runs))
        self.digits = len(_DIGIT.findall(text))
        self.words = [piece for piece in pieces if _LETTERS.search(piece)]
        self.runs = [run.lower() for run in runs]


Rule = Callable[[Sentence, Thresholds], bool]


def _all_capitals(sentence: Sentence, limits: Thresholds) -> bool:
    if len(sentence.words) < limits.capitals_from:
        return False
    return sum(map(str.isupper, sentence.text)) > limits.max_capitals * sentence.letters


def _repeated_words(sentence: Sentence, limits: Thresholds) -> bool:
    count = len(sentence.runs)
    return count >= limits.distinct_from and len(set(sentence.runs)) < limits.min_distinct * count


def _unbalanced(sentence: Sentence, _: object) -> bool:
    """Whether a bracket is missing, because part of the sentence is missing.

    Kinds of brackets are not distinguished, because of half-open intervals. The bracket of an
    enumerator, such as "a)", needs no opening bracket.
    """
    count = sentence.text.count
    open_ones = count("(") + count("[") - count(")") - count("]")
    return open_ones > 0 or (open_ones < 0 and len(_ENUMERATOR.findall(sentence.text)) < -open_ones)


# In the order in which they are checked: a sentence counts only for the first rule it breaks.
RULES: dict[str, Rule] = {
    "broken_encoding": lambda s, _: _BROKEN_ENCODING.search(s.text) is not None,
    "markup": lambda s, _: _MARKUP.search(s.text) is not None,
    "address": lambda s, _: _ADDRESS.search(s.text) is not None,
    "repeated_characters": lambda s, limits: (
        re.search(rf"([^\d\s])\1{{{limits.max_repeats}}}", s.text) is not None
    ),
    "too_many_digits": lambda s, limits: s.digits > limits.max_digits * s.size,
    "too_many_symbols": lambda s, limits: (
        s.size - s.letters - s.digits > limits.max_symbols * s.size
    ),
    "too_few_letters": lambda s, limits: s.letters < limits.min_letters * s.size,
    "too_short": lambda s, limits: len(s.words) < limits.min_words,
    "too_long": lambda s, limits: len(s.words) > limits.max_words,
    "long_word": lambda s, limits: max(map(len, s.words), default=0) > limits.max_word_length,
    "all_capitals": _all_capitals,
    "repeated_words": _repeated_words,
    "unbalanced": _unbalanced,
    "cut_off": lambda s, _: _CUT_OFF.search(s.text) is not None,
}


class SentenceFilter:
    """Finds noisy and ill-formed sentences.

    Attributes:
        lang: code of the language, for its stop words.

    Raises:
        BiomedError: if spaCy does not know the language.
    """

    def __init__(self, lang: str, thresholds: Thresholds):
        self.thresholds = thresholds
        self.stop_words = frozenset(find_language(lang).stop_words)

    def broken_rule(self, text: str) -> str | None:
        """The first of `RULES` that a sentence breaks; None if it is well-formed."""
        if len(text) > _LONGEST:
            return "too_long"
        sentence = Sentence(text)
        for name, breaks in RULES.items():
            if breaks(sentence, self.thresholds):
                return name
        return None

    def lacks_stop_words(self, text: str) -> bool:
        """Whether a sentence with single spaces is long and has no stop word of the language.

        This is not one of `RULES`, so that a sentence in another language can count as such first.
        """
        if not self.stop_words or text.count(" ") + 1 < self.thresholds.stop_words_from:
            return False
        sentence = Sentence(text)
        enough = len(sentence.words) >= self.thresholds.stop_words_from
        return enough and self.stop_words.isdisjoint(sentence.runs)


class LanguageIdentifier:
    """Finds sentences that are not in a given language, with py3langid's model.

    Lui and Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool".

    Attributes:
        lang: code of the language.
        thresholds: of which `language_from` and `language_odds` are used.

    Raises:
        BiomedError: if py3langid is not installed or does not know the language.
    """

    def __init__(self, lang: str, thresholds: Thresholds):
        if find_spec("py3langid") is None:
            raise BiomedError(f"identifying languages needs py3langid: {install_command('train')}")
        self.model = _load_model()
        if lang not in self.model.nb_classes:
            raise BiomedError(f"py3langid knows no language {lang!r}; give a code such as en or es")
        self.lang, self.thresholds = lang, thresholds

    def find_foreign(self, sentences: Sequence[str]) -> list[bool]:
        """Whether each sentence of a document is in another language.

        A sentence that is too short or undecided counts as its document does: as most characters
        of the decided sentences or, if there are none, as all sentences together.
        """
        least = self.thresholds.language_from
        known = [self.is_foreign(s) if len(s) >= least else None for s in sentences]
        characters: Counter[bool | None] = Counter()
        for sentence, foreign in zip(sentences, known, strict=True):
            characters[foreign] += len(sentence)
        default = characters[True] > characters[False]
        if not (characters[True] or characters[False]):
            default = bool(self.is_foreign(" ".join(sentences)))
        return [default if foreign is None else foreign for foreign in known]

    def is_foreign(self, text: str) -> bool | None:
        """Whether a text is in another language; None if undecided."""
        text = text[:_ENOUGH]
        best, probability = self.model.classify(text)
        if best == self.lang:
            return False
        expected = dict(self.model.rank(text))[self.lang]
        return True if probability >= self.thresholds.language_odds * expected else None


@cache
def _load_model() -> Identifier:
    from py3langid.langid import MODEL_FILE
    from py3langid.langid import LanguageIdentifier as Identifier

    return Identifier.from_model_file(MODEL_FILE, norm_probs=True)
