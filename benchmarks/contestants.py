"""The contestants of `inference.py` and `deidentification.py`, each in a separate process.

Run as a program, this module is such a process: it loads one contestant and annotates on request.
Contestants may run in a separate environment, so modules are imported only when needed.

All contestants have the same encoder. The heads of other libraries are trained for some steps on
the frozen encoder, because a random head would find many more mentions and be slow for that reason.
"""

from __future__ import annotations

import json
import os
import random
import runpy
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.training import Example
    from thinc.api import Config, Model

REPOSITORY = Path(__file__).resolve().parents[1]
HEAD_STEPS = 60
HEAD_BATCH = 32
HEAD_LEARN_RATE = 0.005

# Ways to compress our pipelines. The ranges of static int8 are measured once, on texts.
VARIANTS = ("int8", "static int8", "fp32")

Annotated = dict[str, Any]  # "text", and "entities": a list of start, end, label


def stock_config(encoder: Path | str, lang: str) -> Config:
    """The output of `spacy init config --pipeline ner --gpu`, with an encoder."""
    from spacy.cli.init_config import init_config

    config = init_config(lang=lang, pipeline=["ner"], gpu=True, silent=True)
    config["system"]["gpu_allocator"] = None
    config["components"]["transformer"]["model"]["name"] = str(encoder)
    return config


# --- The contestants ---


class SpacyPipeline:
    """A pipeline loaded with `spacy.load`.

    Attributes:
        precision: number format of a `biomed_transformer`; None for its setting.
        engine: library that runs an exported encoder; None for pipelines without one.
        gpu: whether it runs on the GPU.

    Raises:
        ValueError: if the engine cannot run the encoder here.
    """

    def __init__(
        self,
        path: str,
        precision: str | None = None,
        engine: str | None = None,
        gpu: bool = False,
    ):
        import spacy

        if gpu:
            spacy.require_gpu()
        if engine is not None:
            os.environ["SPACY_BIOMED_ENGINE"] = engine
        self.nlp = spacy.load(path)
        if precision is not None:
            find_shim(self.nlp).computes_in = precision
        if engine is not None and find_shim(self.nlp).choice != engine:
            raise ValueError(f"{engine} cannot run this encoder here")

    def stream(self, texts: list[str]) -> Iterable[Any]:
        """Annotate texts in batches, as documented for the library."""
        return self.nlp.pipe(texts)

    def count(self, annotated: Any) -> int:
        """The number of entities in a result of `stream`."""
        return len(annotated.ents)

    def prepare(self, texts: list[str]) -> Callable[[], Any]:
        """A function that runs a round."""
        return lambda: deque(self.stream(texts), maxlen=0)


class EncoderAlone(SpacyPipeline):
    """Only the encoder of one of our pipelines, on the padded batches of that pipeline.

    Attributes:
        operations: floating-point operations in a round, without those on padding; 0 for exported
            encoders.
    """

    operations = 0.0

    def count(self, annotated: Any) -> int:
        return 0

    def prepare(self, texts: list[str]) -> Callable[[], Any]:
        shim = find_shim(self.nlp)
        encode, calls = shim.encode, []

        def record(batches: Any) -> Any:
            calls.append(batches)
            return encode(batches)

        shim.encode = record
        deque(self.stream(texts), maxlen=0)
        shim.encode = encode
        if hasattr(shim, "computes_in"):
            self.operations = count_operations(
                shim._model, [batch for batches in calls for batch in batches]
            )

        def run() -> None:
            deque(map(encode, calls), maxlen=0)
            wait_for_gpu()

        return run


def count_operations(encoder: Any, batches: Iterable[Any]) -> float:
    """Floating-point operations of an encoder in PyTorch, without those on padding.

    They are two for each weight of a matrix product and word piece, and in each layer's attention
    four for each feature and pair of word pieces of a sequence.
    """
    import torch

    weights = sum(
        module.weight.numel() for module in encoder.modules() if isinstance(module, torch.nn.Linear)
    )
    attention = 4 * encoder.config.num_hidden_layers * encoder.config.hidden_size
    lengths = [length for batch in batches for length in batch.mask.sum(axis=1).tolist()]
    return float(sum(2 * weights * length + attention * length**2 for length in lengths))


def wait_for_gpu() -> None:
    """Wait until the GPU, if there is one, has computed what it was asked."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def measure_peak() -> float:
    """The operations a second of a large matrix product in bf16 on the GPU; 0 without one."""
    import torch

    if not torch.cuda.is_available():
        return 0.0
    one = torch.randn(8192, 8192, dtype=torch.bfloat16, device="cuda")
    deque((one @ one for _ in range(5)), maxlen=0)
    wait_for_gpu()
    start = time.perf_counter()
    deque((one @ one for _ in range(50)), maxlen=0)
    wait_for_gpu()
    return 50 * 2 * 8192**3 / (time.perf_counter() - start)


def peak_memory() -> int:
    """The most bytes of the GPU that PyTorch has reserved so far; 0 without a GPU."""
    import torch

    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0


class TransformersPipeline:
    """`pipeline("token-classification")` of transformers with a linear head."""

    def __init__(self, path: str, corpus: str, gpu: bool = False):
        from training import PlainTrainer, Schedule
        from transformers import pipeline

        schedule = Schedule(HEAD_STEPS, HEAD_LEARN_RATE, HEAD_BATCH, seed=0)
        trainer = PlainTrainer(Path(corpus), path, schedule)
        trainer.model.base_model.requires_grad_(False)
        deque(islice(trainer.steps(HEAD_STEPS), HEAD_STEPS), maxlen=0)
        trainer.model.config.id2label = dict(enumerate(trainer.tags))
        self.pipeline = pipeline(
            "token-classification",
            model=trainer.model.eval(),
            tokenizer=trainer.tokenizer,
            aggregation_strategy="simple",
            stride=trainer.tokenizer.model_max_length // 4,  # windows overlap
            batch_size=8,  # on a CPU larger batches cost more by padding than they save
            device="cuda" if gpu else "cpu",
        )

    def stream(self, texts: list[str]) -> Iterable[Any]:
        return self.pipeline(texts)

    count = staticmethod(len)
    prepare = SpacyPipeline.prepare


class EdsNlp:
    """EDS-NLP: `eds.ner_crf` over `eds.transformer`, with windows and batches as documented."""

    def __init__(self, path: str, annotated: list[Annotated]):
        import edsnlp
        import edsnlp.pipes as eds

        labels = sorted({label for one in annotated for *_, label in one["entities"]})
        self.nlp = edsnlp.blank("eds")
        self.nlp.add_pipe(
            eds.ner_crf(
                embedding=eds.transformer(model=path, window=128, stride=96),
                mode="joint",
                labels=labels,
                target_span_getter={"ents": True},
                span_setter={"ents": True},
            ),
            name="ner",
        )
        fit_crf_head(self.nlp, annotated)

    def stream(self, texts: list[str]) -> Iterable[Any]:
        return self.nlp.pipe(texts)

    count = SpacyPipeline.count
    prepare = SpacyPipeline.prepare


class Presidio:
    """Microsoft Presidio with a blank pipeline: its recognisers of patterns and checksums."""

    def __init__(self, language: str):
        import spacy
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.nlp_engine import SpacyNlpEngine

        engine = SpacyNlpEngine(models=[{"lang_code": language, "model_name": "blank"}])
        engine.nlp = {language: spacy.blank(language)}
        registry = RecognizerRegistry(supported_languages=[language])
        registry.load_predefined_recognizers(languages=[language])
        self.language = language
        self.engine = AnalyzerEngine(
            registry=registry, nlp_engine=engine, supported_languages=[language]
        )

    def stream(self, texts: list[str]) -> Iterable[Any]:
        return (self.engine.analyze(text, self.language) for text in texts)

    def spans(self, found: Any) -> list[tuple[int, int, str]]:
        return [(one.start, one.end, one.entity_type) for one in found]

    count = staticmethod(len)
    prepare = SpacyPipeline.prepare


class Deidentifier(SpacyPipeline):
    """A pipeline with `biomed_phi_patterns` and `biomed_deidentify`."""

    def __init__(self, path: str):
        from spacy_biomed.bulk.deidentification import Deidentification

        super().__init__(path)
        Deidentification(mode="tags").prepare(self.nlp)

    def spans(self, found: Any) -> list[tuple[int, int, str]]:
        return [(one.start, one.end, one.label) for one in found._.deidentified.replacements]


KINDS = {
    "de-identification": Deidentifier,
    "Presidio": Presidio,
    "pipeline": SpacyPipeline,
    "encoder alone": EncoderAlone,
    "transformers": TransformersPipeline,
    "EDS-NLP": EdsNlp,
}


def find_shim(nlp: Language) -> Any:
    """The shim with the encoder of one of our pipelines."""
    for _, pipe in nlp.pipeline:
        model: Model | None = getattr(pipe, "model", None)
        if model is not None and model.shims and hasattr(model.shims[0], "encode"):
            return model.shims[0]
    raise ValueError("the pipeline has no encoder of ours")


# --- Heads of other libraries ---


def batches(annotated: list[Annotated], steps: int) -> Iterator[list[Annotated]]:
    """Yield `steps` batches of the annotated texts, shuffled in each pass."""
    shuffled = random.Random(0).sample(annotated, len(annotated))
    endless = cycle(shuffled)
    for _ in range(steps):
        yield list(islice(endless, HEAD_BATCH))


def fit_crf_head(nlp: Any, annotated: list[Annotated]) -> None:
    """Train the linear layer of `eds.ner_crf`; the encoder is frozen."""
    import torch

    ner = nlp.get_pipe("ner")
    optimizer = torch.optim.AdamW(ner.linear.parameters(), lr=HEAD_LEARN_RATE)
    ner.requires_grad_(False)
    ner.linear.requires_grad_(True)
    for batch in batches(annotated, HEAD_STEPS):
        docs = [nlp.make_doc(one["text"]) for one in batch]
        for doc, one in zip(docs, batch, strict=True):
            spans = [doc.char_span(*entity) for entity in one["entities"]]
            doc.ents = [span for span in spans if span is not None]
        ner(ner.prepare_batch(docs, supervision=True))["loss"].backward()
        optimizer.step()
        optimizer.zero_grad()
    ner.eval()


def train_from(config: Config, annotated: list[Annotated], steps: int) -> Language:
    """Train all components of a pipeline after the first, which is the encoder and is frozen."""
    from spacy.util import fix_random_seed, load_model_from_config
    from thinc.api import Adam

    fix_random_seed(0)
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.initialize(lambda: make_examples(nlp, annotated))
    encoder = nlp.pipe_names[0]
    optimizer = Adam(0.001)
    for batch in batches(annotated, steps):
        examples = make_examples(nlp, batch)
        nlp.update(examples, sgd=optimizer, exclude=[encoder], annotates=[encoder])
    return nlp


def make_examples(nlp: Language, annotated: Iterable[Annotated]) -> list[Example]:
    from spacy.training import Example

    return [
        Example.from_dict(nlp.make_doc(one["text"]), {"entities": one["entities"]})
        for one in annotated
    ]


# --- Preparation ---


def prepare_pipelines(
    pipeline: str, annotated: list[Annotated], work: Path, *, base: bool, gpu: bool
) -> dict[str, str]:
    """Create the pipelines and encoders of the contestants; existing directories are kept.

    Args:
        pipeline: a fine-tuned pipeline with `biomed_transformer`.
        annotated: texts to train the heads on.
        work: directory to write to.
        base: whether to create pipelines with a BERT-base of random weights too.
        gpu: whether they are for a GPU: pipelines in PyTorch in place of compressed ones.

    Returns:
        the directories by name.
    """
    from spacy_biomed.pipeline.pipeline_loading import load_pipeline

    nlp = load_pipeline(pipeline)
    made = {} if gpu else export_variants(lambda: nlp, annotated, work)
    made |= {name: work / name for name in ("encoder", "stock")}
    once(made["encoder"], lambda path: write_encoder(nlp, path))
    once(made["stock"], lambda path: write_stock(made["encoder"], nlp.lang, annotated, path))
    if base:
        folder = work / "BERT-base"
        ours = {name: folder / name for name in ("encoder", "stock", "pytorch")}
        encoder = ours["encoder"]
        once(encoder, lambda path: write_base(made["encoder"], path))
        once(ours["stock"], lambda path: write_stock(encoder, nlp.lang, annotated, path, 5))
        make = partial(make_untrained, nlp, encoder, annotated)
        once(ours["pytorch"], lambda path: make().to_disk(path))
        ours |= {} if gpu else export_variants(make, annotated, folder)
        made |= {f"BERT-base {name}": path for name, path in ours.items()}
    return {name: str(path) for name, path in made.items()}


def export_variants(
    load: Callable[[], Language], annotated: list[Annotated], folder: Path
) -> dict[str, Path]:
    """Compress a pipeline in each of `VARIANTS`; existing directories are kept.

    Args:
        load: gives the pipeline; called only if a directory is missing.
        annotated: texts to measure the ranges of static int8 on.
    """
    from spacy_biomed.packaging.compression import write_compressed

    made = {variant: folder / variant for variant in VARIANTS}
    if all(path.is_dir() for path in made.values()):
        return made
    nlp = load()
    texts = [nlp.make_doc(one["text"]) for one in annotated]
    once(made["int8"], lambda path: write_compressed(nlp, path, "int8", True))
    once(made["static int8"], lambda path: write_compressed(nlp, path, "int8", True, texts))
    once(made["fp32"], lambda path: write_compressed(nlp, path, "fp32", False))
    return made


def once(path: Path, write: Callable[[Path], None]) -> None:
    """Create a directory unless it exists; it appears only when it is complete."""
    if path.is_dir():
        return
    partial = path.with_name(path.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    write(partial)
    partial.rename(path)


def write_encoder(nlp: Language, path: Path) -> None:
    """Write the encoder of one of our pipelines in transformers' format."""
    shim = find_shim(nlp)
    shim.save(path)
    # Otherwise other libraries would not cut text that is too long for the position embeddings.
    settings = json.loads((path / "tokenizer_config.json").read_text(encoding="utf8"))
    settings["model_max_length"] = shim._model.config.max_position_embeddings
    (path / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf8")


def write_base(like: Path, path: Path) -> None:
    """Write a BERT-base with random weights and the tokenizer of another encoder."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    tokenizer = AutoTokenizer.from_pretrained(like, trust_remote_code=False)
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id)
    BertModel(config).save_pretrained(path)


def write_stock(
    encoder: Path, lang: str, annotated: list[Annotated], path: Path, steps: int = HEAD_STEPS
) -> None:
    """Write the stock pipeline for an encoder."""
    train_from(stock_config(encoder, lang), annotated, steps).to_disk(path)


def make_untrained(
    like: Language, encoder: Path, annotated: list[Annotated], steps: int = 5
) -> Language:
    """One of our pipelines, like another but with an encoder of random weights."""
    from thinc.api import Config

    from spacy_biomed.packaging.compression import find_encoders

    whole = like.config.interpolate()
    config = Config({section: whole[section] for section in ("nlp", "components")})
    for name in find_encoders(like):
        config["components"][name]["model"]["name"] = str(encoder)
    return train_from(config, annotated, steps)


# --- The process of a contestant ---


class Process:
    """The requests of a contestant's process."""

    contestant: Any

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.rounds: dict[str, Callable[[], Any]] = {}
        self.endless: Iterator[str] = iter(())

    def make(self, work: str, gpu: bool = False, **arguments: Any) -> dict[str, str]:
        """Call `prepare_pipelines`, on the GPU if they are for one and it is there."""
        if gpu:
            import spacy

            spacy.prefer_gpu()
        return prepare_pipelines(work=Path(work), gpu=gpu, **arguments)

    def load(self, kind: str, **settings: Any) -> None:
        """Load the contestant: one of `KINDS`, with its settings."""
        self.contestant = KINDS[kind](**settings)

    def read(self, name: str, texts: list[str]) -> int:
        """Set texts, annotate them once as a warm-up, and return the number of entities."""
        self.texts[name] = texts
        self.rounds[name] = self.contestant.prepare(texts)
        return sum(self.contestant.count(one) for one in self.contestant.stream(texts))

    def round(self, name: str) -> float:
        """Annotate a set of texts; return the seconds."""
        start = time.perf_counter()
        self.rounds[name]()
        return time.perf_counter() - start

    def find(self, texts: list[str]) -> list[list[tuple[int, int, str]]]:
        """The spans of personal data in each text."""
        return [self.contestant.spans(found) for found in self.contestant.stream(texts)]

    def share(self, name: str) -> float | None:
        """The share of the GPU's peak that a round of `EncoderAlone` uses; None without a GPU."""
        peak = measure_peak()
        return self.contestant.operations / self.round(name) / peak if peak else None

    def peak_memory(self) -> int:
        return peak_memory()

    def cycle(self, texts: list[str]) -> None:
        """Set the texts that `zone` annotates repeatedly."""
        self.endless = cycle(texts)

    def zone(self, documents: int) -> int | None:
        """Annotate texts in a memory zone; return the resident size afterwards, in bytes."""
        from spacy_biomed.evaluation.pipeline_worker import memory_status

        nlp = self.contestant.nlp
        with nlp.memory_zone():
            deque(nlp.pipe(islice(self.endless, documents)), maxlen=0)
        return memory_status("VmRSS")

    def score(self, corpus: str) -> dict[str, float]:
        """Evaluate a pipeline on a .spacy file; return the scores with a weight in its config."""
        from spacy.training import Corpus

        from spacy_biomed.packaging.compression import weighted_scores

        nlp = self.contestant.nlp
        return weighted_scores(nlp, list(Corpus(corpus)(nlp)))


if __name__ == "__main__":
    # Imported from its file: environments of other libraries do not have this package.
    workers = REPOSITORY / "spacy_biomed" / "workers" / "process.py"
    runpy.run_path(str(workers))["serve"](Process())
