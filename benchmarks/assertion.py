"""Measure sentences and assertions of notes, also by negspacy and pysbd where installed.

Prints precision, recall and F1 of negation, uncertainty and so on, with the mentions given, on the
parts that were kept apart: the even reports of `context_en`, and SAMPLE-007 and SAMPLE-008 of
`nubes`. `--dev` takes the other parts, on which the terms were chosen. Then it scores the
boundaries of sentences. Run from the root of the repository, with the corpora that
`../shared/bin/stage` unpacks:

    python benchmarks/assertion.py CORPORA
    python benchmarks/assertion.py CORPORA --time assets/pipelines/es_clinical_ner

A trained `biomed_assertion` is measured beside the rules. With `--dev`, the part that chose the
epoch compares shares of the rules. For NUBes, mentions that `es_clinical_ner` finds outside of all
scopes count as affirmed. The English head learns from what the rules say of diseases in `text_en`,
and from the odd reports of `context_en` but a quarter:

    python benchmarks/assertion.py CORPORA --write-corpus corpus/nubes --language es
    python -m spacy biomed init-config corpus/nubes nubes.cfg --encoder assets/encoders/starter-es \
        --epochs 8
    python -m spacy biomed train nubes.cfg --output training/nubes
    python benchmarks/assertion.py CORPORA --pipeline training/nubes/model-best --dev
    python benchmarks/assertion.py CORPORA --pipeline training/nubes/model-best --share SHARE
"""

from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Callable, Container, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time
from typing import NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc, DocBin

from spacy_biomed.annotations.assertions import ASSERTIONS, get_assertions, set_assertions
from spacy_biomed.corpora.gold import create_gold_doc
from spacy_biomed.formats import Document, Mention, read_documents
from spacy_biomed.formats.assertion_attributes import complete_assertions, read_assertions
from spacy_biomed.notes import find_sentence_starts

STARTER = Path("assets/starter_notes")
TOKENIZER = {"nlp": {"tokenizer": {"@tokenizers": "spacy_biomed.Tokenizer.v1"}}}
AFFIRMED = "AFFIRMED"
SCOPED = {"DISO", "PROC", "SUBS", AFFIRMED}
NOTHING_SAID = {"is_negated": "false", "is_uncertain": "false"}
FINDERS = {"es": "assets/pipelines/es_clinical_ner", "en": "assets/pipelines/en_biomed_ner"}
# Reports of `context_en`, by the rest of their numbers divided by eight.
EVEN_REPORTS, ODD_REPORTS, DEV_REPORTS = {0, 2, 4, 6}, {1, 3, 5, 7}, {5}
Counts = dict[str, Counter]
ADDED = ("biomed_sentences", "biomed_sections", "biomed_context")


class Given(NamedTuple):
    """A text with its mentions: start, end, and the gold value of each assertion that is known."""

    text: str
    mentions: list[tuple[int, int, dict[str, bool]]]


def read_context(path: Path, reports: Container[int]) -> Iterator[Given]:
    """Read sentences with one condition, which is in capitals.

    Args:
        reports: the remainders of their numbers, divided by eight.
    """
    with path.open(encoding="utf8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            start = row["sentence"].find(row["concept"].upper())
            if int(row["report"]) % 8 in reports and start >= 0:
                end = start + len(row["concept"])
                text = row["sentence"][:start] + row["concept"] + row["sentence"][end:]
                gold = {
                    "is_negated": row["negation"] == "Negated",
                    "is_historical": row["temporality"] == "Historical",
                    "is_hypothetical": row["temporality"] == "Not particular",
                }
                yield Given(text, [(start, end, gold)])


def read_samples(folder: Path, numbers: str) -> list[Document]:
    """Read samples of NUBes, whose mentions have the assertions of the scopes that they are in."""
    samples = [one for one in sorted(folder.glob("SAMPLE-*")) if one.name[-1] in numbers]
    documents = list(read_documents("brat", samples))
    complete_assertions(documents)
    return documents


def add_affirmed(documents: list[Document]) -> None:
    """Add what `es_clinical_ner` finds outside of all scopes, as affirmed."""
    nlp = spacy.load(FINDERS["es"], exclude=list(ADDED))
    for document in documents:
        ents = nlp(document.text).ents
        said = [one for one in document.mentions if any(read_assertions(one).values())]
        document.mentions += [
            Mention(AFFIRMED, ((ent.start_char, ent.end_char),), "", dict(NOTHING_SAID))
            for ent in ents
            if not any(one.start < ent.end_char and ent.start_char < one.end for one in said)
        ]


def read_nubes(documents: list[Document]) -> Iterator[Given]:
    """The lines, each a sentence, with their mentions."""
    for document in documents:
        first = 0
        for text in document.text.split("\n"):
            mentions = [
                (
                    one.start - first,
                    one.end - first,
                    {k: v > 0 for k, v in read_assertions(one).items()},
                )
                for one in document.mentions
                if one.label in SCOPED and first <= one.start < first + len(text)
            ]
            if mentions:
                yield Given(text, mentions)
            first += len(text) + 1


def write_corpus(corpora: Path, output: Path, language: str) -> None:
    """Write a corpus for `init-config`."""
    output.mkdir(parents=True, exist_ok=True)
    make = make_spanish if language == "es" else make_english
    for part in ("train", "dev"):
        docs = DocBin(attrs=["ENT_IOB", "ENT_TYPE"], store_user_data=True)
        for doc in make(corpora, part == "dev"):
            docs.add(doc)
        docs.to_disk(output / f"{part}.spacy")
    description = {"name": "own", "language": language, "task": "assertion", "parts": {}}
    (output / "corpus.json").write_text(json.dumps(description), encoding="utf8")


def make_spanish(corpora: Path, is_dev: bool) -> Iterator[Doc]:
    """SAMPLE-001 to -005 of NUBes for training, -006 for development."""
    nlp = spacy.blank("es", config=TOKENIZER)
    documents = read_samples(corpora / "nubes", "6" if is_dev else "12345")
    add_affirmed(documents)
    for document in documents:
        document.relations = None
        document.mentions = [one for one in document.mentions if one.label in SCOPED]
        yield create_gold_doc(nlp, document)


def make_english(corpora: Path, is_dev: bool) -> Iterator[Doc]:
    """Reports of `context_en`, for training twice, and sentences of `text_en` by the rules."""
    nlp = spacy.blank("en", config=TOKENIZER)
    reports = DEV_REPORTS if is_dev else ODD_REPORTS - DEV_REPORTS
    given = list(read_context(corpora / "context_en/context.tsv", reports))
    if not is_dev:
        given += [*given, *mark_sentences(corpora / "text_en/text_en.txt")]
    for text, mentions in given:
        doc = nlp.make_doc(text)
        doc.ents = [
            doc.char_span(start, end, "DISEASE", alignment_mode="expand")
            for start, end, _ in mentions
        ]
        for ent, (*_, gold) in zip(doc.ents, mentions, strict=True):
            set_assertions(ent, {name: float(value) for name, value in gold.items()})
        yield doc


def mark_sentences(path: Path) -> Iterator[Given]:
    """Sentences with a disease of which the rules say something, and as many without."""
    owed = 0
    lines = path.read_text(encoding="utf8").splitlines()[::20]
    for doc in spacy.load(FINDERS["en"]).pipe(lines):
        for sentence in doc.sents:
            first = sentence.start_char
            mentions = [
                (ent.start_char - first, ent.end_char - first, get_assertions(ent))
                for ent in sentence.ents
                if ent.label_ == "DISEASE"
            ]
            owed += (is_marked := any(any(gold.values()) for *_, gold in mentions))
            if is_marked or (mentions and owed > 0):
                owed -= not is_marked
                yield Given(sentence.text, mentions)


def read_starter(notes: str) -> Iterator[Given]:
    for line in (STARTER / f"{notes}.jsonl").read_text(encoding="utf8").splitlines():
        note = json.loads(line)
        mentions = [
            (one["start"], one["end"], {name: name in one["assertions"] for name in ASSERTIONS})
            for one in note["spans"]
        ]
        yield Given(note["text"], mentions)


def ours(language: str) -> Callable[[Doc], Doc]:
    nlp = spacy.blank(language, config=TOKENIZER)
    parts = [nlp.add_pipe(f"biomed_{name}") for name in ("sentences", "sections", "context")]

    def annotate(doc: Doc) -> Doc:
        for part in parts:
            doc = part(doc)
        return doc

    return annotate


def negspacy(language: str) -> Callable[[Doc], Doc]:
    from negspacy.negation import Negex
    from negspacy.termsets import termset

    nlp = spacy.blank(language)
    terms = termset("en_clinical" if language == "en" else "es_clinical").get_patterns()
    negex = Negex(nlp, "negex", terms, ["PROBLEM"], "negex", [], False)
    sentencizer = nlp.add_pipe("sentencizer")
    return lambda doc: negex(sentencizer(doc))


def trained(pipeline: str, share: float) -> Callable[[str], Callable[[Doc], Doc]]:
    """A function that makes a trained pipeline, with the rules if these have a share."""

    def make(language: str) -> Language:
        nlp = spacy.load(pipeline)
        if share:
            nlp.add_pipe("biomed_context", before="biomed_assertion")
            nlp.get_pipe("biomed_assertion").cfg["rules_share"] = share
        return nlp

    return make


# A function that makes each contestant, and the extensions that it sets.
CONTESTANTS = {
    "biomed_context": (ours, {name: name for name in ASSERTIONS}),
    "negspacy": (negspacy, {"is_negated": "negex"}),
}


def measure(contestant: str, texts: list[Given], language: str) -> Counts:
    """Count the right, the wrong and the missed values of each assertion that is annotated."""
    make, extensions = CONTESTANTS[contestant]
    annotate = make(language)
    nlp = spacy.blank(language, config=TOKENIZER)
    counts: Counts = {}
    for text, mentions in texts:
        doc = nlp.make_doc(text)
        placed = [
            (doc.char_span(start, end, "PROBLEM", alignment_mode="expand"), gold)
            for start, end, gold in mentions
        ]
        for span, gold in placed:  # each alone, since mentions overlap
            doc.ents = [span]
            ent = annotate(doc).ents[0]
            for name, wanted in gold.items():
                if name in extensions and (found := bool(ent._.get(extensions[name]))) | wanted:
                    key = "right" if found and wanted else "wrong" if found else "missed"
                    counts.setdefault(name, Counter())[key] += 1
    return counts


def measure_trained(pipeline: str, corpora: Path, is_dev: bool, shares: list[float]) -> None:
    """Show the scores of the rules, of a trained pipeline, and of both with each share of rules.

    For Spanish, in scopes and with other mentions.
    """
    extensions = {name: name for name in ASSERTIONS}
    language = spacy.util.load_config(Path(pipeline, "config.cfg"))["nlp"]["lang"]
    names = {"biomed_assertion": 0.0, **{f"both {share:g}": share for share in shares}}
    for name, share in names.items():
        CONTESTANTS[name] = (trained(pipeline, share), extensions)
    if language == "es":
        documents = read_samples(corpora / "nubes", "6" if is_dev else "78")
        parts = {"nubes in scopes": list(read_nubes(documents))}
        add_affirmed(documents)
        parts["nubes with others"] = list(read_nubes(documents))
    else:
        reports = DEV_REPORTS if is_dev else EVEN_REPORTS
        parts = {"context_en": list(read_context(corpora / "context_en/context.tsv", reports))}
    for title, texts in parts.items():
        for name in ("biomed_context", *names):
            for assertion, counts in measure(name, texts, language).items():
                show(f"{title}, {name}, {assertion}", counts)


def show(title: str, counts: Counter) -> None:
    right, wrong, missed = (counts[key] for key in ("right", "wrong", "missed"))
    precision, recall = right / max(right + wrong, 1), right / max(right + missed, 1)
    f1 = 2 * right / max(2 * right + wrong + missed, 1)
    print(f"{title:44} {right + missed:6,} gold  P {precision:.3f}  R {recall:.3f}  F1 {f1:.3f}")


def splitters(language: str) -> dict[str, Callable[[str], set[int]]]:
    """Functions from a text to the starts of its sentences."""
    nlp = spacy.blank(language)
    nlp.add_pipe("sentencizer")
    nlp.max_length = 10**9
    found = {
        "biomed_sentences": lambda text: set(find_sentence_starts(text, language)),
        "sentencizer": lambda text: {one.start_char for one in nlp(text).sents},
    }
    if find_spec("pysbd"):
        import pysbd

        splitter = pysbd.Segmenter(language=language, clean=False, char_span=True)
        found["pysbd"] = lambda text: {one.start for one in splitter.segment(text)}
    return found


def measure_sentences(texts: list[tuple[str, set[int]]], language: str, title: str) -> None:
    for name, split in splitters(language).items():
        counts: Counter = Counter()
        for text, gold in texts:
            # A start in white space is that of the next word.
            found = {at + len(text[at:]) - len(text[at:].lstrip()) for at in split(text)}
            counts += Counter(right=len(found & gold), wrong=len(found - gold))
            counts["missed"] += len(gold - found)
        show(f"{title}, {name}", counts)


def read_lines(folder: Path, is_dev: bool) -> Iterator[tuple[str, set[int]]]:
    """The texts of NUBes with spaces for line ends, each line a sentence."""
    for path in sorted(folder.glob("SAMPLE-*/*.txt")):
        if (path.parent.name[-1] in "78") != is_dev:
            lines = path.read_text(encoding="utf8").splitlines()
            lines = [line.strip() for line in lines if line.strip()]
            starts = {len(" ".join(lines[:place])) + bool(place) for place in range(len(lines))}
            yield " ".join(lines), starts


def read_public(corpora: Path, language: str) -> dict[str, list[str]]:
    """A hundred public texts of a language."""
    if language == "es":
        return {"nubes": [text for text, _ in read_lines(corpora / "nubes", True)][:100]}
    with (corpora / "text_en/text_en.txt").open(encoding="utf8") as file:
        return {"text_en": [line.strip() for line in islice(file, 100)]}


def measure_time(pipeline: str, texts: dict[str, list[str]]) -> None:
    """Print what the three components add to a pipeline's time, the median of nine rounds."""
    nlp = spacy.load(pipeline)
    for title, ours in texts.items():
        shares = []
        for _ in range(10):
            without, with_them = (
                time_annotation(nlp, ours, disabled) for disabled in (list(ADDED), [])
            )
            shares.append(with_them / without - 1)
        print(f"{pipeline}, {title}: {median(shares[1:]):.1%} more time")


def time_annotation(nlp: Language, texts: list[str], disabled: list[str]) -> float:
    """The processor's seconds that a pipeline takes."""
    start = process_time()
    for _ in nlp.pipe(texts, disable=disabled):
        pass
    return process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpora", type=Path, help="folder with context_en and nubes")
    parser.add_argument(
        "--dev", action="store_true", help="the parts that the terms were chosen on"
    )
    parser.add_argument("--time", metavar="PIPELINE", help="measure only the time, of a pipeline")
    parser.add_argument("--write-corpus", metavar="FOLDER", type=Path, help="only write this")
    parser.add_argument("--language", choices=["en", "es"], default="es", help="of that corpus")
    parser.add_argument("--pipeline", help="measure only this, which has biomed_assertion")
    parser.add_argument("--share", type=float, help="of the rules, beside the pipeline")
    given = parser.parse_args()
    nubes = given.corpora / "nubes"
    samples = "123456" if given.dev else "78"
    if given.write_corpus:
        write_corpus(given.corpora, given.write_corpus, given.language)
        return
    if given.pipeline:
        shares = [0.25, 0.5, 0.75] if given.share is None else [given.share]
        measure_trained(given.pipeline, given.corpora, given.dev, shares)
        return
    if given.time:
        language = spacy.util.load_config(Path(given.time, "config.cfg"))["nlp"]["lang"]
        texts = {
            "starter_notes": [text for text, _ in read_starter(language)] * 10,
            **read_public(given.corpora, language),
        }
        measure_time(given.time, texts)
        return
    parts = {
        ("en", "context_en"): read_context(
            given.corpora / "context_en/context.tsv", ODD_REPORTS if given.dev else EVEN_REPORTS
        ),
        ("es", "nubes"): read_nubes(read_samples(nubes, samples)),
        **{
            (notes[:2], f"starter_notes {notes}"): read_starter(notes)
            for notes in ("en", "es", "en_test", "es_test")
        },
    }
    for (language, corpus), texts in parts.items():
        kept = list(texts)
        for name in CONTESTANTS:
            if name == "biomed_context" or find_spec(name):
                for assertion, counts in measure(name, kept, language).items():
                    show(f"{corpus} {language}, {name}, {assertion}", counts)
    for language in ("en", "es"):
        lines = (STARTER / f"{language}.jsonl").read_text(encoding="utf8").splitlines()
        notes = [(note["text"], set(note["sentences"])) for note in map(json.loads, lines)]
        measure_sentences(notes, language, f"sentences of starter_notes {language}")
    measure_sentences(list(read_lines(nubes, given.dev)), "es", "sentences of nubes")


if __name__ == "__main__":
    main()
