"""Recipes: reading, messages for bad input with their lines, and the presets."""

from pathlib import Path

import pytest
from pretraining_recipes import RECIPE, make_recipe, write_recipe, write_text

from spacy_biomed.encoders.encoder_catalogue import find_encoder
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.recipe import (
    Existing,
    LearnedVocabulary,
    PretrainingRecipe,
    read_recipe,
)

PRESETS = Path(__file__).parents[2] / "configs" / "language_models"


def line_of(path: Path, start: str) -> int:
    lines = path.read_text(encoding="utf8").splitlines()
    return next(i for i, line in enumerate(lines, start=1) if line.startswith(start))


@pytest.fixture
def write(tmp_path):
    """Write the recipe with a part of its text replaced."""

    def write(old: str = "", new: str = "") -> Path:
        text = write_text(tmp_path / "text.txt")
        filled = RECIPE.replace("text = null", f'text = "{text}"', 1)
        filled = filled.replace("output = null", f'output = "{tmp_path / "output"}"', 1)
        assert old in filled
        path = tmp_path / "recipe.cfg"
        path.write_text(filled.replace(old, new, 1), encoding="utf8")
        return path

    return write


def refuse(path: Path, overrides=None) -> str:
    with pytest.raises(BiomedError) as error:
        read_recipe(path, PretrainingRecipe, overrides)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_settings_and_variables_are_read(write, tmp_path):
    recipe = read_recipe(write(), PretrainingRecipe)
    assert recipe.text.paths == [tmp_path / "text.txt"]
    assert recipe.output.work == tmp_path / "output.training"
    assert recipe.training.learning_rate == 0.01
    assert recipe.encoder.type == "bert"
    assert recipe.vocabulary == LearnedVocabulary(kind="wordpiece", size=150)


def test_the_command_line_comes_before_the_file(write, tmp_path):
    other = write_text(tmp_path / "other.txt")
    overrides = {"training.steps": 100, "paths.text": str(other), "training.arguments.tf32": False}
    recipe = read_recipe(write(), PretrainingRecipe, overrides)
    assert recipe.training.steps == 100
    assert recipe.text.paths == [other]
    assert recipe.training.arguments == {"tf32": False}


def test_text_may_be_several_paths(tmp_path):
    paths = [str(write_text(tmp_path / name)) for name in ("a.txt", "b.txt")]
    recipe = make_recipe(tmp_path, text__paths=paths, text__validation=paths[:1])
    assert list(map(str, recipe.text.paths)) == paths
    assert list(map(str, recipe.text.validation)) == paths[:1]


@pytest.mark.parametrize(
    ("old", "new", "start", "message"),
    [
        (
            "steps = 6",
            "stepps = 6",
            "stepps",
            "training.stepps: no such setting; did you mean steps",
        ),
        ("[packing]", "[packng]", "[packng]", "packng: no such setting; did you mean packing"),
        ("layers = 2\n", "", "[encoder]", "encoder.layers: is missing; add it"),
        ("steps = 6", 'steps = "six"', "steps", "training.steps = 'six': input should be a valid"),
        ("steps = 6", "steps = 0", "steps", "training.steps = 0: input should be greater than 0"),
        ('"bert"', '"gpt"', "type", "encoder.type = 'gpt': input should be 'bert' or 'roberta'"),
        ("heads = 2", "heads = 3", "[encoder]", "width 16 is not a multiple of 3 heads"),
        ("steps = 6\n", "", "[training]", "give either steps or epochs"),
        ("steps = 6", "steps = 6\nepochs = 2", "[training]", "give either steps or epochs"),
        ("length = 24", "length = 300", "length", "packing.length = 300 is more than encoder.pos"),
        ('kind = "wordpiece"\nsize = 150', "", "[vocabulary]", "vocabulary.kind: is missing"),
        ('type = "bert"', 'name = "biobert"', "layers", "encoder.layers: no such setting; remove"),
        ('"wordpiece"', '"bpe"\nlowercase = true', "[vocabulary]", "only kind = wordpiece folds"),
        ("${paths.text}", "${paths.txt}", "paths", "text.paths: ${paths.txt} refers to a setting"),
        ("batch = 8", "batch 8", "batch", "correct it"),
        ("validation = 6", "validation = 0", "validation", "text.validation = 0: input should be"),
        ("validation = 6", 'validation = "no.txt"', "validation", "no.txt does not exist"),
        ("size = 150", 'size = 150\npaths = "no.txt"', 'paths = "no', "no.txt does not exist"),
        ("probability = 0.15", "probability = 1.5", "probability", "masking.probability = 1.5"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_with_its_place(write, old, new, start, message):
    path = write(old, new)
    told = refuse(path)
    assert told.startswith(f"{path}:{line_of(path, start)}: ")
    assert message in told


def test_a_variable_that_is_not_set_is_told_with_its_option(write, tmp_path):
    path = write(f'text = "{tmp_path / "text.txt"}"', "text = null")
    told = refuse(path)
    line = line_of(path, "paths = ")
    assert told == f"{path}:{line}: text.paths: is missing; give --paths.text"


def test_text_that_is_not_there_is_told_with_the_line_that_names_it(write):
    path = write()
    told = refuse(path, {"paths.text": "/nowhere/texts"})
    line = line_of(path, "paths = ")
    assert told == (f"{path}:{line}: text.paths: /nowhere/texts does not exist; correct the path")


def test_an_encoder_with_a_name_has_its_own_vocabulary(tmp_path):
    shape = {"type", "layers", "width", "heads", "feed_forward", "positions", "dropout"}
    existing = {f"encoder__{name}": None for name in shape} | {"encoder__name": "biobert"}
    told = refuse(write_recipe(tmp_path, **existing))
    assert "[vocabulary] is for a new encoder" in told
    recipe = make_recipe(tmp_path, **existing, vocabulary=None)
    assert recipe.encoder == Existing(name="biobert")
    assert "[vocabulary] is for a new encoder" in refuse(write_recipe(tmp_path, vocabulary=None))


def test_a_vocabulary_may_be_one_that_is_there(tmp_path):
    recipe = make_recipe(
        tmp_path, vocabulary__kind=None, vocabulary__size=None, vocabulary__name="biobert"
    )
    assert recipe.vocabulary == Existing(name="biobert")


def test_a_recipe_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "recipe.cfg"
    assert refuse(path).startswith(f"{path}: no such file")
    path.write_bytes(b"\xff\xfe\x00")
    assert refuse(path).startswith(f"{path}: cannot be read")


def test_warm_up_is_a_number_of_steps_or_a_share_of_them(tmp_path):
    assert make_recipe(tmp_path, training__warmup=0.05).training.warmup_steps(500) == 25
    assert make_recipe(tmp_path, training__warmup=10000).training.warmup_steps(125000) == 10000
    assert make_recipe(tmp_path, training__warmup=0.0).training.warmup_steps(500) == 0


def test_epochs_are_steps_over_the_sequences_that_there_are(tmp_path):
    training = make_recipe(
        tmp_path, training__steps=None, training__epochs=2.5, training__batch=16
    ).training
    assert training.total_steps(sequences=640) == 100
    assert training.total_steps(sequences=1) == 1


def test_a_run_stays_the_same_wherever_it_is_computed(tmp_path):
    first = make_recipe(tmp_path).identity()
    moved = write_text(tmp_path / "moved.txt")
    same = make_recipe(
        tmp_path,
        paths__text=str(moved),
        paths__output=str(tmp_path / "elsewhere"),
        training__device_batch=2,
        training__precision="auto",
        training__evaluate_every=5,
        training__arguments__dataloader_num_workers=2,
    )
    assert same.identity() == first
    for settings in ({"training__learning_rate": 0.5}, {"masking__whole_words": True}):
        assert make_recipe(tmp_path, **settings).identity() != first


# Settings from the papers: encoder, batch, steps, learning rate, warm-up, beta2, length.
GIVEN = {
    "bio_lm_base": ((12, 768, 12, 3072), 8192, 500_000, 6e-4, 25_000, 0.98, 512),
    "bio_lm_large": ((24, 1024, 16, 4096), 8192, 500_000, 4e-4, 25_000, 0.98, 512),
    "bio_lm_base_from_roberta": ("roberta-base", 8192, 500_000, 6e-4, 25_000, 0.98, 512),
    "bio_lm_large_from_roberta": ("roberta-large", 8192, 500_000, 4e-4, 25_000, 0.98, 512),
    "bsc_bio_es": ((12, 768, 12, 3072), 2048, 125_000, 5e-4, 10_000, 0.98, 512),
    "bsc_bio_ehr_es": ((12, 768, 12, 3072), 2048, 125_000, 5e-4, 10_000, 0.98, 512),
    "biodistilbert": ("distilbert", 192, 200_000, 1e-4, 10_000, 0.999, 256),
    "biotinybert": ("tinybert", 192, 200_000, 1e-4, 10_000, 0.999, 256),
    "biomobilebert": ("mobilebert", 192, 200_000, 1e-4, 10_000, 0.999, 256),
}
OTHERS = ["adapt", "starter_en", "starter_es"]


@pytest.mark.parametrize("name", [*GIVEN, *OTHERS])
def test_a_preset_needs_no_more_than_its_text(tmp_path, name):
    text = write_text(tmp_path / "text.txt")
    path = PRESETS / f"{name}.cfg"
    recipe = read_recipe(path, PretrainingRecipe, {"paths.text": str(text)})
    assert recipe.text.paths == [text]
    if isinstance(recipe.encoder, Existing):
        assert find_encoder(recipe.encoder.name).hub_id
    assert "give --paths.text" in refuse(path)


@pytest.mark.parametrize("name", GIVEN)
def test_a_preset_has_the_figures_of_its_paper(tmp_path, name):
    text = write_text(tmp_path / "text.txt")
    recipe = read_recipe(PRESETS / f"{name}.cfg", PretrainingRecipe, {"paths.text": str(text)})
    training, encoder = recipe.training, recipe.encoder
    shape = (
        encoder.name
        if isinstance(encoder, Existing)
        else (encoder.layers, encoder.width, encoder.heads, encoder.feed_forward)
    )
    assert (
        shape,
        training.batch,
        training.steps,
        training.learning_rate,
        training.warmup_steps(training.steps),
        training.beta2,
        recipe.packing.length,
    ) == GIVEN[name]
    epsilon = 1e-8 if recipe.packing.length == 256 else 1e-6
    assert (training.weight_decay, training.beta1, training.epsilon) == (0.01, 0.9, epsilon)
    assert (recipe.masking.probability, recipe.masking.whole_words) == (0.15, False)


@pytest.mark.parametrize("name", ["bio_lm_base", "bio_lm_large", "bsc_bio_es", "bsc_bio_ehr_es"])
def test_presets_from_scratch_learn_byte_pairs_of_roberta(tmp_path, name):
    text = write_text(tmp_path / "text.txt")
    recipe = read_recipe(PRESETS / f"{name}.cfg", PretrainingRecipe, {"paths.text": str(text)})
    learned_from = [text] if name.startswith("bio_lm") else None
    assert recipe.vocabulary == LearnedVocabulary(kind="bpe", size=50_262, paths=learned_from)
    assert (recipe.encoder.type, recipe.encoder.dropout) == ("roberta", 0.1)
    assert recipe.packing.across_documents == name.startswith("bio_lm")
    assert recipe.text.validation == 2000


@pytest.mark.parametrize("name", ["starter_en", "starter_es"])
def test_a_starter_has_at_most_8_million_parameters_and_16_megabytes(tmp_path, name):
    from transformers import BertConfig, BertForMaskedLM

    text = write_text(tmp_path / "text.txt")
    recipe = read_recipe(PRESETS / f"{name}.cfg", PretrainingRecipe, {"paths.text": str(text)})
    shape = recipe.encoder
    config = BertConfig(
        vocab_size=recipe.vocabulary.size,
        hidden_size=shape.width,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=shape.feed_forward,
        max_position_embeddings=shape.positions,
    )
    parameters = BertForMaskedLM(config).num_parameters()
    assert parameters <= 8_000_000
    assert 2 * parameters <= 16_000_000
    assert recipe.output.weights == "fp16"
