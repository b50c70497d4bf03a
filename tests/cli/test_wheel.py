"""From a trained pipeline to a wheel that installs and loads."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import spacy
from commands import call, error_line, refuse, run
from spacy.tokens import DocBin, Span
from spacy.vocab import Vocab

from spacy_biomed.annotations.pairs import pair
from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.cli.annotate import findings
from spacy_biomed.pipeline.mention_layer import install_extensions


@pytest.fixture(scope="module")
def described(tiny_pipeline, tiny_corpus):
    """The tiny pipeline, scored by `spacy evaluate` and described by `spacy biomed card`."""
    from spacy.cli.evaluate import evaluate

    folder = tiny_corpus.parent
    metrics = folder / "metrics.json"
    evaluate(str(tiny_pipeline), tiny_corpus / "test.spacy", metrics, spans_key="unseen")
    arguments = ["--corpus", tiny_corpus, "--metrics", metrics, "--name", "tiny_ner"]
    run("card", tiny_pipeline, folder / "described", *arguments, "--version", "0.2.0")
    return folder / "described"


@pytest.fixture(scope="module")
def wheel(described, run_spacy):
    """The wheel that `spacy package` builds of it, without the network."""
    output = described.parent / "packages"
    output.mkdir()
    done = run_spacy("package", described, output, "--build", "wheel")
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = output.rglob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_has_the_card_and_the_meta_with_the_scores(wheel, described):
    assert wheel.name == "en_tiny_ner-0.2.0-py3-none-any.whl"
    folder = "en_tiny_ner/en_tiny_ner-0.2.0"
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        meta = json.loads(archive.read("en_tiny_ner/meta.json"))
        card = archive.read(f"{folder}/README.md").decode("utf8")
        metadata = archive.read("en_tiny_ner-0.2.0.dist-info/METADATA").decode("utf8")
    assert card == (described / "README.md").read_text(encoding="utf8")
    assert f"python -m pip install --find-links wheels {wheel.name}\n" in card
    assert "## Scores on the test part" in metadata
    measured = json.loads((described.parent / "metrics.json").read_text(encoding="utf8"))
    assert meta["performance"] == measured
    assert {"ents_f", "ents_per_type", "spans_unseen_f"} <= set(meta["performance"])
    assert meta["labels"]["biomed_ner"] == ["C", "D"]
    assert meta["spacy_biomed"]["corpus"] == "tiny"
    assert "Requires-Dist: spacy-biomed[train]" in metadata
    assert f"{folder}/biomed_transformer/encoder/model.safetensors" in names


def test_the_wheel_has_no_pickle(wheel):
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    # Pickles begin with the opcode PROTO and a version from 2 to 5; PyTorch's own are zip archives.
    for name, content in contents.items():
        assert content[:2] not in {bytes([0x80, version]) for version in range(2, 6)}, name
        assert not content.startswith(b"PK"), name


def test_the_wheel_installs_offline_into_an_environment_and_loads_there(wheel, tmp_path):
    """Into one that sees the packages of this one, as a user's has spacy-biomed."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv", "--without-pip"], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    here = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "here.pth").write_text("\n".join([*here, str(Path(__file__).parents[2])]))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PIP_NO_INDEX": "1"}
    command = [python, "-m", "spacy", "biomed", "install", wheel.parents[1]]
    done = subprocess.run(
        command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"Installed {wheel.name}" in done.stdout
    assert f"python -m pip install --find-links wheels {wheel.name}\n" in done.stdout
    assert (packages / "en_tiny_ner").is_dir()
    code = (
        "import spacy; nlp = spacy.load('en_tiny_ner'); print(nlp.meta['version'], nlp('Aspirin'))"
    )
    loaded = subprocess.run(
        [python, "-c", code], capture_output=True, text=True, env=env, cwd=tmp_path, check=False
    )
    assert loaded.stdout.split() == ["0.2.0", "Aspirin"], loaded.stderr


def test_of_several_wheels_in_a_folder_the_newest_is_installed(tmp_path, monkeypatch):
    (tmp_path / "new").mkdir()
    for name, age in (("new/b-2-py3-none-any.whl", 0), ("b-1-py3-none-any.whl", 100)):
        with zipfile.ZipFile(tmp_path / name, "w") as wheel:
            wheel.writestr("b/__init__.py", "")
        os.utime(tmp_path / name, (1000 - age, 1000 - age))
    commands = []

    def record(command, **settings):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", record)
    assert "Installed b-2-py3-none-any.whl" in run("install", tmp_path)
    (command,) = commands
    assert command[0] == sys.executable
    assert command[-1] == str(tmp_path / "new" / "b-2-py3-none-any.whl")
    assert {"--no-index", "--no-deps", "--force-reinstall"} <= set(command)
    assert not any("b-1" in argument for argument in command)
    printed = run("install", tmp_path / "b-1-py3-none-any.whl")
    assert "Installed b-1-py3-none-any.whl" in printed


def test_a_wheel_that_pip_refuses_is_bad_input(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "b-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("b/__init__.py", "")
    failed = subprocess.CompletedProcess([], 1, stderr="ERROR: no metadata")
    monkeypatch.setattr(subprocess, "run", lambda command, **settings: failed)
    result = call("install", tmp_path)
    assert "b-1-py3-none-any.whl: not installed (no metadata)" in error_line(result)
    (tmp_path / "b-1-py3-none-any.whl").write_bytes(b"no archive")
    result = call("install", tmp_path)
    assert "not a wheel" in error_line(result)


@pytest.mark.slow
def test_annotate_prints_the_text_and_what_was_found(tiny_pipeline):
    lines = run("annotate", tiny_pipeline, "Aspirin for lung cancer.").splitlines()
    doc = spacy.load(tiny_pipeline)("Aspirin for lung cancer.")
    *found, warning = lines[1:]
    assert found == ["Aspirin for lung cancer.", *(f"  {one}" for one in findings(doc))]
    assert warning.startswith("⚠ the confidence of biomed_ner is not calibrated")


def test_entities_come_with_their_probabilities_and_classes_by_rank():
    install_extensions()
    doc = spacy.blank("en")("Aspirin for gout")
    doc.set_ents([doc.char_span(0, 7, label="C")])
    doc.ents[0]._.confidence = 0.987
    doc.cats = {"low": 0.1, "high": 0.75}
    assert findings(doc) == ["Aspirin [C] 0.99", "high 0.75", "low 0.10"]


def test_entities_without_a_probability_are_printed_without_one():
    install_extensions()
    doc = spacy.blank("en")("Aspirin for gout")
    doc.set_ents([doc.char_span(0, 7, label="C")])  # as by spaCy's own ner
    assert findings(doc) == ["Aspirin [C]"]


def test_the_code_of_an_entity_is_printed_with_its_name():
    install_extensions()
    Span.set_extension("code_name", default=None, force=True)
    doc = spacy.blank("en")("Aspirin for gout")
    drug = doc.char_span(0, 7, label="C", kb_id="D001241")
    doc.set_ents([drug])
    drug._.confidence = 0.5
    assert findings(doc) == ["Aspirin [C] 0.50, D001241"]
    drug._.code_name = "aspirin"
    assert findings(doc) == ["Aspirin [C] 0.50, D001241 aspirin"]


def test_span_groups_and_relations_are_printed_and_the_texts_of_a_pair_are_not():
    install_extensions()
    doc = pair(spacy.blank("en"), "Which drug?", "Aspirin for gout")
    drug, disease = doc.char_span(12, 19, label="answer"), doc.char_span(24, 28, label="D")
    drug._.confidence = 0.5
    doc.spans["answer"], doc.spans["diseases"] = [drug], [disease]
    doc._.relations = [SpanRelation(drug, disease, "treats", 0.875)]
    assert findings(doc) == ["Aspirin [answer] 0.50", "gout [D]", "Aspirin [treats] gout 0.88"]


def test_annotate_takes_the_first_text_of_a_corpus(tiny_pipeline, tiny_corpus):
    first = next(DocBin().from_disk(tiny_corpus / "test.spacy").get_docs(Vocab())).text
    lines = run("annotate", tiny_pipeline, "--corpus", tiny_corpus / "test.spacy").splitlines()
    assert lines[1] == first


@pytest.mark.parametrize("arguments", [[], ["-"], ["--encoding", "cp1252"]])
def test_annotate_reads_standard_input(tiny_pipeline, arguments):
    encoding = arguments[-1] if "--encoding" in arguments else "utf-8-sig"
    printed = run("annotate", tiny_pipeline, *arguments, input="Metformín\n".encode(encoding))
    assert printed.splitlines()[1] == "Metformín"


def test_what_is_not_utf8_on_standard_input_or_the_command_line_is_refused(tiny_pipeline):
    latin = "Pérez".encode("cp1252")
    line = refuse("annotate", tiny_pipeline, input=latin)
    assert line.startswith("standard input: not UTF-8 (byte 2 of the file") and "--encoding" in line
    assert "UTF-16" in refuse("annotate", tiny_pipeline, input="Pérez".encode("utf-16"))
    line = refuse("annotate", tiny_pipeline, latin.decode("utf-8", "surrogateescape"))
    assert line == "TEXT is not UTF-8; give it on standard input with its --encoding"


@pytest.mark.parametrize("text", [" ", "😀"])
def test_annotate_takes_texts_without_words(tiny_pipeline, text):
    run("annotate", tiny_pipeline, text)
