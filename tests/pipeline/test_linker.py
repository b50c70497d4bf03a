import pickle

import pytest
import spacy
from spacy.tokens import Doc, DocBin, Span
from spacy.tokens.underscore import Underscore
from spacy.training import Example
from without_training import WITHOUT_TRAINING, run_code

from spacy_biomed import BiomedError
from spacy_biomed.pipeline.linking.candidates import CandidateFinder, KnownNames
from spacy_biomed.pipeline.linking.ranker import train_linking
from spacy_biomed.terminologies import Terminology, build_terminology

CSV = """id,name,synonyms,type,parent
D1,Myocardial infarction,heart attack,disease,
D2,Diabetes mellitus,,disease,
D3,Type 2 diabetes,,disease,D2
D4,Mitral insufficiency,,disease,
561,Escherichia,,genus,
562,Escherichia coli,,species,561
563,Entamoeba coli,,species,
564,Staphylococcus aureus,,species,
"""


@pytest.fixture(scope="session")
def terms(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms")
    (folder / "terms.csv").write_text(CSV, encoding="utf8")
    build_terminology(folder / "terms.csv", folder / "index", format="csv")
    return folder / "index"


@pytest.fixture
def create(terms):
    def create_linker(**settings):
        nlp = spacy.blank("en")
        settings = {"terminologies": {"terms": str(terms)}, **settings}
        return nlp, nlp.add_pipe("biomed_linker", config=settings)

    return create_linker


def annotate(nlp, text, *mentions, label="X", spans_key=None, ids=()):
    """A document with mentions, each the first occurrence of a text."""
    doc = nlp.make_doc(text)
    spans = []
    for number, mention in enumerate(mentions):
        start = text.index(mention)
        span = doc.char_span(start, start + len(mention), label, alignment_mode="expand")
        spans.append(Span(doc, span.start, span.end, label, kb_id=ids[number] if ids else ""))
    if spans_key:
        doc.spans[spans_key] = spans
    else:
        doc.set_ents(spans)
    return doc


def codes(doc):
    return [ent._.code for ent in doc.ents]


@pytest.mark.parametrize(
    ("text", "mention", "code"),
    [
        ("Myocardial Infarctions were seen.", "Myocardial Infarctions", "D1"),
        ("A heart-attack.", "heart-attack", "D1"),
        ("Insufficiency, mitral, was seen.", "Insufficiency, mitral", "D4"),
        ("A myocardial infarction (MI). The MI passed.", "MI", "D1"),
        ("Escherichia grew. E. coli was found.", "E. coli", "562"),
        ("Entamoeba histolytica, E. coli.", "E. coli", "563"),
        ("A broken leg.", "broken leg", None),
    ],
)
def test_a_mention_gets_its_code(create, text, mention, code):
    nlp, linker = create(threshold=0.4)
    doc = linker(annotate(nlp, text, mention))
    assert codes(doc) == [code]
    assert [ent.kb_id_ for ent in doc.ents] == [code or ""]


def test_a_code_has_a_name_a_probability_and_candidates(create):
    nlp, linker = create()
    (ent,) = linker(annotate(nlp, "A heart attack.", "heart attack")).ents
    assert (ent._.code, ent._.code_name) == ("D1", "Myocardial infarction")
    assert 0.5 <= ent._.code_confidence < 1.0
    assert ent._.candidates[0] == ("D1", "Myocardial infarction", ent._.code_confidence)
    assert sum(probability for *_, probability in ent._.candidates) <= 1.0


def test_below_the_threshold_there_are_candidates_and_no_code(create):
    nlp, linker = create(threshold=1.0)
    (ent,) = linker(annotate(nlp, "A heart attack.", "heart attack")).ents
    assert (ent._.code, ent._.code_name, ent._.code_confidence) == (None, None, None)
    assert [id for id, *_ in ent._.candidates][:1] == ["D1"]


def test_a_misspelt_mention_has_the_concept_as_its_first_candidate(create):
    nlp, linker = create()
    (ent,) = linker(annotate(nlp, "Myocardal infarction.", "Myocardal infarction")).ents
    assert ent._.candidates[0][0] == "D1"


def test_candidates_do_not_depend_on_the_documents_before(create):
    found = []
    for before in ([], [("Entamoeba col grew.", "Entamoeba col")]):
        nlp, linker = create()
        for text, mention in [*before, ("Entamoeba histolytica, E. col.", "E. col")]:
            doc = linker(annotate(nlp, text, mention))
        found.append(doc.ents[0]._.candidates)
    assert found[0] == found[1]


def test_a_span_that_nobody_looked_at_has_no_candidates(create):
    nlp, _ = create()
    assert nlp.make_doc("A heart attack.")[1:3]._.candidates is None


def test_entities_of_a_span_group_keep_order_and_scores(create):
    nlp, linker = create(spans_key="sc")
    doc = annotate(nlp, "Diabetes mellitus, heart attack.", "heart attack", "Diabetes mellitus",
                   spans_key="sc")  # fmt: skip
    doc.spans["sc"].attrs["scores"] = [0.5, 0.75]
    group = linker(doc).spans["sc"]
    assert [span.kb_id_ for span in group] == [span._.code for span in group] == ["D1", "D2"]
    assert group.attrs["scores"] == [0.5, 0.75]
    assert not doc.ents


def test_labels_choose_the_terminology_and_others_get_no_code(create):
    nlp, linker = create(labels={"DISEASE": "terms"})
    disease = linker(annotate(nlp, "A heart attack.", "heart attack", label="DISEASE"))
    other = linker(annotate(nlp, "A heart attack.", "heart attack", label="GENE"))
    assert (codes(disease), codes(other)) == (["D1"], [None])
    assert other.ents[0]._.candidates is None


def test_tokens_without_annotation_stay_so(create):
    nlp, linker = create()
    doc = nlp.make_doc("A heart attack.")
    doc.set_ents([Span(doc, 1, 3, "X")], default="missing")
    assert [token.ent_iob_ for token in linker(doc)] == ["", "B", "I", ""]


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"threshold": 1.5}, "threshold = 1.5"),
        ({"most_candidates": 0}, "most_candidates = 0: use 1 or more"),
        ({"labels": {"X": "term"}}, "did you mean terms"),
        ({"terminologies": {}}, "has 0 terminologies"),
        ({"terminologies": {"terms": "/nowhere"}}, "/nowhere: not a terminology"),
    ],
)
def test_a_wrong_setting_is_one_line(create, settings, problem):
    with pytest.raises(BiomedError, match=problem) as error:
        nlp, linker = create(**settings)
        linker(annotate(nlp, "A heart attack.", "heart attack"))
    assert "\n" not in str(error.value)


def create_examples(nlp, count=40):
    """Documents with a name that the terminology lacks, and one that has no concept."""
    rows = (
        ("The sugar disease came back.", "sugar disease", "D2"),
        ("A heart attack was seen.", "heart attack", "D1"),
        ("The strange finding was seen.", "strange finding", "NIL"),
        ("Type 2 diabetes was seen.", "Type 2 diabetes", "D3|D2"),
    )
    docs = [annotate(nlp, text, mention, ids=[id]) for text, mention, id in rows * (count // 4)]
    return [Example(nlp.make_doc(doc.text), doc) for doc in docs]


def test_training_learns_names_and_calibrates(create):
    nlp, linker = create(threshold=0.4)
    text = annotate(nlp, "The sugar disease came back.", "sugar disease")
    assert codes(linker(text)) == [None]
    linker.initialize(lambda: create_examples(nlp))
    doc = linker(annotate(nlp, "Her sugar disease was seen.", "sugar disease"))
    assert codes(doc) == ["D2"]
    assert doc.ents[0]._.code_name == "Diabetes mellitus"
    assert codes(linker(annotate(nlp, "A strange finding.", "strange finding"))) == [None]


def test_the_score_counts_codes_at_gold_places(create):
    nlp, linker = create()
    gold = [example.reference for example in create_examples(nlp, 4)]
    found = [linker(annotate(nlp, doc.text, doc.ents[0].text)) for doc in gold]
    assert [codes(doc) for doc in found] == [[None], ["D1"], [None], ["D3"]]
    examples = [Example(one, other) for one, other in zip(found, gold, strict=True)]
    scores = linker.score(examples)
    assert (scores["links_p"], scores["links_r"]) == pytest.approx((1.0, 2 / 3))


def test_the_identifier_of_a_merged_concept_is_that_of_its_present_one(tmp_path):
    (tmp_path / "terms.obo").write_text(
        "\n[Term]\nid: D2\nname: Diabetes mellitus\nalt_id: D9\n\n[Term]\nid: D1\nname: Asthma\n"
    )
    build_terminology(tmp_path / "terms.obo", tmp_path / "index", format="obo")
    nlp = spacy.blank("en")
    settings = {"terminologies": {"terms": str(tmp_path / "index")}}
    linker = nlp.add_pipe("biomed_linker", config=settings)
    gold = annotate(nlp, "The sugar disease came back.", "sugar disease", ids=["D9"])
    linker.initialize(lambda: [Example(nlp.make_doc(gold.text), gold)] * 20)
    predicted = linker(annotate(nlp, gold.text, "sugar disease"))
    assert codes(predicted) == ["D2"]
    assert linker.score([Example(predicted, gold)])["links_f"] == 1.0


def test_training_without_identifiers_changes_nothing(create):
    nlp, linker = create()
    doc = annotate(nlp, "The sugar disease.", "sugar disease")
    linker.initialize(lambda: [Example(nlp.make_doc(doc.text), doc)])
    assert linker._trained == {}


@pytest.mark.parametrize("is_saved", [True, False])
def test_a_saved_pipeline_finds_the_same(create, tmp_path, terms, is_saved):
    nlp, linker = create(terminologies={} if is_saved else {"terms": str(terms)})
    if is_saved:
        linker.add_terminology("terms", terms)
    linker.initialize(lambda: create_examples(nlp))
    nlp.to_disk(tmp_path / "pipeline")
    assert (tmp_path / "pipeline/biomed_linker/terminologies/terms").is_dir() == is_saved
    text, mention = "The sugar disease came back.", "sugar disease"
    loaded = spacy.load(tmp_path / "pipeline")
    copies = [loaded, spacy.load(tmp_path / "pipeline").from_bytes(nlp.to_bytes())]
    expected = linker(annotate(nlp, text, mention)).ents[0]._.candidates
    for copy in copies:
        found = copy.get_pipe("biomed_linker")(annotate(copy, text, mention)).ents[0]
        assert (found._.code, found._.candidates) == ("D2", expected)
    loaded.to_disk(tmp_path / "pipeline")  # in place
    assert codes(spacy.load(tmp_path / "pipeline")(annotate(loaded, text, mention))) == ["D2"]


def test_a_terminology_that_was_moved_is_given_by_the_config(create, tmp_path, terms):
    nlp, _ = create(terminologies={"terms": "/nowhere"})
    nlp.to_disk(tmp_path / "pipeline")
    where = {"components.biomed_linker.terminologies.terms": str(terms)}
    moved = spacy.load(tmp_path / "pipeline", config=where)
    assert codes(moved(annotate(moved, "A heart attack.", "heart attack"))) == ["D1"]


def test_values_stay_with_a_document_on_disk(create):
    nlp, linker = create()
    doc = linker(annotate(nlp, "A heart attack.", "heart attack"))
    stored = DocBin(store_user_data=True, docs=[doc]).to_bytes()
    (read,) = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    assert codes(read) == ["D1"]
    assert codes(read[1:].as_doc(copy_user_data=True)) == ["D1"]


def test_a_component_can_be_sent_to_another_process(create):
    nlp, linker = create()
    linker(annotate(nlp, "A heart attack.", "heart attack"))
    pickle.dumps(Underscore.get_state())  # the extensions go with it
    other = pickle.loads(pickle.dumps(linker))
    assert codes(other(annotate(nlp, "A heart attack.", "heart attack"))) == ["D1"]


def test_processes_of_a_pipe_find_the_same(create):
    nlp, _ = create()
    docs = [annotate(nlp, "A heart attack.", "heart attack"), annotate(nlp, "A leg.", "leg")]
    assert [codes(doc) for doc in nlp.pipe(docs, n_process=2)] == [["D1"], [None]]


def test_it_needs_neither_pytorch_nor_scipy(terms):
    code = (
        "import spacy; from spacy.tokens import Span; nlp = spacy.blank('en');"
        f"nlp.add_pipe('biomed_linker', config={{'terminologies': {{'terms': {str(terms)!r}}}}});"
        "doc = nlp.make_doc('A heart attack.'); doc.set_ents([Span(doc, 1, 3, 'X')]);"
        "print(nlp(doc).ents[0]._.code)"
    )
    assert run_code(WITHOUT_TRAINING + code).strip() == "D1"


def test_without_scipy_no_training_is_begun(terms, monkeypatch):
    monkeypatch.setattr("spacy_biomed.pipeline.linking.ranker.find_spec", lambda name: None)
    with pytest.raises(BiomedError, match="training a linker needs SciPy"):
        train_linking(Terminology(terms), [])


def test_a_document_without_entities_is_as_it_was(create):
    nlp, linker = create()
    assert linker(Doc(nlp.vocab, ["nothing"])).ents == ()


def test_candidates_of_a_long_document_do_not_grow_with_the_square_of_its_mentions(tmp_path):
    rows = "".join(f"C{number},concept{number}\n" for number in range(300))
    (tmp_path / "terms.csv").write_text(f"id,name\n{rows}", encoding="utf8")
    build_terminology(tmp_path / "terms.csv", tmp_path / "index", format="csv")
    finder = CandidateFinder(Terminology(tmp_path / "index"), KnownNames({}, {}))
    mentions = [text for number in range(300) for text in (f"concept{number}", f"qq{number}")]
    found = finder.find(mentions, "")
    assert max(map(len, found.values())) < 100
    last = found["qq299"]
    assert last["C0"].values["first"] == last["C299"].values["adjacent"] == 1.0
