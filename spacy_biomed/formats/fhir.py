"""FHIR R4 resources as NDJSON, a folder for each type: conditions, drugs, allergies and others.

The codes of status are those of HL7's specification (https://hl7.org/fhir/R4/).
"""

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from hashlib import blake2b
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..annotations.assertions import ASSERTIONS
from ..annotations.sections import SECTION
from ..errors import BiomedError, list_choices, quote
from ..files.compression import reading
from .allergens import ALLERGIES, ALLERGY_WORD, is_allergen
from .findings import CONFIDENCE, AnnotatedDocument, AnnotatedShard, Row, list_entities
from .json_fields import parse_json
from .registry import Format

# The resources that labels may mean.
RESOURCES = ("Condition", "MedicationStatement", "Observation")
FAMILY_HISTORY, ALLERGY = "FamilyMemberHistory", "AllergyIntolerance"
_REACTION = re.compile(
    r"[ ]?(?:[(:–→=|\t-]|(?:with|con|causes?|produce)\b)[^.;\n)]{0,40}", re.IGNORECASE
)

_HL7 = "http://terminology.hl7.org/CodeSystem"
# Strings of FHIR have no control characters but tabs and line ends.
_CONTROLS = dict.fromkeys({*range(32)}.difference(b"\t\n\r"), " ")
# The URL of the extension with the place of a mention.
MENTION = "urn:spacy-biomed:mention"

Resource = dict[str, Any]


def read_meanings(path: Path | None) -> dict[str, dict[str, str]]:
    """What labels mean: those of the package, with those of a JSON file in their place.

    Each label has an object with `resource` (one of `RESOURCES`, or "" to leave it out) and, if its
    entities have codes, the `system` of the codes as a URI. Anything else is a `BiomedError`.
    """
    packaged = files(__package__).joinpath("label_meanings.json")
    known: dict[str, dict[str, str]] = json.loads(packaged.read_text(encoding="utf8"))
    if path is None:
        return known
    with reading(path):
        text = path.read_text(encoding="utf-8-sig")
    own = parse_json(text, str(path), "check the file")
    for label, meaning in own.items() if isinstance(own, dict) else [("", None)]:
        is_meant = isinstance(meaning, dict) and {*meaning} <= {"resource", "system"}
        if not is_meant or not all(isinstance(one, str) for one in meaning.values()):
            raise BiomedError(
                f"{path}: {quote(label)}: write each label as in "
                '{"DISEASE": {"resource": "Condition", "system": "http://snomed.info/sct"}}'
            )
        named = meaning.get("resource")
        if named not in (*RESOURCES, ""):
            raise BiomedError(
                f"{path}: {quote(label)}: unknown resource {quote(named)}; leave the label out "
                f"with an empty one, or {list_choices(str(named), RESOURCES)}"
            )
    return {**known, **own}


def write_fhir(shard: AnnotatedShard) -> dict[str, bytes]:
    """Write a folder for each type of resource, with a file of NDJSON for each shard.

    What is negated is refuted, not taken or false. What a relative has is family history. What may
    happen is left out. A drug that somebody is allergic to is an allergy, with the reaction that
    follows it. What else is in a section of allergies is not taken. `shard.counts` counts what is
    left out.
    """
    lines: dict[str, list[str]] = defaultdict(list)
    for document in shard.documents:
        for resource in map(_without_controls, _create_resources(document, shard)):
            line = json.dumps(resource, ensure_ascii=False, separators=(",", ":"))
            lines[resource["resourceType"]].append(f"{line}\n")
    return {f"{type}/{shard.name}.ndjson": "".join(rows).encode() for type, rows in lines.items()}


FHIR = Format(write=write_fhir, is_clinical=True)


def _create_resources(document: AnnotatedDocument, shard: AnnotatedShard) -> list[Resource]:
    patient = {"identifier": {"value": document.item.patient or document.item.id}}
    text = document.doc.text
    digest = blake2b(text.encode("utf8"), digest_size=16).hexdigest()
    resources: list[Resource] = []
    allergy, end = None, 0
    for span in list_entities(document.found):
        meaning = shard.meanings.get(span["label"], {})
        made = meaning.get("resource") or ""
        is_denied = span.get("is_negated") or span.get("is_uncertain")
        if made == "MedicationStatement" and is_allergen(text, span):
            made = ALLERGY
        elif made == "Condition" and span.get("is_family"):
            made = FAMILY_HISTORY
        left_out = ""
        if not made:
            left_out = "label"
        elif ALLERGY_WORD.fullmatch(span["text"]) or (
            made == "MedicationStatement" and span.get(SECTION) == ALLERGIES
        ):
            left_out = ALLERGIES
        elif span.get("is_hypothetical"):
            left_out = "hypothetical"
        elif span.get("is_family") and (is_denied or made != FAMILY_HISTORY):
            left_out = "family"
        if left_out:
            shard.counts[f"left out ({left_out})"] += 1
            continue
        code = _code(span, meaning)
        if allergy and made == "Condition" and _REACTION.fullmatch(text, end, span["start"]):
            reactions = allergy.setdefault("reaction", [{"manifestation": []}])
            reactions[0]["manifestation"].append(code)
            shard.counts["reaction"] += 1
            continue
        shard.counts[made] += 1
        resource = {
            "resourceType": made,
            "id": _create_id(document, span, digest),
            "extension": [_describe_mention(document, span, shard.pipeline)],
            **_fill(made, span, code, patient),
        }
        if made == ALLERGY:
            allergy, end = resource, span["end"]
        resources.append(resource)
    return resources


def _without_controls(value: Any) -> Any:
    """A value of JSON with spaces for the characters that strings of FHIR do not have."""
    if isinstance(value, dict):
        return {name: _without_controls(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_without_controls(one) for one in value]
    return value.translate(_CONTROLS) if isinstance(value, str) else value


# The status of what nobody looked at, and of what is negated, uncertain or present.
_STATUS = {
    "Condition": ("unconfirmed", "refuted", "provisional", "confirmed"),
    "MedicationStatement": ("unknown", "not-taken", "unknown", "active"),
    "Observation": ("unknown", "final", "preliminary", "final"),
    ALLERGY: ("unconfirmed", "refuted", "unconfirmed", "confirmed"),
}


def _fill(made: str, span: Row, code: Resource, patient: Resource) -> Resource:
    """The fields of a type of resource."""
    if made == FAMILY_HISTORY:
        return {
            "status": "partial",
            "patient": patient,
            "relationship": _choose("v3-RoleCode", "FAMMEMB"),
            "condition": [{"code": code}],
        }
    status, negated, uncertain, present = _STATUS[made]
    if span.get("is_negated") is not None:
        status = negated if span["is_negated"] else uncertain if span["is_uncertain"] else present
    is_past = span.get("is_historical")
    if made == "MedicationStatement":
        if status == "active" and is_past is not False:
            status = "completed" if is_past else "unknown"
        return {"status": status, "medicationCodeableConcept": code, "subject": patient}
    if made == "Observation":
        value = {"valueBoolean": not span["is_negated"]} if status == "final" else {}
        return {"status": status, "code": code, "subject": patient, **value}
    if made == ALLERGY:
        # HL7 wants a clinical status of what is refuted too. What is past may come again.
        stage = "inactive" if status == "refuted" else "active"
        return {
            "clinicalStatus": _choose("allergyintolerance-clinical", stage),
            "verificationStatus": _choose("allergyintolerance-verification", status),
            "code": code,
            "patient": patient,
        }
    verification = _choose("condition-ver-status", status)
    condition = {"verificationStatus": verification, "code": code, "subject": patient}
    # A condition that the patient does not have is in no stage.
    if status != "refuted" and is_past is not None:
        stage = "inactive" if is_past else "active"
        condition["clinicalStatus"] = _choose("condition-clinical", stage)
    return condition


def _choose(system: str, code: str) -> Resource:
    return {"coding": [{"system": f"{_HL7}/{system}", "code": code}]}


def _code(span: Row, meaning: Mapping[str, str]) -> Resource:
    """The words of a mention and its code, if it has one."""
    if not span.get("code"):
        return {"text": span["text"]}
    code = {"system": meaning.get("system"), "code": span["code"], "display": span.get("code_name")}
    return {"text": span["text"], "coding": [{name: one for name, one in code.items() if one}]}


def _create_id(document: AnnotatedDocument, span: Row, digest: str) -> str:
    """The same for the same mention of the same text, of which it gets a digest, in any run."""
    item = document.item
    place = [item.id, item.patient, *(span[key] for key in ("start", "end", "label", "group"))]
    content = json.dumps([*place, digest])
    return blake2b(content.encode("utf8"), digest_size=16).hexdigest()


def _describe_mention(document: AnnotatedDocument, span: Row, pipeline: str) -> Resource:
    """An extension with the place of a mention and where it is from."""
    values: dict[str, Resource] = {
        "valueString": {
            "document": document.item.id,
            "text": span["text"],
            "label": span["label"],
            SECTION: span.get(SECTION),
            "pipeline": pipeline,
        },
        "valueUnsignedInt": {"start": span["start"], "end": span["end"]},
        "valueDecimal": {
            name: span.get(name) and round(span[name], 6)
            for name in (CONFIDENCE, "code_confidence")
        },
        "valueBoolean": {name: span.get(name) for name in ASSERTIONS},
    }
    parts = [
        {"url": name, type: value}
        for type, named in values.items()
        for name, value in named.items()
        if value not in (None, "")
    ]
    return {"url": MENTION, "extension": parts}
