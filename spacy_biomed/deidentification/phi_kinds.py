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

# The labels of each kind: of MEDDOCAN; of i2b2 2014, its seven categories and their subtypes in the
# XML files; of the starter corpus, and others that the shipped Spanish pipeline finds. Categories
# are coarser than kinds: a hospital annotated as LOCATION becomes a town.
_LABELS: dict[Kind, str] = {
    "name": "NOMBRE_PERSONAL_SANITARIO NOMBRE_SUJETO_ASISTENCIA NAME PATIENT DOCTOR NOMBRE",
    "date": "FECHAS DATE FECHA",
    "age": "EDAD_SUJETO_ASISTENCIA AGE EDAD",
    "phone": "NUMERO_FAX NUMERO_TELEFONO CONTACT PHONE FAX CONTACTO",
    "id": "ID_ASEGURAMIENTO ID_CONTACTO_ASISTENCIAL ID_EMPLEO_PERSONAL_SANITARIO "
    "ID_SUJETO_ASISTENCIA ID_TITULACION_PERSONAL_SANITARIO "
    "USERNAME ROOM ZIP IPADDR IPADDRESS ID SSN MEDICALRECORD HEALTHPLAN ACCOUNT LICENSE VEHICLE "
    "DEVICE BIOID IDNUM IDENTIFICADOR",
    "place": "CALLE TERRITORIO LOCATION STREET CITY STATE LOCATION-OTHER LUGAR",
    "country": "PAIS COUNTRY",
    "institution": "CENTRO_SALUD HOSPITAL INSTITUCION DEPARTMENT ORGANIZATION",
    "profession": "PROFESION PROFESSION",
    "email": "CORREO_ELECTRONICO EMAIL",
    "url": "URL",
    "other": "FAMILIARES_SUJETO_ASISTENCIA OTROS_SUJETO_ASISTENCIA SEXO_SUJETO_ASISTENCIA "
    "FAMILIAR SEXO",
    "keep": "DIAGNOSTICO FARMACO PROCEDIMIENTO MORFOLOGIA_NEOPLASIA PROTEINA",
}
KINDS_OF_LABELS: dict[str, Kind] = {
    label: kind for kind, labels in _LABELS.items() for label in labels.split()
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
