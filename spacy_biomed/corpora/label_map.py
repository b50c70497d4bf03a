"""The labels of a corpus: renamed to labels that several corpora share, or only some of them kept.

Only some are kept, for example, in studies of BC5CDR with only chemicals or only diseases.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ..annotations.annotation_scope import AnnotationScope
from ..errors import BiomedError, escape
from ..formats.documents import Document, mention_names

UNCERTAIN_SIGN = "?"

# First character, end and label.
LabelledSpan = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class LabelMap:
    """New names for labels of mentions; labels without an entry stay.

    Attributes:
        targets: label to its new name, which several labels may share. "" leaves out the mentions
            of the label. "?" and a label, such as "?GENE" for families of genes, makes them regions
            where a mention of that label would be neither right nor wrong.
    """

    targets: Mapping[str, str]

    def rename(self, label: str) -> str | None:
        """The new label of mentions; None if they are no longer mentions."""
        if label not in self.targets:
            return label
        target = self.targets[label]
        return None if not target or target.startswith(UNCERTAIN_SIGN) else target

    def uncertain_as(self, label: str) -> str | None:
        """The label for which regions are neither right nor wrong; None if there is none."""
        target = self.targets.get(label, "")
        return target.removeprefix(UNCERTAIN_SIGN) if target.startswith(UNCERTAIN_SIGN) else None

    def rename_all(self, labels: Iterable[str]) -> frozenset[str]:
        """The labels that a corpus annotates after renaming."""
        return frozenset(filter(None, map(self.rename, labels)))

    def rename_spans(self, spans: Iterable[LabelledSpan]) -> list[LabelledSpan]:
        """The spans that are still mentions, with their new labels."""
        renamed = ((start, end, self.rename(label)) for start, end, label in spans)
        return [(start, end, label) for start, end, label in renamed if label is not None]

    def map_scope(
        self, scope: AnnotationScope, mentions: Iterable[LabelledSpan], labels: Iterable[str]
    ) -> AnnotationScope:
        """What is annotated after renaming; `labels` are those of a scope that has none."""
        uncertain = self.rename_spans(scope.uncertain)
        for start, end, label in mentions:
            if (region := self.uncertain_as(label)) is not None:
                uncertain.append((start, end, region))
        annotated = labels if scope.labels is None else scope.labels
        return AnnotationScope(self.rename_all(annotated), tuple(uncertain))


def check_labels(labels: Iterable[str], found: Collection[str], where: str) -> None:
    """Raise BiomedError if a corpus has no such label; `where` is the option that names it."""
    if missing := [label for label in labels if label not in found]:
        held = f"it has {escape(', '.join(sorted(found)), 300)}" if found else "it has no mentions"
        raise BiomedError(f"{where}: no mention of the corpus is a '{missing[0]}'; {held}")


def parse_label_map(pairs: Sequence[str], option: str = "--map") -> LabelMap:
    """Read `LABEL=NAME`, `LABEL=` and `LABEL=?NAME`.

    Raises:
        BiomedError: if a pair has another form, or a label is given twice.
    """
    targets: dict[str, str] = {}
    for pair in pairs:
        label, sign, target = (part.strip() for part in pair.partition("="))
        if not label or not sign or target == UNCERTAIN_SIGN:
            raise BiomedError(
                f"{option} {pair}: write LABEL=NAME to rename, LABEL= to leave out, or LABEL=?NAME "
                "where a NAME would be neither right nor wrong"
            )
        if label in targets:
            raise BiomedError(f"{option} {pair}: {label} is mapped twice; give it once")
        targets[label] = target
    return LabelMap(targets)


def map_labels(
    parts: Mapping[str, Sequence[Document]], label_map: LabelMap
) -> dict[str, list[Document]]:
    """Rename the labels of mentions; relations of mentions that are left out are left out too.

    Args:
        parts: the documents of each part.

    Raises:
        BiomedError: if a label to rename does not occur in any part.
    """
    check_labels(label_map.targets, find_mention_labels(parts), "--map")
    return {part: [_map(one, label_map) for one in documents] for part, documents in parts.items()}


def keep_labels(
    parts: Mapping[str, Sequence[Document]],
    labels: Collection[str],
    annotated: Collection[str] = (),
) -> dict[str, list[Document]]:
    """Leave out mentions of other labels, and relations with such a mention as an argument.

    Args:
        parts: the documents of each part.
        annotated: labels that the corpus annotates even if no mention has them.

    Raises:
        BiomedError: if one of the labels is not annotated and does not occur in any part.
    """
    found = find_mention_labels(parts)
    check_labels(labels, found.union(annotated), "--labels")
    kept = map_labels(parts, LabelMap(dict.fromkeys(found.difference(labels), "")))
    for document in chain.from_iterable(kept.values()):
        document.uncertain = tuple(one for one in document.uncertain if one.label in labels)
    return kept


def find_mention_labels(parts: Mapping[str, Sequence[Document]]) -> set[str]:
    """Find the labels of all mentions of a corpus."""
    return {
        mention.label
        for documents in parts.values()
        for document in documents
        for mention in document.mentions or ()
    }


def _map(document: Document, label_map: LabelMap) -> Document:
    if document.mentions is None:
        return document
    kept, renamed, uncertain = [], [], list(document.uncertain)
    for mention in document.mentions:
        if (label := label_map.rename(mention.label)) is not None:
            kept.append(mention)
            renamed.append(replace(mention, label=label))
        elif (label := label_map.uncertain_as(mention.label)) is not None:
            uncertain.append(replace(mention, label=label))
    gone = mention_names(document.mentions) - mention_names(kept, document.mentions)
    relations = document.relations
    if relations is not None:
        relations = [one for one in relations if gone.isdisjoint({one.head, one.tail})]
    return replace(document, mentions=renamed, relations=relations, uncertain=tuple(uncertain))
