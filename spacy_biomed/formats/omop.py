"""The tables NOTE and NOTE_NLP of the OMOP Common Data Model 5.4, as Parquet.

Columns and their meaning are those of https://ohdsi.github.io/CommonDataModel/cdm54.html.
"""

from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from ..annotations.sections import SECTION
from ..files.compression import require_pyarrow
from ..files.parquet import pack_table
from ..files.sources import Item
from .allergens import is_allergen
from .findings import CONFIDENCE, AnnotatedDocument, AnnotatedShard, Row, list_entities
from .registry import Format

NOTE = {
    "note_id": "int64",
    "person_id": "int64",
    "note_date": "date32",
    "note_datetime": "timestamp[us]",
    "note_type_concept_id": "int64",
    "note_class_concept_id": "int64",
    "note_title": "string",
    "note_text": "string",
    "encoding_concept_id": "int64",
    "language_concept_id": "int64",
    "provider_id": "int64",
    "visit_occurrence_id": "int64",
    "visit_detail_id": "int64",
    "note_source_value": "string",
    "note_event_id": "int64",
    "note_event_field_concept_id": "int64",
}
NOTE_NLP = {
    "note_nlp_id": "int64",
    "note_id": "int64",
    "section_concept_id": "int64",
    "snippet": "string",
    "offset": "string",
    "lexical_variant": "string",
    "note_nlp_concept_id": "int64",
    "note_nlp_source_concept_id": "int64",
    "nlp_system": "string",
    "nlp_date": "date32",
    "nlp_datetime": "timestamp[us]",
    "term_exists": "string",
    "term_temporal": "string",
    "term_modifiers": "string",
}
# Characters of columns of NOTE; of snippets and variants; and of all modifiers.
_LENGTHS = {"note_title": 250, "note_source_value": 50}
_LONGEST, _MODIFIERS = 250, 2000
# Mentions of a note.
_MOST = 1_000_000
# Columns that are made.
_OWN = ("note_id", "person_id", "note_text")
# The most digits of a number that fits the column.
_DIGITS = 18
_UNKNOWN_DATE = date(1970, 1, 1)
_NO_CONCEPT = 0
_LANGUAGES = {"en": 4180186, "es": 4182511}
# The system, in the meanings of labels, whose codes are concepts of OMOP.
OMOP_SYSTEM = "https://fhir-terminology.ohdsi.org"


def write_omop(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a folder for each of the two tables, with a file for each shard.

    Columns that are kept have the names of columns of NOTE, and are written there.
    `find_problem` has found nothing in the rows.
    """
    import pyarrow

    rows: dict[str, list[Row]] = {"note": [], "note_nlp": []}
    for document in shard.documents:
        note = _create_note(document)
        rows["note"].append(note)
        for number, span in enumerate(list_entities(document.found)):
            rows["note_nlp"].append(_create_term(number, span, note, shard))
    return {
        f"{table}/{shard.name}.parquet": pack_table(
            pyarrow.Table.from_pylist(rows[table], pyarrow.schema(list(columns.items())))
        )
        for table, columns in (("note", NOTE), ("note_nlp", NOTE_NLP))
    }


def find_problem(item: Item) -> str:
    """Why a row of the input cannot be one of NOTE: its patient, or a value that is kept."""
    try:
        _read_patient(item)
        _read_fields(item)
    except ValueError as error:
        return str(error)
    return ""


OMOP = Format(
    write=write_omop,
    has_fields=True,
    fields=[name for name in NOTE if name not in _OWN],
    is_dated=True,
    is_clinical=True,
    find_problem=find_problem,
    require=require_pyarrow,
)


def _create_note(document: AnnotatedDocument) -> Row:
    item, number = document.item, document.number + 1
    given = _read_fields(item)
    moment = given.get("note_datetime")
    patient = _read_patient(item)
    return {
        "note_id": number,
        "person_id": number if patient is None else patient,
        "note_date": moment.date() if isinstance(moment, datetime) else _UNKNOWN_DATE,
        "note_type_concept_id": _NO_CONCEPT,
        "note_class_concept_id": _NO_CONCEPT,
        "note_text": document.doc.text,
        "encoding_concept_id": _NO_CONCEPT,
        "language_concept_id": _LANGUAGES.get(document.doc.lang_, _NO_CONCEPT),
        "note_source_value": item.id[: _LENGTHS["note_source_value"]],
        **{name: value for name, value in given.items() if value is not None},
    }


def _read_patient(item: Item) -> int | None:
    """The number of the patient; None without one."""
    patient = item.patient.removesuffix(".0")
    if patient and (not patient.isdecimal() or len(patient) > _DIGITS):
        raise ValueError(
            "the patient is not a whole number, as person_id of OMOP is; number the patients, and "
            "name that column with --patient-column"
        )
    return int(patient) if patient else None


def _read_fields(item: Item) -> Row:
    return {name: _read(name, value) for name, value in item.fields.items()}


def _read(name: str, value: object) -> object:
    """A value that is kept as its column of NOTE has it."""
    read, kind = _READERS[NOTE[name]]
    try:
        # NaN is not equal to itself.
        found = None if value in (None, "") or value != value else read(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{name} is not a {kind}; correct it, or leave out --keep {name}"
        ) from None
    return found[: _LENGTHS.get(name)] if isinstance(found, str) else found


def _read_whole(value: Any) -> int:
    # pandas writes "17.0" in a column with a gap.
    number = int(value.removesuffix(".0") if isinstance(value, str) else value)
    if abs(number) >= 10**_DIGITS or (not isinstance(value, str) and number != value):
        raise ValueError(value)
    return number


def _read_date(value: object) -> date:
    return value if isinstance(value, date) else date.fromisoformat(str(value)[:10])


def _read_datetime(value: object) -> datetime:
    """The time as the clock at the place of the note had it, since the column has no time zone."""
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment.replace(tzinfo=None)


# How the values of a type are read, and what they are called.
_READERS: dict[str, tuple[Callable[[Any], object], str]] = {
    "int64": (_read_whole, f"whole number of at most {_DIGITS} digits"),
    "string": (str, "text"),
    "date32": (_read_date, "date such as 2026-01-31"),
    "timestamp[us]": (_read_datetime, "time such as 2026-01-31T09:30:00"),
}


def _create_term(number: int, span: Row, note: Row, shard: AnnotatedShard) -> Row:
    meaning = shard.meanings.get(span["label"], {})
    code = span.get("code") or ""
    is_number = code.isdecimal() and len(code) <= _DIGITS
    is_concept = meaning.get("system") == OMOP_SYSTEM and is_number
    # The mention is in the middle.
    around = max(0, _LONGEST - (span["end"] - span["start"])) // 2
    snippet = note["note_text"][max(0, span["start"] - around) : span["end"] + around]
    return {
        "note_nlp_id": note["note_id"] * _MOST + number,
        "note_id": note["note_id"],
        "section_concept_id": _NO_CONCEPT,
        "snippet": snippet[:_LONGEST],
        "offset": str(span["start"]),
        "lexical_variant": span["text"][:_LONGEST],
        "note_nlp_concept_id": int(code) if is_concept else _NO_CONCEPT,
        "note_nlp_source_concept_id": _NO_CONCEPT,
        "nlp_system": shard.pipeline[:_LONGEST],
        "nlp_date": date.fromisoformat(shard.date) if shard.date else _UNKNOWN_DATE,
        **_describe_assertions(
            span,
            meaning.get("resource") == "MedicationStatement"
            and is_allergen(note["note_text"], span),
        ),
    }


def _describe_assertions(span: Row, is_allergy: bool) -> Row:
    """Whether the patient has or takes it, when, and what else is said of a mention."""
    is_family, is_past = span.get("is_family"), span.get("is_historical")
    is_absent = span.get("is_negated") or is_family or span.get("is_hypothetical") or is_allergy
    exists = "N" if is_absent else None if span.get("is_negated") is None else "Y"
    temporal = None
    if is_past is not None and not span.get("is_hypothetical"):  # there is no word for the future
        temporal = "past" if is_past else "present"
    modifiers = {
        "label": span["label"],
        "negation": span.get("is_negated"),
        "subject": None if is_family is None else "family" if is_family else "patient",
        "conditional": span.get("is_hypothetical"),
        "uncertain": span.get("is_uncertain"),
        "allergy": is_allergy or None,
    }
    names = (SECTION, CONFIDENCE, "code", "code_name", "code_confidence")
    modifiers |= {name: span.get(name) for name in names}
    said = {name: value for name, value in modifiers.items() if value is not None}
    shown = ", ".join(f"{name}={_show(value)}" for name, value in said.items())
    return {"term_exists": exists, "term_temporal": temporal, "term_modifiers": shown[:_MODIFIERS]}


def _show(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.3f}" if isinstance(value, float) else str(value)
