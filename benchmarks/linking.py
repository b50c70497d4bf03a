"""How often the code of a mention is right: `biomed_linker` and simpler methods.

    apt-get download emboss-data && dpkg-deb -x emboss-data_*.deb emboss
    python -m spacy biomed terminology build emboss/usr/share/EMBOSS/data/TAXONOMY terms/taxonomy \
        --format taxonomy
    python -m spacy biomed convert s800 assets/s800 corpus/s800 --format pubtator \
        --map Species=SPECIES
    python benchmarks/linking.py corpus/s800 --terminology terms/taxonomy \
        --pipeline assets/pipelines/en_biomed_ner

Debian's package emboss-data has the NCBI Taxonomy of 2013, as NCBI published it.

The mentions of the test part of a corpus that `spacy biomed convert` wrote with identifiers are
linked; any identifier of a mention is right, and mentions without annotation are left out. Without
--terminology, the terminology is the names of the training part, and the linker is trained on the
development part; mentions of other concepts then have none. "Accuracy" is that of the most probable
concept, of mentions whose concept the terminology has. Seen mentions have the normalised text of
one in training. Speed is by processor time. A mention is linked to nothing if the confidence is
below 0.5: "none, P" and "none, R" are precision and recall of this. With --pipeline, P, R and F1
are of its entities with their codes, at exactly the gold offsets; its labels are the corpus's.

rapidfuzz takes the name with the highest `WRatio`; TF-IDF that with the highest cosine of character
trigrams, as scispaCy's candidate generator (Neumann et al. 2019, section 5), here with
scikit-learn. Both are given their score as confidence.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import spacy
from spacy.scorer import PRFScore
from spacy.tokens import Doc, Span
from spacy.training import Example

from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.pipeline.linking.candidates import CandidateFinder, KnownNames, LinkedDocument
from spacy_biomed.pipeline.linking.component import read_ids, score_links
from spacy_biomed.pipeline.linking.ranker import DEFAULT_RANKER, LinkRanker, train_linking
from spacy_biomed.pipeline.reliability import Reliability
from spacy_biomed.terminologies import Terminology, build_terminology
from spacy_biomed.terminologies.name_forms import normalize

# A code for each mention text of a document, with its probability; None where nothing is found.
Code = tuple[str, float] | None
Method = Callable[[Sequence[str], str], list[Code]]
THRESHOLD, MOST_FUZZY = 0.5, 100_000
HEADER = (
    "| method | accuracy | seen | unseen | none, P | none, R | ECE | mentions/s | P | R | F1 |\n"
    "| --- " + 10 * "| ---: " + "|"
)


class Corpus(NamedTuple):
    train: list[LinkedDocument]
    dev: list[LinkedDocument]
    test: list[LinkedDocument]


def read_part(path: Path, labels: Sequence[str]) -> list[Doc]:
    """The documents of a part, with the mentions of some labels; of all without labels."""
    docs = list(read_docs(path, spacy.blank("en").vocab))
    for doc in docs if labels else ():
        doc.set_ents([ent for ent in doc.ents if ent.label_ in labels])
    return docs


def list_mentions(docs: Sequence[Doc]) -> list[LinkedDocument]:
    return [
        LinkedDocument(doc.text, [(one.text, read_ids(one)) for one in doc.ents]) for doc in docs
    ]


def find_entities(pipeline: Path, gold: Sequence[Doc]) -> list[Doc]:
    """The texts of documents, with what a pipeline finds of their labels."""
    labels = {ent.label_ for doc in gold for ent in doc.ents}
    docs = list(spacy.load(pipeline).pipe(doc.text for doc in gold))
    for doc in docs:
        doc.set_ents([ent for ent in doc.ents if ent.label_ in labels])
    return docs


def create_terminology(path: Path, train: Sequence[LinkedDocument]) -> Path:
    """A terminology of the names of the training part."""
    names: dict[str, Counter[str]] = {}
    for document in train:
        for text, ids in document.mentions:
            for id in ids or ():
                names.setdefault(id, Counter())[text] += 1
    with (path / "names.csv").open("w", encoding="utf8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "name", "synonyms"])
        for id, own in names.items():
            first, *others = (name.replace("|", " ") for name, _ in own.most_common())
            writer.writerow([id, " ".join(first.split()), "|".join(others)])
    build_terminology(path / "names.csv", path / "names", format="csv")
    return path / "names"


def link(terminology: Terminology, known: KnownNames, ranker: LinkRanker) -> Method:
    finder = CandidateFinder(terminology, known)

    def method(texts: Sequence[str], document: str) -> list[Code]:
        found = finder.find(texts, document)
        ranked = dict(zip(found, ranker.rank(list(found.values())), strict=True))
        best = (ranked[text] for text in texts)
        return [(one[0][0], ranker.calibrate(one[0][1])) if one else None for one in best]

    return method


def match_exactly(terminology: Terminology) -> Method:
    def find(text: str) -> Code:
        found = [one for one in terminology.find(normalize(text)) if one.form == "normal"]
        return (terminology.describe(found[0].concept).id, 1.0) if found else None

    return lambda texts, document: list(map(find, texts))


def match_fuzzily(terminology: Terminology) -> Method:
    from rapidfuzz import fuzz, process

    ids, names = zip(*terminology.list_names(), strict=True)
    keys = list(map(normalize, names))

    def find(text: str) -> Code:
        best = process.extractOne(normalize(text), keys, scorer=fuzz.WRatio)
        return (ids[best[2]], best[1] / 100) if best else None

    return lambda texts, document: list(map(find, texts))


def match_trigrams(terminology: Terminology) -> Method:
    from sklearn.feature_extraction.text import TfidfVectorizer

    ids, names = zip(*terminology.list_names(), strict=True)
    least = 10 if len(names) > 10_000 else 1
    vectorizer = TfidfVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), min_df=least, dtype=np.float32
    )
    vectors = vectorizer.fit_transform(names).T.tocsr()

    def method(texts: Sequence[str], document: str) -> list[Code]:
        cosine = vectorizer.transform(texts) @ vectors
        best, highest = cosine.argmax(axis=1).A1, cosine.max(axis=1).toarray().ravel()
        pairs = zip(best.tolist(), highest.tolist(), strict=True)
        return [(ids[place], value) if value > 0 else None for place, value in pairs]

    return method


def score_entities(method: Method, gold: Sequence[Doc], found: Sequence[Doc]) -> dict[str, float]:
    """Precision, recall and F1 of the codes of entities that a pipeline found."""
    for doc in found:
        codes = method([ent.text for ent in doc.ents], doc.text) if doc.ents else []
        ids = [code[0] if code and code[1] >= THRESHOLD else "" for code in codes]
        pairs = zip(doc.ents, ids, strict=True)
        doc.set_ents([Span(doc, one.start, one.end, one.label, kb_id=id) for one, id in pairs])
    return score_links(Example(one, other) for one, other in zip(found, gold, strict=True))


def measure(name: str, method: Method, corpus: Corpus, terminology: Terminology) -> str:
    """The first cells of a method's row."""
    training = corpus.train + corpus.dev
    seen = {normalize(text) for one in training for text, ids in one.mentions if ids}
    begin = time.process_time()
    texts = [[text for text, _ in one.mentions] for one in corpus.test]
    pairs = zip(texts, corpus.test, strict=True)
    codes = [method(own, one.text) if own else [] for own, one in pairs]
    speed = sum(map(len, texts)) / (time.process_time() - begin)
    rows = [
        (
            code is not None and code[0] in ids,
            min(code[1], 1.0) if code else 0.0,
            normalize(text) in seen,
            any(terminology.get_place(id) is not None for id in ids),
        )
        for document, own in zip(corpus.test, codes, strict=True)
        for (text, ids), code in zip(document.mentions, own, strict=True)
        if ids is not None
    ]
    right, confidence, old, has_concept = map(np.array, zip(*rows, strict=True))
    none = PRFScore()
    none.tp = int(((confidence < THRESHOLD) & ~has_concept).sum())
    none.fp = int(((confidence < THRESHOLD) & has_concept).sum())
    none.fn = int(((confidence >= THRESHOLD) & ~has_concept).sum())
    shares = [
        *(right[has_concept & some].mean() for some in (np.ones_like(old), old, ~old)),
        *((none.precision, none.recall) if not has_concept.all() else (np.nan, np.nan)),
    ]
    cells = " | ".join("-" if np.isnan(share) else f"{100 * share:.1f}" for share in shares)
    error = Reliability.measure(confidence, right).error or 0.0
    return f"| {name} | {cells} | {error:.3f} | {speed:,.0f} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder that `convert` wrote")
    parser.add_argument(
        "--label", action="append", default=[], help="only its mentions; repeatable"
    )
    parser.add_argument("--terminology", type=Path)
    parser.add_argument("--pipeline", type=Path, help="also measure the entities that it finds")
    arguments = parser.parse_args()
    paths = [arguments.corpus / f"{part}.spacy" for part in Corpus._fields]
    parts = [read_part(path, arguments.label) for path in paths]
    gold = parts[-1]
    found = find_entities(arguments.pipeline, gold) if arguments.pipeline else None
    corpus = Corpus(*map(list_mentions, parts))
    with tempfile.TemporaryDirectory() as temporary:
        path = arguments.terminology or create_terminology(Path(temporary), corpus.train)
        begin = time.perf_counter()
        terminology = Terminology(path)
        size = sum(file.stat().st_size for file in path.iterdir()) / 1e6
        print(f"{path}: {size:.0f} MB, opened in {1000 * (time.perf_counter() - begin):.0f} ms\n")
        print(HEADER)
        training = corpus.train * bool(arguments.terminology) + corpus.dev
        trained = link(terminology, *train_linking(terminology, training))
        rows: dict[str, Callable[[], Method]] = {
            "exact": lambda: match_exactly(terminology),
            "rapidfuzz": lambda: match_fuzzily(terminology),
            "TF-IDF": lambda: match_trigrams(terminology),
            "ours, untrained": lambda: link(terminology, KnownNames({}, {}), DEFAULT_RANKER),
            "ours, trained": lambda: trained,
        }
        if terminology.meta["names"] > MOST_FUZZY:
            del rows["rapidfuzz"]
        for name, create in rows.items():
            method = create()
            row = measure(name, method, corpus, terminology)
            scores = score_entities(method, gold, found) if found else {}
            cells = [f"{100 * score:.1f}" for score in scores.values()]
            print(row, " | ".join(cells or 3 * "-"), "|", flush=True)


if __name__ == "__main__":
    main()
