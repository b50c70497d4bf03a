"""A few documents for each kind of corpus that heads learn from."""

from __future__ import annotations

import json
from pathlib import Path

import spacy
from multitask_corpora import write_small_template
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.training import Example
from thinc.api import Config

import spacy_biomed
from spacy_biomed.annotations.assertions import set_assertions
from spacy_biomed.annotations.marked_arguments import find_marked_arguments
from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.annotations.seen_mentions import SEEN_KEY
from spacy_biomed.training.multitask import TASK_KEY, MultiTaskCorpus_v1
from spacy_biomed.training.multitask_config import create_multitask_config

NLP = spacy.blank("en")
TEXTS = ("Aspirin reduced the risk of stroke.", "Metformin for patients with diabetes.")
MARKED = (
    "<< Aspirin >> reduced the risk of [[ stroke ]].",
    "<< Metformin >> for patients with [[ diabetes ]].",
)
PAIRS = (("Is aspirin safe?", "Aspirin is safe."), ("Is it cancer?", "It was diabetes."))


def write_corpora(folder: Path, kinds: list[str]) -> list[Path]:
    """Write a converted corpus of each kind to a folder with its name.

    Returns:
        the folders.
    """
    for kind in kinds:
        (folder / kind).mkdir(parents=True)
        for part in ("train", "dev", "test"):
            path = folder / kind / f"{part}.spacy"
            DocBin(docs=make_docs(kind), store_user_data=True).to_disk(path)
        description = {"name": f"my_{kind}", "language": "en", "task": kind, "parts": {}}
        (folder / kind / "corpus.json").write_text(json.dumps(description), encoding="utf8")
    return [folder / kind for kind in kinds]


def create_heads_config(folder: Path, kinds: list[str], encoder: Path) -> Config:
    """A multi-task config in fp32, and in `corpora` a corpus of each kind for one of its heads."""
    config, _ = create_multitask_config(
        write_corpora(folder / "corpora", kinds),
        encoder=str(encoder),
        template=write_small_template(folder / "multitask.cfg"),
        epochs=1,
        batch_words=100,
    )
    config["components"]["biomed_transformer"]["model"]["precision"] = "fp32"
    return config


def read_examples(nlp: Language, folder: Path, kinds: list[str]) -> dict[str, list[Example]]:
    """The training examples of what `create_heads_config` wrote to a folder, by kind."""
    paths = {kind: folder / "corpora" / kind / "train.spacy" for kind in kinds}
    found: dict[str, list[Example]] = {kind: [] for kind in kinds}
    for example in MultiTaskCorpus_v1(paths)(nlp):
        found[example.reference.user_data[TASK_KEY]].append(example)
    return found


def make_docs(kind: str) -> list[Doc]:
    """Eight documents, of two types that a head has to distinguish, with the layer of a kind."""
    make, annotate = MAKERS[kind]
    docs = [doc for _ in range(4) for doc in make()]
    for number, doc in enumerate(docs):
        annotate(doc, number % 2 == 0)
    return docs


def _make_texts() -> list[Doc]:
    return [NLP.make_doc(text) for text in TEXTS]


def _make_marked() -> list[Doc]:
    return [NLP.make_doc(text) for text in MARKED]


def _make_pairs() -> list[Doc]:
    return [spacy_biomed.pair(NLP, *pair) for pair in PAIRS]


def _add_entities(doc: Doc, is_first: bool) -> None:
    doc.ents = [Span(doc, 0, 1, "DRUG"), Span(doc, len(doc) - 2, len(doc) - 1, "DISEASE")]
    doc.spans[SEEN_KEY] = [doc.ents[0]]


def _add_classes(doc: Doc, is_first: bool, names: tuple[str, str] = ("RISK", "CARE")) -> None:
    doc.cats = {names[0]: float(is_first), names[1]: float(not is_first)}


def _add_inference(doc: Doc, is_first: bool) -> None:
    _add_classes(doc, is_first, ("yes", "no"))


def _add_similarity(doc: Doc, is_first: bool) -> None:
    doc.cats = {"similarity": 5.0 if is_first else 1.0}


def _add_relations(doc: Doc, is_first: bool) -> None:
    head, tail = (doc.char_span(*offsets[:2]) for offsets in find_marked_arguments(doc.text))
    doc._.relations = [SpanRelation(head, tail, "PREVENTS")] if is_first else []


def _add_document_relations(doc: Doc, is_first: bool) -> None:
    _add_entities(doc, is_first)
    doc._.relations = [SpanRelation(*doc.ents, "HELPS")] if is_first else []


def _add_answers(doc: Doc, is_first: bool) -> None:
    doc.spans["answer"] = [doc.spans["pair"][1][:1]]


def _add_assertions(doc: Doc, is_first: bool) -> None:
    _add_entities(doc, is_first)
    for ent in doc.ents:
        set_assertions(ent, {"is_negated": float(is_first)})


def _add_urgency(doc: Doc, is_first: bool) -> None:
    doc.user_data["urgency"] = float(is_first)


# By the task of a corpus, as in the catalogue: functions that create and annotate the documents.
# "triage" is the task of `pipeline/new_head`.
MAKERS = {
    "assertion": (_make_texts, _add_assertions),
    "ner": (_make_texts, _add_entities),
    "deidentification": (_make_texts, _add_entities),
    "textcat_multilabel": (_make_texts, _add_classes),
    "pair_classification": (_make_pairs, _add_inference),
    "similarity": (_make_pairs, _add_similarity),
    "relations": (_make_marked, _add_relations),
    "document_relations": (_make_texts, _add_document_relations),
    "qa": (_make_pairs, _add_answers),
    "triage": (_make_texts, _add_urgency),
}
