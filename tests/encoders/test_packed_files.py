"""`from_bytes` of both encoders: the files of an encoder and no others are written."""

import tempfile

import pytest
import spacy
import srsly

from spacy_biomed.encoders.onnx.onnx_export import export_encoder
from spacy_biomed.encoders.onnx.onnx_model import OnnxTransformerModel_v1
from spacy_biomed.encoders.transformer_model import TransformerModel_v1
from spacy_biomed.errors import BiomedError

TEXT = "Aspirin reduced the risk."


@pytest.fixture(scope="module", params=["torch", "onnx"])
def shims(request, tiny_bert, make_model, tmp_path_factory):
    """A loaded encoder, and a way to make an empty one of its kind."""
    model = make_model(tiny_bert)
    if request.param == "torch":
        return model.shims[0], lambda: TransformerModel_v1(str(tiny_bert)).shims[0]
    path = tmp_path_factory.mktemp("exported") / "tiny"
    export_encoder(model, path, precision="fp32")
    exported = OnnxTransformerModel_v1(str(path)).initialize()
    return exported.shims[0], lambda: OnnxTransformerModel_v1().shims[0]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The temporary directory, two levels down, so that a step up from it is seen."""
    path = tmp_path / "a" / "temporary"
    path.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(path))
    return path


@pytest.mark.parametrize("name", ["ABSOLUTE", "../written", "sub/written", "written", "", "."])
def test_bytes_that_name_another_file_are_refused_and_nothing_is_written(
    shims, tmp_path, temporary, name
):
    loaded, make = shims
    name = name.replace("ABSOLUTE", str(tmp_path / "written"))
    files = {name: b"content", **srsly.msgpack_loads(loaded.to_bytes())}
    before = sorted(tmp_path.rglob("*"))
    shim = make()
    with pytest.raises(BiomedError, match="are not those of the files") as error:
        shim.from_bytes(srsly.msgpack_dumps(files))
    assert "\n" not in str(error.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert shim.tokenizer is None


def test_bytes_without_one_of_the_files_are_refused(shims):
    loaded, make = shims
    files = srsly.msgpack_loads(loaded.to_bytes())
    for name in files:
        others = {other: content for other, content in files.items() if other != name}
        with pytest.raises(BiomedError, match=name):
            make().from_bytes(srsly.msgpack_dumps(others))
        with pytest.raises(BiomedError, match=name):
            make().from_bytes(srsly.msgpack_dumps({**files, name: ["text"]}))


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x93abc", b"\xa1x"])
def test_other_bytes_are_refused(shims, data):
    with pytest.raises(BiomedError, match="bytes of this pipeline's encoder"):
        shims[1]().from_bytes(data)


def test_an_encoder_that_was_not_loaded_stays_so(shims):
    shim = shims[1]()
    assert shim.from_bytes(shim.to_bytes()).tokenizer is None


def test_a_pipeline_whose_bytes_name_another_file_is_refused(tiny_bert, tmp_path, temporary):
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_transformer", config={"model": {"name": str(tiny_bert)}})
    nlp.initialize()
    [component] = nlp.component_names
    data = srsly.msgpack_loads(nlp.to_bytes())
    own = srsly.msgpack_loads(data[component])
    model = srsly.msgpack_loads(own["model"])
    files = srsly.msgpack_loads(model["shims"][0][0])
    model["shims"][0][0] = srsly.msgpack_dumps({**files, str(tmp_path / "written"): b"content"})
    data[component] = srsly.msgpack_dumps({**own, "model": srsly.msgpack_dumps(model)})
    with pytest.raises(BiomedError, match="are not those of the files"):
        spacy.blank("en").from_config(nlp.config).from_bytes(srsly.msgpack_dumps(data))
    assert not (tmp_path / "written").exists()
