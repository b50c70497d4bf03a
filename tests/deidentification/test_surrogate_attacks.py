"""Attacks on surrogates of many notes without the secret.

The attacker has the de-identified notes, the program and its lists, and knows where the same
mention recurs. The secret is fixed, so that the numbers below are the same in each run.
"""

import random
from collections import Counter
from datetime import date, timedelta
from statistics import mean

import pytest
from spacy.tokens import Doc, Span
from spacy.vocab import Vocab

from spacy_biomed.deidentification.term_lists import terms
from spacy_biomed.pipeline.deidentify import BiomedDeidentifier

SECRET = "0f1e2d3c4b5a69788796a5b4c3d2e1f0" * 2
LABELS = {
    "name": "NOMBRE",
    "id": "IDENTIFICADOR",
    "phone": "CONTACTO",
    "date": "FECHA",
    "place": "LUGAR",
    "country": "PAIS",
    "institution": "HOSPITAL",
}
DIGITS, LETTERS = "0123456789", "abcdefghijklmnopqrstuvwxyz"


def make_component(**settings):
    component = BiomedDeidentifier(
        spans_key="phi", mode="surrogates", language="es", day_first=True, **settings
    )
    component.set_secret(SECRET)
    return component


def surrogate_texts(component, *mentions, note="", document_id=None):
    """The surrogates of mentions (kind, text) in a note."""
    # Between two mentions is a word, so that they are not read as one name.
    words = [note or "-", *(word for _, text in mentions for word in (text, "no"))]
    doc = Doc(Vocab(), words=words)
    doc.user_data["document_id"] = document_id
    labels = [LABELS[kind] for kind, _ in mentions]
    doc.spans["phi"] = [Span(doc, 2 * i + 1, 2 * i + 2, label) for i, label in enumerate(labels)]
    return [one.text for one in component(doc)._.deidentified.replacements]


def recurring(kind, text, notes):
    """The surrogates of the same mention in a number of different notes."""
    component = make_component()
    return [surrogate_texts(component, (kind, text), note=f"n{i}")[0] for i in range(notes)]


def rank_of_original(original, seen, options):
    """The rank of the original among the options by frequency, from 0 (least often seen) to 1.

    Options with the same frequency count as half. Without a leak the mean over many originals is
    1/2: an attacker who chooses the least or the most frequent option only guesses.
    """
    counts = Counter(seen)
    others = [counts[option] for option in options if option != original]
    fewer = sum(count < counts[original] for count in others)
    as_many = sum(count == counts[original] for count in others)
    return (fewer + as_many / 2) / len(others)


def check_ranks(ranks):
    """Check that the mean is that of a uniform distribution, whose deviation is 1/sqrt(12)."""
    assert abs(mean(ranks) - 0.5) < 3 * (12 * len(ranks)) ** -0.5


def check_uniform(seen, options):
    """Check by chi-square: its mean is the degrees of freedom, and its variance twice that."""
    assert set(seen) <= set(options)
    expected, counts = len(seen) / len(options), Counter(seen)
    statistic = sum((counts[option] - expected) ** 2 / expected for option in options)
    freedom = len(options) - 1
    assert abs(statistic - freedom) < 4 * (2 * freedom) ** 0.5


def test_a_telephone_number_that_recurs_is_not_recovered():
    """A digit that never occurs at a position must not reveal the original.

    If surrogates exclude the original, 28 of 30 numbers are recovered from 60 notes.
    """
    generator = random.Random(0)
    numbers = [str(generator.randrange(10**8, 10**9)) for _ in range(15)]
    ranks, recovered, places = [], 0, 0
    for number in numbers:
        surrogates = recurring("phone", number, notes=200)
        for place, digit in enumerate(number):
            options = DIGITS[1:] if place == 0 else DIGITS
            seen = [surrogate[place] for surrogate in surrogates]
            least = min(options, key=Counter(seen).__getitem__)
            recovered += least == digit
            ranks.append(rank_of_original(digit, seen, options))
            places += 1
    check_ranks(ranks)
    # A tenth by chance, with a deviation of 3.5 in 135 places.
    assert recovered < places / 10 + 3 * (places * 0.09) ** 0.5


@pytest.mark.slow
def test_an_identifier_with_letters_that_recurs_is_not_recovered():
    generator = random.Random(1)
    ranks = []
    for _ in range(15):
        letters = "".join(generator.choices(LETTERS, k=3))
        code = letters.upper() + f"-{generator.randrange(10, 100)}"
        surrogates = recurring("id", code, notes=200)
        for place in range(3):
            seen = [surrogate[place] for surrogate in surrogates]
            ranks.append(rank_of_original(code[place], seen, LETTERS.upper()))
        ranks.append(rank_of_original(code[5], [one[5] for one in surrogates], DIGITS))
    check_ranks(ranks)


@pytest.mark.slow
def test_a_name_that_recurs_is_not_recovered():
    generator = random.Random(2)
    # Names with this ending are not given names.
    surnames = [name for name in terms("es", "surnames") if name[-1:] == "z"]
    ranks = []
    for given, surname in zip(
        generator.sample(terms("es", "given_female"), 15),
        generator.sample(surnames, 15),
        strict=True,
    ):
        pairs = [one.split(" ") for one in recurring("name", f"{given} {surname}", notes=600)]
        lists = [(given, "given_female"), (surname, "surnames")]
        for (original, name), seen in zip(lists, zip(*pairs, strict=True), strict=True):
            # Some female given names are surnames too, and become surnames.
            if set(seen) <= set(terms("es", name)):
                ranks.append(rank_of_original(original, seen, terms("es", name)))
    assert len(ranks) > 20
    check_ranks(ranks)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("kind", "name"),
    [("place", "places"), ("country", "countries"), ("institution", "institutions")],
)
def test_a_place_that_recurs_is_not_recovered(kind, name):
    options = terms("es", name)
    if kind == "institution":
        options = [term for term in options if term.startswith("Hospital ")]
    ranks = []
    for original in random.Random(3).sample(options, 30):
        surrogates = recurring(kind, original, notes=300)
        ranks.append(rank_of_original(original, surrogates, options))
    check_ranks(ranks)


def parse(text):
    day, month, year = map(int, text.split("/"))
    return date(year, month, day).toordinal()


@pytest.mark.slow
def test_a_date_that_recurs_is_not_recovered():
    """With symmetric shifts of up to some years, it would be the mean of the shifted dates."""
    originals = [date(1940, 2, 3) + timedelta(1571 * i) for i in range(20)]
    near = {"mean": 0, "middle": 0, "gap": 0}
    means = []
    for original in originals:
        seen = [parse(one) for one in recurring("date", f"{original:%d/%m/%Y}", notes=200)]
        gap, start = max((b - a, a) for a, b in zip(sorted(seen), sorted(seen)[1:], strict=False))
        guesses = {
            "mean": mean(seen),
            "middle": (min(seen) + max(seen)) / 2,
            "gap": start + gap / 2,
        }
        for name, guess in guesses.items():
            near[name] += abs(guess - original.toordinal()) < 180
        means.append(guesses["mean"])
    # The guesses do not depend on the date, so by chance they can be near one or two of 20.
    assert max(near.values()) <= 2
    assert max(means) - min(means) < 6 * 14_610 / (12 * 200) ** 0.5


def test_a_birthday_behind_the_date_of_the_note_tells_no_more_than_the_time_between():
    component = make_component()
    births = []
    for i in range(200):
        note = f"{date(2015, 1, 1) + timedelta(9 * i):%d/%m/%Y}"
        birth, _ = surrogate_texts(component, ("date", "05/06/1951"), ("date", note), note=f"{i}")
        births.append(parse(birth))
    # The age at the time of the note is visible; without it, only the mean of the window is left.
    ages = [date(2015, 1, 1).toordinal() + 9 * i - parse("05/06/1951") for i in range(200)]
    latest = [birth + age for birth, age in zip(births, ages, strict=True)]
    check_uniform([(day - parse("01/01/1990")) // 1461 for day in latest], range(10))


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("number", ["934169700", "100000000", "012345678", "7"])
def test_each_digit_is_as_likely_as_any_other_at_each_place(number):
    surrogates = recurring("phone", number, notes=1000)
    for place, digit in enumerate(number):
        seen = [surrogate[place] for surrogate in surrogates]
        if len(number) == 1 or place:
            check_uniform(seen, DIGITS)
        elif digit == "0":
            assert set(seen) == {"0"}
        else:
            check_uniform(seen, DIGITS[1:])
    if len(number) > 1:
        pairs = [surrogate[3:5] for surrogate in surrogates]
        check_uniform(pairs, [f"{i:02}" for i in range(100)])


@pytest.mark.slow
def test_each_name_letter_and_shift_is_as_likely_as_any_other():
    names = [one.split(" ") for one in recurring("name", "Marta Ochoa", notes=3000)]
    check_uniform([given for given, _ in names], terms("es", "given_female"))
    check_uniform([surname for _, surname in names], terms("es", "surnames"))
    check_uniform([one[0] for one in recurring("id", "q7", notes=1000)], LETTERS)
    component = make_component(key_from="document_id")
    dates = [
        surrogate_texts(component, ("date", "05/06/1991"), document_id=str(i))[0]
        for i in range(2000)
    ]
    shifts = [parse(one) - parse("05/06/1991") for one in dates]
    check_uniform([(shift + 1825) * 20 // 3651 for shift in shifts], range(20))


@pytest.mark.slow
def test_two_values_of_a_note_are_drawn_apart_from_each_other():
    """If they were always different, each would exclude a value of the other."""
    component = make_component()
    pairs = [
        surrogate_texts(component, ("id", "4"), ("id", "5"), note=f"n{i}") for i in range(2000)
    ]
    check_uniform(["".join(pair) for pair in pairs], [f"{i:02}" for i in range(100)])


def test_documents_of_one_patient_share_surrogates_whatever_else_is_in_them():
    mentions = [
        ("name", "Marta Ochoa"),
        ("name", "Ochoa"),
        ("name", "Xyzzy Ruiz"),
        ("phone", "934 169 700"),
        ("id", "HC-4"),
        ("place", "Calle Sol 4"),
        ("country", "Perú"),
        ("institution", "Hospital Clara"),
        ("date", "12/03/2019"),
        ("date", "marzo de 2011"),
    ]
    component = make_component(key_from="document_id")
    expected = dict(
        zip(mentions, surrogate_texts(component, *mentions, document_id="p"), strict=True)
    )
    generator = random.Random(4)
    for i in range(20):
        some = generator.sample(mentions, generator.randint(1, len(mentions)))
        others = [("name", f"Otro {i}z"), ("date", f"{1 + i}/1/2020")]
        found = surrogate_texts(component, *some, *others, note=str(i), document_id="p")
        assert found[: len(some)] == [expected[one] for one in some]
    assert surrogate_texts(component, *mentions, document_id="q") != list(expected.values())
