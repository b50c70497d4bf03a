"""F1, or the share of personal data that is replaced, on a corpus whose texts are changed.

python benchmarks/robustness.py PIPELINE corpus/public/meddocan/test.spacy --deidentify
"""

from argparse import ArgumentParser

from spacy_biomed.bulk.deidentification import Deidentification
from spacy_biomed.evaluation.robustness import measure_robustness
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.pipeline.pipeline_loading import load_pipeline


def main() -> None:
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("pipeline")
    parser.add_argument("corpus", help=".spacy file with gold mentions")
    parser.add_argument("--deidentify", action="store_true", help="count what is replaced")
    arguments = parser.parse_args()
    nlp = load_pipeline(arguments.pipeline)
    if arguments.deidentify:
        Deidentification().prepare(nlp)
    print("| text | P | R | F1 | documents clean |\n| --- | ---: | ---: | ---: | ---: |")
    for one in measure_robustness(nlp, list(read_docs(arguments.corpus, nlp.vocab))):
        shares = [one.precision, one.recall, one.f1, *([] if one.clean is None else [one.clean])]
        print("|", one.change, "|", " | ".join(f"{100 * x:.1f}" for x in shares), "|", flush=True)


if __name__ == "__main__":
    main()
