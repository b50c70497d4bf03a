"""The engines of exported encoders: what each computes, and which is chosen."""

import os
import pickle
import shutil
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from encoded_rows import TEXTS as PLAIN_TEXTS
from encoded_rows import cosines
from engines_here import needs_openvino
from transformers import AutoConfig, AutoModel

from spacy_biomed.encoders.onnx import engines
from spacy_biomed.encoders.onnx.engines import ENGINES, choose_engine, create_engine
from spacy_biomed.encoders.onnx.onnx_export import export_encoder
from spacy_biomed.encoders.onnx.onnx_model import OnnxTransformerModel_v1
from spacy_biomed.errors import BiomedError

pytestmark = needs_openvino

TEXTS = [*PLAIN_TEXTS[:-1], PLAIN_TEXTS[-1] * 30]


@pytest.fixture(autouse=True)
def _no_variable(monkeypatch, tmp_path):
    monkeypatch.delenv("SPACY_BIOMED_ENGINE")
    monkeypatch.setattr(engines, "user_cache_path", lambda *args, **kwargs: tmp_path / "home")


@pytest.fixture(scope="module")
def exported(pytorch, tmp_path_factory):
    """The directory of each small encoder exported in fp32."""
    path = tmp_path_factory.mktemp("exported")
    export_encoder(pytorch, path, precision="fp32")
    return path


def load(path, **settings):
    return OnnxTransformerModel_v1(str(path), **settings).initialize()


def make_batch(lines, pieces):
    ids = np.ones((lines, pieces), dtype="int64")
    return {"input_ids": ids, "attention_mask": ids, "token_type_ids": 0 * ids}


SENTENCES = [make_batch(4, 32)] * 8


def choose(path, batches=SENTENCES, precision="fp32"):
    return choose_engine((path / "model.onnx").read_bytes(), precision, batches)


def time_as(monkeypatch, **speeds):
    """Let each engine have a given speed, and record which are timed."""
    timed = []

    def measure(engine, settings):
        timed.append(type(engine).__module__.rpartition(".")[2].removesuffix("_engine"))
        return speeds[timed[-1]]

    monkeypatch.setattr(engines, "_time", measure)
    return timed


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_fp32_gives_pytorchs_rows(pytorch, exported, docs, engine):
    model = load(exported, engine=engine, precision="fp32", threads=2)
    np.testing.assert_allclose(model.predict(docs).hidden, pytorch.predict(docs).hidden, atol=5e-4)


@pytest.fixture(scope="module", params=["tiny_bert", "tiny_roberta"])
def fused(request, make_model, tmp_path_factory):
    """An encoder whose attention is one operator in int8, and its directory."""
    pytorch = make_model(request.getfixturevalue(request.param))
    path = tmp_path_factory.mktemp("fused")
    export_encoder(pytorch, path, precision="int8")
    return pytorch, path


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("threads", [1, 2])
def test_attention_is_one_operator_with_the_same_rows(fused, docs, threads):
    pytorch, path = fused
    nodes = [node.op_type for node in onnx.load(path / "model.onnx").graph.node]
    assert nodes.count("QAttention") == 2
    assert "Softmax" not in nodes
    rows = load(path, threads=threads).predict(docs).hidden
    assert cosines(rows, pytorch.predict(docs).hidden).min() > 0.97


def test_it_is_for_onnx_runtime_alone(fused, nlp, monkeypatch):
    timed = time_as(monkeypatch, onnxruntime=1.0, openvino=2.0)
    docs = [nlp.make_doc(text * 20) for text in TEXTS]
    with pytest.warns(UserWarning, match="was made for onnxruntime alone") as warned:
        forced = load(fused[1], engine="openvino")
        forced.predict(docs)
    assert len(warned) == 1
    # "auto" is silent: nobody asked for it.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = load(fused[1])
        model.predict(docs)
    for one in (forced, model):
        assert one.shims[0].choice == "onnxruntime"
    assert not timed


def test_openvino_runs_other_int8_too(tiny_distilbert, make_model, docs, tmp_path):
    pytorch = make_model(tiny_distilbert)
    export_encoder(pytorch, tmp_path / "int8", precision="int8")
    model = load(tmp_path / "int8", engine="openvino")
    assert model.shims[0].choice == "openvino"
    assert cosines(model.predict(docs).hidden, pytorch.predict(docs).hidden).mean() > 0.99


@pytest.mark.slow(least=1)
def test_bf16_is_close_to_fp32(exported, docs):
    batches = {
        precision: load(exported, engine="openvino", precision=precision).predict(docs)
        for precision in ("fp32", "bf16")
    }
    assert cosines(batches["bf16"].hidden, batches["fp32"].hidden).min() > 0.99


@pytest.fixture(scope="module")
def shortest(tiny_bert, tmp_path_factory):
    """A small encoder with few positions."""
    path = tmp_path_factory.mktemp("encoders") / "shortest"
    shutil.copytree(tiny_bert, path)
    (path / "model.safetensors").unlink()
    config = AutoConfig.from_pretrained(tiny_bert, max_position_embeddings=45)
    AutoModel.from_config(config).save_pretrained(path)
    return path


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_length_up_to_the_last_position_has_pytorchs_rows(
    shortest, make_model, tmp_path, nlp, engine
):
    pytorch = make_model(shortest)
    export_encoder(pytorch, tmp_path / "exported", precision="fp32")
    model = load(tmp_path / "exported", engine=engine, precision="fp32", threads=2)
    docs = [nlp.make_doc("a " * count) for count in range(1, 60)]
    for batch in [*([doc] for doc in docs), docs]:
        found, expected = model.predict(batch).hidden, pytorch.predict(batch).hidden
        np.testing.assert_allclose(found, expected, atol=5e-4)


def test_the_first_runs_of_several_threads_do_not_wait_for_each_other():
    """Imports are slowed down, so that threads meet in what OpenVINO does with its first array."""
    program = (
        "import builtins, threading, time, openvino\n"
        "import spacy_biomed.encoders.onnx.openvino_engine\n"
        "load = builtins.__import__\n"
        "def load_slowly(name, *args, **kwargs):\n"
        "    time.sleep(0.3 * name.startswith('numpy'))\n"
        "    return load(name, *args, **kwargs)\n"
        "builtins.__import__ = load_slowly\n"
        "for _ in range(3):\n"
        "    threading.Thread(target=openvino.Type.i64.to_dtype).start()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.slow
def test_threads_that_share_an_engine_get_their_own_results(tiny, nlp):
    model = load(tiny, engine="openvino", threads=2)
    batches = [[nlp.make_doc("aspirin " * count)] for count in range(1, 40)]
    expected = [model.predict(batch).hidden for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            found = pool.map(lambda batch: model.predict(batch).hidden, batches)
            for actual, wanted in zip(found, expected, strict=True):
                np.testing.assert_allclose(actual, wanted, atol=1e-5)


def test_the_threads_are_those_of_the_setting(tiny):
    shim = load(tiny, engine="openvino", threads=2).shims[0]
    usable = min(2, len(os.sched_getaffinity(0)))  # OpenVINO starts no more
    for threads, runs in ((2, 1), (1, usable)):
        compiled = shim.engine(threads).compiled
        assert compiled.get_property("INFERENCE_NUM_THREADS") == usable
        assert compiled.get_property("NUM_STREAMS") == runs


@pytest.mark.parametrize(
    "speeds, chosen",
    [
        ({"onnxruntime": 2.0, "openvino": 1.0}, "onnxruntime"),
        ({"onnxruntime": 1.0, "openvino": 1.05}, "onnxruntime"),
        ({"onnxruntime": 1.0, "openvino": 1.2}, "openvino"),
    ],
)
def test_auto_is_the_faster_engine(tiny, monkeypatch, speeds, chosen):
    time_as(monkeypatch, **speeds)
    assert choose(tiny) == chosen


def test_the_first_texts_decide_and_the_others_do_not(tiny, nlp, monkeypatch):
    speeds = {"onnxruntime": 1.0, "openvino": 2.0}
    timed = time_as(monkeypatch, **speeds)
    model = load(tiny)
    few, many = [nlp.make_doc("aspirin")], [nlp.make_doc("aspirin " * 300)] * 6
    before = model.predict(few).hidden
    assert model.shims[0].choice == "onnxruntime"
    assert not timed
    model.predict(many)
    assert model.shims[0].choice == "openvino"
    np.testing.assert_allclose(model.predict(few).hidden, before, atol=0.1)
    speeds["onnxruntime"] = 9.0
    model.predict([nlp.make_doc("aspirin " * 30)] * 60)
    assert model.shims[0].choice == "openvino"
    assert timed == ["onnxruntime", "openvino"]


def test_engines_are_timed_once_for_an_encoder_and_a_length(tiny, monkeypatch):
    timed = time_as(monkeypatch, onnxruntime=1.0, openvino=2.0)
    first = choose(tiny)
    assert timed == ["onnxruntime", "openvino"]
    assert choose(tiny, [make_batch(4, 30)] * 9) == first
    assert len(timed) == 2
    choose(tiny, precision="bf16")
    choose(tiny, [make_batch(1, 512)] * 2)
    assert len(timed) == 6


def test_too_little_text_decides_nothing(tiny):
    assert choose(tiny, SENTENCES[:7]) is None
    assert choose(tiny, []) is None


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("content", ["", "{}", '{"engine": "abacus"}', '["openvino"]', "\x00"])
def test_a_damaged_note_of_a_choice_is_written_again(tiny, monkeypatch, tmp_path, content):
    time_as(monkeypatch, onnxruntime=1.0, openvino=2.0)
    choose(tiny)
    [note] = tmp_path.rglob("*.json")
    kept = note.read_text(encoding="utf8")
    note.write_text(content, encoding="utf8")
    assert choose(tiny) == "openvino"
    assert note.read_text(encoding="utf8") == kept


def test_a_cache_directory_that_cannot_be_written_is_no_error(tiny, monkeypatch, tmp_path):
    (tmp_path / "home").write_text("a file, not a directory", encoding="utf8")
    time_as(monkeypatch, onnxruntime=1.0, openvino=2.0)
    assert choose(tiny) == "openvino"


def test_speeds_are_measured_in_word_pieces(tiny, monkeypatch):
    speeds, time = [], engines._time
    monkeypatch.setattr(engines, "_time", lambda *given: speeds.append(time(*given)) or speeds[-1])
    choose(tiny)
    assert len(speeds) == len(ENGINES)
    assert all(speed > 100 for speed in speeds)


@pytest.mark.parametrize("setting", ENGINES)
def test_a_setting_is_not_timed(tiny, nlp, monkeypatch, setting):
    timed = time_as(monkeypatch)
    model = load(tiny, engine=setting)
    model.predict([nlp.make_doc("aspirin " * 300)] * 6)
    assert model.shims[0].choice == setting
    assert not timed


def test_the_variable_overrides_the_setting(tiny, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_ENGINE", "openvino")
    assert load(tiny, engine="onnxruntime").shims[0].choice == "openvino"


def test_unknown_engines_are_refused(tiny, monkeypatch):
    with pytest.raises(BiomedError, match="engine = tvm: use auto, onnxruntime or openvino"):
        load(tiny, engine="tvm")
    monkeypatch.setenv("SPACY_BIOMED_ENGINE", "ort")
    with pytest.raises(BiomedError, match="SPACY_BIOMED_ENGINE = ort: use auto, onnxruntime or"):
        load(tiny)


def test_an_engine_is_chosen_again_in_a_copy(tiny, nlp, monkeypatch):
    time_as(monkeypatch, onnxruntime=1.0, openvino=2.0)
    model = pickle.loads(pickle.dumps(load(tiny)))
    model.predict([nlp.make_doc("aspirin " * 300)] * 6)
    assert model.shims[0].choice == "openvino"


def test_a_missing_engine_is_replaced_with_one_warning(tiny, docs, monkeypatch):
    monkeypatch.setitem(sys.modules, "spacy_biomed.encoders.onnx.openvino_engine", None)
    with pytest.warns(UserWarning, match="openvino cannot run this encoder here") as warned:
        model = load(tiny, engine="openvino")
        model.predict(docs)
    assert len(warned) == 1
    assert "pip install openvino" in str(warned[0].message)
    assert model.shims[0].choice == "onnxruntime"


def test_an_engine_that_fails_on_this_processor_is_replaced_with_one_warning(
    tiny, docs, monkeypatch
):
    def fail(*args, **kwargs):
        raise RuntimeError("unsupported instructions\nand more lines")

    monkeypatch.setattr("spacy_biomed.encoders.onnx.openvino_engine.Engine", fail)
    with pytest.warns(UserWarning, match=r"here \(unsupported instructions\): ") as warned:
        model = load(tiny, engine="openvino")
        model.predict(docs)
    assert len(warned) == 1
    # "auto" is silent: nobody asked for it.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert choose(tiny) == "onnxruntime"


def test_damaged_models_are_refused_by_both(tiny, tmp_path, recwarn):
    for name in ("tokenizer.json", "encoder.json"):
        (tmp_path / name).write_bytes((tiny / name).read_bytes())
    (tmp_path / "model.onnx").write_bytes((tiny / "model.onnx").read_bytes()[:-100])
    for engine in ("auto", *ENGINES):
        with pytest.raises(BiomedError, match="not a readable exported encoder"):
            load(tmp_path, engine=engine)
    assert not [w for w in recwarn if issubclass(w.category, UserWarning)]


@pytest.mark.slow
def test_openvino_reports_to_nobody(tiny, tmp_path):
    """Its package of reports is installed with it, and would send that it was imported."""
    trap = tmp_path / "openvino_telemetry"
    trap.mkdir()
    (trap / "__init__.py").write_text(
        f"open({str(tmp_path / 'reported')!r}, 'w').close()\nclass Telemetry: pass\n",
        encoding="utf8",
    )
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from spacy_biomed.encoders import OnnxTransformerModel_v1\n"
        "model = OnnxTransformerModel_v1(sys.argv[2], engine='openvino').initialize()\n"
        "print(model.shims[0].choice)\n"
        "import openvino_telemetry\n"
    )
    command = [sys.executable, "-c", program.rsplit("import", 1)[0], str(tmp_path), str(tiny)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "openvino"
    assert not (tmp_path / "reported").exists()
    # The trap works.
    command[2] = program
    subprocess.run(command, check=True)
    assert (tmp_path / "reported").exists()


@pytest.mark.parametrize("name", ENGINES)
def test_the_signature_is_that_of_the_model(tiny, name):
    engine = create_engine(name, (tiny / "model.onnx").read_bytes(), threads=1)
    names = {"input_ids", "attention_mask", "token_type_ids"}
    assert engine.inputs == names
    assert engine.widths == {"last_hidden_state": 16}
