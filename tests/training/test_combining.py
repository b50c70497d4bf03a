"""Several converted corpora as one."""

import json

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed.annotations.annotation_scope import get_scope
from spacy_biomed.annotations.assertions import list_assertions
from spacy_biomed.annotations.seen_mentions import SEEN_KEY, mentions_of
from spacy_biomed.corpora.convert import ATTRIBUTES, convert_corpus
from spacy_biomed.corpora.label_map import parse_label_map
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.training.combining import combine_corpora

BRCA = "Mutations of BRCA1 were found in breast and ovarian tumours."
ASPIRIN = "Aspirin reduced the risk of colorectal cancer in patients with diabetes."
KINASE = "The kinase EGFR is inhibited by gefitinib in cancer of the lung."
ONLY = "{} was seen in none of the other patients of this study."


def line(text, *mentions, id=None):
    spans = [
        {"start": text.index(words), "end": text.index(words) + len(words), "label": label}
        for words, label in mentions
    ]
    return {"text": text, "spans": spans, **({"id": id} if id else {})}


@pytest.fixture
def make_corpus(tmp_path):
    def make(name, spans_key=None, language="en", copies=None, **parts):
        source = tmp_path / "source" / name
        source.mkdir(parents=True)
        lines = {"dev": [line(ONLY.format(f"{name} dev"))], **parts}
        for part, content in lines.items():
            (source / f"{part}.jsonl").write_text(
                "".join(json.dumps(one) + "\n" for one in content)
            )
        output = tmp_path / name
        terms = tmp_path / "terms"
        terms.mkdir(exist_ok=True)
        (terms / "DRUG.txt").write_text("ibuprofen\n")
        convert_corpus(
            name,
            source,
            output,
            format="jsonl",
            spans_key=spans_key,
            language=language,
            replace_mentions=terms if copies else None,
            **({"copies": copies} if copies else {}),
        )
        return output

    return make


def read(folder, part="train"):
    return list(read_docs(folder / f"{part}.spacy", spacy.blank("en").vocab))


def ents(doc):
    return [(ent.text, ent.label_) for ent in doc.ents]


def test_documents_keep_the_labels_that_their_corpus_annotates(make_corpus, tmp_path):
    genes = make_corpus("genes", train=[line(BRCA, ("BRCA1", "Gene"))], test=[line(ONLY.format(1))])
    drugs = make_corpus("drugs", train=[line(ASPIRIN, ("Aspirin", "Drug"))])
    report = combine_corpora(
        [genes, drugs],
        tmp_path / "both",
        label_maps={"genes": parse_label_map(["Gene=GENE"])},
    )
    docs = read(tmp_path / "both")
    assert [ents(doc) for doc in docs] == [[("BRCA1", "GENE")], [("Aspirin", "Drug")]]
    assert [get_scope(doc).labels for doc in docs] == [{"GENE"}, {"Drug"}]
    assert [len(read(tmp_path / "both", part)) for part in ("dev", "test")] == [2, 1]
    described = json.loads((tmp_path / "both" / "corpus.json").read_text())
    assert described["annotated_labels"] == described["labels"] == ["Drug", "GENE"]
    assert described["language"] == "en" and described["name"] == "both"
    assert described["parts"]["train"]["documents"] == 2
    assert described["parts"]["train"]["mentions"] == {"Drug": 1, "GENE": 1}
    assert [one.labels for one in report.corpora] == [["GENE"], ["Drug"]]


def test_what_is_said_of_mentions_is_kept_also_of_merged_documents(make_corpus, tmp_path):
    cancer, diabetes = (line(ASPIRIN, (one, "D")) for one in ("colorectal cancer", "diabetes"))
    cancer["spans"][0]["attributes"] = {"Hypothetical": "true"}
    other = line(BRCA, ("BRCA1", "Gene"))
    other["spans"][0]["attributes"] = {"Negated": "true"}
    diabetes["spans"][0]["attributes"] = {"History": "true"}
    folders = [make_corpus("one", train=[cancer]), make_corpus("two", train=[diabetes, other])]
    combine_corpora(folders, tmp_path / "both")
    said = [
        {doc.text[start:end]: one for start, end, one in list_assertions(doc)}
        for doc in read(tmp_path / "both")
    ]
    assert said == [
        {"colorectal cancer": {"is_hypothetical": 1.0}, "diabetes": {"is_historical": 1.0}},
        {"BRCA1": {"is_negated": 1.0}},
    ]


def test_what_two_corpora_say_of_a_mention_is_joined(make_corpus, tmp_path):
    folders = []
    for name, attribute in (("one", "Negated"), ("two", "History")):
        mention = line(BRCA, ("BRCA1", "Gene"))
        mention["spans"][0]["attributes"] = {attribute: "true"}
        folders.append(make_corpus(name, train=[mention]))
    combine_corpora(folders, tmp_path / "both")
    [doc] = read(tmp_path / "both")
    [(_, _, said)] = list_assertions(doc)
    assert said == {"is_negated": 1.0, "is_historical": 1.0}


def give_ids(folder, *ids, spans_key=None):
    """Give the mentions of a corpus's training part their identifiers."""
    docs = read(folder)
    given = iter(ids)
    for doc in docs:
        spans = mentions_of(doc, spans_key)
        for span in spans:
            span.kb_id_ = next(given)
        if spans_key is None:
            doc.ents = spans
        else:
            doc.spans[spans_key] = spans
    DocBin(attrs=ATTRIBUTES, store_user_data=True, docs=docs).to_disk(folder / "train.spacy")


def test_identifiers_of_mentions_are_kept_also_of_merged_documents(make_corpus, tmp_path):
    one = make_corpus("one", train=[line(BRCA, ("BRCA1", "Gene"), ("breast", "Site"))])
    sites = line(BRCA, ("breast", "Site"), ("ovarian", "Site"))
    two = make_corpus("two", train=[sites])
    give_ids(one, "672", "C50")
    give_ids(two, "D1943", "")
    label_maps = {"one": parse_label_map(["Gene=GENE", "Site=Site"])}
    combine_corpora([one, two], tmp_path / "both", label_maps=label_maps)
    [doc] = read(tmp_path / "both")
    found = {ent.text: ent.kb_id_ for ent in doc.ents}
    assert found == {"BRCA1": "672", "breast": "C50; D1943"}  # "ovarian" is disputed


def test_identifiers_in_a_span_group_are_kept_for_each_label(make_corpus, tmp_path):
    drug = line(ASPIRIN, ("Aspirin", "Drug"), ("Aspirin", "Salicylate"))
    one = make_corpus("one", spans_key="sc", train=[drug])
    two = make_corpus("two", spans_key="sc", train=[line(KINASE, ("EGFR", "Gene"))])
    give_ids(one, "D1", "S2", spans_key="sc")
    combine_corpora([one, two], tmp_path / "both", spans_key="sc")
    doc, _ = read(tmp_path / "both")
    found = {(span.label_, span.kb_id_) for span in doc.spans["sc"]}
    assert found == {("Drug", "D1"), ("Salicylate", "S2")}


def test_what_is_held_out_anywhere_is_not_trained_on(make_corpus, tmp_path):
    one = make_corpus(
        "one",
        train=[line(ASPIRIN), line(KINASE + " " + ONLY.format("A")), line(BRCA)],
        dev=[line(ONLY.format("B"))],
    )
    two = make_corpus(
        "two",
        train=[line(ONLY.format("B")), line(ONLY.format("C"))],
        dev=[line(BRCA)],
        test=[line(ASPIRIN.lower()), line(KINASE), line(BRCA)],
    )
    report = combine_corpora([one, two], tmp_path / "both")
    assert [doc.text for doc in read(tmp_path / "both")] == [ONLY.format("C")]
    assert [doc.text for doc in read(tmp_path / "both", "dev")] == [ONLY.format("B")]
    assert len(read(tmp_path / "both", "test")) == 3
    first, second = (corpus.parts for corpus in report.corpora)
    assert (first["train"].repeated_text, first["train"].repeated_sentence) == (2, 1)
    assert (second["train"].repeated_text, second["train"].repeated_sentence) == (1, 0)
    assert second["dev"].repeated_text == 1


def test_copies_of_what_is_held_out_are_not_trained_on(make_corpus, tmp_path):
    drug = ("Aspirin", "DRUG")
    one = make_corpus(
        "one",
        copies=3,
        train=[line(ASPIRIN, drug), line(ONLY.format("Aspirin"), drug)],
        dev=[line(ONLY.format("B"), ("B", "DRUG"))],
    )
    copied = [doc.text for doc in read(one)]
    assert len(copied) == 8 and ASPIRIN.replace("Aspirin", "Ibuprofen") in copied
    two = make_corpus("two", train=[line(BRCA)], test=[line(ASPIRIN, drug)])
    report = combine_corpora([one, two], tmp_path / "both")
    assert not any("colorectal" in doc.text for doc in read(tmp_path / "both"))
    assert report.corpora[0].parts["train"].repeated_text == 4
    assert len(read(tmp_path / "both")) == 5


def test_the_same_text_in_two_corpora_becomes_one_document_of_both_labels(make_corpus, tmp_path):
    genes = make_corpus("genes", train=[line(KINASE, ("EGFR", "GENE"))])
    drugs = make_corpus("drugs", train=[line(KINASE, ("gefitinib", "DRUG"))])
    report = combine_corpora([genes, drugs], tmp_path / "both")
    (doc,) = read(tmp_path / "both")
    assert ents(doc) == [("EGFR", "GENE"), ("gefitinib", "DRUG")]
    assert get_scope(doc).labels == {"GENE", "DRUG"}
    assert report.corpora[1].parts["train"].merged == 1


def test_what_two_corpora_dispute_is_neither_right_nor_wrong(make_corpus, tmp_path):
    mentions = [("EGFR", "GENE"), ("lung", "SITE")]
    one = make_corpus("one", train=[line(KINASE, ("kinase", "GENE"), *mentions)])
    two = make_corpus("two", train=[line(KINASE, ("EGFR", "GENE"), ("cancer", "DISEASE"))])
    report = combine_corpora([one, two], tmp_path / "both")
    (doc,) = read(tmp_path / "both")
    assert ents(doc) == [("EGFR", "GENE"), ("cancer", "DISEASE"), ("lung", "SITE")]
    assert get_scope(doc).uncertain == ((4, 10, "GENE"),)
    assert report.corpora[1].parts["train"].disputed == 1


def test_overlapping_mentions_of_two_corpora_leave_the_longest(make_corpus, tmp_path):
    one = make_corpus("one", train=[line(KINASE, ("EGFR", "GENE"))])
    two = make_corpus("two", train=[line(KINASE, ("kinase EGFR", "PROTEIN"))])
    combine_corpora([one, two], tmp_path / "both")
    (doc,) = read(tmp_path / "both")
    assert ents(doc) == [("kinase EGFR", "PROTEIN")]
    assert doc._.unaligned_mentions == [(11, 15, "GENE")]


def test_the_same_abstract_in_another_text_is_kept_and_counted(make_corpus, tmp_path):
    one = make_corpus("one", train=[line(KINASE, id="10021369")])
    two = make_corpus("two", train=[line(KINASE + " More.", id="10021369")])
    report = combine_corpora([one, two], tmp_path / "both")
    assert len(read(tmp_path / "both")) == 2
    assert report.corpora[1].parts["train"].kept_twice == 1


def test_repeats_within_a_corpus_stay(make_corpus, tmp_path):
    one = make_corpus("one", train=[line(KINASE), line(KINASE)])
    two = make_corpus("two", train=[line(BRCA)])
    combine_corpora([one, two], tmp_path / "both")
    assert len(read(tmp_path / "both")) == 3


def test_a_label_may_be_left_out_or_made_uncertain(make_corpus, tmp_path):
    mentions = [("kinase", "Family"), ("EGFR", "Gene"), ("cancer", "Disease")]
    one = make_corpus("one", train=[line(KINASE, *mentions)])
    maps = {"one": parse_label_map(["Family=?GENE", "Gene=GENE", "Disease="])}
    combine_corpora([one], tmp_path / "out", label_maps=maps)
    (doc,) = read(tmp_path / "out")
    assert ents(doc) == [("EGFR", "GENE")]
    assert get_scope(doc).labels == {"GENE"}
    assert get_scope(doc).uncertain == ((4, 10, "GENE"),)


def test_mentions_seen_in_any_corpus_are_marked(make_corpus, tmp_path):
    one = make_corpus("one", train=[line(KINASE, ("EGFR", "GENE"))])
    two = make_corpus("two", train=[line(BRCA)], test=[line("egfr was found by them.")])
    combine_corpora([one, two], tmp_path / "both")
    (doc,) = read(tmp_path / "both", "test")
    assert [(span.text, span.label_) for span in doc.spans[SEEN_KEY]] == [("egfr", "GENE")]


def test_mentions_of_a_span_group_are_combined(make_corpus, tmp_path):
    overlapping = [("kinase EGFR", "PROTEIN"), ("EGFR", "GENE")]
    one = make_corpus("one", "layer", train=[line(KINASE, *overlapping)])
    two = make_corpus("two", "layer", train=[line(KINASE, ("gefitinib", "DRUG"))])
    combine_corpora([one, two], tmp_path / "both", spans_key="layer")
    (doc,) = read(tmp_path / "both")
    assert [span.text for span in doc.spans["layer"]] == ["kinase EGFR", "EGFR", "gefitinib"]
    assert get_scope(doc, "layer").labels == {"PROTEIN", "GENE", "DRUG"}
    with pytest.raises(BiomedError, match=r"one: no document has mentions in doc\.ents"):
        combine_corpora([one, two], tmp_path / "none")


def test_corpora_that_do_not_go_together_are_refused(make_corpus, tmp_path):
    one = make_corpus("one", train=[line(KINASE, ("EGFR", "GENE"))])
    two = make_corpus("two", language="es", train=[line(BRCA)])
    output = tmp_path / "out"
    with pytest.raises(BiomedError, match="one is in en, two is in es"):
        combine_corpora([one, two], output)
    with pytest.raises(BiomedError, match="one: two corpora have this name"):
        combine_corpora([one, one], output)
    with pytest.raises(BiomedError, match="is what is read"):
        combine_corpora([one], one)
    with pytest.raises(BiomedError, match="--map three: no such corpus; use one"):
        combine_corpora([one], output, label_maps={"three": parse_label_map(["A=B"])})
    with pytest.raises(BiomedError, match="--map one: no mention of the corpus is a 'A'"):
        combine_corpora([one], output, label_maps={"one": parse_label_map(["A=B"])})
    description = json.loads((one / "corpus.json").read_text())
    (one / "corpus.json").write_text(json.dumps({**description, "taught": {}}))
    with pytest.raises(BiomedError, match="one: carries a teacher's probabilities"):
        combine_corpora([one], output)
    assert not output.exists()
