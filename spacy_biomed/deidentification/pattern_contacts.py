"""Patterns of e-mail and web addresses, files, telephones and postal codes."""

from __future__ import annotations

import re
from ipaddress import ip_address

import phonenumbers
from spacy.lang.lex_attrs import like_url

from .pattern_rules import Found, Rule, apply_rules, caseless, is_of_person, number, rule
from .plain_text import PlainText
from .term_lists import is_name, name_words, normalized_words

# An incomplete address ("name@hospital") is an address too: nothing else is written like it.
_EMAIL = rule("email", r"(?<![\w.+-])[\w.+-]*\w\s?@\s?\w[\w-]*(?:[ ]?\.[ ]?[a-z]\w+)*(?:\.\w+)*")
# "ana [at] correo (punto) es", "ana arroba correo.es"
_SPELT_EMAIL = caseless(
    "email",
    r"(?<![\w.+-])[\w.+-]{2,40}[ ]?(?:[\[({<][ ]?(?:at|arroba)[ ]?[\])}>]|[ ]arroba[ ]"
    r"|[ ]at[ ](?=[\w-]+[ ]?(?:\.|[ ]dot[ ])))[ ]?[\w-]+"
    r"(?:[ ]?(?:\.|[\[({<]?(?:dot|punto)[\])}>]?)[ ]?[a-z]{2,10}){1,3}\b",
)
_AT = re.compile(r"[\[({<] ?at ?[\])}>]")
_ACCOUNT = caseless(
    "email",
    r"\b(?:skype|twitter|instagram|facebook|telegram|tiktok|usuario|login"
    r"|user(?:name)?)[:\s=\"']{1,4}"
    r"(?P<value>@?(?=[\w.-]*[\d._@])\w[\w.-]{2,40}\w|@\w{3,40})",
)
_HANDLE = rule("email", r"(?<![\w.@])@\w{3,40}(?![\w.]*@)")
_SHORT_PHONE = caseless(
    "phone",
    r"\b(?:busca|buscapersonas|ext(?:ensi[óo]n|ension)?|pager|beeper|bleep|interno)\b[.:\s]{1,3}"
    r"(?:n[ºo°.]+\s*)?(?P<value>\d{3,6})\b(?![.,/%]\d)",
)
_ENDINGS = (
    "dcm|dicom|nii|jpe?g|png|tiff?|bmp|gif|mp4|avi|mov|mp3|wav|pdf|docx?|odt|rtf|txt|xlsx?|csv|tsv"
    "|pptx?|zip|rar|7z|xml|json|hl7|html?|edf|ecg"
)


def _names_somebody(stem: str) -> bool:
    """Whether a file's name has a number of five digits, a name, or a word that is not ordinary."""
    ordinary = name_words("es").ordinary | name_words("en").ordinary
    stem = re.sub(r"(?<=[a-zß-ÿ])(?=[A-ZÀ-Þ])", " ", stem)
    words = [word for word in normalized_words(stem) if len(word) > 2]
    return bool(re.search(r"\d{5}", stem)) or any(
        is_name(word) or (len(word) > 3 and word not in ordinary) for word in words
    )


_ENDING = re.compile(rf"\.(?:{_ENDINGS})\b")
# A name, with its folders, and names with spaces before " - ".
_STEM = re.compile(
    r"(?<![\w.])(?:[\w.:-]*[\\/])*[\w.-]{3,80}\Z|(?<![\w.])[\w.]+(?: [\w.]+)* - [\w.-]+\Z"
)
_LONGEST_FILE = 120
_PATH = re.compile(r"(?<![\w.<])(?:[A-Za-z]:|\\)?(?:[\\/][\w.-]{2,40}){2,}")


def _find_files(plain: PlainText) -> Found:
    """Files and folders whose name has a person's name or a number."""
    for ending in _ENDING.finditer(plain.folded):
        first = max(ending.start() - _LONGEST_FILE, plain.text.rfind("\n", 0, ending.start()) + 1)
        stem = _STEM.search(plain.text, first, ending.start())
        if stem and _names_somebody(stem[0]):
            yield stem.start(), ending.end(), "file"
    if "/" in plain.text or "\\" in plain.text:
        for path in _PATH.finditer(plain.text):
            if not path[0].replace("/", "").isdigit() and _names_somebody(path[0]):
                yield *path.span(), "file"


def _is_address(match: re.Match[str]) -> bool:
    try:
        return ip_address(match[0]).is_global or ip_address(match[0]).is_private
    except ValueError:
        return False


_ADDRESSES = [
    # Only what says that it is an address: in notes, "intervención.es" is two sentences.
    caseless(
        "url",
        r"\b(?:(?:https?|ftp)://|www\.)[^\s<>\"']*[\w/]",
        lambda match: like_url(match[0]),
    ),
    caseless(
        "url",
        r"\b(?:youtube|twitch|instagram|facebook|fb|tiktok|linkedin|twitter|x|pinterest|snapchat"
        r"|reddit|github|patreon|strava|t|wa|discord|medium|vimeo|flickr|telegram|threads"
        r"|gofundme|justgiving|caringbridge|linktr)\.(?:com|tv|me|net|org|gg|ee)/[^\s<>\"']*[\w/]",
    ),
    number("url", r"(?<![\w.,])[1-9]\d{0,2}(?:\.\d{1,3}){3}(?![\w.,]\w|\w)", _is_address),
    _ACCOUNT,
    _HANDLE,
]


def _is_in_use(region: str, text: str) -> bool:
    try:
        return phonenumbers.is_valid_number(phonenumbers.parse(text, region))
    except phonenumbers.NumberParseException:
        return False


def _is_spanish_number(match: re.Match[str]) -> bool:
    return is_of_person(match) and _is_in_use("ES", match[0])


def _is_abroad_number(match: re.Match[str]) -> bool:
    """Whether a number is written as in Britain, Ireland, Australia or India."""
    regions = ("GB", "IE", "AU", "IN", "NZ")
    return is_of_person(match) and (
        match["grouped"] is not None or any(_is_in_use(region, match[0]) for region in regions)
    )


def _is_american_number(match: re.Match[str]) -> bool:
    # Written as the numbers of North America are, whether the area exists or not.
    has_groups = re.search(r"[.)-]", match[0]) is not None
    return is_of_person(match) and (has_groups or _is_in_use("US", match[0]))


# A number beside other numbers is one of a row.
_BEFORE = r"(?<![\w.,/+-])(?<!\d[ |;])"
_AFTER = r"(?![\w/-])(?![.,]\d)(?![ |;]{1,3}\d)"
_ABROAD = rule(
    "phone",
    r"(?<![\w.,/+-])(?:\+|00(?=[1-9]))[ ]?\d{1,3}(?:[ .-]?\(?\d{1,6}\)?){2,5}(?![\w/-])(?![.,]\d)",
    lambda match: _is_in_use("ES", re.sub(r"\A00", "+", match[0])),
)
_NUMBERS: dict[str, list[Rule]] = {
    "es": [
        _ABROAD,
        rule(
            "phone",
            rf"{_BEFORE}(?:\(?34\)?[ .-]?)?(?:[6-9]\d\d(?P<sign>[ .-]?)\d{{3}}(?P=sign)\d{{3}}"
            r"|[6-9]\d\d(?P<pairs>[ .-])\d\d(?P=pairs)\d\d(?P=pairs)\d\d|[6-9]\d\d[ .-]\d{6}"
            r"|\(?[89]\d\)?(?P<two>[ .-]{1,3})\d{3}[ .-]?\d\d[ .-]?\d\d|[89]\d[ .-]\d{7})" + _AFTER,
            _is_spanish_number,
        ),
    ],
    "en": [
        _ABROAD,
        rule(
            "phone",
            rf"{_BEFORE}(?:\+?1[ .-]?)?(?:\(\d{{3}}\)[ ]?|\d{{3}}[.-])\d{{3}}[.-]\d{{4}}{_AFTER}"
            rf"|{_BEFORE}(?:\+?1)?\d{{10}}{_AFTER}|{_BEFORE}\d{{3}} \d{{3}}[ -]\d{{4}}{_AFTER}",
            _is_american_number,
        ),
        # The groups of British and Australian numbers are enough; others have to be in use.
        rule(
            "phone",
            rf"{_BEFORE}(?:(?P<grouped>0\d{{4}}[ -]\d{{3}}[ -]?\d{{3}}|0\d{{3}} \d{{3}} \d{{4}}"
            r"|02\d \d{4} \d{4}|04\d\d \d{3} \d{3}|\(0\d{1,4}\)(?: ?\d{3,4}){2})|0\d{9,10}"
            rf"|0\d{{2,3}}[ -]\d{{6,8}}|[6-9]\d{{4}}[ -]\d{{5}}){_AFTER}",
            _is_abroad_number,
        ),
    ],
}
_FAX_CUES = r"tele?fax|fax"
_PHONE_CUES = {
    "es": r"tel[eé]fonos?|tel[eé]f|telf|tel|tfnos?|tfn|tf|tlfnos?|tlfn|tlf|m[óo]vil|busca|contacto"
    r"|llamar al|whats?app",
    "en": r"telephone|phone|tel|pager|beeper|cell|mobile|mob|landline|call|ring|contact|ext"
    r"|whatsapp|ph",
}


def _after(pattern: str, cue: str) -> Rule:
    """A number of six digits or more after a word such as "tel."."""
    value = r"(?P<value>(?:\+[ ]?|\()?\d(?:[ ().\-/]{0,3}\d){5,14})(?!\d)"
    signs = r"\.?(?:\s*n[ºo°]?\.?)?[\s:.\"'=>|]{0,6}"
    return caseless(pattern, rf"\b(?:{cue})\b{signs}{value}")


_SPANISH_CODE = r"(?:0[1-9]|[1-4]\d|5[0-2])\d{3}"
STATES = (
    "AL AK AZ AR CA CO CT DE DC FL GA HI ID IL IN IA KS KY LA ME MD MA MI MN MS MO MT NE NV NH NJ "
    "NM NY NC ND OH OK OR PA RI SC SD TN TX UT VT VA WA WV WI WY"
).replace(" ", "|")
_POSTAL_CODES = {
    "es": [
        caseless(
            "postal_code",
            r"\b(?:C\.?\s?P\.?|c[óo]digo postal)[\s:.\"'=>|]{0,6}(?P<value>\d{5})\b",
        ),
        # Between the end of an address and a town: a laboratory value has its name before it.
        rule(
            "postal_code",
            rf"(?:^|[\n,.;()-])[ ]*(?P<value>{_SPANISH_CODE})(?=[ ,.-]{{1,3}}[A-ZÁÉÍÓÚÑ][\wÀ-ÿ])",
        ),
    ],
    "en": [
        # After a town: "OR 12345 (95% CI)" is an odds ratio.
        rule(
            "postal_code",
            r"[A-Z][\w.'-]+(?:,[ ]?|[ ])"
            rf"(?:{STATES})\.?,?[ ](?P<value>\d{{5}}(?:-\d{{4}})?)\b(?![ ]?\()",
            lambda match: "," in match[0] or not match[0].split()[0].isupper(),
        ),
        rule(
            "postal_code",
            r"\b(?:VIC|NSW|QLD|TAS|WA|SA|ACT|NT),? (?P<value>\d{4})\b(?![.,]\d| ?[a-z/%])",
        ),
        caseless("postal_code", r"\bzip(?: code)?[\s:]{0,4}(?P<value>\d{5}(?:-\d{4})?)\b"),
        # British: the letters C, I, K, M, O and V never come last, so "B12 5MG" does not match.
        rule(
            "postal_code",
            r"\b(?:[A-PR-UWYZ]\d{1,2}|[A-PR-UWYZ][A-HK-Y]\d{1,2}|[A-PR-UWYZ]\d[A-HJKPSTUW]|"
            r"[A-PR-UWYZ][A-HK-Y]\d[A-Z]) \d[ABD-HJLNP-UW-Z]{2}\b",
        ),
    ],
}
_PHONES = {
    language: [_after("fax", _FAX_CUES), _after("phone", cues), _SHORT_PHONE, *_NUMBERS[language]]
    for language, cues in _PHONE_CUES.items()
}


def find_addresses(plain: PlainText, language: str) -> Found:
    """Find e-mail addresses, also with a space beside the @, web addresses that begin with a
    protocol or www, IP addresses, and files whose name has a person's name or a number.
    """
    if "@" in plain.text:
        yield from apply_rules([_EMAIL], plain)
    if "arroba" in plain.folded or " dot " in plain.folded or _AT.search(plain.folded):
        yield from apply_rules([_SPELT_EMAIL], plain)
    yield from apply_rules(_ADDRESSES, plain)
    yield from _find_files(plain)


def find_phones(plain: PlainText, language: str) -> Found:
    """Find numbers that are in use in the language's country, or are called a telephone or fax."""
    for start, end, pattern in apply_rules(_PHONES[language], plain):
        if not (plain.has_wide_gaps(start, end) and _is_row(plain.text, start, end)):
            yield start, end, pattern


def _is_row(text: str, start: int, end: int) -> bool:
    """Whether the line of a number has no letters."""
    line_end = text.find("\n", end)
    line = text[text.rfind("\n", 0, start) + 1 : line_end if line_end >= 0 else len(text)]
    return not any(map(str.isalpha, line))


def find_postal_codes(plain: PlainText, language: str) -> Found:
    """Find postal codes beside the name of a town or state, or called so; British ones anywhere."""
    yield from apply_rules(_POSTAL_CODES[language], plain)
