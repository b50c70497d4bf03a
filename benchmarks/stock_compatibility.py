"""Compare the F1 of spaCy's `ner` with our encoder component and with spacy-transformers'.

It trains a config twice, the second time with spacy-transformers' `transformer` instead of
`biomed_transformer`, and prints both test scores:

    python benchmarks/stock_compatibility.py corpus/ncbi_disease ENCODER_DIRECTORY --steps 500
"""

import argparse
import json
import time
from pathlib import Path

from contestants import stock_config
from spacy.training import Corpus
from spacy.training.initialize import init_nlp
from spacy.training.loop import train
from spacy.util import load_model
from thinc.api import Config

from spacy_biomed.pipeline.ner import score_mentions

TRAINING = """
[paths]
train = null
dev = null

[system]
gpu_allocator = null
seed = 0

[corpora]

[corpora.train]
@readers = "spacy.Corpus.v1"
path = ${paths.train}

[corpora.dev]
@readers = "spacy.Corpus.v1"
path = ${paths.dev}

[training]
seed = ${system.seed}
gpu_allocator = ${system.gpu_allocator}
dropout = 0.1
patience = 0
max_steps = 0
eval_frequency = 250

[training.batcher]
@batchers = "spacy.batch_by_sequence.v1"
size = 32

[training.optimizer]
@optimizers = "Adam.v1"
L2 = 0.01
use_averages = false

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
initial_rate = 0.0002
warmup_steps = 50
total_steps = 0

[training.score_weights]
ents_f = 1.0
"""

OURS, STOCK = "spacy-biomed", "spacy-transformers"


def create_config(which: str, corpus: Path, encoder: str, steps: int, seed: int) -> Config:
    config = stock_config(encoder, "en").merge(Config().from_str(TRAINING, interpolate=False))
    config["nlp"]["tokenizer"] = {"@tokenizers": "spacy_biomed.Tokenizer.v1"}
    if which == OURS:
        config["components"]["transformer"] = {
            "factory": "biomed_transformer",
            "model": {"@architectures": "spacy_biomed.TransformerModel.v1", "name": encoder},
        }
    config["paths"] = {"train": str(corpus / "train.spacy"), "dev": str(corpus / "dev.spacy")}
    config["system"]["seed"] = seed
    config["training"]["max_steps"] = steps
    config["training"]["optimizer"]["learn_rate"]["total_steps"] = steps
    return config


def measure(config: Config, corpus: Path, output: Path) -> dict[str, float]:
    """Train, and score the best pipeline on the test part."""
    output.mkdir(parents=True, exist_ok=True)
    nlp = init_nlp(config)
    start = time.perf_counter()
    train(nlp, output)
    seconds = time.perf_counter() - start
    nlp = load_model(output / "model-best")
    examples = list(Corpus(corpus / "test.spacy")(nlp))
    for example, doc in zip(examples, nlp.pipe(eg.predicted for eg in examples), strict=True):
        example.predicted = doc
    return {"test_f1": score_mentions(examples)["ents_f"], "training_seconds": seconds}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("encoder")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=32, help="documents in a batch")
    parser.add_argument("--only", choices=[OURS, STOCK], help="train only with this component")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--output", type=Path, default=Path("training/stock_compatibility"))
    args = parser.parse_args()
    print(f"{args.corpus}: {args.steps} steps of {args.batch_size} documents")
    results = []
    for seed in args.seeds:
        for which in [args.only] if args.only else [OURS, STOCK]:
            config = create_config(which, args.corpus, args.encoder, args.steps, seed)
            config["training"]["batcher"]["size"] = args.batch_size
            measured = measure(config, args.corpus, args.output / f"{which}-{seed}")
            results.append({"encoder component": which, "seed": seed, **measured})
            print(
                f"{which}, seed {seed}: test F1 {100 * measured['test_f1']:.2f}, "
                f"{measured['training_seconds']:.0f} s",
                flush=True,
            )
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "results.json").write_text(json.dumps(results, indent=2), encoding="utf8")


if __name__ == "__main__":
    main()
