"""The contestants of `inference.py`, `memory.py` and others, each in a separate process.

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
from contextlib import contextmanager
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

# Layers and widths of encoders with random weights, for measurements of speed only.
SHAPES = {
    "BERT-base": {
        "num_hidden_layers": 12,
        "hidden_size": 768,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
    "4 layers x 312": {
        "num_hidden_layers": 4,
        "hidden_size": 312,
        "num_attention_heads": 12,
        "intermediate_size": 1200,
    },
}

# The relevant parts of the output of `spacy init config --pipeline ner --gpu`.
STOCK = """
[nlp]
lang = "en"
pipeline = ["transformer", "ner"]
batch_size = 128

[components]

[components.transformer]
factory = "transformer"
max_batch_items = 4096

[components.transformer.model]
@architectures = "spacy-transformers.TransformerModel.v3"
name = null
tokenizer_config = {"use_fast": true}

[components.transformer.model.get_spans]
@span_getters = "spacy-transformers.strided_spans.v1"
window = 128
stride = 96

[components.ner]
factory = "ner"

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 64
maxout_pieces = 2
use_upper = false

[components.ner.model.tok2vec]
@architectures = "spacy-transformers.TransformerListener.v1"
grad_factor = 1.0

[components.ner.model.tok2vec.pooling]
@layers = "reduce_mean.v1"
"""

Annotated = dict[str, Any]  # "text", and "entities": a list of start, end, label


def stock_config(encoder: Path | str, lang: str) -> Config:
    """spacy-transformers' `transformer` and spaCy's `ner`, as in spaCy's quickstart."""
    from thinc.api import Config

    config = Config().from_str(STOCK)
    config["nlp"]["lang"] = lang
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
        if engine is not None and find_shim(self.nlp).choice.engine != engine:
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
        encode = shim.encode
        with record_calls(shim, "encode") as calls:
            deque(self.stream(texts), maxlen=0)
        if hasattr(shim, "computes_in"):
            self.operations = count_operations(
                shim._model, [batch for (batches,), _ in calls for batch in batches]
            )

        def run() -> None:
            for arguments, _ in calls:
                encode(*arguments)
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


def peak_memory() -> int:
    """The most bytes of the GPU that PyTorch has reserved so far; 0 without a GPU."""
    import torch

    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0


@contextmanager
def record_calls(owner: Any, method: str) -> Iterator[list[tuple[tuple, Any]]]:
    """Record the arguments and the result of each call of an object's method."""
    compute = getattr(owner, method)
    calls: list[tuple[tuple, Any]] = []

    def record(*arguments: Any, **named: Any) -> Any:
        result = compute(*arguments, **named)
        calls.append((arguments, result))
        return result

    setattr(owner, method, record)
    try:
        yield calls
    finally:
        setattr(owner, method, compute)


class TransformersPipeline:
    """`pipeline("token-classification")` of transformers with a linear head.

    Attributes:
        batch_size: on a CPU larger batches, of texts in the given order, cost more by padding than
            they save.
        gpu: whether it runs on the GPU.
    """

    def __init__(
        self, path: str, annotated: list[Annotated], batch_size: int = 8, gpu: bool = False
    ):
        from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

        tags = bio_tags(annotated)
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
        model = AutoModelForTokenClassification.from_pretrained(
            path,
            id2label=dict(enumerate(tags)),
            label2id={tag: i for i, tag in enumerate(tags)},
            trust_remote_code=False,
            use_safetensors=True,
        )
        fit_linear_head(model, tokenizer, annotated)
        self.pipeline = pipeline(
            "token-classification",
            model=model,
            tokenizer=tokenizer,
            aggregation_strategy="simple",
            stride=128,  # texts longer than the encoder's window are read in overlapping windows
            batch_size=batch_size,
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


KINDS = {
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


def bio_tags(annotated: list[Annotated]) -> list[str]:
    labels = sorted({label for one in annotated for *_, label in one["entities"]})
    return ["O", *(f"{edge}-{label}" for label in labels for edge in "BI")]


def batches(annotated: list[Annotated], steps: int) -> Iterator[list[Annotated]]:
    """Yield `steps` batches of the annotated texts, shuffled in each pass."""
    shuffled = random.Random(0).sample(annotated, len(annotated))
    endless = cycle(shuffled)
    for _ in range(steps):
        yield list(islice(endless, HEAD_BATCH))


def fit_linear_head(model: Any, tokenizer: Any, annotated: list[Annotated]) -> None:
    """Train the classifier of a transformers model; the encoder is frozen."""
    import torch

    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=HEAD_LEARN_RATE)
    model.eval()
    model.requires_grad_(False)
    model.classifier.requires_grad_(True)
    for batch in batches(annotated, HEAD_STEPS):
        inputs = tokenizer(
            [one["text"] for one in batch],
            padding=True,
            truncation=True,
            return_tensors="pt",
            return_offsets_mapping=True,
        )
        offsets = inputs.pop("offset_mapping").tolist()
        labels = [
            _piece_tags(own, one["entities"], model.config.label2id)
            for own, one in zip(offsets, batch, strict=True)
        ]
        model(**inputs, labels=torch.tensor(labels)).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def _piece_tags(offsets: list, entities: list, ids: dict[str, int]) -> list[int]:
    """A BIO tag for each word piece; -100 (ignored) for pieces without text."""
    tags = []
    for start, end in offsets:
        tag = "O" if end > start else None
        for first, last, label in entities:
            if end > start and first < end and start < last:
                tag = f"{'B' if start <= first else 'I'}-{label}"
        tags.append(-100 if tag is None else ids[tag])
    return tags


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


def fit_spacy_head(nlp: Language, annotated: list[Annotated], steps: int) -> None:
    """Train all components after the first, which is the encoder and is frozen."""
    from thinc.api import Adam

    encoder = nlp.pipe_names[0]
    optimizer = Adam(0.001)
    for batch in batches(annotated, steps):
        examples = make_examples(nlp, batch)
        nlp.update(examples, sgd=optimizer, exclude=[encoder], annotates=[encoder])


def make_examples(nlp: Language, annotated: Iterable[Annotated]) -> list[Example]:
    from spacy.training import Example

    return [
        Example.from_dict(nlp.make_doc(one["text"]), {"entities": one["entities"]})
        for one in annotated
    ]


# --- Preparation ---


def prepare_pipelines(
    pipeline: str, annotated: list[Annotated], work: Path, *, shapes: bool, gpu: bool
) -> dict[str, str]:
    """Create the pipelines and encoders of the contestants; existing directories are kept.

    Args:
        pipeline: a fine-tuned pipeline with `biomed_transformer`.
        annotated: texts to train the heads on.
        work: directory to write to.
        shapes: whether to create pipelines for `SHAPES` too.
        gpu: whether they are for a GPU: pipelines in PyTorch in place of compressed ones, and of
            the shapes only BERT-base.

    Returns:
        the directories by name.
    """
    from spacy_biomed.pipeline.pipeline_loading import load_pipeline

    nlp = load_pipeline(pipeline)
    made = {} if gpu else export_variants(lambda: nlp, annotated, work)
    made.update({name: work / name for name in ("encoder", "stock")})
    once(made["encoder"], lambda path: write_encoder(nlp, path))
    once(made["stock"], lambda path: write_stock(made["encoder"], nlp.lang, annotated, path))
    for shape, settings in SHAPES.items() if shapes else ():
        if gpu and shape != "BERT-base":
            continue
        folder = work / shape.replace(" ", "_")
        encoder, stock = folder / "encoder", folder / "stock"
        once(encoder, lambda path, own=settings: write_shape(made["encoder"], own, path))
        make = partial(make_untrained, nlp, encoder, annotated)
        if gpu:
            ours = {"pytorch": folder / "pytorch"}
            once(ours["pytorch"], lambda path, own=make: own().to_disk(path))
        else:
            ours = export_variants(make, annotated, folder)
        made.update({f"{shape} {variant}": path for variant, path in ours.items()})
        if shape == "BERT-base":
            once(stock, lambda path, own=encoder: write_stock(own, nlp.lang, annotated, path, 5))
            made[f"{shape} stock"] = stock
    return {name: str(path) for name, path in made.items()}


def export_variants(
    load: Callable[[], Language], annotated: list[Annotated], folder: Path
) -> dict[str, Path]:
    """Compress a pipeline in each of `VARIANTS`; existing directories are kept.

    Args:
        load: gives the pipeline; called only if a directory is missing.
        annotated: texts to measure the ranges of static int8 on.
        folder: directory to write to.

    Returns:
        the directories by variant.
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


def write_shape(like: Path, shape: dict[str, int], path: Path) -> None:
    """Write a BERT with random weights and the tokenizer of another encoder."""
    import torch
    from transformers import AutoTokenizer, BertConfig, BertModel

    tokenizer = AutoTokenizer.from_pretrained(like, trust_remote_code=False)
    tokenizer.save_pretrained(path)
    torch.manual_seed(0)
    config = BertConfig(vocab_size=len(tokenizer), pad_token_id=tokenizer.pad_token_id, **shape)
    BertModel(config).save_pretrained(path)


def write_stock(
    encoder: Path, lang: str, annotated: list[Annotated], path: Path, steps: int = HEAD_STEPS
) -> None:
    """Write the stock pipeline for an encoder."""
    from spacy.util import fix_random_seed, load_model_from_config

    fix_random_seed(0)
    nlp = load_model_from_config(stock_config(encoder, lang), auto_fill=True)
    nlp.initialize(lambda: make_examples(nlp, annotated))
    fit_spacy_head(nlp, annotated, steps)
    nlp.to_disk(path)


def make_untrained(
    like: Language, encoder: Path, annotated: list[Annotated], steps: int = 5
) -> Language:
    """One of our pipelines, like another but with an encoder of random weights."""
    from spacy.util import fix_random_seed, load_model_from_config
    from thinc.api import Config

    from spacy_biomed.packaging.compression import find_encoders

    fix_random_seed(0)
    whole = like.config.interpolate()
    config = Config({section: whole[section] for section in ("nlp", "components")})
    for name in find_encoders(like):
        config["components"][name]["model"]["name"] = str(encoder)
    nlp = load_model_from_config(config, auto_fill=True)
    nlp.initialize(lambda: make_examples(nlp, annotated))
    fit_spacy_head(nlp, annotated, steps)
    return nlp


# --- The process of a contestant ---


class Process:
    """The requests of a contestant's process."""

    contestant: Any

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.rounds: dict[str, Callable[[], Any]] = {}
        self.endless: Iterator[str] = iter(())

    def make(
        self, pipeline: str, annotated: list[Annotated], work: str, shapes: bool, gpu: bool = False
    ) -> dict[str, str]:
        """Call `prepare_pipelines`, on the GPU if they are for one and it is there."""
        if gpu:
            import spacy

            spacy.prefer_gpu()
        return prepare_pipelines(pipeline, annotated, Path(work), shapes=shapes, gpu=gpu)

    def versions(self, packages: list[str]) -> dict[str, str]:
        """The versions of packages in this environment."""
        from importlib.metadata import version

        return {name: version(name) for name in packages}

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

    def operations(self) -> float:
        """The operations of a round of `EncoderAlone`."""
        return self.contestant.operations

    def peak_memory(self) -> int:
        return peak_memory()

    def cycle(self, texts: list[str]) -> None:
        """Set the texts that `zone` annotates repeatedly."""
        self.endless = cycle(texts)

    def zone(self, documents: int) -> int | None:
        """Annotate texts in a memory zone; return the resident size afterwards, in bytes."""
        from spacy_biomed.evaluation.pipeline_worker import resident_memory

        nlp = self.contestant.nlp
        with nlp.memory_zone():
            deque(nlp.pipe(islice(self.endless, documents)), maxlen=0)
        return resident_memory()

    def score(self, corpus: str) -> dict[str, float]:
        """Evaluate a pipeline on a .spacy file; return the scores with a weight in its config."""
        from spacy.training import Corpus

        from spacy_biomed.packaging.compression import weighted_scores

        nlp = self.contestant.nlp
        return weighted_scores(nlp, list(Corpus(corpus)(nlp)))


if __name__ == "__main__":
    # Imported from its file: environments of other libraries do not have this package.
    workers = REPOSITORY / "spacy_biomed" / "evaluation" / "workers.py"
    runpy.run_path(str(workers))["serve"](Process())
