"""Training that goes on where it was stopped, against spaCy's own that never was."""

import io
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import spacy
from spacy.language import Language
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as spacy_train
from stock_heads import needs_stock
from stopped_training import run
from thinc.api import Config

from spacy_biomed.files.outputs import MARKER
from spacy_biomed.pipeline.checksums import CHECKSUMS
from spacy_biomed.training import resumable
from spacy_biomed.training.checkpoint import Checkpoint
from spacy_biomed.training.config import fill_config

# spaCy's own head, a frozen component and schedules; Adam, which averages and steps PyTorch
# parameter by parameter.
STOCK = """
[nlp]
lang = "es"
pipeline = ["tok2vec","biomed_transformer","ner"]

[components]

[components.tok2vec]
source = "TRAINED"

[components.biomed_transformer]
factory = "biomed_transformer"

[components.biomed_transformer.model]
@architectures = "spacy_biomed.TransformerModel.v1"
name = ${vars.encoder}

[components.ner]
factory = "ner"
update_with_oracle_cut_size = 4

[components.ner.model]
@architectures = "spacy.TransitionBasedParser.v2"
state_type = "ner"
extra_state_tokens = false
hidden_width = 16
maxout_pieces = 2
use_upper = false

[components.ner.model.tok2vec]
@architectures = "spacy-transformers.TransformerListener.v1"
grad_factor = 1.0

[components.ner.model.tok2vec.pooling]
@layers = "reduce_mean.v1"

[training]
accumulate_gradient = 2
frozen_components = ["tok2vec"]
annotating_components = ["ner"]
max_epochs = 5
max_steps = 0
patience = 100
dropout = 0.3

[training.batcher]
@batchers = "spacy.batch_by_words.v1"
tolerance = 0.2
discard_oversize = false

[training.batcher.size]
@schedules = "compounding.v1"
start = 12
stop = 60
compound = 1.05

[training.optimizer]
@optimizers = "Adam.v1"
use_averages = true

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
initial_rate = 0.002
warmup_steps = 2
total_steps = 40
"""

STREAMED = """
[training]
max_epochs = -1

[initialize]

[initialize.components]

[initialize.components.biomed_ner]
labels = ["C","D"]
"""

WORD_PIECES = """
[training]

[training.batcher]
@batchers = "spacy_biomed.batch_by_word_pieces.v1"
encoder = ${vars.encoder}
size = 60
buckets = 3
discard_oversize = false
"""

PAPER = """
[corpora]

[corpora.train]
max_words = 5

[training]

[training.batcher]
@batchers = "spacy_biomed.batch_by_sequences.v1"
encoder = ${vars.encoder}
size = 6
window = 64
context = 8

[training.optimizer]
@optimizers = "spacy_biomed.Adamax.v1"
use_averages = true
clip_together = true

[training.optimizer.learn_rate]
@schedules = "warmup_linear.v1"
initial_rate = 0.002
warmup_steps = 2
total_steps = 40
"""

CONFIGS = {
    "ours": "",
    "stock": STOCK,
    "streamed": STREAMED,
    "word pieces": WORD_PIECES,
    "paper": PAPER,
}
NAMES = [pytest.param(name, marks=needs_stock if name == "stock" else ()) for name in CONFIGS]


@pytest.fixture(scope="module")
def encoder(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny encoder with dropout, so that PyTorch's generator matters."""
    path = tmp_path_factory.mktemp("encoders") / "dropout"
    path.mkdir()
    for file in tiny_bert.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    config = json.loads((path / "config.json").read_text())
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.1
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pipeline to take `tok2vec` from."""
    path = tmp_path_factory.mktemp("trained") / "pipeline"
    nlp = spacy.blank("es")
    nlp.add_pipe("tok2vec")
    nlp.initialize()
    nlp.to_disk(path)
    return path


@pytest.fixture
def make_config(converted: Path, encoder: Path, trained: Path) -> Callable[..., Config]:
    """A config of 17 steps, evaluated every fourth, with some of its settings replaced."""

    def make(changes: str = "", **settings) -> Config:
        config = fill_config(converted, encoder=str(encoder), epochs=1)
        config["vars"].update(max_steps=17, eval_frequency=4, warmup_steps=3, batch_words=30)
        config["vars"]["learn_rate"] = 0.005
        # Which reads many terms for each new pipeline, and learns nothing.
        config["nlp"]["pipeline"].remove("biomed_context")
        del config["components"]["biomed_context"]
        replaced = Config().from_str(changes.replace("TRAINED", str(trained)), interpolate=False)
        if "components" in replaced:
            del config["components"]
        for name in replaced.get("training", ()):
            config["training"].pop(name, None)
        config = config.merge(replaced)
        config["training"].update(settings)
        return config

    return make


def init(config: Config) -> Language:
    return init_nlp(config.copy())


def run_spacy(config: Config, output: Path) -> str:
    stdout = io.StringIO()
    output.mkdir()
    spacy_train(init(config), output, stdout=stdout)
    return stdout.getvalue()


def rows(printed: str) -> list[list[str]]:
    """The rows of the evaluations: epoch, step, losses, scores; not speed and time."""
    lines = [line.split() for line in printed.splitlines() if line[:3].strip().isdigit()]
    return [line[:-2] for line in lines]


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (MARKER, CHECKSUMS)
    }


def assert_same_pipelines(one: Path, other: Path) -> None:
    """Same files with the same bytes, in model-best and model-last, and nothing else."""
    left, right = files(one), files(other)
    assert {path.split("/")[0] for path in left} == {"model-best", "model-last"}
    assert left.keys() == right.keys()
    assert [path for path in left if left[path] != right[path]] == []


@pytest.mark.slow(least=3)
@pytest.mark.parametrize("name", NAMES)
def test_it_trains_as_spacy_does(make_config, tmp_path, name):
    config = make_config(CONFIGS[name])
    expected = run_spacy(config, tmp_path / "spacy")
    assert len(rows(expected)) > 3
    assert rows(run(config, tmp_path / "ours")) == rows(expected)
    assert_same_pipelines(tmp_path / "ours", tmp_path / "spacy")


@pytest.mark.slow(least=2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("updates", [2, 16])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(make_config, tmp_path, name, updates):
    config = make_config(CONFIGS[name])
    expected = run_spacy(config, tmp_path / "spacy")
    updates *= config["training"]["accumulate_gradient"]
    before = rows(run(config, tmp_path / "ours", stop_after=updates))
    after = rows(run(config, tmp_path / "ours"))
    assert before and after
    assert before + after == rows(expected)
    assert_same_pipelines(tmp_path / "ours", tmp_path / "spacy")


@pytest.mark.parametrize(
    ("train", "settings"), [(run_spacy, {}), (run, {}), (run, {"before_to_disk": None})]
)
def test_no_words_of_the_training_texts_are_saved(make_config, tmp_path, train, settings):
    train(make_config(max_steps=1, **settings), tmp_path / "output")
    for name in ("model-best", "model-last"):
        nlp = spacy.load(tmp_path / "output" / name)
        strings = json.loads((tmp_path / "output" / name / "vocab" / "strings.json").read_text())
        assert strings == sorted(nlp.get_pipe("biomed_ner").labels)


@pytest.mark.slow
def test_a_run_may_be_stopped_again_and_again(make_config, tmp_path):
    config = make_config()
    expected = run_spacy(config, tmp_path / "spacy")
    printed = [rows(run(config, tmp_path / "ours", stop_after=updates)) for updates in (2, 6, 9)]
    printed.append(rows(run(config, tmp_path / "ours")))
    assert sum(printed, []) == rows(expected)
    assert_same_pipelines(tmp_path / "ours", tmp_path / "spacy")


def test_a_run_that_was_stopped_after_its_last_evaluation_is_only_finished(
    make_config, tmp_path, monkeypatch
):
    write = Checkpoint.write

    def write_and_keep(checkpoint, path):
        write(checkpoint, path)
        shutil.copytree(path.parent, tmp_path / "kept", dirs_exist_ok=True)

    monkeypatch.setattr(Checkpoint, "write", write_and_keep)
    config = make_config(max_steps=16)
    expected = rows(run(config, tmp_path / "ours"))
    assert expected[-1][1] == "16"
    shutil.copytree(tmp_path / "ours", tmp_path / "finished")
    shutil.rmtree(tmp_path / "ours" / "model-last")
    shutil.copytree(tmp_path / "kept", tmp_path / "ours" / "checkpoint")
    assert rows(run(config, tmp_path / "ours")) == []
    assert_same_pipelines(tmp_path / "ours", tmp_path / "finished")


def test_patience_counts_on(make_config, tmp_path):
    config = make_config(patience=5)
    config["training"]["optimizer"]["learn_rate"] = 0.0  # no evaluation is better than the first
    expected = run_spacy(config, tmp_path / "spacy")
    assert rows(expected)[-1][1] == "4"
    run(config, tmp_path / "ours", stop_after=5)
    assert rows(run(config, tmp_path / "ours")) == []
    assert_same_pipelines(tmp_path / "ours", tmp_path / "spacy")


@pytest.mark.slow
def test_the_first_step_is_not_evaluated_where_that_is_not_wanted(make_config, tmp_path):
    config = make_config()
    expected = rows(run(config, tmp_path / "with"))
    assert [row[1] for row in expected] == ["0", "4", "8", "12", "16"]
    found = rows(run(config, tmp_path / "without", evaluate_first=False))
    # The losses are summed from one evaluation to the next.
    assert [[row[1], *row[4:]] for row in found] == [[row[1], *row[4:]] for row in expected[1:]]
    for name in ("model-best", "model-last"):
        with_, without = (files(tmp_path / one / name) for one in ("with", "without"))
        assert [path for path in with_ if with_[path] != without[path]] in ([], ["meta.json"])


@pytest.mark.slow
def test_a_run_without_a_first_evaluation_is_continued(make_config, tmp_path):
    config = make_config()
    settings = {"evaluate_first": False}
    expected = rows(run(config, tmp_path / "whole", **settings))
    before = rows(run(config, tmp_path / "ours", stop_after=10, **settings))
    after = rows(run(config, tmp_path / "ours", **settings))
    assert [row[1] for row in before] == ["4", "8"] and before + after == expected
    assert_same_pipelines(tmp_path / "ours", tmp_path / "whole")


def test_patience_is_counted_from_the_best_evaluated_step(make_config, tmp_path):
    config = make_config(patience=5)
    config["training"]["optimizer"]["learn_rate"] = 0.0  # no evaluation is better than the first
    printed = rows(run(config, tmp_path / "ours", evaluate_first=False))
    assert [row[1] for row in printed] == ["4", "8"]  # 9 is 5 steps later


@pytest.mark.parametrize("settings", [{"max_steps": 3}, {"max_epochs": 1}, {"max_steps": 0}])
def test_the_first_step_is_evaluated_if_it_could_be_the_only_one(make_config, tmp_path, settings):
    config = make_config(**{"max_epochs": 1, **settings})
    printed = rows(run(config, tmp_path / "ours", evaluate_first=False))
    assert printed[0][1] == "0" and (tmp_path / "ours" / "model-best").is_dir()


def test_before_update_is_called_for_every_step_of_a_resumed_run(make_config, tmp_path):
    calls = []

    def create():
        return lambda nlp, place: calls.append((place["step"], place["epoch"]))

    spacy.registry.callbacks("record_steps.v1", func=create)
    callback = {"@callbacks": "record_steps.v1"}
    config = make_config(before_update=callback, max_steps=4, eval_frequency=2)
    run_spacy(config, tmp_path / "spacy")
    expected = calls.copy()
    assert [step for step, _ in expected] == [0, 1, 2, 3, 4]
    run(config, tmp_path / "ours", stop_after=4)
    calls.clear()
    run(config, tmp_path / "ours")
    assert calls == expected


@pytest.mark.slow
def test_the_words_and_seconds_go_on(make_config, tmp_path):
    logger = {"@loggers": "spacy_biomed.RichLogger.v1", "jsonl": str(tmp_path / "rows.jsonl")}
    config = make_config(logger=logger)

    def read() -> list[dict]:
        return [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]

    run(config, tmp_path / "whole")
    expected = read()
    run(config, tmp_path / "ours", stop_after=11)
    run(config, tmp_path / "ours")
    for name in ("epoch", "step", "words", "losses", "score"):
        assert [row[name] for row in read()] == [row[name] for row in expected]
    seconds = [row["seconds"] for row in read()]
    assert seconds == sorted(seconds)


def test_the_seconds_before_a_stop_count(make_config, tmp_path, monkeypatch):
    # A second for each evaluation; those at the steps 0 and 4 are before the stop.
    monkeypatch.setattr(resumable, "timer", itertools.count().__next__)
    config = make_config(max_steps=8)
    run(config, tmp_path / "ours", stop_after=7)
    nlp = init_nlp(config.copy())
    assert resumable.train(nlp, tmp_path / "ours", stdout=io.StringIO()) == 3


@pytest.mark.slow
def test_a_checkpoint_is_removed_when_training_is_done_and_then_a_run_begins_anew(
    make_config, tmp_path
):
    config = make_config()
    first = rows(run(config, tmp_path / "ours"))
    assert not (tmp_path / "ours" / "checkpoint").exists()
    assert rows(run(config, tmp_path / "ours")) == first


@pytest.fixture
def stopped(make_config, tmp_path) -> tuple[Config, Path]:
    """A config, and the output of a run of it that was stopped after its second evaluation."""
    config = make_config()
    run(config, tmp_path / "ours", stop_after=7)
    return config, tmp_path / "ours"


def test_a_checkpoint_of_another_config_is_not_continued(stopped):
    config, output = stopped
    config["training"]["dropout"] = 0.2
    printed = run(config, output)
    line = f"{output}/checkpoint is not continued: the config changed since; training starts"
    assert line in " ".join(printed.split())
    assert rows(printed)[0][1] == "0"


@pytest.mark.slow
def test_a_checkpoint_of_another_corpus_is_not_continued(stopped, converted, tmp_path):
    config, output = stopped
    train_part = converted / "train.spacy"
    original = train_part.read_bytes()
    try:
        shutil.copy(converted / "dev.spacy", train_part)
        printed = run(config, output)
    finally:
        train_part.write_bytes(original)
    assert f"{train_part} changed since" in " ".join(printed.split())
    assert rows(printed)[0][1] == "0"


def test_a_run_is_continued_under_another_logger(stopped):
    config, output = stopped
    config["training"]["logger"] = {"@loggers": "spacy_biomed.RichLogger.v1"}
    printed = run(config, output)
    assert "Continuing after step 4" in printed
    assert rows(printed)[0][1] == "8"


def test_a_damaged_checkpoint_is_not_continued(stopped):
    config, output = stopped
    file = output / "checkpoint" / "training.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    printed = run(config, output)
    assert "not a readable checkpoint" in printed
    assert rows(printed)[0][1] == "0"


def test_without_its_best_pipeline_a_run_is_not_continued(stopped):
    config, output = stopped
    shutil.rmtree(output / "model-best")
    printed = run(config, output)
    assert "the model-best of its run is gone" in " ".join(printed.split())
    assert rows(printed)[0][1] == "0"


def test_a_run_that_was_killed_while_it_replaced_its_best_pipeline_is_continued(stopped):
    config, output = stopped
    (output / "model-best").rename(output / ".model-best.0123abcd.partial")
    assert rows(run(config, output))[0][1] == "8"
    assert sorted(path.name for path in output.iterdir()) == ["model-best", "model-last"]


@pytest.mark.slow
def test_a_run_is_not_continued_where_that_is_not_wanted(stopped):
    config, output = stopped
    assert rows(run(config, output, resume=False))[0][1] == "0"


def test_a_failure_while_going_back_leaves_pipelines_and_checkpoint_alone(stopped, monkeypatch):
    config, output = stopped
    before = files(output)

    def fail(*args):
        raise RuntimeError("stopped")

    monkeypatch.setattr(Checkpoint, "restore", fail)
    with pytest.raises(RuntimeError, match="stopped"):
        run(config, output)
    assert files(output) == before
