"""What a server keeps of the texts that it has answered."""

import gc
from types import FunctionType, ModuleType

import pytest
import spacy

from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.serving.annotator import Annotator
from spacy_biomed.serving.batching import Job
from spacy_biomed.terminologies import build_terminology


def find_word(word: str, *roots: object) -> bool:
    """Whether a string that objects lead to has a word."""
    seen: set[int] = set()
    left = list(roots)
    while left:
        one = left.pop()
        # Functions lead to all of their modules.
        if id(one) in seen or isinstance(one, ModuleType | FunctionType | type):
            continue
        seen.add(id(one))
        if isinstance(one, str | bytes) and _has(one, word):
            return True
        left += gc.get_referents(one)
        if isinstance(one, dict):  # whose keys are left out if they are strings
            left += one
    return False


def _has(value: str | bytes, word: str) -> bool:
    text = value.decode("latin-1") if isinstance(value, bytes) else value
    return word in text


@pytest.fixture(params=["PyTorch", "exported"])
def nlp(request, tiny_bert, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_transformer", config={"model": {"name": str(tiny_bert)}})
    nlp.add_pipe("biomed_ner").add_label("NAME")
    nlp.initialize()
    if request.param == "exported":
        write_compressed(nlp, tmp_path / "exported", "int8", False)
        nlp = spacy.load(tmp_path / "exported")
    # As for an encoder like BERT; the small one has another tokenizer.
    nlp.get_pipe("biomed_transformer").model.shims[0].tokenizer._keeps_words = True
    return nlp


def make_texts(word: str) -> list[str]:
    return [f"Ms. {word} came.", f"aspirin for {word} {word}"]


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("write", ["write_findings", "write_deidentified"])
def test_no_words_of_texts_are_kept_after_their_answer(nlp, write):
    # Put together here, since the constants of a module are in memory.
    word, other = ("".join(reversed(name)) for name in ("xuertzahce", "exteratebi"))
    list(nlp.pipe(make_texts(other)))
    assert find_word(other, nlp)  # so does this find what is kept
    annotator = Annotator(nlp)
    annotator.annotate([Job("1", text, getattr(annotator, write)) for text in make_texts(word)])
    assert not find_word(word, annotator, nlp)
    assert word not in nlp.vocab.strings


def test_no_mentions_are_kept_by_a_linker(tmp_path):
    (tmp_path / "terms.csv").write_text("id,name\nC1,aspirin\n")
    build_terminology(tmp_path / "terms.csv", tmp_path / "terms", format="csv")
    nlp = spacy.blank("en")
    patterns = [{"label": "NAME", "pattern": [{"IS_TITLE": True}]}]
    nlp.add_pipe("entity_ruler").add_patterns(patterns)
    nlp.add_pipe("biomed_linker", config={"terminologies": {"terms": str(tmp_path / "terms")}})
    word = "".join(reversed("xuertzahcE"))
    annotator = Annotator(nlp)
    annotator.annotate([Job("1", f"{word} came.", annotator.write_findings)])
    assert not find_word(word, annotator, nlp)
