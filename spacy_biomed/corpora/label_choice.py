"""Keep some labels of a corpus, as in studies of BC5CDR with only chemicals or only diseases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..errors import BiomedError, escape
from .documents import Document
from .gold import mention_names
from .label_map import find_mention_labels


def keep_labels(
    parts: Mapping[str, Sequence[Document]], labels: Collection[str]
) -> dict[str, list[Document]]:
    """Leave out mentions of other labels, and relations with such a mention as an argument.

    Args:
        parts: the documents of each part.

    Raises:
        BiomedError: if one of the labels does not occur in any part.
    """
    found = find_mention_labels(parts)
    missing = [label for label in labels if label not in found]
    if missing:
        held = f"it has {escape(', '.join(sorted(found)), 300)}" if found else "it has no mentions"
        raise BiomedError(f"--labels: no mention of the corpus is a '{missing[0]}'; {held}")
    return {
        part: [_keep(document, labels) for document in documents]
        for part, documents in parts.items()
    }


def _keep(document: Document, labels: Collection[str]) -> Document:
    if document.mentions is None:
        return document
    kept = [mention for mention in document.mentions if mention.label in labels]
    gone = mention_names(document.mentions) - mention_names(kept)
    relations = document.relations
    if relations is not None:
        relations = [one for one in relations if gone.isdisjoint({one.head, one.tail})]
    uncertain = tuple(region for region in document.uncertain if region.label in labels)
    return replace(document, mentions=kept, relations=relations, uncertain=uncertain)
