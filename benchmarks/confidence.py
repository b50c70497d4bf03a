"""Measure how well the confidence of entities is calibrated, by engine and precision.

Prints for each pipeline and test part the expected calibration error (ten bins, over entities) of
the model's own probability and of the confidence. Run from the root of the repository:

    python benchmarks/confidence.py compressed/ncbi_disease corpus/ncbi_disease/test.spacy
    python benchmarks/confidence.py training/ncbi_disease/model-best corpus/ncbi_disease/test.spacy
"""

from __future__ import annotations

import argparse
from pathlib import Path

import spacy
from spacy.language import Language

from spacy_biomed.evaluation.pipeline_worker import spread
from spacy_biomed.pipeline.development import OPEN, RIGHT, read_development
from spacy_biomed.pipeline.pipeline_loading import load_pipeline
from spacy_biomed.pipeline.reliability import Reliability
from spacy_biomed.training.corpus import Corpus_v1

EXPORTED = "biomed_onnx_transformer"


def list_settings(nlp: Language) -> dict[str, dict[str, str]]:
    """What the encoders of a pipeline can compute with, as settings of its config by a title."""
    encoders = {
        name: nlp.get_pipe_meta(name).factory
        for name in nlp.pipe_names
        if nlp.get_pipe_meta(name).factory in (EXPORTED, "biomed_transformer")
    }
    if EXPORTED in encoders.values():
        setting, values = "engine", ["onnxruntime", "openvino"]
    else:
        setting, values = "precision", ["fp32", "bf16"]
    return {
        value: {f"components.{name}.model.{setting}": value for name in encoders}
        for value in values
    }


def measure(nlp: Language, test: Path, count: int) -> None:
    examples = spread(list(Corpus_v1(test)(nlp)), count or 10**9)
    for name, part in read_development(nlp, examples).items():
        spans, probability = part.decode()
        judged = part.judge(spans)
        confidence = part.head.calibrate(probability, spans.label)
        is_right = judged[judged != OPEN] == RIGHT
        own = Reliability.measure(probability[judged != OPEN], is_right)
        fitted = Reliability.measure(confidence[judged != OPEN], is_right)
        if len(is_right):
            print(
                f"{test.parent.name:20} {name:12} {len(is_right):7,} entities, "
                f"{is_right.mean():.3f} correct, error {own.error:.4f} -> {fitted.error:.4f}",
                flush=True,
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline", help="installed package or pipeline directory")
    parser.add_argument("test", type=Path, nargs="+", help=".spacy file")
    parser.add_argument("--count", type=int, default=0, help="documents of each file; 0 for all")
    given = parser.parse_args()
    for title, settings in list_settings(load_pipeline(given.pipeline)).items():
        print(f"{given.pipeline}, {title}")
        nlp = spacy.load(given.pipeline, config=settings)
        for test in given.test:
            measure(nlp, test, given.count)


if __name__ == "__main__":
    main()
