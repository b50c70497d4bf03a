import unicodedata

import pytest
import spacy
from spacy.language import Language
from spacy.pipeline import EntityRuler
from spacy.tokens import Span

from spacy_biomed import BiomedError
from spacy_biomed.corpora import create_tokenizer
from spacy_biomed.evaluation.robustness import CHANGES, measure_robustness

TEXT = "Marta Ochoa ingresa por disnea; vive en Getafe - Madrid. Vuelve en mayo."


@pytest.fixture
def nlp():
    """A pipeline that finds names exactly as they are listed."""
    nlp = spacy.blank("es")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "NOMBRE", "pattern": "Marta Ochoa"}])
    return nlp


@pytest.fixture
def reference(nlp):
    doc = nlp.make_doc(TEXT)
    doc.ents = [Span(doc, 0, 2, label="NOMBRE")]
    return doc


@pytest.mark.parametrize("change", CHANGES)
def test_the_mentions_of_a_changed_text_keep_their_letters(change):
    parts = CHANGES[change](TEXT)
    assert len(parts) == len(TEXT)
    assert "".join(parts) != TEXT or change in ("as it is", "decomposed accents", "without accents")


def test_a_pipeline_that_knows_only_one_spelling_is_scored_by_it(nlp, reference):
    nlp.add_pipe("biomed_deidentify")
    rows = measure_robustness(nlp, [reference], ["as it is", "in capitals", "two spaces"])
    assert [row.change for row in rows] == ["as it is", "in capitals", "two spaces"]
    assert (rows[0].recall, rows[0].clean) == (1.0, 1.0)
    assert (rows[1].recall, rows[1].clean) == (0.0, 0.0)


def test_an_entity_that_begins_and_ends_with_an_accent_is_found_where_it_is(monkeypatch):
    monkeypatch.setattr("spacy_biomed.evaluation.robustness.BiomedNER", EntityRuler)
    nlp = spacy.blank("es")
    nlp.tokenizer = create_tokenizer()(nlp)
    forms = ["úlceró", unicodedata.normalize("NFD", "úlceró")]
    patterns = [{"label": "D", "pattern": form} for form in forms]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    doc = nlp.make_doc("Se úlceró.")
    doc.ents = [Span(doc, 1, 2, label="D")]
    changes = ["as it is", "decomposed accents", "two spaces"]
    assert [row.f1 for row in measure_robustness(nlp, [doc], changes)] == [1.0, 1.0, 1.0]


def test_without_anything_to_score_it_says_so(nlp, reference):
    with pytest.raises(BiomedError, match="neither biomed_ner nor biomed_deidentify"):
        measure_robustness(nlp, [reference])
    nlp.remove_pipe("entity_ruler")
    nlp.add_pipe("biomed_ner", config={"spans_key": "task"})
    with pytest.raises(BiomedError, match="neither .*that writes to doc.ents"):
        measure_robustness(nlp, [reference])
    with pytest.raises(BiomedError, match="no document"):
        measure_robustness(nlp, [nlp.make_doc(TEXT)])


@Language.component("test_sets_what_it_finds")
def set_what_it_finds(doc):
    if doc[0].text == "Marta":
        doc.ents = [Span(doc, 0, 2, label="SURNAME")]
    return doc


def test_a_component_that_is_silent_where_it_finds_nothing_is_one_line(reference):
    nlp = spacy.blank("es")
    nlp.add_pipe("test_sets_what_it_finds")
    nlp.add_pipe("biomed_deidentify", config={"kinds": {"SURNAME": "name"}})
    assert measure_robustness(nlp, [reference], ["as it is"])[0].recall == 1.0
    with pytest.raises(BiomedError, match="a text in capitals was not de-identified"):
        measure_robustness(nlp, [reference], ["in capitals"])
