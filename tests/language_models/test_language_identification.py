"""Finding sentences that are not in the corpus's language."""

import re

import pytest

from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.language_models.sentences import LanguageIdentifier, Thresholds

ENGLISH = "Aspirin reduced the risk of colorectal cancer in patients with type 2 diabetes."
SPANISH = "El paciente presentó náuseas, vómitos y fiebre tras la quimioterapia con cisplatino."
# Only terms: Galician and Extremaduran are about as probable as Spanish.
TELEGRAPHIC = "Diagnóstico: adenocarcinoma infiltrante, metástasis hepáticas, trombosis portal."


def identify(lang: str, sentences: list[str], **settings) -> list[bool]:
    return LanguageIdentifier(lang, Thresholds(**settings)).find_foreign(sentences)


@pytest.mark.parametrize(("lang", "foreign"), [("en", [False, True]), ("es", [True, False])])
def test_a_long_sentence_is_in_its_own_language(lang, foreign):
    assert identify(lang, [ENGLISH, SPANISH]) == foreign


def test_a_short_sentence_is_in_the_language_of_its_document():
    assert identify("en", ["Sin fiebre.", SPANISH, SPANISH, ENGLISH]) == [True, True, True, False]
    assert identify("en", ["Sin fiebre.", SPANISH, ENGLISH, ENGLISH]) == [False, True, False, False]


def test_a_document_of_short_sentences_is_told_by_all_of_them():
    sentences = ["No se observó metástasis.", "El dolor fue leve.", "Se dio de alta a los 5 días."]
    assert identify("en", sentences) == [True] * 3
    assert identify("es", sentences) == [False] * 3


def test_a_sentence_that_does_not_tell_is_in_the_language_of_its_document():
    identifier = LanguageIdentifier("es", Thresholds())
    assert identifier.is_foreign(TELEGRAPHIC) is None
    assert identifier.find_foreign([SPANISH, TELEGRAPHIC]) == [False, False]
    assert identifier.find_foreign([ENGLISH, ENGLISH, TELEGRAPHIC]) == [True, True, True]


def test_odds_say_how_sure_to_be():
    assert identify("es", [SPANISH, TELEGRAPHIC], language_odds=1.0) == [False, True]


def test_a_document_without_sentences_has_none_in_another_language():
    assert identify("en", []) == []


def test_an_unknown_language_is_bad_input():
    with pytest.raises(BiomedError, match="py3langid knows no language 'xx'"):
        identify("xx", [ENGLISH])


def test_without_py3langid_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("spacy_biomed.language_models.sentences.find_spec", lambda name: None)
    with pytest.raises(BiomedError, match=re.escape(f"py3langid: {install_command('train')}")):
        identify("en", [ENGLISH])
