"""The compact objective, compared with equations 10 and 11 in NumPy."""

import numpy as np
import pytest

from spacy_biomed.language_models.objectives.papers import CompactObjective


@pytest.fixture
def make_reference(positions, unpadded):
    """Equation 11, token by token."""

    def make(labels, layer_map, mlm, soft, layer):
        def compact(student, teacher, layer, target):
            cosines = divergence = 0.0
            for position in positions:
                h_s, h_t = (
                    student[f"hidden.{layer}"][position],
                    teacher[f"hidden.{target}"][position],
                )
                if "project" in student:
                    h_s = h_s @ student["project"]
                cosines += 1 - h_s @ h_t / (np.linalg.norm(h_s) * np.linalg.norm(h_t))
            for sequence in range(3):
                a_s = unpadded(student[f"attention.{layer}"], sequence)
                a_t = unpadded(teacher[f"attention.{target}"], sequence)
                for head in range(len(a_s)):
                    for n in range(len(a_s[head])):
                        divergence += np.sum(a_s[head, n] * np.log(a_s[head, n] / a_t[head, n]))
            heads = student[f"attention.{layer}"].shape[1]
            return cosines / len(positions) + divergence / (heads * len(positions))

        def reference(student, teacher):
            cross_entropy = divergence = 0.0
            for n, label in enumerate(labels):
                q = np.exp(student["logits.masked"][n])
                q /= q.sum()
                p = np.exp(teacher["logits.masked"][n])
                p /= p.sum()
                cross_entropy -= np.log(q[label])
                divergence += np.sum(p * np.log(p / q))
            layers = sum(compact(student, teacher, *pair) for pair in enumerate(layer_map, start=1))
            return (
                mlm * cross_entropy / len(labels) + soft * divergence / len(labels) + layer * layers
            )

        return reference

    return make


def test_loss_and_gradient_are_those_of_the_paper(make_case, agrees, make_reference):
    case = make_case(student=(2, 4, 2), teacher=(4, 4, 2))
    objective = case.create(CompactObjective)
    assert not list(objective.parameters())
    agrees(objective, case, make_reference(case.labels, [2, 4], mlm=1, soft=5, layer=3))


def test_a_narrower_student_is_projected_by_one_matrix(make_case, agrees, make_reference):
    case = make_case()
    objective = case.create(CompactObjective)
    assert [name for name, _ in objective.named_parameters()] == ["project.weight"]
    agrees(objective, case, make_reference(case.labels, [2, 4], mlm=1, soft=5, layer=3))


def test_weights_and_layers_are_what_was_given(make_case, agrees, make_reference):
    case = make_case()
    objective = case.create(
        CompactObjective, mlm_weight=0.4, soft_mlm_weight=0.2, layer_weight=7, layer_map=[4, 1]
    )
    reference = make_reference(case.labels, [4, 1], mlm=0.4, soft=0.2, layer=7)
    agrees(objective, case, reference)


def test_terms_are_told_without_their_weights(make_case, make_reference):
    case = make_case(student=(2, 4, 2), teacher=(4, 4, 2))
    loss, terms, _ = case.loss(case.create(CompactObjective))
    assert list(terms) == ["mlm", "soft_mlm", "hidden_states", "attentions"]
    layers = make_reference(case.labels, [2, 4], 0, 0, 1)(case.student, case.teacher)
    assert (terms["hidden_states"] + terms["attentions"]).item() == pytest.approx(layers)
    weighted = terms["mlm"] + 5 * terms["soft_mlm"] + 3 * layers
    assert loss.item() == pytest.approx(weighted.item())
