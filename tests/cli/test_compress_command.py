"""`spacy biomed compress`, and its wheel where nothing of the extra `train` is installed."""

import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import distributions

import pytest
import spacy
from commands import call, error_line, run
from spacy.tokens import DocBin

from spacy_biomed.packaging import compression

TEXTS = ["Aspirin for lung cancer.", "", "No symptoms.", "Metformin was given for diabetes."]

# What `pip install 'spacy-biomed[train]'` adds for PyTorch, and is not to be needed.
TRAINING_ONLY = ("torch", "transformers", "spacy-transformers", "onnx", "accelerate")


def size(folder) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def cells(output: str, title: str) -> list[str]:
    """The cells of the row with that title."""
    [line] = [line for line in output.splitlines() if f" {title} " in line]
    return [cell.strip() for cell in re.split("[│┃|]", line)[1:-1]]


@pytest.fixture
def report(monkeypatch):
    """What the command is to print, in the place of compression, and the calls of that."""
    report = compression.CompressionReport(
        "int8",
        quantized_embeddings=True,
        cosine=0.987654,
        difference=0.0123,
        bytes_before=437_000_000,
        bytes_after=110_100_000,
        scores_before={"ents_f": 0.8765, "cats_score": 0.5},
        scores_by_engine={"onnxruntime": {"ents_f": 0.8748, "cats_score": 0.51}},
    )
    calls = []

    def compress_pipeline(*arguments, **settings):
        calls.append((arguments, settings))
        return report

    monkeypatch.setattr(compression, "compress_pipeline", compress_pipeline)
    return report, calls


def test_scores_and_sizes_before_and_after_are_printed(report):
    output = run("compress", "pipeline", "out", "--check", "dev.spacy")
    assert "Encoder in int8, embeddings too" in output
    assert cells(output, "ents_f") == ["ents_f", "87.65", "87.48", "-0.17"]
    assert cells(output, "cats_score") == ["cats_score", "50.00", "51.00", "+1.00"]
    assert cells(output, "size, MB") == ["size, MB", "437.0", "110.1", "25%"]
    assert "0.98765" in output and "0.012" in output
    assert output.splitlines()[-1] == "✔ Wrote out"
    assert "F1 was not compared" not in output


def test_options_reach_the_compression(report, tmp_path):
    _, calls = report
    dev, train = tmp_path / "dev.spacy", tmp_path / "train.spacy"
    options = ["--precision", "fp32", "--check", dev, "--calibrate", train, "--max-loss", "1.5"]
    options += ["--no-confidence", "--unseen-share", "0.3"]
    options += ["--target-recall", "0.9", "--target-recall", "A=B=0.99"]
    options += ["--recall-measure", "covered"]
    run("compress", "pipeline", tmp_path / "out", *options)
    [(arguments, settings)] = calls
    assert arguments == ("pipeline", tmp_path / "out")
    assert settings == {
        "precision": "fp32",
        "check": dev,
        "calibrate": train,
        "max_loss": 1.5,
        "confidence": False,
        "target_recall": {"*": 0.9, "A=B": 0.99},
        "recall_measure": "covered",
        "unseen_share": 0.3,
    }


def test_several_engines_have_a_line_each(report):
    report[0].scores_by_engine["openvino"] = {"ents_f": 0.8760, "cats_score": 0.50}
    output = run("compress", "pipeline", "out", "--check", "dev.spacy")
    assert cells(output, "ents_f, onnxruntime")[1:] == ["87.65", "87.48", "-0.17"]
    assert cells(output, "ents_f, openvino")[1:] == ["87.65", "87.60", "-0.05"]


@pytest.mark.parametrize(
    ("precision", "embeddings", "title"),
    [
        ("int8", False, "Encoder in int8, embeddings in fp32"),
        ("fp32", False, "Encoder in fp32\n"),
    ],
)
def test_the_title_tells_what_is_quantised(report, precision, embeddings, title):
    report[0].precision, report[0].quantized_embeddings = precision, embeddings
    report[0].scores_before, report[0].scores_by_engine = {}, {}
    output = run("compress", "pipeline", "out", "--precision", precision)
    assert title in re.sub(" +\n", "\n", output)
    assert "F1 was not compared: give --check, a .spacy file" in output


@pytest.mark.slow
def test_compress_writes_a_pipeline(tiny_pipeline, tiny_corpus, tmp_path):
    check = tiny_corpus / "dev.spacy"
    arguments = ["--precision", "fp32", "--check", check]
    output = run("compress", tiny_pipeline, tmp_path / "out", *arguments)
    assert "biomed_ner: confidence is calibrated on " in output
    calibrated = [
        spacy.load(path).get_pipe("biomed_ner").is_calibrated
        for path in (tiny_pipeline, tmp_path / "out")
    ]
    assert calibrated == [False, True]
    before, after, change = cells(output, "ents_f")[1:]
    assert before == after and float(change) == 0.0
    sizes = [f"{size(path) / 1e6:.1f}" for path in (tiny_pipeline, tmp_path / "out")]
    assert cells(output, "size, MB")[1:3] == sizes
    texts = [doc.text for doc in DocBin().from_disk(check).get_docs(spacy.blank("en").vocab)]
    found = [
        [[(ent.text, ent.label_) for ent in doc.ents] for doc in spacy.load(path).pipe(texts)]
        for path in (tiny_pipeline, tmp_path / "out")
    ]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no/pipeline", "out"], "no/pipeline: neither an installed pipeline package nor"),
        (
            ["PIPELINE", "out", "--precision", "int4"],
            "Invalid value for '--precision': 'int4' is not one of 'int8', 'fp32', 'fp16'",
        ),
        (["PIPELINE", "out", "--check", "no.spacy"], "no.spacy: no such file"),
        (["PIPELINE"], "Missing argument"),
        (["PIPELINE", "out", "--max-loss", "little"], "Invalid value for '--max-loss'"),
    ],
)
def test_bad_input_is_refused(tiny_pipeline, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    arguments = [str(tiny_pipeline) if one == "PIPELINE" else one for one in arguments]
    result = call("compress", *arguments)
    assert error_line(result).startswith(message)
    assert "\n" not in error_line(result)
    assert list(tmp_path.iterdir()) == []


WORSE = """
from spacy.cli import setup_cli
from spacy_biomed.packaging import compression

scores = iter([0.9, 0.5, 0.5])
compression.weighted_scores = lambda *_: {"ents_f": next(scores)}
setup_cli()
"""


@pytest.mark.slow
def test_a_refusal_is_one_line_and_exit_status_1(tiny_pipeline, tiny_corpus, tmp_path):
    check = tiny_corpus / "dev.spacy"
    command = ["biomed", "compress", tiny_pipeline, "out", "--check", check]
    done = subprocess.run(
        [sys.executable, "-c", WORSE, *map(str, command)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "utf8"},
    )
    assert done.returncode == 1
    [line] = done.stderr.strip().splitlines()
    assert line.startswith(f"✘ {check}: in int8 the score falls by 40.00 points")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def compressed(tiny_pipeline, tiny_corpus):
    """The tiny pipeline in fp32, so that it finds what the original finds."""
    output = tiny_corpus.parent / "compressed"
    run("compress", tiny_pipeline, output, "--precision", "fp32")
    return output


@pytest.fixture(scope="module")
def wheel(compressed, tiny_corpus, run_spacy):
    """The wheel of the compressed pipeline: evaluated, described and packaged."""
    from spacy.cli.evaluate import evaluate

    folder = tiny_corpus.parent
    metrics, described = folder / "compressed.json", folder / "compressed-described"
    evaluate(str(compressed), tiny_corpus / "test.spacy", metrics, spans_key="unseen")
    arguments = ["--corpus", tiny_corpus, "--metrics", metrics, "--name", "tiny_onnx"]
    run("card", compressed, described, *arguments)
    output = folder / "compressed-packages"
    output.mkdir()
    done = run_spacy("package", described, output, "--build", "wheel")
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = output.rglob("*.whl")
    return path


@pytest.mark.slow
def test_the_wheel_requires_nothing_for_training(wheel):
    with zipfile.ZipFile(wheel) as archive:
        [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        lines = archive.read(metadata).decode("utf8").splitlines()
        meta = json.loads(archive.read("en_tiny_onnx/meta.json"))
        names = archive.namelist()
    required = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist" in line]
    names_and_extras = {re.match(r"[^<>=]+", one).group() for one in required}
    assert names_and_extras == {"spacy", "spacy-biomed"}
    assert not any("[" in one for one in meta["requirements"])
    folder = "en_tiny_onnx/en_tiny_onnx-0.1.0/biomed_transformer/encoder"
    assert f"{folder}/model.onnx" in names
    assert not any(name.endswith(".safetensors") for name in names)


@pytest.fixture(scope="module")
def python(wheel, tmp_path_factory):
    """The interpreter of an environment with what is here but for training, and the wheel."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    subprocess.run([sys.executable, "-m", "venv", folder, "--without-pip"], check=True)
    [packages] = folder.glob("lib/python*/site-packages")
    for distribution in distributions():
        name = distribution.metadata["Name"].lower().replace("_", "-")
        place = distribution.locate_file("").resolve()
        is_installed = place.name in ("site-packages", "dist-packages")
        if name in TRAINING_ONLY or name.startswith("nvidia") or not is_installed:
            continue
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            if not (packages / top).exists():
                (packages / top).symlink_to(place / top)
    run_apart(folder / "bin" / "python", "-m", "spacy", "biomed", "install", wheel.parent)
    assert not (packages / "en_tiny_onnx").is_symlink()
    return folder / "bin" / "python"


def run_apart(*command) -> str:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        encoding="utf8",
        cwd=command[0].parent,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PIP_NO_INDEX": "1"},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


ANNOTATE = """
import importlib, json, sys
import spacy
nlp = spacy.load("en_tiny_onnx")
absent = []
for name in ("torch", "transformers", "spacy_transformers"):
    assert name not in sys.modules
    try:
        importlib.import_module(name)
    except ImportError:
        absent.append(name)
texts = json.loads(sys.argv[1])
found = [
    [[(ent.text, ent.label_, ent._.confidence) for ent in doc.ents] for doc in docs]
    for docs in (map(nlp, texts), nlp.pipe(texts), nlp.pipe(texts, n_process=2, batch_size=1))
]
print(json.dumps([absent, found]))
"""


@pytest.mark.slow
def test_the_wheel_annotates_where_pytorch_is_not_installed(python, tiny_pipeline):
    printed = run_apart(python, "-c", ANNOTATE, json.dumps(TEXTS)).splitlines()[-1]
    absent, (called, piped, forked) = json.loads(printed)
    assert absent == ["torch", "transformers", "spacy_transformers"]
    expected = [doc.ents for doc in spacy.load(tiny_pipeline).pipe(TEXTS)]
    assert any(expected)
    for found in (called, piped, forked):
        assert [[tuple(ent[:2]) for ent in own] for own in found] == [
            [(ent.text, ent.label_) for ent in own] for own in expected
        ]
        confidences = [ent[2] for own in found for ent in own]
        assert confidences == pytest.approx(
            [ent._.confidence for own in expected for ent in own], abs=1e-4
        )


@pytest.mark.slow
def test_the_command_line_annotates_there(python):
    lines = run_apart(
        python, "-m", "spacy", "biomed", "annotate", "en_tiny_onnx", TEXTS[0]
    ).splitlines()
    assert lines[1] == TEXTS[0]
