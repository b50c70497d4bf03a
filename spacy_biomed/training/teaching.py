"""Corpora that carry the probabilities of a fine-tuned pipeline, for a smaller one to learn from.

Hinton et al. 2015, "Distilling the Knowledge in a Neural Network": the student learns from what the
teacher finds probable, on annotated text and on text that nobody has annotated.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from spacy.language import Language
from spacy.tokens import Doc, DocBin
from spacy.util import minibatch

from ..corpora.convert import ATTRIBUTES
from ..errors import BiomedError
from ..outputs import check_replaceable, replacing_directory
from ..pipeline.taught import Teacher, set_taught
from .config import read_description
from .corpus import read_docs

MADE_BY = "spacy biomed teach"


@dataclass(frozen=True, slots=True)
class TeachingReport:
    """What a taught corpus holds.

    components: the teacher's components whose probabilities it carries.
    annotated, unlabelled: documents of its training part, with gold and without.
    words: tokens of the unlabelled ones.
    """

    components: list[str]
    annotated: int
    unlabelled: int
    words: int


def create_taught_corpus(
    teacher: Language,
    corpus: Path,
    texts: Iterable[str],
    output: Path,
    *,
    max_words: int = 0,
    sources: Sequence[Path] = (),
) -> TeachingReport:
    """Write a converted corpus whose training part carries a teacher's probabilities.

    The training part is the corpus's own, with its gold, and the unlabelled texts; of these, each
    sentence becomes a document where each document of the corpus is a sentence. The other parts are
    copied.

    teacher: a trained pipeline with at least one component that can teach.
    corpus: folder that `spacy biomed convert` wrote.
    texts: unlabelled documents.
    output: folder to write; replaced if it is there.
    max_words: stop after so many tokens of unlabelled text; 0 for all of it.
    sources: where the teacher and the texts come from.
    RAISES BiomedError: if the pipeline has nothing to teach, or the corpus cannot be read.
    """
    components = [name for name, part in teacher.pipeline if isinstance(part, Teacher)]
    if not components:
        raise BiomedError(
            f"the teacher's components ({', '.join(teacher.pipe_names)}) give no probabilities to "
            "learn from: take a pipeline with biomed_ner or biomed_textcat"
        )
    sources = [*sources, corpus]
    check_replaceable(output, MADE_BY, sources)
    description = read_description(corpus)
    train = description["parts"]["train"]
    is_in_sentences = train["documents"] == train["sentences"]
    with replacing_directory(output, MADE_BY, sources) as partial:
        taught = DocBin(attrs=ATTRIBUTES, store_user_data=True)
        for doc in teach(teacher, read_docs(corpus / "train.spacy", teacher.vocab)):
            taught.add(doc)
        annotated = len(taught)
        unlabelled = make_docs(teacher, texts, sentences=is_in_sentences, max_words=max_words)
        words = 0
        for doc in teach(teacher, unlabelled):
            words += len(doc)
            taught.add(doc)
        taught.to_disk(partial / "train.spacy")
        for part in ("dev", "test"):
            if (corpus / f"{part}.spacy").is_file():
                shutil.copyfile(corpus / f"{part}.spacy", partial / f"{part}.spacy")
        report = TeachingReport(components, annotated, len(taught) - annotated, words)
        description["taught"] = {
            "components": components,
            "unlabelled_documents": report.unlabelled,
            "unlabelled_tokens": words,
        }
        (partial / "corpus.json").write_text(
            json.dumps(description, ensure_ascii=False, indent=2) + "\n", encoding="utf8"
        )
    return report


def make_docs(
    nlp: Language, texts: Iterable[str], *, sentences: bool, max_words: int
) -> Iterator[Doc]:
    """Tokenize texts, or each of their sentences, up to a number of tokens in all."""
    from spacy.pipeline import Sentencizer

    sentencizer = Sentencizer()
    words = 0
    for text in texts:
        doc = nlp.make_doc(text)
        parts: Iterable[Doc] = (doc,)
        if sentences:
            parts = (nlp.make_doc(sentence.text.strip()) for sentence in sentencizer(doc).sents)
        for part in parts:
            if len(part) == 0:
                continue
            yield part
            words += len(part)
            if 0 < max_words <= words:
                return


def teach(teacher: Language, references: Iterable[Doc]) -> Iterator[Doc]:
    """Leave the teacher's probabilities on documents, whose own annotation stays as it is."""
    for batch in minibatch(references, teacher.batch_size):
        docs = [_bare(doc) for doc in batch]
        for name, component in teacher.pipeline:
            if isinstance(component, Teacher):
                classes, rows = component.classes(), component.probabilities(docs)
                for doc, probabilities in zip(batch, rows, strict=True):
                    set_taught(doc, name, classes, probabilities)
            else:
                docs = list(component.pipe(docs))
        yield from batch


def _bare(doc: Doc) -> Doc:
    """The document's tokens without anything that is known of them."""
    return Doc(
        doc.vocab,
        words=[token.text for token in doc],
        spaces=[bool(token.whitespace_) for token in doc],
    )
