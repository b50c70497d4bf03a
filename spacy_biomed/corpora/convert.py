"""A corpus as its authors publish it becomes `train.spacy`, `dev.spacy` and `test.spacy`."""

from __future__ import annotations

import importlib
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spacy
from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, DocBin

from ..annotations.relation_layer import count_several
from ..annotations.seen import SeenMentions
from ..errors import BiomedError, quote
from ..outputs import check_replaceable, replacing_directory
from .documents import Document, check_characters
from .gold import annotate, create_doc
from .label_choice import keep_labels
from .label_map import LabelMap, find_mention_labels, map_labels
from .questions import group_questions
from .repairs import ChangeLog, OnError, keeping_log, leaving_out, with_changes
from .tokenizer import create_tokenizer

if TYPE_CHECKING:
    from .corpus_catalogue import CorpusEntry

PARTS = ("train", "dev", "test")
MADE_BY = "spacy biomed convert"
DEV_SHARE = 0.1
TEST_SHARE = 0.1

# Module and function of each format's reader, and the function's further arguments.
FORMATS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "columns": ("columns", "read_columns", {}),
    "bio": ("columns", "read_columns", {}),
    "iob1": ("columns", "read_columns", {"scheme": "iob1"}),
    "iob2": ("columns", "read_columns", {"scheme": "iob2"}),
    "bioes": ("columns", "read_columns", {"scheme": "bioes"}),
    "bilou": ("columns", "read_columns", {"scheme": "bioes"}),
    "brat": ("brat", "read_brat", {}),
    "pubtator": ("pubtator", "read_pubtator", {}),
    "bioc": ("bioc", "read_bioc", {}),
    "hoc": ("hoc", "read_hoc", {}),
    "jsonl": ("jsonl", "read_jsonl", {}),
    "i2b2_2010": ("i2b2_2010", "read_i2b2_2010", {}),
    "i2b2_2012": ("i2b2_xml", "read_i2b2_2012", {}),
    "i2b2_2012_temporal": ("i2b2_xml", "read_i2b2_2012", {"temporal": True}),
    "i2b2_2014": ("i2b2_xml", "read_i2b2_2014", {}),
    "share_clef": ("share_clef", "read_share_clef", {}),
    "ddi": ("ddi", "read_ddi", {}),
    "chemprot": ("chemprot", "read_chemprot", {}),
    "nli": ("nli", "read_nli", {}),
    "medrqe": ("medrqe", "read_medrqe", {}),
    "sts": ("sts", "read_sts", {}),
    "clinical_sts": ("sts", "read_clinical_sts", {}),
    "squad": ("squad", "read_squad", {}),
    "bioasq": ("bioasq", "read_bioasq", {}),
    "marked_relations": ("marked_relations", "read_marked_relations", {}),
    "relation_tsv": ("marked_relations", "read_relation_tsv", {}),
}

# The attributes of tokens that conversion sets; others would only make the files larger.
ATTRIBUTES = ("ENT_IOB", "ENT_TYPE", "SENT_START")

_PART_NAME = re.compile(r"(?:^|[^a-z])(train|dev|valid|test)")

Progress = Callable[[Sequence[Document], str], Iterable[Document]]


@dataclass(slots=True)
class PartReport:
    """What one part (train, dev or test) holds.

    Attributes:
        sentences: as published, or where the source has none as spaCy's sentencizer counts them.
        mentions: by label, the fitting and the others, each mention that is given twice once.
        classes: documents that have each class.
        means: mean of each label whose values are numbers rather than classes (similarity).
        relations: by label, as the source counts them.
        lost_relations: those with an argument that no layer of the Docs holds.
        several_relations: pairs of spans with relations of two labels or more: a head that learns
            them cannot take labels to exclude each other.
        pairs: documents that are a pair of texts.
        answers, unaligned_answers: all of them, and those that no span of tokens holds.
        inside_token, overlapping, discontinuous: mentions that no layer of the Docs holds.
        uncertain: regions where a mention would be neither right nor wrong (`label_map`).
        changes: what was done about flaws of the files (`corpora.repairs`), by kind.
        duplicates: documents whose text is also in a part before this one.
        dropped: documents left out because their text is (`CorpusEntry.drop_repeats`).
    """

    documents: int = 0
    sentences: int = 0
    sentences_are_published: bool = True
    tokens: int = 0
    mentions: dict[str, int] = field(default_factory=dict)
    classes: dict[str, int] = field(default_factory=dict)
    means: dict[str, float] = field(default_factory=dict)
    relations: dict[str, int] = field(default_factory=dict)
    lost_relations: int = 0
    several_relations: int = 0
    pairs: int = 0
    answers: int = 0
    unaligned_answers: int = 0
    inside_token: int = 0
    overlapping: int = 0
    discontinuous: int = 0
    uncertain: int = 0
    changes: dict[str, int] = field(default_factory=dict)
    duplicates: int = 0
    dropped: int = 0

    @property
    def unaligned(self) -> int:
        """Mentions that no span of tokens in the layer holds."""
        return self.inside_token + self.overlapping + self.discontinuous


@dataclass(slots=True)
class ConversionReport:
    """What a conversion wrote: by part, and the share of test mentions that train never has.

    Attributes:
        unseen_share: of test mentions, those whose lower-cased string and label occur nowhere in
            train, between 0 and 1; None without test mentions.
        annotated_labels: of mentions, those that the corpus annotates, in every document.
        seeded_parts: the parts that the corpus is not published with, drawn with `seed`.
    """

    name: str
    language: str
    format: str
    output: Path
    labels: list[str]
    parts: dict[str, PartReport]
    seeded_parts: list[str]
    seed: int
    unseen_share: float | None = None
    licence: str = ""
    source: str = ""
    annotated_labels: list[str] = field(default_factory=list)


def read_documents(
    format: str, paths: Iterable[Path | str], encoding: str = "utf-8", n_sents: int = 1
) -> Iterator[Document]:
    """Read the documents of files or folders in one of the `FORMATS`, one path after the other.

    Raises BiomedError on an unknown format, on what the format's reader finds wrong, and on half of
    a surrogate pair.

    Args:
        n_sents: sentences in a document, of column files that mark no documents.
    """
    if format not in FORMATS:
        raise BiomedError(f"unknown format {quote(format)}; choose one of {', '.join(FORMATS)}")
    module, function, arguments = FORMATS[format]
    reader = getattr(importlib.import_module(f"{__package__}.readers.{module}"), function)
    if module == "columns":
        arguments = {**arguments, "n_sents": n_sents}
    elif n_sents != 1:
        raise BiomedError(f"format {format} has documents of its own: leave --n-sents out")
    for path in paths:
        for document in with_changes(reader(Path(path), encoding=encoding, **arguments)):
            with leaving_out():
                check_characters(document)
                yield document


def convert_corpus(
    name: str,
    source: Path | str,
    output: Path | str,
    *,
    format: str | None = None,
    language: str | None = None,
    paths: Mapping[str, Sequence[Path | str]] | None = None,
    encoding: str | None = None,
    n_sents: int = 1,
    label_map: LabelMap | None = None,
    labels: Sequence[str] = (),
    spans_key: str | None = None,
    replace_mentions: Path | str | None = None,
    copies: int = 1,
    seed: int = 0,
    on_error: OnError = "stop",
    progress: Progress | None = None,
) -> ConversionReport:
    """Convert a corpus and write `{train,dev,test}.spacy`, `corpus.json` and `conversion.json`.

    Raises BiomedError on bad input, before anything is written.

    Args:
        name: a corpus of the catalogue; or, with `format`, any name.
        source: the folder (or the one file) that the corpus was unpacked to.
        output: the folder to write; it changes only once everything is converted.
        language: spaCy's code of the text's language; the catalogue's, or English.
        paths: the files or folders of each part; the catalogue's, or as `find_parts` finds them.
        encoding: of the text files; the catalogue's, or UTF-8.
        n_sents: sentences in a document, of column files that mark no documents.
        label_map: what to rename the labels of mentions to.
        labels: of the mentions to keep, by their new names; all, if there are none.
        spans_key: put mentions in `doc.spans[spans_key]` rather than `doc.ents`.
        replace_mentions: folder of term lists to multiply the training part with, `copies` times.
        seed: of mention replacement, and of the parts that the corpus is not published with: a
            tenth of the training documents for dev, and for a corpus in one piece another tenth for
            test.
        on_error: what to do about an annotation, a line or a document that is wrong and cannot be
            repaired: "stop", or "skip" it. `conversion.json` lists what was repaired and left out.
        progress: called with documents and a description, to show how far it is.
    """
    entry = None if format else _find_entry(name)
    format = format or (entry.format if entry else None) or ""
    language = language or (entry.language if entry else "en")
    encoding = encoding or (entry.encoding if entry else None) or "utf-8"
    source, output = Path(source), Path(output)
    if not paths:
        paths = _catalogue_parts(entry, source) if entry and entry.splits else find_parts(source)
    sources = [*chain.from_iterable(paths.values())]
    if replace_mentions is not None:
        sources.append(replace_mentions)
    check_replaceable(output, MADE_BY, sources)
    with keeping_log(on_error) as log:
        parts, seeded = _read_parts(format, paths, encoding, n_sents, seed)
    changes = {part: _count_changes(documents) for part, documents in parts.items()}
    dropped = _drop_repeats(parts) if entry and entry.drop_repeats else {}
    if label_map is not None:
        parts = map_labels(parts, label_map)
    if labels:
        parts = keep_labels(parts, labels)
    annotated_labels = _find_annotated_labels(parts, entry, label_map, labels)
    for document in chain.from_iterable(parts.values()):
        document.annotated_labels = annotated_labels
    if replace_mentions is not None and "train" not in parts:
        raise BiomedError(f"{name}: no training part to replace mentions in; give it with --train")
    if replace_mentions is not None:
        parts["train"] = _multiply(parts["train"], Path(replace_mentions), copies, seed)

    nlp = create_pipeline(language)
    scores = _find_scores(parts)
    reports: dict[str, PartReport] = {}
    bins: dict[str, DocBin] = {}
    seen = SeenMentions(nlp.vocab, spans_key)
    for part, documents in parts.items():  # train comes first
        shown = progress(documents, part) if progress else documents
        each_doc = seen.learn if part == "train" else seen.mark
        bins[part], reports[part] = _convert_part(nlp, shown, spans_key, each_doc)
        _count_cats(reports[part], documents, scores)
        reports[part].dropped = dropped.get(part, 0)
        reports[part].changes = changes[part]
    _count_duplicates(parts, reports)
    report = ConversionReport(
        name=entry.name if entry else name,
        language=language,
        format=format,
        output=output,
        labels=_find_labels(reports, None if labels or label_map else entry, annotated_labels),
        annotated_labels=sorted(annotated_labels),
        parts=reports,
        seeded_parts=seeded,
        seed=seed,
        unseen_share=find_unseen_share(parts.get("train", []), parts.get("test", [])),
        licence=entry.licence if entry else "",
        source=entry.source if entry else "",
    )
    _write(report, bins, log, sources)
    return report


def create_pipeline(language: str) -> Language:
    """Create the blank pipeline that makes tokens: the language with the project's tokenizer."""
    try:
        nlp = spacy.blank(language)
    except ImportError:
        raise BiomedError(
            f"spaCy knows no language {quote(language)}; give its code, such as en, es or fr"
        ) from None
    nlp.tokenizer = create_tokenizer()(nlp)
    # The limit guards parsers and taggers; this pipeline has none.
    nlp.max_length = sys.maxsize
    return nlp


def _find_entry(name: str) -> CorpusEntry:
    from .corpus_catalogue import find_corpus

    entry = find_corpus(name)
    if entry.format is None:
        raise BiomedError(
            f"{name}: there is no reader for this corpus yet; give --format with one of "
            f"{', '.join(FORMATS)} if you have it in such a form"
        )
    return entry


def _catalogue_parts(entry: CorpusEntry, source: Path) -> dict[str, list[Path | str]]:
    if not source.exists():
        raise BiomedError(
            f"{source}: no such folder; unpack {entry.name} there, from {entry.source}"
        )
    return {part: [source / path for path in paths] for part, paths in entry.splits.items()}


def find_parts(source: Path) -> dict[str, list[Path | str]]:
    """Find the files or folders of each part directly in a folder, by their names.

    A name with `train` is of train, with `dev` or `valid` (devel, validation) of dev, with `test`
    of test, each at the name's beginning or after a character that is no letter, whatever the
    case. A file or a folder without such names is one piece, under the key "all".
    """
    if not source.exists():
        raise BiomedError(f"{source}: no such file or folder; check the path")
    parts: dict[str, list[Path | str]] = {}
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        match = _PART_NAME.search(path.name.lower())
        if match and not path.name.startswith("."):
            part = "dev" if match.group(1) == "valid" else match.group(1)
            parts.setdefault(part, []).append(path)
    if not parts:
        return {"all": [source]}
    if "train" not in parts:
        found = ", ".join(Path(path).name for paths in parts.values() for path in paths)
        raise BiomedError(
            f"{source}: {found} but nothing named train; name the training part with --train"
        )
    return parts


def _read_parts(
    format: str,
    paths: Mapping[str, Sequence[Path | str]],
    encoding: str,
    n_sents: int,
    seed: int,
) -> tuple[dict[str, list[Document]], list[str]]:
    """Return the documents by part, and the parts that were drawn rather than published."""
    if format == "hoc" and set(paths) == {"all"}:
        from .readers.hoc import has_id_lists, split_hoc

        (folder,) = map(Path, paths["all"])
        documents = list(read_documents(format, [folder], encoding))
        return split_hoc(documents, folder), [] if has_id_lists(folder) else list(PARTS)
    read = {part: list(read_documents(format, paths[part], encoding, n_sents)) for part in paths}
    if set(read) == {"all"}:
        return split_documents(read["all"], {"dev": DEV_SHARE, "test": TEST_SHARE}, seed), [*PARTS]
    if unknown := set(read) - set(PARTS):
        raise BiomedError(
            f"unknown part {quote(unknown.pop())} of the corpus; the parts are train, dev and test"
        )
    if "train" in read and "dev" not in read:
        read.update(split_documents(read["train"], {"dev": DEV_SHARE}, seed))
        return {part: read[part] for part in PARTS if part in read}, ["dev"]
    return {part: read[part] for part in PARTS if part in read}, []


def _drop_repeats(parts: dict[str, list[Document]]) -> dict[str, int]:
    """Take out of each part the texts that a part before it has; return how many, by part."""
    seen: set[str] = set()
    dropped = {}
    for part, documents in parts.items():
        kept = [document for document in documents if document.text not in seen]
        dropped[part] = len(documents) - len(kept)
        parts[part] = kept
        seen.update(document.text for document in kept)
    return dropped


def split_documents(
    documents: Sequence[Document], shares: Mapping[str, float], seed: int
) -> dict[str, list[Document]]:
    """Draw parts from documents at random; what is left is train. The order is kept in each.

    Documents of one question, and questions on one context, stay together.

    Args:
        shares: the share of all documents of each part, or of all such groups; at least one each
            where there are enough for train to have one too.
    """
    order = group_questions(documents)
    total = len(order)
    random.Random(seed).shuffle(order)
    drawn: dict[str, list[list[int]]] = {}
    for part, share in shares.items():
        size = min(max(1, round(share * total)), max(0, len(order) - 1))
        drawn[part], order = order[:size], order[size:]
    return {
        part: [documents[index] for index in sorted(chain.from_iterable(groups))]
        for part, groups in {"train": order, **drawn}.items()
    }


def _multiply(documents: list[Document], terms: Path, copies: int, seed: int) -> list[Document]:
    from .mention_replacement import replace_mentions

    return list(replace_mentions(documents, terms, copies, seed))


def _convert_part(
    nlp: Language,
    documents: Iterable[Document],
    spans_key: str | None,
    each_doc: Callable[[Doc], None],
) -> tuple[DocBin, PartReport]:
    report = PartReport()
    mentions: Counter[str] = Counter()
    relations: Counter[str] = Counter()
    doc_bin = DocBin(attrs=ATTRIBUTES, store_user_data=True)
    sentencizer = Sentencizer()
    for document in documents:
        doc = create_doc(nlp, document)
        annotated = annotate(doc, document, spans_key)
        each_doc(doc)
        report.documents += 1
        report.tokens += len(doc)
        report.pairs += document.pair is not None
        mentions.update(mention.label for mention in annotated.mentions.mentions)
        report.inside_token += len(annotated.mentions.inside_token)
        report.overlapping += len(annotated.mentions.overlapping)
        report.discontinuous += len(annotated.mentions.discontinuous)
        report.uncertain += len(document.uncertain)
        relations.update(relation.label for relation in document.relations or ())
        report.lost_relations += len(annotated.lost_relations)
        report.several_relations += count_several(doc._.relations)
        report.answers += len(annotated.answers.mentions)
        report.unaligned_answers += len(annotated.answers.unaligned)
        if document.sentences is None:
            report.sentences_are_published = False
            report.sentences += _count_sentences(doc, sentencizer)
        else:
            report.sentences += len(document.sentences)
        doc_bin.add(doc)
    report.mentions = dict(sorted(mentions.items()))
    report.relations = dict(sorted(relations.items()))
    return doc_bin, report


def _find_scores(parts: Mapping[str, Sequence[Document]]) -> set[str]:
    """Return the labels whose values are numbers rather than classes: not all between 0 and 1."""
    return {
        label
        for documents in parts.values()
        for document in documents
        for label, value in (document.cats or {}).items()
        if not 0 <= value <= 1
    }


def _count_cats(report: PartReport, documents: Iterable[Document], scores: set[str]) -> None:
    values: dict[str, list[float]] = defaultdict(list)
    for document in documents:
        for label, value in (document.cats or {}).items():
            values[label].append(value)
    for label, numbers in sorted(values.items()):
        if label in scores:
            report.means[label] = sum(numbers) / len(numbers)
        elif count := sum(map(bool, numbers)):
            report.classes[label] = count


def _count_sentences(doc: Doc, sentencizer: Sentencizer) -> int:
    if not len(doc):
        return 0
    return sum(sentencizer.predict([doc])[0])


def _count_duplicates(
    parts: Mapping[str, Sequence[Document]], reports: Mapping[str, PartReport]
) -> None:
    seen: set[str] = set()
    for part, documents in parts.items():
        texts = [document.text for document in documents]
        reports[part].duplicates = sum(text in seen for text in texts)
        seen.update(texts)


def _strings(documents: Iterable[Document]) -> Iterator[tuple[str, str]]:
    for document in documents:
        for mention in document.mentions or ():
            string = " ".join(document.text[start:end] for start, end in mention.fragments)
            yield string.lower(), mention.label


def find_unseen_share(train: Iterable[Document], test: Iterable[Document]) -> float | None:
    """Return the share of test mentions whose lower-cased string and label train never has."""
    seen = set(_strings(train))
    unseen = [mention not in seen for mention in _strings(test)]
    return sum(unseen) / len(unseen) if unseen else None


def _find_annotated_labels(
    parts: Mapping[str, Sequence[Document]],
    entry: CorpusEntry | None,
    label_map: LabelMap | None,
    labels: Collection[str],
) -> frozenset[str]:
    """The labels of mentions that a corpus annotates: those it is published with, or that occur."""
    published: frozenset[str] = frozenset()
    if entry is not None and entry.task in ("ner", "deidentification"):
        published = label_map.rename_all(entry.labels) if label_map else frozenset(entry.labels)
    found = published.union(find_mention_labels(parts))
    return found.intersection(labels) if labels else found


def _find_labels(
    reports: Mapping[str, PartReport], entry: CorpusEntry | None, annotated: Collection[str]
) -> list[str]:
    labels = {
        label
        for report in reports.values()
        for label in (*report.mentions, *report.classes, *report.means)
    }
    return sorted(labels.union(annotated, entry.labels if entry else ()))


def _count_changes(documents: Iterable[Document]) -> dict[str, int]:
    return dict(Counter(kind for document in documents for kind in document.changes))


def _write(
    report: ConversionReport,
    bins: Mapping[str, DocBin],
    log: ChangeLog,
    sources: Sequence[Path | str],
) -> None:
    with replacing_directory(report.output, MADE_BY, sources) as folder:
        for part, doc_bin in bins.items():
            doc_bin.to_disk(folder / f"{part}.spacy")
        for name, content in (("corpus", describe(report)), ("conversion", log.describe())):
            (folder / f"{name}.json").write_text(
                json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8"
            )


def describe(report: ConversionReport) -> dict[str, Any]:
    """Return a report as what `corpus.json` holds."""
    description = asdict(report)
    del description["output"]
    return description
