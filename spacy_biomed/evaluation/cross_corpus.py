"""One pipeline on many corpora: exact and lenient F1, also of mentions not seen in training."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from spacy.language import Language
from spacy.scorer import PRFScore
from spacy.tokens import Doc

from ..annotations.annotation_scope import AnnotationScope
from ..annotations.document_keys import get_unaligned, locate_span
from ..annotations.seen_mentions import SEEN_KEY, SeenMentions
from ..corpora.label_map import LabelMap, check_labels, parse_label_map
from ..errors import BiomedError, escape, list_choices
from ..formats.spacy_docs import read_docs
from ..pipeline.label_scores import LabelScores
from ..pipeline.mention_layer import GoldLayer, list_finders
from ..training.config import read_description

Mention = tuple[int, int, str]

MATCHES = ("exact", "lenient")
# Mentions whose lower-cased text is a mention of the label in the training part, and others.
SEEN, UNSEEN = "seen", "unseen"


@dataclass(frozen=True, slots=True)
class CorpusScore:
    """The scores of a pipeline on a label of a corpus; without a label on all (micro average).

    They are precision, recall and F1 (`p`, `r`, `f`, from 0 to 1) by measure: "exact", "lenient",
    and with a training part "exact seen", "exact unseen", ...; None if there is no mention.
    """

    corpus: str
    label: str | None
    mentions: int
    scores: dict[str, dict[str, float] | None]


def measure_corpora(
    nlp: Language,
    corpora: Sequence[Path],
    label_maps: Mapping[str, LabelMap] | None = None,
    trained_on: Sequence[Path] = (),
    progress: Callable[[str], None] = lambda corpus: None,
) -> list[CorpusScore]:
    """Score the entities (`doc.ents`) of a pipeline on the test parts of corpora.

    Only labels that both the corpus annotates and the pipeline knows are scored; corpora without
    such a label have no scores. What a corpus leaves open is not counted, as in `score_mentions`.
    Labels are mapped by the name of a corpus's folder. With .spacy files that the pipeline was
    trained on, seen and unseen mentions are scored apart.

    A lenient match has the right label, and each of its boundaries differs by at most one character
    from a gold mention's that no other prediction has found. This is the protocol of Sänger et al.
    (2024): HunFlair2 in a cross-corpus evaluation of biomedical named entity recognition and
    normalization tools, Bioinformatics 40(10), btae564. There the first such gold mention counts,
    here exact matches come first.
    """
    known = frozenset(list_finders(nlp, None, None).labels)
    if not known:
        raise BiomedError("the pipeline has no component with labels that finds entities")
    maps = label_maps or {}
    names = [folder.name for folder in corpora]
    if unknown := sorted(set(maps).difference(names)):
        raise BiomedError(f"--map: {list_choices(unknown[0], names)}")
    seen = SeenMentions(nlp.vocab)
    for doc in chain.from_iterable(read_docs(file, nlp.vocab) for file in trained_on):
        seen.learn(doc)
    training = seen if trained_on else None
    scores: list[CorpusScore] = []
    for folder in corpora:
        progress(folder.name)
        label_map = maps.get(folder.name, LabelMap({}))
        description = read_description(folder)
        annotated = description.get("annotated_labels") or description.get("labels") or ()
        check_labels(label_map.targets, annotated, f"--map {folder.name}")
        if scored := label_map.rename_all(annotated) & known:
            references = read_docs(folder / "test.spacy", nlp.vocab)
            counts = _count(nlp, references, label_map, annotated, scored, training)
            scores += _make_rows(folder.name, scored, counts)
    if not scores:
        raise BiomedError(
            f"no corpus has test documents with a label of the pipeline: {', '.join(sorted(known))}"
            "; rename labels with --map CORPUS:LABEL=NAME"
        )
    return scores


def find_corpora(folder: Path) -> list[Path]:
    """The converted corpora with a test part in a folder, sorted by name."""
    found = sorted(test.parent for test in folder.glob("*/test.spacy"))
    found = [corpus for corpus in found if (corpus / "corpus.json").is_file()]
    if not found:
        raise BiomedError(
            f"{folder}: no folder there has corpus.json and test.spacy; "
            "`python -m spacy biomed convert` writes them"
        )
    return found


def parse_label_maps(pairs: Sequence[str]) -> dict[str, LabelMap]:
    """Read `CORPUS:LABEL=NAME`, with label and name as in `parse_label_map`."""
    by_corpus: dict[str, list[str]] = {}
    for pair in pairs:
        corpus, colon, mapped = pair.partition(":")
        if not (corpus and colon):
            raise BiomedError(f"--map {escape(pair)}: write CORPUS:LABEL=NAME")
        by_corpus.setdefault(corpus, []).append(mapped)
    return {name: parse_label_map(mapped, f"--map {name}:") for name, mapped in by_corpus.items()}


def match_leniently(gold: set[Mention], predicted: set[Mention]) -> set[Mention]:
    """Replace predictions by the gold mentions that they match leniently, if any."""
    free, matched = gold - predicted, gold & predicted
    for start, end, label in sorted(predicted - gold):
        near = [(start + i, end + j, label) for i in (-1, 0, 1) for j in (-1, 0, 1)]
        found = next((mention for mention in near if mention in free), (start, end, label))
        free.discard(found)
        matched.add(found)
    return matched


def _count(
    nlp: Language,
    references: Iterable[Doc],
    label_map: LabelMap,
    annotated: Iterable[str],
    scored: frozenset[str],
    seen: SeenMentions | None,
) -> dict[str, LabelScores]:
    """The counts of each measure; nothing if no document is annotated."""
    counts: dict[str, LabelScores] = {}

    def add(measure: str, gold: set[Mention], predicted: set[Mention]) -> None:
        counts.setdefault(measure, LabelScores(scored)).add(gold, predicted)

    pairs = ((doc.text, doc) for doc in references if doc.has_annotation("ENT_IOB"))
    for doc, reference in nlp.pipe(pairs, as_tuples=True):
        layer = GoldLayer.read(reference, None)
        assert layer is not None  # has_annotation, above
        gold = {*layer.mentions, *get_unaligned(reference)}
        mentions = {one for one in label_map.rename_spans(gold) if one[-1] in scored}
        scope = label_map.map_scope(layer.scope, gold, annotated)
        scope = AnnotationScope(scored.intersection(scope.labels or ()), scope.uncertain)
        layer = GoldLayer(mentions, scope, layer.missing)
        found = set(map(locate_span, doc.ents))
        if seen is not None:
            seen.mark(reference)
            known = set(map(locate_span, reference.spans[SEEN_KEY]))
        for match in MATCHES:
            matched = found if match == "exact" else match_leniently(layer.mentions, found)
            predicted = {mention for mention in matched if layer.judge(*mention) is not None}
            add(match, layer.mentions, predicted)
            if seen is not None:
                add(f"{match} {SEEN}", layer.mentions & known, predicted & known)
                add(f"{match} {UNSEEN}", layer.mentions - known, predicted - known)
    return counts


def _make_rows(
    corpus: str, scored: frozenset[str], counts: Mapping[str, LabelScores]
) -> Iterator[CorpusScore]:
    """The rows of a corpus that has counts: each label, and all if there are several."""
    for label in (*sorted(scored), *([None] if len(scored) > 1 else [])):
        own: dict[str, PRFScore] = {
            measure: one.overall if label is None else one.by_label[label]
            for measure, one in counts.items()
        }
        if own:
            mentions = own["exact"].tp + own["exact"].fn
            scores = {name: one.to_dict() if len(one) else None for name, one in own.items()}
            yield CorpusScore(corpus, label, mentions, scores)
