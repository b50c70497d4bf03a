"""All kinds of heads on one encoder: each learns its own task from its own corpus."""

import io
import json
from collections import Counter

import numpy as np
import pytest
import spacy
from multitask_corpora import write_small_template
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp

import spacy_biomed
from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.studies.task_scores import score_tasks
from spacy_biomed.training.multitask import TASK_KEY, MultiTaskCorpus_v1
from spacy_biomed.training.multitask_config import create_multitask_config
from spacy_biomed.training.optimizer import AdamW_v1
from spacy_biomed.training.resumable import train

NLP = spacy.blank("en")
ENCODER = "biomed_transformer"
TASKS = ["ner", "pair_classification", "qa", "relations", "similarity", "textcat_multilabel"]

def make_docs(task):
    """A few documents with the layer of a task."""
    if task in ("ner", "relations", "textcat_multilabel"):
        texts = ["Aspirin reduced the risk of stroke.", "Metformin for patients with diabetes."]
        docs = [NLP.make_doc(text) for text in texts * 4]
    else:
        pairs = [("Is aspirin safe?", "Aspirin is safe."), ("Is it cancer?", "It was diabetes.")]
        docs = [spacy_biomed.pair(NLP, *pair) for pair in pairs * 4]
    for number, doc in enumerate(docs):
        annotate(doc, task, number % 2 == 0)
    return docs


def annotate(doc, task, is_first):
    if task in ("ner", "relations"):
        ents = [doc.char_span(0, doc[0].idx + len(doc[0]), label="DRUG"), doc[-2:-1]]
        ents[1].label_ = "DISEASE"
        doc.set_ents(ents, default="outside")
    if task == "relations":
        head, tail = doc.ents
        doc._.relations = [SpanRelation(head, tail, "PREVENTS")] if is_first else []
    elif task == "qa":
        answer = doc.spans["pair"][1][:1]
        doc.spans["answer"] = [answer]
    elif task == "similarity":
        doc.cats = {"similarity": 5.0 if is_first else 1.0}
    elif task in ("pair_classification", "textcat_multilabel"):
        names = ("yes", "no") if task == "pair_classification" else ("RISK", "CARE")
        doc.cats = {names[0]: float(is_first), names[1]: float(not is_first)}


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """A corpus of each task, called like it."""
    folder = tmp_path_factory.mktemp("corpora")
    for task in TASKS:
        (folder / task).mkdir()
        for part in ("train", "dev", "test"):
            path = folder / task / f"{part}.spacy"
            DocBin(docs=make_docs(task), store_user_data=True).to_disk(path)
        description = {"name": f"my {task}", "language": "en", "task": task, "parts": {}}
        (folder / task / "corpus.json").write_text(json.dumps(description))
    return folder


@pytest.fixture(scope="module")
def config(corpora, tiny_bert, tmp_path_factory):
    template = write_small_template(tmp_path_factory.mktemp("template") / "multitask.cfg")
    folders = [corpora / task for task in TASKS]
    config, _ = create_multitask_config(
        template, folders, encoder=str(tiny_bert), epochs=1, batch_words=100
    )
    # The entities that relations are between are found by the head of the other corpus.
    config["components"]["relations"]["spans_key"] = "ner"
    return config


@pytest.mark.parametrize("task", [task for task in TASKS if task != "relations"])
def test_a_batch_of_one_task_leaves_all_other_heads_bit_identical(config, corpora, weights, task):
    nlp = init_nlp(config)
    batches = {}
    paths = {name: corpora / name / "train.spacy" for name in TASKS}
    for example in MultiTaskCorpus_v1(paths)(nlp):
        batches.setdefault(example.reference.user_data[TASK_KEY], []).append(example)
    optimizer = AdamW_v1(0.01)
    for batch in batches.values():
        nlp.update(batch, sgd=optimizer)
    before = {name: weights(nlp, name) for name in nlp.pipe_names}
    losses = nlp.update(batches[task], sgd=optimizer)
    changed = [
        name for name in nlp.pipe_names if not np.array_equal(weights(nlp, name), before[name])
    ]
    assert changed == [ENCODER, task]
    assert [name for name in TASKS if losses[name] != 0] == [task]


@pytest.mark.parametrize("task", [task for task in TASKS if task != "relations"])
def test_heads_of_other_tasks_compute_nothing(config, corpora, task, monkeypatch):
    nlp = init_nlp(config)
    paths = {name: corpora / name / "train.spacy" for name in TASKS}
    batch = [
        example
        for example in MultiTaskCorpus_v1(paths)(nlp)
        if example.reference.user_data[TASK_KEY] == task
    ]
    ran = []
    for name in TASKS:
        model = nlp.get_pipe(name).model
        run = model._func
        monkeypatch.setattr(
            model, "_func", lambda *a, n=name, f=run, **k: ran.append(n) or f(*a, **k)
        )
    nlp.update(batch, sgd=AdamW_v1(0.01))
    assert ran == [task]


def test_all_of_them_train_and_are_scored(config, tmp_path):
    config = config.copy()
    config["vars"].update(max_steps=120, eval_frequency=60)
    config["training"]["optimizer"]["use_averages"] = False
    train(init_nlp(config), tmp_path, stdout=io.StringIO())
    nlp = spacy.load(tmp_path / "model-best")
    scores = score_tasks(nlp)
    assert set(scores) == {
        "spans_ner_f",
        "cats_pair_classification_acc",
        "qa_qa_f1",
        "relations_relations_micro_f",
        "similarity_similarity_pearson",
        "cats_textcat_multilabel_score",
    }
    assert Counter(score > 0.8 for score in scores.values()) == {True: 6}, scores
    assert nlp.get_pipe(ENCODER).listening_components == TASKS
