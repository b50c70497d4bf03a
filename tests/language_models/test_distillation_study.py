"""Studies of distillation: what the students share, and when a student is trained again."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from distillation_recipe import SENTENCES
from safetensors.torch import load_file, save_file

from spacy_biomed.encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from spacy_biomed.encoders.loading import save_encoder
from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.distillation import prepare_models
from spacy_biomed.language_models.initialization import (
    create_config,
    create_language_model,
    load_language_model,
)
from spacy_biomed.language_models.objectives import OBJECTIVES
from spacy_biomed.language_models.pretraining import prepare_model
from spacy_biomed.language_models.recipe import DistillationRecipe, FreshEncoder
from spacy_biomed.language_models.run_folders import start_processes
from spacy_biomed.language_models.vocabulary import learn_word_pieces
from spacy_biomed.studies import distillation_study
from spacy_biomed.studies.distillation_study import (
    NO_DISTILLATION,
    Student,
    make_students,
    plan_students,
)

NARROW = {"layers": 2, "width": 8, "heads": 1}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("encoders") / "teacher"
    path.mkdir()
    tokenizer = WordPieceTokenizer(learn_word_pieces(SENTENCES * 2, 120), 0)
    shape = {"layers": 4, "width": 16, "heads": 2, "feed_forward": 32, "positions": 64}
    config = create_config(tokenizer, FreshEncoder(type="bert", **shape))
    model = create_language_model(config, seed=0)
    save_encoder(path, tokenizer, model)
    return path


@pytest.fixture
def make_recipe(text, teacher, tmp_path):
    def make(**sections):
        return DistillationRecipe.model_validate(
            {
                "text": {"paths": str(text), "validation": 4},
                "teacher": {"name": str(teacher)},
                "student": NARROW,
                "objective": {"name": "compact"},
                "packing": {"length": 32, "across_documents": False},
                "training": {
                    "batch": 4,
                    "steps": 2,
                    "learning_rate": 0.01,
                    "evaluate_every": 2,
                    "precision": "fp32",
                    "arguments": {"use_cpu": True},
                },
                "output": {"directory": str(tmp_path / "unused"), "weights": "fp16"},
                **sections,
            }
        )

    return make


@pytest.fixture
def trained(monkeypatch):
    """Record the students that are trained."""
    made = []
    train = Student.train

    def count(self, console=None):
        made.append(self.name)
        train(self, console)

    monkeypatch.setattr(Student, "train", count)
    return made


def weights(model):
    return model.state_dict()


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_students_differ_in_nothing_but_their_objective(make_recipe, tmp_path):
    recipe = make_recipe()
    students = plan_students(recipe, tmp_path / "study")
    assert [student.name for student in students] == [NO_DISTILLATION, *OBJECTIVES]
    for student in students:
        own = student.recipe
        for section in ("text", "packing", "masking", "training"):
            assert getattr(own, section) == getattr(recipe, section)
        assert own.output.directory == tmp_path / "study" / "students" / student.name
        assert own.output.weights == "fp16"


@pytest.mark.parametrize("student", [NARROW, {"teacher_layers": [1, 4]}])
def test_all_students_begin_with_the_same_weights(make_recipe, tmp_path, student):
    students = plan_students(make_recipe(student=student), tmp_path / "study")
    state = start_processes(students[0].recipe)
    first = weights(prepare_model(students[0].recipe, state)[1])
    for other in students[1:]:
        assert same(weights(prepare_models(other.recipe, state)[1]), first)


def test_the_recipes_objective_keeps_its_settings_and_others_have_their_own(make_recipe, tmp_path):
    recipe = make_recipe(objective={"name": "compact", "mlm_weight": 0.25})
    students = {one.name: one.recipe for one in plan_students(recipe, tmp_path / "study")[1:]}
    assert students["compact"].objective.model_extra == {"mlm_weight": 0.25}
    assert students["distilbert"].objective.model_extra == {}


def test_of_a_teacher_without_a_head_its_distributions_are_left_out(make_recipe, teacher, tmp_path):
    headless = Path(shutil.copytree(teacher, tmp_path / "headless"))
    kept = {
        name.removeprefix("bert."): weight
        for name, weight in load_file(headless / "model.safetensors").items()
        if name.startswith("bert.")
    }
    save_file(kept, headless / "model.safetensors", metadata={"format": "pt"})
    recipe = make_recipe(teacher={"name": str(headless)})
    students = plan_students(recipe, tmp_path / "study")
    state = start_processes(recipe)
    for student in students[1:]:
        objective = prepare_models(student.recipe, state)[3]
        assert not objective.needs.teacher_logits
        assert {"soft_mlm", "output"}.isdisjoint(objective.weights)


@pytest.mark.slow
def test_students_are_encoders_and_their_runs_are_removed(make_recipe, trained, tmp_path):
    found = make_students(make_recipe(), tmp_path / "study", ["mobilebert", "distilbert"])
    assert list(found) == trained == [NO_DISTILLATION, "mobilebert", "distilbert"]
    models = {name: weights(load_language_model(str(path))[1]) for name, path in found.items()}
    assert not same(models[NO_DISTILLATION], models["distilbert"])
    assert not same(models["mobilebert"], models["distilbert"])
    assert {path.name for path in (tmp_path / "study" / "students").iterdir()} == set(found)
    log = (found["distilbert"] / "log.jsonl").read_text().splitlines()
    assert json.loads(log[-1])["step"] == 2


def test_a_study_that_was_stopped_makes_what_is_left(make_recipe, trained, tmp_path, monkeypatch):
    output = tmp_path / "study"
    distill = distillation_study.distill
    monkeypatch.setattr(distillation_study, "distill", None)
    with pytest.raises(TypeError):
        make_students(make_recipe(), output, ["mobilebert"])
    monkeypatch.setattr(distillation_study, "distill", distill)
    make_students(make_recipe(), output, ["mobilebert"])
    assert trained == [NO_DISTILLATION, "mobilebert", "mobilebert"]
    make_students(make_recipe(), output, ["mobilebert"])
    assert len(trained) == 3


def test_a_student_whose_sign_was_not_written_is_taken_from_its_checkpoint(
    make_recipe, tmp_path, monkeypatch
):
    output = tmp_path / "study"
    monkeypatch.setattr(distillation_study, "replace_text", None)
    with pytest.raises(TypeError):
        make_students(make_recipe(), output, [])
    monkeypatch.undo()
    before = load_file(output / "students" / NO_DISTILLATION / "model.safetensors")
    found = make_students(make_recipe(), output, [])
    assert same(load_file(found[NO_DISTILLATION] / "model.safetensors"), before)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("change", ["steps", "objective", "teacher", "text", "student"])
def test_a_student_is_made_anew_if_what_it_is_made_of_has_changed(
    make_recipe, teacher, tmp_path, change
):
    output = tmp_path / "study"
    recipe = make_recipe()
    before = {one.name: one.digest for one in plan_students(recipe, output, ["mobilebert"])}
    sections = {}
    if change == "steps":
        sections["training"] = {**recipe.training.model_dump(), "steps": 3, "epochs": None}
    elif change == "objective":
        sections["objective"] = {"name": "mobilebert", "mlm_share": 0.25}
    elif change == "text":
        (tmp_path / "text.txt").write_text("\n".join(SENTENCES * 7))
        sections["text"] = {"paths": str(tmp_path / "text.txt"), "validation": 4}
    elif change == "student":
        sections["student"] = {**NARROW, "layers": 1}
    else:
        other = Path(shutil.copytree(teacher, tmp_path / "teacher"))
        sections["teacher"] = {"name": str(other)}
        moved = plan_students(make_recipe(**sections), output, ["mobilebert"])
        assert {one.name: one.digest for one in moved} == before  # the same in another folder
        changed = load_file(other / "model.safetensors")
        changed["bert.embeddings.LayerNorm.bias"] += 1
        save_file(changed, other / "model.safetensors", metadata={"format": "pt"})
    after = plan_students(make_recipe(**sections), output, ["mobilebert"])
    has_changed = {one.name: one.digest != before[one.name] for one in after}
    assert has_changed == {NO_DISTILLATION: change != "objective", "mobilebert": True}


def test_an_objective_that_is_none_is_refused(make_recipe, tmp_path):
    with pytest.raises(BiomedError, match="there is no objective 'tiny'; use distilbert"):
        plan_students(make_recipe(), tmp_path, ["tiny"])
