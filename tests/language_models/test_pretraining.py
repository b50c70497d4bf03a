"""Pretraining from text to an encoder directory, and resumed runs."""

import io
import json
import math
import shutil

import numpy as np
import pytest
import spacy
import torch
from pretraining_recipes import losses, make_recipe, make_text, write_text
from rich.console import Console
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

from spacy_biomed.encoders.loading import load_pretrained
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models import pretraining
from spacy_biomed.language_models.pretraining import pretrain
from spacy_biomed.language_models.run_folders import read_rows
from spacy_biomed.language_models.trainer import COMPLETE, MaskedLanguageModelTrainer


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A recipe, its report, and its output to the terminal."""
    folder = tmp_path_factory.mktemp("run")
    recipe = make_recipe(folder, output__weights="fp32", training__evaluate_every=2)
    shown = io.StringIO()
    report = pretrain(recipe, Console(file=shown, width=200))
    return recipe, report, shown.getvalue()


def weights(recipe):
    return load_file(recipe.output.directory / "model.safetensors")


def same(first, second):
    return first.keys() == second.keys() and all(
        torch.equal(first[name], second[name]) for name in first
    )


def go_on_from(folder, encoder, **settings):
    return make_recipe(folder, vocabulary=None, encoder={"name": str(encoder)}, **settings)


# --- Output files ---


def test_the_output_is_an_encoder_directory_and_nothing_else(run):
    recipe, _, _ = run
    assert {path.name for path in recipe.output.directory.iterdir()} == {
        ".spacy-biomed.json",
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "README.md",
        "log.jsonl",
    }


def test_transformers_loads_the_encoder_and_its_head(run):
    recipe, report, _ = run
    directory = recipe.output.directory
    model, found = AutoModelForMaskedLM.from_pretrained(directory, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    assert model.num_parameters() == report.parameters
    encoder = AutoModel.from_pretrained(directory, add_pooling_layer=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(directory)
    inputs = tokenizer("lung cancer", return_tensors="pt")
    with torch.no_grad():
        hidden = encoder(**inputs).last_hidden_state
        assert torch.allclose(hidden, model.base_model.eval()(**inputs).last_hidden_state)
        logits = model.eval()(**inputs).logits
    assert logits.shape == (1, inputs["input_ids"].shape[1], len(tokenizer))


def test_the_weights_have_the_validation_loss_that_is_reported(run):
    recipe, report, _ = run
    best = min(losses(recipe)["validation_loss"].items(), key=lambda item: item[1])
    assert (report.step, report.loss) == (best[0], pytest.approx(best[1], abs=1e-6))
    assert report.perplexity == pytest.approx(math.exp(report.loss))
    assert losses(recipe)["validation_loss"][6] < losses(recipe)["validation_loss"][2]


def test_a_pipeline_computes_with_the_encoder_and_without_the_head(run):
    recipe, _, _ = run
    nlp = spacy.blank("en")
    model = {"name": str(recipe.output.directory), "precision": "fp32"}
    nlp.add_pipe("biomed_transformer", config={"model": model, "keep_encodings": True})
    nlp.initialize()
    encoder = nlp.get_pipe("biomed_transformer").model
    _, expected = load_pretrained(str(recipe.output.directory))
    names = dict(encoder.shims[0]._model.named_parameters())
    assert not any("cls" in name or "decoder" in name for name in names)
    own = weights(recipe)
    for name, parameter in expected.named_parameters():
        if "pooler" not in name:
            assert torch.equal(parameter, own[f"bert.{name}"])
            assert torch.equal(names[name], parameter)
    hidden = encoder.predict([nlp.make_doc("lung cancer in patients")]).hidden
    assert np.isfinite(hidden).all() and hidden.shape[1] == 16


def test_half_precision_halves_the_weights_and_loads_as_fp32(run, tmp_path):
    recipe, report, _ = run
    half = make_recipe(tmp_path, output__weights="fp16", training__evaluate_every=2)
    assert pretrain(half).megabytes == pytest.approx(report.megabytes / 2, rel=0.1)
    for name, weight in weights(half).items():
        assert weight.dtype == torch.float16
        assert torch.equal(weight, weights(recipe)[name].half())
    _, encoder = load_pretrained(str(half.output.directory))
    assert next(encoder.parameters()).dtype == torch.float32


def test_the_card_has_the_figures_of_the_run(run):
    recipe, report, _ = run
    card = (recipe.output.directory / "README.md").read_text(encoding="utf8")
    rows = read_rows(recipe.output.directory / "log.jsonl")
    documents = len(make_text())
    for figure in (
        f"{documents - 6} documents",
        "6 documents",
        f"6 of 8 sequences: {rows[-1]['pieces']:,} word pieces",
        f"{report.parameters:,}",
        "2 layers, width 16",
        f"{report.loss:.4f} (perplexity {report.perplexity:.2f}) after step {report.step}",
        "in fp32",
        "learning_rate = 0.01",
    ):
        assert figure in card
    assert str(recipe.output.directory.parent) not in card


def test_the_log_counts_pieces_and_the_console_shows_evaluations(run):
    recipe, _, shown = run
    rows = read_rows(recipe.output.directory / "log.jsonl")
    training = [row for row in rows if "loss" in row]
    assert [row["step"] for row in training] == [1, 2, 3, 4, 5, 6]
    # 8 sequences of 22 pieces without 2 special tokens, except for the last of the text.
    assert [row["pieces"] for row in training] == pytest.approx(
        [step * 8 * 22 for step in range(1, 7)], abs=2 * 22
    )
    assert all(row["pieces_per_second"] > 0 for row in training)
    evaluations = [row for row in rows if "validation_loss" in row]
    assert [row["step"] for row in evaluations] == [2, 4, 6]
    lines = shown.splitlines()
    assert len(lines) == 3
    assert f"validation {evaluations[2]['validation_loss']:.4f}" in lines[2]


def test_a_model_that_gets_worse_is_written_as_it_was_best(tmp_path):
    recipe = make_recipe(
        tmp_path,
        training__steps=12,
        training__evaluate_every=1,
        training__learning_rate=3.0,
        training__warmup=0.5,
    )
    report = pretrain(recipe)
    measured = losses(recipe)["validation_loss"]
    assert report.step < 12
    assert report.loss == pytest.approx(min(measured.values()), abs=1e-6)
    assert measured[12] > report.loss
    again = go_on_from(tmp_path, recipe.output.directory, paths__output=str(tmp_path / "again"))
    assert start_loss(again) == pytest.approx(report.loss, abs=1e-4)


def start_loss(recipe):
    """Validation loss of a recipe's untrained model, on its text."""
    from accelerate import PartialState

    from spacy_biomed.language_models.packed_sequences import prepare_text
    from spacy_biomed.language_models.trainer import MaskedLanguageModelTrainer

    tokenizer, model, _ = pretraining.prepare_model(recipe, PartialState(cpu=True))
    texts = prepare_text(recipe, tokenizer, recipe.output.work / "text")
    trainer = MaskedLanguageModelTrainer(model, recipe, tokenizer, *texts)
    return trainer.evaluate()["eval_loss"]


# --- Initial weights ---


def test_an_encoder_is_gone_on_from_with_its_head(run, tmp_path):
    recipe, report, _ = run
    further = go_on_from(tmp_path, recipe.output.directory)
    assert start_loss(further) == pytest.approx(report.loss, abs=1e-4)
    (tmp_path / "again").mkdir()
    again = go_on_from(tmp_path / "again", recipe.output.directory)
    assert "on from output." in card_of(again)


def card_of(recipe):
    pretrain(recipe)
    return (recipe.output.directory / "README.md").read_text(encoding="utf8")


def test_an_encoder_without_head_gets_a_new_one_and_says_so(tiny_roberta, tmp_path):
    recipe = go_on_from(tmp_path, tiny_roberta)
    shown = io.StringIO()
    pretrain(recipe, Console(file=shown))
    assert "has no head" in shown.getvalue()
    card = (recipe.output.directory / "README.md").read_text(encoding="utf8")
    assert "on from tiny-roberta, with a new language-model head" in card
    model = AutoModelForMaskedLM.from_pretrained(recipe.output.directory)
    assert type(model).__name__ == "RobertaForMaskedLM"


def test_a_sequence_longer_than_the_encoder_is_refused(tiny_roberta, tmp_path):
    recipe = go_on_from(tmp_path, tiny_roberta, packing__length=513)
    with pytest.raises(BiomedError, match=r"cfg:\d+: packing.length: .* has 512 positions"):
        pretrain(recipe)


def test_a_roberta_from_scratch_has_byte_pairs_and_its_positions(tmp_path):
    recipe = make_recipe(
        tmp_path, encoder__type="roberta", vocabulary__kind="bpe", vocabulary__size=300
    )
    pretrain(recipe)
    config = json.loads((recipe.output.directory / "config.json").read_text())
    assert config["model_type"] == "roberta"
    assert (config["vocab_size"], config["max_position_embeddings"]) == (300, 256 + 2)
    assert (config["bos_token_id"], config["pad_token_id"], config["eos_token_id"]) == (0, 1, 2)


def test_a_vocabulary_that_is_there_is_taken(tiny_bert, tmp_path):
    recipe = make_recipe(
        tmp_path, vocabulary__kind=None, vocabulary__size=None, vocabulary__name=str(tiny_bert)
    )
    pretrain(recipe)
    own, other = (
        json.loads((path / "tokenizer.json").read_text(encoding="utf8"))["model"]["vocab"]
        for path in (recipe.output.directory, tiny_bert)
    )
    assert own == other


def test_a_vocabulary_is_learned_from_the_text_that_its_section_names(tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("zzyzx qux zzyzx qux\n" * 9, encoding="utf8")
    recipe = make_recipe(tmp_path, vocabulary__size=60, vocabulary__paths=[str(other)])
    prepared = pretraining.prepare_vocabulary(recipe).tokenizer.get_vocab()
    assert "zzyzx" in prepared and "aspirin" not in prepared
    usual = make_recipe(tmp_path, vocabulary__size=150)
    assert "zzyzx" not in pretraining.prepare_vocabulary(usual).tokenizer.get_vocab()
    moved = other.rename(tmp_path / "moved.txt")
    again = make_recipe(tmp_path, vocabulary__size=60, vocabulary__paths=[str(moved)])
    assert again.identity() == recipe.identity()


def test_whole_words_within_documents_are_trained_on_as_well(tmp_path):
    recipe = make_recipe(tmp_path, masking__whole_words=True, packing__across_documents=False)
    measured = pretrain(recipe)
    assert measured.loss < math.log(150)


# --- Bad input ---


def test_a_vocabulary_that_cannot_be_learned_is_told_with_its_line(tmp_path):
    with pytest.raises(BiomedError, match=r"recipe.cfg:\d+: vocabulary: .* of 9 cannot hold the"):
        pretrain(make_recipe(tmp_path, vocabulary__size=9))


def test_what_is_in_the_place_of_the_output_is_not_replaced(tmp_path):
    recipe = make_recipe(tmp_path)
    recipe.output.directory.mkdir()
    (recipe.output.directory / "thesis.txt").write_text("years of it")
    with pytest.raises(BiomedError, match="did not write"):
        pretrain(recipe)
    assert not recipe.output.work.exists()


@pytest.mark.parametrize(
    "settings", [{"training__arguments__fsp": "full"}, {"training__device_batch": 3}]
)
def test_wrong_settings_of_training_are_found_before_the_work(tmp_path, settings):
    recipe = make_recipe(tmp_path, **settings)
    with pytest.raises(BiomedError, match="training."):
        pretrain(recipe)
    assert not recipe.output.work.exists()


def test_a_run_of_another_recipe_is_not_gone_on_with(run, tmp_path):
    recipe, _, _ = run
    shutil.copytree(recipe.output.work, tmp_path / "output.training")
    other = make_recipe(tmp_path, training__learning_rate=0.5)
    with pytest.raises(BiomedError) as error:
        pretrain(other)
    assert "learning_rate was 0.01 and is 0.5" in str(error.value)
    assert "\n" not in str(error.value)
    write_text(tmp_path / "text.txt", make_text(41))
    with pytest.raises(BiomedError, match="text_and_vocabulary was"):
        pretrain(make_recipe(tmp_path))
    assert not other.output.directory.exists()


def test_a_resumed_run_has_the_log_of_one_that_was_not_stopped(tmp_path, monkeypatch):
    # Rows are of two steps, and the checkpoint is after the first step of a row.
    settings = {"training__evaluate_every": 3, "training__arguments__logging_steps": 2}
    logs = []
    for stop in (None, 11):
        (tmp_path / str(stop)).mkdir()
        recipe = make_recipe(tmp_path / str(stop), **settings)
        compute = MaskedLanguageModelTrainer.prediction_loss
        calls = []

        def fail(self, *inputs, compute=compute, calls=calls, stop=stop):
            calls.append(1)
            if len(calls) == stop:
                raise KeyboardInterrupt
            return compute(self, *inputs)

        with monkeypatch.context() as patch:
            patch.setattr(MaskedLanguageModelTrainer, "prediction_loss", fail)
            if stop is not None:
                with pytest.raises(KeyboardInterrupt):
                    pretrain(recipe)
            pretrain(recipe)
        logs.append(losses(recipe))
    assert logs[0] == logs[1]
    assert logs[0]["loss"].keys() == {2, 3, 4, 6}


def test_a_finished_run_is_not_trained_again(run):
    recipe, report, _ = run
    before = (recipe.output.directory / "model.safetensors").read_bytes()
    start = (recipe.output.work / "checkpoints" / "checkpoint-6" / COMPLETE).stat().st_mtime_ns
    incomplete = recipe.output.work / "checkpoints" / "checkpoint-7"
    incomplete.mkdir()
    assert pretrain(recipe) == report
    assert not incomplete.exists()
    assert (recipe.output.directory / "model.safetensors").read_bytes() == before
    end = (recipe.output.work / "checkpoints" / "checkpoint-6" / COMPLETE).stat().st_mtime_ns
    assert start == end
