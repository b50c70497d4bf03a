"""The component `biomed_ner`: entities as token classification over a shared encoder."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model
from thinc.types import Floats1d, Floats2d, Ints1d, Ragged

from ...annotations.annotation_scope import annotates_any
from ...annotations.document_keys import UNALIGNED_MENTIONS
from ...annotations.layer_copies import copy_group, copy_soft_labels
from ...annotations.seen_mentions import SEEN_KEY
from ...annotations.soft_labels import soft_label_classes
from ...deidentification.plain_text import PlainText
from ...errors import BiomedError
from ...models.tagging import Decoding, Scheme, Spans, TagScheme
from ...models.token_classifiers import add_outputs
from ...normalization import find_blanks, join_wrapped
from ..described import ShownScores
from ..encoder_head import CalibratedHead, Compared, LabelHead, check_share, own_arguments
from ..factories import configure_head, register_factory
from ..mention_layer import copy_mentions, gold_spans, install_extensions, set_confidence
from .scores import UNSEEN, compare_mentions, score_mentions
from .targets import TagTargets, compute_loss, token_log_probs

FACTORY = "biomed_ner"

# A recall for every label, or by label.
RecallTarget = float | dict[str, float] | None
# Every label that is not named.
OTHERS = "*"
# What a recall counts: mentions found exactly, or those of which no word stays readable.
RecallMeasure = Literal["exact", "covered"]

_make_scheme = lru_cache(TagScheme)

# Initial probability of all tags of labels added to a trained head, relative to "O".
NEW_TAGS_SHARE = 0.01


class PredictedMentions(NamedTuple):
    """The entities found in one document, all (spans,)."""

    spans: Spans  # in tokens of the document
    probability: Floats1d  # the model's own
    confidence: Floats1d  # calibrated; the same where nothing is


def mention_scorer_v1() -> Callable:
    """`spacy_biomed.mention_scorer.v1`: see `score_mentions`."""
    return score_mentions


class BiomedNER(CalibratedHead, LabelHead):
    """Recognise entities by classifying tokens and decoding the best valid tag sequence.

    The architecture is a linear layer over the encoder, trained with cross-entropy, as in the
    fine-tuning of BERT.

    The component declares the extension `span._.confidence`, the probability that exactly this span
    with this label is right, as `calibrate` fitted it on a development corpus. Before that, and
    after further training, it is the model's own: the product of the probabilities of the tokens'
    tags. With `spans_key` the same numbers are in `doc.spans[spans_key].attrs["scores"]`.

    Attributes:
        model: `spacy_biomed.TokenClassifier.v1`, or any model that returns a Ragged of scores: data
            (rows, tags), lengths (tokens,).
        scheme: "biluo", or "bio" as in the papers.
        decoding: "viterbi" for the most probable valid sequence of tags, or "argmax" for the most
            probable tag of each token, valid or not, as in transformers' pipeline.
        spans_key: span group for the entities, so that several components can annotate the same
            text with overlapping layers; None for `doc.ents`.
        teacher_share: weight of the teacher's probabilities in the target of a token with a gold
            tag, from 0 to 1, if the corpus has a teacher's probabilities (`spacy biomed teach`).
        target_recall: the share of a label's mentions that is to be found, above 0 and at most 1,
            or such shares by label ("*" for every other label); None to find the most probable
            entities. `calibrate` and `spacy biomed compress` fit it on a development corpus.
        recall_measure: what that share counts: "exact" matches, or mentions that are "covered" by
            entities, whatever their boundaries and labels, for de-identification.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> ner = nlp.add_pipe("biomed_ner", config={"scheme": "bio"})
        >>> ner.add_label("DISEASE")
        1
        >>> ner.tag_scheme.tag_names()
        ['O', 'B-DISEASE', 'I-DISEASE']
    """

    default_name, task_name = FACTORY, "named entity recognition"
    annotates, score_prefix, main = "mention", "ents", "f"
    learns: ClassVar = {"ner": {}, "deidentification": {}}
    config_templates: ClassVar = {"ner": "ner", "deidentification": "ner"}
    # Entities that relations connect belong to the annotation of relations.
    recognised_by: ClassVar = {"ner": {"mentions": True, "relations": False}}
    place_setting = "spans_key"
    annotation_keys = (UNALIGNED_MENTIONS,)

    @classmethod
    def usage(cls, settings: Mapping[str, object]) -> str:
        key = settings.get("spans_key")
        if key is None:
            return "print([(ent.text, ent.label_, ent._.confidence) for ent in doc.ents])"
        show = "print([(span.text, span.label_, span._.confidence) for span in doc.spans[{!r}]])"
        return show.format(key)

    @classmethod
    def begin_scores(cls, name: str, settings: Mapping[str, object]) -> str:
        """The prefix of score names, with the name of the span group, not of the component."""
        key = settings.get("spans_key")
        return cls.score_prefix if key is None else f"spans_{key}"

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
        begin = cls.begin_scores(name, settings)
        of_unseen = "spans" if settings.get("spans_key") is None else begin
        unseen = f"{of_unseen}_{UNSEEN}"
        return ShownScores(
            averages={"all mentions": begin, "not seen in training": unseen},
            per_type=f"{begin}_per_type",
            unseen_per_type=f"{unseen}_per_type",
            reliability=f"{begin}_reliability",
        )

    @classmethod
    def layer(cls, settings: Mapping[str, object]) -> str:
        key = settings.get("spans_key")
        return "doc.ents" if key is None else f"doc.ents or doc.spans['{key}']"

    @classmethod
    def copy_layer(cls, reader: TrainablePipe, source: Doc, target: Doc, prefix: str = "") -> bool:
        """Copy entities; to a span group also from `doc.ents`, unless they are partly annotated."""
        is_taught = copy_soft_labels(reader.name, source, target)
        if not copy_mentions(source, target, reader.cfg.get("spans_key"), is_partial=False):
            return is_taught
        if UNALIGNED_MENTIONS in source.user_data:  # these count in the scores
            target.user_data[UNALIGNED_MENTIONS] = source.user_data[UNALIGNED_MENTIONS]
        copy_group(source, SEEN_KEY, target)
        return True

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Ragged],
        name: str = FACTORY,
        *,
        scheme: Scheme = "biluo",
        decoding: Decoding = "viterbi",
        spans_key: str | None = None,
        learn_rate_factor: float = 1.0,
        teacher_share: float = 0.5,
        target_recall: RecallTarget = None,
        recall_measure: RecallMeasure = "exact",
        scorer: Callable | None = None,
    ):
        super().__init__(**own_arguments(locals()), recall_offsets={}, calibration=None)
        check_share(name, "teacher_share", teacher_share)
        check_target_recall(f"[components.{name}] target_recall", target_recall)
        install_extensions()

    @property
    def tag_scheme(self) -> TagScheme:
        return _make_scheme(self.cfg["scheme"], self.labels)

    @property
    def targets(self) -> TagTargets:
        """What examples teach this component."""
        spans_key, share = self.cfg["spans_key"], self.cfg["teacher_share"]
        return TagTargets(self.name, self.tag_scheme, spans_key, share)

    def predict(self, docs: Iterable[Doc]) -> list[PredictedMentions]:
        """Find the entities of each document, without modifying it."""
        docs = list(docs)
        if not docs:
            return []
        lengths = np.array([len(doc) for doc in docs], dtype="int64")
        is_space = np.concatenate([find_blanks(doc) for doc in docs])
        spans, probability = self.decode(
            token_log_probs(self.predict_scores(docs)), is_space, lengths
        )
        confidence = self.calibrate(probability, spans.label)
        return split_mentions(spans, probability, confidence, lengths)

    def decode(
        self, log_probs: Floats2d, is_space: np.ndarray, lengths: Ints1d
    ) -> tuple[Spans, Floats1d]:
        """Find the entities of a batch, and their probabilities, (spans,).

        Args:
            log_probs: (tokens, tags) of the tags, all documents concatenated; zeros for tokens that
                the encoder did not read. Entities that begin or end with white space get -inf.
            is_space: (tokens,) whether a token is white space.
            lengths: (docs,) number of tokens in each document.
        """
        is_read = log_probs.any(axis=1)
        if not is_read.all():
            return self._decode_read(log_probs, is_space, lengths, is_read)
        scheme = self.tag_scheme
        if self.cfg["decoding"] == "argmax":
            tags = np.where(is_space, 0, log_probs.argmax(axis=1))
        else:
            log_probs[np.ix_(is_space, scheme.is_edge)] = -np.inf  # as in spaCy's `ner`
            tags = scheme.viterbi(log_probs, lengths)
            if offsets := self.cfg["recall_offsets"]:  # `calibrate` fits them: `target_recall`
                of_labels = np.array([offsets.get(label, 0.0) for label in scheme.labels])
                tags = scheme.find_more(log_probs, lengths, tags, of_labels)
        spans = scheme.decode(tags, lengths)
        chosen = log_probs[np.arange(len(tags)), tags]
        total = np.concatenate([[0.0], np.cumsum(chosen, dtype="float64")])
        return spans, np.exp(total[spans.end] - total[spans.start])

    def _decode_read(
        self, log_probs: Floats2d, is_space: np.ndarray, lengths: Ints1d, is_read: np.ndarray
    ) -> tuple[Spans, Floats1d]:
        """Decode only the tokens with scores; entities reach across the others."""
        read = np.flatnonzero(is_read)
        doc = np.repeat(np.arange(len(lengths)), lengths)
        counts = np.bincount(doc[read], minlength=len(lengths))
        spans, probability = self.decode(log_probs[read], is_space[read], counts)
        ends = read + 1
        rests = np.flatnonzero(~is_read & ~is_space)
        owners = np.searchsorted(read, rests) - 1
        same = (owners >= 0) & (doc[read[owners]] == doc[rests]) if len(read) else owners >= 0
        ends[owners[same]] = rests[same] + 1  # the last of several stays
        return Spans(read[spans.start], ends[spans.end - 1], spans.label), probability

    def forget_calibration(self) -> None:
        self.cfg["recall_offsets"] = {}
        super().forget_calibration()

    def classes(self) -> list[str]:
        """The tags, in the order of the columns of `probabilities`."""
        return self.tag_scheme.tag_names()

    def probabilities(self, docs: Iterable[Doc]) -> list[Floats2d]:
        """For each document the probability of each tag for each token, (tokens, tags).

        Zeros for a token that the encoder does not read. A student learns from these if this
        component is its teacher.
        """
        docs = list(docs)
        if not docs:
            return []
        log_probs = token_log_probs(self.predict_scores(docs))
        probabilities = np.exp(log_probs) * log_probs.any(axis=1, keepdims=True)
        return np.split(probabilities, np.cumsum([len(doc) for doc in docs])[:-1])

    def set_annotations(self, docs: Iterable[Doc], mentions: list[PredictedMentions]) -> None:
        """Write the entities and their probabilities to the documents."""
        labels, key = self.labels, self.cfg["spans_key"]
        for doc, found in zip(docs, mentions, strict=True):
            places = zip(*map(np.ndarray.tolist, found.spans), strict=True)
            made = [Span(doc, start, end, label=labels[label]) for start, end, label in places]
            spans, confidence = [], []
            for parts, probability in zip(
                form_spans(doc, made), found.confidence.tolist(), strict=True
            ):
                for span in parts:
                    set_confidence(span, probability)
                    spans.append(span)
                    confidence.append(probability)
            if key is None:
                doc.set_ents(spans)
            else:
                doc.spans[key] = spans
                doc.spans[key].attrs["scores"] = confidence

    def compare(self, example: Example) -> Compared | None:
        return compare_mentions(example, self.cfg["spans_key"])

    def has_annotation(self, example: Example) -> bool:
        reference, key = example.reference, self.cfg["spans_key"]
        is_gold = gold_spans(reference, key) is not None
        if is_gold and annotates_any(reference, self.cfg["labels"], key):
            return True
        return bool(soft_label_classes(reference, self.name))

    def get_loss(self, examples: Iterable[Example], scores: Ragged) -> tuple[float, Floats2d]:
        """Mean cross-entropy over the annotated rows of the batch, and its gradient.

        The target of a token is its gold tag, a teacher's probabilities, or a mixture of the two
        (Hinton et al. 2015, "Distilling the Knowledge in a Neural Network", at temperature 1). A
        token with neither is ignored. All rows (word pieces) of a token have its target.

        Where a document leaves labels open, a token without a mention may be outside or have any of
        their tags: its loss is the negative logarithm of the total probability of these tags.

        A teacher may know only some of the labels (`spacy biomed init-config --source`). Its
        probability of "outside" is then the target for the total probability of "outside" and the
        tags that it does not know, as far as the gold leaves them open. A token with a mention of a
        label that the teacher does not know has its gold tag as its target.

        Returns:
            the loss, and its gradient with respect to the scores, (rows, tags).
        """
        return compute_loss([self.targets(one) for one in examples], scores, self.model.ops.xp)

    def prepare(self, get_examples: Callable[[], Iterable[Example]], found: list[str]) -> None:
        if not set(found) <= set(self.labels):
            for label, text in sorted(self.targets.find_labels(get_examples()).items()):
                self.targets.check_label(label, text)
        self.model.set_dim("nO", self.tag_scheme.size)
        self.size_model(get_examples())

    def find_labels(self, examples: Iterable[Example]) -> list[str]:
        return sorted(self.targets.find_labels(examples))

    def grow(self, labels: list[str]) -> None:
        """Add outputs for further labels.

        A new tag starts with the weights of "O" and a lower bias. Together the new tags have a
        hundredth of the probability of "O" for every token, as rare classes have in Lin et al.
        2017, "Focal Loss for Dense Object Detection", section 4.1. So nothing changes at first.
        """
        if self.model.name != "token_classifier":
            super().grow(labels)
        count = len(self.tag_scheme.parts) * len(labels)
        offset = math.log(NEW_TAGS_SHARE / count)
        add_outputs(self.model, count, like=0, offset=offset)


make_biomed_ner = register_factory(
    FACTORY,
    BiomedNER,
    configure_head("TokenClassifier", "mention_scorer", "first", window_size=0, dropout=0.1),
    assigns=["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type", "span._.confidence"],
    default_score_weights={"ents_f": 1.0, "ents_p": 0.0, "ents_r": 0.0, "ents_per_type": None},
)


def check_target_recall(what: str, target: RecallTarget) -> None:
    """Raise BiomedError if a share is not above 0 and at most 1; `what` names the setting."""
    shares = target.values() if isinstance(target, Mapping) else [target]
    for share in shares:
        if share is not None and not 0.0 < share <= 1.0:
            raise BiomedError(f"{what} = {share}: use a number above 0 and up to 1, such as 0.99")


def split_mentions(
    spans: Spans, probability: Floats1d, confidence: Floats1d, lengths: Ints1d
) -> list[PredictedMentions]:
    """Split the spans of a batch by document; their offsets become relative to the document."""
    ends = np.cumsum(lengths)
    borders = np.concatenate([[0], np.searchsorted(spans.start, ends)])
    result = []
    for i, offset in enumerate(ends - lengths):
        part = slice(borders[i], borders[i + 1])
        shifted = Spans(spans.start[part] - offset, spans.end[part] - offset, spans.label[part])
        result.append(PredictedMentions(shifted, probability[part], confidence[part]))
    return result


def form_spans(doc: Doc, mentions: Iterable[Span]) -> Iterator[list[Span]]:
    """The parts of each mention between line ends, without those that have no letter or digit.

    A line end counts only if the line was finished there, and not where a text was wrapped
    (`join_wrapped`, `PlainText`). A rule of a table ("|-----|") has no part.
    """
    plain = joined = None  # once for all mentions of a document
    for span in mentions:
        text = span.text.strip()
        if not any(map(str.isalnum, text)):
            yield []
        elif "\n" not in text and "\r" not in text:
            yield [span]
        else:
            if plain is None or joined is None:
                plain, joined = PlainText(doc.text), join_wrapped(doc.text)
            yield list(_split_lines(span, plain, joined))


def _split_lines(span: Span, plain: PlainText, joined: str) -> Iterator[Span]:
    """The parts of a mention that goes over line ends."""
    start, end = plain.to_plain(span.start_char, span.end_char)
    lines = "".join(
        " " if sign == "\n" and "\n" not in joined[slice(*plain.to_original(i, i + 1))] else sign
        for i, sign in enumerate(plain.text[start:end], start)
    )
    for line in lines.split("\n"):
        stripped = line.strip()
        if any(map(str.isalnum, stripped)):
            first = start + line.index(stripped)
            place = plain.to_original(first, first + len(stripped))
            part = span.doc.char_span(*place, label=span.label, alignment_mode="contract")
            if part is not None:
                yield part
        start += len(line) + 1
