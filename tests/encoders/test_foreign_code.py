"""Encoders of strangers: neither their Python nor their pickles run, and nothing is downloaded."""

import ast
import io
import json
import pickle
import shutil
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForMaskedLM

import spacy_biomed.encoders.loading as loading
from spacy_biomed.encoders.loading import load_directory, load_pretrained, load_tokenizer
from spacy_biomed.encoders.pickled import read_pickled
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.initialization import load_language_model

REPOSITORY = Path(__file__).parents[2]
LOADERS = {
    "load_pretrained": lambda path: load_pretrained(str(path)),
    "load_tokenizer": lambda path: load_tokenizer(str(path)),
    "load_directory": load_directory,
    "load_language_model": lambda path: load_language_model(str(path)),
    "read_pickled": lambda path: read_pickled(str(path)),
}
WEIGHTS_LOADERS = ["load_pretrained", "load_directory", "load_language_model"]


@pytest.fixture
def encoder(tiny_bert, tmp_path):
    """A copy of the small encoder to spoil."""
    return Path(shutil.copytree(tiny_bert, tmp_path / "encoder"))


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A file that foreign code would write; whoever asks a question on the way is told yes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 9))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "huggingface"))
    path = tmp_path / "was-run"
    yield path
    assert not path.exists()
    assert sys.stdin.tell() == 0  # nobody asked


def add_code(encoder, marker, file, names):
    """Python in an encoder's directory that a file of settings asks for."""
    code = f"open({str(marker)!r}, 'w')\nfrom transformers import BertConfig as Config, BertModel "
    code += "as Model, BertTokenizer as Tokenizer, BertTokenizerFast as TokenizerFast\n"
    (encoder / "own.py").write_text(code, encoding="utf8")
    settings = json.loads((encoder / file).read_text(encoding="utf8"))
    settings["auto_map"] = names
    (encoder / file).write_text(json.dumps(settings), encoding="utf8")


def refusal(load, path):
    with pytest.raises(BiomedError) as error:
        load(path)
    message = str(error.value)
    assert "\n" not in message and message.startswith(f"{path}: ")
    return message


@pytest.mark.parametrize("type", ["bert", "of-its-own"])
@pytest.mark.parametrize("loader", LOADERS)
def test_python_that_a_config_asks_for_never_runs(encoder, marker, loader, type):
    names = {"AutoConfig": "own.Config", "AutoModel": "own.Model"}
    names["AutoModelForMaskedLM"] = "own.Model"
    add_code(encoder, marker, "config.json", names)
    config = json.loads((encoder / "config.json").read_text(encoding="utf8"))
    (encoder / "config.json").write_text(json.dumps({**config, "model_type": type}))
    message = refusal(LOADERS[loader], encoder)
    assert "its config.json asks for Python of its own" in message


@pytest.mark.parametrize("loader", [name for name in LOADERS if name != "load_directory"])
def test_python_that_a_tokenizer_asks_for_never_runs(encoder, marker, loader):
    names = {"AutoTokenizer": ["own.Tokenizer", "own.TokenizerFast"]}
    add_code(encoder, marker, "tokenizer_config.json", names)
    if loader == "read_pickled":
        save_pickle(encoder)
    message = refusal(LOADERS[loader], encoder)
    assert "its tokenizer_config.json asks for Python of its own" in message


def test_the_directory_of_a_saved_pipeline_reads_no_tokenizer_class(encoder, marker):
    add_code(encoder, marker, "tokenizer_config.json", {"AutoTokenizer": ["own.Tokenizer", None]})
    load_directory(encoder)


@pytest.mark.parametrize(
    "setting", ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"]
)
def test_a_kernel_from_the_hub_is_refused_unless_transformers_ignores_the_setting(
    encoder, marker, setting
):
    config = json.loads((encoder / "config.json").read_text(encoding="utf8"))
    config[setting] = "someone/kernel:attention"
    (encoder / "config.json").write_text(json.dumps(config), encoding="utf8")
    read = AutoConfig.from_pretrained(encoder)
    if read._attn_implementation == config[setting]:
        assert "a kernel for attention" in refusal(LOADERS["load_pretrained"], encoder)
    else:
        _, model = load_pretrained(str(encoder))
        assert model.config._attn_implementation == "eager"


def test_some_setting_of_a_config_chooses_a_kernel(encoder):
    settings = ["attn_implementation", "_attn_implementation", "_attn_implementation_internal"]
    config = json.loads((encoder / "config.json").read_text(encoding="utf8"))
    config |= dict.fromkeys(settings, "someone/kernel:attention")
    (encoder / "config.json").write_text(json.dumps(config), encoding="utf8")
    assert "a kernel for attention" in refusal(LOADERS["load_pretrained"], encoder)


class Intruder:
    """An object that writes a file when it is read from a pickle."""

    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return open, (str(self.marker), "w")


@pytest.mark.parametrize("loader", WEIGHTS_LOADERS)
def test_a_pickle_is_not_read_and_the_line_says_how_to_convert_it(encoder, marker, loader):
    (encoder / "model.safetensors").unlink()
    (encoder / "pytorch_model.bin").write_bytes(pickle.dumps(Intruder(marker)))
    message = refusal(LOADERS[loader], encoder)
    assert f"convert-encoder {encoder} DIR`" in message


@pytest.mark.parametrize("is_archive", [False, True])
def test_a_pickle_with_code_is_not_converted_either(encoder, marker, is_archive):
    (encoder / "model.safetensors").unlink()
    if is_archive:
        torch.save({"weights": Intruder(marker)}, encoder / "pytorch_model.bin")
    else:
        (encoder / "pytorch_model.bin").write_bytes(pickle.dumps(Intruder(marker)))
    assert "it holds code, which is not run" in refusal(LOADERS["read_pickled"], encoder)


@pytest.mark.parametrize("loader", WEIGHTS_LOADERS)
def test_shards_that_are_pickles_run_no_code(encoder, marker, loader):
    (encoder / "model.safetensors").unlink()
    (encoder / "shard.bin").write_bytes(pickle.dumps(Intruder(marker)))
    index = {"metadata": {}, "weight_map": {"embeddings.LayerNorm.weight": "shard.bin"}}
    (encoder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf8")
    with pytest.raises((BiomedError, OSError)):
        LOADERS[loader](encoder)


def hub_cache(monkeypatch, tmp_path, encoder, hub_id):
    """Put an encoder in a hub cache, be offline, and return the commit."""
    commit = "0123456789" * 4
    cache = tmp_path / "cache"
    place = cache / f"models--{hub_id.replace('/', '--')}"
    shutil.copytree(encoder, place / "snapshots" / commit)
    (place / "refs").mkdir()
    (place / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("transformers.utils.hub._is_offline_mode", True, raising=False)  # before 5
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(cache))
    monkeypatch.setattr("huggingface_hub.file_download.HF_HUB_CACHE", str(cache), raising=False)
    monkeypatch.setattr("transformers.utils.hub.TRANSFORMERS_CACHE", str(cache), raising=False)
    return commit


def test_a_pickle_of_the_hub_is_refused_by_name_and_commit(
    encoder, tmp_path, monkeypatch, no_network
):
    (encoder / "model.safetensors").rename(encoder / "pytorch_model.bin")
    commit = hub_cache(monkeypatch, tmp_path, encoder, "someone/old")
    with pytest.raises(BiomedError, match="its weights are a pickle") as error:
        load_pretrained("someone/old")
    assert f"convert-encoder someone/old --revision {commit} DIR`" in str(error.value)


def test_an_encoder_of_the_hub_is_read_from_the_cache(encoder, tmp_path, monkeypatch, no_network):
    commit = hub_cache(monkeypatch, tmp_path, encoder, "someone/new")
    for revision in (None, "main", commit):
        _, model = load_pretrained("someone/new", revision)
        assert model.config._commit_hash == commit
    assert load_language_model("someone/new")[2]


def test_the_weights_of_a_revision_are_read_and_not_the_newest(
    encoder, tmp_path, monkeypatch, no_network
):
    hub_cache(monkeypatch, tmp_path, encoder, "someone/new")
    newest = tmp_path / "cache" / "models--someone--new" / "snapshots" / ("0123456789" * 4)
    pinned = newest.with_name("abcdef0123" * 4)
    shutil.copytree(newest, pinned)
    model = AutoModel.from_config(loading.read_config(encoder))
    model.save_pretrained(pinned)
    _, read = load_pretrained("someone/new", pinned.name)
    expected = model.get_input_embeddings().weight
    torch.testing.assert_close(read.get_input_embeddings().weight, expected, rtol=0, atol=0)


def test_a_pickle_of_the_hub_is_converted(encoder, tmp_path, monkeypatch, no_network):
    expected = save_pickle(encoder)
    hub_cache(monkeypatch, tmp_path, encoder, "someone/old")
    _, model = read_pickled("someone/old")
    for key, value in expected.items():
        torch.testing.assert_close(model.state_dict()[key], value, rtol=0, atol=0)


def save_pickle(encoder):
    """Put random weights in an encoder's place, as a pickle; return them by name."""
    model = AutoModelForMaskedLM.from_config(loading.read_config(encoder))
    torch.save(model.state_dict(), encoder / "pytorch_model.bin")
    (encoder / "model.safetensors").unlink(missing_ok=True)
    return model.state_dict()


@pytest.mark.parametrize("lost", [None, "tokenizer.json", "tokenizer_config.json", "config.json"])
@pytest.mark.parametrize("loader", ["load_pretrained", "load_tokenizer", "load_language_model"])
def test_a_directory_is_never_looked_for_on_the_hub(encoder, no_network, loader, lost):
    if lost is not None:
        (encoder / lost).unlink()
    if lost in (None, "tokenizer_config.json"):
        LOADERS[loader](encoder)
    else:
        refusal(LOADERS[loader], encoder)


@pytest.mark.parametrize("loader", WEIGHTS_LOADERS)
def test_weights_that_a_directory_lacks_are_never_looked_for_on_the_hub(
    encoder, no_network, loader
):
    (encoder / "model.safetensors").unlink()
    with pytest.raises((BiomedError, OSError), match=r"model\.safetensors"):
        LOADERS[loader](encoder)


def calls(name):
    """Calls of methods of that name in the package and the benchmarks: place, arguments by name."""
    files = [
        *(REPOSITORY / "spacy_biomed").rglob("*.py"),
        *(REPOSITORY / "benchmarks").glob("*.py"),
    ]
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == name:
                owner = ast.unparse(node.func.value)
                named = {one.arg: ast.unparse(one.value) for one in node.keywords}
                yield f"{path.relative_to(REPOSITORY)}:{node.lineno}", owner, named


@pytest.mark.slow
def test_transformers_is_told_to_trust_no_code_wherever_it_loads_or_makes_something():
    found = [*calls("from_pretrained"), *calls("from_config")]
    found = [one for one in found if not one[1].startswith(("spacy", "nlp"))]
    assert len(found) > 8
    assert [one for one in found if one[2].get("trust_remote_code") != "False"] == []


@pytest.mark.slow
def test_pickles_are_read_in_one_place_and_as_numbers_alone():
    loads = [
        one
        for one in calls("from_pretrained")
        if not one[1].endswith(("Tokenizer", "Config", "Fast"))
    ]
    pickled = [one for one in loads if one[2].get("use_safetensors") != "True"]
    assert [place.partition(":")[0] for place, _, _ in pickled] == [
        "spacy_biomed/encoders/pickled.py"
    ]
    assert pickled[0][2]["weights_only"] == "True"
    loads = [one for one in calls("load") if one[1] in ("torch", "pickle", "joblib")]
    # Messages between a process and those that it starts, through their pipes.
    assert {place.partition(":")[0] for place, _, _ in loads} == {"spacy_biomed/workers/process.py"}
