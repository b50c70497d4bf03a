"""A corpus as its authors publish it becomes `train.spacy`, `dev.spacy` and `test.spacy`.

Conversion has seven steps: read the files and repair their flaws (`formats`, `repairs`), split the
documents into parts (`splits`), choose labels, cut documents into units (`units`), place
annotations on tokens (`gold`), write, and report (`conversion_report`).
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

import spacy
from spacy.language import Language
from spacy.tokens import DocBin

from ..annotations.seen_mentions import SeenMentions
from ..errors import BiomedError, quote
from ..files.outputs import check_replaceable, replacing_directory
from ..formats.assertion_attributes import complete_assertions
from ..formats.documents import Document
from ..formats.registry import list_formats, read_documents
from ..formats.repairs import ChangeLog, OnError, keeping_log
from ..formats.spacy_docs import find_coders_once
from . import mention_replacement
from .conversion_report import ConversionReport, PartReport, compare_parts, find_unseen_share
from .corpus_catalogue import CorpusEntry, find_corpus
from .downloads import unpacking
from .gold import CONCEPT, annotate, create_doc
from .label_map import LabelMap, find_mention_labels, keep_labels, map_labels
from .splits import Paths, drop_repeats, find_parts, split_parts
from .tokenizer import create_tokenizer
from .units import cut_documents

MADE_BY = "spacy biomed convert"

# The attributes of tokens that conversion sets; others would only make the files larger.
ATTRIBUTES = ("ENT_IOB", "ENT_TYPE", "ENT_KB_ID", "SENT_START")

Progress = Callable[[Sequence[Document], str], Iterable[Document]]


def convert_corpus(
    name: str,
    source: Path | str,
    output: Path | str,
    *,
    format: str | None = None,
    language: str | None = None,
    paths: Paths | None = None,
    encoding: str | None = None,
    n_sents: int = 1,
    tag_label: str | None = None,
    label_map: LabelMap | None = None,
    labels: Sequence[str] = (),
    spans_key: str | None = None,
    replace_mentions: Path | str | None = None,
    copies: int = 1,
    seed: int = 0,
    on_error: OnError = "stop",
    identifier: str = CONCEPT,
    sentences: bool = False,
    pairs: str = "",
    progress: Progress | None = None,
) -> ConversionReport:
    """Convert a corpus and write `{train,dev,test}.spacy`, `corpus.json` and `conversion.json`.

    Args:
        name: a corpus of the catalogue; with `format`, any name.
        source: the folder (or the single file) that the corpus was unpacked to.
        output: the folder to write; it changes only once everything is converted.
        language: spaCy's code of the text's language; by default the catalogue's, or English.
        paths: the files or folders of each part; by default the catalogue's, or as `find_parts`
            finds them.
        encoding: of the text files; by default UTF-8.
        n_sents: sentences per document, for column files that do not mark documents.
        tag_label: label of tags that have none (`read_columns`), and of tables without labels.
        label_map: the new names of labels of mentions.
        labels: of the mentions to keep, by their new names; empty for all.
        spans_key: put mentions in `doc.spans[spans_key]` instead of `doc.ents`.
        replace_mentions: folder of term lists to multiply the training part with, `copies` times.
        seed: of mention replacement, and of parts that the corpus is not published with: a tenth of
            the training documents for dev, and for a corpus in one piece another tenth for test.
        on_error: what to do about an annotation, a line or a document that is wrong and cannot be
            repaired: "stop", or "skip" it. `conversion.json` lists what was repaired and left out.
        identifier: the attribute of mentions that becomes `ent.kb_id_` (docs/tasks/linking.md).
        sentences: make a document of each sentence (`units.cut_sentences`).
        pairs: make a document of each pair of mentions in a sentence, with tags in their places
            (`units.mark_pairs`): "all", or types as in "CHEMICAL+GENE".
        progress: called with documents and a description, to show the progress.

    `labels`, `label_map`, `sentences` and `pairs` are by default those of the catalogue.

    Raises:
        BiomedError: if the input is wrong or the output cannot be written; nothing is written.
    """
    source, output = Path(source), Path(output)
    if not (name and spans_key != ""):
        raise BiomedError(f"{source}: the name of a corpus, and the key of spans, may not be empty")
    entry = None if format else _find_entry(name)
    if entry is not None:
        name, format = entry.name, entry.format
        language = language or entry.language
        own = entry.conversion
        sentences, pairs = sentences or own.get("sentences", False), pairs or own.get("pairs", "")
        labels = labels or own.get("labels", ())
        label_map = label_map or (LabelMap(own["map"]) if own.get("map") else None)
        on_error = own.get("on_error", on_error)
    format, language, encoding = format or "", language or "en", encoding or "utf-8"
    with keeping_log(on_error) as log, unpacking(entry, source) as folder:
        paths = paths or _find_paths(entry, folder)
        sources = [*chain.from_iterable(paths.values())]
        if replace_mentions is not None:
            sources.append(replace_mentions)
        check_replaceable(output, MADE_BY, sources)
        parts = {
            part: list(read_documents(format, paths[part], encoding, n_sents, tag_label))
            for part in paths
        }
        _check_documents(source, format, parts, log)
        parts, seeded = split_parts(parts, format, paths, seed, entry.part_ids if entry else {})
        dropped = drop_repeats(parts) if entry and entry.drop_repeats else {}
        if identifier != CONCEPT:
            _check_identifier(parts, identifier)
        parts, annotated_labels = _choose_labels(parts, entry, label_map, labels)
        complete_assertions([*chain.from_iterable(parts.values())])
        parts = cut_documents(parts, language, sentences=sentences or bool(pairs), pairs=pairs)
        log.rename(str(folder), str(source))
    reports = {part: PartReport(dropped=dropped.get(part, 0)) for part in parts}
    for part, documents in parts.items():
        reports[part].changes.update(Counter(chain.from_iterable(one.changes for one in documents)))
    if replace_mentions is not None:
        if "train" not in parts:
            raise BiomedError(f"{name}: no training part to replace mentions in; give --train")
        parts["train"] = mention_replacement.replace_mentions(
            parts["train"], replace_mentions, copies, seed
        )
    bins = _place(parts, reports, language, spans_key, identifier, progress)
    compare_parts(parts, reports)
    is_published = entry is not None and bool(entry.conversion or not (labels or label_map))
    # Labels of mentions are annotated labels already.
    published = entry.labels if entry and is_published and not _has_mentions(entry) else ()
    found = ({*report.mentions, *report.classes, *report.means} for report in reports.values())
    report = ConversionReport(
        name=name,
        language=language,
        format=format,
        output=output,
        labels=sorted(annotated_labels.union(published, *found)),
        annotated_labels=sorted(annotated_labels),
        parts=reports,
        seeded_parts=seeded,
        seed=seed,
        unseen_share=find_unseen_share(parts),
        licence=entry.licence if entry else "",
        source=entry.source if entry else "",
        spans_key=spans_key,
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


def _check_documents(
    source: Path, format: str, parts: Mapping[str, list[Document]], log: ChangeLog
) -> None:
    for part in (part for part, documents in parts.items() if not documents):
        why = log.changes[0].what if log.changes else "check its files and the format"
        raise BiomedError(f"{source}: no document of the part {part} could be read: {why}")
    if not any(map(_is_annotated, chain.from_iterable(parts.values()))):
        raise BiomedError(
            f"{source}: no document has annotations that the format {format} reads; check the "
            "format, and where the file has its annotations"
        )


def _find_entry(name: str) -> CorpusEntry:
    entry = find_corpus(name)
    if entry.format is None:
        raise BiomedError(
            f"{name}: there is no reader for this corpus yet; if you have it in another form, give "
            f"--format with one of {', '.join(list_formats())}"
        )
    return entry


def _find_paths(entry: CorpusEntry | None, source: Path) -> Paths:
    if entry is None or not entry.splits:
        return find_parts(source)
    if not source.exists():
        raise BiomedError(
            f"{source}: no such folder; unpack {entry.name} there, from {entry.source}"
        )
    return {part: [source / path for path in paths] for part, paths in entry.splits.items()}


def _choose_labels(
    parts: dict[str, list[Document]],
    entry: CorpusEntry | None,
    label_map: LabelMap | None,
    labels: Collection[str],
) -> tuple[dict[str, list[Document]], frozenset[str]]:
    """Rename labels of mentions, keep those that are wanted, and note them in each document."""
    annotated: frozenset[str] = frozenset()
    if entry is not None and _has_mentions(entry):
        annotated = label_map.rename_all(entry.labels) if label_map else frozenset(entry.labels)
    if label_map is not None:
        parts = map_labels(parts, label_map)
    if labels:
        parts = keep_labels(parts, labels, annotated)
    annotated = annotated.union(find_mention_labels(parts))
    if labels:
        annotated = annotated.intersection(labels)
    for document in chain.from_iterable(parts.values()):
        document.annotated_labels = annotated
    return parts, annotated


def _has_mentions(entry: CorpusEntry) -> bool:
    """Whether the labels of a corpus are those of mentions."""
    return entry.task in ("ner", "deidentification")


def _is_annotated(document: Document) -> bool:
    layers = (document.mentions, document.relations, document.cats, document.answers)
    return any(layer is not None for layer in layers)


def _check_identifier(parts: Mapping[str, list[Document]], identifier: str) -> None:
    """Refuse the name of an attribute that no mention has."""
    found = [one for part in parts.values() for document in part for one in document.mentions or ()]
    names = sorted({name for mention in found for name in mention.attributes})
    if found and identifier not in names:
        problem = f"--identifier {quote(identifier)}: mentions have no such attribute"
        raise BiomedError(f"{problem}; they have: {', '.join(names) or 'none'}")


def _place(
    parts: Mapping[str, Sequence[Document]],
    reports: Mapping[str, PartReport],
    language: str,
    spans_key: str | None,
    identifier: str,
    progress: Progress | None,
) -> dict[str, DocBin]:
    """Create the Docs of each part, with their annotations, and count them in the reports."""
    find_coders_once()
    nlp = create_pipeline(language)
    seen = SeenMentions(nlp.vocab, spans_key)
    bins = {}
    for part, documents in parts.items():  # train comes first
        bins[part] = DocBin(attrs=ATTRIBUTES, store_user_data=True)
        for document in progress(documents, part) if progress else documents:
            doc = create_doc(nlp, document)
            annotated = annotate(doc, document, spans_key, identifier)
            if part == "train":
                seen.learn(doc)
            elif "train" in parts:  # else it is not known which mentions were seen
                seen.mark(doc)
            reports[part].count(document, doc, annotated)
            bins[part].add(doc)
    return bins


def _write(
    report: ConversionReport,
    bins: Mapping[str, DocBin],
    log: ChangeLog,
    sources: Sequence[Path | str],
) -> None:
    with replacing_directory(report.output, MADE_BY, sources) as folder:
        for part, doc_bin in bins.items():
            doc_bin.to_disk(folder / f"{part}.spacy")
        for name, content in (("corpus", report.describe()), ("conversion", log.describe())):
            text = json.dumps(content, ensure_ascii=False, indent=2) + "\n"
            (folder / f"{name}.json").write_text(text, encoding="utf-8")
