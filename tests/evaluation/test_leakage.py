import pytest
import spacy

from spacy_biomed.errors import BiomedError
from spacy_biomed.evaluation.leakage import Leakage, measure_leakage
from spacy_biomed.pipeline.deidentify import BiomedDeidentifier

NLP = spacy.blank("es")
TEXT = (
    "Marta Ochoa, 64 años, vino el 7 de marzo al Hospital Clara Vega de Soria, tel. 934 16 97 00."
)


def make_doc(*mentions, text=TEXT, spans_key=None):
    """A document with mentions (string, label)."""
    doc = NLP.make_doc(text)
    spans = []
    for string, label in mentions:
        start = text.index(string)
        spans.append(doc.char_span(start, start + len(string), label=label))
    if spans_key is None:
        doc.set_ents(spans, default="outside")
    else:
        doc.spans[spans_key] = spans
    return doc


def measure(gold, predicted, is_identifying=lambda label: True, spans_key=None, **settings):
    doc = BiomedDeidentifier(language="es", secret_variable=None, **settings)(make_doc(*predicted))
    golden = make_doc(*gold, spans_key=spans_key)
    return measure_leakage([(golden, doc)], is_identifying, spans_key=spans_key)


ALL = [
    ("Marta Ochoa", "NOMBRE"),
    ("64 años", "EDAD"),
    ("7 de marzo", "FECHA"),
    ("Hospital Clara Vega", "HOSPITAL"),
    ("Soria", "LUGAR"),
    ("934 16 97 00", "CONTACTO"),
]


@pytest.mark.parametrize("mode", ["tags", "surrogates"])
def test_nothing_leaks_where_every_mention_was_found(mode):
    report = measure(ALL, ALL, mode=mode)
    assert report.total == Leakage(mentions=6, leaked=0, kept=int(mode == "surrogates"))
    assert report.labels["EDAD"].kept == report.total.kept
    assert (report.documents, report.leaking_documents) == (1, 0)


def test_what_was_not_found_leaks():
    report = measure(ALL, ALL[3:])
    leaking = {label for label, counts in report.labels.items() if counts.leaked}
    assert leaking == {"NOMBRE", "EDAD", "FECHA"}
    assert (report.documents, report.leaking_documents) == (1, 1)
    assert measure(ALL, []).total == Leakage(mentions=6, leaked=6, kept=0)


@pytest.mark.parametrize(
    ("found", "leaked"),
    [("Marta", 1), ("Ochoa", 1), ("Marta Ochoa", 0), ("Marta Ochoa, 64 años", 0)],
)
def test_a_mention_found_in_part_leaks_what_is_left(found, leaked):
    assert measure(ALL[:1], [(found, "NOMBRE")], extend=False).total.leaked == leaked


def test_the_capitalised_words_after_a_name_are_of_it():
    assert measure(ALL[:1], [("Marta", "NOMBRE")]).total.leaked == 0


def test_short_rests_do_not_leak_but_short_mentions_do():
    phone = [("934 16 97 00", "CONTACTO")]
    assert measure(phone, [("934", "CONTACTO")]).total.leaked == 0
    assert measure([("7", "FECHA")], phone).total.leaked == 1
    assert measure([("7", "FECHA")], ALL).total.leaked == 0


def test_a_label_in_its_tag_is_no_leak_but_a_name_in_a_replacement_is():
    hospital = [("Hospital Clara Vega", "HOSPITAL")]
    assert measure(hospital, hospital).total.leaked == 0
    assert measure(hospital, hospital, tag="Hospital").total.leaked == 0
    assert measure(hospital, hospital, tag="VEGA").total.leaked == 1


def test_an_age_that_stays_is_kept_only_as_an_age():
    age = [("64 años", "EDAD")]
    assert measure(age, age, mode="surrogates").total == Leakage(1, 0, 1)
    relative = [("64 años", "FAMILIARES_SUJETO_ASISTENCIA")]
    assert measure(relative, age, mode="surrogates").total == Leakage(1, 1, 0)


def test_labels_that_do_not_identify_are_not_counted():
    report = measure(ALL, [], is_identifying=lambda label: label == "LUGAR")
    assert report.labels == {"LUGAR": Leakage(1, 1, 0)}


def test_gold_may_be_in_a_span_group_and_out_of_all_layers():
    assert measure(ALL, ALL[:2], spans_key="gold").total == Leakage(6, 4, 0)
    gold, predicted = make_doc(), BiomedDeidentifier()(make_doc())
    gold._.unaligned_mentions = [(0, 5, "NOMBRE")]
    assert measure_leakage([(gold, predicted)]).total == Leakage(1, 1, 0)


def test_what_cannot_be_compared_is_refused():
    done = BiomedDeidentifier()(make_doc())
    with pytest.raises(BiomedError, match="document 1 was not de-identified"):
        measure_leakage([(make_doc(), make_doc())])
    with pytest.raises(BiomedError, match="document 2 is compared with another text"):
        measure_leakage([(make_doc(), done), (make_doc(text="Otra nota."), done)])
    with pytest.raises(BiomedError, match=r'no gold mentions in doc.spans\["phi"\], but in no'):
        measure_leakage([(make_doc(), done)], spans_key="phi")
    # Not annotated, which is not the same as without a mention.
    with pytest.raises(BiomedError, match=r"document 1 has no gold mentions in doc.ents, but in"):
        measure_leakage([(NLP.make_doc(TEXT), done)])


def test_what_a_drawn_surrogate_shows_is_counted_apart():
    """In some of 200 notes the year becomes the same year, one of forty."""
    pairs, component = [], BiomedDeidentifier(mode="surrogates", secret_variable=None)
    for i in range(200):
        text = f"{i}: Marta Ochoa, 64 años, 12/03/2019"
        mentions = [("Marta Ochoa", "NOMBRE"), ("64 años", "EDAD"), ("12/03/2019", "FECHA")]
        pairs.append((make_doc(*mentions, text=text), make_doc(*mentions, text=text)))
    pairs = [(gold, component(doc)) for gold, doc in pairs]
    apart = measure_leakage(pairs, is_drawn=component.is_drawn).labels
    assert {label: one.leaked for label, one in apart.items()} == dict.fromkeys(apart, 0)
    assert (apart["EDAD"].kept, apart["EDAD"].by_chance) == (200, 0)
    assert 0 < apart["FECHA"].by_chance < 15 and apart["NOMBRE"].by_chance < 10
    together = measure_leakage(pairs).labels
    assert together["FECHA"].leaked == apart["FECHA"].by_chance
    # The part of a mention next to a surrogate still leaks.
    component = BiomedDeidentifier(mode="surrogates", secret_variable=None, extend=False)
    gold, doc = make_doc(("Marta Ochoa", "NOMBRE")), component(make_doc(("Marta", "NOMBRE")))
    report = measure_leakage([(gold, doc)], is_drawn=component.is_drawn)
    assert report.total == Leakage(1, leaked=1)
