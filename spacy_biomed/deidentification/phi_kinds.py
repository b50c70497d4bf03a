"""Kinds of personal data, and the kinds of known labels."""

from collections.abc import Iterable, Mapping
from typing import Literal, get_args

from ..errors import BiomedError, list_choices

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

# The labels of each kind, by corpus.
_MEDDOCAN: dict[Kind, str] = {
    "name": "NOMBRE_PERSONAL_SANITARIO NOMBRE_SUJETO_ASISTENCIA",
    "date": "FECHAS",
    "age": "EDAD_SUJETO_ASISTENCIA",
    "phone": "NUMERO_FAX NUMERO_TELEFONO",
    "id": "ID_ASEGURAMIENTO ID_CONTACTO_ASISTENCIAL ID_EMPLEO_PERSONAL_SANITARIO "
    "ID_SUJETO_ASISTENCIA ID_TITULACION_PERSONAL_SANITARIO",
    "place": "CALLE TERRITORIO",
    "country": "PAIS",
    "institution": "CENTRO_SALUD HOSPITAL INSTITUCION",
    "profession": "PROFESION",
    "email": "CORREO_ELECTRONICO",
    "other": "FAMILIARES_SUJETO_ASISTENCIA OTROS_SUJETO_ASISTENCIA SEXO_SUJETO_ASISTENCIA",
}
# The seven categories, and their subtypes in the corpus's XML files. The categories are coarser
# than kinds: a hospital annotated as LOCATION becomes a town.
_I2B2_2014: dict[Kind, str] = {
    "name": "NAME PATIENT DOCTOR",
    "date": "DATE",
    "age": "AGE",
    "phone": "CONTACT PHONE FAX",
    "id": "USERNAME ROOM ZIP IPADDR IPADDRESS ID SSN MEDICALRECORD HEALTHPLAN ACCOUNT LICENSE "
    "VEHICLE DEVICE BIOID IDNUM",
    "place": "LOCATION STREET CITY STATE LOCATION-OTHER",
    "country": "COUNTRY",
    "institution": "DEPARTMENT HOSPITAL ORGANIZATION",
    "profession": "PROFESSION",
    "email": "EMAIL",
    "url": "URL",
}
# The labels of the starter corpus, and others that the shipped Spanish pipeline finds.
_STARTER_ES: dict[Kind, str] = {
    "name": "NOMBRE",
    "date": "FECHA",
    "age": "EDAD",
    "phone": "CONTACTO",
    "id": "IDENTIFICADOR",
    "place": "LUGAR",
    "institution": "HOSPITAL",
    "profession": "PROFESION",
    "other": "FAMILIAR SEXO",
    "keep": "DIAGNOSTICO FARMACO PROCEDIMIENTO MORFOLOGIA_NEOPLASIA PROTEINA",
}

KINDS_OF_LABELS: dict[str, Kind] = {
    label: kind
    for corpus in (_MEDDOCAN, _I2B2_2014, _STARTER_ES)
    for kind, labels in corpus.items()
    for label in labels.split()
}

# Examples of known labels in messages.
EXAMPLES = ("NAME", "PATIENT", "NOMBRE", "NOMBRE_SUJETO_ASISTENCIA")


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
                f"[components.{component}.kinds] {label} = '{kind}': no such kind; "
                f"{list_choices(kind, get_args(Kind))}"
            )
    return {**KINDS_OF_LABELS, **kinds}


def identifying_labels(labels: Iterable[str], kinds: Mapping[str, str]) -> list[str]:
    """The labels that are known and have a kind other than "keep"."""
    return [label for label in labels if kinds.get(label, "keep") != "keep"]
