from dataclasses import replace

import pytest
from spacy.tokens import Doc
from stored_docs import stored

from spacy_biomed.annotations.document_keys import NIL
from spacy_biomed.corpora.convert import create_pipeline
from spacy_biomed.corpora.gold import annotate, create_doc, create_gold_doc
from spacy_biomed.formats.documents import Document, Mention, Relation, create_pair

TEXT = "Stage IV non-small cell lung cancer, p70I kappa"


@pytest.fixture(scope="module")
def nlp():
    return create_pipeline("en")


def mention(string, label="D", text=TEXT):
    start = text.index(string)
    return Mention(label, ((start, start + len(string)),))


def test_mentions_that_fit_become_entities(nlp):
    document = Document("1", TEXT, [mention("lung cancer"), mention("IV", "S")])
    doc = stored(create_gold_doc(nlp, document))
    assert [(ent.text, ent.label_) for ent in doc.ents] == [("IV", "S"), ("lung cancer", "D")]
    assert doc._.unaligned_mentions == []
    assert doc.user_data["document_id"] == "1"


def test_of_overlapping_mentions_a_flat_layer_keeps_the_longest(nlp):
    document = Document(
        "1", TEXT, [mention("cancer"), mention("non-small cell lung cancer"), mention("IV non")]
    )
    doc = stored(create_gold_doc(nlp, document))
    assert [ent.text for ent in doc.ents] == ["non-small cell lung cancer"]
    assert doc._.unaligned_mentions == [(6, 12, "D"), (29, 35, "D")]


def test_a_span_group_keeps_overlapping_mentions(nlp):
    document = Document("1", TEXT, [mention("cancer"), mention("lung cancer")])
    doc = stored(create_gold_doc(nlp, document, "gold"))
    assert [span.text for span in doc.spans["gold"]] == ["lung cancer", "cancer"]
    assert doc._.unaligned_mentions == []
    assert not doc.has_annotation("ENT_IOB")


def test_what_does_not_fit_is_kept_and_told_apart(nlp):
    discontinuous = Mention("D", ((9, 12), (29, 35)))
    document = Document("1", TEXT, [mention("I kappa", "P"), discontinuous, mention("IV")])
    placement = annotate(create_doc(nlp, document), document).mentions
    assert [m.start for m in placement.inside_token] == [40]
    assert placement.discontinuous == [discontinuous]
    doc = stored(create_gold_doc(nlp, document))
    assert doc._.unaligned_mentions == [(9, 35, "D"), (40, 47, "P")]


def test_a_mention_given_twice_is_one(nlp):
    document = Document("1", TEXT, [mention("IV"), mention("IV"), mention("IV", "S")])
    placement = annotate(create_doc(nlp, document), document).mentions
    assert (len(placement.mentions), len(placement.spans), len(placement.overlapping)) == (2, 1, 1)
    assert placement.spans[0].label_ == "D"


@pytest.mark.parametrize(
    ("concepts", "kb_id"),
    [
        (["C1", "C2"], "C1; C2"),
        (["C1", "", "C1"], "C1"),
        (["C1", "-"], "C1"),
        (["-", ""], NIL),
        ([""], ""),
    ],
)
def test_a_mention_given_twice_has_both_identifiers(nlp, concepts, kb_id):
    mentions = [replace(mention("IV"), attributes={"concept": one}) for one in concepts]
    doc = create_gold_doc(nlp, Document("1", TEXT, mentions))
    assert [ent.kb_id_ for ent in doc.ents] == [kb_id]


@pytest.mark.parametrize("spans_key", [None, "gold"])
def test_an_absent_layer_stays_absent_and_an_empty_one_stays_empty(nlp, spans_key):
    absent = stored(create_gold_doc(nlp, Document("1", TEXT), spans_key))
    empty = stored(create_gold_doc(nlp, Document("1", TEXT, []), spans_key))
    assert not absent.has_annotation("ENT_IOB")
    assert "gold" not in absent.spans
    assert empty.has_annotation("ENT_IOB") == (spans_key is None)
    assert ("gold" in empty.spans) == (spans_key == "gold")
    assert absent._.unaligned_mentions == empty._.unaligned_mentions == []


def test_classes_are_kept(nlp):
    doc = stored(create_gold_doc(nlp, Document("1", TEXT, cats={"A": 1.0, "B": 0.0})))
    assert doc.cats == {"A": 1.0, "B": 0.0}


def test_published_tokens_and_sentences_are_used(nlp):
    document = Document(
        "1", "IL-2 binds. It\n  does", [], tokens=[(0, 4), (5, 10), (10, 11), (12, 14), (17, 21)]
    )
    document.sentences = [(0, 11), (12, 21)]
    doc = stored(create_gold_doc(nlp, document))
    assert doc.text == document.text
    assert [t.text for t in doc if not t.is_space] == ["IL-2", "binds", ".", "It", "does"]
    assert [sentence[0].text for sentence in doc.sents] == ["IL-2", "It"]


def test_sentences_are_absent_where_the_source_has_none(nlp):
    assert not stored(create_gold_doc(nlp, Document("1", "A. B."))).has_annotation("SENT_START")


@pytest.mark.parametrize("text", ["", " \n", "😀"])
def test_texts_without_words_are_converted(nlp, text):
    assert stored(create_gold_doc(nlp, Document("1", text, [], cats={"A": 1.0}))).text == text


def on_disk(doc, folder):
    doc.to_disk(folder / "doc")
    return Doc(doc.vocab).from_disk(folder / "doc")


def strings(relations):
    return [(one.head.text, one.label, one.tail.text, one.score) for one in relations]


def related(*relations, mentions=()):
    document = Document("1", TEXT, [*mentions], list(relations))
    document.mentions += [
        Mention("S", mention("IV").fragments, "T1"),
        Mention("D", mention("lung cancer").fragments, "T2"),
        Mention("P", mention("I kappa").fragments, "T3"),
    ]
    return document


def test_relations_between_spans_are_on_the_doc_and_survive(nlp, tmp_path):
    doc = create_gold_doc(nlp, related(Relation("r", "T1", "T2"), Relation("s", "T2", "T1")))
    for one in (doc, stored(doc), on_disk(doc, tmp_path)):
        assert strings(one._.relations) == [
            ("IV", "r", "lung cancer", 1.0),
            ("lung cancer", "s", "IV", 1.0),
        ]
        assert {relation.head.label_ for relation in one._.relations} == {"S", "D"}
        assert [ent.text for ent in one.ents] == ["IV", "lung cancer"]


def test_a_relation_whose_argument_has_no_span_is_lost(nlp):
    document = related(Relation("r", "T1", "T3"), Relation("r", "T3", "T2"))
    doc = create_doc(nlp, document)
    annotated = annotate(doc, document)
    assert doc._.relations == []
    assert annotated.lost_relations == document.relations


@pytest.mark.parametrize("mentions", [None, [], [Mention("D", ((0, 5),), "T1")]])
def test_where_an_argument_names_nothing_relations_are_not_annotated(nlp, mentions):
    relations = [Relation("r", "T1", "T1"), Relation("r", "T1", "D005")]
    document = Document("1", TEXT, mentions, relations)
    doc = create_doc(nlp, document)
    assert annotate(doc, document).lost_relations == relations
    assert doc._.relations is None


def test_an_argument_that_a_longer_mention_covers_has_a_span_in_a_span_group_alone(nlp):
    longer = Mention("D", mention("small cell lung cancer").fragments, "T0")
    document = related(Relation("r", "T1", "T2"), mentions=[longer])
    assert create_gold_doc(nlp, document)._.relations == []
    assert strings(create_gold_doc(nlp, document, "gold")._.relations) == [
        ("IV", "r", "lung cancer", 1.0)
    ]


def test_a_relation_of_a_mention_given_twice_is_one(nlp):
    twin = Mention("S", mention("IV").fragments, "T0")
    relations = [Relation("r", "T0", "T2"), Relation("r", "T1", "T2")]
    doc = create_gold_doc(nlp, related(*relations, mentions=[twin]))
    assert strings(doc._.relations) == [("IV", "r", "lung cancer", 1.0)]


def test_a_relation_between_concepts_holds_between_all_their_mentions(nlp):
    text = "Aspirin helps. Aspirin, given for pain or ache, helps."

    def concept(start, end, value):
        return Mention("X", ((start, end),), "", {"concept": value})

    mentions = [
        concept(0, 7, "C1"),
        concept(15, 22, "C1|C9"),
        concept(34, 38, "D1"),
        concept(42, 46, "D1"),
        concept(43, 46, "D7"),
    ]
    relations = [
        Relation("CID", "C1", "D1"),
        Relation("CID", "C1", "D7"),
        Relation("x", "C9", "C1"),
    ]
    document = Document("1", text, mentions, relations)
    doc = create_doc(nlp, document)
    annotated = annotate(doc, document)
    assert [(one.head.start_char, one.label, one.tail.start_char) for one in doc._.relations] == [
        (0, "CID", 34),
        (0, "CID", 42),
        (15, "CID", 34),
        (15, "CID", 42),
        (15, "x", 0),
    ]
    assert annotated.lost_relations == [relations[1]]


def test_absent_relations_stay_absent(nlp):
    assert stored(create_gold_doc(nlp, Document("1", TEXT, [])))._.relations is None
    assert stored(create_gold_doc(nlp, Document("1", TEXT, [], [])))._.relations == []


def pair_document(*answers):
    document = create_pair("1", "What is it? ", "It is IL-2 beta.", {"similarity": 4.2}, "f:1")
    document.answers = [
        Mention(
            "answer", ((document.text.index(answer), document.text.index(answer) + len(answer)),)
        )
        for answer in answers
    ]
    return document


def test_pairs_answers_and_numbers_are_on_the_doc_and_survive(nlp, tmp_path):
    doc = create_gold_doc(nlp, pair_document("beta", "IL-2 beta", "L-2"))
    for one in (doc, stored(doc), on_disk(doc, tmp_path)):
        assert [span.text for span in one.spans["pair"]] == ["What is it?", "It is IL-2 beta."]
        assert [span.text for span in one.spans["answer"]] == ["IL-2 beta", "beta"]
        assert one._.unaligned_answers == [(19, 22, "answer")]
        assert one._.unaligned_mentions == []
        assert one.cats == {"similarity": 4.2}
        assert not one.has_annotation("ENT_IOB")


def test_a_question_without_answer_has_an_empty_layer_and_other_texts_none(nlp):
    unanswerable = stored(create_gold_doc(nlp, pair_document()))
    assert list(unanswerable.spans["answer"]) == []
    other = stored(create_gold_doc(nlp, Document("1", TEXT)))
    assert "answer" not in other.spans
    assert "pair" not in other.spans


@pytest.mark.parametrize(("first", "second"), [("Why?", ""), ("", "So."), ("😀", "\u00a0 x")])
def test_the_offsets_of_a_pair_are_those_of_its_spans(nlp, first, second):
    document = create_pair("1", first, second, None, "f:1", may_be_empty=True)
    doc = stored(create_gold_doc(nlp, document))
    assert [span.text for span in doc.spans["pair"]] == [
        document.text[start:end] for start, end in document.pair
    ]


@pytest.mark.parametrize(
    ("given", "kb_id"), [("D003920", "D003920"), ("D1|D2", "D1|D2"), ("-1", "NIL"), ("", "")]
)
@pytest.mark.parametrize("spans_key", [None, "sc"])
def test_the_identifier_of_a_mention_is_its_kb_id_and_survives(nlp, given, kb_id, spans_key):
    attributes = {"concept": given} if given else {}
    document = Document("1", "Type 2 diabetes.", [Mention("D", ((0, 15),), "", attributes)])
    doc = stored(create_gold_doc(nlp, document, spans_key))
    (span,) = doc.spans[spans_key] if spans_key else doc.ents
    assert span.kb_id_ == kb_id


def test_another_attribute_can_be_the_identifier(nlp):
    mentions = [Mention("D", ((0, 15),), "", {"concept": "x", "SNOMED": "44054006"})]
    document = Document("1", "Type 2 diabetes.", mentions)
    doc = create_doc(nlp, document)
    annotate(doc, document, identifier="SNOMED")
    assert [ent.kb_id_ for ent in doc.ents] == ["44054006"]
