"""A damaged pipeline is refused in one line, or finds all that the sound one finds."""

import random
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import spacy
import srsly
import torch
from onnx import numpy_helper
from safetensors.torch import load_file, save_file
from spacy.training import Example

from spacy_biomed.bulk.annotating import annotate_collection
from spacy_biomed.encoders.onnx.onnx_model import MODEL
from spacy_biomed.errors import BiomedError, DamagedPipelineError
from spacy_biomed.packaging.compression import compress_pipeline
from spacy_biomed.pipeline.checksums import CHECKSUMS, check_checksums, write_checksums
from spacy_biomed.pipeline.pipeline_loading import load_pipeline
from spacy_biomed.training.optimizer import AdamW_v1

ENCODER, HEAD, CLASSES = "biomed_transformer", "biomed_ner", "biomed_textcat"
TEXTS = {
    "Marta Ochoa takes aspirin": [(0, 11, "NAME"), (18, 25, "DRUG")],
    "No aspirin for Juan Ruiz": [(3, 10, "DRUG"), (15, 24, "NAME")],
    "Cisplatin was given again": [(0, 9, "DRUG")],
}
PRECISIONS = {"torch": "fp16", "onnx": "int8"}
SEEDS = range(36)
NAMES = ["embeddings.LayerNorm.weight", "encoder.layer.1.output.dense.bias"]


@pytest.fixture(scope="module")
def trained(tiny_bert, tmp_path_factory):
    """A pipeline as spaCy writes it, without checksums."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe(ENCODER, config={"model": {"name": str(tiny_bert), "precision": "fp32"}})
    nlp.add_pipe(HEAD)
    nlp.add_pipe(CLASSES)
    examples = [
        Example.from_dict(
            nlp.make_doc(text), {"entities": spans, "cats": {"DOSE": 1.0, "NONE": 0.0}}
        )
        for text, spans in TEXTS.items()
    ]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(60):
        nlp.update(examples, sgd=optimizer)
    path = tmp_path_factory.mktemp("damaged") / "trained"
    nlp.to_disk(path)
    assert {text: found_in(nlp, text) for text in TEXTS} == TEXTS
    return path


@pytest.fixture(scope="module")
def sound(trained):
    """By engine, a pipeline as our commands write it, with checksums."""
    places = {}
    for name, precision in PRECISIONS.items():
        places[name] = trained.parent / name
        compress_pipeline(str(trained), places[name], precision=precision)
    return places


@pytest.fixture(params=PRECISIONS)
def pipeline(request, sound, tmp_path):
    """A copy to damage, in PyTorch and as exported."""
    return Path(shutil.copytree(sound[request.param], tmp_path / "pipeline"))


@pytest.fixture
def unsummed(pipeline):
    """The same without checksums, as spaCy writes it."""
    (pipeline / CHECKSUMS).unlink()
    return pipeline


def found_in(nlp, text):
    return [(ent.start_char, ent.end_char, ent.label_) for ent in nlp(text).ents]


def refusal(pipeline):
    with pytest.raises(BiomedError) as error:
        load_pipeline(str(pipeline))
    assert "\n" not in str(error.value)
    return str(error.value)


def damage(path, chance):
    """Damage a random file of a pipeline in a random way."""
    files = sorted(file for file in path.rglob("*") if file.is_file())
    file = chance.choice([one for one in files if one.stat().st_size])
    content = bytearray(file.read_bytes())
    kind = chance.choice(["bit", "bit", "byte", "cut", "empty", "remove", "rename", "swap"])
    if kind in ("bit", "byte"):
        place = chance.randrange(len(content))
        content[place] ^= 1 << chance.randrange(8) if kind == "bit" else 0xFF
        file.write_bytes(content)
    elif kind in ("cut", "empty"):
        file.write_bytes(content[: chance.randrange(len(content)) if kind == "cut" else 0])
    elif kind == "remove":
        file.unlink()
    elif kind == "rename":
        file.rename(file.with_name(f"{file.name}.old"))
    else:
        file.write_bytes(chance.choice(files).read_bytes())


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore")
def test_a_random_damage_is_refused_or_does_no_harm(pipeline, seed):
    damage(pipeline, random.Random(seed))
    try:
        nlp = load_pipeline(str(pipeline))
        found = {text: found_in(nlp, text) for text in TEXTS}
    except BiomedError as error:
        assert "\n" not in str(error)
    else:
        assert found == TEXTS


def test_a_pipeline_of_our_commands_has_checksums_of_all_that_is_read(sound):
    for path in sound.values():
        names = {line[66:] for line in (path / CHECKSUMS).read_text().splitlines()}
        files = {one.relative_to(path).as_posix() for one in path.rglob("*") if one.is_file()}
        left_out = {CHECKSUMS, "meta.json", "README.md", ".spacy-biomed.json"}
        assert names == files - left_out and len(names) > 8
        subprocess.run(["sha256sum", "--quiet", "--check", CHECKSUMS], cwd=path, check=True)


def test_spacys_own_load_refuses_a_changed_file_too(pipeline):
    settings = pipeline / HEAD / "cfg"
    settings.write_text(settings.read_text().replace('"NAME"', '"MAME"'))
    with pytest.raises(DamagedPipelineError, match="is not as it was written"):
        spacy.load(pipeline)


def test_a_flipped_exponent_is_found_by_the_checksum_alone(pipeline):
    def change(params):
        next(one["W"] for one in params if "W" in one)[0, 0] *= 2**12

    path = pipeline / HEAD / "model"
    spoil_head(path, change)
    assert f"{path}: is not as it was written" in refusal(pipeline)


def test_a_pipeline_that_was_changed_on_purpose_loads_without_its_checksums(pipeline):
    config = pipeline / "config.cfg"
    config.write_text(config.read_text() + "\n")
    assert f"delete {CHECKSUMS}" in refusal(pipeline)
    (pipeline / CHECKSUMS).unlink()
    assert found_in(load_pipeline(str(pipeline)), next(iter(TEXTS)))


def test_a_pipeline_written_over_its_own_directory_has_no_old_checksums(pipeline):
    nlp = load_pipeline(str(pipeline))
    nlp.add_pipe("sentencizer")
    nlp.to_disk(pipeline)
    assert not (pipeline / CHECKSUMS).exists()
    assert "sentencizer" in load_pipeline(str(pipeline)).pipe_names


@pytest.mark.parametrize("content", ["", "abc", "0" * 64 + " config.cfg\n"])
def test_checksums_that_cannot_be_read_are_refused(pipeline, content):
    (pipeline / CHECKSUMS).write_text(content)
    assert f"{pipeline / CHECKSUMS}: has no checksums that can be read" in refusal(pipeline)


def test_checksums_are_those_of_the_files_as_they_are_now(tmp_path):
    (tmp_path / "a").write_text("1")
    write_checksums(tmp_path)
    check_checksums(tmp_path)
    (tmp_path / "a").write_text("2")
    with pytest.raises(DamagedPipelineError):
        check_checksums(tmp_path)


def spoil_head(path, change):
    """Change the arrays of the parameters in a head's file."""
    content = srsly.msgpack_loads(path.read_bytes())
    for params in content["params"]:  # which are read-only
        params.update({name: value.copy() for name, value in params.items()})
    change(content["params"])
    path.write_bytes(srsly.msgpack_dumps(content))


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("head", [HEAD, CLASSES])
def test_a_weight_of_a_head_that_is_no_number_is_refused(unsummed, head, value):
    def change(params):
        next(one["b"] for one in params if "b" in one)[0] = value

    spoil_head(unsummed / head / "model", change)
    line = refusal(unsummed)
    assert line.startswith(f"{head}: its weights are damaged (b of ")


@pytest.mark.parametrize("renamed", [False, True])
def test_a_weight_that_a_head_lacks_is_named(unsummed, renamed):
    def change(params):
        layer = next(one for one in params if "W" in one)
        weight = layer.pop("W")
        if renamed:
            layer["weight"] = weight

    spoil_head(unsummed / HEAD / "model", change)
    assert f"{HEAD}: its weights lack W of " in refusal(unsummed)


def test_a_component_without_its_settings_is_refused(unsummed):
    for name in (HEAD, ENCODER):
        settings = unsummed / name / "cfg"
        content = settings.read_text()
        settings.unlink()
        assert f"{unsummed / name}: lacks the file cfg" in refusal(unsummed)
        settings.write_text(content)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_weight_of_an_exported_encoder_that_is_no_number_is_refused(sound, tmp_path, value):
    path = Path(shutil.copytree(sound["onnx"], tmp_path / "pipeline"))
    (path / CHECKSUMS).unlink()
    file = path / ENCODER / "encoder" / MODEL
    model = onnx.load(file)
    spoilt = 0
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and len(tensor.dims) == 1 and not spoilt:
            values = numpy_helper.to_array(tensor).copy()
            values[-1] = value
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
            spoilt += 1
    assert spoilt
    onnx.save(model, file)
    assert "are not finite" in refusal(path)


def weights_of(trained, tmp_path):
    """A copy of the PyTorch pipeline, the path of its weights, and them."""
    path = Path(shutil.copytree(trained, tmp_path / "pipeline"))
    file = path / ENCODER / "encoder" / "model.safetensors"
    return path, file, load_file(file)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize(
    "name", ["embeddings.LayerNorm.weight", "encoder.layer.1.output.dense.bias"]
)
def test_a_weight_of_an_encoder_that_is_no_number_is_refused(trained, tmp_path, name, value):
    path, file, weights = weights_of(trained, tmp_path)
    weights[name].view(-1)[3] = value
    save_file(weights, file, metadata={"format": "pt"})
    assert f"its weights are damaged ({name} has" in refusal(path)


CHANGES = {
    "all": lambda name: None,
    "words": lambda name: None if "word_embeddings" in name else name,
    "last layer": lambda name: None if "layer.1." in name else name,
    "other names": lambda name: name.replace("encoder.", "coder."),
    "another prefix": lambda name: f"model.bert.{name}",
    "one renamed": lambda name: name.replace("layer.0.output.dense.bias", "layer.0.output.dense.b"),
}


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("change", CHANGES)
def test_tensors_that_an_encoder_lacks_are_named(trained, tmp_path, change):
    path, file, weights = weights_of(trained, tmp_path)
    changed = {CHANGES[change](name): weight for name, weight in weights.items()}
    changed.pop(None, None)
    save_file(changed, file, metadata={"format": "pt"})
    assert "its weights lack e" in refusal(path)


def test_a_layer_that_an_encoder_has_no_place_for_is_named(trained, tmp_path):
    path, file, weights = weights_of(trained, tmp_path)
    weights["encoder.layer.2.output.dense.bias"] = torch.zeros(16)
    save_file(weights, file, metadata={"format": "pt"})
    assert "have, with no place for it, encoder.layer.2.output.dense.bias" in refusal(path)


def test_a_pooling_layer_and_a_head_may_be_there(trained, tmp_path):
    path, file, weights = weights_of(trained, tmp_path)
    weights["pooler.dense.bias"] = torch.zeros(16)
    weights["cls.predictions.bias"] = torch.zeros(200)
    save_file(weights, file, metadata={"format": "pt"})
    nlp = load_pipeline(str(path))
    assert {text: found_in(nlp, text) for text in TEXTS} == TEXTS


def spoil_in_memory(nlp, name):
    """Make a weight of a loaded component not a number."""
    model = nlp.get_pipe(name).model
    if name == ENCODER:
        with torch.no_grad():
            next(model.shims[0]._model.parameters()).fill_(torch.nan)
        return
    for node in model.walk():
        if node.has_param("b"):
            node.get_param("b")[:] = np.nan


@pytest.mark.parametrize("name", [ENCODER, HEAD, CLASSES])
def test_scores_that_are_no_numbers_end_a_run(trained, name, tmp_path, monkeypatch):
    nlp = load_pipeline(str(trained))
    spoil_in_memory(nlp, name)
    what = "the encoder" if name == ENCODER else name
    with pytest.raises(DamagedPipelineError, match=f"{what} gives scores that are not finite"):
        nlp(next(iter(TEXTS)))
    monkeypatch.setattr("spacy_biomed.bulk.shards.load_pipeline", lambda *_: nlp)
    (tmp_path / "notes.txt").write_text("\n".join(TEXTS))
    with pytest.raises(BiomedError, match="not finite"):
        annotate_collection(str(trained), tmp_path / "notes.txt", tmp_path / "found.jsonl")


def test_scores_of_an_exported_encoder_that_are_no_numbers_are_an_error(sound, monkeypatch):
    nlp = load_pipeline(str(sound["onnx"]))
    shim = nlp.get_pipe(ENCODER).model.shims[0]
    encode = shim.encode
    monkeypatch.setattr(shim, "encode", lambda batches: [one * np.inf for one in encode(batches)])
    with pytest.raises(DamagedPipelineError, match="the encoder gives scores that are not"):
        nlp(next(iter(TEXTS)))
