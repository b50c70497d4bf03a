"""`spacy biomed init-config` for one corpus: the config that it writes, however it is called."""

import pytest
from commands import call, refuse, run


def write_config(*arguments: object) -> str:
    output = arguments[-1]
    command = ["init-config", *map(str, arguments), "--encoder", "biobert", "--epochs", "2"]
    run(*command, catch_exceptions=False)
    return output.read_text(encoding="utf8")


def test_a_file_of_the_user_in_a_folder_of_that_name_is_the_template(
    tiny_corpus, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "ner.cfg").write_text("[training]\ndropout = 0.25\n", encoding="utf8")
    written = write_config("--template", "configs/ner.cfg", tiny_corpus, tmp_path / "own.cfg")
    assert "\ndropout = 0.25\n" in written
    assert "[components.biomed_ner]" in written


def test_a_recipe_of_a_paper_brings_its_epochs(tiny_corpus, tmp_path):
    output = tmp_path / "recipe.cfg"
    command = ["init-config", tiny_corpus, output, "--encoder", "biobert"]
    command += ["--template", "papers/rohanian_ner"]
    result = call(*command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert "5 epochs of" in " ".join(result.output.split())
    written = output.read_text(encoding="utf8")
    assert '\n@batchers = "spacy.batch_by_sequence.v1"\nsize = 16\n' in written
    assert "[recipe]" not in written


def make_encoder(folder):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf8")


@pytest.mark.parametrize(
    ("encoder", "problem"),
    [
        ("biobertt", "did you mean biobert"),
        ("BioBertt", "did you mean biobert"),
        ("no-encoder-at-all", "give one, a hub id (owner/name), or a name that"),
        ("./encoders/stater", "did you mean encoders/starter?"),
    ],
)
def test_an_encoder_that_is_nowhere_is_refused(
    tiny_corpus, tmp_path, monkeypatch, encoder, problem
):
    monkeypatch.chdir(tmp_path)
    make_encoder(tmp_path / "encoders" / "starter")
    (tmp_path / "encoders" / "statera").mkdir()
    for command in (
        ["init-config", str(tiny_corpus), "new.cfg"],
        ["init-config", "multitask", "new.cfg", "--tasks", "a,b"],
    ):
        line = refuse(*command, "--encoder", encoder)
        assert line.startswith(f"--encoder '{encoder}': no such directory; ")
        assert problem in line
    assert not (tmp_path / "new.cfg").exists()


@pytest.mark.parametrize("encoder", ["owner/biobertt", "BioBERT", "encoders/starter"])
def test_a_hub_id_a_catalogue_name_and_a_directory_are_encoders(
    tiny_corpus, tmp_path, monkeypatch, encoder
):
    monkeypatch.chdir(tmp_path)
    make_encoder(tmp_path / "encoders" / "starter")
    command = ["init-config", str(tiny_corpus), "new.cfg", "--encoder", encoder]
    run(*command)
    assert f'encoder = "{encoder}"' in (tmp_path / "new.cfg").read_text(encoding="utf8")


def test_the_directory_of_a_pipeline_is_no_encoder(tiny_corpus, tiny_pipeline, tmp_path):
    line = refuse("init-config", tiny_corpus, tmp_path / "new.cfg", "--encoder", tiny_pipeline)
    assert line.startswith(f"{tiny_pipeline}: no config.json there; an encoder directory holds")


def test_an_encoder_in_the_cache_needs_no_owner(tiny_corpus, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_biomed.training.config.is_on_disk", lambda name: name == "my-bert")
    output = tmp_path / "new.cfg"
    command = ["init-config", str(tiny_corpus), str(output), "--encoder", "my-bert"]
    run(*command)


def test_misspelt_names_of_a_corpus_a_task_and_a_template_are_asked_about(tiny_corpus, tmp_path):
    def refuse_config(*arguments: object) -> str:
        return refuse("init-config", *arguments, "--encoder", "biobert")

    output = tmp_path / "new.cfg"
    line = refuse_config(tiny_corpus.with_name("tinny"), output)
    assert "with --format" in line and line.endswith(f"did you mean {tiny_corpus}?")
    assert refuse_config(tiny_corpus, output, "--task", "nerr").endswith("did you mean ner?")
    line = refuse_config(tiny_corpus, output, "--template", "ner_liner")
    assert "did you mean ner_linear" in line
    assert not output.exists()
