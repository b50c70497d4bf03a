"""`spacy_biomed.MultiTaskCorpus.v1`: several corpora, each annotated for one component only.

Annotations are types and not strings: by them spaCy checks the settings of a class in a config.
"""

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
from ..pipeline.mention_layer import copy_mentions
from .corpus import Corpus_v1

# Key of `example.reference.user_data` with the name of the example's corpus.
TASK_KEY = "spacy_biomed_task"


@dataclass(frozen=True, slots=True)
class _Task:
    """A corpus and the component it trains.

    Attributes:
        head: class of the component, or of its stand-in.
        prefix: prefix of its classes' names.
        foreign_labels: classes of other components.
    """

    name: str
    component: str
    pipe: TrainablePipe
    head: type[EncoderHead]
    prefix: str
    foreign_labels: frozenset[str]

    def take(self, source: Doc, target: Doc) -> bool:
        """Copy the component's layer to a document without annotation; return whether there is any.

        A class with the name of another component's class is refused.
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
    """A corpus that is kept in memory from the second reading on.

    Each head reads all corpora during initialisation, some of them twice, and nearly all of the
    time would be spent on reading files. A development part is kept from the second evaluation on.
    """

    def __init__(self, corpus: Corpus):
        self.corpus = corpus
        self._nlp: Language | None = None
        self._was_read = False
        self._kept: list[tuple[Doc, Doc]] | None = None

    def __call__(self, nlp: Language) -> Iterator[tuple[Doc, Doc]]:
        """Yield predicted and reference documents; the predicted documents are new each time.

        They are not combined to an `Example`, whose constructor reads all tokens of both.
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
    """Several corpora as the examples of one training, each corpus for one component.

    An example's reference only has the layer of its component; it is not annotated for other
    components. Its `user_data["spacy_biomed_task"]` is the corpus's name, which
    `spacy_biomed.round_robin.v1` and `spacy_biomed.proportional.v1` use to make batches of one
    task. A text in several corpora is a separate example of each.

    Args:
        paths: a .spacy file, or a folder of .spacy files, or several of these, by the name of the
            corpus.
        components: by corpus the name of the component it trains; by default the corpus's name.
        prefixed: corpora whose classes get the component's name as a prefix
            (`medrqe_entailment`), because another corpus has classes of the same names.
        limit: maximum number of documents of each corpus; 0 for all.
        max_words: by corpus the maximum tokens of an example, as in `spacy_biomed.Corpus.v1`.

    Raises:
        BiomedError: if there are no corpora, if `components`, `prefixed` or `max_words` has another
            corpus, or if a corpus cannot be read or has no documents.
    """

    def __init__(
        self,
        paths: dict[str, Path | list[Path]],
        components: dict[str, str] | None = None,
        prefixed: list[str] | None = None,
        limit: int = 0,
        max_words: dict[str, int] | None = None,
    ):
        components, prefixed, max_words = components or {}, prefixed or [], max_words or {}
        if not paths:
            raise BiomedError(
                "a multi-task corpus has no paths: `python -m spacy biomed init-config multitask` "
                "writes them"
            )
        for name in (*components, *prefixed, *max_words):
            if name not in paths:
                raise BiomedError(f"'{name}' is not among the corpora ({', '.join(paths)})")
        self.paths = paths
        self.corpora = {
            name: _KeptCorpus(Corpus_v1(path, limit=limit, max_words=max_words.get(name, 0)))
            for name, path in paths.items()
        }
        self.components = {name: components.get(name, name) for name in paths}
        self.prefixed = frozenset(prefixed)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the examples of all corpora, one corpus after the other."""
        tasks = [self._task(nlp, name) for name in self.corpora]
        annotation_keys = list_annotation_keys()
        for task in tasks:
            annotated = False
            for predicted, source in self.corpora[task.name](nlp):
                reference = copy_bare(source, annotation_keys)
                reference.user_data[TASK_KEY] = task.name
                annotated |= task.take(source, reference)
                if task.head.reads_entities:
                    copy_mentions(
                        source, predicted, task.pipe.cfg.get("spans_key"), is_partial=True
                    )
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


# The registered name.
MultiTaskCorpus_v1 = MultiTaskCorpus
