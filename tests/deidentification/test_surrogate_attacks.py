"""What somebody without the secret can find out from the surrogates of many notes.

The attacker has the de-identified notes, the program, its lists, and knows where the same mention
recurs. The secret is fixed, so that the numbers below are the same in each run.
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
    """The surrogates of mentions (kind, text) in one note."""
    words = [note, *(text for _, text in mentions)]
    doc = Doc(Vocab(), words=[word or "-" for word in words])
    doc.user_data["document_id"] = document_id
    labels = [LABELS[kind] for kind, _ in mentions]
    doc.spans["phi"] = [Span(doc, i, i + 1, label) for i, label in enumerate(labels, start=1)]
    return [one.text for one in component(doc)._.deidentified.replacements]


def recurring(kind, text, notes):
    """The surrogates of one mention in so many different notes."""
    component = make_component()
    return [surrogate_texts(component, (kind, text), note=f"n{i}")[0] for i in range(notes)]


def rank_of_original(original, seen, options):
    """Where the original stands among the options from the least to the most often seen: 0 to 1.

    Half of those that are seen as often as it count. Without any leak it is 1/2 in the mean over
    many originals: an attacker who names the least seen option, or the most seen, guesses.
    """
    counts = Counter(seen)
    others = [counts[option] for option in options if option != original]
    fewer = sum(count < counts[original] for count in others)
    as_many = sum(count == counts[original] for count in others)
    return (fewer + as_many / 2) / len(others)


def check_ranks(ranks):
    """That their mean is that of a uniform distribution, whose deviation is 1/sqrt(12)."""
    assert abs(mean(ranks) - 0.5) < 3 * (12 * len(ranks)) ** -0.5


def check_uniform(seen, options):
    """By chi-square: its mean is the degrees of freedom, and its variance twice that."""
    assert set(seen) <= set(options)
    expected, counts = len(seen) / len(options), Counter(seen)
    statistic = sum((counts[option] - expected) ** 2 / expected for option in options)
    freedom = len(options) - 1
    assert abs(statistic - freedom) < 4 * (2 * freedom) ** 0.5


def test_a_telephone_number_that_recurs_is_not_recovered():
    """The digit never seen at a place used to be the original's: 28 of 30 numbers at 60 notes."""
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
    # A tenth by chance, of which the deviation is 3.5 in 135 places.
    assert recovered < places / 10 + 3 * (places * 0.09) ** 0.5


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


def test_a_name_that_recurs_is_not_recovered():
    generator = random.Random(2)
    # What ends like this is no given name.
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
            # Some given names of women are surnames, too, and become these.
            if set(seen) <= set(terms("es", name)):
                ranks.append(rank_of_original(original, seen, terms("es", name)))
    assert len(ranks) > 20
    check_ranks(ranks)


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


def test_a_date_that_recurs_is_not_recovered():
    """Shifts by up to some years either way leave it in the middle of what becomes of it."""
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
    # The guesses are the same whatever the date was, so that they can be near to one or two of 20.
    assert max(near.values()) <= 2
    assert max(means) - min(means) < 6 * 14_610 / (12 * 200) ** 0.5


def test_a_birthday_behind_the_date_of_the_note_tells_no_more_than_the_time_between():
    component = make_component()
    births = []
    for i in range(200):
        note = f"{date(2015, 1, 1) + timedelta(9 * i):%d/%m/%Y}"
        birth, _ = surrogate_texts(component, ("date", "05/06/1951"), ("date", note), note=f"{i}")
        births.append(parse(birth))
    # Its age at the note is plain to see; taken off, the middle of the window is all that is left.
    ages = [date(2015, 1, 1).toordinal() + 9 * i - parse("05/06/1951") for i in range(200)]
    latest = [birth + age for birth, age in zip(births, ages, strict=True)]
    check_uniform([(day - parse("01/01/1990")) // 1461 for day in latest], range(10))


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


def test_two_values_of_a_note_are_drawn_apart_from_each_other():
    """Kept different, they would tell of each other what they are not."""
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
