"""Bad input is one line that says what, where and what to do, in every command of ours."""

import shutil
import sys
from pathlib import Path

import pytest
import spacy
import typer
from commands import error_line, refuse, run
from spacy.tokens import DocBin
from typer.testing import CliRunner

from spacy_biomed.cli._shared.bad_input import OneLineGroup, explain_os_error
from spacy_biomed.errors import BiomedError


def train(run_spacy, config: str, tmp_path: Path) -> str:
    """Run a training that refuses its config, and return what it prints as an error."""
    path = tmp_path / "train.cfg"
    path.write_text(config, encoding="utf8")
    done = run_spacy("biomed", "train", path, "--output", tmp_path / "training")
    assert done.returncode == 1
    line = done.stderr.strip().splitlines()[-1]  # warnings may come before
    assert not any((tmp_path / "training").rglob("*"))
    return line


def number_of(line: str, text: str) -> int:
    return next(i for i, other in enumerate(text.splitlines(), start=1) if line in other)


def test_train_names_the_line_of_an_unknown_architecture(run_spacy, tiny_config, tmp_path):
    config = tiny_config.read_text().replace("TokenClassifier.v1", "Nope.v1")
    number = number_of("Nope.v1", config)
    assert train(run_spacy, config, tmp_path).startswith(
        f"✘ {tmp_path}/train.cfg:{number}: 'spacy_biomed.Nope.v1' is not among the architectures"
    )


def test_train_names_the_line_of_an_unknown_setting(run_spacy, tiny_config, tmp_path):
    config = tiny_config.read_text().replace("scheme =", "sheme =")
    number = number_of("sheme =", config)
    assert train(run_spacy, config, tmp_path) == (
        f"✘ {tmp_path}/train.cfg:{number}: biomed_ner.sheme: unexpected argument: 'sheme'; did "
        "you mean scheme?"
    )


def test_train_names_the_line_of_an_encoder_that_is_not_there(
    run_spacy, tiny_config, tiny_bert, tmp_path
):
    config = tiny_config.read_text().replace(str(tiny_bert), "encoders/of/none")
    number = number_of("encoders/of/none", config)
    assert train(run_spacy, config, tmp_path).startswith(
        f"✘ {tmp_path}/train.cfg:{number}: encoders/of/none: no such encoder directory"
    )


def test_spacys_own_train_ends_with_the_line(run_spacy, tiny_config, tiny_bert, tmp_path):
    path = tmp_path / "train.cfg"
    path.write_text(tiny_config.read_text().replace(str(tiny_bert), "encoders/of/none"))
    done = run_spacy("train", path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "BiomedError: encoders/of/none: no such encoder directory" in last


def test_train_names_the_line_of_labels_that_leave_one_out(run_spacy, tiny_config, tmp_path):
    config = tiny_config.read_text()
    config += "\n[initialize]\n\n[initialize.components]\n\n[initialize.components.biomed_ner]\n"
    config += 'labels = ["D"]\n'
    number = number_of('labels = ["D"]', config)
    assert train(run_spacy, config, tmp_path).startswith(
        f"✘ {tmp_path}/train.cfg:{number}: label 'C' of a gold mention"
    )


def test_train_finds_a_damaged_development_part_before_it_begins(
    run_spacy, tiny_config, tiny_corpus, tmp_path
):
    (tmp_path / "dev.spacy").write_bytes((tiny_corpus / "dev.spacy").read_bytes()[:100])
    config = tiny_config.read_text().replace(f"{tiny_corpus}/dev.spacy", f"{tmp_path}/dev.spacy")
    number = number_of(f"{tmp_path}/dev.spacy", config)
    assert train(run_spacy, config, tmp_path).startswith(
        f"✘ {tmp_path}/train.cfg:{number}: {tmp_path}/dev.spacy: not a readable .spacy file"
    )


def test_a_sub_command_prints_one_line_and_exits_with_status_1(run_spacy, tmp_path):
    done = run_spacy("biomed", "annotate", "nope", "Aspirin.", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("✘ nope: neither an installed pipeline package nor a pipeline directory")
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_argument_is_one_line_and_exit_status_1(run_spacy):
    done = run_spacy("biomed", "convert", "--seeed", "1")
    assert done.returncode == 1
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("✘ No such option: --seeed")
    assert line.endswith("see `python -m spacy biomed convert --help`")


@pytest.mark.parametrize("group", ["study", "init-config"])
def test_a_group_without_a_command_is_one_line(group):
    line = refuse(group)
    assert line.startswith("Missing command; see `")
    assert line.endswith(f"{group} --help`")


def fail_with(error: Exception):
    """The result of a command that raises an error."""
    failing = typer.Typer(cls=OneLineGroup)

    @failing.command()
    def fail() -> None:
        raise error

    failing.callback()(lambda: None)
    return CliRunner().invoke(failing, ["fail"])


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("one by zero"),
        ValueError("not a number"),
        FileNotFoundError(2, "No such file", "/of/ours.py"),
    ],
)
def test_every_other_error_keeps_its_traceback(error):
    result = fail_with(error)
    assert result.exception is error
    assert result.stderr == ""


def test_a_text_that_is_too_long_for_spacy_is_bad_input():
    nlp = spacy.blank("en")
    nlp.max_length = 1_000
    with pytest.raises(ValueError, match="E088") as raised:
        nlp("a" * 1_200)
    line = error_line(fail_with(raised.value))
    assert line == "a text of 1,200 characters, and the pipeline reads 1,000; divide it"


def test_a_file_of_the_users_that_cannot_be_read_is_bad_input(tmp_path, monkeypatch):
    path = tmp_path / "in" / "a.txt"
    monkeypatch.setattr(sys, "argv", ["spacy", "biomed", "convert", "own", str(path.parent), "out"])
    line = error_line(fail_with(PermissionError(13, "Permission denied", str(path))))
    assert line == f"{path}: Permission denied; check the path and the permissions"


def test_a_file_that_nobody_named_is_not_bad_input():
    error = PermissionError(13, "Permission denied", "/of/ours.py")
    assert explain_os_error(error, ["biomed", "convert", "own", "in", "out"]) is None
    assert explain_os_error(OSError(5, "I/O error"), ["biomed", "card"]) is None
    here = FileNotFoundError(2, "No such file or directory", str(Path("of_ours.py").absolute()))
    assert explain_os_error(here, ["biomed", "build", "--dry-run"]) is None


def test_the_value_of_an_option_is_named_with_either_spelling():
    error = PermissionError(13, "Permission denied", "/no/build/corpora")
    line = "/no/build/corpora: Permission denied; check the path and the permissions"
    assert explain_os_error(error, ["biomed", "build", "x.cfg", "--output=/no/build"]) == line
    assert explain_os_error(error, ["biomed", "build", "x.cfg", "--output", "/no/build"]) == line


@pytest.fixture
def damaged(tiny_corpus, tmp_path):
    """A folder of converted parts: damaged, without documents, and missing."""
    folder = tmp_path / "damaged"
    folder.mkdir()
    (folder / "cut.spacy").write_bytes((tiny_corpus / "train.spacy").read_bytes()[:200])
    DocBin().to_disk(folder / "none.spacy")
    return folder


def test_init_config_refuses_what_is_no_converted_corpus(tmp_path):
    arguments = ["init-config", tmp_path, tmp_path / "x.cfg", "--encoder", "biobert"]
    assert "corpus.json: not there; `python -m spacy biomed convert` writes it" in refuse(
        *arguments
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "message"),
    [("folder", "this is a directory; name a file"), ("file/x.cfg", "cannot be written")],
)
def test_init_config_refuses_an_output_that_cannot_be(tiny_corpus, tmp_path, output, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("a file")
    arguments = ["init-config", tiny_corpus, tmp_path / output, "--encoder", "biobert"]
    assert message in refuse(*arguments)
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "folder"]


def test_convert_refuses_copies_of_nothing(tmp_path):
    line = refuse("convert", "own", tmp_path, tmp_path / "out", "--copies", 2)
    assert line == "--copies needs --replace-mentions FOLDER, a folder of term lists"


def test_convert_takes_the_workflows_empty_term_list_as_none(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "train.tsv").write_text("a\tO\n\nb\tO\n\n")
    arguments = ["convert", "own", tmp_path / "in", tmp_path / "out", "--format", "columns"]
    arguments += ["--replace-mentions", "", "--copies", 8]
    run(*arguments)


def test_convert_refuses_a_folder_that_is_missing_and_one_that_is_a_file(tmp_path):
    missing = refuse("convert", "own", tmp_path / "no", tmp_path / "out", "--format", "columns")
    assert missing == f"{tmp_path}/no: no such file or folder; check the path"
    (tmp_path / "train.tsv").write_text("a\tO\n\nb\tO\n\n")
    (tmp_path / "out").write_text("a file")
    arguments = ["convert", "own", tmp_path, tmp_path / "out", "--format", "columns"]
    assert refuse(*arguments) == f"{tmp_path}/out: this is a file; name a directory to write to"


def test_annotate_refuses_what_is_no_pipeline(tmp_path):
    assert "neither an installed pipeline package nor" in refuse("annotate", tmp_path / "no", "a")
    assert "neither an installed pipeline package nor" in refuse("annotate", tmp_path, "a")


def test_annotate_tells_a_pipeline_with_missing_files_from_none(tiny_pipeline, tmp_path):
    shutil.copytree(tiny_pipeline, tmp_path / "pipeline")
    shutil.rmtree(tmp_path / "pipeline" / "biomed_transformer")
    line = refuse("annotate", tmp_path / "pipeline", "a")
    assert line.startswith(f"{tmp_path}/pipeline/biomed_transformer: lacks the file")
    assert "neither" not in line


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("cut.spacy", "cut.spacy: not a readable .spacy file"),
        ("missing.spacy", "missing.spacy: no such file"),
        ("none.spacy", "none.spacy: no documents there"),
    ],
)
def test_annotate_refuses_a_corpus_it_cannot_read(tiny_pipeline, damaged, file, message):
    assert message in refuse("annotate", tiny_pipeline, "--corpus", damaged / file)


@pytest.mark.parametrize(
    ("option", "value"),
    [("--n-process", "2"), ("--engine", "ray"), ("--shard-size", "10"), ("--max-errors", "0")],
)
def test_annotate_refuses_an_option_of_collections_for_a_text(option, value):
    line = refuse("annotate", "en_none", "Aspirin.", option, value)
    assert line == f"{option} is for a collection: name OUTPUT, or leave it out"


def test_train_refuses_an_option_that_is_no_setting(tiny_config, tmp_path):
    line = refuse("train", tiny_config, "-o", tmp_path, "--resum", "yes")
    assert line.startswith("No such option")
    assert "--resum" in line
    assert line.endswith("train --help`")


def test_card_refuses_metrics_that_are_not_json(tiny_pipeline, tiny_corpus, tmp_path):
    (tmp_path / "m.json").write_text("{\n")
    arguments = ["--corpus", tiny_corpus, "--metrics", tmp_path / "m.json"]
    line = refuse("card", tiny_pipeline, tmp_path / "out", *arguments)
    assert line.startswith(f"{tmp_path}/m.json:2: not JSON")
    assert not (tmp_path / "out").exists()


def test_install_refuses_a_folder_without_a_wheel(tmp_path):
    line = refuse("install", tmp_path)
    assert line.startswith(f"{tmp_path}: no wheel there; `python -m spacy package PIPELINE")


def test_a_line_that_is_printed_has_no_control_character_and_an_end():
    error = BiomedError(f"notes\x1b[2J/\u202eton.ann:1: malformed\r\n{'x' * 100_000}")
    line = error_line(fail_with(error))
    assert line.startswith(r"notes\x1b[2J/\u202eton.ann:1: malformed\r\nxxx")
    assert len(line) <= 1000
    assert line.isprintable()


def test_a_config_of_another_command_is_named_as_such(tiny_config, tmp_path):
    root = Path(__file__).parents[2]
    configs = {
        "train": tiny_config,
        "pretrain": root / "configs/language_models/starter_en.cfg",
        "distill": root / "configs/language_models/starter_from_teacher.cfg",
        "build": root / "configs/pipelines/en_biomed_ner.cfg",
        "study run": root / "spacy_biomed/studies/configs/lewis_table_2.cfg",
    }
    for command in configs:
        options = ["--output", tmp_path / "out"] if command == "train" else []
        for other, config in configs.items():
            if other != command:
                line = refuse(*command.split(), config, *options)
                assert f"so it is for `python -m spacy biomed {other}`" in line
    assert not (tmp_path / "out").exists()
