"""Several tasks on one encoder: what each step learns, and how they are scored."""

import io
import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import spacy
from head_corpora import make_docs, write_corpora
from multitask_corpora import write_small_template
from spacy.tokens import DocBin
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import create_train_batches
from spacy.training.loop import train as spacy_train
from stopped_training import run

from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.errors import BiomedError
from spacy_biomed.studies.study import score_tasks
from spacy_biomed.training.corpus import Corpus_v1
from spacy_biomed.training.multitask import TASK_KEY, MultiTaskCorpus_v1
from spacy_biomed.training.multitask_config import create_multitask_config
from spacy_biomed.training.optimizer import AdamW, AdamW_v1
from spacy_biomed.training.resumable import train

ENCODER = "biomed_transformer"
HEADS = ["drugs", "diseases", "topics"]


def read_batches(nlp, max_epochs=0):
    """The batches that training makes, without learning from them, with the epoch of each."""
    config = nlp.config.interpolate()
    settings = {"batcher": config["training"]["batcher"], "corpus": config["corpora"]["train"]}
    resolved = spacy.registry.resolve(settings)
    return create_train_batches(nlp, resolved["corpus"], resolved["batcher"], max_epochs)


def task_of(batch):
    [task] = {example.reference.user_data[TASK_KEY] for example in batch}
    return task


# Schedules in spaCy's loop


def test_an_epoch_of_round_robin_is_the_largest_corpus(make_tasks_config, corpora):
    nlp = init_nlp(make_tasks_config())
    largest = Corpus_v1(corpora / "diseases" / "train.spacy")(nlp)
    expected = sorted(example.text for example in largest)
    for _ in range(2):
        batches = [batch for _, batch in read_batches(nlp, max_epochs=1)]
        order = [task_of(batch) for batch in batches]
        assert order == ["diseases", "drugs", "topics"] * (len(order) // 3)
        assert sorted(example.text for batch in batches[::3] for example in batch) == expected
    # The shuffled corpus may make a batch more, or fewer, than that in the file's order.
    assert abs(len(batches) - nlp.config["vars"]["max_steps"]) <= 6


def test_an_epoch_of_proportional_is_every_corpus_once(make_tasks_config, corpora):
    nlp = init_nlp(make_tasks_config(schedule="proportional"))
    corpus = MultiTaskCorpus_v1({name: corpora / name / "train.spacy" for name in HEADS})
    expected = Counter(example.reference.user_data[TASK_KEY] for example in corpus(nlp))
    found = Counter()
    for _, batch in read_batches(nlp, max_epochs=1):
        found[task_of(batch)] += len(batch)
    assert found == expected


def test_a_streamed_corpus_has_the_same_epochs(make_tasks_config):
    nlp = init_nlp(make_tasks_config())
    streamed = Counter()
    for epoch, batch in read_batches(nlp, max_epochs=-1):
        if epoch == 2:
            break
        streamed[epoch, task_of(batch)] += 1
    assert len({*streamed.values()}) == 1 and len(streamed) == 6


# Learning


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("names", "task"),
    [(HEADS, task) for task in HEADS] + [(HEADS[:2], task) for task in HEADS[:2]],
)
def test_a_batch_of_one_task_leaves_the_other_heads_bit_identical(
    make_tasks_config, weights, names, task
):
    nlp = init_nlp(make_tasks_config(names))
    optimizer = AdamW_v1(0.01, use_averages=True)
    batches = read_batches(nlp)
    for _ in names:  # so that every head has momentum
        nlp.update(next(batches)[1], sgd=optimizer)
    before = {name: weights(nlp, name) for name in nlp.pipe_names}
    losses = {}
    batch = next(batch for _, batch in batches if task_of(batch) == task)
    nlp.update(batch, sgd=optimizer, losses=losses)
    for name in names:
        changed = not np.array_equal(weights(nlp, name), before[name])
        assert changed == (name == task)
        assert (losses[name] > 0) == (name == task)
    assert not np.array_equal(weights(nlp, ENCODER), before[ENCODER])


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("task", HEADS)
def test_other_heads_send_the_encoder_no_gradient(make_tasks_config, weights, task):
    """It learns from a batch what it learns where the batch's head is the only one."""
    nlp = init_nlp(make_tasks_config())
    batch = next(batch for _, batch in read_batches(nlp) if task_of(batch) == task)
    before = weights(nlp, ENCODER)
    content, after = nlp.to_bytes(), []
    for removed in ([], [name for name in HEADS if name != task]):
        nlp.from_bytes(content)
        for name in removed:
            nlp.remove_pipe(name)
        spacy.util.fix_random_seed(0)
        nlp.update(batch, sgd=AdamW_v1(0.01), drop=0.0)
        after.append(weights(nlp, ENCODER))
    assert np.array_equal(*after)
    assert not np.array_equal(after[0], before)


def test_there_is_one_optimizer_step_for_each_batch(make_tasks_config, monkeypatch):
    """The encoder and the schedule step at each batch, a head at each batch of its own."""
    config = make_tasks_config(max_steps=12, eval_frequency=20)
    nlp = init_nlp(config)
    seen, rates, optimizers = [], [], []
    update, step = nlp.update, AdamW.step_module

    def count_batches(examples, **settings):
        seen.append(task_of(examples))
        return update(examples, **settings)

    def count_steps(optimizer, key, module):
        optimizers.append(optimizer)
        rates.append(float(optimizer.learn_rate))
        step(optimizer, key, module)

    nlp.update = count_batches
    monkeypatch.setattr(AdamW, "step_module", count_steps)
    spacy_train(nlp, stdout=io.StringIO())
    # The loop makes one more than max_steps, as it counts from 0.
    assert len(seen) == len(rates) == 13
    [state] = optimizers[0].torch_state().values()
    assert {int(value) for name, value in state.items() if name.endswith("step")} == {13}
    batches = Counter(seen)
    for name in HEADS:
        ids = {node.id for node in nlp.get_pipe(name).model.walk()}
        steps = {n for (key, _), n in optimizers[0].nr_update.items() if key in ids}
        assert steps == {batches[name]}
    settings = {"rates": config.interpolate()["training"]["optimizer"]["learn_rate"]}
    schedule = spacy.registry.resolve(settings)["rates"]
    assert rates == pytest.approx([next(schedule) for _ in rates])


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


BY_WORD_PIECES = {
    "@batchers": "spacy_biomed.batch_by_word_pieces.v1",
    "encoder": "${vars.encoder}",
    "size": 60,
    "buckets": 2,
}


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("schedule", "inner"), [("round_robin", None), ("proportional", BY_WORD_PIECES)]
)
def test_a_run_that_was_stopped_ends_as_one_that_was_not(
    make_tasks_config, tmp_path, schedule, inner
):
    config = make_tasks_config(schedule=schedule, batch_words=60, max_steps=22, eval_frequency=8)
    if inner is not None:
        config["training"]["batcher"]["batcher"] = inner
    run(config, tmp_path / "whole")
    run(config, tmp_path / "stopped", stop_after=19)  # in the second epoch, or the third
    assert "Continuing after step 16" in run(config, tmp_path / "stopped")
    assert files(tmp_path / "whole") == files(tmp_path / "stopped")


# Scores


@pytest.mark.slow
def test_a_components_scores_are_those_on_its_corpus_alone(trained_tasks, corpora):
    nlp = spacy.load(trained_tasks)
    paths = {name: corpora / name / "train.spacy" for name in HEADS}
    together = nlp.evaluate(list(MultiTaskCorpus_v1(paths)(nlp)))
    compared = Counter()
    for name in HEADS:
        alone = nlp.evaluate(list(MultiTaskCorpus_v1({name: paths[name]})(nlp)))
        own = {key for key in alone if key.startswith((f"spans_{name}_", f"cats_{name}_"))}
        for key in own - {"cats_topics_score_desc"}:
            assert together[key] == alone[key]
            compared[name] += together[key] is not None
        others = {
            value
            for key, value in alone.items()
            if key.startswith(("spans_", "cats_")) and key not in own and "desc" not in key
        }
        assert others == {None}
    assert min(compared.values()) >= 4


def test_scores_are_those_of_the_converted_corpus_itself(trained_tasks, corpora):
    """The classes also lie in doc.cats there; the entities are counted by hand."""
    nlp = spacy.load(trained_tasks)
    scores = nlp.evaluate(
        list(MultiTaskCorpus_v1({n: corpora / n / "test.spacy" for n in HEADS})(nlp))
    )
    plain = nlp.evaluate(list(Corpus_v1(corpora / "topics" / "test.spacy")(nlp)))
    assert scores["cats_topics_score"] == plain["cats_topics_score"]
    gold, found = set(), set()
    for number, example in enumerate(Corpus_v1(corpora / "diseases" / "test.spacy")(nlp)):
        gold |= {(number, e.start_char, e.end_char, e.label_) for e in example.reference.ents}
        doc = nlp(example.reference.text)
        found |= {(number, s.start_char, s.end_char, s.label_) for s in doc.spans["diseases"]}
    expected = 2 * len(gold & found) / (len(gold) + len(found))
    assert scores["spans_diseases_f"] == pytest.approx(expected)


def test_it_learns_all_tasks(trained_tasks, corpora):
    nlp = spacy.load(trained_tasks)
    paths = {name: corpora / name / "train.spacy" for name in HEADS}
    scores = nlp.evaluate(list(MultiTaskCorpus_v1(paths)(nlp)))
    assert scores["spans_drugs_f"] > 0.9
    assert scores["spans_diseases_f"] > 0.9
    assert scores["cats_topics_score"] > 0.9
    performance = nlp.meta["performance"]
    assert {"spans_drugs_f", "spans_diseases_f", "cats_topics_score"} <= performance.keys()


def write_relations(folder, label, marks=True):
    """A corpus of relations with this label, in a folder with this name."""
    [written] = write_corpora(folder / "made", ["relations" if marks else "document_relations"])
    path = shutil.move(written, folder / label)
    for part in ("train", "dev", "test"):
        docs = make_docs("relations" if marks else "document_relations")
        for doc in docs:
            doc._.relations = [one._replace(label=label) for one in doc._.relations]
        DocBin(docs=docs, store_user_data=True).to_disk(path / f"{part}.spacy")
    description = json.loads((path / "corpus.json").read_text())
    (path / "corpus.json").write_text(json.dumps({**description, "task": "relations"}))
    return path


def test_two_corpora_of_relations_train_a_head_each(tiny_bert, tmp_path, weights):
    folders = [write_relations(tmp_path, label) for label in ("LIKES", "HATES")]
    template = write_small_template(tmp_path / "multitask.cfg")
    config, _ = create_multitask_config(folders, encoder=str(tiny_bert), template=template)
    nlp = init_nlp(config)
    assert [nlp.get_pipe(name).labels for name in ("LIKES", "HATES")] == [("LIKES",), ("HATES",)]
    before = {name: weights(nlp, name) for name in ("LIKES", "HATES")}
    batch = next(batch for _, batch in read_batches(nlp) if task_of(batch) == "LIKES")
    losses = nlp.update(batch, sgd=AdamW_v1(0.01), losses={})
    assert losses["LIKES"] > 0.0 and losses["HATES"] == 0.0
    changed = [not np.array_equal(weights(nlp, name), before[name]) for name in before]
    assert changed == [True, False]
    scores = nlp.evaluate([Example(example.reference, example.reference) for example in batch])
    assert scores["relations_HATES_micro_f"] is None


def test_heads_that_would_replace_what_the_other_finds_are_refused(tiny_bert, tmp_path):
    template = write_small_template(tmp_path / "multitask.cfg")
    folders = [write_relations(tmp_path, "LIKES"), write_relations(tmp_path, "OTHER")]
    for part in ("train", "dev"):
        shutil.copy(folders[0] / f"{part}.spacy", folders[1])
    config, _ = create_multitask_config(folders, encoder=str(tiny_bert), template=template)
    with pytest.raises(BiomedError, match=r"'LIKES' and 'OTHER' .*of which both have 'LIKES'"):
        init_nlp(config)
    [one] = write_corpora(tmp_path / "questions", ["qa"])
    folders = [one, Path(shutil.copytree(one, tmp_path / "more"))]
    config, _ = create_multitask_config(folders, encoder=str(tiny_bert), template=template)
    with pytest.raises(BiomedError, match="'qa' and 'more' write to the same layer"):
        init_nlp(config)


def test_relations_of_documents_are_scored_with_the_entities_of_their_corpus(tiny_bert, tmp_path):
    folder = write_relations(tmp_path, "HELPS", marks=False)
    template = write_small_template(tmp_path / "multitask.cfg")
    config, _ = create_multitask_config([folder], encoder=str(tiny_bert), template=template)
    config["vars"].update(max_steps=40, eval_frequency=40)
    config["training"]["optimizer"]["use_averages"] = False
    train(init_nlp(config), tmp_path / "trained", stdout=io.StringIO())
    scores = score_tasks(spacy.load(tmp_path / "trained" / "model-best"))
    assert scores["relations_HELPS_micro_f"] > 0.8


def test_relations_are_between_the_entities_that_another_head_finds(tiny_bert, tmp_path):
    folders = write_corpora(tmp_path, ["ner", "relations"])
    docs = make_docs("ner")
    for number, doc in enumerate(docs):
        doc._.relations = [SpanRelation(*doc.ents, "PREVENTS")] if number % 2 == 0 else []
    for part in ("train", "dev", "test"):
        DocBin(docs=docs, store_user_data=True).to_disk(tmp_path / "relations" / f"{part}.spacy")
    config, _ = create_multitask_config(
        folders,
        encoder=str(tiny_bert),
        template=write_small_template(tmp_path / "multitask.cfg"),
        epochs=1,
        batch_words=100,
    )
    config["components"]["relations"]["spans_key"] = "ner"
    config["vars"].update(max_steps=50, eval_frequency=50)
    config["training"]["optimizer"]["use_averages"] = False
    train(init_nlp(config), tmp_path / "trained", stdout=io.StringIO())
    scores = score_tasks(spacy.load(tmp_path / "trained" / "model-best"))
    assert set(scores) == {"spans_ner_f", "relations_relations_micro_f"}
    assert min(scores.values()) > 0.8
