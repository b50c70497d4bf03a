"""`spacy_biomed.Corpus.v1`."""

from functools import partial

import catalogue
import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin, Span
from spacy.training import Corpus
from spacy.training.loop import create_evaluation_callback
from spacy.vocab import Vocab
from srsly.msgpack import msgpack_decoders, msgpack_encoders

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.spacy_docs import find_coders_once, read_docs
from spacy_biomed.training.corpus import Corpus_v1


@pytest.fixture(scope="module")
def nlp():
    return spacy.blank("es")


def texts(reader, nlp):
    return [example.reference.text for example in reader(nlp)]


def test_the_registered_reader_reads_what_spacys_own_reads(converted, nlp):
    config = {"@readers": "spacy_biomed.Corpus.v1", "path": str(converted / "dev.spacy")}
    reader = spacy.registry.resolve({"corpus": config})["corpus"]
    assert texts(reader, nlp) == texts(Corpus(converted / "dev.spacy"), nlp)


def test_a_folder_is_read_file_after_file(converted, nlp):
    assert texts(Corpus_v1(converted), nlp) == texts(Corpus(converted), nlp)


def test_settings_are_spacys(converted, nlp):
    assert len(texts(Corpus_v1(converted / "dev.spacy", limit=1), nlp)) == 1


def test_several_parts_are_read_one_after_the_other(converted, nlp):
    files = [converted / "train.spacy", converted / "dev.spacy"]
    config = {"@readers": "spacy_biomed.Corpus.v1", "path": [str(file) for file in files]}
    reader = spacy.registry.resolve({"corpus": config})["corpus"]
    assert texts(reader, nlp) == [text for file in files for text in texts(Corpus(file), nlp)]


def test_of_several_paths_each_has_to_be_a_corpus(converted, tmp_path):
    with pytest.raises(BiomedError, match="missing.spacy: no such file"):
        Corpus_v1([converted / "train.spacy", tmp_path / "missing.spacy"])


def test_documents_are_cut_into_parts_of_so_many_words(converted, nlp):
    whole = list(Corpus_v1(converted / "train.spacy")(nlp))
    parts = list(Corpus_v1(converted / "train.spacy", max_words=3)(nlp))
    assert max(len(part.reference) for part in parts) <= 3
    assert max(len(one.reference) for one in whole) > 3
    assert sum(len(part.reference) for part in parts) == sum(len(one.reference) for one in whole)
    assert sum(len(part.reference.ents) for part in parts) == sum(
        len(one.reference.ents) for one in whole
    )
    with pytest.raises(BiomedError, match="max_words = -1"):
        Corpus_v1(converted / "train.spacy", max_words=-1)


def test_gold_entities_are_those_of_span_groups_too(tmp_path, nlp):
    doc = nlp.make_doc("La aspirina alivia.")
    doc.spans["drugs"] = [Span(doc, 1, 2, "DRUG")]
    doc.spans["answer"] = [doc[2:3]]
    DocBin(docs=[doc]).to_disk(tmp_path / "dev.spacy")
    [example] = Corpus_v1(tmp_path / "dev.spacy", gold_entities=True)(nlp)
    assert {key: list(map(str, group)) for key, group in example.predicted.spans.items()} == {
        "drugs": ["aspirina"]
    }


def test_a_pipeline_is_evaluated_on_no_documents(nlp):
    reader = spacy.registry.resolve({"dev": {"@readers": "spacy_biomed.NoCorpus.v1"}})["dev"]
    pipeline = spacy.blank("en")
    pipeline.add_pipe("sentencizer")
    evaluate = create_evaluation_callback(pipeline, reader, {"sents_f": 1.0})
    assert evaluate()[0] == 0.0


def test_no_path_is_bad_input():
    with pytest.raises(BiomedError, match=r"no path: fill in \[paths\]"):
        Corpus_v1(None)


@pytest.mark.parametrize("content", [b"", b"rubbish", None])
def test_a_damaged_file_is_bad_input(converted, tmp_path, content):
    path = tmp_path / "train.spacy"
    whole = (converted / "train.spacy").read_bytes()
    path.write_bytes(whole[: len(whole) // 2] if content is None else content)
    with pytest.raises(BiomedError, match="train.spacy: not a readable .spacy file"):
        Corpus_v1(path)


def test_a_missing_file_is_bad_input(tmp_path):
    with pytest.raises(BiomedError, match="train.spacy: no such file"):
        Corpus_v1(tmp_path / "train.spacy")


@pytest.mark.filterwarnings("ignore:.*W090")
def test_a_file_or_folder_without_documents_is_bad_input(tmp_path):
    with pytest.raises(BiomedError, match="no documents there"):
        Corpus_v1(tmp_path)
    DocBin().to_disk(tmp_path / "train.spacy")
    with pytest.raises(BiomedError, match="no documents there"):
        Corpus_v1(tmp_path / "train.spacy")


def test_documents_are_read_in_order(converted):
    read = [doc.text for doc in read_docs(converted / "dev.spacy", Vocab())]
    assert read[:2] == ["Lung cancer .", "Aspirin reduced the risk of stroke ."]


@pytest.mark.parametrize("coders", [msgpack_encoders, msgpack_decoders], ids=["write", "read"])
def test_coders_of_installed_packages_are_searched_once(monkeypatch, coders):
    searches = []

    def search():
        searches.append(1)
        return {"of_a_package": len}

    monkeypatch.setattr(catalogue, "REGISTRY", dict(catalogue.REGISTRY))
    monkeypatch.setattr(coders, "get_entry_points", search)
    for each in (msgpack_encoders, msgpack_decoders):
        monkeypatch.setattr(each, "get_all", partial(catalogue.Registry.get_all, each))
    before = coders.get_all()
    assert before["of_a_package"] is len
    assert "numpy" in before
    find_coders_once.__wrapped__()
    searches.clear()
    assert [coders.get_all() for _ in range(3)] == [before] * 3
    assert searches == [1]


def test_documents_carry_everything_that_was_stored(nlp, tmp_path):
    annotated = nlp("Aspirin ayuda")
    annotated.user_data["distribution"] = np.arange(6, dtype="float32").reshape(2, 3)
    annotated.user_data["_", "age", 0, 7] = 41
    annotated.spans["drugs"] = [Span(annotated, 0, 1, "DRUG")]
    annotated.cats = {"dose": 0.5}
    DocBin(store_user_data=True, docs=[annotated]).to_disk(tmp_path / "docs.spacy")
    [read] = read_docs(tmp_path / "docs.spacy", Vocab())
    np.testing.assert_array_equal(
        read.user_data["distribution"], annotated.user_data["distribution"], strict=True
    )
    assert read.user_data["_", "age", 0, 7] == 41
    assert [(span.text, span.label_) for span in read.spans["drugs"]] == [("Aspirin", "DRUG")]
    assert read.cats == annotated.cats
