"""On a GPU: the same results as on the CPU.

`benchmarks/on_gpu.sh` runs these tests. With SPACY_BIOMED_GPU_TESTS=cpu they run without a GPU and
compare the CPU with itself, which tests the tests.
"""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import spacy
import torch
from head_corpora import create_heads_config
from pretraining_recipes import make_recipe
from rich.console import Console
from spacy.language import Language
from spacy.schemas import ConfigSchemaTraining
from spacy.training.initialize import init_nlp
from spacy.training.loop import create_train_batches
from spacy.util import registry
from thinc.api import require_cpu, to_numpy

from spacy_biomed.bulk import BulkSettings, annotate_collection
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.encoders.batching.encoded import get_encoding
from spacy_biomed.language_models.pretraining import pretrain
from spacy_biomed.language_models.run_folders import read_rows
from spacy_biomed.pipeline.component_classes import list_heads
from spacy_biomed.training.config import fill_config
from spacy_biomed.training.corpus import Corpus_v1
from spacy_biomed.training.optimizer import AdamW_v1

REPOSITORY = Path(__file__).parents[1]
ENCODER = "biomed_transformer"
IS_DRY_RUN = os.environ.get("SPACY_BIOMED_GPU_TESTS") == "cpu"
GPU = "cpu" if IS_DRY_RUN else "cuda"
STEPS = 200

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not (IS_DRY_RUN or torch.cuda.is_available()), reason="no GPU that PyTorch can use"
    ),
]


def test_two_processes_that_share_the_gpu_find_what_the_cpu_finds(corpus, tmp_path):
    pipeline = REPOSITORY / "assets" / "pipelines" / "en_biomed_ner" / "trainable"
    found = []
    for name, gpu_id in (("cpu", -1), ("gpu", -1 if IS_DRY_RUN else 0)):
        settings = BulkSettings(shard_size=20, n_process=2, gpu_id=gpu_id)
        source, output = corpus / "test.spacy", tmp_path / f"{name}.jsonl"
        annotate_collection(str(pipeline), source, output, settings)
        found.append(read_entities(output))
    assert len(found[0] & found[1]) > 0.98 * max(map(len, found))


@pytest.fixture
def spawning() -> Iterator[None]:
    """Processes are spawned: a forked one cannot use CUDA."""
    before = multiprocessing.get_start_method()
    multiprocessing.set_start_method("spawn", force=True)
    yield
    multiprocessing.set_start_method(before, force=True)


@pytest.mark.usefixtures("spawning")
def test_processes_of_nlp_pipe_that_are_spawned_find_what_one_finds(corpus):
    with on(GPU):
        nlp = spacy.load(REPOSITORY / "assets" / "pipelines" / "en_biomed_ner" / "trainable")
        texts = [example.text for example in Corpus_v1(corpus / "test.spacy")(nlp)][:8]
        found = [
            [[(e.start, e.end, e.label_) for e in doc.ents] for doc in docs]
            for docs in (nlp.pipe(texts), nlp.pipe(texts, n_process=2, batch_size=4))
        ]
    assert any(found[0]) and found[1] == found[0]


def read_entities(output: Path) -> set[tuple[str, int, int, str]]:
    rows = map(json.loads, chain.from_iterable(path.open() for path in output.glob("**/*.jsonl")))
    return {
        (row["id"], entity["start"], entity["end"], entity["label"])
        for row in rows
        for entity in row.get("entities", ())
    }


@contextmanager
def on(device: str) -> Iterator[None]:
    """Let what is loaded inside compute on the GPU, or on the CPU."""
    if device == "cuda":
        spacy.require_gpu()
    try:
        yield
    finally:
        require_cpu()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus") / "starter_en"
    convert_corpus("starter_en", REPOSITORY / "assets" / "starter_en", folder)
    return folder


def annotate(corpus: Path, device: str, precision: str) -> tuple[list[np.ndarray], list[Any]]:
    """The vectors and the entities of the test part's texts."""
    with on(device):
        nlp = spacy.load(REPOSITORY / "assets" / "pipelines" / "en_biomed_ner" / "trainable")
        encoder = nlp.get_pipe(ENCODER)
        encoder.model.shims[0].computes_in = precision
        encoder.cfg["keep_encodings"] = True
        docs = list(nlp.pipe(example.text for example in Corpus_v1(corpus / "test.spacy")(nlp)))
        vectors = [to_numpy(get_encoding(doc).hidden) for doc in docs]
    return vectors, [[(e.start, e.end, e.label_) for e in doc.ents] for doc in docs]


@pytest.fixture(scope="module")
def on_cpu(corpus: Path) -> tuple[list[np.ndarray], list[Any]]:
    return annotate(corpus, "cpu", "fp32")


def test_vectors_and_entities_in_fp32_are_those_of_the_cpu(corpus, on_cpu):
    vectors, entities = annotate(corpus, GPU, "fp32")
    for own, expected in zip(vectors, on_cpu[0], strict=True):
        assert np.abs(own - expected).max() < 1e-3
    assert entities == on_cpu[1]


def test_entities_in_bf16_are_nearly_those_of_the_cpu(corpus, on_cpu):
    _, entities = annotate(corpus, GPU, "bf16")
    found, expected = (
        {(number, *entity) for number, own in enumerate(lists) for entity in own}
        for lists in (entities, on_cpu[1])
    )
    assert len(found & expected) > 0.98 * max(len(found), len(expected))


def fine_tune(config: Any, device: str, steps: int) -> tuple[Language, list[dict[str, float]]]:
    """Train for some steps.

    Returns:
        the pipeline, and the losses of each step by component.
    """
    with on(device):
        nlp = init_nlp(config, use_gpu=0 if device == "cuda" else -1)
        whole = nlp.config.interpolate()
        settings = registry.resolve(whole["training"], schema=ConfigSchemaTraining)
        read = registry.resolve({"train": whole["corpora"]["train"]})["train"]
        losses = []
        for _, (_, batch) in zip(
            range(steps), create_train_batches(nlp, read, settings["batcher"], 0), strict=False
        ):
            own: dict[str, float] = {}
            nlp.update(batch, sgd=settings["optimizer"], losses=own, drop=settings["dropout"])
            settings["optimizer"].step_schedules()
            losses.append({name: float(loss) for name, loss in own.items()})
    return nlp, losses


def test_fine_tuning_in_bf16_loses_what_it_loses_on_the_cpu(corpus):
    config = fill_config(
        corpus,
        encoder=str(REPOSITORY / "assets" / "encoders" / "starter-en"),
        epochs=1,
        learn_rate=0.0005,
        seed=0,
    )
    config["vars"].update(max_steps=STEPS, warmup_steps=STEPS // 10)
    ends = []
    for device, precision in (("cpu", "fp32"), (GPU, "bf16")):
        config["components"][ENCODER]["model"]["precision"] = precision
        _, losses = fine_tune(config, device, STEPS)
        own = [step["biomed_ner"] for step in losses]
        assert mean(own[-50:]) < 0.5 * mean(own[:10])
        ends.append(mean(own[-50:]))
    # Dropout differs.
    assert ends[1] == pytest.approx(ends[0], rel=0.2)


def test_all_heads_learn_together_and_open_on_the_cpu(tiny_bert, tmp_path):
    kinds = sorted(kind for head in list_heads().values() for kind in head.learns)
    config = create_heads_config(tmp_path, kinds, tiny_bert)
    config["training"]["dropout"] = 0.0  # what is dropped differs
    nlp, losses = fine_tune(config, GPU, 4 * len(kinds))
    _, expected = fine_tune(config, "cpu", 4 * len(kinds))
    for step, other in zip(losses[: len(kinds)], expected, strict=False):
        assert step == pytest.approx(other, rel=0.1, abs=1e-3)
    with on(GPU):
        nlp.to_disk(tmp_path / "pipeline")
    assert spacy.load(tmp_path / "pipeline").pipe_names == [ENCODER, *config["nlp"]["pipeline"][1:]]


def test_pretraining_loses_what_it_loses_on_the_cpu(tmp_path):
    ends = []
    for name, device in (("expected", "cpu"), ("found", GPU)):
        folder = tmp_path / name
        folder.mkdir()
        recipe = make_recipe(folder, training__arguments={"use_cpu": device == "cpu"})
        pretrain(recipe, Console(quiet=True))
        rows = read_rows(recipe.output.work / "log.jsonl")
        ends.append([row["validation_loss"] for row in rows if "validation_loss" in row])
    assert ends[1] == pytest.approx(ends[0], rel=0.1)


@pytest.mark.skipif(IS_DRY_RUN, reason="nothing is transferred on a CPU")
@pytest.mark.parametrize("trains", [False, True])
def test_the_number_of_transfers_does_not_grow_with_the_tokens(corpus, trains):
    """Eight documents, and the same eight with all their words twice, in as many batches."""
    from torch.profiler import ProfilerActivity, profile

    with on(GPU):
        nlp = spacy.load(REPOSITORY / "assets" / "pipelines" / "en_biomed_ner" / "trainable")
        examples = list(Corpus_v1(corpus / "train.spacy")(nlp))[:8]
        optimizer = nlp.resume_training(sgd=AdamW_v1()) if trains else None
        counts = []
        for repeats in (1, 1, 2):  # the first is for what is made only once
            docs = [nlp.make_doc(" ".join([one.text] * repeats)) for one in examples]
            batch = [spacy.training.Example(doc, doc.copy()) for doc in docs]
            with profile(activities=[ProfilerActivity.CUDA]) as profiler:
                if trains:
                    nlp.update(batch, sgd=optimizer)
                else:
                    list(nlp.pipe(docs))
                torch.cuda.synchronize()
            copies = [event for event in profiler.events() if event.name.startswith("Memcpy")]
            counts.append(len(copies))
    assert counts[1] > 0
    assert counts[2] <= 1.2 * counts[1]
