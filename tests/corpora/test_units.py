"""Documents cut into sentences, and sentences into pairs of mentions."""

import json

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.corpora.units import cut_documents, cut_sentences, mark_pairs, parse_pairs
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Document, Mention, Relation

TEXT = "Aspirin inhibits COX-1. It helps Dr. Who and Ana.  Zinc does not."


def mention(string, label="CHEMICAL", id="", text=TEXT):
    start = text.index(string)
    return Mention(label, ((start, start + len(string)),), id)


def document(**layers):
    return Document(id="7", text=TEXT, source="a.txt", **layers)


def test_a_document_is_cut_at_the_ends_of_sentences():
    found = [mention("Aspirin", id="T1"), mention("COX-1", "GENE", "T2"), mention("Zinc", id="T3")]
    parts = cut_sentences(document(mentions=found), "en")
    assert [part.text for part in parts] == [
        "Aspirin inhibits COX-1.",
        "It helps Dr. Who and Ana.",
        "Zinc does not.",
    ]
    read = [[one.read(part.text) for one in part.mentions] for part in parts]
    assert read == [["Aspirin", "COX-1"], [], ["Zinc"]]
    assert [(part.id, part.part_of) for part in parts] == [(f"7_s{n}", "7") for n in range(3)]


def test_sentences_and_tokens_of_the_source_count():
    tokens = [(0, 7), (8, 16), (17, 22), (24, 26)]
    parts = cut_sentences(document(mentions=[], sentences=[(0, 7), (8, 26)], tokens=tokens), "fr")
    assert [part.text for part in parts] == [TEXT[:7], TEXT[8:]]
    assert [part.tokens for part in parts] == [[(0, 7)], [(0, 8), (9, 14), (16, 18)]]


def test_no_mention_is_cut_and_each_is_in_one_sentence():
    long = Mention("CHEMICAL", ((17, 22), (33, 36)), "T1")
    parts = cut_sentences(document(mentions=[long]), "en")
    assert [part.text for part in parts] == [TEXT[:49], "Zinc does not."]
    assert parts[0].mentions == [long]


def test_relations_stay_with_their_arguments_and_others_are_counted():
    found = [mention("Aspirin", id="T1"), mention("COX-1", "GENE", "T2"), mention("Zinc", id="T3")]
    inside, between = Relation("INHIBITS", "T1", "T2"), Relation("LIKE", "T3", "T1")
    found[1].attributes["dose"] = "T3"  # a value of an attribute, and no argument
    first, _, last = cut_sentences(document(mentions=found, relations=[inside, between]), "en")
    assert first.relations == [inside] and last.relations == []
    assert first.changes == ["relations between sentences"]


@pytest.mark.parametrize("layer", [{"cats": {"A": 1.0}}, {"pair": ((0, 7), (8, 22))}])
def test_an_annotation_of_the_whole_text_is_an_error(layer):
    with pytest.raises(BiomedError, match="a.txt: --sentences cuts documents of mentions"):
        cut_sentences(document(**layer), "en")


def test_each_pair_of_mentions_has_a_text_with_tags():
    text = "Zinc and iron inhibit COX."
    zinc, iron = (mention(word, id=word, text=text) for word in ("Zinc", "iron"))
    cox = mention("COX", "GENE", "COX", text)
    relations = [Relation("CPR:4", "iron", "COX"), Relation("CPR:3", "iron", "COX")]
    sentence = Document("7", text, mentions=[cox, zinc, iron], relations=relations, source="a")
    marked = {
        (one.text, *(relation.label for relation in one.relations))
        for one in mark_pairs(sentence, parse_pairs("GENE+CHEMICAL"))
    }
    assert marked == {
        ("@CHEMICAL$ and iron inhibit @GENE$.",),
        ("Zinc and @CHEMICAL$ inhibit @GENE$.", "CPR:4"),
        ("Zinc and @CHEMICAL$ inhibit @GENE$.", "CPR:3"),
    }
    assert len(list(mark_pairs(sentence, parse_pairs("all")))) == 4


def test_two_mentions_that_share_words_have_one_tag():
    text = "The COX inhibitor works."
    found = [mention("COX inhibitor", id="T1", text=text), mention("COX", "GENE", "T2", text)]
    sentence = Document("7", text, mentions=found, relations=[], source="a")
    assert [one.text for one in mark_pairs(sentence)] == ["The @CHEM-GENE$ works."]


@pytest.mark.parametrize("pairs", ["GENE", "A+B+C", "A+", ""])
def test_types_that_are_no_pairs_are_an_error(pairs):
    with pytest.raises(BiomedError, match="write all, or types as in"):
        parse_pairs(pairs)


def test_types_of_which_the_corpus_has_no_pair_are_an_error():
    found = [mention("Aspirin", id="T1"), mention("COX-1", "GENE", "T2")]
    parts = {"train": [document(mentions=found, relations=[])], "test": []}
    settings = {"language": "en", "sentences": True}
    assert len(cut_documents(parts, pairs="CHEMICAL+GENE", **settings)["train"]) == 1
    with pytest.raises(BiomedError, match="'CHEMICAL.DRUG': no sentence .* has CHEMICAL, GENE"):
        cut_documents(parts, pairs="CHEMICAL+DRUG", **settings)


def test_a_corpus_of_documents_becomes_one_of_sentences(tmp_path):
    for part in ("train", "dev", "test"):
        (tmp_path / "in" / part).mkdir(parents=True)
        (tmp_path / "in" / part / "a.txt").write_text(TEXT)
        (tmp_path / "in" / part / "a.ann").write_text(
            "T1\tCHEMICAL 0 7\tAspirin\nT2\tGENE 17 22\tCOX-1\nT3\tCHEMICAL 51 55\tZinc\n"
            "R1\tINHIBITS Arg1:T1 Arg2:T2\nR2\tLIKE Arg1:T3 Arg2:T1\n"
        )
    report = convert_corpus(
        "mine", tmp_path / "in", tmp_path / "out", format="brat", sentences=True
    )
    assert report.parts["train"].documents == report.parts["train"].sentences == 3
    assert report.parts["train"].changes == {"relations between sentences": 1}
    changes = json.loads((tmp_path / "out" / "conversion.json").read_text())["changes"]
    assert changes[0]["what"].startswith("LIKE in")
    docs = DocBin().from_disk(tmp_path / "out" / "train.spacy").get_docs(spacy.blank("en").vocab)
    assert [[ent.text for ent in doc.ents] for doc in docs] == [["Aspirin", "COX-1"], [], ["Zinc"]]
