"""Heads that come and go on a trained encoder, and the encoder that goes on without them."""

import io

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp

from spacy_biomed.packaging.compression import compress_pipeline
from spacy_biomed.studies.study import score_tasks
from spacy_biomed.training.multitask import MultiTaskCorpus_v1
from spacy_biomed.training.optimizer import AdamW_v1
from spacy_biomed.training.resumable import train

ENCODER = "biomed_transformer"
HEADS = ["drugs", "diseases", "topics"]
TEXTS = [
    "Aspirin reduced the risk of stroke.",
    "Metformin was given for lung cancer.",
    "",
    "No symptoms.",
]


def predictions(nlp, names=HEADS):
    """What the heads find, to the last bit."""
    return [[found(doc, name) for name in names] for doc in nlp.pipe(TEXTS)]


def found(doc, name):
    if name == "topics":
        return dict(doc.cats)
    group = doc.spans[name]
    return [
        (span.start, span.end, span.label_, score)
        for span, score in zip(group, group.attrs["scores"], strict=True)
    ]


# Heads that come and go


@pytest.mark.slow
def test_a_head_is_taken_out_and_the_others_stay_bit_identical(trained_tasks, tmp_path):
    nlp = spacy.load(trained_tasks)
    expected = predictions(nlp, ["drugs", "topics"])
    nlp.remove_pipe("diseases")
    assert nlp.get_pipe(ENCODER).listening_components == ["drugs", "topics"]
    assert predictions(nlp, ["drugs", "topics"]) == expected
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    assert again.pipe_names == [ENCODER, "drugs", "topics"]
    assert predictions(again, ["drugs", "topics"]) == expected
    assert not (tmp_path / "diseases").exists()


@pytest.mark.slow
def test_a_pipeline_is_put_together_of_another_ones_heads(trained_tasks, tmp_path):
    expected = predictions(spacy.load(trained_tasks), ["topics", "drugs"])
    source = spacy.load(trained_tasks)
    nlp = spacy.blank("en")
    nlp.tokenizer = source.tokenizer
    for name in (ENCODER, "topics", "drugs"):
        nlp.add_pipe(name, source=source)
    assert nlp.get_pipe(ENCODER).listening_components == ["topics", "drugs"]
    assert predictions(nlp, ["topics", "drugs"]) == expected
    nlp.to_disk(tmp_path)
    assert predictions(spacy.load(tmp_path), ["topics", "drugs"]) == expected


def test_a_head_is_added_by_training_it_alone(
    trained_tasks, make_tasks_config, corpora, weights, tmp_path
):
    """With encoder and heads sourced and frozen in a config, as spaCy does it."""
    before = spacy.load(trained_tasks)
    kept = [ENCODER, "drugs", "diseases"]
    config = make_tasks_config(["topics"], max_steps=40, eval_frequency=40)
    for name in kept:
        config["components"][name] = {"source": str(trained_tasks)}
    config["nlp"]["pipeline"] = [*kept, "topics"]
    config["training"]["frozen_components"] = kept
    config["training"]["annotating_components"] = [ENCODER]
    config["components"]["topics"]["learn_rate_factor"] = 10.0
    config["training"]["optimizer"]["use_averages"] = False
    nlp = init_nlp(config)
    assert not np.array_equal(weights(nlp, "topics"), weights(before, "topics"))
    train(nlp, tmp_path, stdout=io.StringIO())
    nlp = spacy.load(tmp_path / "model-best")
    assert nlp.pipe_names == [*kept, "topics"]
    assert predictions(nlp, kept[1:]) == predictions(before, kept[1:])
    np.testing.assert_array_equal(weights(nlp, ENCODER), weights(before, ENCODER))
    corpus = MultiTaskCorpus_v1({"topics": corpora / "topics" / "train.spacy"})
    assert nlp.evaluate(list(corpus(nlp)))["cats_topics_score"] > 0.9


def test_the_encoder_runs_once_for_all_heads(trained_tasks, monkeypatch):
    nlp = spacy.load(trained_tasks)
    shim = nlp.get_pipe(ENCODER).model.shims[0]
    calls, encode = [], shim.encode
    monkeypatch.setattr(shim, "encode", lambda batches: calls.append(1) or encode(batches))
    nlp(TEXTS[0])
    assert len(calls) == 1


@pytest.mark.slow
def test_a_pipeline_of_several_heads_is_compressed(trained_tasks, corpora, tmp_path):
    """Checked on documents that are each annotated for one head."""
    nlp = spacy.load(trained_tasks)
    corpus = MultiTaskCorpus_v1({name: corpora / name / "dev.spacy" for name in HEADS})
    references = [example.reference for example in corpus(nlp)]
    DocBin(docs=references, store_user_data=True).to_disk(tmp_path / "dev.spacy")
    report = compress_pipeline(
        str(trained_tasks), tmp_path / "onnx", precision="fp32", check=tmp_path / "dev.spacy"
    )
    assert report.cosine > 0.9999
    assert report.names == ["cats_topics_score", "spans_diseases_f", "spans_drugs_f"]
    assert report.scores_after == report.scores_before == score_tasks(nlp, "dev")
    compressed = spacy.load(tmp_path / "onnx")
    assert compressed.pipe_names == nlp.pipe_names
    for one, other in zip(predictions(nlp), predictions(compressed), strict=True):
        for mentions, again in zip(one[:2], other[:2], strict=True):
            assert [span[:3] for span in mentions] == [span[:3] for span in again]
        assert one[2] == pytest.approx(other[2], abs=1e-3)


# Refined together, fine-tuned apart


@pytest.mark.slow
def test_a_refined_encoder_is_fine_tuned_from_its_pipelines_folder(
    trained_tasks, make_tasks_config, corpora, weights
):
    refined = trained_tasks / ENCODER / "encoder"
    nlp = init_nlp(make_tasks_config(["diseases"], encoder=refined))
    expected = weights(spacy.load(trained_tasks), ENCODER)
    np.testing.assert_array_equal(weights(nlp, ENCODER), expected)
    corpus = MultiTaskCorpus_v1({"diseases": corpora / "diseases" / "train.spacy"})
    nlp.update(list(corpus(nlp))[:4], sgd=AdamW_v1(0.001))
    assert not np.array_equal(weights(nlp, ENCODER), expected)
