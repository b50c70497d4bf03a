"""The component `biomed_qa`: the answer to a question as a span of the context."""

from collections.abc import Callable, Iterable
from typing import ClassVar, NamedTuple

import numpy as np
from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc, Span
from spacy.training import Example, validate_get_examples
from spacy.vocab import Vocab
from thinc.api import Model, to_numpy
from thinc.types import Floats2d, Ints2d, Ragged

from ...annotations.document_keys import ANSWER_KEY, UNALIGNED_ANSWERS
from ...annotations.layer_copies import copy_group
from ...annotations.pairs import PAIR_KEY, get_pair
from ...encoders.batching.alignment import token_offsets
from ...errors import BiomedError
from ...models.answer_spans import Places, best_spans, find_places, log_softmax, log_sum_exp
from ..encoder_head import EncoderHead, check_least, own_arguments, quote_text
from ..factories import configure_head, register_factory
from ..mention_layer import align_spans, install_extensions, set_confidence
from .scores import collect_questions, fold_answer, gold_answers, score_question

FACTORY = "biomed_qa"


class PredictedAnswers(NamedTuple):
    """The answers found in one document and their probabilities, the best first.

    The probability of no answer is None if the component always answers.
    """

    spans: list[Span]
    confidence: list[float]
    no_answer: float | None


class BiomedQA(EncoderHead):
    """Find the answer to a question in a context.

    Documents are pairs of a question and a context (`spacy_biomed.pair`); other documents are not
    changed. The architecture is a linear layer with two outputs over the encoder's rows, as in the
    fine-tuning of BERT on SQuAD (Devlin et al. 2019, section 4.2): the start and the end of the
    answer, each a softmax over all words of a context of any length.

    The answers are in `doc.spans["answer"]`, the best first, with only the best span of each text.
    `attrs["scores"]` of the group and `span._.confidence` are the product of the probabilities of
    an answer's start and end.

    With `no_answer` the component also learns that a context does not answer its question, from
    references whose group is empty. The first word of the question stands for "no answer", like
    [CLS] in SQuAD 2.0, which is not a token of a Doc. The probability of no answer is in
    `attrs["no_answer"]`, and less probable answers are left out. `score_answers` describes the
    scores.

    Attributes:
        model: `spacy_biomed.AnswerClassifier.v1`, or any model that returns a Ragged of scores of
            start and end: data (rows, 2), lengths (tokens,).
        max_answer_words: maximum tokens of an answer, white space not counted.
        n_best: maximum number of answers.
        no_answer: whether a context may have no answer.

    Examples:
        >>> import spacy, spacy_biomed
        >>> from spacy.training import Example
        >>> nlp = spacy.blank("en")
        >>> qa = nlp.add_pipe("biomed_qa", config={"max_answer_words": 10})
        >>> gold = spacy_biomed.pair(nlp, "Which gene is it?", "A mutation of BRCA1 was found.")
        >>> gold.spans["answer"] = [gold.spans["pair"][1][3:4]]
        >>> gold.spans["answer"][0].text
        'BRCA1'
        >>> qa.score([Example(gold, gold)])["qa_exact"]
        1.0
    """

    default_name, task_name = FACTORY, "question answering"
    usage_line = f'print([(span.text, span._.confidence) for span in doc.spans["{ANSWER_KEY}"]])'
    layer_name = f"doc.spans['{ANSWER_KEY}']"
    score_prefix, main = "qa", "f1"
    score_titles: ClassVar = {
        "F1 of words": "f1",
        "exact match": "exact",
        "strict accuracy": "strict",
        "lenient accuracy": "lenient",
        "mean reciprocal rank": "mrr",
    }
    learns: ClassVar = {"qa": {}}
    config_templates: ClassVar = {"qa": "qa"}
    recognised_by: ClassVar = {"qa": {"answers": True}}
    annotation_keys = (UNALIGNED_ANSWERS,)
    # The answer may be in the part of the context that truncation would drop.
    encoder_settings: ClassVar = {"pair_overflow": "window"}

    @classmethod
    def copy_layer(cls, reader: TrainablePipe, source: Doc, target: Doc, prefix: str = "") -> bool:
        copy_group(source, PAIR_KEY, target)
        copy_group(source, ANSWER_KEY, target)
        if UNALIGNED_ANSWERS in source.user_data:
            target.user_data[UNALIGNED_ANSWERS] = source.user_data[UNALIGNED_ANSWERS]
        return ANSWER_KEY in source.spans

    def __init__(
        self,
        vocab: Vocab,
        model: Model[list[Doc], Ragged],
        name: str = FACTORY,
        *,
        max_answer_words: int = 30,
        n_best: int = 5,
        no_answer: bool = False,
        learn_rate_factor: float = 1.0,
        scorer: Callable | None = None,
    ):
        super().__init__(**own_arguments(locals()))
        check_least(name, "max_answer_words", max_answer_words, 1)
        check_least(name, "n_best", n_best, 1)
        install_extensions()

    def predict(self, docs: Iterable[Doc]) -> list[PredictedAnswers | None]:
        """Find the answers in each document without modifying it; None if it is not a pair."""
        docs = list(docs)
        if not docs:
            return []
        scores = self.predict_scores(docs)
        places = find_places(docs, to_numpy(scores.lengths), self.cfg["no_answer"])
        rows = to_numpy(scores.dataXd).astype("float64")
        return [
            None if of_doc is None else self._decode(doc, of_doc, rows)
            for doc, of_doc in zip(docs, places, strict=True)
        ]

    def _decode(self, doc: Doc, places: Places, rows: Floats2d) -> PredictedAnswers:
        """The best answers of a document, by the scores of start and end of all rows."""
        log_start = log_softmax(rows[places.first_rows, 0])
        log_end = log_softmax(rows[places.last_rows, 1])
        null = log_start[0] + log_end[0] if places.has_null else -np.inf
        words, count = self.cfg["max_answer_words"], self.cfg["n_best"]
        while True:  # until there are enough different texts, or no more spans
            first, last, log_probs = best_spans(
                log_start[places.has_null :], log_end[places.has_null :], words, count
            )
            starts, ends = places.words[first].tolist(), (places.words[last] + 1).tolist()
            found: dict[str, int] = {}
            for i, (start, end) in enumerate(zip(starts, ends, strict=True)):
                found.setdefault(fold_answer(doc[start:end].text), i)
            if len(found) >= self.cfg["n_best"] or len(first) < count:
                break
            count *= 4
        kept = [i for i in list(found.values())[: self.cfg["n_best"]] if log_probs[i] >= null]
        spans = [Span(doc, starts[i], ends[i], label=ANSWER_KEY) for i in kept]
        no_answer = float(np.exp(null)) if self.cfg["no_answer"] else None
        return PredictedAnswers(spans, np.exp(log_probs[kept]).tolist(), no_answer)

    def set_annotations(
        self, docs: Iterable[Doc], answers: Iterable[PredictedAnswers | None]
    ) -> None:
        """Write the answers and their probabilities to the documents that are pairs."""
        for doc, found in zip(docs, answers, strict=True):
            if found is None:
                continue
            for span, probability in zip(found.spans, found.confidence, strict=True):
                set_confidence(span, probability)
            doc.spans[ANSWER_KEY] = found.spans
            doc.spans[ANSWER_KEY].attrs["scores"] = found.confidence
            if found.no_answer is not None:
                doc.spans[ANSWER_KEY].attrs["no_answer"] = found.no_answer

    def tally(self, examples: Iterable[Example]) -> list[dict[str, list[float]]]:
        """The scores of each annotated question, by their names."""
        scored = map(score_question, collect_questions(examples))
        return [{name: [value] for name, value in scores.items()} for scores in scored]

    def has_annotation(self, example: Example) -> bool:
        return ANSWER_KEY in example.reference.spans

    def get_loss(self, examples: Iterable[Example], scores: Ragged) -> tuple[float, Floats2d]:
        """Mean cross-entropy of start and of end over the annotated documents, and its gradient.

        Each is a softmax over the words of the whole context. If a document has several answers, or
        an answer in several places, the loss is -log of the sum of all their probabilities. Both
        follow Clark and Gardner 2018, "Simple and Effective Multi-Paragraph Reading Comprehension":
        noisy labels, and the shared normalisation over all paragraphs. A document that is not a
        pair, or none of whose answers fits the words of the context, is ignored.
        """
        examples = list(examples)
        docs = [example.predicted for example in examples]
        rows = to_numpy(scores.dataXd)
        places = find_places(docs, to_numpy(scores.lengths), self.cfg["no_answer"])
        gold = [
            (of_doc, gold_places(example, of_doc))
            for example, of_doc in zip(examples, places, strict=True)
            if of_doc is not None
        ]
        gold = [(of_doc, ends) for of_doc, ends in gold if ends.size]
        loss, d_rows = 0.0, np.zeros_like(rows)
        total = 2 * max(len(gold), 1)
        for column in (0, 1):
            log_masses = []
            for of_doc, ends in gold:
                own_rows = (of_doc.first_rows, of_doc.last_rows)[column]
                log_probs = log_softmax(rows[own_rows, column].astype("float64"))
                targets = np.full(len(log_probs), -np.inf)
                targets[ends[column]] = log_probs[ends[column]]
                log_mass = log_sum_exp(targets)
                d_rows[own_rows, column] = (np.exp(log_probs) - np.exp(targets - log_mass)) / total
                log_masses.append(log_mass)
            loss -= float(np.sum(log_masses)) / total
        return loss, self.model.ops.asarray(d_rows)

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Size the model for the encoder.

        Raises:
            BiomedError: if no example has an answer, or an example with an answer is not a pair.
        """
        validate_get_examples(get_examples, "BiomedQA.initialize")
        # Checked before training: an error during training would make spaCy save a partial model.
        has_answer = False
        for example in self.find_own(get_examples()):
            found = bool(gold_answers(example.reference))
            if found and get_pair(example.predicted) is None:
                raise BiomedError(
                    f"{quote_text(example.reference)} has an answer and is not a pair of "
                    "a question and a context: make it with spacy_biomed.pair, or with a reader "
                    "such as --format squad"
                )
            has_answer |= found
        if not has_answer:
            raise BiomedError(
                f"the training corpus has no answer for '{self.name}' to learn from "
                f'(doc.spans["{ANSWER_KEY}"]): check the corpus'
            )
        self.size_model(get_examples())


make_biomed_qa = register_factory(
    FACTORY,
    BiomedQA,
    configure_head("AnswerClassifier", "answer_scorer", "pieces", hidden_width=0, dropout=0.1),
    assigns=["doc.spans", "span._.confidence"],
    default_score_weights={
        "qa_f1": 1.0,
        **dict.fromkeys(("qa_exact", "qa_strict", "qa_lenient", "qa_mrr"), 0.0),
    },
)


def gold_places(example: Example, places: Places) -> Ints2d:
    """(2, answers) the places where annotated answers that fit words start and end, as indices.

    If a document is annotated as having no answer, both are its place of no answer.
    """
    if ANSWER_KEY not in example.reference.spans:
        return np.zeros((2, 0), dtype="int64")
    if not gold_answers(example.reference):
        return np.zeros((2, int(places.has_null)), dtype="int64")
    starts, ends, _ = token_offsets([example.predicted])
    starts, ends = starts[places.words], ends[places.words]
    first, last, fits = align_spans(list(example.reference.spans[ANSWER_KEY]), starts, ends)
    return np.stack([first[fits], last[fits]]) + places.has_null
