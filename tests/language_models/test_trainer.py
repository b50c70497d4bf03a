"""The loss and its micro-batches, the trainer's arguments, and checkpoints."""

import math
import os

import numpy as np
import pytest
import torch
from pretraining_recipes import make_recipe
from small_encoders import SMALL
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForMaskedLM, MobileBertConfig
from transformers.utils import logging

from spacy_biomed.encoders.loading import load_tokenizer
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.batches import Masking
from spacy_biomed.language_models.initialization import create_config, create_language_model
from spacy_biomed.language_models.packed_sequences import prepare_text
from spacy_biomed.language_models.recipe import FreshEncoder
from spacy_biomed.language_models.trainer import (
    COMPLETE,
    MaskedLanguageModelTrainer,
    RowSelection,
    check_arguments,
    choose_device_batch,
    find_checkpoints,
    keep_in_bf16,
    training_arguments,
)

CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def quiet():
    """Hide warnings of transformers that the small encoders have no head."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(verbosity)


@pytest.fixture
def make_trainer(tmp_path, tiny_bert):
    tokenizer = load_tokenizer(str(tiny_bert))

    def make(dropout=0.0, **settings):
        recipe = make_recipe(tmp_path, **settings)
        texts = prepare_text(recipe, tokenizer, tmp_path / "text")
        shape = {"layers": 2, "width": 16, "heads": 2, "feed_forward": 32, "dropout": dropout}
        config = create_config(tokenizer, FreshEncoder(type="bert", **shape))
        model = create_language_model(config, seed=0, on_cpu=True)
        return MaskedLanguageModelTrainer(model, recipe, tokenizer, *texts)

    return make


def make_batch(tokenizer, lengths=(9, 20, 3)):
    """A padded masked batch of tensors, and the labels in transformers' format."""
    from spacy_biomed.language_models.packed_sequences import Sequence

    draw = np.random.default_rng(0)
    size = tokenizer.tokenizer.get_vocab_size()
    sequences = [Sequence(draw.integers(10, size - 1, n), np.ones(n, dtype=bool)) for n in lengths]
    masked = Masking(tokenizer, probability=0.3)(sequences, np.arange(len(lengths)))
    batch = {name: torch.from_numpy(values) for name, values in masked.items()}
    labels = torch.full_like(batch["input_ids"], -100)
    labels.view(-1)[batch["positions"]] = batch["labels"]
    return batch, labels


def gradients(model):
    return {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.fixture(params=["bert", "roberta", "distilbert", "mobilebert"])
def model_and_tokenizer(request, tiny_bert):
    name = "tiny_bert" if request.param == "mobilebert" else f"tiny_{request.param}"
    path = request.getfixturevalue(name)
    tokenizer = load_tokenizer(str(path))
    config = AutoConfig.from_pretrained(path)
    if request.param == "mobilebert":
        config = MobileBertConfig(
            vocab_size=tokenizer.tokenizer.get_vocab_size(),
            **SMALL,
            embedding_size=8,
            intra_bottleneck_size=8,
        )
    torch.manual_seed(4)
    model = AutoModelForMaskedLM.from_config(config)
    for parameter in model.parameters():  # so that biases and normalisations are not trivial
        parameter.data += 0.05 * torch.randn_like(parameter)
    return model.eval(), tokenizer


def test_loss_and_gradient_are_those_of_transformers_own_model(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    batch, labels = make_batch(tokenizer)
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    expected = model(**inputs, labels=labels).loss
    expected.backward()
    own = gradients(model)
    model.zero_grad()
    rows = RowSelection(model)
    with rows(batch["positions"]):
        logits = model(**inputs).logits
    assert logits.shape[0] == len(batch["labels"])
    loss = cross_entropy(logits, batch["labels"])
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), abs=1e-5)
    assert own.keys() == gradients(model).keys()
    for name, gradient in gradients(model).items():
        assert torch.allclose(gradient, own[name], atol=1e-5), name


def test_outside_of_the_selection_logits_are_of_all_positions(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    batch, _ = make_batch(tokenizer)
    rows = RowSelection(model)
    with rows(batch["positions"]):
        few = model(batch["input_ids"], batch["attention_mask"], output_hidden_states=True)
    every = model(batch["input_ids"], batch["attention_mask"], output_hidden_states=True)
    assert every.logits.shape[:2] == batch["input_ids"].shape
    chosen = every.logits.flatten(0, 1)[batch["positions"]]
    assert torch.allclose(few.logits, chosen, atol=1e-5)
    for mine, other in zip(few.hidden_states, every.hidden_states, strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


def first_gradient(trainer):
    """The loss of the first step, and the gradient for the optimizer."""
    trainer.create_optimizer_and_scheduler(num_training_steps=1)
    batches = iter(trainer.get_train_dataloader())
    micro_batches, count = trainer.get_batch_samples(
        batches, trainer.args.gradient_accumulation_steps, CPU
    )
    loss = sum(trainer.training_step(trainer.model, one, count) for one in micro_batches)
    return loss.item(), micro_batches, gradients(trainer.model)


def test_logits_have_few_sizes_and_what_fills_them_up_does_not_count(make_trainer):
    trainer = make_trainer(training__batch=8, training__device_batch=2)
    trainer.model.eval()
    sizes = []
    trainer.model.register_forward_hook(
        lambda module, args, output: sizes.append(len(output.logits))
    )
    with torch.no_grad():
        for batch in trainer.get_train_dataloader():
            loss = trainer.prediction_loss(trainer.model, batch)
            with trainer.rows(batch["positions"]):
                logits = trainer.model(batch["input_ids"], batch["attention_mask"]).logits
            expected = cross_entropy(logits, batch["labels"]).item()
            assert loss.item() == pytest.approx(expected, abs=1e-6)
    assert set(sizes[::2]) == {128}
    assert len(set(sizes[1::2])) > 1


def test_the_loss_of_a_step_is_the_mean_over_all_its_predicted_pieces(make_trainer):
    settings = {"packing__across_documents": False, "training__batch": 8}
    trainer = make_trainer(**settings, training__device_batch=2)
    loss, micro_batches, own = first_gradient(trainer)
    counts = [len(one["labels"]) for one in micro_batches]
    assert len(set(counts)) > 1
    trainer.model.eval()
    with torch.no_grad():
        means = [trainer.prediction_loss(trainer.model, one).item() for one in micro_batches]
    expected = np.average(means, weights=counts)
    assert loss == pytest.approx(expected, abs=1e-5)
    assert abs(loss - np.mean(means)) > 1e-4
    at_once, _, others = first_gradient(make_trainer(**settings, training__device_batch=8))
    assert at_once == pytest.approx(loss, abs=1e-5)
    for name, gradient in own.items():
        assert torch.allclose(gradient, others[name], atol=1e-6), name


def test_dropout_hangs_on_the_micro_batch_alone(make_trainer):
    trainer = make_trainer(dropout=0.5)
    batch = trainer.batches[1]
    inputs = {k: torch.from_numpy(v) if k != "seed" else v for k, v in batch.items()}
    count = torch.tensor(len(batch["labels"]))
    trainer.create_optimizer_and_scheduler(num_training_steps=1)
    first = trainer.training_step(trainer.model, dict(inputs), count)
    torch.rand(100)
    assert trainer.training_step(trainer.model, dict(inputs), count) == first
    assert trainer.training_step(trainer.model, {**inputs, "seed": 9}, count) != first


def test_validation_is_the_mean_over_all_its_predicted_pieces(make_trainer):
    trainer = make_trainer(packing__across_documents=False, training__device_batch=4)
    metrics = trainer.evaluate()
    total = count = 0.0
    trainer.model.eval()
    for item in range(len(trainer.eval_dataset)):
        batch = {k: torch.from_numpy(v) for k, v in trainer.eval_dataset[item].items()}
        with torch.no_grad():
            logits = trainer.model(batch["input_ids"], batch["attention_mask"]).logits
        chosen = logits.flatten(0, 1)[batch["positions"]]
        total += torch.nn.functional.cross_entropy(chosen, batch["labels"], reduction="sum").item()
        count += len(batch["labels"])
    assert metrics["eval_loss"] == pytest.approx(total / count, abs=1e-5)
    assert metrics["eval_perplexity"] == pytest.approx(math.exp(total / count), rel=1e-5)


def test_validation_does_not_hang_on_dropout(make_trainer):
    trainer = make_trainer(dropout=0.5)
    assert trainer.evaluate()["eval_loss"] == trainer.evaluate()["eval_loss"]


def test_in_bf16_the_loss_is_close_and_gradients_are_in_fp32(model_and_tokenizer):
    model, tokenizer = model_and_tokenizer
    batch, _ = make_batch(tokenizer)
    rows = RowSelection(model)

    def compute():
        with rows(batch["positions"]):
            output = model(batch["input_ids"], batch["attention_mask"], output_hidden_states=True)
        return output.hidden_states, cross_entropy(output.logits.float(), batch["labels"])

    _, expected = compute()
    keep_in_bf16(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        hidden, loss = compute()
    if model.config.model_type != "mobilebert":  # its normalisation is only a product
        assert {one.dtype for one in hidden} == {torch.bfloat16}
    loss.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=0.01)
    assert {gradient.dtype for gradient in gradients(model).values()} == {torch.float32}


def test_the_recipe_decides_the_optimizer_and_the_schedule(make_trainer):
    trainer = make_trainer(
        training__steps=20,
        training__warmup=0.25,
        training__learning_rate=0.02,
        training__weight_decay=0.1,
        training__beta1=0.8,
        training__beta2=0.9,
        training__epsilon=1e-5,
    )
    trainer.create_optimizer_and_scheduler(num_training_steps=20)
    decayed, others = trainer.optimizer.param_groups
    assert isinstance(trainer.optimizer, torch.optim.AdamW)
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert (decayed["betas"], decayed["eps"]) == ((0.8, 0.9), 1e-5)
    assert min(parameter.ndim for parameter in decayed["params"]) == 2
    assert max(parameter.ndim for parameter in others["params"]) == 1
    rates = []
    for _ in range(20):
        rates.append(trainer.lr_scheduler.get_last_lr()[0])
        trainer.optimizer.step()
        trainer.lr_scheduler.step()
    expected = [0.02 * min(step / 5, (20 - step) / 15) for step in range(20)]
    assert rates == pytest.approx(expected)


@pytest.mark.parametrize(
    ("batch", "wanted", "length", "processes", "expected"),
    [
        (64, 16, 128, 2, 16),
        (64, None, 128, 1, 32),  # 4,096 pieces
        (60, None, 128, 1, 30),
        (64, None, 128, 4, 16),
        (8192, None, 512, 8, 8),
        (6, None, 8000, 1, 1),
    ],
)
def test_the_device_batch_divides_the_step(tmp_path, batch, wanted, length, processes, expected):
    recipe = make_recipe(
        tmp_path,
        training__batch=batch,
        training__device_batch=wanted,
        packing__length=length,
        encoder__positions=8000,
    )
    assert choose_device_batch(recipe, CPU, processes) == expected


@pytest.mark.parametrize(
    ("settings", "processes", "message"),
    [
        ({"training__batch": 9}, 2, r"cfg:\d+: training.device_batch: 9 sequences of a"),
        (
            {"training__batch": 9, "training__device_batch": None},
            2,
            r"cfg:\d+: training.batch: 9 sequences of a step cannot be spread evenly",
        ),
        (
            {"training__device_batch": 3},
            1,
            r"cfg:\d+: training.device_batch: 8 sequences of a step",
        ),
    ],
)
def test_a_batch_that_cannot_be_dealt_out_is_refused(tmp_path, settings, processes, message):
    with pytest.raises(BiomedError, match=message):
        choose_device_batch(make_recipe(tmp_path, **settings), CPU, processes)


def test_arguments_of_the_recipe_reach_transformers(tmp_path):
    recipe = make_recipe(
        tmp_path,
        training__arguments__gradient_checkpointing=True,
        training__arguments__dataloader_num_workers=3,
        training__arguments__accelerator_config={"non_blocking": True},
    )
    args = training_arguments(recipe, steps=6)
    assert args.gradient_checkpointing
    assert args.dataloader_num_workers == 3
    assert args.accelerator_config.non_blocking
    assert args.max_steps == 6


def test_the_number_format_is_that_of_the_recipe_and_the_environment_stays(
    make_trainer, monkeypatch
):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    assert make_trainer(training__precision="bf16").accelerator.mixed_precision == "bf16"
    assert make_trainer(training__precision="fp32").accelerator.mixed_precision == "no"
    assert os.environ["ACCELERATE_MIXED_PRECISION"] == "fp16"


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("gradient_chekpointing", True, "no argument.*did you mean gradient_checkpointing"),
        ("learning_rate", 1.0, "follows from other settings"),
        ("bf16", True, "follows from other settings"),
        ("optim", "adamm", "transformers refuses them"),
    ],
)
def test_arguments_that_are_wrong_are_refused_with_their_line(tmp_path, argument, value, message):
    recipe = make_recipe(tmp_path, **{f"training__arguments__{argument}": value})
    with pytest.raises(BiomedError, match=rf"recipe.cfg:\d+: training.arguments.*{message}"):
        check_arguments(recipe)
        training_arguments(recipe, steps=6)


def test_only_checkpoints_that_are_complete_count(tmp_path):
    for step in (3, 20, 100):
        (tmp_path / f"checkpoint-{step}").mkdir()
    assert find_checkpoints(tmp_path) == {}
    for step in (3, 20):
        (tmp_path / f"checkpoint-{step}" / COMPLETE).touch()
    assert find_checkpoints(tmp_path) == {n: tmp_path / f"checkpoint-{n}" for n in (3, 20)}


def test_weights_of_the_best_and_the_last_evaluation_are_kept(make_trainer, monkeypatch):
    trainer = make_trainer(training__steps=8, training__evaluate_every=2)
    losses = iter([5.0, 3.0, 4.0, 6.0])
    measure = trainer.evaluate

    def evaluate(*args, **settings):
        return {**measure(*args, **settings), "eval_loss": next(losses)}

    monkeypatch.setattr(trainer, "evaluate", evaluate)
    trainer.run()
    assert trainer.best_checkpoint.name == "checkpoint-4"
    kept = {path.name for path in trainer.best_checkpoint.parent.iterdir()}
    assert kept == {"checkpoint-4", "checkpoint-8"}
    assert trainer.state.best_metric == 3.0


def test_memory_that_is_too_small_is_told_with_the_setting(make_trainer, monkeypatch):
    trainer = make_trainer()

    def run_out(*args, **settings):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(trainer, "prediction_loss", run_out)
    with pytest.raises(BiomedError, match=r"recipe.cfg:\d+: training.device_batch: 4 sequences"):
        trainer.run()


def test_a_loss_that_is_no_number_is_told_with_the_setting(make_trainer, monkeypatch):
    trainer = make_trainer()
    monkeypatch.setattr(
        trainer, "prediction_loss", lambda *args: torch.tensor(math.nan, requires_grad=True)
    )
    message = r"recipe.cfg:\d+: training.learning_rate: the loss on .* not finite at step 3; lower"
    with pytest.raises(BiomedError, match=message):
        trainer.run()


def test_a_step_that_is_no_multiple_is_evaluated_if_it_is_the_last(make_trainer):
    trainer = make_trainer(training__steps=5, training__evaluate_every=3)
    trainer.run()
    steps = [row["step"] for row in trainer.state.log_history if "eval_loss" in row]
    assert steps == [3, 5]
