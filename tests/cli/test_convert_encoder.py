"""`spacy biomed convert-encoder`, and commands that are given an encoder with code of its own."""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from commands import call, error_line
from pretraining_recipes import write_recipe
from safetensors.numpy import load_file
from transformers import AutoModel, AutoModelForMaskedLM

from spacy_biomed.encoders.loading import load_pretrained, read_config
from spacy_biomed.language_models.initialization import load_language_model


def run(*arguments):
    return call("convert-encoder", *arguments)


@pytest.fixture
def make_pickled(any_encoder, tmp_path):
    """Directory of an encoder whose weights are a pickle, and those weights."""

    def make(kind):
        path = shutil.copytree(any_encoder, tmp_path / "pickled")
        model = kind.from_config(read_config(path))
        torch.save(model.state_dict(), path / "pytorch_model.bin")
        (path / "model.safetensors").unlink()
        return path, {key: value.numpy() for key, value in model.state_dict().items()}

    return make


def test_a_pickle_becomes_safetensors_with_its_head(make_pickled, tmp_path):
    path, weights = make_pickled(AutoModelForMaskedLM)
    result = run(path, tmp_path / "converted")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"✔ Wrote {tmp_path / 'converted'}: ")
    assert {file.name for file in (tmp_path / "converted").iterdir()} == {
        ".spacy-biomed.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    }
    written = load_file(tmp_path / "converted" / "model.safetensors")
    assert written.keys() <= weights.keys()
    for name, value in written.items():
        np.testing.assert_array_equal(value, weights[name])
    _, model, is_new = load_language_model(str(tmp_path / "converted"))
    assert not is_new
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), weights[name])


def test_an_encoder_without_a_head_gets_none(make_pickled, tmp_path):
    path, weights = make_pickled(AutoModel)
    assert run(path, tmp_path / "converted").exit_code == 0
    _, model = load_pretrained(str(tmp_path / "converted"))
    for name, value in model.state_dict().items():
        if not name.startswith("pooler."):
            np.testing.assert_array_equal(value.numpy(), weights[name])
    assert load_language_model(str(tmp_path / "converted"))[2]


def test_a_pickle_that_lacks_weights_is_not_converted(make_pickled, tmp_path):
    path, weights = make_pickled(AutoModel)
    key = next(name for name in weights if name.endswith("LayerNorm.weight"))
    kept = {name: torch.from_numpy(value) for name, value in weights.items() if name != key}
    torch.save(kept, path / "pytorch_model.bin")
    line = error_line(run(path, tmp_path / "converted"))
    assert f"{key} (1 in all), so they are not those that its config.json describes" in line
    assert not (tmp_path / "converted").exists()


def test_a_pickle_with_more_layers_than_its_config_is_not_converted(make_pickled, tmp_path):
    path, _ = make_pickled(AutoModel)
    config = json.loads((path / "config.json").read_text(encoding="utf8"))
    [layers] = config.keys() & {"num_hidden_layers", "n_layers"}
    (path / "config.json").write_text(json.dumps(config | {layers: 1}), encoding="utf8")
    line = error_line(run(path, tmp_path / "converted"))
    assert "so they are not those that its config.json describes" in line
    assert not (tmp_path / "converted").exists()


def test_an_encoder_without_a_pickle_is_refused(tiny_bert, tmp_path):
    line = error_line(run(tiny_bert, tmp_path / "converted"))
    assert line.startswith(f"{tiny_bert}: no pytorch_model.bin that can be read")


def test_an_encoder_is_not_replaced_by_itself(make_pickled):
    path, _ = make_pickled(AutoModel)
    assert error_line(run(path, path))
    assert (path / "pytorch_model.bin").is_file()


@pytest.mark.slow
def test_pretrain_runs_no_code_of_an_encoder_whatever_is_answered(tiny_bert, tmp_path):
    encoder = shutil.copytree(tiny_bert, tmp_path / "encoder")
    config = json.loads((encoder / "config.json").read_text(encoding="utf8"))
    config["auto_map"] = {"AutoConfig": "own.Config", "AutoModelForMaskedLM": "own.Model"}
    (encoder / "config.json").write_text(json.dumps(config), encoding="utf8")
    marker = tmp_path / "was-run"
    (encoder / "own.py").write_text(f"open({str(marker)!r}, 'w')", encoding="utf8")
    recipe = write_recipe(tmp_path, encoder={"name": str(encoder)}, vocabulary=None)
    done = subprocess.run(
        [sys.executable, "-m", "spacy", "biomed", "pretrain", recipe],
        input="y\n" * 9,
        capture_output=True,
        text=True,
        encoding="utf8",
        check=False,
    )
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith(f"✘ {encoder}: its config.json asks for Python of its own")
    assert not marker.exists()
