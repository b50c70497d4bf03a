"""What is wrong with a config, and in which line."""

import pytest
import spacy
from spacy.errors import Errors
from spacy.util import load_config, load_model_from_config

from spacy_biomed.errors import BiomedError
from spacy_biomed.settings.config_errors import explain_config_error, explaining_config_errors
from spacy_biomed.training.config import TEMPLATES, fill_config


def explain(path):
    """What a pipeline made of the config, and its training settings, cannot be made of."""
    try:
        config = load_config(path)
        load_model_from_config(config, auto_fill=True)
        spacy.registry.resolve(config.interpolate()["training"])
    except Exception as error:
        return explain_config_error(path, path.read_text(), error)
    raise AssertionError("nothing wrong with the config")


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (
            '"spacy_biomed.TokenClassifier.v1"',
            '"spacy_biomed.TokenClasifier.v1"',
            "'spacy_biomed.TokenClasifier.v1' is not among the architectures; did you mean "
            "spacy_biomed.TokenClassifier.v1",
        ),
        (
            '"spacy_biomed.AdamW.v1"',
            '"nothing.like.it"',
            "'nothing.like.it' is not among the optimizers; check its spelling, or install",
        ),
        (
            'factory = "biomed_ner"',
            'factory = "biomed_nre"',
            "'biomed_nre' is not among the factories; did you mean biomed_ner",
        ),
        (
            '["biomed_transformer", "biomed_ner",',
            '["biomed_transformer", "biomed_nre",',
            "'biomed_nre' is not among the [components]; did you mean biomed_ner",
        ),
        (
            'scheme = "biluo"',
            'sheme = "biluo"',
            "biomed_ner.sheme: unexpected argument: 'sheme'; did you mean scheme?",
        ),
        (
            'scheme = "biluo"',
            'scheme = "bilou"',
            "biomed_ner.scheme: 'bilou' is not one of 'biluo', 'bio'; correct it",
        ),
        (
            'pooling = "first"',
            "pooling = 3",
            "biomed_ner.model.tok2vec.pooling: 3 is not one of",
        ),
        (
            "name = ${vars.encoder}",
            "name = ${vars.encodr}",
            "components.biomed_transformer.model.name: ${vars.encodr} refers to a setting that",
        ),
        ("[training.batcher]", "[training.batcher", "Make sure the sections"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_line_of_the_config(
    converted, tmp_path, right, wrong, message
):
    text = fill_config(converted, encoder="biobert", epochs=1).to_str()
    lines = text.splitlines()
    number = next(i for i, line in enumerate(lines, start=1) if right in line)
    path = tmp_path / "train.cfg"
    path.write_text(text.replace(right, wrong, 1), encoding="utf8")
    explained = explain(path)
    assert explained.startswith(f"{path}:{number}: {message}")
    assert "\n" not in explained


@pytest.mark.parametrize(
    "error",
    [
        ValueError(Errors.E1015.format(value="[training] seed")),
        KeyError(Errors.E900.format(pipeline=["ner"])),
        ValueError(Errors.E986),
    ],
)
def test_an_error_that_spacy_numbers_is_one_line(error):
    path = TEMPLATES / "base.cfg"
    with pytest.raises(BiomedError) as raised, explaining_config_errors(path):
        raise error
    message = str(raised.value)
    assert message.startswith(f"{path}: {error.args[0][:30]}")
    assert message[-1] not in "'\"" and "\n" not in message


def test_an_error_that_is_not_about_the_config_is_not_explained():
    for error in (ValueError("something else"), KeyError("name")):
        assert explain_config_error(TEMPLATES / "base.cfg", "", error) is None


def test_an_error_about_a_value_of_the_config_gets_its_line(tmp_path):
    path = tmp_path / "train.cfg"
    path.write_text('[paths]\ntrain = "a/train.spacy"\n')
    with (
        pytest.raises(BiomedError, match=f"^{path}:2: a/train.spacy: no such file"),
        explaining_config_errors(path),
    ):
        raise BiomedError("a/train.spacy: no such file; check the path")
    for message in (f"{path}:1: 'a/train.spacy' is wrong", "about something else"):
        with pytest.raises(BiomedError, match=f"^{message}$"), explaining_config_errors(path):
            raise BiomedError(message)


def test_other_exceptions_than_those_of_the_config_pass(tmp_path):
    for error in (ZeroDivisionError("one by zero"), ValueError("something else")):
        expected = pytest.raises(type(error), match=str(error))
        with expected, explaining_config_errors(TEMPLATES / "base.cfg"):
            raise error
