"""`spacy biomed average`: the mean of weights, and pipelines that have none."""

from types import SimpleNamespace

import numpy as np
import pytest
import spacy
import torch
from commands import refuse, run
from thinc.api import PyTorchWrapper

from spacy_biomed.packaging.averaging import _list_weights


@pytest.fixture(scope="module")
def other(tiny_pipeline, tmp_path_factory):
    """The pipeline with other weights, calibrated, and with the words of a text."""
    nlp = spacy.load(tiny_pipeline)
    nlp("Metformin helped")
    for _, weight in _list_weights(nlp):
        weight += np.random.default_rng(0).normal(size=weight.shape).astype(weight.dtype)
    nlp.get_pipe("biomed_ner").cfg["calibration"] = {"curves": {}}
    nlp.meta["performance"] = {"ents_f": 0.5}
    path = tmp_path_factory.mktemp("other") / "pipeline"
    nlp.to_disk(path)
    return path


def weights(path):
    return {place: weight.copy() for place, weight in _list_weights(spacy.load(path))}


def test_each_weight_is_the_mean_by_the_shares(tiny_pipeline, other, tmp_path):
    shares = ["--share", "0.25", "--share", "0.75"]
    run("average", tmp_path / "mean", other, tiny_pipeline, *shares)
    first, second, mean = map(weights, (other, tiny_pipeline, tmp_path / "mean"))
    assert any("word_embeddings" in place for place in mean) and len(mean) > 20
    for place, weight in mean.items():
        expected = 0.25 * first[place] + 0.75 * second[place]
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6, err_msg=place)


def test_weights_that_layers_share_are_listed_once():
    """They would be multiplied by their share twice."""
    layer = torch.nn.Linear(2, 2)
    model = PyTorchWrapper(torch.nn.Sequential(layer, layer))
    nlp = SimpleNamespace(components=[("head", SimpleNamespace(model=model))])
    assert [place for place, _ in _list_weights(nlp)] == ["head: 0.weight", "head: 0.bias"]


@pytest.mark.slow
def test_shares_are_equal_and_scores_are_dropped(tiny_pipeline, other, tmp_path):
    run("average", tmp_path / "mean", other, tiny_pipeline, tiny_pipeline)
    first, second, mean = map(weights, (other, tiny_pipeline, tmp_path / "mean"))
    for place, weight in mean.items():
        expected = (first[place] + 2 * second[place]) / 3
        np.testing.assert_allclose(weight, expected, rtol=1e-5, atol=1e-6, err_msg=place)
    nlp = spacy.load(tmp_path / "mean")
    assert nlp.meta["performance"] == {}
    assert not nlp.get_pipe("biomed_ner").is_calibrated
    assert "Aspirin" not in nlp.vocab.strings


def test_pipelines_without_a_mean_are_refused(tiny_pipeline, other, tmp_path):
    output = tmp_path / "mean"
    nlp = spacy.load(tiny_pipeline)
    nlp.get_pipe("biomed_ner").cfg["labels"] = ["SPECIES", "GENE"]
    nlp.to_disk(tmp_path / "more")
    message = refuse("average", output, tiny_pipeline, tmp_path / "more")
    assert f"{tmp_path / 'more'}: not as in {tiny_pipeline}: the labels of biomed_ner" in message
    nlp = spacy.load(tiny_pipeline)
    nlp.remove_pipe("biomed_ner")
    nlp.to_disk(tmp_path / "encoder")
    message = refuse("average", output, tiny_pipeline, tmp_path / "encoder")
    assert "the components" in message
    shares = ["--share", "0.5", "--share", "0.4"]
    assert "2 shares with 0.9 as their sum" in refuse(
        "average", output, tiny_pipeline, other, *shares
    )
    assert "1 shares" in refuse("average", output, tiny_pipeline, other, "--share", "1")
    assert "a mean is of two" in refuse("average", output, tiny_pipeline)
    spacy.blank("en").to_disk(tmp_path / "blank")
    assert "blank: has no weights" in refuse(
        "average", output, tmp_path / "blank", tmp_path / "blank"
    )
    nlp = spacy.load(tiny_pipeline)
    nlp.vocab.set_vector("aspirin", np.ones(2, dtype="f"))
    nlp.to_disk(tmp_path / "vectors")
    message = refuse("average", output, tiny_pipeline, tmp_path / "vectors")
    assert "the word vectors" in message
    nlp = spacy.blank("en")
    nlp.add_pipe("tok2vec")
    nlp.initialize()
    place, weight = next(_list_weights(nlp))
    weight.flat[0] = np.nan
    nlp.to_disk(tmp_path / "nan")
    message = refuse("average", output, tmp_path / "nan", tiny_pipeline)
    assert f"{tmp_path / 'nan'}: {place}: has weights that are not finite" in message
    run("compress", tiny_pipeline, tmp_path / "onnx", "--precision", "fp32")
    assert "biomed_transformer is in ONNX; give the pipeline that it was" in refuse(
        "average", output, tiny_pipeline, tmp_path / "onnx"
    )
    assert not output.exists()
