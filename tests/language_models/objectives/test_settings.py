"""The settings of the objectives: terms without weight, and values that are refused."""

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.objectives import OBJECTIVES, Needs

NO_LOGITS = {"mlm_weight": 0, "soft_mlm_weight": 0}
NO_LAYERS = {"layer_weights": [0, 0]}
LAYERS = Needs("none", False, "all", True)
ALL = (True, "all", True)


@pytest.mark.parametrize(
    ("name", "settings", "needs", "terms"),
    [
        ("distilbert", {}, Needs("masked", True, "last"), "mlm soft_mlm align"),
        ("distilbert", {"align_weight": 0}, Needs("masked", True), "mlm soft_mlm"),
        ("distilbert", {"soft_mlm_weight": 0}, Needs("masked", False, "last"), "mlm align"),
        ("distilbert", NO_LOGITS, Needs("none", False, "last"), "align"),
        ("tinybert", {}, Needs("attended", *ALL), "embedding hidden_states attentions output"),
        (
            "tinybert",
            {"output_weight": 0, "embedding_weight": 0},
            LAYERS,
            "hidden_states attentions",
        ),
        ("tinybert", {**NO_LAYERS, "output_weight": 0}, Needs("none", False, "all"), "embedding"),
        ("tinybert", {**NO_LAYERS, "embedding_weight": 0}, Needs("attended", True), "output"),
        ("compact", {}, Needs("masked", *ALL), "mlm soft_mlm hidden_states attentions"),
        ("compact", {"layer_weight": 0}, Needs("masked", True), "mlm soft_mlm"),
        (
            "compact",
            {"soft_mlm_weight": 0},
            Needs("masked", False, "all", True),
            "mlm hidden_states attentions",
        ),
        ("compact", NO_LOGITS, LAYERS, "hidden_states attentions"),
    ],
)
def test_a_term_without_weight_is_neither_needed_nor_computed(
    make_case, name, settings, needs, terms
):
    case = make_case()
    objective = case.create(OBJECTIVES[name], **settings).double()
    assert objective.needs == needs
    loss, computed, _ = case.loss(objective)
    assert list(computed) == terms.split()
    assert loss.isfinite()


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        (
            "distilbert",
            {"mlm_weight": 0, "soft_mlm_weight": 0, "align_weight": 0},
            "all weights are 0",
        ),
        (
            "tinybert",
            {"layer_weights": [1]},
            r"layer_weights = \[1\]: 1 weights for a student of 2 layers",
        ),
        ("tinybert", {"layer_map": [1, 5]}, "the layers of the teacher are 1 to 4"),
        ("compact", {"layer_map": [4]}, "1 layers for a student of 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(make_case, name, settings, message):
    with pytest.raises(BiomedError, match=message):
        make_case().create(OBJECTIVES[name], **settings)
