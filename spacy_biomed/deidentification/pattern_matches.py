"""Patterns of personal data that has a form: dates, addresses, telephones and identifiers.

They find what a recogniser may miss. A pattern that also fits harmless numbers has a check. The day
must exist, the check digits must be right, the number must be in a range that is in use, or a word
before it must say what it is.
"""

from collections.abc import Callable, Iterable
from functools import partial

from ..errors import BiomedError, add_hint, suggest
from . import pattern_finders
from .pattern_people import find_people
from .pattern_rules import Found, apply_table
from .plain_text import PlainText

PATTERN_LANGUAGES = ("en", "es")

# The labels of each pattern, in order of preference: first those of corpora that tell the most
# kinds apart. The last one of each row is used if the pipeline has none of them.
PATTERN_LABELS: dict[str, tuple[str, ...]] = {
    "date": ("FECHAS", "FECHA", "DATE"),
    "age": ("EDAD_SUJETO_ASISTENCIA", "EDAD", "AGE"),
    "email": ("CORREO_ELECTRONICO", "CONTACTO", "CONTACT", "EMAIL"),
    "url": ("CONTACTO", "CONTACT", "URL"),
    "phone": ("NUMERO_TELEFONO", "CONTACTO", "CONTACT", "PHONE"),
    "fax": ("NUMERO_FAX", "CONTACTO", "CONTACT", "FAX"),
    "postal_code": ("TERRITORIO", "LUGAR", "ZIP", "LOCATION", "ZIP"),
    "national_id": ("ID_SUJETO_ASISTENCIA", "IDENTIFICADOR", "SSN", "ID"),
    "insurance": ("ID_ASEGURAMIENTO", "IDENTIFICADOR", "HEALTHPLAN", "ID"),
    "record": ("ID_SUJETO_ASISTENCIA", "IDENTIFICADOR", "MEDICALRECORD", "ID"),
    "encounter": ("ID_CONTACTO_ASISTENCIAL", "IDENTIFICADOR", "IDNUM", "ID"),
    "license": ("ID_TITULACION_PERSONAL_SANITARIO", "IDENTIFICADOR", "LICENSE", "ID"),
    "file": ("ID_SUJETO_ASISTENCIA", "IDENTIFICADOR", "IDNUM", "ID"),
    "room": ("ID_CONTACTO_ASISTENCIAL", "IDENTIFICADOR", "ROOM", "ID"),
    "vehicle": ("ID_SUJETO_ASISTENCIA", "IDENTIFICADOR", "VEHICLE", "ID"),
    "device": ("ID_SUJETO_ASISTENCIA", "IDENTIFICADOR", "DEVICE", "ID"),
    "account": ("IDENTIFICADOR", "ACCOUNT", "ID"),
    "address": ("CALLE", "LUGAR", "STREET", "LOCATION", "STREET"),
    "institution": ("HOSPITAL", "ORGANIZATION", "LOCATION", "HOSPITAL"),
    "place": ("TERRITORIO", "LUGAR", "CITY", "LOCATION"),
    "name": ("NOMBRE_SUJETO_ASISTENCIA", "NOMBRE", "PATIENT", "NAME"),
}
# Patterns of what only some corpora hold to be personal data: they are used where the pipeline has
# one of their labels.
OPTIONAL_LABELS: dict[str, tuple[str, ...]] = {
    "relative": ("FAMILIARES_SUJETO_ASISTENCIA", "FAMILIAR"),
    "status": ("OTROS_SUJETO_ASISTENCIA", "SEXO"),
    "profession": ("PROFESION",),
    "sex": ("SEXO_SUJETO_ASISTENCIA", "SEXO"),
}
PATTERNS = (*PATTERN_LABELS, *OPTIONAL_LABELS)
# Patterns of words, of which a part is worth as much.
CUT = frozenset({"institution", "name", "place", "profession", "relative"})

_Finder = Callable[[PlainText, str], Found]
# A match of an earlier finder is preferred to an overlapping one of a later finder, of which the
# part before it stays.
_FINDERS: tuple[_Finder, ...] = (
    pattern_finders.find_columns,
    pattern_finders.find_web_addresses,
    partial(apply_table, "dates"),
    partial(apply_table, "identifiers"),
    pattern_finders.find_phones,
    partial(apply_table, "postal_codes"),
    partial(apply_table, "ages"),
    partial(apply_table, "addresses"),
    pattern_finders.find_institutions,
    partial(apply_table, "companies"),
    partial(apply_table, "circumstances"),
    find_people,
    pattern_finders.find_places,
)


def find_patterns(text: str, language: str) -> list[tuple[int, int, str]]:
    """Find everything in a text that has the form of personal data.

    The spans (start, end, one of `PATTERNS`) are disjoint, in text order, in characters.

    Examples:
        >>> text = "Visto el 12/03/2019 (TA 120/80, dolor 5/10). DNI 12345678Z."
        >>> [(text[start:end], pattern) for start, end, pattern in find_patterns(text, "es")]
        [('12/03/2019', 'date'), ('12345678Z', 'national_id')]
    """
    plain = PlainText(text)
    text = plain.text
    taken = bytearray(len(text))
    found: list[tuple[int, int, str]] = []
    for find in _FINDERS:
        for start, end, pattern in find(plain, language):
            line_end = text.find("\n", start, end)
            end = end if line_end < 0 else start + len(text[start:line_end].rstrip())
            if pattern in CUT and start < end and not taken[start]:
                free = taken.find(1, start, end)
                end = end if free < 0 else start + len(text[start:free].rstrip(" \n,.;"))
            if start < end and not any(taken[start:end]):
                taken[start:end] = b"\1" * (end - start)
                found.append((start, end, pattern))
    return [(*plain.to_original(start, end), pattern) for start, end, pattern in sorted(found)]


def choose_labels(declared: Iterable[str], given: dict[str, str]) -> dict[str, str]:
    """The label of each pattern; none for an optional pattern without a label that is declared.

    Labels that are `declared` are those of the pipeline's other components; `given` ones, by
    pattern, take precedence.
    """
    check_patterns(given)
    known = set(declared)
    chosen = {pattern: labels[-1] for pattern, labels in PATTERN_LABELS.items()}
    for pattern, labels in {**PATTERN_LABELS, **OPTIONAL_LABELS}.items():
        if found := [label for label in labels if label in known]:
            chosen[pattern] = found[0]
    return {**chosen, **given}


def check_patterns(names: Iterable[str]) -> None:
    """Raise BiomedError if a name is not that of a pattern."""
    for name in names:
        if name not in PATTERNS:
            problem = f"no pattern {name}; use some of {', '.join(PATTERNS)}"
            raise BiomedError(add_hint(problem, suggest(name, PATTERNS)))
