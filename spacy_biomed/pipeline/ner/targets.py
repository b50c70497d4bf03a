"""What examples teach `biomed_ner`: targets for the tags of tokens, and the loss."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans
from thinc.api import to_numpy
from thinc.types import Floats2d, Ints1d, Ragged

from ...annotations.annotation_scope import get_scope
from ...annotations.soft_labels import explain_classes, get_soft_labels, soft_label_classes
from ...encoders.batching.alignment import token_offsets
from ...errors import BiomedError, quote
from ...models.tagging import MISSING, Spans, TagScheme
from ..losses import log_normalizer
from ..mention_layer import align_spans, find_missing, gold_spans


class Truth(NamedTuple):
    """The targets for the tags of a document's tokens: (tokens, tags) each."""

    targets: Floats2d  # probabilities; zeros where nothing is known
    joint: np.ndarray  # the tags of a token for which only the sum of the targets is known


@dataclass(frozen=True, slots=True)
class TagTargets:
    """Makes the targets of a component, with its name, its tags and its settings."""

    name: str
    scheme: TagScheme
    spans_key: str | None
    teacher_share: float

    def __call__(self, example: Example) -> Truth:
        """The known targets for the tags of the predicted document's tokens."""
        tags = self.gold_tags(example)
        allowed = self._allowed_tags(example, tags)
        tags[allowed.all(axis=1)] = MISSING
        allowed[tags == MISSING] = False
        targets = np.zeros((len(tags), self.scheme.size), dtype="float32")
        has_gold = tags != MISSING
        targets[has_gold, tags[has_gold]] = 1.0
        truth = Truth(targets, allowed)
        taught = get_soft_labels(
            example.reference, self.name, self.scheme.tag_names(), may_lack=True
        )
        return truth if taught is None else self._ask_teacher(example, tags, truth, taught)

    def _ask_teacher(self, example: Example, tags: Ints1d, gold: Truth, taught: Floats2d) -> Truth:
        """Combine targets from gold tags, (tokens,), with a teacher's: (reference tokens, tags)."""
        predicted, reference = _same_tokens(example)
        taught = taught[reference]
        targets, allowed = gold.targets.copy(), gold.joint.copy()
        is_open = allowed[predicted].any(axis=1)
        if is_open.any():
            # Where the gold allows several tags, the teacher's probabilities choose among them.
            among = taught[is_open] * allowed[predicted[is_open]]
            total = among.sum(axis=1, keepdims=True)
            outside = np.eye(1, self.scheme.size, dtype="float32")
            shares = np.where(total > 0, among / np.where(total > 0, total, 1.0), outside)
            targets[predicted[is_open]] = shares
        is_unknown = self._unknown_tags(example.reference)
        has_gold = tags != MISSING
        share = np.where(has_gold, self.teacher_share, 1.0).astype("float32")
        share[has_gold & is_unknown[tags]] = 0.0
        share = share[predicted, None]
        targets[predicted] = share * taught + (1.0 - share) * targets[predicted]
        joint = np.where(has_gold[:, None], allowed & is_unknown, is_unknown)
        joint[:, 0] = joint.any(axis=1)
        allowed[predicted] = joint[predicted]  # other tokens have no teacher's probabilities
        return Truth(targets, allowed)

    def _unknown_tags(self, reference: Doc) -> np.ndarray:
        """(tags,) whether the teacher of a document does not know the tag."""
        taught, classes = soft_label_classes(reference, self.name), self.scheme.tag_names()
        is_unknown = ~np.isin(classes, taught)
        label_of_tag = self.scheme.label_of_tag
        in_part = np.intersect1d(label_of_tag[is_unknown], label_of_tag[~is_unknown])
        if len(in_part):
            raise explain_classes(self.name, taught, classes)
        return is_unknown

    def _allowed_tags(self, example: Example, tags: Ints1d) -> np.ndarray:
        """(tokens, tags) the tags that a token without a mention may have, where some are open.

        They are False for tokens with a gold tag, (tokens,), other than "O".
        """
        scope = get_scope(example.reference, self.spans_key)
        label_ids = {label: i for i, label in enumerate(self.scheme.labels)}
        annotated = label_ids.keys() if scope.labels is None else scope.labels
        unknown = [label_ids[label] for label in label_ids if label not in annotated]
        regions = [region for region in scope.uncertain if region[2] in label_ids]
        if not unknown and not regions:
            return np.zeros((len(tags), self.scheme.size), dtype=bool)
        label_of_tag = self.scheme.label_of_tag
        allowed = np.tile(np.isin(label_of_tag, unknown), (len(tags), 1))
        starts, ends, _ = token_offsets([example.predicted])
        for start, end, label in regions:
            is_inside = (starts < end) & (ends > start)
            allowed[np.ix_(is_inside, label_of_tag == label_ids[label])] = True
        allowed[:, 0] = allowed.any(axis=1)
        allowed[tags != 0] = False
        return allowed

    def gold_tags(self, example: Example) -> Ints1d:
        """Tags of the predicted document's tokens: (tokens,); MISSING where not annotated."""
        doc, reference = example.predicted, example.reference
        gold = gold_spans(reference, self.spans_key)
        if gold is None:
            return np.full(len(doc), MISSING)
        missing = find_missing(reference) if self.spans_key is None else []
        if not gold and not missing:
            return np.zeros(len(doc), dtype="int64")
        starts, ends, _ = token_offsets([doc])
        gold = filter_spans(gold)  # tags cannot overlap: keep the longest mentions
        for span in gold:
            self.check_label(span.label_, span.text)
        spans, fits = self.place_mentions(gold, starts, ends)
        tags = self.scheme.encode(len(doc), spans)
        # Tokens that a mention covers only partly are neither inside nor outside an entity.
        for place in np.flatnonzero(~fits):
            tags[(starts < gold[place].end_char) & (ends > gold[place].start_char)] = MISSING
        for start, end in missing:
            tags[(starts < end) & (ends > start)] = MISSING
        return tags

    def place_mentions(
        self, mentions: Sequence[Span], starts: Ints1d, ends: Ints1d
    ) -> tuple[Spans, np.ndarray]:
        """Find the tokens of gold mentions with labels of the component.

        Returned are those that begin and end with a token, and (mentions,) whether each does.
        """
        label_ids = {label: i for i, label in enumerate(self.scheme.labels)}
        labels = np.array([label_ids[span.label_] for span in mentions], dtype="int64")
        first, last, fits = align_spans(mentions, starts, ends)
        return Spans(first[fits], last[fits] + 1, labels[fits]), fits

    def find_labels(self, examples: Iterable[Example]) -> dict[str, str]:
        """The labels of gold mentions and of teachers, each with the text of a mention or a tag."""
        found: dict[str, str] = {}
        for example in examples:
            for span in gold_spans(example.reference, self.spans_key) or ():
                found.setdefault(span.label_, span.text)
            for tag in soft_label_classes(example.reference, self.name):
                if tag != "O":
                    found.setdefault(tag[2:], tag)
        return found

    def check_label(self, label: str, text: str) -> None:
        """Raise BiomedError if a gold mention, with this text, has an unknown label."""
        if label not in self.scheme.labels:
            raise BiomedError(
                f"label {quote(label)} of a gold mention ({quote(text)}) is not among the labels "
                f"of '{self.name}' ({', '.join(self.scheme.labels)}); add it to "
                f"initialize.components.{self.name}.labels, or leave that setting out"
            )


def compute_loss(truths: Sequence[Truth], scores: Ragged, xp: ModuleType) -> tuple[float, Floats2d]:
    """The loss of `BiomedNER.get_loss`, and its gradient; `xp` is the scores' NumPy or CuPy."""
    # Repeated before they go to a GPU: there each token would be copied by itself.
    lengths = to_numpy(scores.lengths)
    targets = np.repeat(np.concatenate([truth.targets for truth in truths]), lengths, axis=0)
    joint = np.repeat(np.concatenate([truth.joint for truth in truths]), lengths, axis=0)
    mass = targets.sum(axis=1, keepdims=True)  # a teacher's are rounded
    count = max(int((mass > 0).sum()), 1)
    has_joint = joint.any()
    targets, mass = xp.asarray(targets), xp.asarray(mass)
    log_probs = learned = log_softmax(scores.dataXd)
    expected = targets
    if has_joint:
        joint = xp.asarray(joint)
        rows = joint.any(axis=1)
        joint, single = joint[rows], targets[rows]
        among = xp.where(joint, log_probs[rows], -xp.inf)
        together = log_normalizer(among, True)
        joint_mass = xp.where(joint, single, 0.0).sum(axis=1, keepdims=True)
        learned, expected = xp.array(log_probs), xp.array(targets)
        learned[rows] = xp.where(joint, together, log_probs[rows])
        expected[rows] = xp.where(joint, joint_mass * xp.exp(among - together), single)
    loss = -(targets * learned).sum() / count
    d_scores = (xp.exp(log_probs) * mass - expected) / count
    return float(loss), d_scores


def log_softmax(scores: Floats2d) -> Floats2d:
    shifted = scores - scores.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def token_log_probs(scores: Ragged) -> Floats2d:
    """Log probability of each tag for each token, (tokens, tags), in main memory.

    For a token with several rows (word pieces) it is their mean; for a token without rows, 0.
    """
    rows = log_softmax(to_numpy(scores.dataXd))
    lengths = to_numpy(scores.lengths).astype("int64")
    if np.all(lengths == 1):
        return rows
    result = np.zeros((len(lengths), rows.shape[1]), dtype=rows.dtype)
    filled = np.flatnonzero(lengths)
    starts = (np.cumsum(lengths) - lengths)[filled]
    if len(filled):
        summed = np.add.reduceat(rows, starts, axis=0)
        result[filled] = summed / lengths[filled, None].astype(rows.dtype)
    return result


def _same_tokens(example: Example) -> tuple[Ints1d, Ints1d]:
    """Indices of tokens of the predicted and the reference document with the same characters."""
    starts, ends, _ = token_offsets([example.predicted])
    gold_starts, gold_ends, _ = token_offsets([example.reference])
    _, predicted, reference = np.intersect1d(
        starts * (ends.max(initial=0) + 1) + ends,
        gold_starts * (ends.max(initial=0) + 1) + gold_ends,
        assume_unique=True,
        return_indices=True,
    )
    return predicted, reference
