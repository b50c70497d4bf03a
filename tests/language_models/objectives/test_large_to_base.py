"""The objective "large_to_base", compared with Lewis et al. 2020, section 7.1, in NumPy."""

import numpy as np

from spacy_biomed.language_models.objectives.papers import LargeToBaseObjective


def distribution(logits):
    exponentials = np.exp(logits / 2)
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def test_loss_and_gradient_are_those_of_the_paper(make_case, agrees, positions):
    case = make_case()

    def reference(student, teacher):
        logits = student["logits.masked"]
        log_sums = np.log(np.exp(logits).sum(axis=-1))
        mlm = np.mean(log_sums - logits[np.arange(len(logits)), case.labels])
        p, q = distribution(teacher["logits.masked"]), distribution(logits)
        divergence = 4 * np.mean((p * (np.log(p) - np.log(q))).sum(axis=-1))
        cosines = []
        for position in positions:
            u = student["hidden.2"][position] @ student["project"]
            v = teacher["hidden.4"][position]
            cosines.append(u @ v / np.linalg.norm(u) / np.linalg.norm(v))
        return 5 * mlm + 2 * divergence + (1 - np.mean(cosines))

    agrees(case.create(LargeToBaseObjective), case, reference)


def test_without_alignment_nothing_is_projected(make_case):
    case = make_case()
    objective = case.create(LargeToBaseObjective, align_weight=0)
    assert not list(objective.parameters())
    assert list(case.loss(objective)[1]) == ["mlm", "soft_mlm"]
