"""The programs in benchmarks/: counts, records and comparisons, without measuring speed."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from statistics import mean
from types import ModuleType
from typing import Any

import pytest
from spacy.tokens import Doc, Span
from spacy.training.initialize import init_nlp
from spacy.vocab import Vocab

from spacy_biomed.annotations.annotation_scope import EVERY_LABEL, get_scope
from spacy_biomed.annotations.document_keys import ANSWER_KEY, UNALIGNED_MENTIONS
from spacy_biomed.annotations.pairs import PAIR_KEY, get_pair
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.training.config import fill_config
from spacy_biomed.training.corpus import read_docs

REPOSITORY = Path(__file__).parents[1]

# For each corpus of `accuracy.py`, an included corpus with the same kind of annotation.
STARTERS = {
    "ncbi_disease": "starter_en",
    "chemprot": "starter_relations",
    "hoc": "starter_hallmarks",
    "medrqe": "starter_entailment",
    "sts": "starter_similarity",
    "covid_qa": "starter_questions",
}


@pytest.fixture
def accuracy(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`accuracy.py`, with trainings in this process."""
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    module = import_module("accuracy")
    monkeypatch.setattr(module, "Worker", Here)
    return module


class Here:
    """A replacement for a worker that runs requests in this process."""

    trained = 0

    def __init__(self, command: list[str], environment: dict[str, str]):
        assert command[-1] == "--serve"
        assert environment["HF_HUB_OFFLINE"] == "1"

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    program = "accuracy"

    def ask(self, do: str, /, **arguments: Any) -> Any:
        Here.trained += 1
        return getattr(import_module(self.program).Process(), do)(**arguments)


def run(
    accuracy: ModuleType, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> tuple[dict[str, Any], int]:
    """Run a benchmark; return its results and the number of trainings."""
    monkeypatch.setattr("sys.argv", ["accuracy.py", *arguments])
    before = Here.trained
    accuracy.main()
    output = Path(arguments[arguments.index("--output") + 1])
    return json.loads(output.read_text(encoding="utf8")), Here.trained - before


@pytest.mark.parametrize("name", STARTERS)
def test_accuracy_trains_both_and_each_once(
    name: str,
    accuracy: ModuleType,
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    starter = STARTERS[name]
    convert_corpus(starter, REPOSITORY / "assets" / starter, tmp_path / "corpus" / name)
    runs, output = tmp_path / "runs.jsonl", tmp_path / "accuracy.json"
    arguments = [str(tiny_bert), "--tasks", name, "--corpora", str(tmp_path / "corpus")]
    arguments += ["--epochs", "1", "--limit", "8", "--runs", str(runs), "--output", str(output)]
    systems = 3 if name == "ncbi_disease" else 2

    _, trained = run(accuracy, monkeypatch, [*arguments, "--seeds", "0"])
    assert trained == systems
    result, trained = run(accuracy, monkeypatch, [*arguments, "--seeds", "0", "1"])
    assert trained == systems  # only the second seed

    lines = [json.loads(line) for line in runs.read_text(encoding="utf8").splitlines()]
    assert len(lines) == 2 * systems
    weights = sha256((tiny_bert / "model.safetensors").read_bytes()).hexdigest()
    assert {line["encoder"] for line in lines} == {weights[:16]}
    # Development scores are needed only to choose between two learning rates.
    chooses = [line["dev"] is not None for line in lines]
    assert chooses == [systems == 3 and line["system"] == accuracy.PLAIN for line in lines]
    ours = [100 * line["test"] for line in lines if line["system"] == accuracy.OURS]
    assert list(result["scores"][name][accuracy.OURS].values()) == pytest.approx(ours)
    plain = result["scores"][name][accuracy.PLAIN].values()
    assert result["checks"][0]["value"] == pytest.approx(mean(ours) - mean(plain))


def test_accuracy_says_which_corpus_is_missing(
    accuracy: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    arguments = ["encoder", "--tasks", "sts", "--corpora", str(tmp_path), "--output", "none.json"]
    with pytest.raises(accuracy.BiomedError, match="sts: not there; .*convert"):
        run(accuracy, monkeypatch, arguments)


def test_accuracy_takes_the_rate_that_is_best_on_dev(accuracy: ModuleType):
    def one(system: str, seed: int, rate: float, task: str = "sts") -> Any:
        return accuracy.Run(task, system, seed, 1, rate, 16, "encoder", None)

    done = {
        one(accuracy.OURS, 0, 1.0): {"dev": 0.1, "test": 0.5},
        one(accuracy.PLAIN, 0, 1.0): {"dev": 0.8, "test": 0.6},
        one(accuracy.PLAIN, 0, 2.0): {"dev": 0.7, "test": 0.9},
        one(accuracy.PLAIN, 1, 1.0): {"dev": 0.2, "test": 0.3},
        one(accuracy.PLAIN, 1, 2.0): {"dev": 0.3, "test": 0.2},
        one(accuracy.PLAIN, 1, 2.0, "hoc"): {"dev": 0.9, "test": 0.9},
    }
    scores = accuracy.collect("sts", list(done), done)
    assert scores == {accuracy.OURS: {0: 50.0}, accuracy.PLAIN: {0: 60.0, 1: 20.0}}


def test_accuracy_compares_means_over_seeds_and_corpora(accuracy: ModuleType):
    scores = {
        "ncbi_disease": {accuracy.OURS: {0: 84.0, 1: 86.0}, accuracy.PLAIN: {0: 82.0, 1: 83.0}},
        "bc5cdr": {accuracy.OURS: {0: 80.0}, accuracy.PLAIN: {0: 80.4}},
        "sts": {accuracy.OURS: {0: 70.0}, accuracy.PLAIN: {0: 71.0}},
    }
    checks = accuracy.make_checks(scores)
    assert [check.value for check in checks] == pytest.approx([2.5, -0.4, -1.0, 1.05])
    assert [check.met for check in checks] == [True, True, False, False]


def test_mentions_are_counted_by_offset_and_label(accuracy: ModuleType):
    gold = Doc(Vocab(), words=["Lung", "cancer", "and", "aspirin"])
    gold.ents = [Span(gold, 0, 2, "DISEASE"), Span(gold, 3, 4, "DRUG")]
    gold.user_data[UNALIGNED_MENTIONS] = [(16, 19, "DRUG")]
    found = gold.copy()
    found.user_data.clear()
    found.ents = [Span(found, 0, 2, "DISEASE"), Span(found, 3, 4, "DISEASE")]
    own, other = accuracy.mentions(gold), accuracy.mentions(found)
    assert own == {(0, 11, "DISEASE"), (16, 23, "DRUG"), (16, 19, "DRUG")}
    assert accuracy.mention_f1([own], [other]) == pytest.approx(2 * 1 / (3 + 2))


def test_relations_that_are_none_are_no_class(accuracy: ModuleType):
    gold, found = ["A", "", "B", "A"], ["A", "A", "", "B"]
    # One correct, two wrong and two missed.
    assert accuracy.relation_f1(gold, found) == pytest.approx(2 * 1 / (3 + 3))


def test_contexts_are_cut_around_their_answer(accuracy: ModuleType):
    words = ["Who", "?"] + [f"w{i}" for i in range(1000)]
    doc = Doc(Vocab(), words=words)
    doc.spans[PAIR_KEY] = [doc[:2], doc[2:]]
    doc.spans[ANSWER_KEY] = [doc[502:505], doc[2:3]]
    [short] = accuracy.shorten_contexts([doc])
    question, context = get_pair(short)
    assert question.text == "Who ?"
    assert len(context) == accuracy.CONTEXT_WORDS
    assert [span.text for span in short.spans[ANSWER_KEY]] == ["w500 w501 w502"]


def test_plain_tags_are_read_as_transformers_writes_them(accuracy: ModuleType):
    decode = import_module("plain_transformers").decode_bio
    doc = Doc(Vocab(), words=["a", "b", "c", "d", "e"])
    tags = ["B-X", "I-X", "B-X", "I-Y", "O"]
    assert decode(doc, tags) == {(0, 3, "X"), (4, 5, "X"), (6, 7, "Y")}


def test_heads_are_compared_with_one_and_with_all_in_turn(accuracy: ModuleType):
    heads = import_module("heads")
    contest = import_module("comparisons").Contest(threads=1, repeats=3)
    contest.seconds["texts"] = {
        heads.ALL: [3.0, 2.0, 2.5],
        "ner": [2.0, 2.0, 9.0],
        "hoc": [1.0, 3.0, 2.0],
    }
    against_one, in_turn = heads.make_checks(contest, "texts", ["ner", "hoc"])
    assert (against_one.value, against_one.met) == (pytest.approx(1.25), True)
    assert (in_turn.value, in_turn.met) == (pytest.approx(1.6), False)
    # If the figure of a head is missing, so is the figure of all heads in turn.
    contest.seconds["texts"].pop("hoc")
    assert {check.value for check in heads.make_checks(contest, "texts", ["ner", "hoc"])} == {None}


@pytest.fixture
def merging(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`merging.py`, with trainings in this process."""
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    module = import_module("merging")
    monkeypatch.setattr(module, "Worker", Here)
    monkeypatch.setattr(Here, "program", "merging")
    return module


@pytest.fixture
def partly_annotated(tmp_path: Path) -> list[Path]:
    """Two corpora from the starter's texts: one with its chemicals, one with all its labels."""
    corpora = []
    for name, labels, start in (("chemicals", ["CHEMICAL"], 0), ("everything", [], 1)):
        source = tmp_path / "source" / name
        source.mkdir(parents=True)
        for part in ("train", "dev", "test"):
            path = REPOSITORY / "assets" / "starter_en" / f"{part}.jsonl"
            lines = path.read_text(encoding="utf8").splitlines(keepends=True)
            (source / path.name).write_text("".join(lines[start:16:2]), encoding="utf8")
        corpora.append(tmp_path / name)
        convert_corpus(name, source, corpora[-1], format="jsonl", labels=labels)
    # A test document of one corpus, which the other corpus must not train on.
    held_out = tmp_path / "source" / "chemicals" / "test.jsonl"
    train = tmp_path / "source" / "everything" / "train.jsonl"
    text = held_out.read_text(encoding="utf8").splitlines(keepends=True)[0]
    train.write_text(train.read_text(encoding="utf8") + text, encoding="utf8")
    convert_corpus("everything", train.parent, corpora[1], format="jsonl")
    return corpora


def test_merging_trains_every_way_and_each_once(
    merging: ModuleType,
    partly_annotated: list[Path],
    tiny_bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    work, runs, output = tmp_path / "work", tmp_path / "runs.jsonl", tmp_path / "merging.json"
    arguments = [str(tiny_bert), *map(str, partly_annotated), "--target", "everything"]
    arguments += ["--epochs", "1", "--batch-words", "2000", "--work", str(work)]
    arguments += ["--runs", str(runs), "--output", str(output), "--seeds", "0"]
    ways = ["--ways", "alone", "naive", "partial"]
    _, trained = run(merging, monkeypatch, [*arguments, *ways])
    assert trained == 4  # including two "alone"
    result, trained = run(merging, monkeypatch, arguments)
    assert trained == 3  # "taught" and two "whole"
    assert run(merging, monkeypatch, arguments)[1] == 0

    scores = result["scores"]
    titles = ["alone, chemicals", "alone, everything", "naive", "partial", "taught"]
    titles += ["whole, chemicals", "whole, everything"]
    assert sorted(scores) == sorted(titles)
    target_alone = {"alone, everything", "whole, everything"}
    for title, own in scores.items():
        assert set(own) == {"everything"} | ({"chemicals"} if title not in target_alone else set())
    assert set(scores["partial"]["chemicals"]) == {"CHEMICAL", merging.MICRO}
    gain = scores["partial"]["everything"][merging.MICRO]
    gain -= scores["naive"]["everything"][merging.MICRO]
    assert result["checks"][0]["value"] == pytest.approx(gain)

    vocab = Vocab()
    scopes = {
        way: [get_scope(doc) for doc in read_docs(work / way / "train.spacy", vocab)]
        for way in (merging.PARTIAL, merging.NAIVE)
    }
    assert [scope.labels == {"CHEMICAL"} for scope in scopes["partial"]] == [True] * 8 + [False] * 8
    assert scopes["naive"] == [EVERY_LABEL] * 16
    alone = list(read_docs(work / "alone" / "everything" / "train.spacy", vocab))
    whole = list(read_docs(partly_annotated[1] / "train.spacy", vocab))
    assert (len(alone), len(whole)) == (8, 9)


def test_merging_needs_a_target_among_the_corpora(
    merging: ModuleType, partly_annotated: list[Path], monkeypatch: pytest.MonkeyPatch
):
    arguments = ["encoder", str(partly_annotated[0]), "--target", "biored", "--output", "none.json"]
    with pytest.raises(merging.BiomedError, match="--target biored: none of the corpora"):
        run(merging, monkeypatch, arguments)


def test_merging_averages_over_seeds(merging: ModuleType):
    def one(seed: int) -> Any:
        return merging.Run("alone", "biored", seed, 1, 1e-4, 400, "encoder", "data", None)

    done = {
        one(0): {"scores": {"biored": {"GENE": 0.8, merging.MICRO: 0.7}}},
        one(1): {"scores": {"biored": {"GENE": 0.6, merging.MICRO: 0.5}}},
    }
    means = merging.collect(list(done), done)["alone, biored"]["biored"]
    assert means == pytest.approx({"GENE": 70.0, merging.MICRO: 60.0})


@pytest.fixture
def updating(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`updating.py`, with trainings in this process."""
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    module = import_module("updating")
    monkeypatch.setattr(module, "Worker", Here)
    monkeypatch.setattr(Here, "program", "updating")
    return module


@pytest.fixture
def chemicals(partly_annotated: list[Path], tiny_bert: Path, tmp_path: Path) -> list[str]:
    """Arguments: a pipeline for chemicals, a corpus with all labels, and a folder of corpora."""
    config = fill_config(partly_annotated[0], encoder=str(tiny_bert), epochs=1)
    nlp = init_nlp(config)
    nlp.to_disk(tmp_path / "pipeline")
    others = tmp_path / "others"
    others.mkdir()
    shutil.copytree(partly_annotated[0], others / "chemicals")
    return [str(tmp_path / "pipeline"), str(partly_annotated[1]), str(others)]


def test_updating_trains_with_and_without_rehearsal_and_each_once(
    updating: ModuleType, chemicals: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    runs, table = tmp_path / "runs.jsonl", tmp_path / "table.md"
    arguments = [*chemicals, "--documents", "3", "--epochs", "1"]
    arguments += ["--runs", str(runs), "--output", str(table)]

    def count(*options: str) -> int:
        monkeypatch.setattr("sys.argv", ["updating.py", *arguments, *options])
        before = Here.trained
        updating.main()
        return Here.trained - before

    assert count() == 3
    assert count() == 0
    assert count("--seeds", "0", "1") == 2
    lines = [json.loads(line) for line in runs.read_text(encoding="utf8").splitlines()]
    assert [line["way"] for line in lines] == ["before", *["plain", "rehearsed"] * 2]
    for line in lines:
        assert set(line["scores"]) == {"everything", "chemicals"}
        assert updating.NEW in line["scores"]["everything"]
        assert updating.NEW not in line["scores"]["chemicals"]
    assert lines[0]["scores"]["everything"][updating.NEW] == 0.0
    head, _, *rows = table.read_text(encoding="utf8").splitlines()
    columns = ["everything, new labels", "everything, old labels", "chemicals, old labels"]
    assert [cell.strip() for cell in head.strip("|").split("|")] == ["F1", *columns]
    assert [row.split("|")[1].strip() for row in rows] == list(updating.WAYS)


def test_updating_draws_documents_by_the_seed(updating: ModuleType):
    docs = list(range(20))
    assert updating.draw(docs, 5, seed=0) == updating.draw(docs, 5, seed=0)
    assert updating.draw(docs, 5, seed=0) != updating.draw(docs, 5, seed=1)
    assert len(set(updating.draw(docs, 20, seed=2))) == 20
    with pytest.raises(updating.BiomedError, match="--documents 21: the training part has 20"):
        updating.draw(docs, 21, seed=0)


def test_updating_needs_a_label_that_the_pipeline_lacks(
    updating: ModuleType, chemicals: list[str], monkeypatch: pytest.MonkeyPatch
):
    pipeline, _, others = chemicals
    arguments = [pipeline, f"{others}/chemicals", others]
    monkeypatch.setattr("sys.argv", ["updating.py", *arguments])
    with pytest.raises(updating.BiomedError, match="chemicals: annotates no label that"):
        updating.main()


def test_scaling_cuts_texts_of_equal_length(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    scaling = import_module("scaling")
    vocab = Vocab()
    docs = [Doc(vocab, words=[f"{name}{i}" for i in range(7)]) for name in "abc"]
    texts = scaling.cut_texts(docs, 5, 19)
    assert texts.texts[:2] == ["a0 a1 a2 a3 a4", "a5 a6\nb0 b1 b2"]
    assert len(texts.texts) == 3 and texts.words == 15
    # 21 words have two texts of 10; the third is the first again.
    longer = scaling.cut_texts(docs, 10, 30)
    assert [len(text.split()) for text in longer.texts] == [10, 10, 10]
    assert longer.texts[2] == longer.texts[0] != longer.texts[1]
    with pytest.raises(scaling.BiomedError, match="fewer than 22 words"):
        scaling.cut_texts(docs, 22, 22)


def test_engines_agree_on_documents_with_the_same_entities(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    agreement = import_module("engine_agreement")
    one, other = [[0, 7, "CHEMICAL"]], [[0, 7, "DISEASE"]]
    assert agreement.share_equal([one, [], one, other], [one, [], other, []]) == 0.5
