"""TinyBERT's objective, compared with equations 5 to 9 in NumPy."""

import numpy as np
import pytest

from spacy_biomed.language_models.objectives.papers import TinyBertObjective


@pytest.fixture
def make_reference(positions, unpadded):
    """Equation 9, entry by entry, for a layer map and λ_0 to λ_(M+1)."""

    def make(layer_map, lambdas, mean_heads=False):
        def squared_error(u, v):
            squares = [(u[position] - v[position]) ** 2 for position in positions]
            return np.concatenate(squares).mean()

        def attention_error(u, v):
            squares = []
            for sequence in range(3):
                a, b = unpadded(u, sequence), unpadded(v, sequence)
                if mean_heads:
                    a, b = a.mean(axis=0), b.mean(axis=0)
                squares.extend(((a - b) ** 2).ravel())
            return np.mean(squares)

        def reference(student, teacher):
            def project(name, states):
                return states @ student[name] if name in student else states

            loss = lambdas[0] * squared_error(
                project("project_embeddings", student["hidden.0"]), teacher["hidden.0"]
            )
            for layer, target in enumerate(layer_map, start=1):
                hidden = project("project", student[f"hidden.{layer}"])
                loss += lambdas[layer] * (
                    squared_error(hidden, teacher[f"hidden.{target}"])
                    + attention_error(student[f"attention.{layer}"], teacher[f"attention.{target}"])
                )
            for n in range(len(positions)):
                p, q = (
                    np.exp(arrays["logits.attended"][n])
                    / np.exp(arrays["logits.attended"][n]).sum()
                    for arrays in (teacher, student)
                )
                loss -= lambdas[-1] * np.sum(p * np.log(q)) / len(positions)
            return loss

        return reference

    return make


def test_loss_and_gradient_are_those_of_the_paper(make_case, agrees, make_reference):
    case = make_case()
    objective = case.create(TinyBertObjective)
    assert {name: tuple(p.shape) for name, p in objective.named_parameters()} == {
        "project_embeddings.weight": (5, 3),
        "project.weight": (5, 3),
    }
    agrees(objective, case, make_reference([2, 4], [1, 1, 1, 1]))


def test_encoders_of_one_width_need_no_projections(make_case, agrees, make_reference):
    case = make_case(student=(2, 4, 2), teacher=(4, 4, 2))
    objective = case.create(TinyBertObjective)
    assert not list(objective.parameters())
    agrees(objective, case, make_reference([2, 4], [1, 1, 1, 1]))


def test_layers_and_their_weights_are_what_was_given(make_case, agrees, make_reference):
    case = make_case()
    objective = case.create(
        TinyBertObjective,
        embedding_weight=0.5,
        layer_weights=[2.0, 0.3],
        output_weight=4,
        layer_map=[3, 1],
    )
    agrees(objective, case, make_reference([3, 1], [0.5, 2.0, 0.3, 4]))


def test_other_numbers_of_heads_are_compared_by_their_means(make_case, agrees, make_reference):
    case = make_case(student=(2, 3, 2), teacher=(2, 3, 3))
    agrees(
        case.create(TinyBertObjective), case, make_reference([1, 2], [1, 1, 1, 1], mean_heads=True)
    )


def test_terms_are_told_without_their_weights(make_case, make_reference):
    case = make_case(student=(2, 4, 2), teacher=(4, 4, 2))
    loss, terms, _ = case.loss(
        case.create(TinyBertObjective, embedding_weight=0.5, output_weight=3)
    )
    assert list(terms) == ["embedding", "hidden_states", "attentions", "output"]
    alone = {
        "embedding": [1, 0, 0, 0],
        "output": [0, 0, 0, 1],
    }
    for name, lambdas in alone.items():
        expected = make_reference([2, 4], lambdas)(case.student, case.teacher)
        assert terms[name].item() == pytest.approx(expected)
    layers = make_reference([2, 4], [0, 1, 1, 0])(case.student, case.teacher)
    assert (terms["hidden_states"] + terms["attentions"]).item() == pytest.approx(layers)
    assert loss.item() == pytest.approx(
        (0.5 * terms["embedding"] + layers + 3 * terms["output"]).item()
    )
