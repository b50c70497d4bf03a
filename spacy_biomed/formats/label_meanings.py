"""What labels mean outside of a pipeline: the FHIR resource, and the system of the codes."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from ..errors import BiomedError, escape, list_choices, quote

RESOURCES = ("Condition", "MedicationStatement", "Observation")


def read_meanings(path: Path | None) -> dict[str, dict[str, str]]:
    """What labels mean: those of the package, with those of a JSON file in their place.

    Each label has an object with `resource` (one of `RESOURCES`, or "" to leave it out) and, if its
    entities have codes, the `system` of the codes as a URI.

    Raises:
        BiomedError: if the file cannot be read, or has something else.
    """
    content = files(__package__).joinpath("label_meanings.json").read_text(encoding="utf8")
    known: dict[str, dict[str, str]] = json.loads(content)
    if path is None:
        return known
    try:
        own = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, RecursionError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not JSON in UTF-8, or nested too deeply"
        raise BiomedError(f"{path}: cannot be read ({escape(reason)}); check the file") from None
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
