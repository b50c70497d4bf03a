"""`spacy_biomed.MultiTaskCorpus.v1`: corpora side by side, each annotating its own layer only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline.trainable_pipe import TrainablePipe
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.corpus import Corpus

from ..annotations.layer_copies import copy_bare
from ..errors import BiomedError
from ..pipeline.component_classes import STAND_INS, find_head, list_annotation_keys, list_heads
from ..pipeline.encoder_head import CATS, EncoderHead
from .corpus import Corpus_v1

# In `example.reference.user_data`: the name of the corpus that an example is of.
TASK_KEY = "spacy_biomed_task"


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

    Args:
        paths: a .spacy file, or a folder of such files, by the name of the corpus.
        components: name of the component that each corpus trains; by default the corpus's own name.
        prefixed: corpora whose classes get the component's name before theirs
            (`medrqe_entailment`), because those of another corpus are called the same.
        limit: most documents to take of each corpus; 0 for all.

    Raises:
        BiomedError: if there are no corpora, or one cannot be read or has no documents.
    """
    return MultiTaskCorpus(paths, components or {}, prefixed or [], limit)


@dataclass(frozen=True, slots=True)
class _Task:
    """A corpus and what it trains.

    Attributes:
        name: of the corpus.
        component: name of the component in the pipeline.
        pipe: the component.
        head: its class, or what stands in for it.
        prefix: what its classes get before their names.
        foreign_labels: classes of other components.
    """

    name: str
    component: str
    pipe: TrainablePipe
    head: type[EncoderHead]
    prefix: str
    foreign_labels: frozenset[str]

    def take(self, source: Doc, target: Doc) -> bool:
        """Put what the component reads on a bare document.

        Returns:
            whether it is annotated.

        Raises:
            BiomedError: if it has a class of another component's name.
        """
        is_annotated = self.head.copy_layer(self.pipe, source, target, prefix=self.prefix)
        shared = self.foreign_labels.intersection(target.cats)
        if shared:
            raise BiomedError(
                f"'{sorted(shared)[0]}' of the corpus '{self.name}' is a class of another "
                "component too, and doc.cats holds one value for it: give "
                "initialize.components.NAME.labels of both, or name the corpus in prefixed of the "
                "multi-task corpora"
            )
        return is_annotated


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

        Raises:
            BiomedError: if a component is not there or of a kind that is not known here, a corpus
                has nothing that its component reads, or two components have a class of the same
                name.
        """
        tasks = [self._task(nlp, name) for name in self.corpora]
        annotation_keys = list_annotation_keys()
        for task in tasks:
            annotated = False
            for predicted, source in self.corpora[task.name](nlp):
                reference = copy_bare(source, annotation_keys)
                reference.user_data[TASK_KEY] = task.name
                annotated |= task.take(source, reference)
                yield Example(predicted, reference)
            if not annotated:
                raise BiomedError(
                    f"{self.paths[task.name]}: no document has the layer that '{task.component}' "
                    f"reads ({task.head.layer(task.pipe.cfg)}): check the corpus, or "
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
        head = find_head(factory)
        if head is None:
            raise BiomedError(
                f"the corpus '{name}' is to train '{component}', a {factory}; multi-task corpora "
                f"train {', '.join([*list_heads(), *STAND_INS])}"
            )
        others = set(nlp.component_names) - {component}
        heads: list[Any] = [nlp.get_pipe(other) for other in others if _has_classes(nlp, other)]
        return _Task(
            name,
            component,
            nlp.get_pipe(component),
            head,
            f"{component}_" if name in self.prefixed else "",
            frozenset().union(*(other.labels for other in heads)),
        )


def _has_classes(nlp: Language, component: str) -> bool:
    head = find_head(nlp.get_pipe_meta(component).factory)
    return head is not None and head.layer({}) == CATS
