"""De-identification with and without patterns and a target for recall.

    python benchmarks/clean_documents.py compressed/es_clinical_ner corpus/public/meddocan

For each of the four, the scores on the test part: documents wholly clean, mentions wholly replaced,
replacements that are right, and characters replaced needlessly. The target is fitted on the
development part for each label of personal data, by what is covered.
"""

from __future__ import annotations

import argparse
from itertools import product
from pathlib import Path

import spacy

from spacy_biomed.bulk.deidentification import Deidentification
from spacy_biomed.pipeline import calibrate
from spacy_biomed.pipeline.deidentify import BiomedDeidentifier
from spacy_biomed.training.corpus import Corpus_v1

SCORES = {
    "deid_clean_documents": "clean",
    "deid_r": "recall",
    "deid_p": "precision",
    "deid_needless_characters": "needless",
}


def score(pipeline: str, corpus: Path, has_patterns: bool, target: float | None) -> dict:
    """The scores on the test part, with a target for recall unless it is None."""
    nlp = spacy.load(pipeline)
    if target is not None:
        kind = BiomedDeidentifier().kind
        labels = [label for label in nlp.get_pipe("biomed_ner").labels if kind(label) != "keep"]
        dev = list(Corpus_v1(corpus / "dev.spacy")(nlp))
        targets = dict.fromkeys(labels, target)
        calibrate(nlp, dev, target_recall=targets, recall_measure="covered")
    Deidentification(mode="tags", patterns=has_patterns).prepare(nlp)
    test = list(Corpus_v1(corpus / "test.spacy")(nlp))
    return nlp.evaluate(test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline")
    parser.add_argument("corpus", type=Path, help="folder with dev.spacy and test.spacy")
    parser.add_argument("--target", type=float, default=0.99)
    given = parser.parse_args()
    for target, has_patterns in product((None, given.target), (False, True)):
        scores = score(given.pipeline, given.corpus, has_patterns, target)
        parts = ["model", *["patterns"] * has_patterns, *[f"target {target}"] * bool(target)]
        figures = ", ".join(f"{title} {scores[name]:.1%}" for name, title in SCORES.items())
        print(f"{' + '.join(parts)}: {figures}", flush=True)


if __name__ == "__main__":
    main()
