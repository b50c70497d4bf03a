"""A trained pipeline made smaller, and checked: its encoder in ONNX, or all weights in fp16."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import spacy
import srsly
from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example
from thinc.api import Config, Model, to_numpy

from ..encoders.loading import CONFIG, WEIGHTS
from ..encoders.onnx.engines import usable_engines
from ..encoders.onnx.onnx_model import SETTINGS
from ..errors import BiomedError, DamagedPipelineError, list_choices
from ..evaluation.pipeline_worker import directory_size, spread
from ..pipeline.checksums import replacing_pipeline
from ..pipeline.encoder_head import EncoderHead
from ..pipeline.ner.calibrating import check_recall
from ..pipeline.pipeline_loading import find_trainable, load_pipeline
from ..pipeline.saved_words import write_pipeline
from ..training.corpus import Corpus_v1
from .copies import RecallOptions, write_calibration

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..encoders.onnx.onnx_export import Quantization
    from ..pipeline.encoder_pipe import EncoderPipe
    from ..pipeline.ner.calibrating import Calibration

MADE_BY = "spacy biomed compress"

# Texts on which the outputs are compared if no corpus is given.
SAMPLE_TEXTS = (
    "Aspirin reduced the risk of colorectal cancer in patients with type 2 diabetes.",
    "Germline mutations of BRCA1 (c.68_69delAG) were found in 12 of 61 families.",
    "Paciente de 64 años con adenocarcinoma de colon, en tratamiento con capecitabina.",
    "No se observaron metástasis hepáticas; la ecografía fue normal.",
)
COMPARED_TEXTS = 200
CALIBRATION_TEXTS = 200

_LARGEST_FP16 = float(np.finfo("float16").max)

# Smallest mean cosine between rows of the exported encoder and of PyTorch's. In fp32 only the order
# of sums differs. int8 may change single rows; its cost shows in the scores.
LEAST_COSINE = {"fp32": 0.9999, "int8": 0.9, "fp16": 0.9999}

# The results of `compress`: an encoder in ONNX with weights in one of two formats, or the same
# pipeline with its weights in half precision on disk.
Compression = Literal["fp32", "int8", "fp16"]

Scores = dict[str, float]


@dataclass(slots=True)
class CompressionReport:
    """The result of a compression.

    Attributes:
        precision: of the new encoder's weights.
        quantized_embeddings: whether its embedding tables are int8 too.
        static: whether the ranges of its values in int8 were measured on calibration texts.
        cosine: mean cosine between rows of the new encoder and of the old encoder in fp32; the
            smallest of all engines.
        difference: largest absolute difference between numbers in these rows, in any engine.
        bytes_before, bytes_after: size of the pipeline's directory.
        scores_before: the scores on the check corpus, 0 to 1, that the config's weights name.
        scores_by_engine: those of the compressed pipeline in each engine; PyTorch for "fp16".
        calibrations: what was fitted on the check corpus, by the name of the component.
    """

    precision: Compression
    quantized_embeddings: bool = False
    static: bool = False
    cosine: float = 0.0
    difference: float = 0.0
    bytes_before: int = 0
    bytes_after: int = 0
    scores_before: Scores = field(default_factory=dict)
    scores_by_engine: dict[str, Scores] = field(default_factory=dict)
    calibrations: dict[str, Calibration] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        """The largest fall of a score in any engine, in points of 100."""
        return max(
            (
                100 * (self.scores_before[name] - scores[name])
                for scores in self.scores_by_engine.values()
                for name in self.scores_before
            ),
            default=0.0,
        )

    @property
    def scores_after(self) -> Scores:
        """The scores in the first engine, ONNX Runtime if it is installed; empty without any."""
        return next(iter(self.scores_by_engine.values()), {})


def compress_pipeline(
    pipeline: str,
    output: Path,
    *,
    precision: Compression = "int8",
    check: Path | None = None,
    calibrate: Path | None = None,
    max_loss: float = 0.3,
    confidence: bool = True,
    **recall: Unpack[RecallOptions],
) -> CompressionReport:
    """Write a copy of a pipeline whose encoder runs without PyTorch, or with weights in fp16.

    Each `biomed_transformer` becomes a `biomed_onnx_transformer` of the same name. Nothing else
    changes, except that words of the training texts are not written (`saved_words`). With "fp16"
    the components stay the same and can be trained further; the weights of encoders and of this
    package's heads take half the space.

    With "int8" the embedding tables are quantised too, if a check corpus shows that it costs no
    more than `max_loss`. The scores in the new meta are those on the check corpus; without one, the
    meta of "int8" and "fp16" has none. At the end the new pipeline is calibrated on the check
    corpus, in the first engine (`pipeline.calibrate`). The loss of scores is that before.

    Args:
        pipeline: directory or installed package; its PyTorch form, if it holds one.
        output: directory to write; replaced if it is there.
        precision: "fp32", "int8" or "fp16".
        check: .spacy file to score both pipelines on.
        calibrate: .spacy file with texts like those to annotate, for "int8": the ranges of the
            encoder's values are measured on up to 200 of them, evenly spaced. Without it, each
            batch of texts has ranges of its own.
        max_loss: how many points of 100 a score may fall.
        confidence: whether to calibrate, rather than keep what an earlier calibration has fitted.
        recall: target_recall, recall_measure, unseen_share, as for `pipeline.calibrate`.

    Raises:
        BiomedError: if there is no encoder to export or nothing to score. Also if the new encoder's
            rows differ too much, a score falls by more than `max_loss`, or a weight is too large
            for half precision. Nothing is written then.
    """
    if not (check and confidence) and any(one is not None for one in recall.values()):
        raise BiomedError(
            "--target-recall, --recall-measure and --unseen-share are for the calibration on "
            "--check: give a .spacy file that the pipeline was not trained on, and not "
            "--no-confidence"
        )
    if precision not in LEAST_COSINE:
        raise BiomedError(f"--precision {precision}: {list_choices(precision, LEAST_COSINE)}")
    if calibrate is not None and precision != "int8":
        raise BiomedError(f"--calibrate {calibrate}: only int8 needs it, not {precision}")
    pipeline = find_trainable(pipeline)
    sources: list[Path | str] = [pipeline, *(path for path in (check, calibrate) if path)]
    # Outputs that cannot be written and inputs that cannot be read are found before the work.
    with replacing_pipeline(output, MADE_BY, sources) as partial:
        nlp = load_pipeline(pipeline)
        if not find_encoders(nlp):
            raise BiomedError(
                f"{pipeline}: no encoder in PyTorch to export; give a trained pipeline that is not "
                "compressed"
            )
        examples = _read_examples(nlp, check) if check else []
        if check and confidence:
            check_recall(nlp, examples, **recall)
        calibration = _read_calibration(nlp, calibrate) if calibrate else []
        before = weighted_scores(nlp, examples) if examples else {}
        if check and not before:
            raise BiomedError(
                f"{check}: has nothing that the pipeline's scores count; give a corpus annotated "
                f"with what {', '.join(nlp.pipe_names)} annotate"
            )
        texts = [example.reference.text for example in examples[:COMPARED_TEXTS]] or SAMPLE_TEXTS
        for embeddings in [True, False] if precision == "int8" and examples else [False]:
            static = bool(calibration)
            report = CompressionReport(precision, embeddings, static, scores_before=before)
            _write_and_compare(nlp, partial, report, calibration, texts, check)
            refusal = _refusal(report, pipeline, check, max_loss)
            if refusal is None:
                break
        else:
            raise BiomedError(refusal)
        performance = report.scores_after
        if check and confidence and report.scores_by_engine:
            engine = next(iter(report.scores_by_engine))
            compressed = _load_in_engine(partial, find_encoders(nlp), engine)
            again = _read_examples(compressed, check)
            report.calibrations = write_calibration(compressed, partial, again, **recall)
            if any(one.recalls for one in report.calibrations.values()):
                performance = weighted_scores(compressed, again)
        if performance or precision != "fp32":
            _change_meta(partial, performance=performance)
    report.bytes_before = directory_size(nlp.path) if nlp.path else 0
    report.bytes_after = directory_size(output)
    return report


def _write_and_compare(
    nlp: Language,
    path: Path,
    report: CompressionReport,
    calibration: Sequence[Doc],
    texts: Sequence[str],
    check: Path | None,
) -> None:
    """Write a pipeline as a report says; add rows on `texts` and scores on `check` by engine."""
    engines: list[str]
    if report.precision == "fp16":
        engines = ["PyTorch"]
        write_pipeline(nlp, path)
        for name in find_encoders(nlp):
            halve_encoder(path / name / "encoder")
        halve_heads(nlp, path)
    else:
        write_compressed(nlp, path, report.precision, report.quantized_embeddings, calibration)
        able = [settings["engines"] for settings in exported_settings(path)]
        engines = [name for name in usable_engines() if all(name in own for own in able)]
        engines = engines or ["onnxruntime"]  # if the environment variable allows only another
    cosines = []
    for engine in engines:
        try:
            compressed = _load_in_engine(path, find_encoders(nlp), engine)
            cosine, difference = compare_encoders(nlp, compressed, texts)
        except DamagedPipelineError:
            cosines.append(np.nan)
            break
        cosines.append(cosine)
        report.difference = max(report.difference, difference)
        if check:
            again = _read_examples(compressed, check)
            report.scores_by_engine[engine] = weighted_scores(compressed, again)
    report.cosine = float(np.min(cosines))  # not a number if one is not


def _load_in_engine(path: Path, encoders: Iterable[str], engine: str) -> Language:
    setting = {f"components.{name}.model.engine": engine for name in encoders}
    return spacy.load(path, config=setting if engine != "PyTorch" else {})


def _refusal(
    report: CompressionReport, pipeline: str, check: Path | None, max_loss: float
) -> str | None:
    """The reason not to write a compressed pipeline; None if there is none."""
    precision, least = report.precision, LEAST_COSINE[report.precision]
    if not report.cosine >= least:  # not a number is refused, too
        advice = "try --precision fp32" if precision == "int8" else "keep the pipeline as it is"
        return (
            f"{pipeline}: written in {precision}, the encoder's rows agree with PyTorch's only to "
            f"a mean cosine of {report.cosine:.4f}, and {least} is the least allowed; nothing was "
            f"written: {advice}"
        )
    if report.loss > max_loss:
        advice = "raise it, or use --precision fp32" if precision == "int8" else "raise it"
        return (
            f"{check}: in {precision} the score falls by {report.loss:.2f} points and --max-loss "
            f"is {max_loss}; nothing was written: {advice}"
        )
    return None


def find_encoders(nlp: Language) -> dict[str, EncoderPipe]:
    """The components `biomed_transformer` of a pipeline, disabled ones too, by name."""
    return {
        name: cast("EncoderPipe", pipe)
        for name, pipe in nlp.components
        if nlp.get_pipe_meta(name).factory == "biomed_transformer"
    }


def halve_encoder(directory: Path) -> None:
    """Rewrite the encoder directory of a `biomed_transformer` with its weights in half precision.

    Raises:
        BiomedError: if a weight is too large for half precision.
    """
    import torch
    from safetensors.torch import load_file, save_file

    weights = load_file(directory / WEIGHTS)
    for name, weight in weights.items():
        if weight.is_floating_point():
            _check_weight(name, weight.abs().max().item() if weight.numel() else 0.0)
            weights[name] = weight.to(torch.float16)
    save_file(weights, directory / WEIGHTS, metadata={"format": "pt"})
    config = json.loads((directory / CONFIG).read_text(encoding="utf8"))
    config["torch_dtype"] = "float16"
    (directory / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf8")


def halve_heads(nlp: Language, path: Path) -> None:
    """Rewrite the models of a pipeline's heads, in the pipeline's directory, in half precision.

    Only heads of this package are rewritten. They compute in fp32 when they are loaded again.

    Raises:
        BiomedError: if a weight is too large for half precision.
    """
    for name, head in nlp.components:
        if not isinstance(head, EncoderHead):
            continue
        content = head.model.to_dict()
        for params in content["params"]:
            for param, value in params.items():
                if value is not None and value.dtype.kind == "f":
                    array = to_numpy(value)
                    _check_weight(f"{name}: {param}", float(np.abs(array).max(initial=0.0)))
                    params[param] = array.astype("float16")
        (path / name / "model").write_bytes(srsly.msgpack_dumps(content))


def _check_weight(name: str, largest: float) -> None:
    if not largest <= _LARGEST_FP16:
        raise BiomedError(
            f"{name}: a weight of {largest:.3g} is too large for fp16; keep the pipeline as it is"
        )


def write_compressed(
    nlp: Language,
    path: Path,
    precision: Quantization,
    quantize_embeddings: bool,
    calibration: Sequence[Doc] = (),
) -> None:
    """Write the pipeline to a directory with its encoders exported."""
    from ..encoders.onnx.onnx_export import export_encoder

    encoders = find_encoders(nlp)
    write_pipeline(nlp, path, exclude=encoders)
    config = Config(nlp.config)
    for name, encoder in encoders.items():
        old = config["components"][name]
        kept = ("window", "context", "pair_overflow", "normalize", "accents")
        config["components"][name] = {
            "factory": "biomed_onnx_transformer",
            "max_batch_words": old["max_batch_words"],
            "keep_encodings": old["keep_encodings"],
            "model": {
                "@architectures": "spacy_biomed.OnnxTransformerModel.v1",
                **{key: old["model"][key] for key in kept if key in old["model"]},
            },
        }
        export_encoder(
            encoder.model,
            path / name / "encoder",
            precision=precision,
            quantize_embeddings=quantize_embeddings,
            calibration=calibration,
        )
        srsly.write_json(path / name / "cfg", encoder.cfg)
    config.to_disk(path / "config.cfg")
    # PyTorch, which `spacy biomed card` required, is no longer needed.
    required = srsly.read_json(path / "meta.json").get("requirements")
    if required is not None:
        names = [name.replace("spacy-biomed[train]", "spacy-biomed") for name in required]
        _change_meta(path, requirements=names)


def _change_meta(path: Path, **fields: object) -> None:
    meta = srsly.read_json(path / "meta.json")
    srsly.write_json(path / "meta.json", {**meta, **fields})


def compare_encoders(old: Language, new: Language, texts: Sequence[str]) -> tuple[float, float]:
    """The mean cosine of all rows of two pipelines' encoders, and the largest difference in them.

    PyTorch's encoder computes in fp32.
    """
    cosines, largest = [], 0.0
    for name, encoder in find_encoders(old).items():
        docs = [old.make_doc(text) for text in texts]
        expected = _predict_in_fp32(encoder.model, docs)
        other: Any = new.get_pipe(name)
        actual = _predict_in_fp32(other.model, docs)
        norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(actual, axis=1)
        cosines.append((expected * actual).sum(axis=1) / np.maximum(norms, 1e-12))
        largest = max(largest, float(np.abs(expected - actual).max(initial=0.0)))
    flat = np.concatenate(cosines)
    return float(flat.mean()) if len(flat) else 1.0, largest


def _predict_in_fp32(model: Model, docs: list[Doc]) -> np.ndarray:
    """The rows of an encoder: PyTorch's in fp32, an exported one's as it computes them."""
    shim = model.shims[0]
    if not hasattr(shim, "computes_in"):
        return to_numpy(model.predict(docs).hidden)
    precision, shim.computes_in = shim.computes_in, "fp32"
    try:
        return to_numpy(model.predict(docs).hidden)
    finally:
        shim.computes_in = precision


def _read_examples(nlp: Language, path: Path) -> list[Example]:
    """Read examples as `spacy evaluate` does, or with gold entities if training was scored so."""
    dev = nlp.config.interpolate().get("corpora", {}).get("dev", {})
    return list(Corpus_v1(path, gold_entities=bool(dev.get("gold_entities")))(nlp))


def _read_calibration(nlp: Language, path: Path) -> list[Doc]:
    docs = [example.predicted for example in _read_examples(nlp, path)]
    if not any(len(doc) for doc in docs):
        raise BiomedError(f"{path}: no texts to measure ranges on; give another --calibrate")
    return spread(docs, CALIBRATION_TEXTS)


def weighted_scores(nlp: Language, examples: list[Example]) -> Scores:
    """Evaluate a pipeline, and keep the scores that its config's score weights count."""
    weights = nlp.config.interpolate()["training"]["score_weights"]
    scores = nlp.evaluate(examples)
    # If no classes are annotated, spaCy gives their scores as 0 instead of omitting them.
    if not any(example.reference.cats for example in examples):
        scores = {name: score for name, score in scores.items() if not name.startswith("cats_")}
    return {
        name: scores[name]
        for name, weight in weights.items()
        if weight and isinstance(scores.get(name), int | float)
    }


def exported_settings(pipeline: Path) -> Iterator[dict[str, Any]]:
    """Yield the content of `encoder.json` of each exported encoder in a pipeline's directory."""
    for path in sorted(pipeline.glob(f"*/encoder/{SETTINGS}")):
        yield srsly.read_json(path)
