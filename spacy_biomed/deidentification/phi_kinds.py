"""Kinds of personal data, and the kinds of known labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from ..errors import BiomedError

# "other" and "profession" have no surrogates and become tags; "keep" is not replaced.
Kind = Literal[
    "name",
    "date",
    "age",
    "phone",
    "id",
    "place",
    "country",
    "institution",
    "profession",
    "email",
    "url",
    "other",
    "keep",
]

MEDDOCAN: dict[str, Kind] = {
    "CALLE": "place",
    "CENTRO_SALUD": "institution",
    "CORREO_ELECTRONICO": "email",
    "EDAD_SUJETO_ASISTENCIA": "age",
    "FAMILIARES_SUJETO_ASISTENCIA": "other",
    "FECHAS": "date",
    "HOSPITAL": "institution",
    "ID_ASEGURAMIENTO": "id",
    "ID_CONTACTO_ASISTENCIAL": "id",
    "ID_EMPLEO_PERSONAL_SANITARIO": "id",
    "ID_SUJETO_ASISTENCIA": "id",
    "ID_TITULACION_PERSONAL_SANITARIO": "id",
    "INSTITUCION": "institution",
    "NOMBRE_PERSONAL_SANITARIO": "name",
    "NOMBRE_SUJETO_ASISTENCIA": "name",
    "NUMERO_FAX": "phone",
    "NUMERO_TELEFONO": "phone",
    "OTROS_SUJETO_ASISTENCIA": "other",
    "PAIS": "country",
    "PROFESION": "profession",
    "SEXO_SUJETO_ASISTENCIA": "other",
    "TERRITORIO": "place",
}

# The seven categories, and their subtypes in the corpus's XML files. The categories are coarser
# than kinds: a hospital annotated as LOCATION becomes a town.
I2B2_2014: dict[str, Kind] = {
    "NAME": "name",
    "PATIENT": "name",
    "DOCTOR": "name",
    "USERNAME": "id",
    "PROFESSION": "profession",
    "LOCATION": "place",
    "ROOM": "id",
    "DEPARTMENT": "institution",
    "HOSPITAL": "institution",
    "ORGANIZATION": "institution",
    "STREET": "place",
    "CITY": "place",
    "STATE": "place",
    "COUNTRY": "country",
    "ZIP": "id",
    "LOCATION-OTHER": "place",
    "AGE": "age",
    "DATE": "date",
    "CONTACT": "phone",
    "PHONE": "phone",
    "FAX": "phone",
    "EMAIL": "email",
    "URL": "url",
    "IPADDR": "id",
    "IPADDRESS": "id",
    "ID": "id",
    "SSN": "id",
    "MEDICALRECORD": "id",
    "HEALTHPLAN": "id",
    "ACCOUNT": "id",
    "LICENSE": "id",
    "VEHICLE": "id",
    "DEVICE": "id",
    "BIOID": "id",
    "IDNUM": "id",
}

STARTER_ES: dict[str, Kind] = {
    "NOMBRE": "name",
    "EDAD": "age",
    "FECHA": "date",
    "LUGAR": "place",
    "HOSPITAL": "institution",
    "IDENTIFICADOR": "id",
    "CONTACTO": "phone",
    "DIAGNOSTICO": "keep",
    "FARMACO": "keep",
    "PROCEDIMIENTO": "keep",
    "MORFOLOGIA_NEOPLASIA": "keep",
}

# Examples of known labels in messages.
EXAMPLES = ("NAME", "PATIENT", "NOMBRE", "NOMBRE_SUJETO_ASISTENCIA")

KINDS_OF_LABELS: dict[str, Kind] = {**MEDDOCAN, **I2B2_2014, **STARTER_ES}


def merge_kinds(component: str, kinds: Mapping[str, str]) -> dict[str, str]:
    """Merge a user's kinds into the kinds of the known labels; the user's take precedence.

    Args:
        component: name of the component, for messages.
        kinds: label to kind.

    Raises:
        BiomedError: if there is no such kind.
    """
    for label, kind in kinds.items():
        if kind not in get_args(Kind):
            raise BiomedError(
                f"[components.{component}.kinds] {label} = '{kind}': no such kind; use one of "
                f"{', '.join(get_args(Kind))}"
            )
    return {**KINDS_OF_LABELS, **kinds}


def identifying_labels(labels: Iterable[str], kinds: Mapping[str, str]) -> list[str]:
    """The labels that are known and have a kind other than "keep"."""
    return [label for label in labels if kinds.get(label, "keep") != "keep"]
