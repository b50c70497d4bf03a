"""Surrogates of each kind, from lists, formats and dates."""

import re
from datetime import date, timedelta
from typing import get_args

import pytest

from spacy_biomed.corpora.corpus_catalogue import find_corpus
from spacy_biomed.deidentification.document_key import DocumentKey, derive_key
from spacy_biomed.deidentification.phi_kinds import KINDS_OF_LABELS, Kind, merge_kinds
from spacy_biomed.deidentification.surrogate_dates import DateShift, draw_shift, find_latest
from spacy_biomed.deidentification.surrogate_words import (
    FormatSurrogates,
    NameSurrogates,
    PlaceSurrogates,
)
from spacy_biomed.deidentification.surrogates import Surrogates, limit_age
from spacy_biomed.deidentification.term_lists import LANGUAGES, normalize, terms
from spacy_biomed.errors import BiomedError

SECRET = b"a secret for tests alone"
PASSPHRASE_KEY = (
    "7b44e6fde5edc79e78733e548b211df4866871c9b6fb97d482468891d1b5f57e"
    "c28301589af2292609c4a96025231ec5066a58694ca73cde66d647f475dfbc33"
)


def make_key(document="a document", secret=SECRET, seed=0):
    return DocumentKey(secret, seed, document)


def make_names(*names, language="es", document="a document"):
    key = make_key(document)
    make = NameSurrogates(key, language, FormatSurrogates(key), names)
    return [make(name) for name in names]


def make_places(language="es"):
    key = make_key()
    return PlaceSurrogates(key, language, FormatSurrogates(key))


# Keys


def test_choices_follow_from_secret_seed_scope_and_purpose():
    digest = make_key().digest(40, "name", "garcia")
    assert make_key().digest(40, "name", "garcia") == digest
    assert len(digest) == 40
    others = [
        make_key(secret=b"another secret").digest(40, "name", "garcia"),
        make_key(seed=1).digest(40, "name", "garcia"),
        make_key("another").digest(40, "name", "garcia"),
        make_key().digest(40, "name", "lopez"),
        make_key().digest(40, "namegarcia"),
    ]
    assert len({digest, *others}) == 6


def test_a_long_secret_counts_to_its_end():
    digests = [make_key(secret=b"x" * 100 + end).digest(8, "a") for end in (b"1", b"2")]
    assert digests[0] != digests[1]


def test_a_passphrase_goes_through_scrypt_and_random_bytes_do_not():
    """The expected key was computed with another implementation (`openssl kdf`, OpenSSL 3)."""
    assert derive_key("correct horse battery staple").hex() == PASSPHRASE_KEY
    random_bytes = "0123456789abcdefABCDEF0123456789" * 2
    assert derive_key(random_bytes) == random_bytes.encode()
    for other in (random_bytes[1:], random_bytes[:-1] + "x"):
        assert derive_key(other) not in (other.encode(), derive_key(random_bytes))


# Kinds and lists


@pytest.mark.parametrize("corpus", ["meddocan", "i2b2_2014", "starter_es"])
def test_every_label_of_the_corpora_has_a_kind(corpus):
    labels = set(find_corpus(corpus).labels)
    assert labels <= KINDS_OF_LABELS.keys()
    assert set(KINDS_OF_LABELS.values()) <= set(get_args(Kind))


def test_kinds_of_the_user_come_first_and_have_to_exist():
    kinds = merge_kinds("deid", {"NOMBRE": "id", "TWIN": "name"})
    assert (kinds["NOMBRE"], kinds["TWIN"], kinds["FECHA"]) == ("id", "name", "date")
    with pytest.raises(BiomedError, match=r"\[components.deid.kinds\] TWIN = 'sister'.*name, date"):
        merge_kinds("deid", {"TWIN": "sister"})


@pytest.mark.parametrize("language", LANGUAGES)
def test_lists_have_enough_terms_each_once(language):
    names = ("given_female", "given_male", "surnames", "places", "institutions", "countries")
    for name in names:
        own = [normalize(term) for term in terms(language, name)]
        assert len(own) == len(set(own)), name
        assert 60 < len(own) <= 300, name


# Names


def test_one_name_has_one_surrogate_however_it_is_written():
    spellings = ["José Núñez", "JOSE NUÑEZ", "José  Núñez", "Jose\nNunez"]
    plain, capitals, wide, broken = make_names(*spellings)
    assert capitals == plain.upper()
    assert wide.split() == broken.split() == plain.split()
    assert wide == plain.replace(" ", "  ")


def test_parts_of_a_name_have_the_parts_of_its_surrogate():
    full, surname, given, turned, double = make_names(
        "Marta Ochoa Ruiz", "Ochoa", "Marta", "Ochoa Ruiz, Marta", "Ochoa-Ruiz"
    )
    first, second, third = full.split()
    assert (surname, given) == (second, first)
    assert turned == f"{second} {third}, {first}"
    assert double == f"{second}-{third}"


def test_the_surrogate_of_a_name_hangs_on_no_other_name_and_on_no_order():
    names = ["Marta Ochoa", "Ochoa", "Xyz Ruiz", "Xyz", "Ruiz, Marta"]
    together = dict(zip(names, make_names(*names), strict=True))
    names.reverse()
    assert dict(zip(names, make_names(*names), strict=True)) == together
    for name in names:
        assert make_names(name) == [together[name]]
    assert together["Xyz Ruiz"].startswith(together["Xyz"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_given_names_stay_those_of_women_and_men(language):
    for sex in ("female", "male"):
        names = [name for name in terms(language, f"given_{sex}") if name not in BOTH[language]]
        surrogates = make_names(*(f"{name} Xyz" for name in names[:40]), language=language)
        given = {surrogate.split()[0] for surrogate in surrogates}
        assert given <= set(terms(language, f"given_{sex}"))


BOTH = {
    language: {*terms(language, "surnames"), *terms("en", "surnames"), *terms("es", "surnames")}
    | ({*terms("es", "given_female")} & {*terms("en", "given_male")})
    | ({*terms("en", "given_female")} & {*terms("es", "given_male")})
    for language in LANGUAGES
}


def test_initials_follow_the_surrogate():
    full, initial, initials = make_names("Juan Galindo Pérez", "J. Galindo", "JG Pérez")
    given, surname, second = full.split()
    assert initial == f"{normalize(given)[0].upper()}. {surname}"
    assert initials.split()[1] == second
    assert initials.split()[0] == (normalize(given)[0] + normalize(surname)[0]).upper()


def test_particles_and_titles_are_left_out():
    (surrogate,) = make_names("Dra. María del Carmen de la Torre")
    assert re.fullmatch(r"\w+ \w+ \w+", surrogate)


def test_nothing_of_a_name_is_left_with_digits_or_accents_apart():
    name = "Jose\u0301 Pe\u0301rez 12"
    (surrogate,) = make_names(name)
    assert "\u0301" not in surrogate
    assert re.fullmatch(r"\w+ \w+ [1-9]\d", surrogate)
    assert make_names("12")[0] is None


# Formats


@pytest.mark.parametrize(
    "text", ["934 169 700", "HC-00412/b", "jgarcia67@hospital.es", "SW1A 1AA", "5", "Ñandú-Ø"]
)
def test_formats_are_kept(text):
    surrogate = FormatSurrogates(make_key())(text)
    assert len(surrogate) == len(text)
    assert surrogate != text
    for old, new in zip(text, surrogate, strict=True):
        if old.isalnum():
            assert new.isascii()
            assert (new.isdigit(), new.isupper()) == (old.isdigit(), old.isupper())
        else:
            assert new == old


def test_a_number_is_the_same_however_it_is_punctuated():
    make = FormatSurrogates(make_key())
    assert make("934 169 700").replace(" ", "") == make("934169700") == make("934169700")


@pytest.mark.parametrize(
    ("ways", "kept"),
    [
        (["+34 612 345 678", "612345678", "0034612345678", "(34) 612.345.678"], 9),
        (["+44 7700 900123", "07700 900123"], 10),
        (["DNI 12345678Z", "12.345.678-Z", "12345678"], 8),
        (["ES7654321", "HC7654321", "765-43-21"], 7),
    ],
)
def test_a_number_is_the_same_after_a_code_or_beside_letters(ways, kept):
    make = FormatSurrogates(make_key())
    numbers = {re.sub(r"\D", "", make(one))[-kept:] for one in ways}
    assert len(numbers) == 1
    assert len(numbers.pop()) == kept


def test_abbreviated_names_have_the_surrogate_of_the_whole_name():
    names = make_names("José María Fernández", "José Mª Fdez.", "JOSÉ M.ª FDEZ")
    assert [re.sub(r"\W+", " ", normalize(one)).strip() for one in names] == [
        normalize(names[0])
    ] * 3


def test_a_short_surname_in_capitals_is_not_read_as_initials():
    alone, together = make_names("Gil", "Ana GIL")
    assert together.split()[1] == alone.upper()


def test_a_number_begins_with_a_zero_where_the_original_does():
    for document in range(30):
        make = FormatSurrogates(make_key(str(document)))
        assert make("0412")[0] == "0" != make("412")[0]
        assert make("HC-0412/3")[3] == "0" != make("HC-412")[3]
    assert {FormatSurrogates(make_key(str(i)))("0") for i in range(99)} == {*"0123456789"}


def test_a_text_without_digits_and_letters_has_no_format():
    assert FormatSurrogates(make_key())("--") is None


@pytest.mark.parametrize("kind", ["phone", "id"])
@pytest.mark.parametrize("text", ["seis doce, treinta y cuatro", "Five-five five", "ocho zeta"])
def test_dictated_numbers_become_tags(kind, text):
    """Words of the same lengths would tell which digits they were."""
    make = Surrogates(make_key(), "es", day_first=True, age_limit=90, names=[], dates=None)
    assert make(kind, text) is None
    assert make(kind, "612 345 678") is not None and make(kind, "ana@x.es") is not None


def test_a_url_keeps_what_every_url_has():
    surrogate = FormatSurrogates(make_key()).url("https://www.clinic7.org/a")
    assert re.fullmatch(r"https://www\.[a-z]{6}\d\.[a-z]{3}/[a-z]", surrogate)
    assert "clinic7" not in surrogate


# Places


def test_an_address_keeps_its_form():
    address = make_places().place("Calle de la Fuente 43, 5º B")
    assert re.fullmatch(r"Calle [A-Z][\w ]+ [1-9]\d, \dº [A-Z]", address)
    assert "Fuente" not in address
    address = make_places("en").place("12 Maple Street, Apt 4")
    assert re.fullmatch(r"\d\d [A-Z][\w ]+ Street, Apt \d", address)


def test_towns_and_postcodes():
    make = make_places()
    town, other = make.place("Valdivia"), make.place("San Luis")
    assert town in terms("es", "places") and other in terms("es", "places")
    assert (make.place("valdivia"), make.place("VALDIVIA")) == (town.lower(), town.upper())
    assert town != other
    assert re.fullmatch(r"\d{5}", make.place("28003"))


def test_countries_and_abbreviations_of_them():
    make = make_places()
    for country in ("Perú", "EE.UU.", "USA"):
        assert make.country(country) in terms("es", "countries")


def test_an_institution_stays_of_its_kind():
    make = make_places()
    assert make.institution("Hospital Virgen de la Loma").startswith("Hospital ")
    assert "Universidad" in make.institution("Universidad de Villalar")
    assert make.institution("Acme S.L.") in terms("es", "institutions")


# Ages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("84 años", "84 años"),
        ("89", "89"),
        ("91 años", "90 años"),
        ("92-year-old", "90-year-old"),
        ("101", "90"),
        ("95 días", "95 días"),
        ("from 88 to 93 years", "from 88 to 90 years"),
        ("tres años", None),
    ],
)
def test_ages_from_the_limit_on_become_it(text, expected):
    assert limit_age(text, 90) == expected


def test_other_limits_of_age():
    assert limit_age("81 years", 80) == "80 years"
    assert limit_age("40 years", 0) is None


# Dates


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("es", "12/03/2019", "22/03/2020"),
        ("es", "12-03-19", "22-03-20"),
        ("es", "2/3/2019", "12/3/2020"),
        ("es", "02.03.2019", "12.03.2020"),
        ("es", "2019-03-12", "2020-03-22"),
        ("es", "12 / 03 /2019", "22 / 03 /2020"),
        ("es", "12 de marzo de 2019", "22 de marzo de 2020"),
        ("es", "30 de Agosto del 2003", "9 de Septiembre del 2004"),
        ("es", "12 MARZO 2019", "22 MARZO 2020"),
        ("es", "23-octubre-1972", "3-noviembre-1973"),
        ("es", "12-dic-18", "23-dic-19"),
        ("es", "diciembre de 2018", "diciembre de 2019"),
        ("es", "Junio 04", "Junio 05"),
        ("es", "enero del año 2001", "enero del año 2002"),
        ("es", "sep-04", "sep-05"),
        ("es", "12/2018", "12/2019"),
        ("es", "año 1978", "año 1979"),
        ("es", "2010-2012", "2011-2013"),
        ("es", "lunes 12 de marzo", "sábado 23 de marzo"),
        ("es", "12/03", "23/03"),
        ("es", "March 12, 2019", "March 22, 2020"),
        ("en", "12/03/2019", "12/13/2020"),
        ("en", "25/03/2019", "04/04/2020"),
        ("en", "March 12, 2019", "March 22, 2020"),
        ("en", "Mar 12th 2019", "Mar 22nd 2020"),
        ("en", "12 March 2019", "22 March 2020"),
        ("en", "1st of May, 2018", "12th of May, 2019"),
        ("en", "December 2018", "December 2019"),
        ("en", "June 4", "June 15"),
        ("en", "Sept. 2018", "Sept. 2019"),
        ("en", "1999", "2000"),
        ("en", "Tuesday", "Sunday"),
        ("en", "12 de marzo de 2019", "22 de marzo de 2020"),
        ("en", "2008 to 2010", "2009 to 2011"),
        ("es", "12.03.19", "22.03.20"),
        ("es", "12MAR2019", "22MAR2020"),
        ("es", "12-mar-19", "22-mar-20"),
        ("es", "12 mar 19", "22 mar 20"),
        ("es", "12/03/'19", "22/03/'20"),
        ("es", "2019-mar-12", "2020-mar-22"),
        ("es", "12:03:2019", "22:03:2020"),
        ("es", "12-III-2019", "22-III-2020"),
        ("es", "12/iii/19", "22/iii/20"),
        ("es", "III/2019", "III/2020"),
        ("es", "12·03·2019", "22·03·2020"),
        ("es", "12_03_2019", "22_03_2020"),
        ("es", "20190312", "20200322"),
        ("es", "12032019", "22032020"),
        ("es", "mar-19", "mar-20"),
        ("es", "12/03/2019-15/03/2019", "22/03/2020-25/03/2020"),
        ("es", "12/03/2019, 14:30h", "22/03/2020, 14:30h"),
        ("es", "2019-03-12T08:15:00Z", "2020-03-22T08:15:00Z"),
        # Days that the month does not have count as its last.
        ("es", "30/02/2019", "10/03/2020"),
        ("es", "31/04/2019", "10/05/2020"),
        ("es", "32/04/2019", None),
        ("es", "verano de 2003", None),
        ("es", "26708/2017", None),
        ("es", "31/12/9999", None),
        ("en", "2019-03-12 10:30", "2020-03-22 10:30"),
        ("en", "", None),
    ],
)
def test_dates_move_in_their_format(language, text, expected):
    """The shift is 376 days: a year plus ten days with a 29 February, else plus eleven."""
    move = DateShift(376, language, language != "en")
    assert move(text) == expected


def read_date(text):
    day, month, year = map(int, text.split("/"))
    return date(year, month, day)


@pytest.mark.parametrize("is_shared", [False, True])
def test_the_distance_between_dates_stays(is_shared):
    start = date(1950, 1, 1)
    days = [start + timedelta(37 * i) for i in range(600)]
    shift = draw_shift(make_key(), days[-1], is_shared=is_shared)
    move = DateShift(shift, "es", True)
    moved = [read_date(move(f"{day:%d/%m/%Y}")) for day in days]
    distances = {new - old for new, old in zip(moved, days, strict=True)}
    assert distances == {timedelta(shift)}


def test_the_latest_date_of_a_document_becomes_any_day_of_forty_years():
    for latest in (date(1931, 4, 14), date(2000, 1, 1), date(2044, 12, 31)):
        days = [
            latest + timedelta(draw_shift(make_key(f"{latest}{i}"), latest, is_shared=False))
            for i in range(2000)
        ]
        assert date(1990, 1, 1) <= min(days) < date(1990, 3, 1)
        assert date(2029, 11, 1) < max(days) <= date(2029, 12, 31)


def test_dates_of_documents_that_share_a_key_move_by_five_years_at_most_and_maybe_not_at_all():
    shifts = {draw_shift(make_key(str(i)), None, is_shared=True) for i in range(30_000)}
    assert {min(shifts), 0, max(shifts)} == {-1825, 0, 1825}
    assert len(shifts) > 3600


def test_the_latest_date_is_found_in_any_format_and_one_with_a_year_goes_first():
    def latest(*texts):
        return find_latest(texts, "es", True)

    assert latest("12/03/2019", "en mayo", "3 de abril de 2019", "2018") == date(2019, 4, 3)
    assert latest("2010-2012", "lunes") == date(2012, 7, 1)
    assert latest("12 de marzo", "martes 3 de abril") == date(2000, 4, 3)
    assert latest("lunes", "el verano", "30/13/2019", "") is None
    assert latest("12/03/2019") != find_latest(["12/03/2019"], "en", False)


# All kinds


def test_what_has_no_surrogate_is_none():
    make = Surrogates(
        make_key(), "es", day_first=True, age_limit=90, names=["Ana"], dates=["el verano"]
    )
    assert make("name", "Ana") not in (None, "Ana")
    assert make("profession", "policía") is None
    assert make("other", "madre") is None
    assert make("date", "el verano") is None
    assert make("place", "Calle") is None
