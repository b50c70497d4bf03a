"""`spacy_biomed.MultiTaskCorpus.v1`: corpora side by side, each annotating its own layer only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.attrs import ORTH, SPACY
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.training.corpus import Corpus

from ..annotations.annotation_scope import ANNOTATION_SCOPES, get_scope, set_scope
from ..annotations.pairs import PAIR_KEY
from ..annotations.relation_layer import RELATIONS
from ..annotations.seen import SEEN_KEY
from ..annotations.taught import TAUGHT_KEY
from ..corpora.gold import ANSWER_KEY, UNALIGNED_ANSWERS, UNALIGNED_MENTIONS
from ..errors import BiomedError
from .corpus import Corpus_v1

# In `example.reference.user_data`: the name of the corpus that an example is of.
TASK_KEY = "spacy_biomed_task"

# Of `doc.user_data`, what is annotation of one kind of component; the rest stays with a document.
_ANNOTATION_KEYS = (
    ANNOTATION_SCOPES,
    RELATIONS,
    TAUGHT_KEY,
    UNALIGNED_ANSWERS,
    UNALIGNED_MENTIONS,
)


def MultiTaskCorpus_v1(
    paths: dict[str, Path],
    components: dict[str, str] | None = None,
    prefixed: list[str] | None = None,
    limit: int = 0,
) -> MultiTaskCorpus:
    """Read several corpora as the examples of one training, each for its own component.

    An example's reference has the layer that its component reads, and no other: for every other
    component it is not annotated. Its `user_data["spacy_biomed_task"]` is the corpus's name, by
    which `spacy_biomed.round_robin.v1` and `spacy_biomed.proportional.v1` make batches of one task.
    A text that is in several corpora is an example of each.

    paths: a .spacy file, or a folder of such files, by the name of the corpus.
    components: name of the component that each corpus trains; by default the corpus's own name.
    prefixed: corpora whose classes get the component's name before theirs (`medrqe_entailment`),
        because those of another corpus are called the same.
    limit: most documents to take of each corpus; 0 for all.
    RAISES BiomedError: if there are no corpora, or one cannot be read or has no documents.
    """
    return MultiTaskCorpus(paths, components or {}, prefixed or [], limit)


@dataclass(frozen=True, slots=True)
class _Task:
    """A corpus and what it trains.

    name: of the corpus.
    component: name of the component in the pipeline.
    pipe: the component.
    take: puts what the component reads on a bare document; whether it is annotated.
    is_prefixed: whether its classes get the component's name before theirs.
    foreign_labels: classes of other components.
    """

    name: str
    component: str
    pipe: Any
    take: Callable[[_Task, Doc, Doc], bool]
    is_prefixed: bool
    foreign_labels: frozenset[str]


class _KeptCorpus:
    """A corpus that stays in memory once it is read for the second time.

    Every head reads all corpora when it is initialised, some of them twice, and nearly all of that
    time would go into reading files. What is read once, as training reads its part unless it is
    streamed, is not kept; a development part is, from the second evaluation on.
    """

    def __init__(self, corpus: Corpus):
        self.corpus = corpus
        self._nlp: Language | None = None
        self._was_read = False
        self._kept: list[tuple[Doc, Doc]] | None = None

    def __call__(self, nlp: Language) -> Iterator[tuple[Doc, Doc]]:
        """Give predicted and reference documents, the predicted ones new each time.

        Not examples, each of which looks at all tokens of both.
        """
        if nlp is not self._nlp:
            self._nlp, self._was_read, self._kept = nlp, False, None
        if not self._was_read:
            for example in self.corpus(nlp):
                yield example.predicted, example.reference
            self._was_read = True
            return
        if self._kept is None:
            self._kept = [(example.predicted, example.reference) for example in self.corpus(nlp)]
        for predicted, reference in self._kept:
            yield predicted.copy(), reference


class MultiTaskCorpus:
    """See `MultiTaskCorpus_v1`, whose arguments these are."""

    def __init__(
        self, paths: dict[str, Path], components: dict[str, str], prefixed: list[str], limit: int
    ):
        if not paths:
            raise BiomedError(
                "a multi-task corpus has no paths: `python -m spacy biomed init-config multitask` "
                "writes them"
            )
        for name in (*components, *prefixed):
            if name not in paths:
                raise BiomedError(f"'{name}' is not among the corpora ({', '.join(paths)})")
        self.paths = paths
        self.corpora = {
            name: _KeptCorpus(Corpus_v1(path, limit=limit)) for name, path in paths.items()
        }
        self.components = {name: components.get(name, name) for name in paths}
        self.prefixed = frozenset(prefixed)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Give the examples of one corpus after the other.

        RAISES BiomedError: if a component is not there or of a kind that is not known here, a
            corpus has nothing that its component reads, or two components have a class of the same
            name.
        """
        tasks = [self._task(nlp, name) for name in self.corpora]
        for task in tasks:
            annotated = False
            for predicted, source in self.corpora[task.name](nlp):
                reference = copy_bare(source)
                reference.user_data[TASK_KEY] = task.name
                annotated |= task.take(task, source, reference)
                yield Example(predicted, reference)
            if not annotated:
                raise BiomedError(
                    f"{self.paths[task.name]}: no document has the layer that '{task.component}' "
                    f"reads ({_layer_name(nlp, task.component)}): check the corpus, or "
                    "components of the multi-task corpus"
                )

    def _task(self, nlp: Language, name: str) -> _Task:
        component = self.components[name]
        if component not in nlp.component_names:
            raise BiomedError(
                f"the corpus '{name}' is to train '{component}', and the pipeline has "
                f"{', '.join(nlp.component_names)}: name its component in components of the "
                "multi-task corpus"
            )
        factory = nlp.get_pipe_meta(component).factory
        if factory not in LAYERS:
            raise BiomedError(
                f"the corpus '{name}' is to train '{component}', a {factory}; multi-task corpora "
                f"train {', '.join(LAYERS)}"
            )
        others = set(nlp.component_names) - {component}
        foreign = [nlp.get_pipe(other).labels for other in others if _has_classes(nlp, other)]
        return _Task(
            name,
            component,
            nlp.get_pipe(component),
            LAYERS[factory],
            name in self.prefixed,
            frozenset().union(*foreign),
        )


def copy_bare(doc: Doc) -> Doc:
    """The document's tokens, without any annotation."""
    tokens = doc.to_array([ORTH, SPACY])
    bare = Doc(doc.vocab, words=tokens[:, 0], spaces=tokens[:, 1].astype(bool))
    bare.has_unknown_spaces = doc.has_unknown_spaces
    kept = doc.user_data.keys() - _ANNOTATION_KEYS
    bare.user_data.update({key: doc.user_data[key] for key in kept})
    return bare


def _take_mentions(task: _Task, source: Doc, target: Doc) -> bool:
    """Entities, from `doc.ents` to the span group of a component that has one.

    A document that is annotated in part has no such layer: a span group cannot tell which part.
    """
    key = task.pipe.cfg.get("spans_key")
    if key is None:
        return _take_entities(task, source, target)
    _take_taught(task, source, target)
    if key in source.spans:
        _copy_group(source, key, target)
        set_scope(target, get_scope(source, key), key)
    elif source.has_annotation("ENT_IOB", require_complete=True):
        target.spans[key] = _copy_spans(source.ents, target)
        set_scope(target, get_scope(source), key)
    else:
        return bool(target.user_data.get(TAUGHT_KEY))
    _take_evaluation(source, target)
    return True


def _take_entities(task: _Task, source: Doc, target: Doc) -> bool:
    _take_taught(task, source, target)
    if not source.has_annotation("ENT_IOB"):
        return bool(target.user_data.get(TAUGHT_KEY))
    _copy_entities(source, target)
    set_scope(target, get_scope(source))
    _take_evaluation(source, target)
    return True


def _take_evaluation(source: Doc, target: Doc) -> None:
    """What the scores of mentions take into account."""
    if UNALIGNED_MENTIONS in source.user_data:
        target.user_data[UNALIGNED_MENTIONS] = source.user_data[UNALIGNED_MENTIONS]
    _copy_group(source, SEEN_KEY, target)


def _take_classes(task: _Task, source: Doc, target: Doc) -> bool:
    """Classes, of the component's own labels once it has any."""
    _copy_group(source, PAIR_KEY, target)
    _take_taught(task, source, target)
    prefix = f"{task.component}_" if task.is_prefixed else ""
    cats = {prefix + label: value for label, value in source.cats.items()}
    labels = task.pipe.labels
    target.cats = {label: cats[label] for label in cats if not labels or label in labels}
    shared = task.foreign_labels.intersection(target.cats)
    if shared:
        raise BiomedError(
            f"'{sorted(shared)[0]}' of the corpus '{task.name}' is a class of another component "
            f"too, and doc.cats holds one value for it: give initialize.components.NAME.labels of "
            "both, or name the corpus in prefixed of the multi-task corpora"
        )
    return bool(target.cats or target.user_data.get(TAUGHT_KEY))


def _take_relations(task: _Task, source: Doc, target: Doc) -> bool:
    """Relations, with the sentences they are in and the entities that they may be between.

    These lie where the component reads them, so that a head of entities that reads the same place
    learns from them too.
    """
    _take_taught(task, source, target)
    key = task.pipe.cfg.get("spans_key")
    if key is not None and key in source.spans:
        _copy_group(source, key, target)
        set_scope(target, get_scope(source, key), key)
    elif source.has_annotation("ENT_IOB"):  # marked sentences have no entities
        set_scope(target, get_scope(source), key)
        if key is None:
            _copy_entities(source, target)
        else:
            target.spans[key] = _copy_spans(source.ents, target)
    if source.has_annotation("SENT_START"):
        for token, own in zip(source, target, strict=True):
            own.is_sent_start = token.is_sent_start
    if RELATIONS not in source.user_data:
        return False
    target.user_data[RELATIONS] = source.user_data[RELATIONS]
    return True


def _take_answers(task: _Task, source: Doc, target: Doc) -> bool:
    _copy_group(source, PAIR_KEY, target)
    _copy_group(source, ANSWER_KEY, target)
    if UNALIGNED_ANSWERS in source.user_data:
        target.user_data[UNALIGNED_ANSWERS] = source.user_data[UNALIGNED_ANSWERS]
    return ANSWER_KEY in source.spans


# By factory: what of a corpus's document the component reads.
LAYERS: dict[str, Callable[[_Task, Doc, Doc], bool]] = {
    "biomed_ner": _take_mentions,
    "ner": _take_entities,
    "biomed_textcat": _take_classes,
    "textcat": _take_classes,
    "textcat_multilabel": _take_classes,
    "biomed_similarity": _take_classes,
    "biomed_relations": _take_relations,
    "biomed_qa": _take_answers,
}

_LAYER_NAMES = {
    _take_mentions: "doc.ents or doc.spans",
    _take_entities: "doc.ents",
    _take_classes: "doc.cats",
    _take_relations: "doc._.relations",
    _take_answers: f"doc.spans['{ANSWER_KEY}']",
}


def _layer_name(nlp: Language, component: str) -> str:
    return _LAYER_NAMES[LAYERS[nlp.get_pipe_meta(component).factory]]


def _has_classes(nlp: Language, component: str) -> bool:
    return LAYERS.get(nlp.get_pipe_meta(component).factory) is _take_classes


def _take_taught(task: _Task, source: Doc, target: Doc) -> None:
    """What a teacher of this component left."""
    taught = source.user_data.get(TAUGHT_KEY, {}).get(task.component)
    if taught is not None:
        target.user_data[TAUGHT_KEY] = {task.component: taught}


def _copy_entities(source: Doc, target: Doc) -> None:
    missing = [target[i : i + 1] for i, token in enumerate(source) if token.ent_iob == 0]
    target.set_ents(_copy_spans(source.ents, target), missing=missing, default="outside")


def _copy_group(source: Doc, key: str, target: Doc) -> None:
    if key in source.spans:
        target.spans[key] = _copy_spans(source.spans[key], target)


def _copy_spans(spans: Any, target: Doc) -> list[Span]:
    return [Span(target, span.start, span.end, label=span.label) for span in spans]
