"""De-identification beside Microsoft Presidio: recall, documents wholly clean, and words a second.

    python benchmarks/deidentification.py assets/pipelines/es_clinical_ner \
        corpus/public/meddocan --presidio-python presidio/bin/python

Presidio (`pip install presidio-analyzer`) runs in an environment of its own. PyPI does not have
spaCy's Spanish and English models. Without them Presidio has a blank pipeline: its recognisers of
patterns and checksums run, and it finds no names, places or institutions. So compare its recall of
those labels with nothing. Both annotate the same texts in turns. Gold mentions count as in
`spacy_biomed.pipeline.score_deidentification`, for the gold labels given by --labels too, for which
both have patterns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from comparisons import (
    CONTESTANTS,
    Check,
    Contest,
    TextSet,
    console,
    create_parser,
    positive,
    report,
    run_program,
)
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_biomed.annotations.deidentified import Deidentified
from spacy_biomed.deidentification.mentions import Mention, merge_overlapping
from spacy_biomed.deidentification.phi_kinds import KINDS_OF_LABELS
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.pipeline.deidentification_scores import DeidentificationScores
from spacy_biomed.training.config import read_description

OURS, PRESIDIO = "spacy-biomed", "Presidio"


def main() -> None:
    parser = create_parser(__doc__, "deidentification.json", repeats=3)
    parser.add_argument("pipeline")
    parser.add_argument("corpus", type=Path, help="folder written by `spacy biomed convert`")
    parser.add_argument("--presidio-python", required=True, help="interpreter of its environment")
    parser.add_argument("--documents", type=positive, default=50, help="the first of the test part")
    parser.add_argument("--labels", nargs="*", default=["CONTACTO", "FECHA", "IDENTIFICADOR"])
    args = parser.parse_args()
    gold = list(read_docs(args.corpus / "test.spacy", Vocab()))[: args.documents]
    texts = TextSet(args.corpus.name, [doc.text for doc in gold], sum(map(len, gold)))
    with Contest(args.threads, args.repeats) as contest:
        contest.start([OURS], CONTESTANTS)
        contest.start([PRESIDIO], CONTESTANTS, python=args.presidio_python)
        contest.ask(OURS, "load", kind="de-identification", path=args.pipeline)
        language = read_description(args.corpus)["language"]
        contest.ask(PRESIDIO, "load", kind="Presidio", language=language)
        contest.run(texts, [OURS, PRESIDIO])
        spans = {name: contest.ask(name, "find", texts=texts.texts) for name in contest.workers}
    scores = {
        f"{name}, {title}": score(gold, found, labels)
        for name, found in spans.items()
        for title, labels in (("all labels", None), (", ".join(args.labels), args.labels))
    }
    for name, own in scores.items():
        by_label = own["deid_per_type"].items()
        recalls = " ".join(f"{label} {rates['r']:.1%}" for label, rates in by_label if rates["r"])
        console.print(
            f"{name}: recall {own['deid_r']:.1%}, precision {own['deid_p']:.1%}, "
            f"clean {own['deid_clean_documents']:.1%}\n    {recalls}"
        )
    checks = [
        Check("words a second, ours vs Presidio", contest.ratio(texts.name, OURS, PRESIDIO), None)
    ]
    report(contest, args, checks, scores=scores)


def score(gold: list[Doc], found: list[list], labels: list[str] | None) -> dict[str, Any]:
    """Scores, whose precision means something only if all labels are scored."""
    counts = DeidentificationScores()
    for doc, spans in zip(gold, found, strict=True):
        merged = merge_overlapping(Mention(*span) for span in spans)
        replacements = Deidentified(doc.text, [(*one, "") for one in merged]).replacements
        mentions = [(one.start_char, one.end_char, one.label_) for one in doc.ents]
        mentions += [tuple(one) for one in doc._.unaligned_mentions]
        chosen = [
            one
            for one in mentions
            if KINDS_OF_LABELS.get(one[2]) != "keep" and (labels is None or one[2] in labels)
        ]
        counts.add(doc.text, chosen, replacements)
    return counts.scores()


if __name__ == "__main__":
    run_program(main)
