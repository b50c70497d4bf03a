import doctest
import pickle
import random
from datetime import datetime
from pathlib import Path

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.vocab import Vocab

from spacy_biomed.annotations.deidentified import Deidentified
from spacy_biomed.deidentification.document_key import derive_key
from spacy_biomed.deidentification.mentions import Mention, find_again, merge_overlapping
from spacy_biomed.deidentification.phi_kinds import KINDS_OF_LABELS
from spacy_biomed.deidentification.plain_text import PlainText
from spacy_biomed.deidentification.term_lists import terms
from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.pipeline.deidentify import BiomedDeidentifier
from spacy_biomed.pipeline.mention_layer import set_confidence

PAGE = Path(__file__).parents[2] / "docs" / "tasks" / "deidentification.md"
DEIDENTIFY, VARIABLE = "biomed_deidentify", "SPACY_BIOMED_SECRET"
TEXT = "Marta Ochoa, de 67 años, ingresó el 12/03/2019 en Tudela. Dra. Marta Ochoa firmó."
PATTERNS = [
    {"label": "NOMBRE", "pattern": [{"TEXT": "Marta"}, {"TEXT": "Ochoa"}]},
    {"label": "FECHA", "pattern": [{"TEXT": {"REGEX": r"^\d+/\d+/\d+$"}}]},
    {"label": "LUGAR", "pattern": [{"TEXT": "Tudela"}]},
    {"label": "EDAD", "pattern": [{"TEXT": "67"}, {"TEXT": "años"}]},
    {"label": "DIAGNOSTICO", "pattern": [{"TEXT": "asma"}]},
]


@pytest.fixture(autouse=True)
def secret(monkeypatch):
    monkeypatch.setenv(VARIABLE, "0123456789abcdef")


def make_nlp(patterns=PATTERNS, language="es", **settings):
    """A pipeline that finds mentions by rules."""
    nlp = spacy.blank(language)
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.add_pipe(DEIDENTIFY, config=settings)
    return nlp


def deidentify(text, spans, **settings):
    """De-identify a text with given mentions: (start, end, label), in characters."""
    component = BiomedDeidentifier(spans_key="phi", **settings)
    # A token for each character, so that any mention is a span.
    doc = Doc(Vocab(), words=list(text), spaces=[False] * len(text))
    doc.spans["phi"] = [Span(doc, start, end, label=label) for start, end, label in spans]
    return component(doc)._.deidentified


def place(text, mention, label):
    """The first place of a mention in a text, as `deidentify` takes it."""
    start = text.index(mention)
    return [(start, start + len(mention), label)]


def deidentified_text(nlp, text=TEXT):
    return nlp(text)._.deidentified.text


# Tags


def test_each_mention_becomes_a_tag_of_its_label():
    assert deidentified_text(make_nlp()) == (
        "[NOMBRE], de [EDAD], ingresó el [FECHA] en [LUGAR]. Dra. [NOMBRE] firmó."
    )
    assert deidentified_text(make_nlp(tag="<{label}>"), "En Tudela.") == "En <LUGAR>."
    assert deidentified_text(make_nlp(tag="█"), "En Tudela.") == "En █."


def test_the_document_itself_stays_as_it_is():
    doc = make_nlp()(TEXT)
    assert doc.text == TEXT
    assert [ent.text for ent in doc.ents][0] == "Marta Ochoa"


def test_values_and_strengths_are_no_dates_and_diseases_no_occupations():
    patterns = [
        {"label": "FECHA", "pattern": [{"TEXT": {"REGEX": r"^(\d{4}|20190312|05/05)$"}}]},
        {"label": "PROFESION", "pattern": [{"LOWER": {"IN": ["alzheimer", "celador"]}}]},
    ]
    text = "Leucocitos 1985. Diuresis 1950 ml. Fuerza 05/05. Su madre, Alzheimer."
    nlp = make_nlp(patterns)
    assert deidentified_text(nlp, text) == text
    text = "FA 2019, operado en 1998, celador. Muestra: 20190312. Cita el 05/05."
    assert deidentified_text(nlp, text) == (
        "FA [FECHA], operado en [FECHA], [PROFESION]. Muestra: [FECHA]. Cita el [FECHA]."
    )


def test_diagnoses_stay_and_unknown_labels_become_tags():
    patterns = [*PATTERNS, {"label": "TWIN", "pattern": [{"TEXT": "gemela"}]}]
    text = deidentified_text(make_nlp(patterns), "Su gemela tiene asma.")
    assert text == "Su [TWIN] tiene asma."
    kinds = {"TWIN": "keep", "DIAGNOSTICO": "other"}
    text = deidentified_text(make_nlp(patterns, kinds=kinds), "Su gemela tiene asma.")
    assert text == "Su gemela tiene [DIAGNOSTICO]."


def test_of_overlapping_mentions_the_longest_names_what_all_of_them_cover():
    text = "Ana Ruiz Gil vino."
    spans = [(0, 8, "NOMBRE"), (4, 12, "LUGAR"), (0, 3, "FECHA"), (13, 17, "OTRO"), (13, 15, "A")]
    deidentified = deidentify(text, [*spans, (4, 8, "B")])
    assert deidentified.text == "[NOMBRE] [OTRO]."
    assert deidentify(text, [(0, 8, "NOMBRE"), (4, 17, "LUGAR")]).text == "[LUGAR]."
    assert deidentify(text, [(0, 3, "A"), (3, 8, "B")]).text == "[A] [B] Gil vino."


def test_merging_goes_on_through_a_chain():
    chain = [Mention(0, 4, "A"), Mention(3, 9, "B"), Mention(8, 10, "C"), Mention(10, 12, "D")]
    assert merge_overlapping(reversed(chain)) == [Mention(0, 10, "B"), Mention(10, 12, "D")]


# Propagation of names


def test_a_name_found_once_is_replaced_everywhere():
    spans = [(0, 8, "NOMBRE")]
    text = "Ana Ruiz vino; Ana Ruiz; Ana. Solo Ruizma y ana ruiz no."
    assert deidentify(text, spans).text == (
        "[NOMBRE] vino; [NOMBRE]; [NOMBRE]. Solo Ruizma y [NOMBRE] no."
    )
    assert deidentify(text, spans, propagate=False).text == "[NOMBRE]" + text[8:]


def test_of_mentions_of_two_letters_only_known_names_are_looked_for_as_they_were_written():
    text = "Mr Ng came. Ng is well. PSA 4 ng/mL, NG tube. Qx y Qx; Tudela y Tudela"
    spans = [(3, 5, "NOMBRE"), (46, 48, "NOMBRE"), (55, 61, "LUGAR")]
    assert deidentify(text, spans).text == (
        "Mr [NOMBRE] came. [NOMBRE] is well. PSA 4 ng/mL, NG tube. [NOMBRE] y Qx; [LUGAR] y [LUGAR]"
    )
    mention, text = Mention(0, 4, "N"), PlainText("Qx-7, Qx-7")
    assert find_again(text, [mention], lambda label: "name", "es") == []


def test_a_name_found_again_that_a_mention_covers_in_part_is_covered_whole():
    text = "Ana Ruiz; Ana Ruiz Gil"
    assert deidentify(text, [(0, 8, "NOMBRE"), (14, 22, "NOMBRE")]).text == "[NOMBRE]; [NOMBRE]"


# Surrogates


def test_surrogates_read_like_the_original():
    nlp = make_nlp(mode="surrogates")
    replacements = nlp(TEXT)._.deidentified.replacements
    name, age, day, place, again = (one.text for one in replacements)
    assert name == again != "Marta Ochoa"
    assert age == "67 años"
    assert day != "12/03/2019" and day[2] == day[5] == "/"
    assert place[0].isupper() and place != "Tudela"


def test_surrogates_follow_from_secret_seed_and_document(monkeypatch):
    text = deidentified_text(make_nlp(mode="surrogates"))
    nlp = make_nlp(mode="surrogates")
    docs = list(nlp.pipe(["Otra nota de Marta Ochoa.", TEXT]))
    assert docs[1]._.deidentified.text == text
    name = "Marta Ochoa"
    assert {
        deidentified_text(make_nlp(mode="surrogates", seed=seed), name) for seed in range(5)
    } > {deidentified_text(nlp, name)}
    monkeypatch.setenv(VARIABLE, "fedcba9876543210")
    assert deidentified_text(nlp) != text


def test_documents_of_one_identifier_share_surrogates():
    nlp = make_nlp(mode="surrogates", key_from="document_id")
    texts = []
    for note, patient in [("12/03/2019: Tudela", "a"), ("Tudela. 12/03/2019", "a"), (TEXT, "b")]:
        doc = nlp.make_doc(note)
        doc.user_data["document_id"] = patient
        texts.append({one.label: one.text for one in nlp(doc)._.deidentified.replacements})
    assert texts[0] == texts[1]
    assert texts[0]["FECHA"] != texts[2]["FECHA"]
    with pytest.raises(BiomedError, match='key_from = "document_id": a document has no') as error:
        nlp("Tudela")
    assert "Tudela" not in str(error.value)


def test_with_an_error_handler_the_other_documents_go_on():
    nlp = make_nlp(mode="surrogates", key_from="document_id")
    nlp.set_error_handler(lambda name, component, docs, error: failed.extend(docs))
    failed, docs = [], [nlp.make_doc(f"Nota {i}: Tudela") for i in range(3)]
    for i in (0, 2):
        # Not a valid character, but identifiers are only hashed.
        docs[i].user_data["document_id"] = f"\ud800{i}"
    assert [doc.text for doc in nlp.pipe(docs)] == ["Nota 0: Tudela", "Nota 2: Tudela"]
    assert [doc.text for doc in failed] == ["Nota 1: Tudela"]


def test_day_or_month_first_goes_by_the_language_or_the_setting():
    def days(language, **settings):
        nlp = make_nlp(language=language, mode="surrogates", **settings)
        return deidentified_text(nlp, "12/03/2019")

    assert days("en") == days("en", day_first=False) != days("en", day_first=True)
    assert days("es") == days("es", day_first=True) == days("en", day_first=True)


def test_a_component_that_is_used_alone_reads_dates_as_its_language_writes_them():
    def shift(language, **settings):
        settings |= {"mode": "surrogates", "secret_variable": None, "language": language}
        return deidentify("12/03/2019", [(0, 10, "DATE")], **settings).text

    assert shift("es") == shift("es", day_first=True) != shift("es", day_first=False)
    assert shift("en") == shift("en", day_first=False)


def test_names_come_from_lists_of_the_language():
    for pipeline, language in [("es", None), ("en", None), ("xx", None), ("es", "en")]:
        nlp = spacy.blank(pipeline)
        nlp.add_pipe("entity_ruler").add_patterns(PATTERNS)
        nlp.add_pipe(DEIDENTIFY, config={"mode": "surrogates", "language": language})
        place = nlp("Tudela")._.deidentified.text
        expected = language or {"es": "es"}.get(pipeline, "en")
        assert place in terms(expected, "places")


# The secret


def test_surrogates_need_a_secret_that_cannot_be_guessed(monkeypatch):
    nlp = make_nlp(mode="surrogates")
    monkeypatch.setenv(VARIABLE, "short")
    with pytest.raises(BiomedError, match=f"{VARIABLE} has 5 characters"):
        nlp("Nada.")
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(BiomedError, match=f"set the environment variable {VARIABLE}"):
        nlp("Nada.")
    assert deidentified_text(make_nlp(), "En Tudela.") == "En [LUGAR]."
    assert deidentified_text(make_nlp(mode="surrogates", secret_variable=None), "Tudela")


def test_a_secret_that_was_set_comes_first_and_is_not_saved(tmp_path):
    nlp = make_nlp(mode="surrogates")
    from_variable = deidentified_text(nlp)
    secret = "of the hospital, long enough"
    nlp.get_pipe(DEIDENTIFY).set_secret(secret)
    text = deidentified_text(nlp)
    assert text != from_variable
    nlp.to_disk(tmp_path)
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or secret.encode() not in path.read_bytes()
    assert deidentified_text(spacy.load(tmp_path)) == from_variable
    with pytest.raises(BiomedError, match="the secret has 3 characters"):
        nlp.get_pipe(DEIDENTIFY).set_secret("abc")


def test_a_passphrase_is_stretched_once_a_process(monkeypatch):
    derive_key.cache_clear()
    monkeypatch.setenv(VARIABLE, "a passphrase of some length")
    nlp = make_nlp(mode="surrogates")
    for i in range(5):
        nlp(f"Nota {i} de Marta Ochoa.")
    assert derive_key.cache_info().misses == 1


def test_pickles_and_other_processes_have_the_same_surrogates():
    nlp = make_nlp(mode="surrogates")
    nlp.get_pipe(DEIDENTIFY).set_secret("of the hospital, long enough")
    assert deidentified_text(pickle.loads(pickle.dumps(nlp))) == deidentified_text(nlp)


# Settings


def test_settings_come_back_and_can_be_changed_at_load_time(tmp_path):
    nlp = make_nlp(mode="surrogates", seed=3, age_limit=60, kinds={"LUGAR": "keep"})
    nlp.to_disk(tmp_path)
    from_bytes = spacy.blank("es").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for again in (spacy.load(tmp_path), from_bytes):
        assert deidentified_text(again) == deidentified_text(nlp)
        assert "de 60 años" in deidentified_text(again) and "Tudela" in deidentified_text(again)
    tags = spacy.load(tmp_path, config={"components": {DEIDENTIFY: {"mode": "tags"}}})
    assert "de [EDAD], ingresó" in deidentified_text(tags)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tag": "[{name}]"}, r"tag = \"\[\{name\}\]\": use a text in which only \{label\}"),
        ({"tag": ""}, 'tag = "": use a text'),
        ({"age_limit": -1}, "age_limit = -1: use 0 or more"),
        ({"kinds": {"A": "b"}}, "A = 'b': no such kind"),
    ],
)
def test_wrong_settings_are_refused(settings, message):
    with pytest.raises(BiomedError, match=message) as error:
        make_nlp(**settings)
    assert f"[components.{DEIDENTIFY}" in str(error.value)
    assert "\n" not in str(error.value)


# Layers


def test_a_text_in_which_nobody_looked_is_not_de_identified():
    nlp = spacy.blank("es")
    nlp.add_pipe(DEIDENTIFY)
    assert nlp(TEXT)._.deidentified is None
    nlp = spacy.blank("es")
    nlp.add_pipe(DEIDENTIFY, config={"spans_key": "phi"})
    assert nlp(TEXT)._.deidentified is None


@pytest.mark.parametrize("mode", ["tags", "surrogates"])
@pytest.mark.parametrize("text", ["", " \n ", "🙂", "Sin nada."])
def test_a_text_without_mentions_stays(text, mode):
    deidentified = make_nlp(mode=mode)(text)._.deidentified
    assert (deidentified.text, deidentified.replacements) == (text, [])


@pytest.mark.parametrize("compressed", [False, True])
def test_it_runs_behind_both_encoders(make_pipeline, compressed, tmp_path):
    nlp = make_pipeline({"biomed_ner": {}})
    nlp.get_pipe("biomed_ner").add_label("NAME")
    nlp.initialize()
    nlp.add_pipe(DEIDENTIFY, config={"mode": "surrogates", "extend": False})
    if compressed:
        write_compressed(nlp, tmp_path / "compressed", "fp32", False)
        nlp = spacy.load(tmp_path / "compressed")
    # Untrained weights find some mentions:
    docs = list(nlp.pipe(["Ms Lee has asthma and sees Dr Brown in Leeds."] * 3))
    assert docs[0].ents
    for doc in docs:
        assert doc.ents and doc._.deidentified.replacements
        for ent in doc.ents:
            replaced = doc._.deidentified.replacements
            assert any(one.start <= ent.start_char and ent.end_char <= one.end for one in replaced)
        assert doc._.deidentified.text == docs[0]._.deidentified.text != doc.text


def test_processes_give_the_same_and_it_survives_in_files():
    nlp = make_nlp(mode="surrogates")
    texts = [TEXT, "En Tudela.", "Nada."]
    expected = [deidentified_text(nlp, text) for text in texts]
    docs = list(nlp.pipe(texts, n_process=2, batch_size=1))
    assert [doc._.deidentified.text for doc in docs] == expected
    data = DocBin(store_user_data=True, docs=docs).to_bytes()
    again = list(DocBin().from_bytes(data).get_docs(nlp.vocab))
    for one, other in zip(docs, again, strict=True):
        assert other._.deidentified.text == one._.deidentified.text
        assert other._.deidentified.replacements == one._.deidentified.replacements
    assert pickle.loads(pickle.dumps(docs[0]))._.deidentified.text == expected[0]


# Labels


CHEMICALS = [{"label": "CHEMICAL", "pattern": "aspirina"}]
NOTE = "Marta Ochoa tomó aspirina."


def test_mentions_that_an_entity_recogniser_would_replace_are_refused(make_pipeline):
    nlp = make_pipeline({"biomed_ner": {}})
    nlp.get_pipe("biomed_ner").add_label("NAME")
    component = nlp.add_pipe(DEIDENTIFY)
    nlp.add_pipe("entity_ruler", first=True).add_patterns(PATTERNS)
    with pytest.raises(BiomedError, match="what entity_ruler finds is replaced by the biomed_ner"):
        component.check_pipeline()
    nlp.remove_pipe("entity_ruler")
    nlp.add_pipe("entity_ruler", after="biomed_ner")
    component.check_pipeline()


def test_a_pipeline_that_finds_no_personal_data_is_refused():
    nlp = make_nlp(CHEMICALS)
    with pytest.raises(BiomedError, match=r"\(entity_ruler\) finds CHEMICAL, and so") as error:
        nlp(NOTE)
    assert 'kinds = {"MY_LABEL": "name"}' in str(error.value)
    assert "NAME, PATIENT" in str(error.value) and "\n" not in str(error.value)
    assert "Marta" not in str(error.value) and "aspirina" not in str(error.value)
    with pytest.raises(BiomedError, match="nothing known as personal"):
        list(nlp.pipe([NOTE]))
    with pytest.raises(BiomedError, match="DIAGNOSTICO, and so nothing"):
        make_nlp([PATTERNS[-1]])(NOTE)
    with pytest.raises(BiomedError, match="finds L0, L1, .*, L5 and 4 others, and so"):
        make_nlp([{"label": f"L{i}", "pattern": "x"} for i in range(12)])(NOTE)


def test_with_an_error_handler_no_text_of_such_a_pipeline_comes_out():
    nlp = make_nlp(CHEMICALS)
    nlp.set_error_handler(lambda *arguments: None)
    assert list(nlp.pipe([NOTE, "Nada."])) == []


def test_kinds_say_which_labels_of_ones_own_are_personal_data():
    patterns = [*CHEMICALS, {"label": "TWIN", "pattern": "gemela"}]
    for kind, expected in [("other", "Su [TWIN]."), ("name", "Su [TWIN].")]:
        assert deidentified_text(make_nlp(patterns, kinds={"TWIN": kind}), "Su gemela.") == expected
    for kinds in ({"TWIN": "keep"}, {"NIECE": "name"}):
        with pytest.raises(BiomedError, match="CHEMICAL, TWIN, and so nothing"):
            make_nlp(patterns, kinds=kinds)("Su gemela.")


def test_labels_count_in_the_layer_that_is_read_and_before_the_component():
    def make(ruler, **settings):
        nlp = spacy.blank("es")
        nlp.add_pipe("span_ruler", config=ruler).add_patterns(PATTERNS)
        nlp.add_pipe("entity_ruler").add_patterns(CHEMICALS)
        nlp.add_pipe(DEIDENTIFY, config=settings)
        nlp.add_pipe("entity_ruler", name="last").add_patterns(PATTERNS)
        return nlp

    in_group = {"spans_key": "phi"}
    expected = "[NOMBRE] tomó aspirina."
    assert deidentified_text(make(in_group, spans_key="phi"), NOTE) == expected
    as_entities = {"spans_key": None, "annotate_ents": True}
    assert deidentified_text(make(as_entities), NOTE) == "[NOMBRE] tomó [CHEMICAL]."
    for ruler, settings in [(in_group, {}), ({"spans_key": "other"}, in_group)]:
        nlp = make(ruler, **settings)
        doc = nlp.make_doc(NOTE)
        doc.spans["phi"] = []
        with pytest.raises(BiomedError, match="nothing known as personal"):
            nlp(doc)


@spacy.Language.component("finder_without_labels")
def find_first_word(doc):
    doc.ents = [Span(doc, 0, 1, label="WHO")]
    return doc


def test_where_a_component_does_not_tell_its_labels_kinds_have_to():
    def make(component, **settings):
        nlp = spacy.blank("es")
        if component:
            nlp.add_pipe(component)
        nlp.add_pipe(DEIDENTIFY, config=settings)
        return nlp

    with pytest.raises(BiomedError, match="finds no labels that it tells, .* --kind MY_LABEL=name"):
        make("finder_without_labels")(NOTE)
    text = deidentified_text(make("finder_without_labels", kinds={"WHO": "name"}), NOTE)
    assert text == "[WHO] tomó aspirina."
    for kinds in ({}, {"WHO": "keep"}, {"WHO": "name"}):
        doc = find_first_word(spacy.blank("es")(NOTE))
        nlp = make(None, kinds=kinds)
        doc = Doc(nlp.vocab).from_bytes(doc.to_bytes())
        if kinds.get("WHO") == "name":
            assert nlp(doc)._.deidentified.text == text
        else:
            with pytest.raises(BiomedError, match=r"\(nothing\) finds no labels"):
                nlp(doc)


def test_a_component_that_goes_is_missed():
    nlp = make_nlp()
    nlp.add_pipe("entity_ruler", name="chemicals", before=DEIDENTIFY).add_patterns(CHEMICALS)
    assert deidentified_text(nlp, NOTE) == "[NOMBRE] tomó [CHEMICAL]."
    nlp.disable_pipe("entity_ruler")
    with pytest.raises(BiomedError, match=r"\(chemicals\) finds CHEMICAL, and"):
        nlp(NOTE)


# Offsets


def test_offsets_inside_a_mention_go_to_its_edges():
    deidentified = Deidentified("ab Ana cd", [(3, 6, "N", "[NAME]")])
    assert deidentified.text == "ab [NAME] cd"
    assert [deidentified.offset_to_new(i) for i in range(10)] == [0, 1, 2, 3, 3, 3, 9, 10, 11, 12]
    assert [deidentified.offset_to_original(i) for i in range(13)] == [
        *(0, 1, 2, 3, 3, 3, 3, 3, 3, 6, 7, 8, 9)
    ]
    assert deidentified.span_to_new(4, 5) == deidentified.span_to_new(3, 6) == (3, 9)
    assert deidentified.span_to_new(1, 4) == (1, 9)
    assert deidentified.span_to_original(8, 11) == (3, 8)


ALPHABET = "aábñ cdZ\n.,-'7\u00bd4\u0301Ñ李🙂"


def random_document(generator):
    """A text of random characters, and random spans that may overlap."""
    text = "".join(generator.choices(ALPHABET, k=generator.randint(1, 80)))
    labels = sorted(KINDS_OF_LABELS) + ["UNKNOWN"]
    spans = []
    for _ in range(generator.randint(0, 8)):
        start = generator.randrange(len(text))
        end = min(len(text), start + generator.randint(1, 20))
        spans.append((start, end, generator.choice(labels)))
    return text, spans


@pytest.mark.parametrize("mode", ["tags", "surrogates"])
@pytest.mark.parametrize("language", ["en", "es"])
def test_outside_mentions_all_is_the_same_and_inside_all_is_replaced(mode, language):
    """Random texts; ages may stay, and mentions of the kind "keep" are not replaced.

    A surrogate may equal the original by chance, for a single letter once in 26 times.
    """
    kept = {label: "other" for label, kind in KINDS_OF_LABELS.items() if kind in ("age", "keep")}
    settings = {
        "mode": mode,
        "language": language,
        "propagate": False,
        "extend": False,
        "kinds": kept,
    }
    generator = random.Random(f"{mode} {language}")
    replaced = 0
    for _ in range(150):
        text, spans = random_document(generator)
        deidentified = deidentify(text, spans, **settings)
        covered = {place for start, end, _ in spans for place in range(start, end)}
        check_outside(text, deidentified, covered)
        for one in deidentified.replacements:
            original = text[one.start : one.end]
            assert deidentified.text[one.new_start : one.new_end] == one.text
            is_long = sum(map(str.isalnum, original)) >= 3
            if is_long or (mode == "tags" and original not in f"[{one.label}]"):
                assert original not in one.text
            replaced += 1
        for start, end, _ in spans:
            new_start, new_end = deidentified.span_to_new(start, end)
            if sum(map(str.isalpha, text[start:end])) >= 3:
                assert text[start:end] not in deidentified.text[new_start:new_end]
    assert replaced > 200


def check_outside(text, deidentified, covered):
    """Check that characters outside mentions are kept, in order, and mapped in both directions."""
    last = -1
    for place in sorted(set(range(len(text))) - covered):
        moved = deidentified.offset_to_new(place)
        assert deidentified.text[moved] == text[place]
        assert deidentified.offset_to_original(moved) == place
        assert deidentified.span_to_original(moved, moved + 1) == (place, place + 1)
        assert moved > last
        last = moved
    length = len(text) - len(covered)
    replaced = sum(len(one.text) for one in deidentified.replacements)
    assert len(deidentified.text) == length + replaced


def test_the_snippet_of_the_page_gives_what_it_says():
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 5 and result.failed == 0


# Mentions that are extended


@pytest.mark.parametrize(
    ("text", "mention", "label", "expected"),
    [
        ("En el H. U. La Princesa hoy", "La Princesa", "HOSPITAL", "En el [HOSPITAL] hoy"),
        ("Calle Mayor 1, 4º L 28035", "Calle Mayor 1", "LUGAR", "[LUGAR] 28035"),
        ("vive en Bogotá D.C. hoy", "Bogotá", "LUGAR", "vive en [LUGAR] hoy"),
        ("Instituto del Dolor (INDO).", "Instituto del Dolor", "HOSPITAL", "[HOSPITAL]."),
        ("con Ochoas.", "Ochoa", "NOMBRE", "con [NOMBRE]."),
        ("Ochoa. A los 3 días", "Ochoa", "NOMBRE", "[NOMBRE]. A los 3 días"),
        ("Tudela 12,5 mg", "Tudela", "LUGAR", "[LUGAR] 12,5 mg"),
        ("de Guinea Bissau, Dakar", "Guinea", "LUGAR", "de [LUGAR], Dakar"),
        ("su madre Teresa Rey llama", "Rey", "NOMBRE", "su madre [NOMBRE] llama"),
        ("Vino. Teresa Rey. Alta", "Rey", "NOMBRE", "Vino. Teresa [NOMBRE]. Alta"),
        ("con Rey\nAlta", "Rey", "NOMBRE", "con [NOMBRE]\nAlta"),
    ],
)
def test_a_mention_gets_the_initials_numbers_and_words_that_join_it(text, mention, label, expected):
    assert deidentify(text, place(text, mention, label)).text == expected


def test_particles_between_mentions_of_one_label_are_replaced_too():
    text = "de 3 años y 8 meses"
    assert deidentify(text, [(3, 9, "EDAD"), (12, 19, "EDAD")]).text == "de [EDAD]"
    assert deidentify(text, [(3, 9, "EDAD"), (12, 19, "SEXO")]).text == "de [EDAD] y [SEXO]"


def test_a_word_of_a_name_is_found_wherever_it_stands():
    text = "Marta Ochoa vino. La Sra. Ochoa no volvió; ochoa."
    assert deidentify(text, [(0, 11, "NOMBRE")]).text == (
        "[NOMBRE] vino. La Sra. [NOMBRE] no volvió; [NOMBRE]."
    )


def test_a_year_of_two_digits_is_read_by_the_other_dates():
    text = "F.N. 12/03/45, ingresa el 10/02/2019"
    spans = [(5, 13, "FECHA"), (26, 36, "FECHA")]
    new = deidentify(text, spans, mode="surrogates", secret_variable=None, language="es").text
    born, admitted = new[5:13], new[26:36]
    # The birth counts as 1945: the latest date is the admission, and becomes a day of forty years.
    assert 1990 <= int(admitted[-4:]) <= 2029
    assert (int(admitted[-4:]) - int(born[-2:])) % 100 in (73, 74)


def test_the_day_of_the_week_before_a_date_moves_with_it():
    text = "Cita: martes, 12/03/2019. O2 sat 12/03/2019: 97%"
    spans = [(14, 24, "FECHA"), (33, 43, "FECHA")]
    assert deidentify(text, spans).text == "Cita: [FECHA]. O2 sat [FECHA]: 97%"
    new = deidentify(text, spans, mode="surrogates", secret_variable=None, language="es")
    weekday, _, day = new.replacements[0].text.partition(", ")
    names = ["lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"]
    assert names.index(weekday) == datetime.strptime(day, "%d/%m/%Y").weekday()


def test_the_time_of_a_timestamp_of_hl7_stays():
    assert deidentify("MSH|20230914103000|x", [(4, 18, "FECHA")]).text == "MSH|[FECHA]103000|x"


def test_a_drug_with_its_maker_before_a_dose_is_nobody():
    text = "Enalapril Ratiopharm 20 mg. Marta Ochoa 5 mg de Sintrom."
    spans = [(0, 20, "NOMBRE"), (28, 39, "NOMBRE")]
    assert deidentify(text, spans).text == "Enalapril Ratiopharm 20 mg. [NOMBRE] 5 mg de Sintrom."


@pytest.mark.parametrize(
    ("text", "mention", "label"),
    [
        ("Reviewed NEJM 2019;380:1706.", "2019", "DATE"),
        ("Reviewed NEJM 2019;380(14):1706-12.", "1706-12", "ID"),
        ("CIE-10 J44.1, N18.3.", "CIE-10 J44.1", "ID"),
        ("Braxton Hicks contractions", "Braxton Hicks", "NAME"),
        ("Child-Pugh B", "Child-Pugh", "NAME"),
    ],
)
def test_papers_codes_of_diagnoses_and_terms_of_two_words_stay(text, mention, label):
    assert deidentify(text, place(text, mention, label)).text == text


def test_samples_with_a_year_references_and_addresses_go():
    text = "Muestra B21-004418, muestra 5552345678, ref. CARD/22/118, alt ANA@B.ES."
    spans = [(8, 18, "ID"), (28, 38, "ID"), (45, 56, "ID"), (62, 70, "CONTACT")]
    assert deidentify(text, spans).text == (
        "Muestra [ID], muestra 5552345678, ref. [ID], alt [CONTACT]."
    )


def test_cells_of_csv_that_are_one_mention_are_replaced_each():
    text = 'Chidi,1971-02-03,7781234,"Mr. Ng"'
    new = deidentify(text, [(6, 28, "DATE")], mode="surrogates", secret_variable=None)
    assert [text[one.start : one.end] for one in new.replacements] == ["1971-02-03", "7781234"]


def test_what_a_maker_makes_is_nobody():
    text = "Monitor Philips IntelliVue MX450. Con Ana Echeverría IV2 hoy."
    assert deidentify(text, [(8, 15, "HOSPITAL"), (38, 41, "NOMBRE")]).text == (
        "Monitor [HOSPITAL] IntelliVue MX450. Con [NOMBRE] IV2 hoy."
    )


def test_capitals_accents_and_order_of_a_name_have_one_surrogate():
    text = "Marta Ochoa vino. OCHOA, MARTA; ochoa."
    settings = {"mode": "surrogates", "secret_variable": None, "language": "es"}
    new = deidentify(text, [(0, 11, "NOMBRE")], **settings).replacements
    given, surname = new[0].text.split(maxsplit=1)
    assert [one.text for one in new[1:]] == [
        f"{surname}, {given}".upper(),
        surname.lower(),
    ]


def test_a_mention_ends_at_a_line_end_but_not_where_a_line_was_wrapped():
    assert deidentify("NHC 331\nMadre sana", [(4, 13, "IDENTIFICADOR")]).text == (
        "NHC [IDENTIFICADOR]\nMadre sana"
    )
    wrapped = "El paciente Juan\nPérez ingresa por disnea"
    assert deidentify(wrapped, [(12, 22, "NOMBRE")]).text == (
        "El paciente [NOMBRE] ingresa por disnea"
    )


@pytest.mark.parametrize(
    ("confidence", "expected"), [(0.8, "Seen by Bell."), (0.95, "Seen by [NAME].")]
)
def test_a_name_that_is_sure_stays_a_name_though_it_is_an_eponym(confidence, expected):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "NAME", "pattern": "Bell"}])
    component = nlp.add_pipe("biomed_deidentify")
    doc = nlp.make_doc("Seen by Bell.")
    doc.ents = [Span(doc, 2, 3, label="NAME")]
    set_confidence(doc.ents[0], confidence)
    assert component(doc)._.deidentified.text == expected
