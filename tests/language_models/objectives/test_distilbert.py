"""The objectives "distilbert" and "large_to_base", compared with equations 1 to 4 in NumPy."""

import numpy as np
import pytest

from spacy_biomed.language_models.objectives.papers import DistilBertObjective

SAME_WIDTH = {"student": (2, 4, 2), "teacher": (4, 4, 2)}


@pytest.fixture
def make_reference(positions):
    """The weighted sum, token by token."""

    def make(labels, mlm, soft, align, temperature=1.0):
        def reference(student, teacher):
            cross_entropy = divergence = 0.0
            for n, label in enumerate(labels):
                cross_entropy -= np.log(softmax(student["logits.masked"][n])[label])
                p = softmax(teacher["logits.masked"][n] / temperature)
                q = softmax(student["logits.masked"][n] / temperature)
                divergence += np.sum(p * np.log(p / q))
            distance = 0.0
            last_student, last_teacher = (
                max(name for name in arrays if name.startswith("hidden."))
                for arrays in (student, teacher)
            )
            for position in positions:
                u = student[last_student][position]
                if "project" in student:
                    u = u @ student["project"]
                v = teacher[last_teacher][position]
                distance += 1 - u @ v / np.sqrt((u @ u) * (v @ v))
            return (
                mlm * cross_entropy / len(labels)
                + soft * temperature**2 * divergence / len(labels)
                + align * distance / len(positions)
            )

        return reference

    return make


def softmax(logits):
    exponentials = np.exp(logits)
    return exponentials / exponentials.sum()


def test_loss_and_gradient_are_those_of_the_paper(make_case, agrees, make_reference):
    case = make_case(**SAME_WIDTH)
    objective = case.create(DistilBertObjective)
    assert not list(objective.parameters())
    agrees(objective, case, make_reference(case.labels, mlm=2, soft=5, align=1))


def test_a_narrower_student_is_projected(make_case, agrees, make_reference):
    case = make_case()
    objective = case.create(DistilBertObjective)
    assert [(n, tuple(p.shape)) for n, p in objective.named_parameters()] == [
        ("project.weight", (5, 3))
    ]
    agrees(objective, case, make_reference(case.labels, mlm=2, soft=5, align=1))


def test_weights_and_temperature_are_what_was_given(make_case, agrees, make_reference):
    case = make_case()
    settings = {"mlm_weight": 0.3, "soft_mlm_weight": 0.7, "align_weight": 2.5, "temperature": 3.0}
    reference = make_reference(case.labels, mlm=0.3, soft=0.7, align=2.5, temperature=3.0)
    agrees(case.create(DistilBertObjective, **settings), case, reference)


def test_terms_are_told_without_their_weights(make_case, make_reference):
    case = make_case()
    objective = case.create(DistilBertObjective).double()
    loss, terms, _ = case.loss(objective)
    assert list(terms) == ["mlm", "soft_mlm", "align"]
    projections = {"project": objective.project.weight.detach().numpy().T}
    for name, weights in zip(terms, np.eye(3), strict=True):
        expected = make_reference(case.labels, *weights)(case.student | projections, case.teacher)
        assert terms[name].item() == pytest.approx(expected)
    weighted = 2 * terms["mlm"] + 5 * terms["soft_mlm"] + terms["align"]
    assert loss.item() == pytest.approx(weighted.item())
