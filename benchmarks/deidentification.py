"""De-identification beside Microsoft Presidio: recall, documents wholly clean, and words a second.

    python benchmarks/deidentification.py assets/pipelines/es_clinical_ner \
        corpus/public/meddocan/test.spacy --presidio-python presidio/bin/python

Presidio (`pip install presidio-analyzer`) runs in an environment of its own. PyPI does not have
spaCy's Spanish and English models. Without them Presidio has a blank pipeline: its recognisers of
patterns and checksums run, and it finds no names, places or institutions. So compare its recall of
those labels with nothing. Both annotate the same texts in turns, on one thread each. Gold mentions
count as in `spacy_biomed.pipeline.score_deidentification`, for the gold labels given by --labels
too, for which both have patterns.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

WORKERS = Path(__file__).parents[1] / "spacy_biomed" / "evaluation" / "workers.py"


def load_workers() -> Any:
    """The module of workers by its path: Presidio's environment has not this package."""
    spec = importlib.util.spec_from_file_location("workers", WORKERS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["workers"] = module
    spec.loader.exec_module(module)
    return module


class Presidio:
    """Answers requests in Presidio's environment."""

    def open(self, language: str) -> list[str]:
        """Create the analyzer with a blank pipeline; return the names of its recognisers."""
        import spacy
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.nlp_engine import SpacyNlpEngine

        engine = SpacyNlpEngine(models=[{"lang_code": language, "model_name": "blank"}])
        engine.nlp = {language: spacy.blank(language)}
        registry = RecognizerRegistry(supported_languages=[language])
        registry.load_predefined_recognizers(languages=[language])
        self._language = language
        self._engine = AnalyzerEngine(
            registry=registry, nlp_engine=engine, supported_languages=[language]
        )
        return sorted({one.name for one in registry.get_recognizers(language, all_fields=True)})

    def find(self, texts: list[str]) -> dict[str, Any]:
        """The found spans of each text, and the seconds that it took."""
        start = time.perf_counter()
        found = [self._engine.analyze(text, self._language) for text in texts]
        seconds = time.perf_counter() - start
        spans = [[(one.start, one.end, one.entity_type) for one in each] for each in found]
        return {"spans": spans, "seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pipeline")
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--presidio-python", required=True)
    parser.add_argument("--documents", type=int, default=50, help="the first of the corpus")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--labels", nargs="*", default=["CONTACTO", "FECHA", "IDENTIFICADOR"])
    options = parser.parse_args()
    workers = load_workers()
    threads = workers.thread_settings(1)

    import spacy

    from spacy_biomed.bulk.deidentification import Deidentification
    from spacy_biomed.formats.spacy_docs import read_docs

    nlp = spacy.load(options.pipeline)
    component = Deidentification(mode="tags").prepare(nlp)
    gold = list(read_docs(options.corpus, nlp.vocab))[: options.documents]
    texts = [doc.text for doc in gold]
    words = sum(len(text.split()) for text in texts)
    peer = workers.Worker([options.presidio_python, __file__, "--serve"], threads)
    print("Presidio's recognisers:", ", ".join(peer.ask("open", language=nlp.lang)))
    seconds: dict[str, list[float]] = {"spacy-biomed": [], "Presidio": []}
    for _ in range(options.rounds + 1):  # the first is a warm-up
        start = time.perf_counter()
        docs = list(nlp.pipe(texts))
        seconds["spacy-biomed"].append(time.perf_counter() - start)
        answer = peer.ask("find", texts=texts)
        seconds["Presidio"].append(answer["seconds"])
    peer.close()
    replaced = {
        "spacy-biomed": [doc._.deidentified.replacements for doc in docs],
        "Presidio": [
            _replacements(text, spans) for text, spans in zip(texts, answer["spans"], strict=True)
        ],
    }
    speeds = {name: words / median(times[1:]) for name, times in seconds.items()}
    for labels in (None, options.labels):
        print("all labels" if labels is None else f"only {', '.join(labels)}")
        for name, found in replaced.items():
            _print(name, _score(gold, found, component, labels), labels is None)
    for name, speed in speeds.items():
        print(f"{name}: {speed:,.0f} words/s")
    print(f"ratio of words a second: {speeds['spacy-biomed'] / speeds['Presidio']:.2f}")


def _replacements(text: str, spans: list[list]) -> list:
    from spacy_biomed.annotations.deidentified import Deidentified
    from spacy_biomed.pipeline.deidentify import Mention, merge_overlapping

    merged = merge_overlapping(Mention(*span) for span in spans)
    return Deidentified(text, [(*one, "") for one in merged]).replacements


def _score(gold: list, found: list, component: Any, labels: list[str] | None) -> dict[str, Any]:
    from spacy_biomed.pipeline.deidentification_scores import DeidentificationScores

    counts = DeidentificationScores()
    for doc, replacements in zip(gold, found, strict=True):
        mentions = [(one.start_char, one.end_char, one.label_) for one in doc.ents]
        mentions += [tuple(one) for one in doc._.unaligned_mentions]
        counts.add(
            doc.text,
            [
                one
                for one in mentions
                if component.kind(one[2]) != "keep" and (labels is None or one[2] in labels)
            ],
            replacements,
        )
    return counts.scores()


def _print(name: str, scores: dict[str, Any], has_precision: bool) -> None:
    """Print scores; replacements of other labels would count as wrong among a choice of labels."""
    by_label = " ".join(
        f"{label} {rates['r']:.1%}"
        for label, rates in scores["deid_per_type"].items()
        if rates["r"]
    )
    precision = f"precision {scores['deid_p']:.1%}" if has_precision else ""
    print(
        f"  {name}: recall {scores['deid_r']:.1%}, clean {scores['deid_clean_documents']:.1%}, "
        f"{precision}\n    {by_label}"
    )


if __name__ == "__main__":
    if "--serve" in sys.argv:
        load_workers().serve(Presidio())
    else:
        main()
