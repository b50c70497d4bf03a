"""`spacy_biomed.MultiTaskCorpus.v1`: several corpora, each annotated for one component only.

Annotations are types and not strings: by them spaCy checks the settings of a class in a config.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.tokens import Doc
from spacy.training import Example

from ..annotations.layer_copies import copy_bare
from ..errors import BiomedError, quote
from ..pipeline.component_classes import STAND_INS, find_head, list_annotation_keys, list_heads
from ..pipeline.encoder_head import CATS, NOT_FOR, EncoderHead, LabelHead
from ..pipeline.mention_layer import copy_mentions
from .corpus import Corpus_v1

# Key of `example.reference.user_data` with the name of the example's corpus.
TASK_KEY = "spacy_biomed_task"


class MultiTaskCorpus:
    """Several corpora as the examples of one training, each corpus for one component.

    An example's reference only has the layer of its component. Its
    `user_data["spacy_biomed_task"]` is the corpus's name, by which `spacy_biomed.round_robin.v1`
    and `spacy_biomed.proportional.v1` make batches of one task.

    Args:
        paths: by corpus, what `spacy_biomed.Corpus.v1` reads.
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
            name: Corpus_v1(path, limit=limit, max_words=max_words.get(name, 0))
            for name, path in paths.items()
        }
        self.components = {name: components.get(name, name) for name in paths}
        self.prefixed = frozenset(prefixed)
        self._nlp: Language | None = None
        self._kept: dict[str, list[tuple[Doc, Doc]]] = {}

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the examples of all corpora, one corpus after the other."""
        annotation_keys = list_annotation_keys()
        for name, component in self.components.items():
            head = self._find_head(nlp, name)
            pipe: Any = nlp.get_pipe(component)
            prefix = f"{component}_" if name in self.prefixed else ""
            foreign_labels = _list_classes(nlp, component)
            others = self._find_others(nlp, name)
            annotated = False
            for predicted, source in self._read(nlp, name):
                reference = copy_bare(source, annotation_keys)
                reference.user_data[TASK_KEY] = name
                if others:
                    reference.user_data[NOT_FOR] = others
                annotated |= head.copy_layer(pipe, source, reference, prefix=prefix)
                if shared := sorted(foreign_labels.intersection(reference.cats)):
                    raise BiomedError(
                        f"'{shared[0]}' of the corpus '{name}' is a class of another component "
                        "too, and doc.cats holds one value for it: give "
                        "initialize.components.NAME.labels of both, or name the corpus in prefixed "
                        "of the multi-task corpora"
                    )
                if head.reads_entities:
                    copy_mentions(source, predicted, pipe.cfg.get("spans_key"), is_partial=True)
                yield Example(predicted, reference)
            if not annotated:
                raise BiomedError(
                    f"{self.paths[name]}: no document has the layer that '{component}' reads "
                    f"({head.layer(pipe.cfg)}): check the corpus, or components of the multi-task "
                    "corpus"
                )

    def _find_head(self, nlp: Language, name: str) -> type[EncoderHead]:
        """The class of the component of a corpus, or of its stand-in."""
        component = self.components[name]
        if component not in nlp.component_names:
            raise BiomedError(
                f"the corpus '{name}' is to train '{component}', and the pipeline has "
                f"{', '.join(nlp.component_names)}: name its component in components of the "
                "multi-task corpus"
            )
        factory = nlp.get_pipe_meta(component).factory
        if (head := find_head(factory)) is None:
            raise BiomedError(
                f"the corpus '{name}' is to train '{component}', a {factory}; multi-task corpora "
                f"train {', '.join([*list_heads(), *STAND_INS])}"
            )
        return head

    def _find_others(self, nlp: Language, name: str) -> list[str]:
        """The components of other corpora that read the same layer as that of a corpus.

        None of them may overwrite what that component finds.
        """
        component, head = self.components[name], self._find_head(nlp, name)
        pipe: Any = nlp.get_pipe(component)
        layer = head.layer(pipe.cfg)
        others: list[str] = []
        for corpus, other in self.components.items():
            other_head = self._find_head(nlp, corpus)
            other_pipe: Any = nlp.get_pipe(other)
            other_layer = other_head.layer(other_pipe.cfg)
            if layer == CATS or layer != other_layer or other in (component, *others):
                continue
            others.append(other)
            shared = sorted(set(pipe.labels).intersection(other_pipe.labels))
            is_same_place = pipe.cfg.get("spans_key") == other_pipe.cfg.get("spans_key")
            if is_same_place and (shared or not issubclass(head, LabelHead)):
                what = f", of which both have {quote(shared[0])}" if shared else ""
                raise BiomedError(
                    f"'{component}' and '{other}' write to the same layer ({layer}{what}), where "
                    "one replaces what the other finds: train one of them with both corpora "
                    "(components of the multi-task corpora)"
                )
        return others

    def _read(self, nlp: Language, name: str) -> Iterator[tuple[Doc, Doc]]:
        """Yield predicted documents, new each time, and reference documents.

        They are kept, since each head reads all corpora during initialization, and not as an
        `Example`, which reads all their tokens.
        """
        if nlp is not self._nlp:
            self._nlp, self._kept = nlp, {}
        if name not in self._kept:
            examples = self.corpora[name](nlp)
            self._kept[name] = [(example.predicted, example.reference) for example in examples]
        for predicted, reference in self._kept[name]:
            yield predicted.copy(), reference


def _list_classes(nlp: Language, component: str) -> set[str]:
    """The classes in `doc.cats` of all components but one."""
    labels: set[str] = set()
    for other in set(nlp.component_names) - {component}:
        head = find_head(nlp.get_pipe_meta(other).factory)
        if head is not None and head.layer({}) == CATS:
            pipe: Any = nlp.get_pipe(other)
            labels.update(pipe.labels)
    return labels


# The registered name.
MultiTaskCorpus_v1 = MultiTaskCorpus
