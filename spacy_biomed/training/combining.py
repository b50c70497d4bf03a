"""Combine converted corpora into one, whose documents record which labels they annotate.

Luo et al. 2023, "AIONER: all-in-one scheme-based biomedical named entity recognition using deep
learning", table 2, show the loss of accuracy if corpora are merged without this.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spacy.attrs import ENT_IOB, SENT_START
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, DocBin
from spacy.vocab import Vocab

from ..annotations.annotation_scope import AnnotationScope, get_scope, set_scope
from ..annotations.assertions import copy_assertions
from ..annotations.document_keys import DOCUMENT_ID, UNALIGNED_MENTIONS, get_unaligned, locate_span
from ..annotations.seen_mentions import SeenMentions, mentions_of
from ..corpora import repeated_texts
from ..corpora.conversion_report import PartReport
from ..corpora.convert import ATTRIBUTES, create_pipeline
from ..corpora.gold import CONCEPT, place_mentions
from ..corpora.label_map import LabelledSpan, LabelMap, check_labels
from ..corpora.mention_replacement import original_id
from ..corpora.splits import PARTS
from ..errors import BiomedError, list_choices
from ..files.outputs import check_replaceable, replacing_directory
from ..formats.documents import Mention
from ..formats.spacy_docs import read_docs
from .config import read_description, write_description
from .corpus import copy_tokens

MADE_BY = "spacy biomed combine"


@dataclass(slots=True)
class CombinedPart:
    """Counts for one part of one corpus, of documents unless noted.

    Attributes:
        repeated_text, repeated_id, repeated_sentence: left out because a part with precedence has
            the same text, the same PubMed number, or in another corpus a shared sentence.
        merged: merged into a document of another corpus with the same text.
        kept_twice: kept although another corpus has the same abstract, with a different text.
        disputed: mentions that only one of two merged documents has, although both annotate the
            label.
    """

    documents: int = 0
    repeated_text: int = 0
    repeated_id: int = 0
    repeated_sentence: int = 0
    merged: int = 0
    kept_twice: int = 0
    disputed: int = 0


@dataclass(slots=True)
class CombinedCorpus:
    """One of the combined corpora, with the new names of its labels and the counts of parts."""

    name: str
    labels: list[str]
    parts: dict[str, CombinedPart] = field(default_factory=dict)
    licence: str = ""
    source: str = ""


@dataclass(slots=True)
class CombinationReport:
    """The report on a combined corpus, with all annotated labels and the counts of its parts."""

    name: str
    language: str
    labels: list[str]
    corpora: list[CombinedCorpus]
    spans_key: str | None
    parts: dict[str, PartReport] = field(default_factory=dict)


@dataclass(slots=True)
class _Text:
    """A document of a corpus while it is combined."""

    doc: Doc
    known: repeated_texts.KnownText
    # None if the document has no layer of mentions.
    mentions: list[LabelledSpan] | None  # that fit tokens
    lost: list[LabelledSpan]  # that do not fit tokens
    ids: list[tuple[LabelledSpan, str]]  # mentions that have an identifier (`kb_id_`), with it
    scope: AnnotationScope
    counts: CombinedPart  # of its part of its corpus

    @property
    def all_mentions(self) -> list[LabelledSpan]:
        return [*(self.mentions or ()), *self.lost]

    @property
    def labels(self) -> frozenset[str]:
        return self.scope.labels or frozenset()

    @property
    def name(self) -> tuple[str, str]:
        """Its corpus and its id there."""
        return self.known.corpus, str(self.doc.user_data.get(DOCUMENT_ID, ""))


def combine_corpora(
    corpora: Sequence[Path],
    output: Path,
    *,
    label_maps: Mapping[str, LabelMap] | None = None,
    spans_key: str | None = None,
    train_first: bool = False,
) -> CombinationReport:
    """Combine the mentions of several converted corpora into one corpus.

    Each document records which labels it annotates. Documents that repeat a document of any test
    part are left out of the other parts, and of training those that repeat the development part.

    Documents of different corpora in the same part with the same text are merged into one document
    that annotates the labels of both. If both annotate a label, mentions that only one of them has
    become uncertain. Layers other than mentions and their assertions are left out.

    Args:
        corpora: folders written by `spacy biomed convert`, whose names are those of the corpora.
        output: folder to write; replaced if it exists.
        label_maps: new names of labels, by the name of the corpus.
        spans_key: the span group of the mentions, in all corpora and in the output; None for
            `doc.ents`.
        train_first: whether to leave what both parts have out of development, not of training. A
            single development sentence can otherwise remove a whole training abstract.

    Raises:
        BiomedError: if a corpus cannot be read, has no such mentions, another language or a
            teacher's probabilities; if a label map has an unknown corpus or label; or if nothing is
            left for training. Then nothing is written.
    """
    label_maps = label_maps or {}
    names = [folder.resolve().name for folder in corpora]
    _check_names(names, label_maps)
    check_replaceable(output, MADE_BY, corpora)
    described = dict(zip(names, map(read_description, corpora), strict=True))
    language = _common_language(described)
    vocab = create_pipeline(language).vocab
    combined = []
    parts: dict[str, list[_Text]] = {part: [] for part in PARTS}
    for folder, (name, description) in zip(corpora, described.items(), strict=True):
        stated = {field: description.get(field, "") for field in ("licence", "source")}
        combined.append(CombinedCorpus(name, [], **stated))
        annotated = description.get("annotated_labels", ())
        label_map = label_maps.get(name, LabelMap({}))
        texts = _read_corpus(combined[-1], folder, annotated, label_map, vocab, spans_key)
        for part in texts:
            parts[part].extend(texts[part])
    labels = sorted({label for corpus in combined for label in corpus.labels})
    report = CombinationReport(output.resolve().name, language, labels, combined, spans_key)
    _leave_out_repeats(parts, ("train", "dev") if train_first else ("dev", "train"))
    merged = {part: _merge_repeats(parts[part]) for part in PARTS if parts[part]}
    if not merged.get("train"):
        raise BiomedError(f"{output}: the corpora leave nothing to train on; add one that does")
    _write(merged, report, output, spans_key, corpora)
    return report


def _check_names(names: list[str], label_maps: Mapping[str, LabelMap]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise BiomedError(f"{name}: two corpora have this name; rename one of the folders")
    for name in label_maps:
        if name not in names:
            raise BiomedError(f"--map {name}: no such corpus; {list_choices(name, names)}")


def _common_language(described: Mapping[str, Mapping[str, Any]]) -> str:
    for name, description in described.items():
        if "taught" in description:
            raise BiomedError(
                f"{name}: carries a teacher's probabilities; combine the corpora before "
                "`python -m spacy biomed teach`"
            )
    languages = {name: description["language"] for name, description in described.items()}
    if len(set(languages.values())) > 1:
        held = ", ".join(f"{name} is in {language}" for name, language in languages.items())
        raise BiomedError(f"only corpora of the same language can be combined, but {held}")
    return languages.popitem()[1]


def _read_corpus(
    corpus: CombinedCorpus,
    folder: Path,
    annotated: Iterable[str],
    label_map: LabelMap,
    vocab: Vocab,
    spans_key: str | None,
) -> dict[str, list[_Text]]:
    """Read the parts of a corpus, map its labels, and note its labels and counts."""
    parts: dict[str, list[_Text]] = {}
    for part in PARTS:
        if (path := folder / f"{part}.spacy").is_file():
            counts = corpus.parts[part] = CombinedPart()
            docs = read_docs(path, vocab)
            parts[part] = [_read_text(corpus.name, doc, spans_key, counts) for doc in docs]
            counts.documents = len(parts[part])
    texts = [text for part in parts.values() for text in part]
    if all(text.mentions is None for text in texts):
        layer = "doc.ents" if spans_key is None else f"doc.spans['{spans_key}']"
        raise BiomedError(
            f"{folder}: no document has mentions in {layer}; give corpora with mentions there"
        )
    found = {label for text in texts for *_, label in text.all_mentions}.union(annotated)
    check_labels(label_map.targets, found, f"--map {corpus.name}")
    for text in texts:
        text.scope = label_map.map_scope(text.scope, text.all_mentions, found)
        if text.mentions is not None:
            text.mentions = label_map.rename_spans(text.mentions)
        text.lost = label_map.rename_spans(text.lost)
        text.ids = [
            (renamed, id)
            for mention, id in text.ids
            for renamed in label_map.rename_spans([mention])
        ]
    corpus.labels = sorted({label for text in texts for label in text.labels})
    return parts


def _read_text(corpus: str, doc: Doc, spans_key: str | None, counts: CombinedPart) -> _Text:
    has_layer = doc.has_annotation("ENT_IOB") if spans_key is None else spans_key in doc.spans
    spans = mentions_of(doc, spans_key)
    mentions = [*map(locate_span, spans)]
    ids = [(locate_span(span), span.kb_id_) for span in spans if span.kb_id_]
    is_split = doc.has_annotation("SENT_START")
    sentences = (doc if is_split else Sentencizer()(copy_tokens(doc, doc.vocab))).sents
    known = repeated_texts.KnownText(
        corpus,
        repeated_texts.find_pubmed_id(str(doc.user_data.get(DOCUMENT_ID, ""))),
        repeated_texts.normalise_words(doc.text),
        tuple(repeated_texts.normalise_words(sentence.text) for sentence in sentences),
    )
    scope = get_scope(doc, spans_key)
    lost = get_unaligned(doc)
    return _Text(doc, known, mentions if has_layer else None, lost, ids, scope, counts)


def _leave_out_repeats(parts: dict[str, list[_Text]], order: Sequence[str]) -> None:
    """Leave out what repeats test documents, and of the second part what repeats the first.

    A copy with replaced mentions is left out with the document that it is a copy of.
    """
    held_out = [text.known for text in parts["test"]]
    for part in order:
        kept = []
        reasons = repeated_texts.find_repeats([text.known for text in parts[part]], held_out)
        reasoned = list(zip(parts[part], reasons, strict=True))
        left_out = {text.name: reason for text, reason in reasoned if reason is not None}
        for text, reason in reasoned:
            corpus, document_id = text.name
            reason = reason or left_out.get((corpus, original_id(document_id)))
            if reason is None:
                kept.append(text)
            else:
                name = f"repeated_{reason}"
                setattr(text.counts, name, getattr(text.counts, name) + 1)
        parts[part] = kept
        held_out.extend(text.known for text in kept)


def _merge_repeats(texts: Sequence[_Text]) -> list[_Text]:
    """Merge documents of different corpora that have the same text."""
    index = repeated_texts.TextIndex()
    kept: list[_Text] = []
    for text in texts:
        others = [kept[number] for number in index.candidates(text.known)]
        others = [other for other in others if other.known.corpus != text.known.corpus]
        twin = next((other for other in others if _can_merge(other, text)), None)
        if twin is not None:
            text.counts.merged += 1
            text.counts.disputed += _merge(twin, text)
            continue
        text.counts.kept_twice += any(
            text.known.is_text_of(other.known) or text.known.is_abstract_of(other.known)
            for other in others
        )
        index.add(len(kept), text.known)
        kept.append(text)
    return kept


def _can_merge(one: _Text, other: _Text) -> bool:
    return (
        one.doc.text == other.doc.text
        and one.known.is_text_of(other.known)
        and all(text.mentions is not None and not _missing(text.doc) for text in (one, other))
    )


def _merge(one: _Text, other: _Text) -> int:
    """Merge a document's annotation into another with the same text; count disputed mentions."""
    shared = one.labels & other.labels
    different = set(one.all_mentions) ^ set(other.all_mentions)
    disputed = {mention for mention in different if mention[2] in shared}
    one.mentions = sorted({*(one.mentions or ()), *(other.mentions or ())} - disputed)
    one.ids += other.ids
    one.lost = sorted({*one.lost, *other.lost} - disputed - set(one.mentions))
    regions = {
        region
        for text, foreign in ((one, other), (other, one))
        for region in text.scope.uncertain
        if region[2] in shared or region[2] not in foreign.labels
    }
    one.scope = AnnotationScope(one.labels | other.labels, tuple(sorted(regions | disputed)))
    copy_assertions(other.doc, one.doc)
    return len(disputed)


def _missing(doc: Doc) -> list[int]:
    """Indices of tokens without annotation, in a partly annotated document."""
    if not doc.has_annotation("ENT_IOB"):
        return []
    return [i for i, tag in enumerate(doc.to_array(ENT_IOB).tolist()) if tag == 0]


def _write(
    parts: Mapping[str, Sequence[_Text]],
    report: CombinationReport,
    output: Path,
    spans_key: str | None,
    sources: Sequence[Path],
) -> None:
    seen = SeenMentions(parts["train"][0].doc.vocab, spans_key)
    with replacing_directory(output, MADE_BY, sources) as partial:
        for part, texts in parts.items():  # train comes first
            doc_bin = DocBin(attrs=ATTRIBUTES, store_user_data=True)
            counts = report.parts[part] = PartReport()
            for text in texts:
                doc = _create_doc(text, spans_key, counts)
                (seen.learn if part == "train" else seen.mark)(doc)
                doc_bin.add(doc)
            counts.mentions = dict(sorted(counts.mentions.items()))
            doc_bin.to_disk(partial / f"{part}.spacy")
        write_description(partial, _describe(report))


def _create_doc(text: _Text, spans_key: str | None, counts: PartReport) -> Doc:
    """Create the document to write, of mentions and their assertions, and count it."""
    source = text.doc
    doc = copy_tokens(source, source.vocab)
    if source.has_annotation("SENT_START"):
        doc.from_array([SENT_START], source.to_array([SENT_START]))
    else:
        counts.sentences_are_published = False
    if DOCUMENT_ID in source.user_data:
        doc.user_data[DOCUMENT_ID] = source.user_data[DOCUMENT_ID]
    copy_assertions(source, doc)
    counts.documents += 1
    counts.sentences += len(text.known.sentences)
    counts.tokens += len(doc)
    if text.mentions is None:
        return doc
    kept = set(text.mentions)
    given = [(mention, "") for mention in text.mentions]
    given += [(mention, id) for mention, id in text.ids if mention in kept]
    mentions = [
        Mention(label, ((start, end),), attributes={CONCEPT: id})
        for (start, end, label), id in given
    ]
    placement = place_mentions(doc, mentions, flat=spans_key is None)
    if spans_key is None:
        missing = [doc[i : i + 1] for i in _missing(source)]
        doc.set_ents(placement.spans, missing=missing, default="outside")
    else:
        doc.spans[spans_key] = placement.spans
    lost = doc.user_data[UNALIGNED_MENTIONS] = sorted({*text.lost, *placement.unaligned})
    set_scope(doc, text.scope, spans_key)
    counts.overlapping += len(placement.overlapping)
    counts.inside_token += len(lost) - len(placement.overlapping)
    counts.uncertain += len(text.scope.uncertain)
    for *_, label in text.all_mentions:
        counts.mentions[label] = counts.mentions.get(label, 0) + 1
    return doc


def _describe(report: CombinationReport) -> dict[str, object]:
    """The content of `corpus.json`."""
    stated = {
        name: "; ".join(
            f"{corpus.name}: {getattr(corpus, name) or 'not stated'}" for corpus in report.corpora
        )
        for name in ("licence", "source")
    }
    return {**asdict(report), "format": "combined", "annotated_labels": report.labels, **stated}
