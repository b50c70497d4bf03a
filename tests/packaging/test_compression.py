"""Compression: what it reports is so, and what it refuses leaves everything as it was."""

import json
import math
import re
import shutil
import warnings

import numpy as np
import pytest
import spacy
import srsly
import torch
from engines_here import needs_openvino
from safetensors.torch import load_file
from spacy.tokens import DocBin
from spacy.training import Corpus, Example
from thinc.types import Ragged

from spacy_biomed.encoders.loading import WEIGHTS
from spacy_biomed.encoders.onnx import onnx_export
from spacy_biomed.encoders.transformer_model import TransformerModel_v1
from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.files.outputs import MARKER, replacing_directory
from spacy_biomed.packaging import compression
from spacy_biomed.packaging.compression import (
    SAMPLE_TEXTS,
    CompressionReport,
    compare_encoders,
    compress_pipeline,
    exported_settings,
    find_encoders,
)
from spacy_biomed.packaging.copies import calibrate_pipeline
from spacy_biomed.pipeline.checksums import CHECKSUMS
from spacy_biomed.training.optimizer import AdamW_v1

ENCODER = "biomed_transformer"
HEAD_MODEL = "biomed_ner/model"
LISTENER = {"@architectures": "spacy_biomed.EncoderListener.v1", "pooling": "first"}
ENSEMBLE = {
    "@architectures": "spacy.TextCatEnsemble.v2",
    "tok2vec": LISTENER,
    "linear_model": {
        "@architectures": "spacy.TextCatBOW.v3",
        "exclusive_classes": False,
        "length": 1024,
        "ngram_size": 1,
        "no_output_layer": False,
    },
}
HEADS = {"biomed_ner": {}, "textcat_multilabel": {"model": ENSEMBLE}}
GOLD = [
    ("Aspirin reduced cancer", {"entities": [(16, 22, "D")], "cats": {"DRUG": 1.0, "GENE": 0.0}}),
    ("No diabetes  was found", {"entities": [(3, 11, "D")], "cats": {"DRUG": 0.0, "GENE": 0.0}}),
    ("mutations of BRCA1", {"entities": [], "cats": {"DRUG": 0.0, "GENE": 1.0}}),
    ("Lung cancer.\n\nNo drug ", {"entities": [(5, 11, "D")], "cats": {"DRUG": 0.0, "GENE": 0.0}}),
]


def make_examples(nlp):
    return [Example.from_dict(nlp.make_doc(text), gold) for text, gold in GOLD]


def build(encoder, *heads):
    """A pipeline that is initialised and has learned for a few steps."""
    spacy.util.fix_random_seed(0)
    nlp = spacy.blank("en")
    nlp.add_pipe(ENCODER, config={"model": {"name": str(encoder), "precision": "fp32"}})
    for head in heads:
        nlp.add_pipe(head, config=HEADS[head])
    examples, optimizer = make_examples(nlp), AdamW_v1(3e-3)
    nlp.initialize(lambda: examples)
    for _ in range(25):
        nlp.update(examples, sgd=optimizer)
    return nlp


@pytest.fixture(scope="module")
def pipeline(tiny_bert, folder):
    """Directory of a pipeline of `biomed_ner`."""
    build(tiny_bert, "biomed_ner").to_disk(folder / "ner")
    return folder / "ner"


@pytest.fixture(scope="module")
def check(folder):
    """A corpus that has everything annotated."""
    nlp = spacy.blank("en")
    docs = [example.reference for example in make_examples(nlp)]
    DocBin(docs=docs, store_user_data=True).to_disk(folder / "dev.spacy")
    return folder / "dev.spacy"


@pytest.fixture(scope="module")
def unannotated(folder):
    nlp = spacy.blank("en")
    DocBin(docs=[nlp.make_doc(text) for text, _ in GOLD]).to_disk(folder / "raw.spacy")
    return folder / "raw.spacy"


@pytest.fixture
def earlier(pipeline, tmp_path):
    """An output of an earlier run, and what is in it."""
    output = tmp_path / "output"
    with replacing_directory(output, compression.MADE_BY) as partial:
        (partial / "meta.json").write_text("{}")
        (partial / "earlier").write_text("as it was")
    before = contents(output)
    yield output
    assert contents(output) == before
    assert list(tmp_path.iterdir()) == [output]  # nor anything half written


def contents(path):
    return {
        file.relative_to(path).as_posix(): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    }


def size(path):
    return sum(len(content) for content in contents(path).values())


def scores(path, check):
    nlp = spacy.load(path)
    return nlp.evaluate(list(Corpus(check)(nlp)))


def rows(path, texts):
    nlp = spacy.load(path)
    batch = nlp.get_pipe(ENCODER).model.predict([nlp.make_doc(text) for text in texts])
    return batch.hidden.astype("float64")


def refuse(*arguments, **settings):
    with pytest.raises(BiomedError) as error:
        compress_pipeline(*arguments, **settings)
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("checked", [False, True])
def test_the_report_is_what_can_be_measured(pipeline, check, tmp_path, precision, checked):
    output = tmp_path / "made" / "output"
    report = compress_pipeline(
        str(pipeline), output, precision=precision, check=check if checked else None, max_loss=100
    )
    assert report.precision == precision
    assert (report.bytes_before, report.bytes_after) == (size(pipeline), size(output))
    expected = {}, {}
    if checked:
        expected = tuple({"ents_f": scores(path, check)["ents_f"]} for path in (pipeline, output))
        assert expected[0]["ents_f"] > 0.5
    assert (report.scores_before, report.scores_after) == expected
    texts = [text for text, _ in GOLD] if checked else SAMPLE_TEXTS
    old, new = rows(pipeline, texts), rows(output, texts)
    products = (old * new).sum(axis=1)
    cosines = products / np.linalg.norm(old, axis=1) / np.linalg.norm(new, axis=1)
    assert report.cosine == pytest.approx(cosines.mean(), abs=1e-5)
    assert report.difference == pytest.approx(np.abs(old - new).max(), abs=1e-5)
    if precision == "fp32":
        assert report.cosine > 0.9999 and report.difference < 1e-4
    else:
        assert report.cosine > 0.95 and report.difference > 1e-3
    # Embeddings are quantised only where scores say that it costs nothing.
    assert report.quantized_embeddings is (precision == "int8" and checked)
    [settings] = exported_settings(output)
    assert settings["precision"] == precision
    assert settings["quantized_embeddings"] is report.quantized_embeddings


@pytest.mark.slow
def test_everything_but_the_encoder_is_as_it_was(pipeline, tmp_path):
    report = compress_pipeline(str(pipeline), tmp_path / "output", precision="fp32")
    assert report.loss == 0.0
    before, after = contents(pipeline), contents(tmp_path / "output")
    del after[MARKER], after[CHECKSUMS]
    own = {name for name in before if not name.startswith(f"{ENCODER}/encoder/")}
    assert {name for name in after if not name.startswith(f"{ENCODER}/encoder/")} == own
    assert {name for name in own if after[name] != before[name]} == {
        "config.cfg",
        "vocab/strings.json",
    }
    assert sorted(set(after) - own) == [
        f"{ENCODER}/encoder/{name}" for name in ("encoder.json", "model.onnx", "tokenizer.json")
    ]
    old, new = spacy.load(pipeline), spacy.load(tmp_path / "output")
    assert new.component_names == old.component_names == [ENCODER, "biomed_ner"]
    assert new.get_pipe_meta(ENCODER).factory == "biomed_onnx_transformer"
    configs = [json.loads(json.dumps(nlp.config)) for nlp in (old, new)]
    assert configs[0]["components"].pop(ENCODER) != configs[1]["components"].pop(ENCODER)
    assert configs[0] == configs[1]


@pytest.mark.slow
def test_classes_of_texts_are_compressed_as_well(tiny_bert, check, tmp_path):
    build(tiny_bert, "textcat_multilabel").to_disk(tmp_path / "textcat")
    output = tmp_path / "output"
    report = compress_pipeline(
        str(tmp_path / "textcat"), output, precision="int8", check=check, max_loss=100
    )
    for measured, path in (
        (report.scores_before, tmp_path / "textcat"),
        (report.scores_after, output),
    ):
        assert measured == {"cats_score": scores(path, check)["cats_score"]}
        assert measured["cats_score"] > 0.5
    texts = [text for text, _ in GOLD]
    expected = [doc.cats for doc in spacy.load(tmp_path / "textcat").pipe(texts)]
    for doc, cats in zip(spacy.load(output).pipe(texts), expected, strict=True):
        assert doc.cats == pytest.approx(cats, abs=0.1)


def test_every_encoder_is_exported_disabled_ones_too(tiny_bert, tiny_roberta, tmp_path):
    nlp = spacy.blank("en")
    for name, path in (("one", tiny_bert), ("two", tiny_roberta)):
        nlp.add_pipe(ENCODER, name, config={"model": {"name": str(path), "precision": "fp32"}})
        model = {"tok2vec": {**LISTENER, "upstream": name}}
        nlp.add_pipe("biomed_ner", f"ner_{name}", config={"model": model})
    examples = make_examples(nlp)
    nlp.initialize(lambda: examples)
    nlp.disable_pipe("two")
    assert list(find_encoders(nlp)) == ["one", "two"]
    nlp.to_disk(tmp_path / "pipeline")
    report = compress_pipeline(str(tmp_path / "pipeline"), tmp_path / "output", precision="fp32")
    assert report.cosine > 0.9999
    compressed = spacy.load(tmp_path / "output")
    assert compressed.disabled == ["two"]
    assert find_encoders(compressed) == {}
    assert compressed.get_pipe("one").listening_components == ["ner_one"]
    names = [settings["name"] for settings in exported_settings(tmp_path / "output")]
    assert names == [str(tiny_bert), str(tiny_roberta)]


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("checked", [False, True])
def test_scores_in_the_meta_are_those_of_the_compressed_pipeline(
    pipeline, check, tmp_path, precision, checked
):
    described, output = tmp_path / "described", tmp_path / "output"
    shutil.copytree(pipeline, described)
    meta = json.loads((pipeline / "meta.json").read_text(encoding="utf8"))
    meta["performance"] = {"ents_f": 0.25}
    (described / "meta.json").write_text(json.dumps(meta), encoding="utf8")
    compress_pipeline(
        str(described), output, precision=precision, check=check if checked else None, max_loss=100
    )
    written = json.loads((output / "meta.json").read_text(encoding="utf8"))["performance"]
    if checked:
        assert written == {"ents_f": scores(output, check)["ents_f"]}
        assert written["ents_f"] > 0.5
    else:
        assert written == ({"ents_f": 0.25} if precision == "fp32" else {})


def test_requirements_for_pytorch_are_dropped(pipeline, tmp_path):
    shutil.copytree(pipeline, tmp_path / "described")
    meta = json.loads((pipeline / "meta.json").read_text(encoding="utf8"))
    meta["requirements"] = ["spacy-biomed[train]>=0.1.0,<0.2", "other[train]>=1"]
    (tmp_path / "described" / "meta.json").write_text(json.dumps(meta), encoding="utf8")
    compress_pipeline(str(tmp_path / "described"), tmp_path / "output", precision="fp32")
    written = json.loads((tmp_path / "output" / "meta.json").read_text(encoding="utf8"))
    assert written["requirements"] == ["spacy-biomed>=0.1.0,<0.2", "other[train]>=1"]


def test_embeddings_stay_in_fp32_where_the_score_says_so(pipeline, check, tmp_path, monkeypatch):
    """Before, with embeddings quantised, without."""
    measured = iter([0.9, 0.8, 0.898])
    monkeypatch.setattr(
        compression, "weighted_scores", lambda nlp, examples: {"ents_f": next(measured)}
    )
    report = compress_pipeline(str(pipeline), tmp_path / "output", precision="int8", check=check)
    assert not report.quantized_embeddings
    assert report.loss == pytest.approx(0.2)
    [settings] = exported_settings(tmp_path / "output")
    assert settings["precision"] == "int8"
    assert settings["quantized_embeddings"] is False


def test_the_loss_is_that_of_the_score_that_fell_most():
    report = CompressionReport("int8")
    assert report.loss == 0.0
    report.scores_before = {"ents_f": 0.8, "cats_score": 0.5}
    report.scores_by_engine = {"onnxruntime": {"ents_f": 0.9, "cats_score": 0.49}}
    assert report.loss == pytest.approx(1.0)
    report.scores_by_engine["openvino"] = {"ents_f": 0.78, "cats_score": 0.52}
    assert report.loss == pytest.approx(2.0)
    del report.scores_by_engine["onnxruntime"]
    assert report.loss == pytest.approx(2.0)
    report.scores_by_engine["openvino"]["ents_f"] = 0.9
    assert report.loss == pytest.approx(-2.0)


def test_encoders_are_compared_in_fp32(pipeline, tmp_path):
    """Whatever PyTorch computes in, which it goes on to do."""
    nlp = spacy.load(pipeline)
    compress_pipeline(str(pipeline), tmp_path / "output", precision="fp32")
    compressed = spacy.load(tmp_path / "output")
    shim = nlp.get_pipe(ENCODER).model.shims[0]
    shim.computes_in = "bf16"
    cosine, difference = compare_encoders(nlp, compressed, [text for text, _ in GOLD])
    assert (cosine, difference) == (pytest.approx(1.0, abs=1e-6), pytest.approx(0.0, abs=1e-4))
    assert shim.computes_in == "bf16"


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_a_score_that_falls_too_far_is_refused(pipeline, check, earlier, precision):
    line = refuse(str(pipeline), earlier, precision=precision, check=check, max_loss=-1000)
    assert line.startswith(f"{check}: in {precision} the score falls by ")
    assert "--max-loss is -1000; nothing was written: raise it" in line
    assert ("use --precision fp32" in line) == (precision == "int8")


@pytest.mark.parametrize("max_loss, is_refused", [(1.9, True), (2.1, False)])
def test_max_loss_counts_points_of_100(
    pipeline, check, tmp_path, monkeypatch, max_loss, is_refused
):
    measured = iter([0.9, 0.88])
    monkeypatch.setattr(
        compression, "weighted_scores", lambda nlp, examples: {"ents_f": next(measured)}
    )
    settings = {"precision": "fp32", "check": check, "max_loss": max_loss}
    if is_refused:
        assert "falls by 2.00 points" in refuse(str(pipeline), tmp_path / "output", **settings)
    else:
        compress_pipeline(str(pipeline), tmp_path / "output", **settings)
    assert (tmp_path / "output").exists() != is_refused


@pytest.fixture
def export_another(tiny_bert, monkeypatch):
    """Export, in the encoder's place, one whose weights were changed."""

    def replace(change):
        export = onnx_export.export_encoder

        def export_changed(model, path, **settings):
            other = TransformerModel_v1(str(tiny_bert), precision="fp32").initialize()
            change(other.shims[0]._model)
            export(other, path, **settings)

        monkeypatch.setattr(onnx_export, "export_encoder", export_changed)

    return replace


def shift(encoder):
    bias = encoder.encoder.layer[-1].output.LayerNorm.bias
    bias.data += 1.0 - 2.0 * (torch.arange(16) % 2)


def lose(encoder):
    encoder.encoder.layer[-1].output.LayerNorm.weight.data *= math.nan


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("change", [shift, lose])
@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_an_encoder_that_computes_something_else_is_refused(
    pipeline, earlier, export_another, change, precision
):
    export_another(change)
    line = refuse(str(pipeline), earlier, precision=precision)
    assert line.startswith(f"{pipeline}: written in {precision}, the encoder's rows agree with")
    assert f"{0.9999 if precision == 'fp32' else 0.9} is the least allowed" in line
    assert ("try --precision fp32" in line) == (precision == "int8")


def test_a_pipeline_without_an_encoder_of_pytorch_is_refused(pipeline, tmp_path, earlier):
    spacy.blank("en").to_disk(earlier.parent / "blank")
    line = refuse(str(earlier.parent / "blank"), earlier)
    shutil.rmtree(earlier.parent / "blank")
    assert "blank: no encoder in PyTorch to export" in line


def test_a_compressed_pipeline_is_not_compressed_again(pipeline, tmp_path):
    compress_pipeline(str(pipeline), tmp_path / "output", precision="fp32")
    line = refuse(str(tmp_path / "output"), tmp_path / "again")
    assert "output: no encoder in PyTorch to export" in line
    assert not (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.spacy", "no.spacy: no such file; "),
        ("cut.spacy", "cut.spacy: not a readable .spacy file"),
        ("none.spacy", "none.spacy: no documents there"),
    ],
)
def test_a_check_corpus_that_cannot_be_read_is_refused(
    pipeline, check, folder, earlier, name, message
):
    (folder / "cut.spacy").write_bytes(check.read_bytes()[:100])
    DocBin().to_disk(folder / "none.spacy")
    assert message in refuse(str(pipeline), earlier, check=folder / name)


def test_in_half_precision_a_pipeline_takes_half_the_space_and_is_trained_on(
    pipeline, check, tmp_path
):
    report = compress_pipeline(str(pipeline), tmp_path / "half", precision="fp16", check=check)
    assert report.scores_after == report.scores_before and report.cosine > 0.9999
    sizes = [
        sum((folder / name).stat().st_size for name in (f"{ENCODER}/encoder/{WEIGHTS}", HEAD_MODEL))
        for folder in (pipeline, tmp_path / "half")
    ]
    assert 0.4 < sizes[1] / sizes[0] < 0.7  # names and shapes take their space in both
    stored = load_file(tmp_path / "half" / ENCODER / "encoder" / WEIGHTS)
    assert {weight.dtype for weight in stored.values()} == {torch.float16}
    nlp, whole = spacy.load(tmp_path / "half"), spacy.load(pipeline)
    kinds = {str(weight.dtype) for weight in weights_of(nlp)}
    assert kinds == {"torch.float32", "float32"}
    for own, other in zip(weights_of(nlp), weights_of(whole), strict=True):
        np.testing.assert_array_equal(np.asarray(own), np.asarray(other).astype("float16"))
    before = [np.asarray(weight).copy() for weight in weights_of(nlp)]
    nlp.update(make_examples(nlp), sgd=AdamW_v1(1e-3))
    changed = [(np.asarray(a) != b).any() for a, b in zip(weights_of(nlp), before, strict=True)]
    assert sum(changed) > 0.9 * len(changed)


def weights_of(nlp):
    """All numbers of the encoder and of the head."""
    encoder = nlp.get_pipe(ENCODER).model.shims[0]._model
    head = nlp.get_pipe("biomed_ner").model
    nodes = [node for node in head.walk() if node.name != ENCODER]
    own = [node.get_param(name) for node in nodes for name in node.param_names]
    return [*(parameter.detach() for parameter in encoder.parameters()), *own]


def test_a_weight_that_half_precision_cannot_hold_is_refused(tiny_bert, earlier):
    nlp = build(tiny_bert, "biomed_ner")
    with torch.no_grad():
        next(nlp.get_pipe(ENCODER).model.shims[0]._model.parameters())[0, 0] = 70000.0
    nlp.to_disk(earlier.parent / "large")
    line = refuse(str(earlier.parent / "large"), earlier, precision="fp16")
    shutil.rmtree(earlier.parent / "large")
    assert "a weight of 7e+04 is too large for fp16; keep the pipeline as it is" in line


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_no_words_of_the_training_texts_are_left_in_the_vocabulary(pipeline, tmp_path, precision):
    assert "cancer" in json.loads((pipeline / "vocab" / "strings.json").read_text())
    compress_pipeline(str(pipeline), tmp_path / "output", precision=precision)
    strings = json.loads((tmp_path / "output" / "vocab" / "strings.json").read_text())
    assert strings == ["D"]
    texts = [text for text, _ in GOLD]
    found, expected = (
        [[(ent.text, ent.label_) for ent in doc.ents] for doc in spacy.load(folder).pipe(texts)]
        for folder in (tmp_path / "output", pipeline)
    )
    assert found == expected and any(found)


def test_a_calibrated_copy_has_no_words_of_texts(pipeline, check, tmp_path):
    calibrate_pipeline(str(pipeline), tmp_path / "output", dev=check)
    strings = json.loads((tmp_path / "output" / "vocab" / "strings.json").read_text())
    assert strings == ["D"]


@pytest.mark.slow
def test_nor_beside_spacys_own_components(tiny_bert, tmp_path):
    nlp = build(tiny_bert, "biomed_ner", "textcat_multilabel")
    nlp.to_disk(tmp_path / "both")
    compress_pipeline(str(tmp_path / "both"), tmp_path / "output", precision="fp32")
    strings = json.loads((tmp_path / "output" / "vocab" / "strings.json").read_text())
    assert strings == ["D", "DRUG", "GENE"]
    cats = [spacy.load(tmp_path / name)(GOLD[0][0]).cats for name in ("both", "output")]
    assert cats[0] == pytest.approx(cats[1], abs=1e-3)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("head", HEADS)
def test_a_check_corpus_without_annotations_is_refused(
    tiny_bert, unannotated, folder, earlier, head
):
    build(tiny_bert, head).to_disk(folder / f"{head}-alone")
    line = refuse(str(folder / f"{head}-alone"), earlier, check=unannotated)
    assert line.startswith(f"{unannotated}: has nothing that the pipeline's scores count; ")
    assert line.endswith(f"what {ENCODER}, {head} annotate")


@pytest.mark.parametrize(
    ("recall", "problem"),
    [
        ({"unseen_share": 1.0}, "unseen_share = 1.0: use a number between 0 and 1"),
        ({"unseen_share": 0.3}, "the corpus does not mark what was seen in training"),
        ({"target_recall": 2.0}, "target_recall = 2.0: "),
        ({"target_recall": {"NONE": 0.9}}, "a recall for 'NONE': "),
        ({"recall_measure": "some"}, "recall_measure = 'some': "),
    ],
)
def test_a_wrong_recall_is_refused_before_the_work(
    monkeypatch, pipeline, check, earlier, recall, problem
):
    monkeypatch.delattr("spacy_biomed.packaging.compression._write_and_compare")
    assert problem in refuse(str(pipeline), earlier, check=check, **recall)


def test_without_scipy_no_calibration_is_begun(monkeypatch, pipeline, check, earlier):
    monkeypatch.delattr("spacy_biomed.packaging.compression._write_and_compare")
    monkeypatch.setattr("spacy_biomed.pipeline.ner.calibrating.find_spec", lambda name: None)
    assert refuse(str(pipeline), earlier, check=check).startswith("calibrating needs SciPy")


def test_an_unknown_precision_is_refused(pipeline, earlier):
    assert refuse(str(pipeline), earlier, precision="int4") == (
        "--precision int4: use fp32, int8 or fp16; did you mean int8?"
    )


def test_a_pipeline_that_is_not_there_is_refused(earlier):
    line = refuse(str(earlier.parent / "none"), earlier)
    assert line.startswith(f"{earlier.parent}/none: neither an installed pipeline package nor")


@pytest.mark.parametrize(
    "name",
    [
        "config.cfg",
        "meta.json",
        "tokenizer",
        "vocab/strings.json",
        "biomed_ner/cfg",
        "biomed_ner/model",
        "biomed_transformer/encoder/model.safetensors",
        "biomed_transformer/encoder/tokenizer.json",
    ],
)
def test_a_damaged_pipeline_is_refused(pipeline, tmp_path, name):
    damaged = shutil.copytree(pipeline, tmp_path / "damaged")
    content = (damaged / name).read_bytes()
    (damaged / name).write_bytes(content[: len(content) // 2])
    line = refuse(str(damaged), tmp_path / "output")
    assert re.fullmatch(
        f"{damaged}: not a (readable|complete) pipeline \\(.+\\); copy or install it again", line
    )
    assert not (tmp_path / "output").exists()


def test_an_output_with_other_things_is_found_before_the_work(pipeline, tmp_path, monkeypatch):
    monkeypatch.setattr(compression, "weighted_scores", None)
    monkeypatch.setattr(compression, "write_compressed", None)
    (tmp_path / "file").write_text("a file")
    (tmp_path / "photographs").mkdir()
    (tmp_path / "photographs" / "1.jpg").write_bytes(b"")
    assert "this is a file" in refuse(str(pipeline), tmp_path / "file")
    assert "did not write" in refuse(str(pipeline), tmp_path / "photographs")
    assert (tmp_path / "photographs" / "1.jpg").is_file()


def test_a_pipeline_does_not_take_its_own_place(pipeline):
    before = contents(pipeline)
    line = refuse(str(pipeline), pipeline.parent / "." / pipeline.name)
    assert "is what is read" in line
    line = refuse(str(pipeline), pipeline.parent)  # `compress par/best par`
    assert f"holds {pipeline}, which is read" in line
    assert contents(pipeline) == before


@pytest.mark.slow
def test_an_output_of_an_earlier_run_is_replaced(pipeline, tmp_path):
    with replacing_directory(tmp_path / "output", compression.MADE_BY) as partial:
        for name in ("meta.json", "earlier"):
            (partial / name).write_text("{}")
    compress_pipeline(str(pipeline), tmp_path / "output", precision="fp32")
    assert not (tmp_path / "output" / "earlier").exists()
    assert spacy.load(tmp_path / "output").pipe_names == [ENCODER, "biomed_ner"]
    assert [path.name for path in tmp_path.iterdir()] == ["output"]


def test_without_onnx_the_line_says_what_to_install(pipeline, earlier, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnx", None)
    line = refuse(str(pipeline), earlier)
    assert line == f"exporting an encoder needs onnx: {install_command('train')}"


def test_calibrated_int8_gives_a_text_the_same_scores_in_any_batch(pipeline, check, tmp_path):
    report = compress_pipeline(str(pipeline), tmp_path / "out", check=check, calibrate=check)
    assert report.static
    [settings] = exported_settings(tmp_path / "out")
    assert settings["static"]
    nlp = spacy.load(tmp_path / "out")
    texts = [text for text, _ in GOLD]
    together = [[(e.text, e._.confidence) for e in doc.ents] for doc in nlp.pipe(texts)]
    alone = [[(e.text, e._.confidence) for e in nlp(text).ents] for text in texts]
    assert any(together)
    for left, right in zip(together, alone, strict=True):
        assert [text for text, _ in left] == [text for text, _ in right]
        np.testing.assert_allclose([c for _, c in left], [c for _, c in right], atol=1e-5)


@pytest.mark.slow
def test_without_calibration_ranges_are_those_of_a_batch(pipeline, check, tmp_path):
    report = compress_pipeline(str(pipeline), tmp_path / "out", check=check)
    assert not report.static
    [settings] = exported_settings(tmp_path / "out")
    assert not settings["static"]


@pytest.mark.slow
def test_the_heads_of_a_compressed_pipeline_are_those_of_the_trained_one(pipeline, tmp_path):
    compress_pipeline(str(pipeline), tmp_path / "out")
    before, after = (
        spacy.load(path).get_pipe("biomed_ner").model for path in (pipeline, tmp_path / "out")
    )
    rows = np.random.default_rng(0).normal(size=(50, before.get_ref("first").get_dim("nI")))
    rows = Ragged(rows.astype("float32"), np.array([20, 30], dtype="int32"))
    expected = before.layers[1].predict(rows)
    np.testing.assert_array_equal(after.layers[1].predict(rows), expected)


def test_a_copy_of_the_layers_that_a_former_version_wrote_is_not_read(pipeline, tmp_path):
    shutil.copytree(pipeline, tmp_path / "former")
    path = tmp_path / "former" / "biomed_ner" / "model"
    content = srsly.msgpack_loads(path.read_bytes())
    index = next(i for i, shims in enumerate(content["shims"]) if shims)
    content["shims"][index] = [b"an ONNX model"]
    path.write_bytes(srsly.msgpack_dumps(content))
    (tmp_path / "former" / "SHA256SUMS").unlink(missing_ok=True)
    text = "Aspirin reduced the risk of stroke."
    before, after = (spacy.load(one)(text) for one in (pipeline, tmp_path / "former"))
    assert [(ent.text, ent.label_) for ent in before.ents] == [
        (ent.text, ent.label_) for ent in after.ents
    ]
    assert b"an ONNX model" not in spacy.load(tmp_path / "former").to_bytes()


@needs_openvino
def test_the_scores_of_each_engine_are_checked(pipeline, check, earlier, monkeypatch):
    monkeypatch.delenv("SPACY_BIOMED_ENGINE")
    scored = []

    def score(nlp, examples):
        shim = nlp.get_pipe(ENCODER).model.shims[0]
        scored.append(shim.choice if hasattr(shim, "choice") else "PyTorch")
        return {"ents_f": 0.5 if scored[-1] == "openvino" else 0.9}

    monkeypatch.setattr(compression, "weighted_scores", score)
    assert "falls by 40.00 points" in refuse(str(pipeline), earlier, check=check, calibrate=check)
    # With embeddings in int8, and again with embeddings in fp32.
    assert scored == ["PyTorch", *["onnxruntime", "openvino"] * 2]


@pytest.mark.slow(least=1)
@needs_openvino
@pytest.mark.parametrize("allowed", ["auto", "openvino"])
def test_int8_for_onnx_runtime_is_checked_there_alone(
    pipeline, check, tmp_path, monkeypatch, allowed
):
    monkeypatch.setenv("SPACY_BIOMED_ENGINE", allowed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if allowed == "openvino" else "error", UserWarning)
        report = compress_pipeline(str(pipeline), tmp_path / "out", check=check)
    assert list(report.scores_by_engine) == ["onnxruntime"]


def test_only_int8_is_calibrated(pipeline, check, earlier):
    for precision in ("fp32", "fp16"):
        line = refuse(str(pipeline), earlier, precision=precision, calibrate=check)
        assert line.endswith(f"only int8 needs it, not {precision}")


def test_a_calibration_corpus_that_cannot_be_used_is_refused(pipeline, earlier, folder):
    missing, empty = folder / "missing.spacy", folder / "empty.spacy"
    DocBin(docs=[spacy.blank("en").make_doc("")]).to_disk(empty)
    assert "missing.spacy: no such file" in refuse(str(pipeline), earlier, calibrate=missing)
    assert "empty.spacy: no texts to measure" in refuse(str(pipeline), earlier, calibrate=empty)
