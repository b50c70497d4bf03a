"""Surrogates word by word: people's names, places and institutions, and numbers and codes."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from re import Match

from . import term_lists
from .document_key import DocumentKey
from .term_lists import match_case, normalize, normalized_words, terms, word_list

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# A number after a country code or a trunk 0. Fewer digits than these may be of two values.
_DIALLED = re.compile(r"(?:00)?34(?=\d{9}\Z)|(?:00)?(?:1|44)(?=\d{10}\Z)|0(?=\d{10}\Z)")
_FEWEST_DIGITS = 5
_URL_START = re.compile(r"(?:[a-z]{3,5}://)?(?:www\.)?", re.IGNORECASE)


class FormatSurrogates:
    """Replace digits with random digits and letters with random letters.

    The same digits and letters give the same result, with any punctuation between them; five digits
    or more also with other letters beside them, or after a country's code. Punctuation stays. In a
    text with more than one digit, a leading zero stays zero, and another leading digit does not
    become zero.
    """

    def __init__(self, key: DocumentKey):
        self._key = key

    def __call__(self, text: str) -> str | None:
        """The surrogate; None for a text without digits and letters."""
        value = "".join(filter(str.isalnum, normalize(text)))
        if not value:
            return None
        digits = "".join(filter(str.isnumeric, normalize(text)))
        code = _DIALLED.match(digits)
        number = digits[code.end() :] if code else digits
        leading = {0, len(digits) - len(number)} if len(digits) > 1 else set()
        written, drawn, place = [], 0, 0
        for char in text:
            if char.isnumeric():
                options = "0123456789"
                if place in leading:
                    options = "0" if unicodedata.decimal(char, None) == 0 else "123456789"
                after = place - (len(digits) - len(number))
                if len(number) < _FEWEST_DIGITS:
                    purpose = value, str(drawn)
                elif after < 0:
                    purpose = digits, str(place)
                else:
                    purpose = number, str(after)
                written.append(self._key.choose(options, "format", *purpose))
                place += 1
            elif char.isalpha() and char not in "ºª":
                letter = self._key.choose(_LETTERS, "format", value, str(drawn))
                written.append(letter.upper() if char.isupper() else letter)
            else:
                written.append("" if unicodedata.combining(char) else char)
                continue
            drawn += 1
        return "".join(written)

    def url(self, text: str) -> str | None:
        """The surrogate of a URL, whose beginning (`https://www.`) stays."""
        beginning = _URL_START.match(text)
        start = beginning.end() if beginning else 0
        rest = self(text[start:])
        return None if rest is None else text[:start] + rest


# "M.ª" has one word.
_DOTTED = re.compile(r"(?<=\bM)\.(?=ª)")


class NameSurrogates:
    """Replace the names of a document with names from lists.

    Each word of a name has one surrogate, so a surname alone gets the same surrogate as in a full
    name. The surrogate depends only on the word and not on other names, so it is the same in all
    documents of a scope. Known female and male given names become given names of the same kind; all
    other words become surnames. An initial becomes the initial of the surrogate of the document's
    first name word with this initial. Particles and titles (de la, Dr.) are left out.

    Attributes:
        key: the choices of the document.
        language: "en" or "es".
        formats: for digits in names, and for initials without a name.
        names: all names of the document, in text order.
    """

    def __init__(
        self, key: DocumentKey, language: str, formats: FormatSurrogates, names: Iterable[str]
    ):
        self._key = key
        self._language = language
        self._formats = formats
        # The first word for each initial.
        self._words: dict[str, str] = {}
        for name in names:
            for word in _essential_words(name):
                if not _is_initials(word[0], name):
                    form = normalize(word[0])
                    self._words.setdefault(form[0], form)

    def __call__(self, name: str) -> str | None:
        """The surrogate of a name; None for a name without letters."""
        name = _DOTTED.sub("", name)
        words = _essential_words(name)
        if not words:
            return None
        replaced = [self._replace(word[0], name) for word in words]
        starts = [0, *(word.end() for word in words)]
        ends = [*(word.start() for word in words), len(name)]
        gaps = [self._rewrite(name[s:e]) for s, e in zip(starts, ends, strict=True)]
        gaps[1:-1] = [gap or " " for gap in gaps[1:-1]]
        gaps[0], gaps[-1] = gaps[0].lstrip(), gaps[-1].rstrip()
        return "".join(chain(*zip(gaps, [*replaced, ""], strict=True)))

    def _rewrite(self, gap: str) -> str:
        """Rewrite the text between words: keep punctuation, draw digits, drop particles."""
        if term_lists.WORD.search(gap):
            return ", " if "," in gap else ""
        return self._formats(gap) or gap

    def _replace(self, word: str, name: str) -> str:
        if _is_initials(word, name):
            letters = filter(str.isalpha, word)
            return "".join(match_case(self._initial(letter), letter) for letter in letters)
        return match_case(self._choose(normalize(word)), word)

    def _choose(self, form: str) -> str:
        form = term_lists.write_out(form)
        return self._key.choose(terms(self._language, _list_of(form)), "name", form)

    def _initial(self, letter: str) -> str:
        """The initial of the surrogate of a name with this initial, or else a random letter."""
        word = self._words.get(normalize(letter)[:1])
        if word is None:
            return self._formats(letter) or letter
        return normalize(self._choose(word))[0].upper()


def _essential_words(name: str) -> list[Match[str]]:
    """The words of a name without particles and titles; if there are no others, all words."""
    words = list(term_lists.WORD.finditer(name))
    return [word for word in words if normalize(word[0]) not in word_list("particles")] or words


def _is_initials(word: str, name: str) -> bool:
    is_short = len(word) <= 3 and word.isupper() and not name.isupper()
    form = normalize(word)
    return len(word) == 1 or (
        is_short and term_lists.write_out(form) == form and not term_lists.is_name(form)
    )


def _list_of(form: str) -> str:
    """The name of the list for the surrogate of a word.

    A word that is both a given name and a surname, or neither, becomes a surname. Its position in
    the name would decide better, but it may differ between the occurrences of a word.
    """
    if form not in term_lists.known("surnames"):
        for name in ("given_female", "given_male"):
            if form in term_lists.known(name):
                return name
    return "surnames"


# A house number or a postcode, including letters in it, or a word.
_ADDRESS_PART = re.compile(rf"(?P<code>\w*[^\W\D]\w*|\bs/n\b)|{term_lists.WORD.pattern}")
_WITHIN_NAME = re.compile(r"[\s.'’-]{1,2}")


class PlaceSurrogates:
    """Replace places and institutions with random terms from lists.

    A surrogate depends only on the name, so it is the same in all documents of a scope.
    """

    def __init__(self, key: DocumentKey, language: str, formats: FormatSurrogates):
        self._key = key
        self._language = language
        self._formats = formats

    def place(self, text: str) -> str | None:
        """The surrogate of a town, an address or a postcode; None if all words stay.

        Numbers, postcodes and names whose words all have less than three letters keep their format.
        Words such as Calle or Street stay. All other names become names of towns.
        """
        written, last = [], 0
        for start, end, is_proper in _parts(text):
            original = text[start:end]
            if not is_proper and normalize(original) in word_list("address_words"):
                continue
            surrogate = self._choose("places", original) if is_proper else self._formats(original)
            if surrogate is None:
                return None
            written += [text[last:start], surrogate]
            last = end
        return "".join([*written, text[last:]]) if written else None

    def country(self, text: str) -> str:
        """The surrogate of a country."""
        return self._choose("countries", text)

    def institution(self, text: str) -> str:
        """The surrogate of an institution, if possible of the same type (Hospital, Clinic)."""
        generic = (word for word in normalized_words(text) if word in word_list("generic_words"))
        alike = _institutions_with(self._language, next(generic, ""))
        return self._choose("institutions", text, alike)

    def _choose(self, kind: str, original: str, options: Sequence[str] = ()) -> str:
        """Choose one of the options; if there are none, a term of the list of this kind."""
        options = options or terms(self._language, kind)
        surrogate = self._key.choose(options, kind, normalize(original))
        is_abbreviation = original.isupper() and sum(map(str.isalpha, original)) <= 4
        return surrogate if is_abbreviation else match_case(surrogate, original)


@cache
def _institutions_with(language: str, word: str) -> tuple[str, ...]:
    institutions = terms(language, "institutions")
    return tuple(term for term in institutions if word in normalized_words(term))


def _parts(text: str) -> Iterator[tuple[int, int, bool]]:
    """The parts of an address in text order: start, end and whether it is a name.

    Words separated only by a space, a hyphen or similar form one name.
    """
    parts: list[tuple[int, int, bool]] = []
    for match in _ADDRESS_PART.finditer(text):
        start, end = match.span()
        is_word = match["code"] is None and normalize(match[0]) not in word_list("address_words")
        is_after_word = is_word and bool(parts) and parts[-1][2]
        if is_after_word and _WITHIN_NAME.fullmatch(text, parts[-1][1], start):
            start = parts.pop()[0]
        parts.append((start, end, is_word))
    for start, end, is_word in parts:
        is_long = any(len(word) > 2 for word in normalized_words(text[start:end]))
        yield start, end, is_word and is_long
