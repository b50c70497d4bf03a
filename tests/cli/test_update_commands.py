"""`spacy biomed init-config --source`, from the notes to what the pipeline learns of them."""

import pytest
import spacy
from commands import call, error_line
from spacy.util import load_config

from spacy_biomed.corpora.convert import convert_corpus

NOTES = "BRCA1\tB-GENE\nwas\tO\nfound\tO\n.\tO\n\nNo\tO\nsymptoms\tO\n.\tO\n\n"


def invoke(*arguments, fails=False):
    result = call(*arguments, columns=400)
    if fails:
        return error_line(result)
    assert result.exit_code == 0, result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
    """A corpus of a label that the tiny pipeline lacks."""
    folder = tmp_path_factory.mktemp("notes")
    (folder / "source").mkdir()
    for part, times in (("train", 6), ("dev", 1), ("test", 1)):
        (folder / "source" / f"{part}.tsv").write_text(NOTES * times)
    convert_corpus("notes", folder / "source", folder / "notes", format="columns", language="en")
    return folder / "notes"


@pytest.fixture
def output(tmp_path):
    return tmp_path / "out.cfg"


def test_labels_that_may_be_forgotten_are_named_with_what_keeps_them(tiny_pipeline, notes, output):
    printed = invoke("init-config", notes, output, "--source", tiny_pipeline)
    assert "new labels: GENE" in printed
    assert f"{notes} does not annotate C, D, which the pipeline will forget" in printed
    assert f"teach {tiny_pipeline} {notes} {notes}_rehearsed`" in printed
    assert load_config(output)["components"]["biomed_ner"] == {"source": "${vars.source}"}


@pytest.mark.slow
def test_the_commands_of_an_update_follow_each_other(tiny_pipeline, notes, output, tmp_path):
    taught, trained = tmp_path / "taught", tmp_path / "trained"
    invoke("teach", tiny_pipeline, notes, taught, "--texts", "")
    printed = invoke("init-config", taught, output, "--source", tiny_pipeline)
    assert "forget" not in printed
    invoke("train", output, "--output", trained, "--vars.max_steps", "2")
    nlp = spacy.load(trained / "model-last")
    assert nlp.get_pipe("biomed_ner").labels == ("C", "D", "GENE")


def test_heads_that_do_not_learn_on_an_encoder_that_does_are_named(
    tiny_pipeline, notes, output, tmp_path
):
    nlp = spacy.load(tiny_pipeline)
    nlp.add_pipe("biomed_ner", "other", config={"spans_key": "other"}).add_label("X")
    nlp.to_disk(tmp_path / "two")
    printed = invoke("init-config", notes, output, "--source", tmp_path / "two")
    assert "other: not trained, on an encoder that is" in printed


@pytest.mark.parametrize("both", [True, False])
def test_either_an_encoder_or_a_pipeline_is_needed(tiny_pipeline, notes, output, both):
    options = ["--encoder", "biobert", "--source", tiny_pipeline] if both else []
    message = invoke("init-config", notes, output, *options, fails=True)
    assert message.startswith("give either --encoder, to train a new pipeline, or --source")
    assert not output.exists()


def test_what_is_trained_does_not_replace_the_pipeline_that_it_comes_from(
    tiny_pipeline, notes, output
):
    invoke("init-config", notes, output, "--source", tiny_pipeline)
    folder = tiny_pipeline.parent
    message = invoke("train", output, "--output", folder, fails=True)
    assert str(tiny_pipeline) in message
