"""What a pipeline that cannot be loaded here needs, and its PyTorch form."""

from pathlib import Path

import pytest
import spacy

from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.pipeline.pipeline_loading import find_trainable, load_pipeline
from spacy_biomed.settings.config_errors import explaining_config_errors


@pytest.fixture
def saved(tmp_path):
    """Save a pipeline, and let its config have something else."""

    def save(old="", new="", *, name="sentences"):
        nlp = spacy.blank("es")
        nlp.add_pipe("sentencizer", name=name)
        nlp.to_disk(tmp_path / "pipeline")
        config = tmp_path / "pipeline" / "config.cfg"
        text = config.read_text(encoding="utf8")
        assert old in text
        config.write_text(text.replace(old, new), encoding="utf8")
        return str(tmp_path / "pipeline")

    return save


def refuse(pipeline):
    with pytest.raises(BiomedError) as refused:
        load_pipeline(pipeline)
    return str(refused.value)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ('factory = "sentencizer"', 'factory = "eds.negation"', "factories"),
        ("spacy.senter_scorer.v1", "my.scorer.v1", "scorers"),
        ("spacy.Tokenizer.v1", "my.Tokenizer.v1", "tokenizers"),
        ("before_creation = null", 'before_creation = {"@callbacks": "my.v1"}', "callbacks"),
    ],
)
def test_what_no_installed_package_provides_is_named_with_its_line(saved, old, new, kind):
    pipeline = saved(old, new)
    line = refuse(pipeline)
    place, message = line.split(": ", 1)
    config, _, number = place.rpartition(":")
    name = message.split("'")[1]
    with open(config, encoding="utf8") as file:
        assert f'"{name}"' in file.read().splitlines()[int(number) - 1]
    assert message == (
        f"'{name}' is not among the {kind}; install the package that provides it, or import it "
        "with --code FILE if the command has this option"
    )


def test_a_function_of_spacy_transformers_names_the_command_that_installs_it(saved, monkeypatch):
    monkeypatch.setattr("spacy_biomed.settings.config_errors.find_spec", lambda name: None)
    name = "spacy-transformers.missing.v1"
    pipeline = saved("before_creation = null", f'before_creation = {{"@callbacks": "{name}"}}')
    advice = f"'{name}' is not among the callbacks; {install_command('stock')}"
    assert refuse(pipeline).endswith(advice)
    config = Path(pipeline, "config.cfg")
    with pytest.raises(BiomedError) as refused, explaining_config_errors(config):
        spacy.load(pipeline)
    assert str(refused.value).endswith(advice)


def test_a_language_of_another_package_is_to_be_installed(saved):
    line = refuse(saved('lang = "es"', 'lang = "eds"'))
    assert "needs a package that is not installed" in line and "eds" in line
    assert line.endswith("; install it") and "copy" not in line


def test_a_module_that_a_component_imports_is_to_be_installed(saved):
    @spacy.Language.factory("needing_a_module")
    def create(nlp, name):
        import a_module_of_nobody  # noqa: F401

    pipeline = saved('factory = "sentencizer"\npunct_chars', 'factory = "needing_a_module"\n#')
    config = f"{pipeline}/config.cfg"
    with open(config, encoding="utf8") as file:
        kept = file.read().split("\n#")[0]
    with open(config, "w", encoding="utf8") as file:
        file.write(kept)
    line = refuse(pipeline)
    assert "a_module_of_nobody" in line and line.endswith("; install it")


def test_a_component_with_a_dot_in_its_name_is_named_with_a_better_name(saved):
    pipeline = saved(name="eds.negation")
    assert refuse(pipeline) == (
        f"{pipeline}/config.cfg:13: the component 'eds.negation' has a dot in its name, so spaCy "
        "cannot read its section; save the pipeline with another name for it: "
        "nlp.add_pipe(..., name='negation')"
    )


def test_a_damaged_pipeline_is_to_be_copied_again(saved, tmp_path):
    pipeline = saved()
    (tmp_path / "pipeline" / "vocab" / "strings.json").write_text("[", encoding="utf8")
    assert refuse(pipeline).endswith("; copy or install it again")


def test_the_pytorch_form_of_a_pipeline_is_its_folder_trainable(saved, tmp_path):
    pipeline = saved()
    assert find_trainable(pipeline) == pipeline
    spacy.blank("es").to_disk(tmp_path / "pipeline" / "trainable")
    assert find_trainable(pipeline) == str(tmp_path / "pipeline" / "trainable")
    assert find_trainable("an_installed_package") == "an_installed_package"
