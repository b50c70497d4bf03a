"""What pipelines on disk keep of the texts that they have read."""

import json

import numpy as np
import pytest
import spacy
from commands import call
from spacy.kb import InMemoryLookupKB
from spacy.language import Language
from spacy.tokens import DocBin
from spacy.training import Example

from spacy_biomed.errors import BiomedError
from spacy_biomed.pipeline.checksums import CHECKSUMS, check_checksums, write_checksums
from spacy_biomed.pipeline.saved_words import (
    remove_words,
    strip_directory,
    without_words_v1,
    write_pipeline,
)

TEXT = "Echeverria took aspirin in London"
GOLD = {
    "tags": ["NAME", "VBD", "NN", "IN", "NAME"],
    "pos": ["PROPN", "VERB", "NOUN", "ADP", "PROPN"],
    "morphs": ["Number=Sing", "Tense=Past", "Number=Sing", "", "Number=Sing"],
    "lemmas": ["Echeverria", "take", "aspirin", "in", "London"],
    "heads": [1, 1, 1, 1, 3],
    "deps": ["agent", "ROOT", "thing", "where", "place"],
    "sent_starts": [True, False, False, False, False],
    "entities": [(16, 23, "DRUG"), (27, 33, "CITY")],
    "cats": {"SHORT": 1.0, "LONG": 0.0},
}
STOCK = ["tagger", "morphologizer", "parser", "trainable_lemmatizer", "ner", "textcat"]


def read_words(nlp) -> None:
    nlp.make_doc("Ochoa visited Ibarretxe.")


def find_word(path, word: str) -> list[str]:
    """The files of a directory with a word."""
    files = [file for file in path.rglob("*") if file.is_file()]
    return [file.name for file in files if word.encode() in file.read_bytes()]


def describe(doc) -> list:
    tokens = [(one.tag_, one.pos_, str(one.morph), one.lemma_, one.dep_) for one in doc]
    return [tokens, [(ent.text, ent.label_, ent.kb_id_) for ent in doc.ents], doc.cats]


@pytest.fixture(scope="module")
def trained() -> Language:
    """A pipeline of spaCy's own components, trained a little, with rules."""
    nlp = spacy.blank("en")
    for name in STOCK:
        nlp.add_pipe(name, config={"min_action_freq": 1} if name == "parser" else {})
    example = Example.from_dict(nlp.make_doc(TEXT), GOLD)
    optimizer = nlp.initialize(lambda: [example])
    for _ in range(20):
        nlp.update([example], sgd=optimizer)
    ruler = nlp.add_pipe("entity_ruler", before="ner")
    ruler.add_patterns([{"label": "DRUG", "pattern": "insulin", "id": "D7"}])
    nlp.add_pipe("attribute_ruler").add([[{"LOWER": "insulin"}]], {"TAG": "DRUGTAG"})
    return nlp


@pytest.mark.slow
def test_spacys_own_components_do_the_same_without_the_words(trained, tmp_path):
    texts = [TEXT, "Echeverria took insulin"]
    expected = [describe(doc) for doc in trained.pipe(texts)]
    read_words(trained)
    write_pipeline(trained, tmp_path / "out")
    loaded = spacy.load(tmp_path / "out")
    assert [describe(doc) for doc in loaded.pipe(texts)] == expected
    assert {one[0] for doc in expected for one in doc[0]} >= {"NAME", "VBD", "DRUGTAG"}
    assert not find_word(tmp_path / "out", "Ochoa")
    assert not find_word(tmp_path / "out", "Ibarretxe")


def test_a_knowledge_base_keeps_its_entries_and_no_words_of_texts(tmp_path):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("entity_linker", config={"entity_vector_length": 2})
    kb = InMemoryLookupKB(nlp.vocab, entity_vector_length=2)
    kb.add_entity("Q1", freq=1, entity_vector=[1.0, 0.0])
    kb.add_alias("aspirin", ["Q1"], [1.0])
    linker.set_kb(lambda vocab: kb)
    read_words(nlp)
    write_pipeline(nlp, tmp_path / "out")
    assert not find_word(tmp_path / "out", "Ochoa")
    loaded = InMemoryLookupKB(spacy.blank("en").vocab, entity_vector_length=2)
    loaded.from_disk(tmp_path / "out" / "entity_linker" / "kb")
    assert loaded.get_alias_strings() == ["aspirin"]
    assert loaded.get_entity_strings() == ["Q1"]


def test_the_words_of_vectors_stay(tmp_path):
    nlp = spacy.blank("en")
    nlp.vocab.set_vector("aspirin", np.array([1.0, 2.0]))
    read_words(nlp)
    write_pipeline(nlp, tmp_path / "out")
    loaded = spacy.load(tmp_path / "out")
    assert loaded.vocab["aspirin"].vector.tolist() == [1.0, 2.0]
    assert json.loads((tmp_path / "out" / "vocab" / "strings.json").read_text()) == ["aspirin"]


def test_the_callback_of_a_config_leaves_the_pipeline_itself_as_it_is(trained, tmp_path):
    read_words(trained)
    written = without_words_v1()(trained)
    assert isinstance(written, Language)
    written.to_disk(tmp_path / "out")
    assert not find_word(tmp_path / "out", "Ochoa")
    assert "Ochoa" in trained.vocab.strings
    trained.to_disk(tmp_path / "plain")
    assert find_word(tmp_path / "plain", "Ochoa") == ["strings.json"]


class WordList:
    """A component of another package, with words in a file of its own."""

    def __call__(self, doc):
        return doc

    def to_disk(self, path, exclude=()):
        path.write_text("")

    def from_disk(self, path, exclude=()):
        return self


@pytest.fixture
def foreign(tmp_path):
    Language.factory("test_word_list", func=lambda nlp, name: WordList())
    nlp = spacy.blank("en")
    nlp.add_pipe("test_word_list")
    read_words(nlp)
    return nlp


def test_a_component_of_another_package_with_files_keeps_the_words_with_a_warning(
    foreign, tmp_path
):
    with pytest.warns(UserWarning, match="test_word_list may need words"):
        write_pipeline(foreign, tmp_path / "out")
    assert find_word(tmp_path / "out", "Ochoa") == ["strings.json"]
    with pytest.raises(BiomedError, match="test_word_list may need words .*give --force"):
        strip_directory(tmp_path / "out")
    assert find_word(tmp_path / "out", "Ochoa") == ["strings.json"]
    strip_directory(tmp_path / "out", force=True)
    assert not find_word(tmp_path / "out", "Ochoa")


def test_a_function_as_a_component_keeps_no_words(tmp_path):
    Language.component("test_does_nothing", func=lambda doc: doc)
    nlp = spacy.blank("en")
    nlp.add_pipe("test_does_nothing")
    read_words(nlp)
    write_pipeline(nlp, tmp_path / "out")
    assert not find_word(tmp_path / "out", "Ochoa")


@pytest.mark.slow
def test_a_directory_is_stripped_in_place_and_again_without_a_change(trained, tmp_path):
    read_words(trained)
    expected = describe(trained(TEXT))
    trained.to_disk(tmp_path / "out")
    before, after = strip_directory(tmp_path / "out")
    assert before > 500 > after > 10
    assert not find_word(tmp_path / "out", "Ochoa")
    assert describe(spacy.load(tmp_path / "out")(TEXT)) == expected
    assert strip_directory(tmp_path / "out") == (after, after)


def test_the_command_says_how_many_strings_there_are(trained, tmp_path):
    read_words(trained)
    trained.to_disk(tmp_path / "out")
    result = call("strip", tmp_path / "out")
    assert result.exit_code == 0
    assert " strings before, " in result.output
    assert not find_word(tmp_path / "out", "Ochoa")


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_what_is_no_pipeline_is_refused(tmp_path, name):
    (tmp_path / "empty").mkdir()
    with pytest.raises(BiomedError, match=f"{name}: (no such directory|neither an installed)"):
        strip_directory(tmp_path / name)
    assert not list((tmp_path / "empty").iterdir())


def test_words_are_removed_from_a_directory_that_another_has_written(trained, tmp_path):
    read_words(trained)
    trained.to_disk(tmp_path / "out")
    remove_words(trained, tmp_path / "out")
    assert not find_word(tmp_path / "out", "Ochoa")


def create_deidentifier() -> Language:
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        [{"label": "NAME", "pattern": name} for name in ("Echeverria", "Ibarretxe")]
    )
    nlp.add_pipe("biomed_deidentify")
    return nlp


def test_a_part_of_a_document_has_no_replacements_of_the_whole():
    doc = create_deidentifier()("Echeverria came. Then Ibarretxe left.")
    part = doc[4:].as_doc(copy_user_data=True)
    assert part._.deidentified is None
    assert not [value for key, value in part.user_data.items() if "deidentified" in key]
    content = DocBin(store_user_data=True, docs=[part])
    assert "Echeverria" not in content.strings
    again = next(iter(content.get_docs(spacy.blank("en").vocab)))
    assert again._.deidentified is None


def test_a_stored_document_keeps_its_replacements():
    doc = create_deidentifier()("Echeverria came. Then Ibarretxe left.")
    content = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    again = next(iter(DocBin(store_user_data=True).from_bytes(content).get_docs(doc.vocab)))
    assert again._.deidentified.text == "[NAME] came. Then [NAME] left."


def test_the_de_identified_text_is_stored_without_the_names():
    nlp = create_deidentifier()
    doc = nlp("Echeverria came. Then Ibarretxe left.")
    stored = DocBin(store_user_data=True, docs=[nlp(doc._.deidentified.text)])
    assert not {"Echeverria", "Ibarretxe"} & stored.strings


def test_a_stripped_pipeline_has_the_checksums_of_its_new_files(trained, tmp_path):
    read_words(trained)
    trained.to_disk(tmp_path / "out")
    trained.to_disk(tmp_path / "out" / "trainable")
    write_checksums(tmp_path / "out")
    strip_directory(tmp_path / "out")
    assert not find_word(tmp_path / "out", "Ochoa")
    check_checksums(tmp_path / "out")
    assert " trainable/" not in (tmp_path / "out" / CHECKSUMS).read_text()
