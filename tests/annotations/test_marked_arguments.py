import pytest

from spacy_biomed.annotations.marked_arguments import (
    Argument,
    find_marked_arguments,
    mark_arguments,
)


def words(text):
    found = find_marked_arguments(text)
    return found and [(text[start:end], label) for start, end, label in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[[ A b ]] binds << C >>.", [("C", ""), ("A b", "")]),
        ("(<< A >>): x >> y, z[[1]b], [[ C[2] ]]", [("A", ""), ("C[2]", "")]),
        ("@DRUG$ and x@DRUG$-like", [("@DRUG$", "DRUG"), ("@DRUG$", "DRUG")]),
        ("@GENE$, @GENE$ or @DISEASE$", [("@GENE$", "GENE"), ("@DISEASE$", "DISEASE")]),
        ("An @CHEM-GENE$.", [("@CHEM-GENE$", "CHEMICAL"), ("@CHEM-GENE$", "GENE")]),
        ("@DRUG-DRUG$, no", [("@DRUG-DRUG$", "DRUG"), ("@DRUG-DRUG$", "DRUG")]),
        ("@side-effect$ of @drug_1$", [("@side-effect$", "side-effect"), ("@drug_1$", "drug_1")]),
    ],
)
def test_arguments_are_found_by_marks_and_by_tags(text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Aspirin inhibits COX-1.",
        "<< Aspirin >> inhibits COX-1.",
        "<< A >> and << B >> bind [[ C ]]",
        "<<A>> binds [[B]]",
        "a << b [[ c ]]",
        "@GENE$ alone, a@b.org, $5 @ $6",
        "@side-effect$ alone",
    ],
)
def test_other_texts_show_no_arguments(text):
    assert find_marked_arguments(text) is None


def test_a_text_of_many_opening_marks_is_searched_in_a_moment():
    assert find_marked_arguments("<< [[ @a" * 200_000) is None


@pytest.mark.parametrize("order", [1, -1])
def test_what_is_marked_is_found_again(order):
    text = "First, IL-2 does something to TNF."
    head, tail = (Argument(7, 11, ""), Argument(30, 33, ""))[::order]
    marked = mark_arguments(text, head, tail, "marks", (7, 33))
    arguments = find_marked_arguments(marked)
    assert [marked[one.start : one.end] for one in arguments] == ["IL-2", "TNF"][::order]
    assert mark_arguments(text, head, tail, "marks", (0, 34))[:7] == "First, "
