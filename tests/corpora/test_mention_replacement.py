"""Copies of a training part with other terms: what changes, what stays, what is left alone."""

from pathlib import Path

import pytest

from spacy_biomed.annotations.assertions import list_assertions
from spacy_biomed.corpora.convert import create_pipeline
from spacy_biomed.corpora.gold import create_gold_doc
from spacy_biomed.corpora.mention_replacement import read_terms, replace_mentions
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Document, Mention, Relation, create_pair


def find(text: str, *surfaces: tuple[str, str]) -> list[Mention]:
    """Every occurrence of each surface, as mentions T1, T2 ... in the order given."""
    mentions = []
    for surface, label in surfaces:
        start = text.find(surface)
        while start >= 0:
            id = f"T{len(mentions) + 1}"
            mentions.append(Mention(label, ((start, start + len(surface)),), id=id))
            start = text.find(surface, start + len(surface))
    return mentions


def surfaces(document: Document) -> list[str]:
    return [document.text[m.start : m.end] for m in document.mentions or []]


def write_terms(folder: Path, label: str, *lines: str) -> Path:
    path = folder / f"{label}.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def aspirin() -> Document:
    text = "Aspirin reduced fever. In rats, aspirin and heparin acted alike; fever fell."
    mentions = find(
        text,
        ("Aspirin", "CHEMICAL"),
        ("aspirin", "CHEMICAL"),
        ("heparin", "CHEMICAL"),
        ("fever", "DISEASE"),
    )
    return Document("d1", text, mentions=mentions, relations=[Relation("treats", "T1", "T4")])


@pytest.fixture
def terms(tmp_path: Path) -> Path:
    write_terms(tmp_path, "CHEMICAL", "# drugs", "", "ibuprofen", "warfarin sodium", "mTOR blocker")
    write_terms(tmp_path, "DISEASE", "asthma", "type 2 diabetes mellitus", "gout")
    return tmp_path


def test_every_document_is_followed_by_its_copies(aspirin: Document, terms: Path) -> None:
    result = replace_mentions([aspirin], terms, copies=3, seed=0)
    assert [document.id for document in result] == ["d1", "d1#1", "d1#2", "d1#3"]
    assert result[0] is aspirin


def test_three_of_four_mentions_are_replaced(terms: Path) -> None:
    documents = []
    for number in range(500):
        text = f"Patients on heparin {number} and oxygen had fever or pain."
        mentions = find(text, ("heparin", "CHEMICAL"), ("oxygen", "CHEMICAL"), ("fever", "DISEASE"))
        documents.append(Document(f"d{number}", text, mentions=mentions))
    copies = replace_mentions(documents, terms, copies=2, seed=1)
    new = [s for d in copies if "#" in d.id for s in surfaces(d)]
    replaced = sum(s not in {"heparin", "oxygen", "fever"} for s in new)
    assert len(copies) == 1500
    assert len(new) == 3000
    # 0.75 of 3000 with a standard deviation of 24.
    assert abs(replaced - 2250) < 100


def test_the_offsets_of_a_copy_cover_its_terms(aspirin: Document, terms: Path) -> None:
    known = {"aspirin", "heparin", "fever", "ibuprofen", "warfarin sodium", "mtor blocker"}
    known |= {"asthma", "type 2 diabetes mellitus", "gout"}
    for copy in replace_mentions([aspirin], terms, copies=20, seed=0):
        assert {s.lower() for s in surfaces(copy)} <= known
        assert [m.label for m in copy.mentions] == [m.label for m in aspirin.mentions]
        assert [m.id for m in copy.mentions] == [m.id for m in aspirin.mentions]
        assert copy.relations == aspirin.relations
        assert " acted alike; " in copy.text


def test_one_form_gets_one_term_within_a_copy(aspirin: Document, terms: Path) -> None:
    for copy in replace_mentions([aspirin], terms, copies=20, seed=3):
        first, second, heparin, fever, fever_again = surfaces(copy)
        assert first.lower() == second.lower()
        assert fever == fever_again
        assert heparin.lower() != second.lower()


def test_a_sentence_still_begins_with_a_capital(aspirin: Document, terms: Path) -> None:
    firsts = {surfaces(d)[0] for d in replace_mentions([aspirin], terms, copies=40, seed=0)}
    assert firsts == {"Aspirin", "Ibuprofen", "Warfarin sodium", "mTOR blocker"}
    seconds = {surfaces(d)[1] for d in replace_mentions([aspirin], terms, copies=40, seed=0)}
    assert seconds == {"aspirin", "ibuprofen", "warfarin sodium", "mTOR blocker"}


@pytest.mark.parametrize(
    ("text", "surface", "expected"),
    [
        ("PARACETAMOL 1 g cada 8 h", "PARACETAMOL", {"IBUPROFENO"}),
        ("ALTA CON AAS DIARIO\nSin fiebre", "AAS", {"IBUPROFENO"}),
        ("Se pauta AAS diario", "AAS", {"ibuprofeno"}),
        ("SULFATO FERROSO diario", "SULFATO FERROSO", {"IBUPROFENO"}),
    ],
)
def test_headings_keep_their_capitals_and_abbreviations_do_not_hand_theirs_on(
    tmp_path: Path, text: str, surface: str, expected: set[str]
) -> None:
    write_terms(tmp_path, "FARMACO", "ibuprofeno")
    document = Document("n1", text, mentions=find(text, (surface, "FARMACO")))
    copies = replace_mentions([document], tmp_path, copies=20, seed=0)
    assert {surfaces(copy)[0] for copy in copies} == {surface} | expected


def test_without_a_list_the_terms_are_the_mentions_of_the_label() -> None:
    texts = ["We gave heparin.", "We gave oxygen.", "Warfarin helped."]
    labelled = ["heparin", "oxygen", "Warfarin"]
    documents = [
        Document(f"d{n}", text, mentions=find(text, (surface, "CHEMICAL")))
        for n, (text, surface) in enumerate(zip(texts, labelled, strict=True))
    ]
    copies = replace_mentions(documents, None, copies=30, seed=0)
    # 'Warfarin' owes its capital to the sentence, so it cannot stand in the middle of one.
    assert {surfaces(d)[0] for d in copies if d.id.startswith("d0")} == {"heparin", "oxygen"}
    assert {surfaces(d)[0] for d in copies if d.id.startswith("d2")} == {
        "Warfarin",
        "Heparin",
        "Oxygen",
    }


def test_a_label_with_a_single_term_keeps_it() -> None:
    document = Document("d", "Mice ate.", mentions=find("Mice ate.", ("Mice", "SPECIES")))
    copies = replace_mentions([document], None, copies=4, seed=0)
    assert [surfaces(copy) for copy in copies] == [["Mice"]] * 5


def test_copies_do_not_depend_on_the_order_of_the_documents(aspirin: Document, terms: Path) -> None:
    other = Document("d2", "No gout.", mentions=find("No gout.", ("gout", "DISEASE")))
    forwards = replace_mentions([aspirin, other], terms, copies=3, seed=5)
    backwards = replace_mentions([other, aspirin], terms, copies=3, seed=5)
    assert {d.id: d.text for d in forwards} == {d.id: d.text for d in backwards}


def test_the_seed_decides(aspirin: Document, terms: Path) -> None:
    texts = [
        [d.text for d in replace_mentions([aspirin], terms, copies=5, seed=seed)]
        for seed in (0, 0, 1)
    ]
    assert texts[0] == texts[1]
    assert texts[0] != texts[2]


@pytest.mark.parametrize(
    "mentions",
    [
        [Mention("DISEASE", ((0, 5), (10, 16)))],
        [Mention("DISEASE", ((0, 16),)), Mention("ORGAN", ((0, 5),))],
        [],
        None,
    ],
)
def test_discontinuous_overlapping_and_no_mentions_stay_single(
    mentions: list[Mention] | None, terms: Path
) -> None:
    document = Document("d", "liver and kidney failure", mentions=mentions)
    assert replace_mentions([document], terms, copies=3, seed=0) == [document]


def test_tokens_and_sentences_follow_the_text(aspirin: Document, terms: Path) -> None:
    text = "Aspirin helped . Then fever rose ."
    words = text.split()
    tokens, offset = [], 0
    for word in words:
        start = text.index(word, offset)
        offset = start + len(word)
        tokens.append((start, offset))
    document = Document(
        "d",
        text,
        mentions=find(text, ("Aspirin", "CHEMICAL"), ("fever", "DISEASE")),
        tokens=tokens,
        sentences=[(0, 16), (17, len(text))],
    )
    for copy in replace_mentions([document], terms, copies=20, seed=0)[1:]:
        assert [copy.text[start:end] for start, end in copy.tokens] == copy.text.split()
        first, second = (copy.text[start:end] for start, end in copy.sentences)
        assert first == f"{surfaces(copy)[0]} helped ."
        assert second == f"Then {surfaces(copy)[1]} rose ."


def test_tokens_that_straddle_a_mention_are_left_out(tmp_path: Path) -> None:
    write_terms(tmp_path, "CHEMICAL", "zinc")
    text = "iron-bound"
    document = Document("d", text, mentions=find(text, ("iron", "CHEMICAL")), tokens=[(0, 10)])
    copies = replace_mentions([document], tmp_path, copies=10, seed=0)
    changed = [copy for copy in copies if copy.text == "zinc-bound"]
    assert changed
    assert all(copy.tokens is None for copy in changed)


def test_the_classes_of_a_copy_are_its_documents(terms: Path) -> None:
    document = Document(
        "d", "No gout.", mentions=find("No gout.", ("gout", "DISEASE")), cats={"a": 1.0}
    )
    copies = replace_mentions([document], terms, copies=2, seed=0)
    assert [copy.cats for copy in copies] == [{"a": 1.0}] * 3


def test_a_line_with_a_tab_is_named(tmp_path: Path) -> None:
    path = write_terms(tmp_path, "CHEMICAL", "# one a line", "zinc", "iron\tFe")
    with pytest.raises(BiomedError, match=r"CHEMICAL\.txt:3: .*one term a line"):
        read_terms(path)


@pytest.mark.parametrize("line", ["# nothing yet", ""])
def test_a_list_without_a_term_is_named(aspirin: Document, tmp_path: Path, line: str) -> None:
    write_terms(tmp_path, "CHEMICAL", line)
    with pytest.raises(BiomedError, match=r"CHEMICAL\.txt: the list has no term"):
        replace_mentions([aspirin], tmp_path, copies=1, seed=0)


def test_a_list_in_another_encoding_is_named(aspirin: Document, tmp_path: Path) -> None:
    (tmp_path / "CHEMICAL.txt").write_bytes("zinc\ncafeína\n".encode("latin-1"))
    with pytest.raises(BiomedError, match=r"CHEMICAL\.txt:2"):
        replace_mentions([aspirin], tmp_path, copies=1, seed=0)


def test_a_folder_that_is_not_there_is_named(aspirin: Document, tmp_path: Path) -> None:
    with pytest.raises(BiomedError, match="no such folder"):
        replace_mentions([aspirin], tmp_path / "none", copies=1, seed=0)


def test_a_folder_without_a_list_for_any_label_is_named(aspirin: Document, tmp_path: Path) -> None:
    (tmp_path / "drugs.txt").write_text("zinc\n", encoding="utf-8")
    with pytest.raises(BiomedError, match=r"no list of terms for a label .*CHEMICAL"):
        replace_mentions([aspirin], tmp_path, copies=1, seed=0)


def test_a_negative_number_of_copies_is_refused(aspirin: Document) -> None:
    with pytest.raises(BiomedError, match="copies is -1"):
        replace_mentions([aspirin], None, copies=-1, seed=0)


def test_a_pair_of_texts_is_returned_once(terms: Path) -> None:
    document = create_pair("1", "We gave aspirin.", "Why?", None, "f:1")
    document.mentions = find(document.text, ("aspirin", "CHEMICAL"))
    assert replace_mentions([document], terms, copies=3, seed=0) == [document]


def test_relations_of_a_copy_are_between_its_new_mentions(terms: Path) -> None:
    text = "We gave aspirin, then heparin."
    mentions = find(text, ("aspirin", "CHEMICAL"), ("heparin", "CHEMICAL"))
    document = Document("1", text, mentions, [Relation("before", "T1", "T2")])
    nlp = create_pipeline("en")
    for copy in replace_mentions([document], terms, copies=5, seed=0):
        ((head, tail, _, _),) = create_gold_doc(nlp, copy)._.relations
        assert [head.text, tail.text] == surfaces(copy)


def test_an_identifier_stays_with_its_term_and_relations_of_concepts_stay() -> None:
    nlp, ids = create_pipeline("en"), {"Gout": "C1", "Flu": "C2"}
    found = set()
    said = {"concept": "C1", "is_negated": "true"}
    mentions = [Mention("A", ((0, 4),), "", said), Mention("B", ((5, 8),), "", {"concept": "C2"})]
    document = Document("1", "Gout Flu", mentions, [Relation("r", "C1", "C2")])
    pool = Document("2", "Flux Ague", [Mention("A", ((0, 4),)), Mention("B", ((5, 9),))])
    for copy in replace_mentions([document, pool], None, copies=8, seed=0)[1:9]:
        doc = create_gold_doc(nlp, copy)
        assert [ent.kb_id_ for ent in doc.ents] == [ids.get(ent.text, "") for ent in doc.ents]
        assert len(doc._.relations) == 1
        assert [said["is_negated"] for _, _, said in list_assertions(doc)] == [1.0]
        found.update(ent.text for ent in doc.ents)
    assert found == {"Gout", "Flux", "Flu", "Ague"}
