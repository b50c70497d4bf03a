"""Patterns of phrases that a keyword begins, of institutions, addresses, relatives and status, and
of companies.
"""

from __future__ import annotations

import re

from .pattern_dates import COUNT, UNIT
from .pattern_rules import Found, Rule, apply_rules, caseless, is_eponym, rule
from .plain_text import PlainText, fold
from .term_lists import is_clinical_term, name_words, shared_terms, word_list

_UPPER, _LOWER = "A-ZÁÉÍÓÚÜÑÀÈÒÇ", "a-záéíóúüñàèòç"
# A capitalised word, a name in quotation marks or a day, and the words that join them.
_NAME = (
    rf"(?:[{_UPPER}][\w'´·-]*\.?|[\"“«'][^\"”»'\n]{{3,40}}[\"”»']"
    rf"|\d{{1,2}} de [{_UPPER}]\w+)"
)
_JOINING = {
    "es": (
        r"(?:de(?:l| la| las| los)?|el|la|las|los|d['’]|i|y|e|da|do|dos|das|en|universitari[oai]"
        r"|general|civil|comarcal|provincial|regional|clínic[oa]?|infantil|militar)"
    ),
    "en": r"(?:of|the|at|and|for|&)",
}
_KEYWORDS = (
    r"Hospital(?:es)?|Hosp\.|Complejo|Complexo|Cl[íi]nica|Instituto|Institut|Fundaci[óo]n?"
    r"|Universidad|Universitat|Facultad|Centro|Centre|Residencia|Consorci[oa]?|Policl[íi]nica"
    r"|Sanatorio|Maternidad|Ambulatorio|Ciudad (?:Sanitaria|de la Justicia)|Corporaci[óo]n"
    r"|Escuela|Asociaci[óo]n|Laboratorios?|Juzgado|Palacio de|Consejo|IML|Sociedad"
    r"|Supermercados?|Talleres|Panader[íi]a|Ferreter[íi]a|Astilleros|Bodegas|Conservas|Transportes"
    r"|Construcciones|Muebles|Cristaler[íi]a|Carpinter[íi]a|Carnicer[íi]a|Pescader[íi]a|Librer[íi]a"
    r"|Peluquer[íi]a|Restaurante|Cafeter[íi]a|Gestor[íi]a|Autoescuela|Inmobiliaria|Guarder[íi]a"
    r"|Almacenes|Convento|Parroquia"
)
_INSTITUTIONS = {
    "es": (
        rf"\b(?:{_KEYWORDS}|Servicio (?:[{_UPPER}][\w-]+ )+de Salud|H\.(?=[ ](?:U\.|La|Cl)))"
        rf"(?:[ ](?:{_JOINING['es']}[ ]){{0,4}}{_NAME}){{1,12}}",
        # In capitals, or in lower case; `_trim` takes what is a name.
        r"\b(?:hospital|HOSPITAL|(?<=la )cl[íi]nica|CL[ÍI]NICA|centro de salud|CENTRO DE SALUD"
        r"|residencia|RESIDENCIA"
        r"|ambulatorio|AMBULATORIO|policl[íi]nica|POLICL[ÍI]NICA|sanatorio|SANATORIO|C\.?S\.?"
        r"|c\.s\.|CAP)"
        rf"(?:[ ](?i:{_JOINING['es']}))*(?:[ ][^\W\d_][\w-]+|[ ]\d\d? de [a-zA-Z]+){{1,4}}",
        r"\b(?:(?:en|al|del?|desde|por|a|uci|urgencias|planta)(?: el| la| l)?)[ ]"
        r"(?P<value>(?:hospital |hosp\.? )?{hospitals})(?![\w-])",
        rf"\b(?i:viene|procede\w*|derivad[oa]|remitid[oa]|trasladad[oa]|ingresad[oa]|operad[oa]"
        rf"|intervenid[oa]|seguid[oa]) (?:del|al|en el|desde el) (?P<value>[{_UPPER}]\w{{3,}})",
        # Acronyms of hospitals, where a hospital is to be expected.
        r"\b(?:(?i:en|al|del|desde) (?i:el |la )?|(?i:hospital|hosp\.|centro):? )(?P<value>"
        r"H[A-Z]{2,6}|H[A-Z][a-z][A-Z]{1,3}|CH[A-Z]{2,5}|C[HS][A-Z]{1,4}|HUGTiP|CAP [A-Z]\w+"
        r"|[A-Z]{1,3}HU[A-Z]{0,3})(?![\w-])",
    ),
    "en": (
        r"\b(?:at|to|from|in) (?P<value>{hospitals})(?![\w-])",
        rf"\b(?:[{_UPPER}][\w'.-]*[ ]+(?:{_JOINING['en']}[ ]+)?){{1,8}}"
        r"(?:Hospital|HOSPITAL|Clinic|CLINIC|Infirmary|Hospice|Medical Cent(?:er|re)|MEDICAL CENTER"
        r"|Health Cent(?:er|re)|Nursing Home|NURSING HOME|University|UNIVERSITY)\b",
        # Schools, homes and employers, of which one word is not ordinary.
        rf"\b(?P<named>(?:[{_UPPER}][\w'.-]*[ ]+){{1,5}})(?:(?:High |Middle |Primary "
        rf"|Elementary )?School"
        r"|College|Academy|Primary|Elementary|Kindergarten|Preschool|Nursery|Manor|Lodge|Care Home"
        r"|Rehab(?:ilitation)?|Medical Group|Health(?:care)?|Health System|(?:NHS )?Trust|Surgery"
        r"|Practice"
        r"|Pharmacy|Prison|Freight|Logistics|Foods|Motors|Construction|Industries|Steel|Plumbing"
        r"|Farms?"
        r"|Bakery|Brewery|Transport|Mills?|Shipyards?|Library|Church|Hotel|Foundry|Supermarkets?|Garage|Salon"
        r"|Restaurant|Textiles|Engineering|Airlines|Airways|Railways?|Solicitors|Holdings|Software"
        r"|Technologies|Vineyards?|Winery|Dairy|Fisheries|Orchards?|Landscaping|Roofing|Haulage"
        r"|Plastics|Quarry|Colliery|Council|Builders|Couriers|Stores)\b",
        r"\b(?:(?i:works?|worked|working|employed|employee|job|position)|[a-z]{3,12}(?:er|or|ist"
        r"|ian|man"
        r"|clerk|nurse|student|pupil|resident|chef|cook))(?: (?:now|part|full|time|as|an?"
        r"|[a-z]{4,12}))"
        rf"{{0,4}} (?:at|for|by|with|of) (?P<value>(?P<named>[{_UPPER}][\w'-]{{3,}}(?:[ ](?:& )?"
        rf"[{_UPPER}][\w'-]+){{0,3}}))(?!\w)",
        r"\b(?i:seen|treated|operated(?: on)?|admitted|transferred|referred|discharged|repatriated"
        r"|airlifted|followed(?: up)?|stented|scanned|inpatient) (?:at|from|to) "
        rf"(?P<value>(?P<named>[{_UPPER}][\w'-]{{4,}}(?:[ ][{_UPPER}][\w'-]+){{0,3}}))(?!\w)",
    ),
}
# The end of a company's name: "Smith Instruments Ltd". "SL" without dots may be sublingual, "Co"
# cobalt.
_LEGAL_FORM = r"(?:S\.\s?[AL]\.(?:\s?U\.)?|G[Mm][Bb][Hh]|Ltd|Inc|LLC|Corp(?:oration)?|S\.p\.A)"
_AFTER_KNOWN = rf"(?:{_LEGAL_FORM}|S[AL]U?|Co|AG|BV)"
_STREETS = (
    r"(?:c/\.?|calle|carrer|avda?\.?|av[./,]|avenida|avinguda|plaza|plaça|pza\.?|pl\.|paseo"
    r"|passeig|p[º°]|ctra\.?|carretera|camino|ronda|traves[íi]a|urb\.|urbanizaci[óo]n"
    r"|pol[íi]gono|carrera|glorieta|rambla|callej[óo]n|cuesta|alameda|partida|r[úu]a|barriada"
    r"|pasaje|bulevar|finca)"
)
_ADDRESSES = {
    # To the end of the sentence or line, or a postal code.
    "es": (
        rf"\b(?P<street>(?i:{_STREETS}))[ ]?(?=[\w\"“«'])"
        r"(?P<name>(?:[^\n.;()]|(?<=[\wº])\.(?=[ ]?[\wº])){3,60}?)"
        r"(?=[ ]?(?:\.[ ]|\.?\n|;|\(|\b\d{5}\b|\.?\Z|(?<=\d)[ ][a-z]|(?<=\d[a-z])[ ][a-z]))",
    ),
    "en": (
        rf"\b\d{{1,5}}[A-Za-z]?(?:[ ]+(?:[NSEW]\.?|[{_UPPER}][\w'.-]*)){{1,4}}[ ]+"
        r"(?i:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Court|Ct|Place|Pl|Square"
        r"|Terrace|Way|Close|Crescent|Circle|Cir|Gardens|Grove|Mews|Row|Parade|Parkway|Pkwy"
        r"|Highway|Hwy"
        r"|Trail|Circuit|Esplanade|Quay|Wharf|Walk|Rise|Hill|Park|Green|Gate|View|Mount|Vale|Path"
        r"|Loop)"
        r"\b\.?(?:,?[ ]+(?:Apt|Apartment|Suite|Unit|Flat"
        r"|#)\.?[ ]*\w+)?",
        r"\b\d{1,5}[a-z]?(?: [a-z'-]{3,15}){1,3} (?:street|avenue|road|boulevard|lane)\b",
        r"\bP\.?[ ]?O\.?[ ]+Box[ ]+\d+",
    ),
}

KIN = (
    r"(?:padres?|madres?|progenitor(?:es|a)?|hij[oa]s?|herman(?:astr)?[oa]s?|(?:bis)?abuel[oa]s?"
    r"|t[íi][oa]s?|prim[oa]s?|sobrin[oa]s?|(?:bis)?niet[oa]s?|cuñad[oa]s?|suegr[oa]s?|yernos?"
    r"|nueras?|marido|espos[oa]s?|c[óo]nyuge|padrastro|madrastra|gemel[oa]s?|melliz[oa]s?|parejas?)"
)
_ORDINAL = r"(?:primer|segund|tercer|cuart|quint|sext|s[ée]ptim|octav|noven|d[ée]cim)[oa]"
_RELATIVES = (
    rf"\b(?:(?:{COUNT}|amb[oa]s|primer[oa]?|segund[oa]|tercer[oa]?|otr[oa]s?)[ ])?{KIN}"
    r"(?:[ ](?:matern[oa]s?|patern[oa]s?|gemel[oa]s?|mayor(?:es)?|menor(?:es)?|j[óo]ven(?:es)?"
    r"|herman[oa]s?|mediana|pequeñ[oa]s?)"
    rf"|[ ](?:de|con)[ ](?:(?:su|la|el|una?|otr[oa])[ ]){{1,2}}{KIN}"
    rf"|[ ]de[ ]{COUNT}(?:[ ]y[ ]{COUNT})?[ ]{UNIT})*\b",
    rf"\b(?:(?:el|la)[ ])?(?:mayor|menor|mediano|mediana|únic[oa]"
    rf"|{_ORDINAL})[ ]de[ ]{COUNT}[ ]{KIN}\b",
    # "médico de familia" is a profession.
    r"(?<!de )\bfamilia\b",
    r"\b(?:neonato|neonata|reci[ée]n nacid[oa])\b",
)
# Occupations outside the hospital: those within it are in every note.
_OCCUPATIONS = (
    r"\b(?:abogad[oa]|administrativ[oa]|agricultor[a]?|albañil|ama de casa|arquitect[oa]"
    r"|artesan[oa]|azafat[oa]|barrender[oa]|bomber[oa]s?|cajer[oa]|camarer[oa]|camioner[oa]"
    r"|carnicer[oa]|carpinter[oa]|cartero|cazador[a]?|chapista|chófer|cociner[oa]|comercial"
    r"|conductor[a]?"
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
    # "de origen cardíaco" is not a nationality.
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


def is_unnamed(value: str, language: str) -> bool:
    """Whether an institution has no name: "hospital de día", "Centro de Salud de referencia"."""
    general, ordinary = word_list("no_institutions"), name_words(language).ordinary
    kept = value.rstrip(".,")
    while fold(kept) not in general:
        kept, _, last = kept.rpartition(" ")
        is_name = not last.islower() or _GENERAL.fullmatch(last)
        if " " not in kept or is_name or not (last in _JOINING_WORDS or fold(last) in ordinary):
            return False
    return True


# What an institution may be called that is general, and what names none.
_GENERAL = re.compile(
    r"(?:general|cl[ií]nico|universitari[oa]|comarcal|regional|provincial|nacional|militar|infantil"
    r"|materno|salud|psiqui[aá]tric[oa]|penitenciari[oa]|central|civil|norte|sur|este|oeste"
    r"|medicina)"
)
_LAST_WORD = re.compile(r"[ ]([^\s]+)\Z")


def _trim(text: str, start: int, end: int, language: str) -> int:
    """The end of an institution without the words of what follows, as in "Hospital La Paz TAC".

    Returns:
        the start, if nothing is left that names it.
    """
    ordinary = name_words(language).ordinary
    value = text[start:end]
    is_general = is_unnamed(value, language)
    if is_general or is_eponym(text, start):
        return start
    has_capitals = not value.isupper() and value[0].isupper()
    while last := _LAST_WORD.search(value):
        word = last[1].strip("\"'.,;:")
        form = fold(word)
        goes_on = text[start + len(value) : start + len(value) + 2].strip(" ")
        is_part = form not in ordinary or word.isdigit() or _GENERAL.fullmatch(form)
        if has_capitals and word[:1].isupper() and not (word.isupper() and len(word) < 6):
            is_part = is_part or not (goes_on[:1] == ":" or goes_on[:1].islower())
        if is_part and form not in _JOINING_WORDS:
            break
        value = value[: last.start()]
    last_word = fold(value.rpartition(" ")[2])
    has_name = " " in value and (
        has_capitals or not (_GENERAL.fullmatch(last_word) or last_word in _JOINING_WORDS)
    )
    return start + len(value) if has_name else start


_JOINING_WORDS = frozenset(
    ["de", "del", "la", "las", "el", "los", "en", "y", "i", "e", "d", "da", "do", "dos"]
)


_HOUSE = re.compile(
    r"(?:[,º.]|\b)[ ]?\d{1,4}[ºª]?(?:[ ]?[a-zA-Z]\b)?(?!\w|[.,]\d|[ ]?(?:min|km|m|h|horas?|mg|kg"
    r"|veces|d[íi]as?|semanas?|meses|a[ñn]os|pasos|%)\b)|\bs/n\b"
)
# Keywords that are also other words.
_WORDS = frozenset(["paseo", "camino", "ronda", "plaza", "carrera", "cuesta", "rambla", "urb."])
_NEEDS_HOUSE = frozenset(["poligono", "partida", "pasaje", "finca", "barriada"])


def _is_street(match: re.Match[str]) -> bool:
    """Whether a street has a name: a capitalised word that is not ordinary, or a house number.

    "C/ TAC craneal" (with a scan) and "c/ 8 h" (every eight hours) are not streets.
    """
    keyword, value = match["street"], match["name"]
    names = [
        word for word in re.findall(r"[^\W\d_][\w'-]*", value) if fold(word) not in _JOINING_WORDS
    ]
    if not any(len(word) > 1 for word in names):
        return False
    if fold(keyword) in _NEEDS_HOUSE and not _HOUSE.search(value):
        return False
    ordinary = name_words("es").ordinary
    proper = [word for word in names if fold(word) not in ordinary]
    has_house = _HOUSE.search(value) is not None
    if keyword[0].isupper() and not match[0].isupper() and names[0][0].isupper():
        is_acronym = names[0].isupper() and names[0] not in proper
        is_named = bool(proper) and names[0] in proper
        return not is_acronym and (has_house or is_named or _has_title(names[1:]))
    if has_house and keyword.lower() in _WORDS:
        return bool(proper)
    if has_house:
        return bool(proper) or "," in value or not keyword.lower().startswith("c/")
    return bool(proper) and match[0].isupper() and keyword.lower() in _PLAIN_STREETS


def _has_road(match: re.Match[str]) -> bool:
    """Whether a number and capitalised words do not name a test, as in "6 Minute Walk"."""
    words = re.findall(r"[^\W\d_][\w'-]+", match[0])
    if fold(words[-1]) not in _ROAD_WORDS:
        return True
    ordinary = name_words("en").ordinary
    is_address = re.compile(r",? (?:[A-Z][a-z]+,? )?[A-Z]{1,2}\d|, [A-Z][a-z]")
    has_place = is_address.match(match.string, match.end()) is not None
    return has_place or any(fold(word) not in ordinary for word in words[:-1])


_ROAD_WORDS = frozenset(
    ["way", "close", "place", "drive", "square", "court", "circle", "row", "walk", "rise", "hill"]
    + ["park", "green", "gate", "view", "mount", "vale", "path", "loop", "trail", "circuit"]
)
_PLAIN_STREETS = frozenset(["calle", "avda.", "avda", "avenida", "plaza", "paseo", "carretera"])


def _has_title(words: list[str]) -> bool:
    return any(word[:1].isupper() and not word.isupper() for word in words)


def _is_named(match: re.Match[str]) -> bool:
    """Whether a word of its name, if it needs any, is neither ordinary nor a clinical term."""
    named = match.groupdict().get("named")
    if named is None:
        return True
    ordinary = name_words("en").ordinary
    words = [fold(word) for word in re.findall(r"[^\W\d_][\w-]+", named)]
    is_whole = match.groupdict().get("value") is not None
    words = words[:1] if is_whole else words
    return any(
        len(word) > 2 and word not in ordinary and not is_clinical_term(word) for word in words
    )


_CASELESS = {"relative": _RELATIVES, "status": _STATUS, "sex": _SEX, "profession": _OCCUPATIONS}
_HOSPITALS = "|".join(map(re.escape, sorted(shared_terms("hospitals"), key=len, reverse=True)))
_INSTITUTION_RULES = {
    language: [
        rule("institution", form.replace("{hospitals}", _HOSPITALS), _is_named) for form in forms
    ]
    for language, forms in _INSTITUTIONS.items()
}
_RULES: dict[str, list[Rule]] = {
    "es": [rule("address", form, _is_street) for form in _ADDRESSES["es"]],
    "en": [rule("address", form, _has_road) for form in _ADDRESSES["en"]],
}
_COMPANIES = [rule("institution", form) for form in _name_companies()]
_OPTIONAL = [caseless(pattern, form) for pattern, forms in _CASELESS.items() for form in forms]


def find_phrases(plain: PlainText, language: str) -> Found:
    """Find addresses and institutions by their first or last word, acronyms of hospitals, and
    companies by a list or their legal form; in Spanish also relatives, marital status, origin and
    sex.
    """
    yield from apply_rules(_RULES[language], plain)
    for start, end, pattern in apply_rules(_INSTITUTION_RULES[language], plain):
        value = plain.text[start:end]
        if fold(value) in name_words(language).ordinary:
            continue
        if language == "es" and " " in value:
            end = _trim(plain.text, start, end, language)
        yield start, end, pattern
    yield from apply_rules(_COMPANIES, plain)
    if language == "es":
        yield from apply_rules(_OPTIONAL, plain)
