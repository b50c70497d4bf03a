"""Patterns of phrases that a keyword begins, of institutions, addresses, relatives and status, and
of companies.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .pattern_dates import COUNT, UNIT
from .term_lists import shared_terms

_Found = Iterator[tuple[re.Match[str], str]]

_UPPER, _LOWER = "A-ZÁÉÍÓÚÜÑÀÈÒÇ", "a-záéíóúüñàèòç"
# A capitalised word, a name in quotation marks or a day, and the words that join them.
_NAME = (
    rf"(?:[{_UPPER}][\w'´’·-]*\.?|[\"“«'][^\"”»'\n]{{3,40}}[\"”»']"
    rf"|\d{{1,2}} de [{_UPPER}]\w+)"
)
_JOINING = {
    "es": (
        r"(?:de(?:l| la| las| los)?|el|la|las|los|d['’]|i|y|e|da|do|dos|das|en|universitari[oai]"
        r"|general|civil|comarcal|provincial|regional|clínic[oa]?|infantil|militar)"
    ),
    "en": r"(?:of|the|at|and|for|&)",
}
_INSTITUTIONS = {
    "es": (
        rf"\b(?:Hospital|Complejo|Complexo|Cl[íi]nica|Instituto|Institut"
        r"|Fundaci[óo]n?|Universidad|Universitat|Facultad|Centro|Centre|Residencia|Consorci[oa]?"
        r"|Policl[íi]nica|Sanatorio|Maternidad|Ambulatorio|Ciudad (?:Sanitaria|de la Justicia)"
        r"|Corporaci[óo]n|Escuela|Asociaci[óo]n|Laboratorios?|Juzgado|Palacio de|Consejo|IML"
        rf"|Sociedad|Servicio (?:[{_UPPER}][\w-]+ )+de Salud)"
        rf"(?:\s+(?:{_JOINING['es']}\s+)*{_NAME})+",
    ),
    "en": (
        rf"\b(?:[{_UPPER}][\w'’.-]*\s+(?:{_JOINING['en']}\s+)?)+"
        r"(?:Hospital|Clinic|Infirmary|Hospice|Medical Cent(?:er|re)|Health Cent(?:er|re)"
        r"|Nursing Home|University)\b",
    ),
}
# Of a company: "Smith Instruments Ltd". "SL" without dots may be sublingual, "Co" cobalt.
_LEGAL_FORM = r"(?:S\.\s?[AL]\.(?:\s?U\.)?|G[Mm][Bb][Hh]|Ltd|Inc|LLC|Corp(?:oration)?|S\.p\.A)"
_AFTER_KNOWN = rf"(?:{_LEGAL_FORM}|S[AL]U?|Co|AG|BV)"
_STREETS = (
    r"(?:[Cc]/\.?|[Cc]alle|Carrer|Avda?\.?|Av[./,]|[Aa]venida|Avinguda|Plaza|Plaça|Pza\.?|Pl\.|Paseo"
    r"|Passeig|P[º°]|Ctra\.?|Carretera|Camino|Ronda|Traves[íi]a|Urb\.|Urbanizaci[óo]n"
    r"|Pol[íi]gono|Carrera|Glorieta|Rambla|Callej[óo]n|Cuesta|Alameda)"
)
_ADDRESSES = {
    # To the end of the sentence or line, or a postal code.
    "es": (
        rf"\b{_STREETS}\s*(?=[\w\"“«'])(?:[^\n.;()]|(?<=[\wº])\.(?=\s*[\wº])){{3,60}}?"
        r"(?=\s*(?:\.\s|\.?\n|;|\(|\b\d{5}\b|\.?$))",
    ),
    "en": (
        rf"\b\d{{1,5}}[A-Za-z]?(?:\s+(?:[NSEW]\.?|[{_UPPER}][\w'’.-]*)){{1,4}}\s+"
        r"(?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Place|Pl|Square"
        r"|Terrace|Way|Close|Crescent)\b\.?(?:,?\s+(?:Apt|Apartment|Suite|Unit|Flat|#)\.?\s*\w+)?",
        r"\bP\.?\s?O\.?\s+Box\s+\d+",
    ),
}

_KIN = (
    r"(?:padres?|madres?|progenitor(?:es|a)?|hij[oa]s?|herman(?:astr)?[oa]s?|(?:bis)?abuel[oa]s?"
    r"|t[íi][oa]s?|prim[oa]s?|sobrin[oa]s?|(?:bis)?niet[oa]s?|cuñad[oa]s?|suegr[oa]s?|yernos?"
    r"|nueras?|marido|espos[oa]s?|c[óo]nyuge|padrastro|madrastra|gemel[oa]s?|melliz[oa]s?|parejas?)"
)
_ORDINAL = r"(?:primer|segund|tercer|cuart|quint|sext|s[ée]ptim|octav|noven|d[ée]cim)[oa]"
_RELATIVES = (
    rf"\b(?:(?:{COUNT}|amb[oa]s|primer[oa]?|segund[oa]|tercer[oa]?|otr[oa]s?)\s+)?{_KIN}"
    r"(?:\s+(?:matern[oa]s?|patern[oa]s?|gemel[oa]s?|mayor(?:es)?|menor(?:es)?|j[óo]ven(?:es)?"
    r"|herman[oa]s?|mediana|pequeñ[oa]s?)"
    rf"|\s+(?:de|con)\s+(?:(?:su|la|el|una?|otr[oa])\s+){{1,2}}{_KIN}"
    rf"|\s+de\s+{COUNT}(?:\s+y\s+{COUNT})?\s+{UNIT})*\b",
    rf"\b(?:(?:el|la)\s+)?(?:mayor|menor|mediano|mediana|únic[oa]|{_ORDINAL})\s+de\s+{COUNT}\s+{_KIN}\b",
    # "médico de familia" is a profession.
    r"(?<!de )\bfamilia\b",
    r"\b(?:neonato|neonata|reci[ée]n nacid[oa])\b",
)
# Occupations outside the hospital: those within it are in every note.
_OCCUPATIONS = (
    r"\b(?:abogad[oa]|administrativ[oa]|agricultor[a]?|albañil|ama de casa|arquitect[oa]"
    r"|artesan[oa]|azafat[oa]|barrender[oa]|bomber[oa]s?|cajer[oa]|camarer[oa]|camioner[oa]"
    r"|carnicer[oa]|carpinter[oa]|cartero|cazador[a]?|chapista|chófer|cociner[oa]|comercial|conductor[a]?"
    r"|conserje|contable|costurera|deportista(?: profesional)?|dependienta|economista|electricista"
    r"|emplead[oa] (?:en|de) \w+(?: \w+)?|encofrador|estudiante|florista|fontaner[oa]|fotógraf[oa]"
    r"|funcionari[oa]|futbolista|ganader[oa]|granjer[oa]|guardia civil|herrero|hostelería"
    r"|informátic[oa]|ingenier[oa]|jardiner[oa]|jornaler[oa]|joyer[oa]"
    r"|jugador[a]? de \w+|leñador|limpiador[a]?|maestr[oa]|marinero|militar|miner[oa]"
    r"|modista|monitor[a]? de \w+|músico|obrer[oa]|oficinista|panader[oa]|pastor|peluquer[oa]"
    r"|pensionista|periodista|pescador[a]?|pintor[a]?|policía|profesor[a]?(?: de \w+)?"
    r"|recepcionista|sastre|secretari[oa]|soldador[a]?|tareas del hogar|taxista"
    r"|tender[oa]|torner[oa]|trabajador[a]? (?:en|de) \w+|vendedor[a]?"
    r"|veterinari[oa]|vigilante(?: de seguridad)?|zapater[oa])\b",
    # What somebody works as, to the end of the phrase.
    r"\b(?:trabaj(?:a|aba|ado|ando|ador[a]?) (?:como|de)|de profesión:?|profesión:)\s+"
    r"(?P<value>[^\n.,;:()]{3,50}?)(?=\s+(?:y|que|con|desde|en|durante)\b|[\n.,;:()]|$)",
)
_STATUS = (
    r"\b(?:solter|casad|viud|divorciad)[oa]s?\b",
    r"\b(?:lactante|adolescente|(?:homo|hetero|bi)sexual|hij[oa] únic[oa])\b",
    r"\b(?:argelin|argentin|bolivian|brasileñ|caucásic|chilen|colombian|dominican|ecuatorian|gitan"
    r"|hondureñ|mexican|paraguay|peruan|rumana?|rus|salvadoreñ|senegales|subsaharian|uruguay"
    r"|venezolan)[oa]\b|\b(?:marroquí|magrebí|paquistaní|nicaragüense|nigeriano)\b",
    r"\b(?:raza|etnia|nacionalidad|ascendencia)\s+\w+",
    # "de origen cardíaco" is no nationality.
    r"\b(?:de origen|natural de|nacid[oa] en)\s+(?P<value>\w+(?:iano|iana|eño|eña|és|esa|ense|í)"
    r"|español[a]?|(?:afric|americ|mexic|peru|git|rum|cub|venezol)an[oa]|árabe|chin[oa]|rus[oa]"
    r"|búlgar[oa]|afgan[oa]|polac[oa])\b",
)
_SEX = (
    r"\b(?:hombre|mujer|var[óo]n|niñ[oa]|señora?)\b",
    r"\bsexo[:\s]+(?P<value>masculino|femenino|hombre|mujer|var[óo]n|[HMVF]\b)",
)


def _name_companies() -> tuple[str, ...]:
    """Known makers, with what joins their name, and names before a legal form."""
    names = sorted(shared_terms("companies"), key=lambda name: (-len(name), name))
    known = "|".join(re.escape(name) for name in names)
    more = rf"(?:[ ][{_UPPER}][\w&-]+){{0,4}}?"
    return (
        rf"(?<![\w-])(?:{known})(?![\w’'-])(?:{more},?[ ]{_AFTER_KNOWN}(?![\w-])\.?)?",
        rf"(?<![\w-])[{_UPPER}][\w&®-]+{more},?[ ]{_LEGAL_FORM}(?![\w-])\.?",
    )


def _compile(forms: tuple[str, ...], flags: int = 0) -> list[re.Pattern[str]]:
    return [re.compile(form, flags) for form in forms]


_FORMS: dict[str, list[tuple[str, list[re.Pattern[str]]]]] = {
    language: [
        ("address", _compile(_ADDRESSES[language])),
        ("institution", _compile(_INSTITUTIONS[language] + _name_companies())),
    ]
    for language in ("en", "es")
}
_FORMS["es"] += [
    ("relative", _compile(_RELATIVES, re.IGNORECASE)),
    ("status", _compile(_STATUS, re.IGNORECASE)),
    ("sex", _compile(_SEX, re.IGNORECASE)),
    ("profession", _compile(_OCCUPATIONS, re.IGNORECASE)),
]


def find_phrases(text: str, language: str) -> _Found:
    """Find institutions and addresses by their first or last word, and companies by a list or their
    legal form; in Spanish also relatives, marital status, origin and sex.
    """
    for pattern, forms in _FORMS[language]:
        for form in forms:
            for match in form.finditer(text):
                yield match, pattern
