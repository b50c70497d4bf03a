"""Documents of mentions cut into sentences, and long sentences into parts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from spacy.tokens import Doc, Span

from ..annotations.annotation_scope import AnnotationScope, get_scope, set_scope
from ..annotations.pairs import PAIR_KEY
from ..annotations.relation_layer import RELATIONS
from ..annotations.soft_labels import SOFT_LABELS_KEY
from ..errors import BiomedError


def split_doc(doc: Doc, max_words: int) -> Iterator[Doc]:
    """Cut a document into its sentences, and these into parts of at most so many tokens.

    This is how training data of named entities is prepared by Lee et al. (2020, "BioBERT") and Peng
    et al. (2020, "An Empirical Study of Multi-Task Learning on BERT for Biomedical Text Mining",
    section 3). No mention of `doc.ents` or of a span group is cut: a part ends before a mention
    that would not fit, and is longer than `max_words` only if a single mention is.
    """
    check_mentions_only(doc)
    is_inside = np.zeros(len(doc) + 1, dtype=bool)
    for span in (*doc.ents, *(span for group in doc.spans.values() for span in group)):
        is_inside[span.start + 1 : span.end] = True
    start = 0
    for end in _find_ends(doc, is_inside):
        while start < end:
            cut = _find_cut(is_inside, start, min(start + max_words, end))
            yield _copy_part(doc, start, cut)
            start = cut


def check_mentions_only(doc: Doc) -> None:
    """Raise BiomedError if a document has an annotation of the whole text, such as classes."""
    others = {"classes": bool(doc.cats), "pairs": PAIR_KEY in doc.spans}
    others["relations"] = RELATIONS in doc.user_data
    others["a teacher's probabilities"] = SOFT_LABELS_KEY in doc.user_data
    found = [name for name, is_there in others.items() if is_there]
    if found:
        raise BiomedError(
            f"corpora.train.max_words cuts documents of mentions, and this corpus has {found[0]}, "
            "which belong to whole documents: set it to 0"
        )


def _find_ends(doc: Doc, is_inside: np.ndarray) -> list[int]:
    """The ends of the sentences, in tokens, but for those inside a mention."""
    has_sentences = doc.has_annotation("SENT_START")
    starts = [token.i for token in doc[1:] if has_sentences and token.is_sent_start]
    return [*(start for start in starts if not is_inside[start]), len(doc)]


def _find_cut(is_inside: np.ndarray, start: int, cut: int) -> int:
    """The last place up to `cut` that is in no mention, or the first after it if there is none."""
    before = np.flatnonzero(~is_inside[start + 1 : cut + 1])
    if len(before):
        return start + 1 + int(before[-1])
    return cut + int(np.flatnonzero(~is_inside[cut:])[0])


def _copy_part(doc: Doc, start: int, end: int) -> Doc:
    part = doc[start:end].as_doc()
    part.spans.clear()
    shift, layers = doc[start].idx, (None, *doc.spans)
    for key, group in doc.spans.items():
        part.spans[key] = [
            Span(part, span.start - start, span.end - start, label=span.label)
            for span in group
            if start <= span.start and span.end <= end
        ]
    for layer in layers:
        scope = get_scope(doc, layer)
        regions = tuple(
            (max(first - shift, 0), min(last - shift, len(part.text)), label)
            for first, last, label in scope.uncertain
            if first < shift + len(part.text) and last > shift
        )
        set_scope(part, AnnotationScope(scope.labels, regions), layer)
    return part
