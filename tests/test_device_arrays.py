"""Heads on a GPU, as far as a machine without one can tell: arrays of the GPU are not mixed with
arrays in main memory, and results are those of the CPU."""

import numpy as np
import pytest
import spacy
from device_arrays import DeviceArray, DeviceModule, on_a_device
from head_corpora import create_heads_config, make_docs, read_examples
from spacy.training.initialize import init_nlp
from spacy.util import fix_random_seed
from stopped_training import run

from spacy_biomed.pipeline.component_classes import list_heads
from spacy_biomed.training.optimizer import AdamW_v1

KINDS = sorted(kind for head in list_heads().values() for kind in head.learns)
of_every_head = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def config(folder, tiny_bert):
    return create_heads_config(folder, KINDS, tiny_bert)


def learn(config, folder):
    """A pipeline of all heads after two steps of each, without dropout, and the losses."""
    nlp = init_nlp(config)
    fix_random_seed(0)
    examples = read_examples(nlp, folder, KINDS)
    optimizer, losses = AdamW_v1(0.005, use_averages=True), {}
    for _ in range(2):
        for kind in KINDS:
            nlp.update(examples[kind], sgd=optimizer, losses=losses, drop=0.0)
    return nlp, losses


def annotate(nlp, folder):
    """By kind, the annotation of its documents and their scores."""
    found = {}
    for kind, examples in read_examples(nlp, folder, KINDS).items():
        with nlp.select_pipes(enable=["biomed_transformer", kind]):
            docs = list(nlp.pipe(doc.copy() for doc in make_docs(kind)))
            scores = nlp.evaluate(examples)
        spans = [
            {key: [(span.start, span.end, span.label_) for span in doc.spans[key]]}
            for doc in docs
            for key in sorted(doc.spans)
        ]
        ents = [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in docs]
        scores.pop("speed")
        found[kind] = ents, spans, [dict(doc.cats) for doc in docs], scores
    return found


@pytest.fixture(scope="module")
def on_cpu(config, folder):
    return learn(config, folder)


@pytest.fixture(scope="module")
def on_device(config, folder):
    """The same on the device, and what it annotates there; saved to `device`."""
    with pytest.MonkeyPatch.context() as patch, on_a_device(patch):
        nlp, losses = learn(config, folder)
        nlp.to_disk(folder / "device")
        return nlp, losses, annotate(nlp, folder)


@pytest.fixture(scope="module")
def from_device(on_device, folder):
    """The saved pipeline on the CPU, and what it annotates there."""
    nlp = spacy.load(folder / "device")
    return nlp, annotate(nlp, folder)


def test_arrays_of_the_device_are_not_mixed_with_others():
    array = DeviceModule().asarray(np.arange(3))
    assert isinstance(array + 1, DeviceArray) and (array + 1).tolist() == [1, 2, 3]
    for use in (lambda: array + np.arange(3), lambda: np.concatenate([array, np.arange(3)])):
        with pytest.raises(TypeError, match="Unsupported type"):
            use()
    with pytest.raises(TypeError, match="Implicit conversion"):
        np.asarray(array)


@of_every_head
def test_a_head_learns_the_same(on_cpu, on_device, kind):
    assert on_device[1][kind] == pytest.approx(on_cpu[1][kind], rel=1e-4)


@of_every_head
def test_the_saved_head_annotates_the_same_on_the_cpu(on_device, from_device, kind):
    *annotated, cats, scores = on_device[2][kind]
    *expected, expected_cats, expected_scores = from_device[1][kind]
    assert annotated == expected
    for one, other in zip(cats, expected_cats, strict=True):
        assert one == pytest.approx(other, abs=1e-5)
    assert scores.keys() == expected_scores.keys()
    for name, score in scores.items():
        if isinstance(score, list):  # bins of the confidence
            np.testing.assert_allclose(score, expected_scores[name], atol=1e-4)
        elif not isinstance(score, dict):
            assert score == pytest.approx(expected_scores[name], abs=1e-5)


@of_every_head
def test_weights_are_on_the_device_and_saved_from_it(on_device, from_device, kind):
    pairs = zip(
        on_device[0].get_pipe(kind).model.walk(),
        from_device[0].get_pipe(kind).model.walk(),
        strict=True,
    )
    for own, saved in pairs:
        for name in own.param_names:
            assert isinstance(own.get_param(name), DeviceArray)
            assert np.array_equal(own.get_param(name).get(), saved.get_param(name))


@pytest.mark.slow
def test_a_training_on_the_device_is_resumed(config, folder, tmp_path):
    config = config.copy()
    config["vars"].update(max_steps=4, eval_frequency=2)
    with pytest.MonkeyPatch.context() as patch, on_a_device(patch):
        run(config, tmp_path / "whole")
        run(config, tmp_path / "stopped", stop_after=3)
        shown = run(config, tmp_path / "stopped")
    assert "Continuing after step 2" in shown
    for name in KINDS:
        whole, resumed = (
            (tmp_path / run / "model-last" / name / "model").read_bytes()
            for run in ("whole", "stopped")
        )
        assert whole == resumed
