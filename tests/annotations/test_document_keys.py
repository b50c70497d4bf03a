"""Keys of documents: extensions that a program has declared stay, and what is unaligned is kept."""

import pytest
import spacy
from spacy.tokens import DocBin, Span
from without_training import run_code

from spacy_biomed.annotations.document_keys import (
    UNALIGNED_ANSWERS,
    declare_extension,
    get_unaligned,
    set_unaligned,
    split_ids,
)


@pytest.mark.slow
def test_an_extension_that_a_program_has_declared_stays():
    code = (
        "from spacy.tokens import Doc\n"
        "Doc.set_extension('relations', default='mine')\n"
        "import spacy_biomed.annotations.relation_layer\n"
        "print(Doc.get_extension('relations')[0], Doc.has_extension('unaligned_mentions'))"
    )
    assert run_code(code).split() == ["mine", "True"]


def test_a_value_that_was_declared_before_is_a_warning():
    Span.set_extension("own_value", default=0.0)
    Span.set_extension("own_getter", getter=len)
    with pytest.warns(UserWarning, match=r"Span\._\.own_value was declared before"):
        declare_extension("own_value", len, on=Span)
    declare_extension("own_getter", str, on=Span)
    assert Span.get_extension("own_value")[0] == 0.0
    assert Span.get_extension("own_getter")[2] is len
    for name in ("own_value", "own_getter"):
        Span.remove_extension(name)


def test_several_identifiers_are_apart_and_a_variant_is_one():
    assert split_ids("D1;D2, D3|D4") == ["D1", "D2", "D3", "D4"]
    assert split_ids("p|SUB|V|600|E;c|DEL||32") == ["p|SUB|V|600|E", "c|DEL||32"]
    assert split_ids(" ") == []


def test_unaligned_gold_is_stored_with_the_document():
    nlp = spacy.blank("en")
    doc = nlp("Aspirin.")
    assert doc._.unaligned_mentions == [] == get_unaligned(doc)
    doc._.unaligned_mentions = [(0, 3, "DRUG")]
    set_unaligned(doc, [(1, 2, "answer")], name=UNALIGNED_ANSWERS)
    stored = DocBin(docs=[doc], store_user_data=True).to_bytes()
    (read,) = DocBin().from_bytes(stored).get_docs(nlp.vocab)
    assert get_unaligned(read) == [(0, 3, "DRUG")]
    assert read._.unaligned_answers == [(1, 2, "answer")]
