"""MobileBERT's objective, compared with equations 12 and 13 in NumPy."""

import numpy as np
import pytest

from spacy_biomed.language_models.objectives.objective import Needs
from spacy_biomed.language_models.objectives.papers import MobileBertObjective


@pytest.fixture
def make_reference(positions, unpadded):
    """Equation 13, with the mean over positions in equation 12."""

    def make(labels, layer_map, alpha):
        def mobile(student, teacher, layer, target):
            squares, divergences = [], []
            for position in positions:
                h = student[f"hidden.{layer}"][position]
                if "project" in student:
                    h = h @ student["project"]
                squares.extend((h - teacher[f"hidden.{target}"][position]) ** 2)
            for sequence in range(3):
                a_s = unpadded(student[f"attention.{layer}"], sequence)
                a_t = unpadded(teacher[f"attention.{target}"], sequence)
                divergences.extend((a_s * np.log(a_s / a_t)).sum(axis=-1).ravel())
            return np.mean(squares) + np.mean(divergences)

        def reference(student, teacher):
            mlm = 0.0
            for n, label in enumerate(labels):
                logits = student["logits.masked"][n]
                mlm += (np.log(np.exp(logits).sum()) - logits[label]) / len(labels)
            layers = [mobile(student, teacher, *pair) for pair in enumerate(layer_map, start=1)]
            return alpha * mlm + (1 - alpha) * np.mean(layers)

        return reference

    return make


def test_loss_and_gradient_are_those_of_the_paper(make_case, agrees, make_reference):
    case = make_case(student=(3, 4, 2), teacher=(3, 4, 2))
    objective = case.create(MobileBertObjective)
    assert not list(objective.parameters())
    agrees(objective, case, make_reference(case.labels, [1, 2, 3], alpha=0.5))


def test_other_shapes_are_mapped_and_projected(make_case, agrees, make_reference):
    case = make_case()
    objective = case.create(MobileBertObjective, mlm_share=0.9, layer_map=[1, 4])
    assert [name for name, _ in objective.named_parameters()] == ["project.weight"]
    agrees(objective, case, make_reference(case.labels, [1, 4], alpha=0.9))


def test_terms_are_told_without_their_weights(make_case):
    case = make_case()
    loss, terms, _ = case.loss(case.create(MobileBertObjective, mlm_share=0.2).double())
    assert list(terms) == ["mlm", "hidden_states", "attentions"]
    weighted = 0.2 * terms["mlm"] + 0.8 * (terms["hidden_states"] + terms["attentions"])
    assert loss.item() == pytest.approx(weighted.item())


def test_a_teacher_without_a_language_model_head_will_do(make_case):
    case = make_case()
    objective = case.create(MobileBertObjective).double()
    assert objective.needs == Needs("masked", False, "all", True)
    del case.teacher["logits.masked"]
    assert case.loss(objective)[0].isfinite()
