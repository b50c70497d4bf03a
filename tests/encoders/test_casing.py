"""Capitals reach an encoder as its vocabulary has them, whatever its files leave out."""

import json
import shutil
import warnings

import pytest
import spacy
from small_encoders import SMALL
from spacy.training import Example
from transformers import BertConfig, BertModel

import spacy_biomed.encoders.loading as loading
from spacy_biomed.encoders.loading import load_pretrained, load_tokenizer
from spacy_biomed.errors import BiomedError

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CASED = ["Aspirin", "BRCA1", "The", "the", "aspirin", "was", "No", "##s", "A", "a"]
UNCASED = ["aspirin", "brca1", "the", "was", "no", "##s", "a", *(f"##{i}" for i in range(1000))]


@pytest.fixture
def make_encoder(tmp_path):
    """An encoder as BioBERT was published: a vocabulary, and no word about capitals."""

    def make(words, settings=None):
        path = tmp_path / "encoder"
        vocabulary = [*SPECIAL, *words]
        config = BertConfig(vocab_size=len(vocabulary), **SMALL)
        BertModel(config).save_pretrained(path)
        (path / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf8")
        if settings is not None:
            (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf8")
        return path

    return make


def pieces(tokenizer, text="Aspirin BRCA1"):
    return [tokenizer.tokenizer.id_to_token(i) for i in tokenizer([text]).ids.tolist()]


def refusal(path):
    messages = []
    for load in (load_pretrained, load_tokenizer):
        with pytest.raises(BiomedError) as error:
            load(str(path))
        messages.append(str(error.value))
    assert messages[0] == messages[1] and "\n" not in messages[0]
    return messages[0]


def test_a_cased_vocabulary_with_a_tokenizer_that_lowercases_names_the_option(make_encoder):
    message = refusal(make_encoder(CASED))
    assert "its vocabulary is cased" in message and '"do_lower_case": false' in message


def test_what_the_message_says_helps(make_encoder):
    path = make_encoder(CASED, {"do_lower_case": False})
    assert pieces(load_tokenizer(str(path))) == ["Aspirin", "BRCA1"]


def test_a_saved_tokenizer_that_lowercases_is_refused_too(make_encoder, tmp_path):
    from transformers import AutoTokenizer

    path = make_encoder(CASED)
    AutoTokenizer.from_pretrained(path, do_lower_case=True).save_pretrained(path)
    assert (path / "tokenizer.json").is_file()
    assert "do_lower_case" in refusal(path)


def test_an_uncased_vocabulary_with_a_tokenizer_that_keeps_capitals_names_the_option(make_encoder):
    message = refusal(make_encoder(UNCASED, {"do_lower_case": False}))
    assert "its vocabulary is uncased" in message and '"do_lower_case": true' in message


def test_a_vocabulary_with_accents_and_a_tokenizer_that_removes_them_names_the_option(make_encoder):
    words = ["dolor", "náusea", "##ción", "niña", "á", "ñ"]
    message = refusal(make_encoder(words))
    assert "words with accents" in message and '"strip_accents": false' in message
    refusal(make_encoder(["Dolor", *words], {"do_lower_case": False, "strip_accents": True}))
    path = make_encoder(words, {"do_lower_case": True, "strip_accents": False})
    assert pieces(load_tokenizer(str(path)), "Náusea Dolor") == ["náusea", "dolor"]


def test_letters_with_accents_alone_are_no_words(make_encoder):
    path = make_encoder([*UNCASED, "á", "ñ", "##é"])
    assert pieces(load_tokenizer(str(path))) == ["aspirin", "brca1"]


def test_an_uncased_encoder_needs_no_word_about_it(make_encoder):
    assert pieces(load_tokenizer(str(make_encoder(UNCASED)))) == ["aspirin", "brca1"]


@pytest.mark.parametrize(
    ("name", "words", "expected"),
    [
        ("biobert", CASED, ["Aspirin", "BRCA1"]),
        ("bio-clinical-bert", CASED, ["Aspirin", "BRCA1"]),
        ("emilyalsentzer/Bio_ClinicalBERT", CASED, ["Aspirin", "BRCA1"]),
        ("pubmedbert", UNCASED, ["aspirin", "brca1"]),
    ],
)
@pytest.mark.parametrize("settings", [None, {"do_lower_case": True}, {"do_lower_case": False}])
def test_an_encoder_of_the_catalogue_is_cased_as_the_catalogue_says(
    make_encoder, monkeypatch, name, words, expected, settings
):
    path = make_encoder(words, settings)
    monkeypatch.setattr(loading, "locate", lambda name, revision: (str(path), None))
    assert pieces(load_tokenizer(name)) == expected
    assert pieces(load_pretrained(name)[0]) == expected


def test_a_directory_of_the_name_of_a_catalogued_encoder_is_not_that_encoder(
    make_encoder, tmp_path, monkeypatch
):
    shutil.move(make_encoder(UNCASED), tmp_path / "biobert")
    monkeypatch.chdir(tmp_path)
    assert pieces(load_tokenizer("biobert")) == ["aspirin", "brca1"]


def test_encoders_with_bytes_or_both_cases_are_taken_as_they_are(any_encoder):
    load_tokenizer(str(any_encoder))


def test_a_tokenizer_of_its_own_file_keeps_capitals_without_settings(make_encoder):
    from transformers import AutoTokenizer

    path = make_encoder(CASED)
    AutoTokenizer.from_pretrained(path, do_lower_case=False).save_pretrained(path)
    (path / "tokenizer_config.json").unlink()
    assert pieces(load_tokenizer(str(path))) == ["Aspirin", "BRCA1"]


@pytest.mark.parametrize(("text", "share"), [("the aspirin", None), ("the ñandú", "50.0%")])
def test_many_unknown_words_of_a_corpus_are_a_warning_with_the_share(make_encoder, text, share):
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_transformer", config={"model": {"name": str(make_encoder(UNCASED))}})
    example = Example.from_dict(nlp.make_doc(text), {})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        nlp.initialize(lambda: [example])
    found = [str(one.message) for one in caught if "does not know" in str(one.message)]
    assert len(found) == (share is not None)
    assert all(share in message and "ñandú" not in message for message in found)
