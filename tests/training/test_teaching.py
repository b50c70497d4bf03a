import json
import shutil

import numpy as np
import pytest
import spacy
from spacy.training import Example

from spacy_biomed.annotations.soft_labels import get_soft_labels, merge_tags
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.training.optimizer import AdamW_v1
from spacy_biomed.training.teaching import create_taught_corpus

NER, TEXTCAT = "biomed_ner", "biomed_textcat"
CLASSIFIED = [
    ("Lung cancer was found.", {"D": True, "C": False}),
    ("Aspirin reduced the risk.", {"D": False, "C": True}),
    ("Patients with stroke and diabetes.", {"D": True, "C": False}),
    ("Metformin was given to patients.", {"D": False, "C": True}),
]
TEXTS = ["Lung cancer. Aspirin reduced it.", "", "Patients with stroke were given metformin."]
SENTENCES = ["Lung cancer.", "Aspirin reduced it.", "Patients with stroke were given metformin."]


@pytest.fixture
def teacher(tiny_bert, converted):
    """A pipeline that has learned the small corpus."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("es")
    model = {"name": str(tiny_bert), "precision": "fp32"}
    nlp.add_pipe("biomed_transformer", config={"model": model})
    nlp.add_pipe(NER, config={"scheme": "bio"})
    docs = list(read_docs(converted / "train.spacy", nlp.vocab))
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(20):
        nlp.update(examples, sgd=optimizer)
    return nlp


def test_the_training_part_is_the_corpus_and_the_texts_with_the_teachers_probabilities(
    teacher, converted, tmp_path
):
    report = create_taught_corpus([teacher], converted, TEXTS, tmp_path / "taught")
    gold = list(read_docs(converted / "train.spacy", teacher.vocab))
    taught = list(read_docs(tmp_path / "taught" / "train.spacy", teacher.vocab))
    assert (report.annotated, report.unlabelled) == (len(gold), len(SENTENCES))
    assert report.words == sum(len(teacher.make_doc(text)) for text in TEXTS)
    assert [doc.text for doc in taught] == [*(doc.text for doc in gold), *SENTENCES]
    assert not any(doc.has_annotation("ENT_IOB") for doc in taught[len(gold) :])
    for before, after in zip(gold, taught, strict=False):
        assert [(e.text, e.label_) for e in after.ents] == [(e.text, e.label_) for e in before.ents]
    tags = teacher.get_pipe(NER).classes()
    assert tags == ["O", "B-C", "I-C", "B-D", "I-D"]
    for doc in taught:
        probabilities = get_soft_labels(doc, NER, tags)
        found = teacher(doc.text)
        assert probabilities.shape == (len(doc), len(tags))
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=2e-3)
        for span in found.ents:
            rows = np.arange(span.start, span.end)
            first = tags.index(f"B-{span.label_}")
            chosen = probabilities[rows, first + (rows > span.start)]
            assert np.prod(chosen) == pytest.approx(span._.confidence, rel=1e-2)


def test_the_other_parts_and_the_description_are_the_corpus_own(teacher, converted, tmp_path):
    create_taught_corpus([teacher], converted, TEXTS, tmp_path / "taught")
    for part in ("dev", "test"):
        copied = (tmp_path / "taught" / f"{part}.spacy").read_bytes()
        assert copied == (converted / f"{part}.spacy").read_bytes()
    described = json.loads((tmp_path / "taught" / "corpus.json").read_text())
    original = json.loads((converted / "corpus.json").read_text())
    taught = described.pop("taught")
    assert described == original
    assert taught["components"] == [NER] and taught["unlabelled_documents"] == len(SENTENCES)
    [described] = taught["teachers"]
    assert described["name"] == "pipeline"
    assert [one["name"] for one in described["sources"]] == ["encoder: tiny-bert"]


def test_a_teacher_is_described_by_its_corpus_and_encoder(teacher, converted, tmp_path):
    teacher.config["paths"]["train"] = str(converted / "train.spacy")
    (tmp_path / "large").mkdir()
    teacher.to_disk(tmp_path / "large" / "model-best")
    loaded = spacy.load(tmp_path / "large" / "model-best")
    create_taught_corpus([loaded], converted, TEXTS, tmp_path / "taught")
    described = json.loads((tmp_path / "taught" / "corpus.json").read_text())
    [found] = described["taught"]["teachers"]
    names = [one["name"] for one in found["sources"]]
    assert found["name"] == "large" and names == [described["name"], "encoder: tiny-bert"]


def test_texts_stay_whole_for_a_corpus_of_documents(teacher, converted, tmp_path):
    settings = {"format": "columns", "language": "es", "n_sents": 2}
    convert_corpus("own", converted.parent / "source", tmp_path / "own", **settings)
    output = tmp_path / "taught"
    report = create_taught_corpus([teacher], tmp_path / "own", TEXTS, output)
    docs = list(read_docs(output / "train.spacy", teacher.vocab))[report.annotated :]
    assert [doc.text for doc in docs] == [TEXTS[0], TEXTS[2]]  # an empty one has no tokens


def test_a_corpus_without_a_training_part_is_refused(teacher, converted, tmp_path):
    source = converted.parent / "source"
    paths = {"test": [source / "test.tsv"]}
    settings = {"format": "columns", "language": "es", "paths": paths}
    convert_corpus("own", source, tmp_path / "own", **settings)
    with pytest.raises(BiomedError, match="train.spacy"):
        create_taught_corpus([teacher], tmp_path / "own", TEXTS, tmp_path / "taught")
    assert not (tmp_path / "taught").exists()


def test_annotated_documents_are_repeated_and_texts_are_not(teacher, converted, tmp_path):
    gold = [doc.text for doc in read_docs(converted / "train.spacy", teacher.vocab)]
    report = create_taught_corpus([teacher], converted, TEXTS, tmp_path / "taught", repeat=3)
    taught = list(read_docs(tmp_path / "taught" / "train.spacy", teacher.vocab))
    assert [doc.text for doc in taught] == [t for text in gold for t in 3 * [text]] + SENTENCES
    assert (report.annotated, report.unlabelled) == (len(gold), len(SENTENCES))
    first, second = (
        get_soft_labels(doc, NER, teacher.get_pipe(NER).classes()) for doc in taught[:2]
    )
    assert np.array_equal(first, second)


@pytest.mark.slow
def test_a_student_learns_unlabelled_words_from_its_teacher(
    teacher, converted, tmp_path, tiny_bert
):
    report = create_taught_corpus([teacher], converted, [], tmp_path / "taught")
    student = spacy.blank("es")
    model = {"name": str(tiny_bert), "precision": "fp32"}
    student.add_pipe("biomed_transformer", config={"model": model})
    student.add_pipe(NER, config={"scheme": "bio", "teacher_share": 1.0})
    docs = list(read_docs(tmp_path / "taught" / "train.spacy", student.vocab))
    assert len(docs) == report.annotated
    examples = [Example(student.make_doc(doc.text), doc) for doc in docs]
    student.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(40):
        student.update(examples, sgd=optimizer)
    assert student.get_pipe(NER).labels == teacher.get_pipe(NER).labels
    for doc in docs[:4]:
        own, taught = student(doc.text), teacher(doc.text)
        assert [(e.text, e.label_) for e in own.ents] == [(e.text, e.label_) for e in taught.ents]


def test_a_pipeline_with_nothing_to_teach_is_refused(converted, tmp_path):
    nlp = spacy.blank("es")
    nlp.add_pipe("sentencizer")
    with pytest.raises(BiomedError, match=r"components \(sentencizer\) give no probabilities"):
        create_taught_corpus([nlp], converted, TEXTS, tmp_path / "taught")
    assert not (tmp_path / "taught").exists()


def test_a_teacher_of_another_language_is_refused(teacher, converted, tmp_path):
    description = json.loads((converted / "corpus.json").read_text())
    shutil.copytree(converted, tmp_path / "english")
    (tmp_path / "english" / "corpus.json").write_text(json.dumps({**description, "language": "en"}))
    with pytest.raises(BiomedError, match="its language is en, and that of a teacher is es"):
        create_taught_corpus([teacher], tmp_path / "english", TEXTS, tmp_path / "taught")


def make_teacher(encoder, scheme="bio", **heads):
    """A pipeline that has learned nothing.

    heads: name of each to its labels.
    """
    nlp = spacy.blank("es")
    model = {"name": str(encoder), "precision": "fp32"}
    nlp.add_pipe("biomed_transformer", config={"model": model})
    for name, labels in heads.items():
        head = nlp.add_pipe(NER, name, config={"scheme": scheme})
        for label in labels:
            head.add_label(label)
    nlp.initialize(lambda: [Example(*[nlp.make_doc("a")] * 2)])
    for name, labels in heads.items():
        output = nlp.get_pipe(name).model.get_ref("output")
        weights = np.random.default_rng(len(labels)).normal(size=output.get_param("W").shape)
        output.set_param("W", weights.astype("float32"))
    return nlp


def check_merged(corpus, teachers):
    """The probabilities are what `merge_tags` makes of those of the heads.

    teachers: (pipeline, its head).
    """
    for doc in read_docs(corpus / "train.spacy", spacy.blank("es").vocab):
        opinions = []
        for nlp, name in teachers:
            text = nlp.make_doc(doc.text)
            (rows,) = nlp.get_pipe(name).probabilities([nlp.get_pipe("biomed_transformer")(text)])
            opinions.append((nlp.get_pipe(name).classes(), rows))
        classes, expected = merge_tags(opinions)
        np.testing.assert_allclose(get_soft_labels(doc, NER, classes), expected, atol=1e-3)


def test_pipelines_of_different_labels_teach_one_student_all_of_them(
    converted, tmp_path, tiny_bert
):
    teachers = [make_teacher(tiny_bert, biomed_ner=labels) for labels in ("AB", "CBD")]
    report = create_taught_corpus(teachers, converted, TEXTS[:1], tmp_path / "taught")
    assert report.components == [NER]
    check_merged(tmp_path / "taught", [(nlp, NER) for nlp in teachers])


def test_heads_of_one_pipeline_teach_one_student(converted, tmp_path, tiny_bert):
    nlp = make_teacher(tiny_bert, first="AB", second="CBD")
    output = tmp_path / "taught"
    report = create_taught_corpus([nlp], converted, [], output, merge_into=NER)
    assert report.components == [NER]
    check_merged(output, [(nlp, "first"), (nlp, "second")])


def test_teachers_that_cannot_be_merged_are_refused(converted, tmp_path, tiny_bert):
    teachers = [make_teacher(tiny_bert, scheme, biomed_ner="A") for scheme in ("bio", "biluo")]
    with pytest.raises(BiomedError, match="several components teach 'biomed_ner'"):
        create_taught_corpus(teachers, converted, [], tmp_path / "taught")
    assert not (tmp_path / "taught").exists()


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    """A converted corpus of texts of two classes."""
    folder = tmp_path_factory.mktemp("classified")
    source = folder / "source"
    source.mkdir()
    lines = [json.dumps({"text": text, "cats": cats}) + "\n" for text, cats in CLASSIFIED]
    for part in ("train", "dev", "test"):
        (source / f"{part}.jsonl").write_text("".join(lines))
    convert_corpus("own", source, folder / "own", format="jsonl", language="en")
    return folder / "own"


def train_textcat(encoder, docs, *, steps=40, **config):
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    model = {"name": str(encoder), "precision": "fp32"}
    nlp.add_pipe("biomed_transformer", config={"model": model})
    nlp.add_pipe(TEXTCAT, config=config)
    examples = [Example(nlp.make_doc(doc.text), doc) for doc in docs]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(steps):
        nlp.update(examples, sgd=optimizer)
    return nlp


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_student_learns_classes_of_unlabelled_texts_from_its_teacher(
    classified, tmp_path, tiny_bert, exclusive
):
    gold = list(read_docs(classified / "train.spacy", spacy.blank("en").vocab))
    teacher = train_textcat(tiny_bert, gold, exclusive=exclusive)
    report = create_taught_corpus([teacher], classified, TEXTS, tmp_path / "taught")
    assert report.components == [TEXTCAT]
    docs = list(read_docs(tmp_path / "taught" / "train.spacy", teacher.vocab))
    assert [doc.cats for doc in docs[:4]] == [doc.cats for doc in gold]
    assert [doc.text for doc in docs[4:] if not doc.cats] == SENTENCES
    for doc in docs:
        found = teacher(doc.text).cats
        [probabilities] = get_soft_labels(doc, TEXTCAT, list(found))
        assert list(found.values()) == pytest.approx(probabilities.tolist(), abs=1e-3)

    unlabelled = docs[4:]
    student = train_textcat(tiny_bert, unlabelled, exclusive=exclusive)
    assert student.get_pipe(TEXTCAT).labels == teacher.get_pipe(TEXTCAT).labels
    for doc in unlabelled:
        assert student(doc.text).cats == pytest.approx(teacher(doc.text).cats, abs=0.05)


def test_entities_and_classes_are_taught_in_one_corpus(teacher, converted, tmp_path):
    teacher.add_pipe(TEXTCAT)
    for label in ("A", "B"):
        teacher.get_pipe(TEXTCAT).add_label(label)
    teacher.get_pipe(TEXTCAT).initialize(lambda: [Example(*[teacher.make_doc("a")] * 2)])
    report = create_taught_corpus([teacher], converted, TEXTS, tmp_path / "taught")
    assert report.components == [NER, TEXTCAT]
    for doc in read_docs(tmp_path / "taught" / "train.spacy", teacher.vocab):
        assert get_soft_labels(doc, NER, teacher.get_pipe(NER).classes()).shape == (len(doc), 5)
        assert get_soft_labels(doc, TEXTCAT, ["A", "B"]).shape == (1, 2)
