"""Converted corpora: their readers `spacy_biomed.Corpus.v1` and `NoCorpus.v1`, and their heads.

Annotations are types and not strings: by them spaCy checks the settings of a class in a config.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Corpus, Example
from spacy.training.corpus import FILE_TYPE, walk_corpus
from spacy.vocab import Vocab

from ..annotations.annotation_scope import AnnotationScope, get_scope, set_scope
from ..annotations.layer_copies import copy_entities, copy_group
from ..annotations.pairs import PAIR_KEY
from ..annotations.relation_layer import RELATIONS
from ..annotations.soft_labels import SOFT_LABELS_KEY
from ..corpora.corpus_catalogue import find_corpus
from ..errors import BiomedError, add_hint, quote, suggest
from ..formats.spacy_docs import read_doc_bin, read_docs
from ..pipeline.component_classes import list_heads
from ..pipeline.encoder_head import EncoderHead
from ..pipeline.mention_layer import NO_ENTITIES


class CheckedCorpus(Corpus):
    """spaCy's `spacy.Corpus.v1`, which checks at once that there are documents.

    So a missing or damaged development part is found before training starts.

    Args:
        path: a .spacy file, or a folder of .spacy files; or several of these, such as the training
            and the development part, to train on both.
        gold_preproc, max_length, limit, augmenter: as in spaCy.
        max_words: maximum tokens of an example (`split_doc`); 0 for whole documents.
        gold_entities: whether the documents that are predicted have the gold entities, also those
            in span groups, for heads that read them without a component that finds some.

    Raises:
        BiomedError: if a path is missing in the config, does not exist, is not a corpus, or has no
            documents, or if `max_words` is negative. While reading, if a document is damaged or
            cannot be cut.
    """

    def __init__(
        self,
        path: Path | list[Path] | None,
        gold_preproc: bool = False,
        max_length: int = 0,
        limit: int = 0,
        augmenter: Callable | None = None,
        max_words: int = 0,
        gold_entities: bool = False,
    ):
        if path is None:
            raise BiomedError(
                "a corpus has no path: fill in [paths] of the config (`python -m spacy biomed "
                "init-config` does), or give --paths.train and --paths.dev"
            )
        if max_words < 0:
            raise BiomedError(f"corpora.train.max_words = {max_words}: use 0 for no limit, or more")
        paths = path if isinstance(path, list) else [path]
        self.files = [file for one in paths for file in _find_files(one)]
        super().__init__(
            self.files[0],
            gold_preproc=gold_preproc,
            max_length=max_length,
            limit=limit,
            augmenter=augmenter,
        )
        self.max_words = max_words
        self.gold_entities = gold_entities

    def __call__(self, nlp: Language) -> Iterator[Example]:
        for example in super().__call__(nlp):
            if self.gold_entities:
                copy_entities(example.reference, example.predicted)
                for key in set(example.reference.spans).difference(NO_ENTITIES):
                    copy_group(example.reference, key, example.predicted)
            yield example

    def read_docbin(self, vocab: Vocab, locs: Iterable[str | Path]) -> Iterator[Doc]:
        """Read the documents, or their parts of at most `max_words` tokens."""
        docs = (doc for path in self.files for doc in read_docs(path, vocab) if len(doc))
        for doc in islice(docs, self.limit if self.limit >= 1 else None):
            yield from split_doc(doc, self.max_words) if self.max_words else (doc,)


def _find_files(path: Path) -> list[Path]:
    """The .spacy files of a path, which have documents."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"\[W090\]")  # the error below says more
        files = walk_corpus(path, FILE_TYPE) if Path(path).exists() else [Path(path)]
    if not files or not sum(len(read_doc_bin(file)) for file in files):
        raise BiomedError(
            f"{path}: no documents there; give .spacy files with documents, as `python -m spacy "
            "biomed convert` writes them"
        )
    return [Path(file) for file in files]


def split_doc(doc: Doc, max_words: int) -> Iterator[Doc]:
    """Cut a document into its sentences, and these into parts of at most so many tokens.

    Lee et al. (2020, "BioBERT") and Peng et al. (2020, "An Empirical Study of Multi-Task Learning
    on BERT for Biomedical Text Mining", section 3) do so. No mention of `doc.ents` or of a span
    group is cut: a part ends before it, and is longer than `max_words` only if one mention is.
    """
    of_whole_documents = {PAIR_KEY, RELATIONS, SOFT_LABELS_KEY}
    if doc.cats or of_whole_documents.intersection((*doc.spans, *doc.user_data)):
        raise BiomedError(
            "corpora.train.max_words cuts documents of mentions, and this corpus has classes, "
            "pairs, relations or a teacher's probabilities of whole documents: set it to 0"
        )
    is_inside = np.zeros(len(doc) + 1, dtype=bool)
    for span in (*doc.ents, *(span for group in doc.spans.values() for span in group)):
        is_inside[span.start + 1 : span.end] = True
    has_sentences = doc.has_annotation("SENT_START")
    ends = [token.i for token in doc[1:] if has_sentences and token.is_sent_start]
    places = np.flatnonzero(~is_inside)  # where the document may be cut
    start = 0
    for end in (*(end for end in ends if not is_inside[end]), len(doc)):
        while start < end:
            before = places[np.searchsorted(places, min(start + max_words, end), "right") - 1]
            cut = before if before > start else places[np.searchsorted(places, start, "right")]
            yield _copy_part(doc, start, int(cut))
            start = int(cut)


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


def NoCorpus_v1() -> Callable[[Language], Iterator[Example]]:
    """Create a reader without documents: evaluations score 0, and `model-best` is the last one."""
    return lambda nlp: iter(())


def copy_tokens(doc: Doc, vocab: Vocab) -> Doc:
    """Copy a document's tokens to another vocabulary, without annotation."""
    return Doc(
        vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
    )


def find_learner(
    folder: Path, description: Mapping[str, Any], task: str | None = None
) -> tuple[str, type[EncoderHead]]:
    """Find the task of a corpus, and the head that learns it.

    The task is the one that is given, else that of its `corpus.json`, else the catalogue's, else
    what a head recognises in the training part (`EncoderHead.recognised_by`).
    """
    learners = list_learners()
    task = task or description.get("task")
    if not task:
        with suppress(BiomedError):  # a corpus of the user's own
            task = find_corpus(description["name"]).task
    if not task:
        train = description["parts"].get("train", {})
        recognised = (head.recognise(train) for head in learners.values())
        task = next(filter(None, recognised), None)
    if task in learners:
        return task, learners[task]
    problem = f"no head learns the task {quote(task)}" if task else "its task is not known"
    problem = (
        f'{folder / "corpus.json"}: {problem}; add "task" with one of {", ".join(learners)}, or '
        "give --task"
    )
    raise BiomedError(add_hint(problem, suggest(task or "", learners)))


def list_learners() -> dict[str, type[EncoderHead]]:
    """The head that learns from each kind of corpus; of several the first by its factory's name."""
    learners: dict[str, type[EncoderHead]] = {}
    for head in list_heads().values():
        for task in head.learns:
            learners.setdefault(task, head)
    return learners


# The registered name.
Corpus_v1 = CheckedCorpus
