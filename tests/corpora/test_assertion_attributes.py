"""What files say of mentions: names and values of attributes, scopes of cues, and conversion."""

import json

import pytest
import spacy

from spacy_biomed.annotations.assertions import install_assertions, list_assertions
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.formats.assertion_attributes import list_said
from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.training.config import read_description
from spacy_biomed.training.corpus import find_learner

# Brat: "attributes" of one file, and cues with scopes, in both directions, in another.
ATTRIBUTES = (
    "No fever. Possible flu. Mother: asthma. Cough. Took aspirin.",
    "T1\tDIS 3 8\tfever\nA1\tNegation T1\nT2\tDIS 19 22\tflu\nA2\tCertainty T2 Possible\n"
    "T3\tDIS 32 38\tasthma\nA3\tExperiencer T3 Other\nT4\tDIS 40 45\tCough\n"
    "A4\tExperiencer T4 Patient\nT5\tDRUG 52 59\taspirin\n",
)
SCOPES = (
    "sin fiebre ni tos. posible gripe. asma descartada",
    "T1\tNegSynMarker 0 3\tsin\nT2\tPhrase 4 17\tfiebre ni tos\nT3\tDISO 4 10\tfiebre\n"
    "T4\tDISO 14 17\ttos\nT5\tUncertLexMarker 19 26\tposible\nT6\tDISO 27 32\tgripe\n"
    "T7\tDISO 34 38\tasma\nT8\tNegLexMarker 39 49\tdescartada\n"
    "R1\tScope Arg1:T1 Arg2:T2\nR2\tDiscScope Arg1:T5 Arg2:T6\nR3\tScope Arg1:T7 Arg2:T8\n",
)
I2B2 = {
    "r.txt": "No fever .\nPossible flu if he smokes .\nGiven aspirin for cough .\n",
    "r.con": 'c="fever" 1:1 1:1||t="problem"\nc="flu" 2:1 2:1||t="problem"\n'
    'c="aspirin" 3:1 3:1||t="treatment"\nc="cough" 3:3 3:3||t="problem"\n',
    "r.ast": 'c="fever" 1:1 1:1||t="problem"||a="absent"\n'
    'c="flu" 2:1 2:1||t="problem"||a="conditional"\n'
    'c="cough" 3:3 3:3||t="problem"||a="present"\n',
}
BOTH = {"is_negated", "is_historical"}


def write_brat(folder, texts):
    for part in ("train", "dev", "test"):
        (folder / part).mkdir(parents=True)
        text, annotations = texts
        (folder / part / "note.txt").write_text(text, encoding="utf8")
        (folder / part / "note.ann").write_text(annotations, encoding="utf8")
    return folder


def read_said(corpus):
    """What is said of each mention of the training part, by its text: "-" for what is not."""
    install_assertions()
    (doc,) = read_docs(corpus / "train.spacy", spacy.blank("en").vocab)
    return {
        doc.text[start:end]: " ".join(
            f"{'' if value else '-'}{name[3:]}" for name, value in said.items()
        )
        for start, end, said in list_assertions(doc)
    }


@pytest.mark.parametrize(
    ("attributes", "said"),
    [
        ({"Negation": "true"}, {"is_negated"}),
        ({"is_negated": "true", "is_family": "false"}, {"is_negated"}),
        ({"Negated": "Not negated"}, set()),
        ({"Negation": "Affirmed"}, set()),
        ({"assertion": "associated_with_someone_else"}, {"is_family"}),
        ({"assertion": "present"}, set()),
        ({"assertion": "hypothetical"}, {"is_hypothetical"}),
        ({"polarity": "NEG", "modality": "POSSIBLE"}, {"is_negated", "is_uncertain"}),
        ({"Temporality": "Historical"}, {"is_historical"}),
        ({"Experiencer": "Family"}, {"is_family"}),
        ({"Status": "Negated, Historical", "Kind": "severe; Possible"}, {*BOTH, "is_uncertain"}),
        ({"AnnotatorNotes": "Possible, but not now"}, set()),
        ({"Section": "Family", "Kind": "Other", "section": "History"}, set()),
        ({"concept": "D0001"}, set()),
        ({"Negación": "sí", "Certeza": "Sospecha"}, {"is_negated", "is_uncertain"}),
        ({"Polaridad": "Negativa", "Sujeto": "Familiar"}, {"is_negated", "is_family"}),
        ({"Hipotético": "falso", "Sección": "Antecedentes", "Negado": "No"}, set()),
    ],
)
def test_attributes_say_it_by_their_name_or_their_value(attributes, said):
    assert list_said(attributes.items()) == said


def test_attributes_of_brat_are_gold_for_the_labels_that_have_them(tmp_path):
    source = write_brat(tmp_path / "brat", ATTRIBUTES)
    report = convert_corpus("own", source, tmp_path / "out", format="brat")
    assert read_said(tmp_path / "out") == {
        "fever": "negated -uncertain -family",
        "flu": "-negated uncertain -family",
        "asthma": "-negated -uncertain family",
        "Cough": "-negated -uncertain -family",
    }
    counts = {"is_negated": 1, "is_uncertain": 1, "is_family": 1}
    assert report.parts["train"].assertions == counts
    described = json.loads((tmp_path / "out" / "corpus.json").read_text())
    assert described["parts"]["test"]["assertions"] == counts


def test_what_is_in_the_scope_of_a_cue_is_negated_or_uncertain(tmp_path):
    source = write_brat(tmp_path / "nubes", SCOPES)
    convert_corpus("own", source, tmp_path / "out", format="brat", labels=["DISO"], language="es")
    assert read_said(tmp_path / "out") == {
        "fiebre": "negated -uncertain",
        "tos": "negated -uncertain",
        "gripe": "-negated uncertain",
        "asma": "negated -uncertain",
    }
    (document,) = read_documents("brat", [source / "train"])
    assert [one.label for one in document.mentions if one.attributes] == ["Phrase", *["DISO"] * 4]


@pytest.mark.slow
def test_nubes_is_converted_by_its_name(corpora_dir, tmp_path):
    report = convert_corpus("nubes", corpora_dir("nubes"), tmp_path / "out")
    test = report.parts["test"]
    assert test.mentions == {"DISO": 1881, "PROC": 165, "SUBS": 133}
    assert test.assertions == {"is_negated": 1686, "is_uncertain": 494}
    assert find_learner(tmp_path / "out", read_description(tmp_path / "out"))[0] == "assertion"


def test_assertions_of_i2b2_are_gold_for_problems_alone(tmp_path):
    for part in ("train", "dev", "test"):
        (tmp_path / "i2b2" / part).mkdir(parents=True)
        for name, text in I2B2.items():
            (tmp_path / "i2b2" / part / name).write_text(text)
    convert_corpus("own", tmp_path / "i2b2", tmp_path / "out", format="i2b2_2010")
    assert read_said(tmp_path / "out") == {
        "fever": "negated -hypothetical",
        "flu": "-negated hypothetical",
        "cough": "-negated -hypothetical",
    }
