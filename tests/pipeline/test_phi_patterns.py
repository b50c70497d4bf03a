import doctest
import random

import pytest
import spacy
from spacy.tokens import Span

from spacy_biomed.errors import BiomedError
from spacy_biomed.pipeline import phi_patterns


def make_nlp(rules=(), language="es", spans_key=None, **settings):
    nlp = spacy.blank(language)
    if spans_key is None:
        nlp.add_pipe("entity_ruler").add_patterns(list(rules))
    else:
        config = {"spans_key": spans_key}
        nlp.add_pipe("span_ruler", config=config).add_patterns(list(rules))
    nlp.add_pipe("biomed_phi_patterns", config={"spans_key": spans_key, **settings})
    return nlp


def found(layer):
    return [(span.text, span.label_) for span in layer]


def test_the_example_of_the_class():
    assert doctest.testmod(phi_patterns).failed == 0


def test_patterns_join_what_was_found_before():
    nlp = make_nlp([{"label": "NOMBRE", "pattern": "Ana Ruiz"}, {"label": "FECHA", "pattern": "x"}])
    doc = nlp("Ana Ruiz vino el 12/03/2019, NHC 1234567.")
    assert found(doc.ents) == [("Ana Ruiz", "NOMBRE"), ("12/03/2019", "FECHA"), ("1234567", "ID")]


def test_a_mention_around_a_pattern_stays_and_one_that_is_a_part_grows():
    nlp = make_nlp(
        [{"label": "FECHA", "pattern": "12"}, {"label": "FECHA", "pattern": "el 5/5/2019 ya"}]
    )
    assert found(nlp("Fue 12/03/2019 y el 5/5/2019 ya").ents) == [
        ("12/03/2019", "FECHA"),
        ("el 5/5/2019 ya", "FECHA"),
    ]


def test_a_date_is_no_sex_no_identifier_and_no_place():
    labels = {
        "04JUL2021": "SEXO",
        "4-jul-21": "IDENTIFICADOR",
        "NHC 777": "EDAD",
        "20230914": "LUGAR",
    }
    nlp = make_nlp([{"label": label, "pattern": text} for text, label in labels.items()])
    assert found(nlp("Fecha: 04JUL2021, 4-jul-21, NHC 777, fecha 20230914").ents) == [
        ("04JUL2021", "DATE"),
        ("4-jul-21", "DATE"),
        ("NHC 777", "EDAD"),
        ("20230914", "DATE"),
    ]


def test_an_address_of_mail_is_no_name():
    nlp = make_nlp([{"label": "NOMBRE", "pattern": "ana.ruiz@b.es"}])
    assert found(nlp("Correo: ana.ruiz@b.es").ents) == [("ana.ruiz@b.es", "EMAIL")]


def test_a_diagnosis_gives_way():
    nlp = make_nlp([{"label": "DIAGNOSTICO", "pattern": "asma 12/03/2019"}])
    assert found(nlp("Tuvo asma 12/03/2019.").ents) == [("12/03/2019", "DATE")]


def test_a_span_group_gets_the_spans_and_an_absent_one_stays_absent():
    nlp = make_nlp([{"label": "NOMBRE", "pattern": "Ana"}], spans_key="phi")
    doc = nlp("Ana, 12/03/2019")
    assert found(doc.spans["phi"]) == [("Ana", "NOMBRE"), ("12/03/2019", "DATE")]
    nlp.remove_pipe("span_ruler")
    assert "phi" not in nlp("Ana, 12/03/2019").spans


def test_patterns_and_labels_can_be_chosen():
    nlp = make_nlp(patterns=["date"], labels={"date": "CUANDO"})
    nlp.remove_pipe("entity_ruler")
    assert found(nlp("El 12/03/2019, tel. 912345678").ents) == [("12/03/2019", "CUANDO")]
    assert nlp.get_pipe("biomed_phi_patterns").labels == ("CUANDO",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"patterns": ["dates"]}, "no pattern dates; use some of date"),
        ({"labels": {"dates": "X"}}, "no pattern dates"),
        ({"kinds": {"X": "sister"}}, "no such kind"),
    ],
)
def test_bad_settings_are_one_line(settings, message):
    with pytest.raises(BiomedError, match=message):
        spacy.blank("es").add_pipe("biomed_phi_patterns", config=settings)
    with pytest.raises(BiomedError, match="no rules for the language fr"):
        spacy.blank("fr").add_pipe("biomed_phi_patterns")


def test_patterns_alone_do_not_make_a_pipeline_that_de_identifies():
    nlp = spacy.blank("es")
    nlp.add_pipe("biomed_phi_patterns")
    component = nlp.add_pipe("biomed_deidentify")
    assert nlp("Ana Ruiz, 12/03/2019")._.deidentified is None
    with pytest.raises(BiomedError, match="names would stay in the text"):
        component.check_pipeline()
    nlp.replace_pipe("biomed_deidentify", "biomed_deidentify", config={"kinds": {"WHO": "name"}})
    assert nlp("Ana Ruiz, 12/03/2019")._.deidentified is None
    nlp.add_pipe("biomed_phi_patterns", "english", config={"language": "en"}, first=True)
    assert nlp("Ana Ruiz, 12/03/2019")._.deidentified is None


def test_the_component_is_saved_with_the_pipeline(tmp_path):
    nlp = make_nlp([{"label": "NOMBRE", "pattern": "Ana"}], patterns=["date"])
    nlp.to_disk(tmp_path)
    doc = spacy.load(tmp_path)("Ana, 12/03/2019, tel. 912345678")
    assert found(doc.ents) == [("Ana", "NOMBRE"), ("12/03/2019", "DATE")]


def unite_one_with_all(doc, mentions, found):
    """The mentions and the found spans together, each found span compared with every mention."""
    others = list(mentions)
    for span in found:
        met = [one for one in others if one.start < span.end and span.start < one.end]
        personal = [one for one in met if one.label_ != "ENFERMEDAD"]
        if any(one.start <= span.start and span.end <= one.end for one in personal):
            continue
        parts = [span, *personal]
        start, end = min(one.start for one in parts), max(one.end for one in parts)
        others = [one for one in others if one not in met]
        others.append(Span(doc, start, end, max(parts, key=len).label))
    return sorted(others)


@pytest.mark.parametrize("seed", range(20))
def test_only_what_is_near_is_compared_and_nothing_is_missed(seed):
    rng = random.Random(seed)
    nlp = make_nlp(spans_key="phi", kinds={"ENFERMEDAD": "keep"})
    doc = nlp.make_doc("a " * 60)

    def draw(labels, count):
        starts = [rng.randrange(55) for _ in range(count)]
        return [
            Span(doc, one, one + rng.randrange(1, 6), label=rng.choice(labels)) for one in starts
        ]

    mentions = sorted(draw(["NOMBRE", "ENFERMEDAD", "LUGAR"], 20))
    found = draw(["FECHA", "ID"], 15)
    united = nlp.get_pipe("biomed_phi_patterns")._unite(doc, mentions, found)
    # Either of two equally long ones may give the label.
    expected = unite_one_with_all(doc, mentions, found)
    assert [(one.start, one.end) for one in united] == [(one.start, one.end) for one in expected]
