"""F1, or the share of personal data that is replaced, on texts as people type them.

    python benchmarks/robustness.py packages/... corpus/public/bc5cdr/test.spacy
    python benchmarks/robustness.py PIPELINE corpus/public/meddocan/test.spacy --deidentify

Each corpus is changed as `spacy_biomed.evaluation.robustness.CHANGES` has it: whole texts in
capitals, in small letters, without accents, with typographic hyphens and spaces, invisible
characters, wrapped. Offsets of the gold mentions move along. With --deidentify the pipeline gets
`biomed_phi_patterns` and `biomed_deidentify`, and a gold mention counts if all of its letters and
digits are replaced.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from spacy_biomed.evaluation.robustness import CHANGES, measure_robustness
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.pipeline.deidentify import add_deidentifier
from spacy_biomed.pipeline.phi_patterns import add_patterns
from spacy_biomed.pipeline.pipeline_loading import load_pipeline


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pipeline", help="directory or installed package")
    parser.add_argument("corpora", nargs="+", type=Path, help=".spacy files")
    parser.add_argument("--deidentify", action="store_true")
    parser.add_argument("--documents", type=int, default=0, help="first documents; 0: all")
    parser.add_argument("--change", action="append", choices=[*CHANGES], help="default: all")
    arguments = parser.parse_args()
    nlp = load_pipeline(arguments.pipeline)
    if arguments.deidentify:
        add_patterns(nlp, before=add_deidentifier(nlp).name)
    for path in arguments.corpora:
        docs = list(read_docs(path, nlp.vocab))[: arguments.documents or None]
        print(f"\n{path}: {len(docs)} documents\n")
        print("| text | P | R | F1 | documents clean |\n| --- | ---: | ---: | ---: | ---: |")
        for one in measure_robustness(nlp, docs, arguments.change or tuple(CHANGES)):
            shares = (one.precision, one.recall, one.f1)
            clean = "" if one.clean is None else f"{100 * one.clean:.1f}"
            figures = " | ".join(f"{100 * share:.1f}" for share in shares)
            print(f"| {one.change} | {figures} | {clean} |", flush=True)


if __name__ == "__main__":
    main()
