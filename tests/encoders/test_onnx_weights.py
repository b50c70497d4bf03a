"""ONNX models with weights in other files: refused, and the files are not opened."""

import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
import srsly
from onnx import TensorProto, helper

from spacy_biomed.encoders.onnx.engines import create_engine
from spacy_biomed.encoders.onnx.onnx_export import export_encoder
from spacy_biomed.encoders.onnx.onnx_model import OnnxTransformerModel_v1
from spacy_biomed.encoders.onnx.onnx_weights import _MESSAGES, check_weights
from spacy_biomed.errors import BiomedError

LINE = "it keeps weights in other files, which are never read"


@pytest.fixture(scope="module")
def exported(tiny_bert, make_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("tiny") / "exported"
    export_encoder(make_model(tiny_bert), path, precision="int8")
    return path


def put_outside(model, location):
    """Let the largest initializer of a model lie in another file."""
    tensor = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)


PLACES = ["absolute", "above", "beside", "working directory"]


@pytest.fixture
def make_outside(exported, tmp_path, monkeypatch):
    """Make an encoder with weights in another file that is there."""
    working = tmp_path / "working"
    working.mkdir()
    monkeypatch.chdir(working)

    def make(where):
        encoder = Path(shutil.copytree(exported, tmp_path / where / "encoder"))
        place, location = {
            "absolute": (tmp_path / "elsewhere", str(tmp_path / "elsewhere")),
            "above": (encoder.parent / "elsewhere", "../elsewhere"),
            "beside": (encoder / "elsewhere", "elsewhere"),
            "working directory": (working / "elsewhere", "elsewhere"),
        }[where]
        model = onnx.load(encoder / "model.onnx")
        put_outside(model, location)
        (encoder / "model.onnx").write_bytes(model.SerializeToString())
        place.write_bytes(bytes(10**5))
        return encoder

    return make


@pytest.mark.parametrize("where", PLACES)
def test_weights_in_another_file_are_refused_from_disk_and_from_bytes(make_outside, where):
    encoder = make_outside(where)
    shim = OnnxTransformerModel_v1().shims[0]
    with pytest.raises(BiomedError) as error:
        shim.load(encoder)
    assert str(error.value).startswith(f"{encoder}: not a readable exported encoder ({LINE})")
    assert "\n" not in str(error.value)
    names = ("model.onnx", "tokenizer.json", "encoder.json")
    files = {name: (encoder / name).read_bytes() for name in names}
    with pytest.raises(BiomedError, match=LINE):
        shim.from_bytes(srsly.msgpack_dumps(files))
    assert shim.files == {}


LOAD = """
import sys
from pathlib import Path
from spacy_biomed.encoders.onnx.engines import create_engine
from spacy_biomed.encoders.onnx.onnx_model import OnnxTransformerModel_v1

for path in sys.argv[1:]:
    try:
        OnnxTransformerModel_v1().shims[0].load(Path(path))
    except ValueError:
        pass
"""


@pytest.mark.slow
def test_the_other_files_are_not_opened(make_outside, tmp_path):
    lines = tmp_path / "strace.txt"
    trace = ["strace", "-f", "--seccomp-bpf", "-e", "trace=open,openat,openat2", "-o", lines]
    if shutil.which("strace") is None:
        pytest.skip("needs strace")
    if subprocess.run([*trace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("strace is not permitted here, or too old for --seccomp-bpf")
    encoders = [make_outside(where) for where in PLACES]
    subprocess.run([*trace, sys.executable, "-c", LOAD, *encoders], check=True)
    seen = lines.read_text(encoding="utf8", errors="replace")
    assert seen.count("model.onnx") == len(PLACES)
    assert "elsewhere" not in seen


def graph_of(*nodes, initializers=(), sparse=()):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    return helper.make_graph(
        list(nodes), "graph", [value], [value], list(initializers), sparse_initializer=list(sparse)
    )


def model_of(*nodes, **settings):
    return helper.make_model(graph_of(*nodes, **settings))


def tensor(location="weights.bin"):
    one = helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])
    if location:
        one.ClearField("float_data")
        one.data_location = TensorProto.EXTERNAL
        one.external_data.add(key="location", value=location)
    return one


def sparse_tensor(values, indices):
    return onnx.SparseTensorProto(values=values, indices=indices, dims=[1])


def hidden_tensors():
    """Models with such a tensor in each place that ONNX has for one."""
    inside = tensor(None)
    yield model_of(initializers=[tensor()])
    yield model_of(sparse=[sparse_tensor(tensor(), inside)])
    yield model_of(sparse=[sparse_tensor(inside, tensor())])
    yield model_of(helper.make_node("Constant", [], ["y"], value=tensor()))
    attribute = onnx.AttributeProto(name="a", type=onnx.AttributeProto.TENSORS)
    attribute.tensors.extend([inside, tensor()])
    node = helper.make_node("Constant", [], ["y"])
    node.attribute.append(attribute)
    yield model_of(node)
    branch = graph_of(initializers=[tensor()])
    yield model_of(helper.make_node("If", ["c"], ["y"], then_branch=branch))
    nested = graph_of(helper.make_node("If", ["c"], ["y"], then_branch=branch))
    yield model_of(helper.make_node("If", ["c"], ["y"], then_branch=nested))
    for kind in ("SPARSE_TENSOR", "SPARSE_TENSORS"):
        attribute = onnx.AttributeProto(name="a", type=getattr(onnx.AttributeProto, kind))
        one = sparse_tensor(tensor(), inside)
        if kind == "SPARSE_TENSOR":
            attribute.sparse_tensor.CopyFrom(one)
        else:
            attribute.sparse_tensors.append(one)
        node = helper.make_node("Constant", [], ["y"])
        node.attribute.append(attribute)
        yield model_of(node)
    own = helper.make_function(
        "own", "f", [], ["y"], [helper.make_node("Constant", [], ["y"], value=tensor())], []
    )
    model = model_of()
    model.functions.append(own)
    yield model
    model = model_of()
    model.training_info.add().algorithm.initializer.append(tensor())
    yield model
    # What says that the data lie outside, without the place, and the other way about.
    for field in ("external_data", "data_location"):
        half = tensor()
        half.ClearField(field)
        yield model_of(initializers=[half])


@pytest.mark.parametrize("model", hidden_tensors())
def test_a_tensor_outside_is_found_wherever_it_stands(model):
    with pytest.raises(ValueError, match=LINE):
        check_weights(model.SerializeToString())


def test_a_tensor_outside_is_found_in_the_second_part_of_a_message_in_two_parts():
    # Protocol buffers merge them.
    whole = model_of().SerializeToString() + model_of(initializers=[tensor()]).SerializeToString()
    with pytest.raises(ValueError, match=LINE):
        check_weights(whole)


def test_a_model_with_its_weights_in_itself_passes(exported):
    check_weights((exported / "model.onnx").read_bytes())
    for model in hidden_tensors():
        model.graph.ClearField("node")
        model.graph.ClearField("initializer")
        model.graph.ClearField("sparse_initializer")
        model.ClearField("functions")
        model.ClearField("training_info")
        check_weights(model.SerializeToString())


def test_every_message_of_onnx_that_tensors_are_beneath_is_looked_into():
    """Against the format as the package `onnx` has it."""
    names = {
        "ModelProto": "model",
        "TrainingInfoProto": "training",
        "FunctionProto": "function",
        "GraphProto": "graph",
        "NodeProto": "node",
        "AttributeProto": "attribute",
        "SparseTensorProto": "sparse tensor",
        "TensorProto": "tensor",
    }
    expected, waiting = {}, [onnx.ModelProto.DESCRIPTOR]
    messages = {}
    while waiting:
        message = waiting.pop()
        if message.name not in messages:
            messages[message.name] = {
                f.number: f.message_type for f in message.fields if f.message_type
            }
            waiting.extend(messages[message.name].values())
    leads = {"TensorProto"}
    for _ in messages:
        leads |= {
            name for name, own in messages.items() if any(m.name in leads for m in own.values())
        }
    for name in leads - {"TensorProto"}:
        own = messages[name]
        expected[names[name]] = {i: names[m.name] for i, m in own.items() if m.name in leads}
    assert expected == _MESSAGES


@pytest.mark.parametrize(
    "data", [b"\x3a\xff\x01\x00", b"\x3a\x80", b"\x3b\x08\x01\x3c", b"\xff" * 20]
)
def test_bytes_that_are_no_protocol_buffer_are_refused(data):
    with pytest.raises(ValueError, match="ends too early|not an ONNX model"):
        check_weights(data)


def test_onnx_runtimes_other_format_is_not_taken():
    # A protocol buffer whose bytes also have the mark of the other format at their fifth place.
    polyglot = b"\x12\x40\x00\x00ORTM" + bytes(58)
    check_weights(polyglot)
    with pytest.raises(Exception, match="No graph was found in the protobuf"):
        create_engine("onnxruntime", polyglot, threads=1)
