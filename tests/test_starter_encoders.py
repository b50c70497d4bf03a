"""The included encoders."""

from pathlib import Path

import pytest
import torch

from spacy_biomed.language_models.initialization import load_language_model

ENCODERS = Path(__file__).parents[1] / "assets" / "encoders"


@pytest.mark.parametrize("name", ["starter-en", "starter-es"])
def test_a_starter_encoder_is_small(name):
    _, model, has_new_head = load_language_model(str(ENCODERS / name))
    assert not has_new_head
    assert model.num_parameters() <= 8_000_000
    assert (ENCODERS / name / "model.safetensors").stat().st_size <= 16_000_000


@pytest.mark.parametrize(
    ("name", "before", "after", "word"),
    [
        ("starter-en", "The patient had a", "attack.", "heart"),
        ("starter-es", "El paciente presentó dolor", "y fiebre.", "abdominal"),
        ("starter-es", "Mujer de 64", "con adenocarcinoma de colon.", "años"),
    ],
)
def test_a_starter_encoder_knows_what_is_missing(name, before, after, word):
    tokenizer, model, _ = load_language_model(str(ENCODERS / name))
    pieces = [
        tokenizer.tokenizer.encode(part, add_special_tokens=False) for part in (before, after)
    ]
    ids = [*tokenizer.prefix, *pieces[0].ids, tokenizer.mask, *pieces[1].ids, *tokenizer.suffix]
    with torch.no_grad():
        logits = model.eval()(torch.tensor([ids])).logits[0, ids.index(tokenizer.mask)]
    assert tokenizer.tokenizer.id_to_token(int(logits.argmax())) == word
