"""Outputs of two small encoders in NumPy, and a check of losses against NumPy functions."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from spacy_biomed.language_models.objectives.objective import Objective, Outputs, Shape

Arrays = dict[str, np.ndarray]

LENGTHS = (5, 2, 4)  # of three sequences, padded to 5
VOCABULARY = 7
MASKED = {(0, 1): 3, (0, 3): 6, (1, 0): 0, (2, 2): 5}  # position: label


@dataclass
class Case:
    """The outputs of both encoders for a batch, in float64.

    Attributes:
        student, teacher: hidden.0 (embeddings) to hidden.M and attention.1 to attention.M, with
            noise at padded positions; logits.masked and logits.attended.
    """

    student_shape: Shape
    teacher_shape: Shape
    student: Arrays
    teacher: Arrays
    attended: np.ndarray
    labels: list[int]

    def create(self, objective: Callable[..., Objective], **settings: object) -> Objective:
        """An objective of a class for encoders of these shapes."""
        return objective(self.student_shape, self.teacher_shape, **settings)

    def outputs(self, arrays: Arrays, objective: Objective) -> tuple[Outputs, dict]:
        """An encoder's outputs for an objective, and its tensors by the arrays' names."""
        needs = objective.needs
        tensors = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}
        hidden = [tensor for name, tensor in tensors.items() if name.startswith("hidden.")]
        return Outputs(
            hidden_states={"none": [], "last": hidden[-1:], "all": hidden}[needs.hidden_states],
            attentions=[tensors[name] for name in tensors if name.startswith("attention.")]
            if needs.attentions
            else [],
            logits=tensors.get(f"logits.{needs.logits}"),
        ), tensors

    def loss(self, objective: Objective) -> tuple[torch.Tensor, dict, dict]:
        """The objective's loss and terms, and the student's tensors."""
        student, tensors = self.outputs(self.student, objective)
        teacher, _ = self.outputs(self.teacher, objective)
        labels = torch.tensor(self.labels)
        loss, terms = objective(student, teacher, torch.tensor(self.attended), labels)
        return loss, terms, tensors


def make_encoder(shape: Shape, random: np.random.Generator) -> Arrays:
    batch, length = len(LENGTHS), max(LENGTHS)
    arrays = {
        f"hidden.{layer}": random.normal(size=(batch, length, shape.width))
        for layer in range(shape.layers + 1)
    }
    for layer in range(1, shape.layers + 1):
        # Noise at padding, so that a term that counts padding has a different value.
        maps = random.uniform(0.1, 1.0, size=(batch, shape.heads, length, length))
        for sequence, valid in enumerate(LENGTHS):
            rows = np.exp(random.normal(size=(shape.heads, valid, valid)))
            rows /= rows.sum(axis=-1, keepdims=True)
            maps[sequence, :, :valid, :valid] = rows
        arrays[f"attention.{layer}"] = maps
    arrays["logits.masked"] = 2 * random.normal(size=(len(MASKED), VOCABULARY))
    arrays["logits.attended"] = 2 * random.normal(size=(sum(LENGTHS), VOCABULARY))
    return arrays


@pytest.fixture
def make_case() -> Callable[..., Case]:
    """Create a batch for encoders of given (layers, width, heads)."""

    def make(student: tuple = (2, 3, 2), teacher: tuple = (4, 5, 2), seed: int = 0) -> Case:
        random = np.random.default_rng(seed)
        shapes = Shape(*student), Shape(*teacher)
        return Case(
            *shapes,
            *(make_encoder(shape, random) for shape in shapes),
            attended=np.arange(max(LENGTHS))[None, :] < np.array(LENGTHS)[:, None],
            labels=list(MASKED.values()),
        )

    return make


@pytest.fixture
def agrees() -> Callable[[Objective, Case, Callable[[Arrays, Arrays], float]], None]:
    """Check loss and gradients of an objective against a function of NumPy arrays.

    The function gets the student's arrays, with the matrix W of each projection (student's width,
    teacher's width) under its name, and the teacher's arrays. Gradients are compared with its
    central differences.
    """

    def check(objective: Objective, case: Case, reference: Callable) -> None:
        objective.double()
        loss, _, tensors = case.loss(objective)
        loss.backward()
        inputs = {name: array.copy() for name, array in case.student.items()}
        gradients = {
            name: np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy()
            for name, tensor in tensors.items()
        }
        for name, parameter in objective.named_parameters():
            name = name.removesuffix(".weight")
            inputs[name] = parameter.detach().numpy().T.copy()
            gradients[name] = parameter.grad.numpy().T

        assert loss.item() == pytest.approx(reference(inputs, case.teacher), rel=1e-9)
        for name, array in inputs.items():
            expected = central_differences(lambda: reference(inputs, case.teacher), array)
            np.testing.assert_allclose(gradients[name], expected, atol=1e-7, err_msg=name)

    return check


def central_differences(function: Callable[[], float], array: np.ndarray) -> np.ndarray:
    """The derivative of a function with respect to each entry of an array that it reads."""
    step = 1e-5
    gradient = np.zeros(array.shape)
    for index in np.ndindex(array.shape):
        value = array[index]
        array[index] = value + step
        above = function()
        array[index] = value - step
        below = function()
        array[index] = value
        gradient[index] = (above - below) / (2 * step)
    return gradient


@pytest.fixture
def positions() -> list[tuple[int, int]]:
    """(sequence, position) of all positions except padding, in the batch's order."""
    return [(sequence, n) for sequence, valid in enumerate(LENGTHS) for n in range(valid)]


@pytest.fixture
def unpadded() -> Callable[[np.ndarray, int], np.ndarray]:
    """The hidden states (length, width) or maps (heads, length, length) of a sequence."""

    def cut(array: np.ndarray, sequence: int) -> np.ndarray:
        valid = LENGTHS[sequence]
        if array.ndim == 3:
            return array[sequence, :valid]
        return array[sequence, :, :valid, :valid]

    return cut


@pytest.fixture
def change_padding() -> Callable[[Case, str], None]:
    """Change the values at padding in the student's or the teacher's outputs."""

    def change(case: Case, which: str) -> None:
        padding = ~case.attended
        for name, array in getattr(case, which).items():
            if name.startswith("hidden."):
                array[padding] = 123.0
            if name.startswith("attention."):
                heads = array.shape[1]
                rows = np.repeat(padding[:, None, :, None], heads, axis=1)
                array[np.broadcast_to(rows | rows.swapaxes(2, 3), array.shape)] = 0.777

    return change
