"""The contract of all registered heads, tested together on a shared encoder.

A head is tested on all kinds of corpora it learns from. A new kind needs a few documents in
`head_corpora.py`.
"""

import numpy as np
import pytest
import spacy
from head_corpora import create_heads_config, make_docs, read_examples
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.util import fix_random_seed

from spacy_biomed.annotations.layer_copies import copy_bare, copy_entities
from spacy_biomed.evaluation.tasks import find_heads
from spacy_biomed.packaging.compression import compress_pipeline
from spacy_biomed.pipeline.component_classes import find_head, list_annotation_keys, list_heads
from spacy_biomed.training.optimizer import AdamW_v1

ENCODER = "biomed_transformer"
# Documents with relations are the layer of "relations" too; test_document_relations.py has theirs.
KINDS = sorted(
    kind for head in list_heads().values() for kind in head.learns if kind != "document_relations"
)
EPOCHS = 25

of_every_head = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def config(folder, tiny_bert):
    return create_heads_config(folder, KINDS, tiny_bert)


@pytest.fixture(scope="module")
def batches(folder):
    """By kind, a function that creates the examples of its corpus for a pipeline."""

    return lambda nlp: read_examples(nlp, folder, KINDS)


@pytest.fixture(scope="module")
def trained(config, batches):
    """A pipeline of all heads, named after their kinds of corpora; tests do not change it."""
    nlp = init_nlp(config)
    fix_random_seed(0)
    examples, optimizer = batches(nlp), AdamW_v1(0.005)
    for _ in range(EPOCHS):
        for kind in KINDS:
            nlp.update(examples[kind], sgd=optimizer)
    return nlp


@pytest.fixture(scope="module")
def saved(trained, folder):
    trained.to_disk(folder / "trained")
    return folder / "trained"


@pytest.fixture(scope="module")
def compressed(saved, folder):
    compress_pipeline(str(saved), folder / "onnx", precision="fp32")
    return spacy.load(folder / "onnx")


@pytest.fixture(scope="module")
def evaluate(batches):
    """Score a pipeline on all corpora."""

    def score(nlp):
        return nlp.evaluate([one for examples in batches(nlp).values() for one in examples])

    return score


@pytest.fixture(scope="module")
def scores(trained, evaluate):
    return evaluate(trained)


@pytest.fixture(scope="module")
def compressed_scores(compressed, evaluate):
    return evaluate(compressed)


@pytest.fixture(scope="module")
def copies(trained, saved):
    """The trained pipeline, by its origin."""
    from_bytes = spacy.blank(trained.lang).from_config(trained.config)
    return {"disk": spacy.load(saved), "bytes": from_bytes.from_bytes(trained.to_bytes())}


@pytest.fixture(scope="module")
def learner(saved):
    """A copy of the pipeline for tests that train it further."""
    return spacy.load(saved)


@pytest.fixture(scope="module")
def optimizer(learner):
    return learner.resume_training(sgd=AdamW_v1(0.01))


def predictions(nlp, kind):
    """The annotation that a single head writes to documents of its kind, exactly."""
    with nlp.select_pipes(enable=[ENCODER, kind]):
        docs = [nlp(make_input(nlp, kind, doc)) for doc in make_docs(kind)[:2]]
    return [doc.to_bytes(exclude=["strings"]) for doc in docs]


def make_input(nlp, kind, gold):
    """A document for a head: without annotation, but with entities if it reads these."""
    doc = nlp.make_doc(gold.text)
    if find_head(nlp.get_pipe_meta(kind).factory).reads_entities:
        copy_entities(gold, doc)
    return doc


def find_changed(nlp, before, weights):
    """The names of the components whose weights have changed."""
    return [name for name in before if not np.array_equal(weights(nlp, name), before[name])]


def main_score(nlp, kind):
    settings = nlp.config["components"][kind]
    return find_head(settings["factory"]).main_score(kind, settings)


@pytest.mark.parametrize("factory", list_heads())
def test_a_class_knows_its_factory_and_the_score_that_this_weights_most(factory):
    head = list_heads()[factory]
    assert head.default_name == factory
    assert head.task_name and head.learns
    meta = spacy.blank("en").get_factory_meta(factory)
    weights = {name: weight or 0.0 for name, weight in meta.default_score_weights.items()}
    assert head.main_score(factory, meta.default_config) == max(weights, key=weights.get)


@pytest.mark.slow(least=1)
@of_every_head
def test_it_learns_and_its_main_score_is_among_the_scores(trained, scores, kind):
    assert scores[main_score(trained, kind)] > 0.8
    assert kind in trained.get_pipe(ENCODER).listening_components


@of_every_head
def test_its_main_score_has_its_name_where_nothing_is_annotated(trained, kind):
    assert trained.get_pipe(kind).score([])[main_score(trained, kind)] is None


@of_every_head
def test_what_its_card_shows_is_scored_and_printed(trained, scores, kind, capsys):
    head = next(head for head in find_heads(trained.config) if head.name == kind)
    shown = head.shown
    names = [f"{begin}_{letter}" for begin in shown.averages.values() for letter in "prf"]
    names += [*shown.macro.values(), *shown.numbers.values()]
    names += [shown.per_type] if shown.per_type else []
    assert names
    assert [name for name in names if scores.get(name) is None] == []
    assert main_score(trained, kind) in names
    with trained.select_pipes(enable=[ENCODER, kind]):
        doc = trained(make_input(trained, kind, make_docs(kind)[0]))
    exec(head.usage, {"doc": doc})
    assert len(capsys.readouterr().out) > len("[]\n")


@pytest.mark.slow
@of_every_head
@pytest.mark.parametrize("source", ["disk", "bytes"])
def test_it_is_loaded_to_the_same_predictions(trained, copies, kind, source):
    expected = predictions(trained, kind)
    assert expected[0] != make_input(trained, kind, make_docs(kind)[0]).to_bytes(
        exclude=["strings"]
    )
    assert predictions(copies[source], kind) == expected


@pytest.mark.slow(least=1)
@of_every_head
def test_a_batch_of_its_corpus_changes_it_and_the_encoder_alone(
    learner, optimizer, batches, weights, kind
):
    examples = batches(learner)
    learner.update([one for batch in examples.values() for one in batch], sgd=optimizer)
    before = {name: weights(learner, name) for name in learner.pipe_names}
    losses = learner.update(examples[kind], sgd=optimizer)
    # The encoder waits for a gradient from each head, which here is of zeros for all but one.
    assert learner.get_pipe(ENCODER)._pending is None
    assert find_changed(learner, before, weights) == [ENCODER, kind]
    assert [name for name in KINDS if losses[name] != 0] == [kind]


@of_every_head
def test_documents_without_any_layer_change_nothing(learner, optimizer, weights, kind):
    keys = list_annotation_keys()
    bare = [copy_bare(doc, keys) for doc in make_docs(kind)]
    before = {name: weights(learner, name) for name in KINDS}
    learner.update([Example(learner.make_doc(doc.text), doc) for doc in bare], sgd=optimizer)
    assert find_changed(learner, before, weights) == []


@pytest.mark.slow(least=1)
@of_every_head
def test_it_can_be_frozen(learner, optimizer, batches, weights, kind):
    everything = [one for batch in batches(learner).values() for one in batch]
    before = {name: weights(learner, name) for name in learner.pipe_names}
    for _ in range(2):  # the encoder's backward pass runs when the next batch comes
        learner.update(everything, sgd=optimizer, exclude=[kind])
    changed = find_changed(learner, before, weights)
    assert changed == [name for name in learner.pipe_names if name != kind]


@of_every_head
def test_heads_of_other_corpora_compute_nothing(learner, batches, kind, monkeypatch):
    examples, ran = batches(learner)[kind], []
    for name in KINDS:
        model = learner.get_pipe(name).model
        run = model._func
        monkeypatch.setattr(
            model, "_func", lambda *a, n=name, f=run, **k: ran.append(n) or f(*a, **k)
        )
    learner.update(examples, sgd=False)
    assert ran == [kind]


@of_every_head
def test_it_is_compressed_with_the_same_labels_and_score(
    trained, compressed, scores, compressed_scores, kind
):
    assert compressed.get_pipe_meta(ENCODER).factory == "biomed_onnx_transformer"
    assert compressed.get_pipe(kind).labels == trained.get_pipe(kind).labels
    name = main_score(trained, kind)
    assert compressed_scores[name] == pytest.approx(scores[name], abs=1e-3)


@of_every_head
def test_it_is_sourced_into_another_pipeline(trained, kind):
    tokenizer = trained.config["nlp"]["tokenizer"]
    nlp = spacy.blank(trained.lang, config={"nlp": {"tokenizer": tokenizer}})
    for name in (ENCODER, kind):
        nlp.add_pipe(name, source=trained)
    assert predictions(nlp, kind) == predictions(trained, kind)
