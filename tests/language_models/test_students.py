"""Students before distillation."""

import copy

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    BertConfig,
    MobileBertConfig,
    T5Config,
    T5ForConditionalGeneration,
)

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.distillation import create_smaller, show_attention, take_layers

SHAPE = {"num_hidden_layers": 4, "hidden_size": 8, "num_attention_heads": 2}


@pytest.fixture(params=["bert", "roberta", "distilbert"])
def teacher(request):
    torch.manual_seed(0)
    sizes = {"vocab_size": 30, "max_position_embeddings": 20, **SHAPE}
    return AutoModelForMaskedLM.from_config(AutoConfig.for_model(request.param, **sizes)).eval()


@pytest.fixture
def bert():
    return AutoModelForMaskedLM.from_config(
        BertConfig(vocab_size=30, intermediate_size=16, **SHAPE)
    )


def layers_of(model) -> list[dict[str, torch.Tensor]]:
    """The weights of each layer, by their names in the layer."""
    layers = [{} for _ in range(model.config.num_hidden_layers)]
    for name, weight in model.state_dict().items():
        if ".layer." in name:
            number, rest = name.split(".layer.")[1].split(".", 1)
            layers[int(number)][rest] = weight
    return layers


def others_of(model) -> dict[str, torch.Tensor]:
    return {name: w for name, w in model.state_dict().items() if ".layer." not in name}


def equal(left: dict, right: dict) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[n], right[n]) for n in left)


@pytest.mark.parametrize(
    ("layers", "taken"), [(2, [2, 4]), (4, [1, 2, 3, 4]), (1, [4]), ([1, 3], [1, 3]), ([4], [4])]
)
def test_a_student_has_the_weights_of_the_layers_it_took(teacher, layers, taken):
    student = take_layers(teacher, layers)
    assert type(student) is type(teacher)
    assert student.config.num_hidden_layers == len(taken)
    theirs = layers_of(teacher)
    for mine, layer in zip(layers_of(student), taken, strict=True):
        assert mine and equal(mine, theirs[layer - 1])


def test_a_student_has_the_teachers_embeddings_and_head(teacher):
    student = take_layers(teacher, 2)
    assert equal(others_of(student), others_of(teacher))
    embeddings, head = student.get_input_embeddings(), student.get_output_embeddings()
    assert embeddings.weight is head.weight


def test_a_student_of_all_layers_computes_what_the_teacher_does(teacher):
    ids = torch.tensor([[0, 5, 6, 7, 2]])
    student = take_layers(teacher, 4).eval()
    torch.testing.assert_close(student(ids).logits, teacher(ids).logits)


def test_a_student_leaves_the_teacher_as_it_was(teacher):
    before = copy.deepcopy(teacher.state_dict())
    student = take_layers(teacher, 2)
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(1.0)
    assert equal(before, teacher.state_dict())
    assert teacher.config.num_hidden_layers == 4


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (0, "layers = 0: .* from the teacher, which has 4; give 1 to 4"),
        (5, "layers = 5: .* which has 4"),
        ([], "name at least one layer"),
        ([2, 5], r"teacher_layers = \[2, 5\]: the layers of the teacher are 1 to 4"),
    ],
)
def test_layers_that_the_teacher_lacks_are_refused(bert, layers, message):
    with pytest.raises(BiomedError, match=message):
        take_layers(bert, layers)


def test_a_teacher_with_other_names_of_layers_is_refused():
    config = T5Config(vocab_size=30, d_model=8, d_kv=4, d_ff=8, num_layers=1, num_heads=2)
    with pytest.raises(BiomedError, match="teacher of type t5: its layers cannot"):
        take_layers(T5ForConditionalGeneration(config), 1)


def test_a_smaller_student_has_the_shape_asked_for_and_the_teachers_vocabulary(teacher):
    student = create_smaller(teacher, layers=2, width=4, heads=1)
    assert type(student) is type(teacher)
    ids = torch.tensor([[0, 5, 6, 2]])
    output = show_attention(student)(ids, output_hidden_states=True, output_attentions=True)
    assert output.logits.shape == (1, 4, 30)
    assert [states.shape[-1] for states in output.hidden_states] == [4, 4, 4]
    assert [maps.shape[1] for maps in output.attentions] == [1, 1]
    assert teacher.config.hidden_size == 8


@pytest.mark.parametrize(("feed_forward", "expected"), [(None, 16), (10, 10)])
def test_feed_forward_layers_are_four_times_as_wide_or_as_asked(teacher, feed_forward, expected):
    student = create_smaller(teacher, layers=1, width=4, heads=1, feed_forward=feed_forward)
    assert sorted({tuple(w.shape) for w in layers_of(student)[0].values() if w.ndim == 2}) == [
        (4, 4),
        (4, expected),
        (expected, 4),
    ]


def test_the_seed_alone_decides_a_smaller_student(bert):
    settings = {"layers": 1, "width": 4, "heads": 1}
    torch.manual_seed(1)
    first = create_smaller(bert, seed=3, **settings)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.rand(1) == drawn
    assert equal(create_smaller(bert, seed=3, **settings).state_dict(), first.state_dict())
    assert not equal(create_smaller(bert, seed=4, **settings).state_dict(), first.state_dict())


def test_a_width_that_the_heads_do_not_divide_is_refused(bert):
    with pytest.raises(BiomedError, match="width 4 is not a multiple of 3 heads"):
        create_smaller(bert, layers=1, width=4, heads=3)


def test_a_type_with_more_sizes_than_these_is_refused():
    sizes = {"embedding_size": 4, "intra_bottleneck_size": 4, "intermediate_size": 8}
    config = MobileBertConfig(vocab_size=30, num_feedforward_networks=1, **SHAPE | sizes)
    teacher = AutoModelForMaskedLM.from_config(config)
    with pytest.raises(BiomedError, match="teacher of type mobilebert: only students of bert"):
        create_smaller(teacher, layers=1, width=4, heads=1)
    assert take_layers(teacher, 1).config.num_hidden_layers == 1
