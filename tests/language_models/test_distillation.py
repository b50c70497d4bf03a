"""Distillation from a tiny teacher, with every objective."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch
from accelerate import PartialState
from distillation_recipe import SENTENCES
from safetensors.torch import load_file, save_file
from small_encoders import SMALL
from transformers import (
    AlbertConfig,
    AutoModelForMaskedLM,
    AutoTokenizer,
    LongformerConfig,
    YosoConfig,
)

from spacy_biomed.encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from spacy_biomed.encoders.loading import save_encoder
from spacy_biomed.encoders.torch.dropout import ByteDropout
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.distillation import (
    DistillationTrainer,
    distill,
    prepare_models,
    show_attention,
)
from spacy_biomed.language_models.initialization import create_config, create_language_model
from spacy_biomed.language_models.objectives import OBJECTIVES, Needs, Outputs
from spacy_biomed.language_models.packed_sequences import prepare_text
from spacy_biomed.language_models.recipe import DistillationRecipe, FreshEncoder
from spacy_biomed.language_models.trainer import RowSelection
from spacy_biomed.language_models.vocabulary import learn_word_pieces

SAME_WIDTH = {"layers": 2}
NARROW = {"layers": 2, "width": 8, "heads": 2}


@pytest.fixture(scope="module")
def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer(learn_word_pieces(SENTENCES * 2, 120), 0)


def make_model(tokenizer, seed=0, type="bert", **sizes):
    shape = {"layers": 4, "width": 16, "heads": 2, "feed_forward": 32, "positions": 64, **sizes}
    config = create_config(tokenizer, FreshEncoder(type=type, **shape))
    return create_language_model(config, seed=seed)


@pytest.fixture(scope="module")
def teacher(tmp_path_factory, tokenizer) -> Path:
    """An encoder directory with a head whose distributions are far from uniform."""
    path = tmp_path_factory.mktemp("encoders") / "tiny-teacher"
    path.mkdir()
    model = make_model(tokenizer)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.mul_(10)
    save_encoder(path, tokenizer, model)
    return path


TRAINING = {
    "batch": 8,
    "device_batch": 4,
    "steps": 8,
    "learning_rate": 0.03,
    "evaluate_every": 4,
    "precision": "fp32",
    "arguments": {"use_cpu": True},
}


@pytest.fixture(scope="module")
def make_recipe(text, teacher, tmp_path_factory):
    """Create recipes with separate output directories."""

    def make(objective: str = "compact", student=NARROW, settings=None, **sections):
        output = tmp_path_factory.mktemp("runs") / "student"
        return DistillationRecipe.model_validate(
            {
                "text": {"paths": str(text), "validation": 4},
                "teacher": {"name": str(teacher)},
                "student": student,
                "objective": {"name": objective, **(settings or {})},
                "packing": {"length": 32, "across_documents": False},
                **sections,
                "training": TRAINING | sections.get("training", {}),
                "output": {"directory": str(output), **sections.get("output", {})},
            }
        )

    return make


@pytest.fixture(scope="module")
def run(make_recipe):
    """Run recipes, once for each objective; return the recipe and its report."""
    runs = {}

    def run(name: str):
        if name not in runs:
            recipe = make_recipe(name)
            runs[name] = recipe, distill(recipe)
        return runs[name]

    return run


@pytest.fixture
def make_trainer(tmp_path):
    """The trainer of a recipe, and its tokenizer."""

    def make(recipe) -> DistillationTrainer:
        tokenizer, student, teacher, objective = prepare_models(recipe, PartialState(cpu=True))
        texts = prepare_text(recipe, tokenizer, tmp_path / "packed")
        return DistillationTrainer(student, teacher, objective, recipe, tokenizer, *texts)

    return make


def read_batch(trainer) -> dict[str, torch.Tensor]:
    """The first micro-batch, as if it were the whole step."""
    inputs = {key: torch.as_tensor(value) for key, value in trainer.batches[0].items()}
    lengths = inputs["attention_mask"].sum(dim=1)
    return {**inputs, "whole": torch.stack([lengths.sum(), lengths.square().sum()])}


def compute_loss(trainer, inputs) -> torch.Tensor:
    return trainer.micro_batch_loss(trainer.model, inputs, torch.tensor(1.0))


def rows(directory: Path) -> list[dict]:
    lines = (directory / "log.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "loss" in row]


def refuse(recipe) -> str:
    with pytest.raises(BiomedError) as raised:
        distill(recipe)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def whole_outputs(model, inputs, positions) -> Outputs:
    """All outputs of a model for a batch; logits are computed everywhere and selected then."""
    output = model(
        inputs["input_ids"],
        inputs["attention_mask"],
        output_hidden_states=True,
        output_attentions=True,
    )
    logits = output.logits.flatten(0, 1)[positions]
    return Outputs(output.hidden_states, output.attentions, logits)


# --- The loss ---


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_trainers_loss_is_the_objective_of_the_models_outputs(make_recipe, make_trainer, name):
    trainer = make_trainer(make_recipe(name))
    inputs = read_batch(trainer)
    attended = inputs["attention_mask"].bool()
    assert not attended.all()  # the batch has padding
    trainer.model.eval()
    loss = compute_loss(trainer, inputs)

    positions = inputs["positions"]
    if name == "tinybert":
        positions = attended.flatten().nonzero().squeeze(1)
    with torch.no_grad():
        student, teacher = (
            whole_outputs(model, inputs, positions) for model in (trainer.model, trainer.teacher)
        )
        expected, _ = trainer.objective(student, teacher, attended, inputs["labels"])
    assert loss.requires_grad
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-5, atol=1e-6)


def test_gradients_go_to_the_student_and_the_projections_alone(make_recipe, make_trainer):
    trainer = make_trainer(make_recipe("tinybert"))
    compute_loss(trainer, read_batch(trainer)).backward()
    assert all(parameter.grad is None for parameter in trainer.teacher.parameters())
    without = {n for n, p in trainer.model.named_parameters() if p.grad is None or not p.grad.any()}
    # There are no pairs of texts, and a constant shift of all keys does not change attention.
    assert all("token_type" in name or "key.bias" in name for name in without)
    assert trainer.objective.project.weight.grad.any()


def test_the_teacher_computes_without_dropout(make_recipe, make_trainer):
    trainer = make_trainer(make_recipe("distilbert", settings={"mlm_weight": 0}))
    inputs = read_batch(trainer)
    assert trainer.teacher.config.hidden_dropout_prob > 0
    trainer.model.eval()
    first, second = (compute_loss(trainer, inputs).item() for _ in range(2))
    assert first == second


def test_in_half_precision_the_loss_is_nearly_the_same(make_recipe, make_trainer):
    losses = []
    for precision in ("fp32", "bf16"):
        recipe = make_recipe("compact", training={"precision": precision})
        trainer = make_trainer(recipe)
        trainer.model.eval()
        with trainer.compute_loss_context_manager():
            losses.append(compute_loss(trainer, read_batch(trainer)).item())
    assert trainer.teacher.dtype == torch.bfloat16
    assert losses[1] == pytest.approx(losses[0], rel=0.02)
    assert losses[1] != losses[0]


@pytest.mark.parametrize("hidden_states", ["last", "all"])
def test_a_view_keeps_what_is_needed_and_no_more(tokenizer, hidden_states):
    model = make_model(tokenizer).eval()
    view = RowSelection(model, Needs("masked", hidden_states=hidden_states))
    ids = torch.tensor([[2, 7, 8, 3], [2, 9, 3, 0]])
    with torch.no_grad(), view(torch.tensor([1, 5])):
        output = model(ids, attention_mask=(ids != 0).long(), **view.arguments)
    seen = view.outputs(output.logits)
    with torch.no_grad():
        plain = model(ids, attention_mask=(ids != 0).long(), output_hidden_states=True)
    assert (output.hidden_states, output.attentions) == (None, None)
    torch.testing.assert_close(seen.logits, plain.logits.flatten(0, 1)[[1, 5]])
    expected = plain.hidden_states if hidden_states == "all" else plain.hidden_states[-1:]
    for mine, theirs in zip(seen.hidden_states, expected, strict=True):
        torch.testing.assert_close(mine, theirs)
    assert not seen.attentions
    assert len(view.outputs(output.logits).hidden_states) == 0


def test_attention_that_is_shown_is_what_is_computed_with(tokenizer):
    model = make_model(tokenizer)
    shown = show_attention(model).train()
    ids = torch.tensor([[2, 7, 8, 3]])
    for maps in shown(ids, output_attentions=True).attentions:
        torch.testing.assert_close(maps.sum(dim=-1), torch.ones(1, 2, 4))
    shown.eval(), model.eval()
    torch.testing.assert_close(shown(ids).logits, model(ids).logits)
    assert shown.config.attention_probs_dropout_prob == 0.1
    assert any(m.p == 0.1 for m in shown.modules() if isinstance(m, torch.nn.Dropout))


# --- Whole runs ---


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_a_run_lowers_the_loss_and_leaves_a_plain_encoder(run, name):
    _, report = run(name)
    log = rows(report.output)
    assert log[-1]["loss"] < 0.95 * log[0]["loss"]
    model, found = AutoModelForMaskedLM.from_pretrained(report.output, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    assert (model.config.num_hidden_layers, model.config.hidden_size) == (2, 8)
    weights = load_file(report.output / "model.safetensors")
    assert not [key for key in weights if "objective" in key or "project" in key]
    assert AutoTokenizer.from_pretrained(report.output).mask_token == "[MASK]"


def test_robertas_are_taught_alike(make_recipe, tokenizer, tmp_path):
    (tmp_path / "roberta").mkdir()
    save_encoder(tmp_path / "roberta", tokenizer, make_model(tokenizer, type="roberta"))
    report = distill(make_recipe("compact", teacher={"name": str(tmp_path / "roberta")}))
    log = rows(report.output)
    assert log[-1]["loss"] < 0.95 * log[0]["loss"]
    model, found = AutoModelForMaskedLM.from_pretrained(report.output, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    assert model.config.model_type == "roberta"


def test_projections_are_kept_in_checkpoints(run):
    recipe, _ = run("tinybert")
    [*_, checkpoint] = sorted(recipe.output.work.glob("checkpoints/checkpoint-*"))
    kept = {name for name in load_file(checkpoint / "model.safetensors") if "project" in name}
    assert kept == {"objective.project.weight", "objective.project_embeddings.weight"}


def test_rows_tell_the_terms_whose_weighted_sum_is_the_loss(run):
    for row in rows(run("compact")[1].output):
        terms = row["terms"]
        assert list(terms) == ["mlm", "soft_mlm", "hidden_states", "attentions"]
        expected = (
            terms["mlm"]
            + 5 * terms["soft_mlm"]
            + 3 * (terms["hidden_states"] + terms["attentions"])
        )
        assert row["loss"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_of_a_step_does_not_depend_on_its_micro_batches(
    make_recipe, make_trainer, name
):
    losses, gradients = [], []
    for device_batch in (2, 8):
        trainer = make_trainer(make_recipe(name, training={"device_batch": device_batch}))
        for module in trainer.model.modules():
            if isinstance(module, ByteDropout):
                module.threshold = 0
        trainer.create_optimizer_and_scheduler(num_training_steps=1)
        parts, count = trainer.get_batch_samples(
            iter(trainer.get_train_dataloader()), 8 // device_batch, torch.device("cpu")
        )
        losses.append(sum(trainer.training_step(trainer.model, one, count) for one in parts).item())
        trained = [p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None]
        gradients.append(torch.cat(trained))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-6)


def test_a_run_that_was_interrupted_ends_like_one_that_was_not(run, make_recipe, monkeypatch):
    whole = rows(run("compact")[1].output)
    recipe = make_recipe("compact")
    calls = []
    compute = DistillationTrainer.micro_batch_loss

    def fail_at_last(self, *inputs):
        calls.append(1)
        if len(calls) == 13:  # two micro-batches per step, and a checkpoint after step 4
            raise KeyboardInterrupt
        return compute(self, *inputs)

    monkeypatch.setattr(DistillationTrainer, "micro_batch_loss", fail_at_last)
    with pytest.raises(KeyboardInterrupt):
        distill(recipe)
    assert not recipe.output.directory.exists()
    resumed = rows(distill(recipe).output)
    assert [row["step"] for row in resumed] == [row["step"] for row in whole]
    assert [row["loss"] for row in resumed] == pytest.approx([row["loss"] for row in whole])
    assert len(calls) == 13 + 2 * 4


def test_the_card_says_how_the_student_was_made(make_recipe, teacher):
    report = distill(make_recipe("distilbert", SAME_WIDTH, output={"weights": "fp16"}))
    card = (report.output / "README.md").read_text()
    assert (
        "Distilled from tiny-teacher with the objective `distilbert`: 2 × mlm + 5 × soft_mlm + "
        "1 × align. The student began as layers 2, 4 of the teacher, with its embeddings."
    ) in card
    assert f"(perplexity {math.exp(report.loss):.2f}) after step {report.step}" in card
    assert "| Steps | 8 of 8 sequences:" in card
    weights = load_file(report.output / "model.safetensors").values()
    assert {weight.dtype for weight in weights} == {torch.float16}


# --- Students ---


def test_a_student_begins_with_the_teachers_layers(make_recipe, teacher):
    recipe = make_recipe("compact", {"teacher_layers": [1, 4]})
    _, student, taught_by, _ = prepare_models(recipe, PartialState(cpu=True))
    weights = load_file(teacher / "model.safetensors")
    own = student.state_dict()
    for mine, theirs in ((0, 0), (1, 3)):
        prefix = f"bert.encoder.layer.{theirs}."
        for name in filter(lambda name: name.startswith(prefix), weights):
            mapped = name.replace(prefix, f"bert.encoder.layer.{mine}.")
            assert torch.equal(own[mapped], weights[name])
    embeddings = "bert.embeddings.word_embeddings.weight"
    assert torch.equal(own[embeddings], weights[embeddings])
    assert torch.equal(taught_by.state_dict()[embeddings], weights[embeddings])
    assert own[embeddings].data_ptr() != taught_by.state_dict()[embeddings].data_ptr()


def test_a_student_that_is_there_is_gone_on_from(make_recipe, tokenizer, tmp_path):
    (tmp_path / "compact").mkdir()
    small = make_model(tokenizer, seed=5, layers=1, width=8)
    save_encoder(tmp_path / "compact", tokenizer, small)
    recipe = make_recipe("tinybert", {"name": str(tmp_path / "compact")})
    _, student, _, objective = prepare_models(recipe, PartialState(cpu=True))
    assert (objective.student.layers, objective.student.width, objective.layer_map) == (1, 8, [4])
    for name, weight in small.state_dict().items():
        assert torch.equal(student.state_dict()[name], weight)


def test_projections_follow_from_the_seed(make_recipe):
    def projection(seed):
        recipe = make_recipe("tinybert", training={"seed": seed})
        return prepare_models(recipe, PartialState(cpu=True))[3].project.weight

    assert torch.equal(projection(1), projection(1))
    assert not torch.equal(projection(1), projection(2))


# --- Teachers without a head ---


@pytest.fixture(scope="module")
def headless(tmp_path_factory, tokenizer) -> Path:
    path = tmp_path_factory.mktemp("encoders") / "headless"
    path.mkdir()
    save_encoder(path, tokenizer, make_model(tokenizer).base_model.half())
    return path


@pytest.mark.parametrize(
    ("objective", "setting"),
    [
        ("distilbert", "soft_mlm_weight"),
        ("compact", "soft_mlm_weight"),
        ("large_to_base", "soft_mlm_weight"),
        ("tinybert", "output_weight"),
    ],
)
def test_terms_that_need_a_head_that_the_teacher_lacks_are_refused(
    make_recipe, headless, objective, setting
):
    line = refuse(make_recipe(objective, teacher={"name": str(headless)}))
    assert line == (
        "teacher.name: has no head for masked language modelling, so it has no distributions "
        f"to learn from; set objective.{setting} = 0, or take another teacher"
    )


def test_without_distributions_validation_is_the_objective(make_recipe, headless):
    recipe = make_recipe("tinybert", settings={"output_weight": 0}, teacher={"name": str(headless)})
    report = distill(recipe)
    log = [json.loads(line) for line in (report.output / "log.jsonl").read_text().splitlines()]
    losses = [row["validation_loss"] for row in log if "validation_loss" in row]
    # The objective's loss, which starts near 3, and not the loss over 120 entries, ln 120 = 4.8.
    assert min(losses) == pytest.approx(report.loss)
    assert report.perplexity is None
    assert {row["validation_perplexity"] for row in log if "validation_loss" in row} == {None}
    assert report.loss < rows(report.output)[0]["loss"] < 4
    card = (report.output / "README.md").read_text()
    assert "The validation loss is the objective's" in card and "perplexity" not in card
    assert "the language-model head has not been trained" in card


def test_weights_that_were_saved_in_half_precision_are_trained_in_single(make_recipe, headless):
    for student in (NARROW, SAME_WIDTH, {"name": str(headless)}):
        recipe = make_recipe("mobilebert", student, teacher={"name": str(headless)})
        assert prepare_models(recipe, PartialState(cpu=True))[1].dtype == torch.float32


def test_an_objective_without_distributions_of_the_teacher_needs_no_head(make_recipe, headless):
    report = distill(make_recipe("mobilebert", teacher={"name": str(headless)}))
    assert report.perplexity < 130


# --- Bad input ---


def test_a_student_with_another_vocabulary_is_refused(make_recipe, tmp_path):
    other = WordPieceTokenizer(learn_word_pieces(["another vocabulary altogether"] * 3, 60), 0)
    (tmp_path / "other").mkdir()
    save_encoder(tmp_path / "other", other, make_model(other))
    line = refuse(make_recipe(student={"name": str(tmp_path / "other")}))
    assert line.startswith("student.name: its vocabulary is not the teacher's (")
    assert line.endswith("take a student with the teacher's, or give it layers")


def test_a_student_with_more_rows_than_the_teacher_is_refused(make_recipe, tokenizer, tmp_path):
    (tmp_path / "wide").mkdir()
    model = make_model(tokenizer)
    model.resize_token_embeddings(128)
    save_encoder(tmp_path / "wide", tokenizer, model)
    line = refuse(make_recipe(student={"name": str(tmp_path / "wide")}))
    assert "student.name: its vocabulary is not the teacher's (128 rows in its embedding" in line


@pytest.mark.parametrize(
    ("student", "problem"),
    [
        (
            {"layers": 5},
            "student: layers = 5: the student takes its layers from the teacher, which",
        ),
        ({"teacher_layers": [5]}, "student: teacher_layers = [5]: the layers of the teacher are 1"),
    ],
)
def test_layers_that_the_teacher_lacks_are_refused(make_recipe, student, problem):
    assert refuse(make_recipe(student=student)).startswith(problem)


def make_other(tokenizer, path: Path, config) -> dict[str, str]:
    path.mkdir()
    save_encoder(path, tokenizer, AutoModelForMaskedLM.from_config(config))
    return {"name": str(path)}


def test_layers_that_cannot_be_taken_apart_are_refused(make_recipe, tokenizer, tmp_path):
    size = tokenizer.tokenizer.get_vocab_size()
    shape = {"vocab_size": size, "pad_token_id": 0, "max_position_embeddings": 64, **SMALL}
    for config in (AlbertConfig(**shape), LongformerConfig(**shape, attention_window=8)):
        teacher = make_other(tokenizer, tmp_path / config.model_type, config)
        line = refuse(make_recipe("distilbert", {"layers": 1}, teacher=teacher))
        assert line == (
            f"student: teacher of type {config.model_type}: its layers cannot be taken apart; give "
            "as the student's name an encoder with the teacher's vocabulary"
        )


def test_attention_that_is_not_of_all_positions_to_all_is_refused(make_recipe, tokenizer, tmp_path):
    size = tokenizer.tokenizer.get_vocab_size()
    config = YosoConfig(vocab_size=size, max_position_embeddings=64, pad_token_id=0, **SMALL)
    teacher = make_other(tokenizer, tmp_path / "yoso", config)
    line = refuse(make_recipe("compact", {"layers": 1}, teacher=teacher))
    assert line.startswith("teacher.name: encoders of type yoso do not show the states or the")
    assert distill(make_recipe("distilbert", {"layers": 1}, teacher=teacher)).step


def test_sequences_longer_than_an_encoder_reads_are_refused(make_recipe):
    line = refuse(make_recipe(packing={"length": 65}))
    assert line == "packing.length: the teacher has 64 positions; make it no longer"


def test_a_run_of_another_objective_is_not_gone_on_with(run, make_recipe):
    output = {"directory": str(run("compact")[0].output.directory)}
    line = refuse(make_recipe("compact", settings={"mlm_weight": 2.0}, output=output))
    assert "holds a run of another recipe (objective.mlm_weight was not there and is 2.0)" in line


def test_a_run_with_a_teacher_that_has_changed_is_not_gone_on_with(make_recipe, teacher, tmp_path):
    own = shutil.copytree(teacher, tmp_path / "teacher")
    recipe = make_recipe(teacher={"name": str(own)}, training={"steps": 1})
    distill(recipe)
    weights = load_file(own / "model.safetensors")
    changed = {name: 2 * weight for name, weight in weights.items()}
    save_file(changed, own / "model.safetensors", {"format": "pt"})
    assert "holds a run of another recipe (teacher.weights was " in refuse(recipe)
