"""FHIR resources and OMOP tables of annotated notes."""

import json
import re
from collections import Counter
from datetime import date
from functools import cache
from io import BytesIO

import pytest
import spacy
from pyarrow import parquet
from spacy.tokens import Span

from spacy_biomed import BiomedError
from spacy_biomed.annotations.assertions import install_assertions
from spacy_biomed.bulk import BulkSettings, annotate_collection, annotating, shards
from spacy_biomed.files import Columns, Item
from spacy_biomed.formats import fhir, findings, omop
from spacy_biomed.pipeline.pipeline_loading import load_pipeline

TEXT = """PAST MEDICAL HISTORY:
- stroke

FAMILY HISTORY: Father with asthma. Mother without gout.

MEDICATIONS: metformin. Aspirin was denied.

ALLERGIES: aspirin.

ASSESSMENT: Possible pneumonia. No evidence of cancer. Diabetes. Return if fever develops.
"""
TERMS = {
    "DISEASE": ["stroke", "asthma", "gout", "pneumonia", "cancer", "diabetes", "fever"],
    "DRUG": ["metformin", "aspirin"],
    "GENE": ["brca1"],
    "SPECIES": ["patient"],
}
NOTES = [
    {"id": "n1", "person": 7, "note_date": "2026-01-31", "text": TEXT},
    {"id": "n2", "person": 8, "note_date": "", "text": "Patient with gout, no BRCA1, no stroke."},
]


def create_pipeline(path, *, has_context=True):
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns(
        [{"label": label, "pattern": term} for label, terms in TERMS.items() for term in terms]
    )
    if has_context:
        nlp.add_pipe("biomed_sentences", first=True)
        nlp.add_pipe("biomed_sections")
        nlp.add_pipe("biomed_context")
    nlp.to_disk(path)
    return str(path)


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return create_pipeline(tmp_path_factory.mktemp("pipelines") / "pipeline")


load_once = cache(load_pipeline)


@pytest.fixture
def run(pipeline, tmp_path, monkeypatch):
    """Annotate the notes; return the report, and the folder that was written."""
    monkeypatch.setattr(shards, "load_pipeline", load_once)
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in NOTES))

    def annotate(name, *, pipeline=pipeline, keep=(), patient="person", **settings):
        columns = Columns("text", "id", keep, patient)
        made = BulkSettings(columns=columns, shard_size=1, **settings)
        report = annotate_collection(pipeline, tmp_path / "notes.jsonl", tmp_path / name, made)
        return report, tmp_path / name

    return annotate


def read_resources(output):
    files = sorted(output.glob("*/*.ndjson"))
    rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return rows


def find_status(resource, name):
    return resource[name]["coding"][0]["code"] if name in resource else None


def test_what_the_text_says_decides_on_the_status(run):
    report, output = run("out.fhir.ndjson")
    found = read_resources(output)
    conditions = {
        (one["code"]["text"], one["subject"]["identifier"]["value"]): (
            find_status(one, "verificationStatus"),
            find_status(one, "clinicalStatus"),
        )
        for one in found
        if one["resourceType"] == "Condition"
    }
    assert conditions == {
        ("stroke", "7"): ("confirmed", "inactive"),
        ("pneumonia", "7"): ("provisional", "active"),
        ("cancer", "7"): ("refuted", None),
        ("Diabetes", "7"): ("confirmed", "active"),
        ("gout", "8"): ("confirmed", "active"),
        ("stroke", "8"): ("refuted", None),
    }
    types = ("MedicationStatement", "Observation", "FamilyMemberHistory", "AllergyIntolerance")
    by_type = {type: [] for type in types}
    for one in found:
        by_type.setdefault(one["resourceType"], []).append(one)
    (drug, denied) = by_type["MedicationStatement"]
    assert (drug["medicationCodeableConcept"]["text"], drug["status"]) == ("metformin", "active")
    assert denied["status"] == "not-taken"
    (gene,) = by_type["Observation"]
    assert (gene["status"], gene["valueBoolean"]) == ("final", False)
    (family,) = by_type["FamilyMemberHistory"]
    assert family["condition"][0]["code"]["text"] == "asthma"
    assert [one["code"]["text"] for one in by_type["AllergyIntolerance"]] == ["aspirin"]
    assert report.counts["Condition"] == 6
    left_out = {name: count for name, count in report.counts.items() if "left out" in name}
    assert left_out == {
        "left out (family)": 1,
        "left out (hypothetical)": 1,
        "left out (label)": 1,
    }


ALLERGIC = {
    "ALLERGIES:\n- Penicillin (rash, hives)\n- Aspirin\n\nPLAN: codeine": [
        ("Penicillin", "confirmed", "active", ["rash", "hives"]),
        ("Aspirin", "confirmed", "active", []),
    ],
    "Allergies: penicillin, tolerates codeine. Aspirin 81 mg.": [
        ("penicillin", "confirmed", "active", [])
    ],
    "Denies allergy to aspirin. Possible codeine allergy.": [
        ("aspirin", "refuted", "inactive", []),
        ("codeine", "unconfirmed", "active", []),
    ],
    "Allergic to penicillin and takes metformin.": [("penicillin", "confirmed", "active", [])],
    "Allergy status: penicillin | rash\nIntolerances: codeine\nCurrent meds\n1. Metformin": [
        ("penicillin", "confirmed", "active", ["rash"]),
        ("codeine", "confirmed", "active", []),
    ],
    "Adverse drug reactions: aspirin: hives. Allergic reaction to codeine. Takes metformin.": [
        ("aspirin", "confirmed", "active", ["hives"]),
        ("codeine", "confirmed", "active", []),
    ],
    "Intolerancias: codeína. Reacción adversa a aspirina.": [
        ("codeína", "confirmed", "active", []),
        ("aspirina", "confirmed", "active", []),
    ],
    "Mother allergic to aspirin. No known drug allergies. Takes codeine.": [],
    "Alergias: penicilina (rash). Toma codeína.": [("penicilina", "confirmed", "active", ["rash"])],
    "Alérgica a la penicilina y a la aspirina, en tto con codeína.": [
        ("penicilina", "confirmed", "active", []),
        ("aspirina", "confirmed", "active", []),
    ],
    "No alérgico a aspirina. Alergias: NAMC.": [("aspirina", "refuted", "inactive", [])],
}


@cache
def create_allergies(language):
    nlp = spacy.blank(language)
    drugs = ["penicillin", "aspirin", "codeine", "metformin", "penicilina", "aspirina", "codeína"]
    ruler = nlp.add_pipe("entity_ruler", config={"phrase_matcher_attr": "LOWER"})
    ruler.add_patterns([{"label": "DRUG", "pattern": one} for one in drugs])
    conditions = ["rash", "hives", "allergy", "allergies", "drug allergies", "alergias", "allergic"]
    ruler.add_patterns([{"label": "DISEASE", "pattern": one} for one in conditions])
    for name in ("biomed_sentences", "biomed_sections", "biomed_context"):
        nlp.add_pipe(name)
    return nlp


@pytest.mark.parametrize(("text", "expected"), ALLERGIC.items())
def test_what_somebody_is_allergic_to_is_an_allergy(text, expected):
    nlp = create_allergies("en" if "allerg" in text.lower() else "es")
    doc = nlp(text)
    layers = findings.find_layers(nlp)
    document = findings.AnnotatedDocument(0, Item(id="1"), doc, findings.describe(doc, layers))
    meanings = fhir.read_meanings(None)
    shard = findings.AnnotatedShard([document], layers, Counter(), meanings=meanings)
    rows = [json.loads(row) for row in b"".join(fhir.write_fhir(shard).values()).splitlines()]
    by_type = {one["resourceType"] for one in rows}
    assert by_type <= {"AllergyIntolerance", "MedicationStatement"}
    assert [
        (
            one["code"]["text"],
            find_status(one, "verificationStatus"),
            find_status(one, "clinicalStatus"),
            [shown["text"] for got in one.get("reaction", ()) for shown in got["manifestation"]],
        )
        for one in rows
        if one["resourceType"] == "AllergyIntolerance"
    ] == expected
    terms = parquet.read_table(BytesIO(omop.write_omop(shard)["note_nlp/.parquet"])).to_pylist()
    allergens = [one for one in terms if "allergy=true" in one["term_modifiers"]]
    assert {one["term_exists"] for one in allergens} <= {"N"}
    own = [one for one in allergens if "subject=patient" in one["term_modifiers"]]
    assert [one["lexical_variant"] for one in own] == [drug for drug, *_ in expected]


def test_resources_are_valid_and_say_where_they_are_from(run):
    package = pytest.importorskip("fhir.resources.R4B", reason="needs fhir.resources")
    _, output = run("out.fhir.ndjson")
    found = read_resources(output)
    for resource in found:
        package.get_fhir_model_class(resource["resourceType"]).model_validate(resource)
    (stroke,) = [one for one in found if "stroke" in str(one) and "inactive" in str(one)]
    parts = {
        part["url"]: value
        for part in stroke["extension"][0]["extension"]
        for name, value in part.items()
        if name != "url"
    }
    assert TEXT[parts["start"] : parts["end"]] == parts["text"] == "stroke"
    assert (parts["document"], parts["label"]) == ("n1", "DISEASE")
    assert (parts["is_historical"], parts["is_negated"]) == (True, False)
    assert parts["section"]
    ids = [one["id"] for one in found]
    assert len(set(ids)) == len(ids)
    _, again = run("again.fhir.ndjson")
    assert [one["id"] for one in read_resources(again)] == ids


def test_two_patients_with_the_same_note_have_resources_of_their_own(run, tmp_path):
    notes = [{"id": "1", "person": person, "text": "Has gout."} for person in (7, 8)]
    output = tmp_path / "out.fhir.ndjson"
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    run(output.name)
    assert len({one["id"] for one in read_resources(output)}) == 2


def test_without_a_component_for_it_nothing_is_confirmed(run, tmp_path):
    plain = create_pipeline(tmp_path / "plain", has_context=False)
    _, output = run("out.fhir.ndjson", pipeline=plain)
    found = read_resources(output)
    conditions = [one for one in found if one["resourceType"] == "Condition"]
    assert len(conditions) == 9
    assert {find_status(one, "verificationStatus") for one in conditions} == {"unconfirmed"}
    others = {
        one["resourceType"]: one.get("status", find_status(one, "verificationStatus"))
        for one in found
        if one["resourceType"] != "Condition"
    }
    assert others == {
        "AllergyIntolerance": "unconfirmed",
        "MedicationStatement": "unknown",
        "Observation": "unknown",
    }


def test_a_file_says_what_labels_mean(run, tmp_path):
    path = tmp_path / "map.json"
    path.write_text('{"DISEASE": {"resource": ""}, "SPECIES": {"resource": "Observation"}}')
    _, output = run("out.fhir.ndjson", meanings=path)
    types = [one["resourceType"] for one in read_resources(output)]
    assert "Condition" not in types
    assert types.count("Observation") == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"A": {"resource": "Conditon"}}', "unknown resource 'Conditon'; .*mean Condition"),
        ('{"A": "Condition"}', "write each label as in"),
        ('{"A": {"resource": "Condition", "system": 5}}', "write each label as in"),
        ("[]", "write each label as in"),
        ('{"A": {"resource": ""}, "A": {"resource": "Condition"}}', "map.json: two fields"),
        ("{", "map.json:1: not JSON"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_wrong_file_of_labels_is_refused(run, tmp_path, content, message):
    (tmp_path / "map.json").write_text(content)
    with pytest.raises(BiomedError, match=message):
        run("out.fhir.ndjson", meanings=tmp_path / "map.json")
    assert not (tmp_path / "out.fhir.ndjson").exists()


def write_clinical(doc, write, **layers):
    """What a format writes of a document without a context, by the type or the table."""
    shown = findings.Layers(cats=False, relations=False, answers=False, **layers)
    documents = [findings.AnnotatedDocument(0, Item("1"), doc, findings.describe(doc, shown))]
    meanings = fhir.read_meanings(None)
    return write(findings.AnnotatedShard(documents, shown, Counter(), meanings=meanings))


def test_what_no_component_looked_for_is_not_said():
    install_assertions()
    doc = spacy.blank("en")("Gout. Metformin.")
    doc.set_ents([Span(doc, 0, 1, "DISEASE"), Span(doc, 2, 3, "DRUG")])
    for ent in doc.ents:
        ent._.is_negated = False
    written = write_clinical(doc, fhir.write_fhir, assertions=True)
    resources = {type.split("/")[0]: json.loads(content) for type, content in written.items()}
    assert find_status(resources["Condition"], "clinicalStatus") is None
    assert resources["MedicationStatement"]["status"] == "unknown"
    tables = write_clinical(doc, omop.write_omop, assertions=True)
    (term, _) = parquet.read_table(BytesIO(tables["note_nlp/.parquet"])).to_pylist()
    assert (term["term_exists"], term["term_temporal"]) == ("Y", None)
    assert term["term_modifiers"] == "label=DISEASE, negation=false"


def test_a_mention_of_the_entities_and_a_group_is_one():
    doc = spacy.blank("en")("Gout.")
    doc.set_ents([Span(doc, 0, 1, "DISEASE")])
    doc.spans["ruler"] = list(doc.ents)
    (content,) = write_clinical(doc, fhir.write_fhir).values()
    assert len(content.splitlines()) == 1
    tables = write_clinical(doc, omop.write_omop)
    assert parquet.read_table(BytesIO(tables["note_nlp/.parquet"])).num_rows == 1


def test_strings_of_fhir_have_spaces_for_control_characters():
    doc = spacy.blank("en")("lung\x0ccancer")
    doc.set_ents([Span(doc, 0, len(doc), "DISEASE")])
    layers = findings.Layers(cats=False, relations=False, answers=False)
    found = findings.describe(doc, layers)
    documents = [
        findings.AnnotatedDocument(0, Item("n\x011", doc.text, patient="7\x0b"), doc, found)
    ]
    shard = findings.AnnotatedShard(documents, layers, Counter(), meanings=fhir.read_meanings(None))
    (content,) = fhir.write_fhir(shard).values()
    resource = json.loads(content)
    assert resource["code"] == {"text": "lung cancer"}
    assert resource["subject"] == {"identifier": {"value": "7 "}}
    assert {"url": "document", "valueString": "n 1"} in resource["extension"][0]["extension"]
    assert not re.search(r"\\u00[01]", content.decode())


@pytest.mark.parametrize("option", ["meanings", "patient"])
def test_what_only_clinical_outputs_use_is_refused_for_others(run, tmp_path, option):
    unused = {"meanings": None, "patient": None, option: tmp_path / "given"}
    with pytest.raises(BiomedError, match="jsonl does not use it; .* write fhir.ndjson or omop"):
        run("out.jsonl", **unused)
    assert not (tmp_path / "out.jsonl").exists()


DDL = """
CREATE TABLE person (person_id BIGINT PRIMARY KEY);
CREATE TABLE note (
    note_id BIGINT PRIMARY KEY, person_id BIGINT NOT NULL REFERENCES person (person_id),
    note_date DATE NOT NULL, note_datetime TIMESTAMP, note_type_concept_id BIGINT NOT NULL,
    note_class_concept_id BIGINT NOT NULL, note_title VARCHAR, note_text VARCHAR NOT NULL,
    encoding_concept_id BIGINT NOT NULL, language_concept_id BIGINT NOT NULL, provider_id BIGINT,
    visit_occurrence_id BIGINT, visit_detail_id BIGINT, note_source_value VARCHAR,
    note_event_id BIGINT, note_event_field_concept_id BIGINT);
CREATE TABLE note_nlp (
    note_nlp_id BIGINT PRIMARY KEY, note_id BIGINT NOT NULL REFERENCES note (note_id),
    section_concept_id BIGINT, snippet VARCHAR, "offset" VARCHAR,
    lexical_variant VARCHAR NOT NULL, note_nlp_concept_id BIGINT,
    note_nlp_source_concept_id BIGINT, nlp_system VARCHAR, nlp_date DATE NOT NULL,
    nlp_datetime TIMESTAMP, term_exists VARCHAR, term_temporal VARCHAR, term_modifiers VARCHAR);
INSERT INTO person VALUES (7), (8);
"""


def test_the_tables_of_omop_load_into_duckdb_with_their_foreign_keys(run):
    duckdb = pytest.importorskip("duckdb", reason="needs DuckDB")
    _, output = run("out.omop", keep=("note_date",))
    database = duckdb.connect()
    database.execute(DDL)
    for table in ("note", "note_nlp"):
        database.execute(f"INSERT INTO {table} SELECT * FROM '{output}/{table}/*.parquet'")
    query = """
        SELECT person_id, lexical_variant, term_exists, term_temporal
        FROM note_nlp JOIN note USING (note_id) WHERE term_modifiers LIKE '%label=DISEASE%'
        ORDER BY note_nlp_id
    """
    assert database.execute(query).fetchall() == [
        (7, "stroke", "Y", "past"),
        (7, "asthma", "N", "present"),
        (7, "gout", "N", "present"),
        (7, "pneumonia", "Y", "present"),
        (7, "cancer", "N", "present"),
        (7, "Diabetes", "Y", "present"),
        (7, "fever", "N", None),
        (8, "gout", "Y", "present"),
        (8, "stroke", "N", "present"),
    ]
    dates = database.execute("SELECT note_date FROM note ORDER BY note_id").fetchall()
    assert dates == [(date(2026, 1, 31),), (date(1970, 1, 1),)]


@pytest.mark.parametrize("zone", ["", "-05:00"])
def test_the_time_of_a_note_is_that_of_its_place_and_gives_the_date(run, tmp_path, zone):
    note = {"id": "1", "person": 7, "text": "Gout.", "note_datetime": f"2026-01-31T23:30:00{zone}"}
    (tmp_path / "notes.jsonl").write_text(json.dumps(note))
    _, output = run("out.omop", keep=("note_datetime",))
    (row,) = parquet.read_table(output / "note").to_pylist()
    assert row["note_datetime"].isoformat() == "2026-01-31T23:30:00"
    assert row["note_date"].isoformat() == "2026-01-31"


def test_rows_of_omop_have_their_place_and_modifiers(run):
    _, output = run("out.omop")
    notes = parquet.read_table(output / "note").to_pylist()
    assert [note["note_text"] for note in notes] == [note["text"] for note in NOTES]
    assert [note["note_source_value"] for note in notes] == ["n1", "n2"]
    terms = parquet.read_table(output / "note_nlp").to_pylist()
    texts = {note["note_id"]: note["note_text"] for note in notes}
    for term in terms:
        start = int(term["offset"])
        assert texts[term["note_id"]].startswith(term["lexical_variant"], start)
        assert term["lexical_variant"] in term["snippet"]
        assert len(term["snippet"]) <= 250
    (cancer,) = [term for term in terms if term["lexical_variant"] == "cancer"]
    said = dict(one.split("=") for one in cancer["term_modifiers"].split(", "))
    assert said["negation"] == "true"
    assert (said["subject"], said["label"]) == ("patient", "DISEASE")
    assert {term["note_nlp_concept_id"] for term in terms} == {0}


@pytest.mark.parametrize(("lang", "concept"), [("en", 4180186), ("es", 4182511), ("xx", 0)])
def test_the_language_of_a_note_is_that_of_the_pipeline(lang, concept):
    doc = spacy.blank(lang)("Gota.")
    document = findings.AnnotatedDocument(0, Item("1", doc.text), doc, {})
    assert omop._create_note(document)["language_concept_id"] == concept


def test_a_run_that_is_continued_keeps_its_date(run, monkeypatch):
    class Yesterday(date):
        @classmethod
        def today(cls):
            return cls(2026, 1, 1)

    monkeypatch.setattr(annotating, "date", Yesterday)
    _, output = run("out.omop")
    (output / "_finished.jsonl").write_text("")
    monkeypatch.setattr(annotating, "date", date)
    run("out.omop")
    terms = parquet.read_table(output / "note_nlp").to_pylist()
    assert {term["nlp_date"] for term in terms} == {date(2026, 1, 1)}


def test_a_code_of_omop_is_the_concept():
    span = {"label": "DRUG", "code": "1503297", "start": 0, "end": 9, "text": "metformin"}
    note = {"note_id": 3, "note_text": "metformin"}
    shard = omop.AnnotatedShard([], None, None, meanings={"DRUG": {"system": omop.OMOP_SYSTEM}})
    term = omop._create_term(2, span, note, shard)
    assert term["note_nlp_concept_id"] == 1503297
    assert term["term_exists"] is None
    assert omop._create_term(2, span, note, shard._replace(meanings={}))["note_nlp_concept_id"] == 0


@pytest.mark.parametrize(
    ("keep", "patient", "message"),
    [
        (("id2",), "person", "id2"),
        (("person",), "person", "format omop has no place for it"),
    ],
)
def test_what_omop_has_no_place_for_is_refused(run, keep, patient, message):
    with pytest.raises(BiomedError, match=message):
        run("out.omop", keep=keep, patient=patient)


def test_a_run_that_failed_before_its_first_shard_is_begun_anew(run, monkeypatch):
    def fail(document):
        raise BiomedError("no place")

    with monkeypatch.context() as patch, pytest.raises(BiomedError) as caught:
        patch.setattr(omop, "_create_note", fail)
        run("out.omop")
    assert "run it again" not in str(caught.value)
    report, _ = run("out.omop", min_confidence=0.5)
    assert (report.continued, report.shards) == (0, len(NOTES))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("note_date", "31.1.2026"),
        ("visit_detail_id", 1.5),
        ("provider_id", "x"),
        ("provider_id", 10**18),
        ("provider_id", float("inf")),
    ],
)
def test_a_value_that_a_column_of_note_cannot_have_is_a_problem(name, value):
    problem = omop.find_problem(Item("n7", fields={name: value}))
    assert re.fullmatch(f"{name} is not a .*; correct it, or leave out --keep {name}", problem)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("provider_id", "17.0", 17),
        ("provider_id", 17.0, 17),
        ("provider_id", float("nan"), None),
        ("note_date", "2026-01-31 00:00:00", date(2026, 1, 31)),
        ("note_title", "x" * 300, "x" * 250),
    ],
)
def test_a_value_is_as_its_column_of_note_has_it(name, value, expected):
    assert omop._read(name, value) == expected


def test_a_note_that_omop_cannot_have_fails_and_does_not_stop_the_others(run, tmp_path):
    bad = [{**NOTES[0], "note_date": "31/01/2026"}, {**NOTES[0], "person": "P7"}]
    rows = [*bad, {**NOTES[1], "person": "8.0"}]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report, output = run("out.omop", keep=("note_date",))
    first, second = [one["reason"] for one in report.failed]
    assert first.startswith("note_date is not a date")
    assert second.startswith("the patient is not a whole number")
    (note,) = parquet.read_table(output / "note").to_pylist()
    assert (note["note_id"], note["person_id"]) == (3, 8)


@pytest.mark.parametrize("ending", ["omop", "fhir.ndjson"])
@pytest.mark.parametrize("patient", ["", None])
def test_a_note_of_nobody_is_given_to_no_patient(run, tmp_path, ending, patient):
    rows = [{**NOTES[0], "person": patient}, {**NOTES[1], "person": 1}]
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report, _ = run(f"out.{ending}")
    assert report.failed == [{"id": "n1", "reason": "no identifier in the column person"}]
    assert report.counts["documents"] == 1
