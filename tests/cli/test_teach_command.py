"""`spacy biomed teach`."""

import pytest
import spacy
from commands import refuse, run


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("Aspirin for lung cancer. No symptoms.\nMetformin was given.\n")
    return path


@pytest.mark.slow
def test_it_writes_a_corpus_to_train_on(
    tiny_pipeline, tiny_corpus, tiny_config, texts, tmp_path, run_spacy
):
    output = tmp_path / "taught"
    printed = run("teach", tiny_pipeline, tiny_corpus, output, "--texts", texts)
    assert "20 annotated documents and 3 unlabelled ones (12 tokens), taught by biomed_ner" in (
        " ".join(printed.split())
    )
    names = [".spacy-biomed.json", "corpus.json", "dev.spacy", "test.spacy", "train.spacy"]
    assert sorted(path.name for path in output.iterdir()) == names
    student = tmp_path / "student"
    options = ["--output", student, "--paths.train", output / "train.spacy"]
    trained = run_spacy("train", tiny_config, *options)
    assert trained.returncode == 0, trained.stderr
    assert spacy.load(student / "model-last").get_pipe("biomed_ner").labels == ("C", "D")


def test_several_pipelines_teach_together(tiny_pipeline, tiny_corpus, tmp_path):
    output = tmp_path / "taught"
    printed = run("teach", tiny_pipeline, tiny_pipeline, tiny_corpus, output)
    assert "taught by biomed_ner" in " ".join(printed.split())


@pytest.mark.parametrize("missing", ["teacher", "corpus", "texts"])
def test_what_is_not_there_is_named_and_nothing_written(
    tiny_pipeline, tiny_corpus, texts, tmp_path, missing
):
    given = {"teacher": tiny_pipeline, "corpus": tiny_corpus, "texts": texts}
    given[missing] = tmp_path / "nowhere"
    output = tmp_path / "taught"
    assert str(tmp_path / "nowhere") in refuse(
        "teach", given["teacher"], given["corpus"], output, "--texts", given["texts"]
    )
    assert not output.exists()
