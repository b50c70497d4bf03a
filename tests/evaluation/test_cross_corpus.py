import json

import pytest
import spacy
from spacy.tokens import DocBin, Span

from spacy_biomed import BiomedError
from spacy_biomed.annotations.annotation_scope import AnnotationScope, set_scope
from spacy_biomed.annotations.document_keys import UNALIGNED_MENTIONS
from spacy_biomed.evaluation.cross_corpus import (
    find_corpora,
    match_leniently,
    measure_corpora,
    parse_label_maps,
)


@pytest.fixture
def nlp():
    """A pipeline that finds three words, and knows a label that no corpus has."""
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns(
        {"label": label, "pattern": word}
        for label, word in (("DRUG", "Aspirin"), ("GENE", "p53"), ("GENE", "IL2"), ("CELL", "HeLa"))
    )
    return nlp


@pytest.fixture
def write(tmp_path):
    """Write a corpus: texts with mentions, each (first token, end, label)."""
    vocab = spacy.blank("en").vocab

    def write_corpus(name, labels, docs, scope=None, part="test", unaligned=()):
        stored = DocBin(store_user_data=True)
        for words, mentions in docs:
            doc = spacy.tokens.Doc(vocab, words=words.split())
            doc.set_ents([Span(doc, *mention) for mention in mentions], default="outside")
            if scope is not None:
                set_scope(doc, scope)
            doc.user_data[UNALIGNED_MENTIONS] = list(unaligned)
            stored.add(doc)
        folder = tmp_path / "corpora" / name
        folder.mkdir(parents=True, exist_ok=True)
        description = {"name": name, "language": "en", "parts": {}, "labels": labels}
        (folder / "corpus.json").write_text(json.dumps(description))
        stored.to_disk(folder / f"{part}.spacy")
        return folder

    return write_corpus


def f1(rows):
    return {
        (row.corpus, row.label): {
            name: None if one is None else round(one["f"], 3) for name, one in row.scores.items()
        }
        for row in rows
    }


def test_a_boundary_may_differ_by_one_character_and_a_gold_mention_is_found_once():
    gold = {(0, 3, "A"), (10, 14, "A"), (20, 25, "A"), (30, 31, "B")}
    assert match_leniently(gold, {(0, 4, "A")}) == {(0, 3, "A")}
    assert match_leniently(gold, {(9, 15, "A")}) == {(10, 14, "A")}
    for other in ((20, 27, "A"), (18, 25, "A"), (20, 24, "B")):
        assert match_leniently(gold, {other}) == {other}
    # The exact match has the gold mention, whichever comes first.
    assert match_leniently(gold, {(29, 30, "B"), (30, 31, "B")}) == {(29, 30, "B"), (30, 31, "B")}
    twice = match_leniently(gold, {(30, 32, "B"), (31, 32, "B")})
    assert len(twice) == 2 and (30, 31, "B") in twice


def test_only_labels_of_both_are_scored(nlp, write):
    write(
        "a",
        ["DRUG", "SPECIES"],
        [("Aspirin in mice with p53", [(0, 1, "DRUG"), (2, 3, "SPECIES")])],
    )
    write("b", ["DRUG", "GENE"], [("Aspirin and IL2 and BRCA1", [(2, 3, "GENE"), (4, 5, "GENE")])])
    write("c", ["SPECIES"], [("mice", [(0, 1, "SPECIES")])])
    folder = find_corpora(write("d", ["GENE"], []).parent)
    rows = measure_corpora(nlp, folder)
    assert f1(rows) == {
        ("a", "DRUG"): {"exact": 1.0, "lenient": 1.0},
        ("b", "DRUG"): {"exact": 0.0, "lenient": 0.0},
        ("b", "GENE"): {"exact": 0.667, "lenient": 0.667},
        ("b", None): {"exact": 0.5, "lenient": 0.5},
    }
    assert [row.mentions for row in rows] == [1, 0, 2, 2]


def test_labels_are_mapped_left_out_and_left_open(nlp, write):
    mentions = [(0, 1, "Chem"), (2, 3, "Family"), (4, 5, "Protein")]
    corpus = write("a", ["Chem", "Family", "Protein"], [("Aspirin and p53 and IL2", mentions)])
    mapped = parse_label_maps(["a:Chem=", "a:Family=?GENE", "a:Protein=GENE"])
    (row,) = measure_corpora(nlp, [corpus], mapped)
    assert (row.label, row.mentions, row.scores["exact"]["p"]) == ("GENE", 1, 1.0)
    mapped = parse_label_maps(["a:Protein=GENE"])
    (row,) = measure_corpora(nlp, [corpus], mapped)
    assert (row.mentions, row.scores["exact"]["p"], row.scores["exact"]["r"]) == (1, 0.5, 1.0)


def test_what_a_document_does_not_annotate_is_not_counted(nlp, write):
    texts = [("Aspirin and p53", [])]
    open_region = AnnotationScope(frozenset({"DRUG", "GENE"}), ((12, 15, "GENE"),))
    drugs_alone = AnnotationScope(frozenset({"DRUG"}))
    for scope in (open_region, drugs_alone):
        rows = measure_corpora(nlp, [write("a", ["DRUG", "GENE"], texts, scope)])
        assert f1(rows)["a", "DRUG"]["exact"] == 0.0
        assert f1(rows)["a", "GENE"]["exact"] is None


def test_a_gold_mention_inside_a_token_can_be_found_leniently(nlp, write):
    corpus = write("a", ["GENE"], [("find IL2", [])], unaligned=[(5, 7, "GENE")])
    assert f1(measure_corpora(nlp, [corpus])) == {("a", "GENE"): {"exact": 0.0, "lenient": 1.0}}


def test_mentions_of_the_training_part_are_scored_apart(nlp, write):
    train = write("t", ["GENE"], [("il2", [(0, 1, "GENE")])], part="train") / "train.spacy"
    corpus = write("a", ["GENE"], [("IL2 and BRCA1 and p53", [(0, 1, "GENE"), (2, 3, "GENE")])])
    (row,) = measure_corpora(nlp, [corpus], trained_on=[train])
    assert f1([row])["a", "GENE"] == {
        "exact": 0.5,
        "exact seen": 1.0,
        "exact unseen": 0.0,
        "lenient": 0.5,
        "lenient seen": 1.0,
        "lenient unseen": 0.0,
    }


def test_bad_maps_and_nothing_to_score_are_one_line(nlp, write, tmp_path):
    corpus = write("a", ["SPECIES"], [("mice", [(0, 1, "SPECIES")])])
    for pairs, message in (
        (["SPECIES=CELL"], "write CORPUS:LABEL=NAME"),
        (["b:SPECIES=CELL"], "use a"),
        (["a:GENE=CELL"], "--map a: no mention of the corpus is a 'GENE'"),
        ([], "no corpus has test documents with a label of the pipeline: CELL, DRUG, GENE"),
    ):
        with pytest.raises(BiomedError, match=message):
            measure_corpora(nlp, [corpus], parse_label_maps(pairs))
    with pytest.raises(BiomedError, match="no component with labels"):
        measure_corpora(spacy.blank("en"), [corpus])
    with pytest.raises(BiomedError, match=r"corpus\.json and test\.spacy"):
        find_corpora(tmp_path)
