"""Corpora with the probabilities of a fine-tuned pipeline, to train a smaller pipeline on.

Hinton et al. 2015, "Distilling the Knowledge in a Neural Network": a student learns from the
teacher's probabilities, on annotated text and on unlabelled text.
"""

import shutil
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spacy.language import Language
from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, DocBin
from spacy.training.loop import DIR_MODEL_BEST
from spacy.util import minibatch

from ..annotations.soft_labels import Teacher, merge_tags, set_soft_labels
from ..arrays import Floats2d
from ..corpora.convert import ATTRIBUTES
from ..errors import BiomedError
from ..files.outputs import check_replaceable, find_paths, replacing_directory
from ..formats.spacy_docs import read_docs
from ..pipeline.ner import BiomedNER
from .config import describe_corpus, describe_encoder, read_description, write_description
from .corpus import copy_tokens
from .multitask_config import ANY_LANGUAGE

MADE_BY = "spacy biomed teach"


@dataclass(frozen=True, slots=True)
class TeachingReport:
    """The content of a taught corpus.

    Attributes:
        components: names of the components that learn from it.
        annotated, unlabelled: documents of its training part with gold, each once, and without.
        words: tokens of the unlabelled documents.
    """

    components: list[str]
    annotated: int
    unlabelled: int
    words: int


def create_taught_corpus(
    teachers: Sequence[Language],
    corpus: Path,
    texts: Iterable[str],
    output: Path,
    *,
    sources: Sequence[Path | str] = (),
    merge_into: str | None = None,
    repeat: int = 1,
) -> TeachingReport:
    """Write a converted corpus whose training part has the probabilities of teachers.

    The training part has the corpus's training part, with its gold, and the unlabelled texts. If
    each document of the corpus is a sentence, the texts are split into sentences too. The other
    parts are copied.

    A component teaches the student's component of the same name. If several `biomed_ner` teach the
    same one, their labels are merged (`merge_tags`).

    Args:
        teachers: trained pipelines, each with at least one component that can teach. The first
            pipeline tokenizes the texts.
        corpus: folder written by `spacy biomed convert`.
        texts: unlabelled documents.
        output: folder to write; replaced if it exists.
        sources: paths of the teachers and the texts.
        merge_into: name of the component that every `biomed_ner` of the teachers teaches.
        repeat: copies of each annotated document in the training part, so that few annotated
            documents are seen often while the texts are seen once.

    Raises:
        BiomedError: if a pipeline has no component that can teach, if components that cannot be
            merged teach the same component, or if the corpus cannot be read.
    """
    components = _check_teachers(teachers, merge_into)
    sources, first = [*sources, corpus], teachers[0]
    check_replaceable(output, MADE_BY, sources)
    description = read_description(corpus)
    for teacher in teachers:
        if teacher.lang not in (description["language"], ANY_LANGUAGE):
            raise BiomedError(
                f"{corpus}: its language is {description['language']}, and that of a teacher is "
                f"{teacher.lang}; give teachers of the same language"
            )
    train = description["parts"].get("train", {})
    is_in_sentences = train.get("documents") == train.get("sentences")
    with replacing_directory(output, MADE_BY, sources) as partial:
        taught = DocBin(attrs=ATTRIBUTES, store_user_data=True)
        annotated = words = 0
        annotated_docs = read_docs(corpus / "train.spacy", first.vocab)
        for doc in _teach(teachers, annotated_docs, merge_into):
            annotated += 1
            for _ in range(repeat):
                taught.add(doc)
        made = _make_docs(first, texts, sentences=is_in_sentences)
        for doc in _teach(teachers, made, merge_into):
            words += len(doc)
            taught.add(doc)
        taught.to_disk(partial / "train.spacy")
        for name in ("dev.spacy", "test.spacy"):
            if (corpus / name).is_file():
                shutil.copyfile(corpus / name, partial / name)
        unlabelled = len(taught) - repeat * annotated
        description["taught"] = {
            "components": components,
            "teachers": [_describe_teacher(one) for one in teachers],
            "repeated": repeat,
            "unlabelled_documents": unlabelled,
            "unlabelled_tokens": words,
        }
        write_description(partial, description)
    return TeachingReport(components, annotated, unlabelled, words)


def _describe_teacher(teacher: Language) -> dict[str, object]:
    """A teacher's name, and what is known of its sources, for the cards of its students."""
    config, meta, path = teacher.config.interpolate(), teacher.meta, teacher.path
    sources = list(meta.get("sources", []))
    for file in [] if sources else find_paths(config["corpora"].get("train", {})):
        with suppress(BiomedError):  # it may have moved
            known = read_description(file.parent)
            sources += map(describe_corpus, known.get("corpora") or [known])
    models = [component.get("model", {}) for component in config["components"].values()]
    sources += [describe_encoder(one["name"]) for one in models if "name" in one]
    name = path.parent.name if path and path.name == DIR_MODEL_BEST else meta["name"]
    return {"name": name, "license": meta.get("license") or "", "sources": sources}


def _check_teachers(teachers: Sequence[Language], merge_into: str | None) -> list[str]:
    """The names of the components that are taught."""
    taught: dict[str, list[Teacher]] = defaultdict(list)
    for teacher in teachers:
        found: list[Any] = [part for _, part in teacher.pipeline if isinstance(part, Teacher)]
        if not found:
            raise BiomedError(
                f"the teacher's components ({', '.join(teacher.pipe_names)}) give no probabilities "
                "to learn from: take a pipeline with biomed_ner or biomed_textcat"
            )
        for part in found:
            taught[_taught_name(part, merge_into)].append(part)
    for name, parts in taught.items():
        schemes = {part.cfg["scheme"] if isinstance(part, BiomedNER) else "none" for part in parts}
        if len(parts) > 1 and ("none" in schemes or len(schemes) > 1):
            raise BiomedError(
                f"several components teach '{name}', and only those of a biomed_ner with one tag "
                "scheme can be merged: leave one of the pipelines out"
            )
    return list(taught)


def _taught_name(part: Teacher, merge_into: str | None) -> str:
    return merge_into if merge_into and isinstance(part, BiomedNER) else part.name


def _make_docs(nlp: Language, texts: Iterable[str], *, sentences: bool) -> Iterator[Doc]:
    """Tokenize texts, or with `sentences` each of their sentences; empty documents are left out."""
    sentencizer = Sentencizer()
    for text in texts:
        doc = nlp.make_doc(text)
        parts: Iterable[Doc] = (doc,)
        if sentences:
            parts = (nlp.make_doc(sentence.text.strip()) for sentence in sentencizer(doc).sents)
        yield from filter(len, parts)


def _teach(
    teachers: Sequence[Language], references: Iterable[Doc], merge_into: str | None
) -> Iterator[Doc]:
    """Store the teachers' probabilities on documents, without changing their annotation."""
    for batch in minibatch(references, teachers[0].batch_size):
        found: dict[str, list[tuple[list[str], list[Floats2d]]]] = defaultdict(list)
        for teacher in teachers:
            docs = [copy_tokens(doc, teacher.vocab) for doc in batch]
            components: list[tuple[str, Any]] = teacher.pipeline
            for _, component in components:
                if isinstance(component, Teacher):
                    taught = component.classes(), component.probabilities(docs)
                    found[_taught_name(component, merge_into)].append(taught)
                else:
                    docs = list(component.pipe(docs))
        for name, opinions in found.items():
            for number, doc in enumerate(batch):
                given = [(classes, rows[number]) for classes, rows in opinions]
                classes, probabilities = given[0] if len(given) == 1 else merge_tags(given)
                set_soft_labels(doc, name, classes, probabilities)
        yield from batch
