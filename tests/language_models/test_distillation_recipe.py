"""Recipes for distillation: their settings, and messages for bad input."""

from pathlib import Path

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.objectives import OBJECTIVES, Shape
from spacy_biomed.language_models.recipe import DistillationRecipe, read_recipe

RECIPE = """\
[text]
paths = "text.txt"
validation = 2

[teacher]
name = "biobert"

[student]
layers = 2

[objective]
name = "distilbert"

[packing]
length = 32

[training]
batch = 4
steps = 10
learning_rate = 0.001
evaluate_every = 5

[output]
directory = "student"
"""


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Read the recipe with some sections replaced."""
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("one\ntwo\nthree\n")

    def read(**sections: str) -> DistillationRecipe:
        text = RECIPE
        for name, body in sections.items():
            before, _, after = text.partition(f"[{name}]\n")
            text = f"{before}[{name}]\n{body}\n\n{after.partition(chr(10) * 2)[2]}"
        Path("recipe.cfg").write_text(text)
        return read_recipe(Path("recipe.cfg"), DistillationRecipe)

    return read


def refuse(read, **sections: str) -> str:
    with pytest.raises(BiomedError) as raised:
        read(**sections)
    line = str(raised.value)
    assert "\n" not in line
    return line


def test_a_recipe_says_teacher_student_and_objective(read):
    recipe = read(
        teacher='name = "scibert"\nrevision = "abc"',
        student="teacher_layers = [1, 4, 7]",
        objective='name = "compact"\nlayer_weight = 2\nlayer_map = [2, 4, 12]',
    )
    assert (recipe.teacher.name, recipe.teacher.revision) == ("scibert", "abc")
    assert recipe.student.teacher_layers == [1, 4, 7]
    objective = recipe.create_objective(Shape(3, 8, 2), Shape(12, 8, 2))
    assert isinstance(objective, OBJECTIVES["compact"])
    assert objective.layer_map == [2, 4, 12]
    assert objective.weights == {"mlm": 1, "soft_mlm": 5, "hidden_states": 2, "attentions": 2}


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("distilbert", [2, 5, 1]),
        ("tinybert", [1, 1, 1, 1]),
        ("compact", [1, 5, 3, 3]),
        ("mobilebert", [0.5, 0.5, 0.5]),
        ("large_to_base", [5, 2, 1]),
    ],
)
def test_without_settings_an_objective_has_the_papers_weights(read, name, weights):
    objective = read(objective=f'name = "{name}"').create_objective(Shape(2, 4, 1), Shape(4, 4, 1))
    assert list(objective.weights.values()) == weights


def test_another_objective_is_another_run(read):
    first = read(objective='name = "compact"').identity()
    assert first != read(objective='name = "compact"\nmlm_weight = 2').identity()
    assert first != read(student="layers = 3", objective='name = "compact"').identity()
    assert first == read(objective='name = "compact"').identity()


BAD_SECTIONS = {
    "student": [
        ("", "give one of name (an existing encoder), layers (how many) and teacher_layers"),
        ('name = "tinybert"\nlayers = 2', "give one of name"),
        ("layers = 2\nteacher_layers = [1, 2]", "give one of name"),
        ("teacher_layers = []", "give one of name"),
        ('layers = 2\nrevision = "abc"', "revision does not belong to this student"),
        ("layers = 2\nwidth = 8", "random weights has layers, width and heads"),
        ("layers = 2\nwidth = 8\nheads = 3", "width 8 is not a multiple of 3 heads"),
        ("layers = 2\nheads = 2", "heads does not belong to this student"),
        ('name = "tinybert"\nwidth = 8\nheads = 2', "heads does not belong"),
        ("teacher_layers = [1]\nfeed_forward = 8", "feed_forward does not belong"),
    ],
    "objective": [
        ('name = "distil"', "there is no objective 'distil'; use distilbert, tinybert, "),
        (
            'name = "compact"\ntemperature = 2',
            "temperature: no such setting; remove it (of 'compact')",
        ),
        (
            'name = "distilbert"\nmlm_wieght = 2',
            "mlm_wieght: no such setting; did you mean mlm_weight",
        ),
        ('name = "distilbert"\ntemperature = 0', "temperature = 0: input should be greater than 0"),
        ('name = "compact"\nlayer_weight = -1', "layer_weight = -1: input should be greater than"),
        ('name = "tinybert"\nlayer_weights = [1, -1]', "layer_weights = -1: input should be"),
        ('name = "tinybert"\nlayer_map = "all"', "layer_map = 'all': 'str' instances are not"),
        ('name = "mobilebert"\nmlm_share = 1', "mlm_share = 1: input should be less than 1"),
        ('name = "mobilebert"\nmlm_share = [1]', "mlm_share = [1]: input should be a valid number"),
    ],
}


@pytest.mark.parametrize(
    ("section", "body", "problem"),
    [(section, *case) for section, cases in BAD_SECTIONS.items() for case in cases],
)
def test_a_bad_student_or_objective_is_refused_with_its_place(read, section, body, problem):
    line = refuse(read, **{section: body})
    place = {"student": 8, "objective": 11}[section]
    assert line.startswith(f"recipe.cfg:{place}: {section}: ")
    assert problem in line


def test_an_objective_that_does_not_fit_the_encoders_is_refused_with_its_place(read):
    recipe = read(objective='name = "compact"\nlayer_map = [2, 13]')
    with pytest.raises(BiomedError) as raised:
        recipe.create_objective(Shape(2, 8, 2), Shape(12, 8, 2))
    assert str(raised.value) == (
        "recipe.cfg:11: objective: layer_map = [2, 13]: the layers of the teacher are 1 to 12"
    )


def test_what_is_missing_or_unknown_is_told_with_its_place(read):
    assert refuse(read, teacher="") == "recipe.cfg:5: teacher.name: is missing; add it"
    line = refuse(read, student="layers = 2\nwidht = 8")
    assert line.startswith("recipe.cfg:10: student.widht: no such setting; did you mean width")


# --- The presets ---

PRESETS = Path(__file__).parents[2] / "configs" / "language_models"


@pytest.fixture
def preset(tmp_path):
    """A preset with a small text, and with a teacher if it has none."""
    (tmp_path / "text.txt").write_text("one\n")

    def read(name: str) -> DistillationRecipe:
        overrides = {"paths.text": str(tmp_path / "text.txt")}
        if name == "starter_from_teacher":
            overrides["paths.teacher"] = "minilm"
        return read_recipe(PRESETS / f"{name}.cfg", DistillationRecipe, overrides)

    return read


@pytest.mark.parametrize(
    ("name", "student", "weights", "batch", "steps"),
    [
        # Rohanian et al. 2022, sections 4.1.3, 4.2.3, 4.3 and 6; batch from the scripts.
        ("distilbiobert", Shape(6, 768, 12), [2, 5, 1], 192, 100_000),
        ("tinybiobert", Shape(4, 312, 12), [1, 1, 1, 1], 192, 100_000),
        ("tinybiobert_6", Shape(6, 768, 12), [1, 1, 1, 1], 192, 100_000),
        ("compactbiobert", Shape(6, 768, 12), [1, 5, 3, 3], 192, 100_000),
        ("mobilebert_style", Shape(12, 384, 12), [0.5, 0.5, 0.5], 192, 100_000),
        # Lewis et al. 2020, section 7.1.
        ("bio_lm_base_from_large", Shape(12, 768, 12), [5, 2, 1], 8192, 50_000),
        ("starter_from_teacher", Shape(4, 256, 4), [2, 5, 1], 64, 6500),
    ],
)
def test_presets_have_the_papers_figures(preset, name, student, weights, batch, steps):
    recipe = preset(name)
    large = name == "bio_lm_base_from_large"
    teacher = Shape(24, 1024, 16) if large else Shape(12, 768, 12)
    objective = recipe.create_objective(student, teacher)
    assert list(objective.weights.values()) == weights
    assert (recipe.training.batch, recipe.training.steps) == (batch, steps)
    assert recipe.masking.probability == 0.15
    section = recipe.student
    assert section.teacher_layers == ([1, 3, 5, 7, 9, 11] if name == "distilbiobert" else None)
    count = section.layers or len(section.teacher_layers or ())
    assert section.name == "bio-lm-base" if large else count == student.layers
    assert section.width in (None, student.width)
    assert section.heads in (None, student.heads)


def test_temperatures_and_positions_are_those_of_the_scripts(preset):
    shapes = Shape(6, 768, 12), Shape(24, 1024, 16)
    large = preset("bio_lm_base_from_large").create_objective(*shapes)
    assert (large.temperature, large.project.out_features) == (2.0, 1024)
    assert preset("distilbiobert").create_objective(*shapes).temperature == 2.0
    for name, logits in {"distilbiobert": "masked", "tinybiobert_6": "masked"}.items():
        assert preset(name).create_objective(*shapes).needs.logits == logits


@pytest.mark.parametrize(
    ("name", "warmup", "decay"),
    [
        ("distilbiobert", 5_000, 0.0),
        ("compactbiobert", 5_000, 1e-4),
        ("tinybiobert", 10_000, 1e-4),
        ("tinybiobert_6", 10_000, 1e-4),
    ],
)
def test_presets_train_as_the_authors_scripts(preset, name, warmup, decay):
    recipe = preset(name)
    training = recipe.training
    assert (recipe.packing.length, recipe.packing.across_documents) == (256, False)
    assert training.warmup_steps(training.steps) == warmup
    assert training.weight_decay == decay
    assert (training.learning_rate, training.beta2, training.epsilon) == (5e-4, 0.999, 1e-8)


@pytest.mark.parametrize(
    ("name", "setting"), [("distilbiobert", "text"), ("starter_from_teacher", "teacher")]
)
def test_a_preset_says_which_path_it_lacks(tmp_path, name, setting):
    (tmp_path / "text.txt").write_text("one\n")
    overrides = {"paths.text": str(tmp_path / "text.txt")} if setting == "teacher" else {}
    with pytest.raises(BiomedError, match=f"is missing; give --paths.{setting}$"):
        read_recipe(PRESETS / f"{name}.cfg", DistillationRecipe, overrides)
