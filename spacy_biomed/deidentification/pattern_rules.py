"""A rule of a pattern: a form, what it stands for, and what has to be true besides."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .pattern_prefixes import find_prefixes
from .plain_text import PlainText, fold
from .term_lists import shared_terms

# Where a rule has found a pattern: start, end, and the pattern's name.
Found = Iterator[tuple[int, int, str]]
Check = Callable[[re.Match[str]], bool]


class Rule(NamedTuple):
    """A form of personal data.

    Attributes:
        pattern: what it is, one of `pattern_matches.PATTERNS`.
        form: regular expression on the plain text; its group `value`, if it has one, is the
            personal data, and the rest only tells that it is.
        is_right: what else a match has to be, such as a number with right check digits; None for
            nothing.
        is_folded: whether the form is one of the folded text, so that case and accents are all one.
        is_number: whether the form begins with the first digit of a number; it is looked for only
            there.
        prefixes: what the form begins with (`find_prefixes`); empty if that is unknown.
    """

    pattern: str
    form: re.Pattern[str]
    is_right: Check | None = None
    is_folded: bool = False
    is_number: bool = False
    prefixes: frozenset[str] = frozenset()


def rule(pattern: str, form: str, is_right: Check | None = None, flags: int = 0) -> Rule:
    """A rule from the text of its regular expression."""
    return Rule(pattern, re.compile(form, flags), is_right, prefixes=find_prefixes(form))


def number(pattern: str, form: str, is_right: Check | None = None, flags: int = 0) -> Rule:
    """A rule of a form that begins with the first digit of a number."""
    return Rule(pattern, re.compile(form, flags), is_right, is_number=True)


def caseless(pattern: str, form: str, is_right: Check | None = None) -> Rule:
    """A rule for any case, with accents or without; its text may have both.

    It is read in the folded text: `re.IGNORECASE` takes three times as long.
    """
    prefixes = find_prefixes(form)
    return Rule(pattern, re.compile(fold_form(form)), is_right, is_folded=True, prefixes=prefixes)


def fold_form(form: str) -> str:
    """A regular expression for folded text: without accents and capitals, but in escapes."""
    return re.sub(r"\\.|\(\?P|[A-ZÀ-ɏ]+|[à-ɏ]+", _fold_part, form)


def _fold_part(match: re.Match[str]) -> str:
    is_syntax = match[0][0] in "\\("
    return match[0] if is_syntax else fold(match[0])


def apply_rules(rules: Iterable[Rule], plain: PlainText) -> Found:
    """Everything that rules find in a text, rule after rule."""
    for one in rules:
        group = "value" if "value" in one.form.groupindex else 0
        for match in find_matches(one, plain):
            if one.is_right is None or one.is_right(match):
                yield *match.span(group), one.pattern


def find_matches(one: Rule, plain: PlainText) -> Iterator[re.Match[str]]:
    """The matches of the form of a rule, whether they are right or not."""
    text = plain.folded if one.is_folded else plain.text
    if one.is_number:
        starts = plain.numbers
    elif one.prefixes:
        starts = plain.find_starts(one.prefixes)
    else:
        yield from one.form.finditer(text)
        return
    end = 0
    for start in starts:
        if start >= end and (match := one.form.match(text, start)):
            yield match
            end = match.end()


# Nouns of medicine that are named after people and places, and what stands before the name.
EPONYMS = (
    r"fiebre|virus|gripe|escala|criterios?|clasificaci[óo]n|s[íi]ndrome|enfermedad|signos?|test"
    r"|estad[íi]os?|[íi]ndice|consenso|declaraci[óo]n|encefalitis|bacilos?|azul|rosa|verde|rojo"
    r"|botones|bot[óo]n"
    r"|b[áa]lsamo|variante|cepas?|mal|protocolo|score|escore|grados?|maniobra|prueba|anastomosis"
    r"|t[ée]cnica|tinci[óo]n|tri[áa]da|tr[íi]ada|fractura|ley|efecto|fen[óo]meno|cuerpos|c[ée]lulas"
    r"|tumor|linfoma|sarcoma|anemia|tiroiditis|gangrena|corea|colitis|esofagitis|par[áa]lisis"
    r"|operaci[óo]n|incisi[óo]n|m[ée]todo|f[óo]rmula|ecuaci[óo]n|glomerulonefritis|quiste|ganglio"
    r"|ap[óo]sito|sonda|cat[ée]ter|pr[óo]tesis|drenaje|pinzas?|valva|bolsa|cl[íi]nica del dolor"
    r"|arteria|vena|conducto|trompa|tend[óo]n|papila|saco|cisura|punto|[áa]ngulo|l[íi]nea"
    r"|n[óo]dulos?|[úu]lcera|es[óo]fago|stent|pol[íi]gono|c[íi]rculo|m[úu]sculo|nervio|ligamento"
    r"|fascia|hiato|esf[íi]nter|gl[áa]ndulas?|reflejo|respiraci[óo]n|hernia|divert[íi]culo|adenoma"
    r"|nefritis|vasculitis|p[úu]rpura|miopat[íi]a|distrofia|ataxia|neuralgia|contractura|f[íi]stula"
    r"|stage|stain|test|cyst|esophagus|lymphoma|sarcoma|catheter|maneuver|reflex"
    r"|fever|disease|syndrome|sign|scale|criteria|classification"
)
_BEFORE_EPONYM = re.compile(
    rf"\b(?:{EPONYMS})(?:\s+[a-zß-ÿ]+)?\s+(?:(?:seg[úu]n\s+)?(?:de\s+la\s+|del?\s+|of\s+)?)\Z",
    re.IGNORECASE,
)
# What stands before a number that names no person.
_BEFORE_OTHER_NUMBER = re.compile(
    r"\b(?:PMID|PMCID|PMC|DOI|ISBN|ISSN|NCT|EudraCT|OMIM|ORPHA|Orphanet|SNOMED(?: CT)?|CIE|ICD"
    r"|MeSH|CAS|GenBank|UniProt|muestras?|samples?|specimens?|lotes?|batch|lot|ref|referencia"
    r"|cat[áa]logo|versi[óo]n|modelo|model|(?-i:OR|RR|HR|IC|CI)|n(?=\s*=)"
    rf"|{'|'.join(map(re.escape, sorted(shared_terms('measurements'), key=len, reverse=True)))})"
    r"(?:[^\S\n]*[-:.#=(]|[^\S\n]+(?:n[º°o.]+|number|n[úu]mero))*[^\S\n]*[\"']?\Z",
    re.IGNORECASE,
)
# Characters before a match that are looked at.
_FARTHEST = 40


def is_eponym(text: str, start: int) -> bool:
    """Whether a name at a place in a plain text belongs to a term, as in "fiebre de Malta"."""
    return _BEFORE_EPONYM.search(text, max(start - _FARTHEST, 0), start) is not None


def is_other_number(text: str, start: int) -> bool:
    """Whether what is before a number says that it is not a person's, as in "PMID: 31245678"."""
    return _BEFORE_OTHER_NUMBER.search(text, max(start - _FARTHEST, 0), start) is not None


def is_of_person(match: re.Match[str]) -> bool:
    """Whether nothing before a number says that it names something else than a person."""
    return not is_other_number(match.string, match.start())
