"""Runs of studies: which trainings are made, what they leave, and what is made again."""

import json
import shutil
from dataclasses import replace

import pytest
import spacy
from spacy.training.initialize import init_nlp
from spacy.training.loop import train

from spacy_biomed.encoders.loading import load_pretrained
from spacy_biomed.errors import BiomedError
from spacy_biomed.studies import runs
from spacy_biomed.studies.planning import plan_study, prepare_corpora
from spacy_biomed.studies.runs import write_random_encoder
from spacy_biomed.studies.study import run_study
from spacy_biomed.studies.study_config import read_study
from spacy_biomed.training.config import fill_config

STUDY = """
[study]
title = "A study"

[grid]
epochs = 1
learn_rates = [0.005]
batch_sizes = [60]

[rows]

[rows.small]
encoder = "ENCODER"
MORE
[corpora]

[corpora.drugs]
groups = ["PubMed"]

[corpora.topics]
groups = ["PubMed"]
"""
TOGETHER = """
[rows.joint]
encoder = "ENCODER"
training = "together"
template = "TEMPLATE"

[rows.apart]
encoder = "ENCODER"
training = "apart"
template = "TEMPLATE"

[rows.with_drugs]
encoder = "ENCODER"
training = "together"
companions = ["drugs"]
template = "TEMPLATE"
"""


@pytest.fixture
def read(tiny_bert, template, tmp_path):
    def read(more="", text=STUDY, **overrides):
        text = text.replace("MORE", more).replace("TEMPLATE", str(template))
        (tmp_path / "study.cfg").write_text(text.replace("ENCODER", str(tiny_bert)))
        return read_study(tmp_path / "study.cfg", overrides)

    return read


@pytest.fixture
def trainings(monkeypatch):
    """The places of trainings; raises before the training with a given number."""
    made, stop_at = [], []

    def count(nlp, place, **kwargs):
        if stop_at and len(made) == stop_at[0]:
            raise RuntimeError("stopped")
        made.append(place.name)
        return original(nlp, place, **kwargs)

    original = runs.train
    monkeypatch.setattr(runs, "train", count)
    return made, stop_at


@pytest.fixture
def run(corpora, tmp_path):
    def run(study, output=None, **options):
        output = output or tmp_path / "output"
        output.mkdir(exist_ok=True)
        plan = plan_study(study, corpora)
        return run_study(study, plan, output, corpora_dir=corpora, **options)

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a study, filled by the first test that needs it."""
    return tmp_path_factory.mktemp("finished") / "output"


@pytest.fixture
def done(finished, run, read, tmp_path):
    """The results of a finished study, and a copy of its folder."""
    results = run(read(), finished)
    return results, shutil.copytree(finished, tmp_path / "output")


def test_scores_are_those_of_the_pipeline_that_training_makes(done, read, corpora, tmp_path):
    """Compare with a training and a scoring without the study's code."""
    results, _ = done
    folder = corpora / "drugs"
    encoder = read().rows["small"].encoder
    config = fill_config(folder, encoder=encoder, epochs=1, learn_rate=0.005, batch_words=60)
    with (tmp_path / "log").open("w") as log:
        train(init_nlp(config), tmp_path, stdout=log)
    nlp = spacy.load(tmp_path / "model-best")
    for part in ("dev", "test"):
        examples = list(runs.Corpus_v1(folder / f"{part}.spacy")(nlp))
        expected = nlp.evaluate(examples)
        cell = results.cells["small", "drugs"]
        for letter in "prf":
            assert cell.scores(letter, part) == [expected[f"ents_{letter}"]]
    assert cell.metric == "f" and results.cells["small", "topics"].metric == "score"
    assert all(cell.is_made_of_documents() for cell in results.cells.values())


@pytest.mark.slow
def test_finished_runs_are_kept_and_only_those_that_changed_are_made(done, run, read, trainings):
    first, output = done
    made, _ = trainings
    made.clear()
    assert run(read()).cells == first.cells and made == []
    run(read(**{"grid.seeds": [0, 1]}))
    assert len(made) == 2
    other = STUDY + "\n[config]\n\n[config.training]\ndropout = 0.2\n"
    run(read(text=other))
    assert len(made) == 4


def test_one_length_for_all_corpora_together_is_refused_before_the_first_training(
    read, corpora, tmp_path
):
    for name in ("drugs", "topics"):
        shutil.copytree(corpora / "drugs", tmp_path / "mentions" / name)
    words = {"config": {"corpora": {"train": {"max_words": 80}}}}
    study = read(TOGETHER).model_copy(update=words)
    with pytest.raises(BiomedError, match="max_words = 80: several corpora are trained together"):
        plan_study(study, tmp_path / "mentions")


@pytest.mark.slow
def test_a_corpus_of_another_name_is_trained_together_too(run, read):
    text = STUDY.replace("[corpora.topics]", '[corpora.classes]\nsource = "topics"')
    joint = TOGETHER[: TOGETHER.index("[rows.apart]")]
    results = run(read(joint, text=text))
    assert set(results.cells) == {
        (row, name) for row in ("small", "joint") for name in ("drugs", "classes")
    }
    assert results.cells["joint", "classes"].metric == "score"


def test_a_row_alone_has_its_own_epochs_of_each_corpus(read, corpora):
    plan = plan_study(read(**{"rows.small.epochs": {"drugs": 7}}), corpora)
    epochs = {name: run.epochs for run in plan.runs.values() for name in run.corpora}
    assert epochs == {"drugs": 7, "topics": 1}
    with pytest.raises(BiomedError, match="has 'drug'"):
        read(**{"rows.small.epochs": {"drug": 7}})


def test_published_folds_are_prepared_each(read, tmp_path):
    for fold in ("1", "2", "3"):
        folder = tmp_path / "assets" / "GAD" / fold  # as others write the name
        folder.mkdir(parents=True)
        (folder / "train.tsv").write_text("@GENE$ in @DISEASE$ .\t1\n" * 20)
        (folder / "test.tsv").write_text("@GENE$ not in @DISEASE$ .\t0\n")
    text = STUDY.replace("[corpora.drugs]", '[corpora.gad]\nfolds = "given"')
    prepare_corpora(read(text=text), tmp_path / "corpus", tmp_path / "assets")
    assert sorted(path.parent.name for path in tmp_path.glob("corpus/gad/*/test.spacy")) == [
        "1",
        "2",
        "3",
    ]


def test_what_cannot_be_prepared_keeps_no_other_corpus_from_it(read, tmp_path):
    for corpus in ("gad", "bc5cdr", "cantemist"):
        (tmp_path / "assets" / corpus).mkdir(parents=True)
    lines = "@GENE$ in @DISEASE$ .\t1\n" * 20
    for part in ("train", "dev", "test"):
        (tmp_path / "assets" / "gad" / f"{part}.tsv").write_text(lines)
    text = STUDY.replace("[corpora.drugs]", "[corpora.bc5cdr]\n[corpora.gad]\n[corpora.cantemist]")
    with pytest.raises(BiomedError, match="bc5cdr.*; cantemist failed too$"):
        prepare_corpora(read(text=text), tmp_path / "corpus", tmp_path / "assets")
    assert (tmp_path / "corpus" / "gad" / "train.spacy").is_file()
    assert not (tmp_path / "corpus" / "bc5cdr").exists()


def test_a_study_that_was_stopped_makes_what_is_left(run, read, trainings, tmp_path):
    made, stop_at = trainings
    stop_at.append(1)
    with pytest.raises(RuntimeError, match="stopped"):
        run(read())
    stop_at.clear()
    run(read())
    assert len(made) == 2
    assert sorted(path.name for path in (tmp_path / "output").iterdir()) == [
        "report.html",
        "results.json",
        "runs",
        "runs.csv",
        "table.md",
        "table.tex",
    ]


def test_processes_give_the_same_scores(done, run, read, tmp_path):
    alone, _ = done
    parallel = run(read(), tmp_path / "parallel", jobs=2)
    for key, cell in alone.cells.items():
        assert parallel.cells[key].scores(cell.metric) == cell.scores(cell.metric)


def test_tasks_together_are_one_run_from_whose_encoder_those_apart_start(
    run, read, trainings, tmp_path
):
    made, _ = trainings
    of_template = {"grid.learn_rates": [], "grid.batch_sizes": []}
    results = run(read(TOGETHER, **of_template))
    # Alone two, together one and that of a companion (the same), apart two.
    assert len(made) == len(set(made)) == 5
    cells = results.cells
    assert ("with_drugs", "drugs") not in cells
    [joint] = cells["joint", "topics"].trials
    assert (
        [joint]
        == list(cells["joint", "drugs"].trials)
        == list(cells["with_drugs", "topics"].trials)
    )
    [apart] = cells["apart", "drugs"].trials
    config = (tmp_path / "output" / "runs" / apart.run / "config.cfg").read_text()
    assert f"pipelines/{joint.run}/biomed_transformer/encoder" in config
    # Only the pipeline that others start from is kept.
    assert [path.name for path in (tmp_path / "output" / "pipelines").iterdir()] == [joint.run]
    shutil.rmtree(tmp_path / "output" / "pipelines")
    run(read(TOGETHER, **of_template))
    assert len(made) == 6


@pytest.mark.slow
def test_heads_in_another_order_are_another_run(read, corpora):
    plan = plan_study(read(TOGETHER), corpora)
    joint = next(one for one in plan.runs.values() if one.is_joint)
    turned = replace(joint, corpora=dict(reversed(joint.corpora.items())))
    assert turned.digest != joint.digest


def test_nothing_of_a_study_but_its_pipelines_has_words_of_the_texts(run, read, tmp_path):
    run(read(TOGETHER))
    for path in (tmp_path / "output").rglob("*"):
        if path.is_file() and "pipelines" not in path.parts:
            assert b"etformin" not in path.read_bytes(), path


def test_a_random_encoder_has_the_shape_and_the_weights_of_its_seed(tiny_bert, tmp_path):
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        write_random_encoder(str(tiny_bert), tmp_path / name, seed)
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b != c
    _, model = load_pretrained(str(tmp_path / "a"))
    _, original = load_pretrained(str(tiny_bert))
    assert model.config.hidden_size == original.config.hidden_size
    weights = zip(model.parameters(), original.parameters(), strict=True)
    assert any(bool((new != old).any()) for new, old in weights)


def test_folds_are_tested_one_by_one(run, read, corpora):
    results = run(read(**{"corpora.drugs.folds": 4}))
    cell = results.cells["small", "drugs"]
    assert [trial.fold for trial in cell.trials] == [0, 1, 2, 3]
    documents = [len(left["tallies"]) for left in cell.trials.values()]
    train_part = json.loads((corpora / "drugs" / "corpus.json").read_text())["parts"]["train"]
    assert sum(documents) == train_part["documents"]


def test_only_the_first_documents_are_used_in_a_trial(run, read):
    results = run(read(**{"grid.documents": 2}))
    [left] = results.cells["small", "topics"].trials.values()
    assert len(left["tallies"]) == 2


# --- Before the first training ---


def test_all_that_is_missing_is_named_before_anything_is_trained(read, corpora, tmp_path):
    study = read(**{"rows.small.encoder": str(tmp_path / "no_encoder")})
    with pytest.raises(BiomedError, match=r"study.cfg:12: rows.small: .*no such encoder directory"):
        plan_study(study, corpora)
    more = STUDY + '\n[corpora.i2b2_2012]\n\n[corpora.mine]\nsource = "jnlpba"\n'
    with pytest.raises(BiomedError) as raised:
        plan_study(read(text=more), corpora)
    assert "corpora.i2b2_2012: " in str(raised.value)
    assert "data use agreement" in str(raised.value)
    assert "Also missing: corpora.mine. With --allow-missing" in str(raised.value)


def test_cells_of_what_is_missing_stay_empty_if_they_may(read, corpora, run, tmp_path):
    study = read(f'\n[rows.none]\nencoder = "{tmp_path}/none"\n', STUDY + "\n[corpora.jnlpba]\n")
    plan = plan_study(study, corpora, allow_missing=True)
    assert list(plan.cells) == [("small", "drugs"), ("small", "topics")]
    output = tmp_path / "output"
    output.mkdir()
    run_study(study, plan, output, corpora_dir=corpora)
    table = (output / "table.md").read_text()
    assert "| jnlpba |  |  |" in table
    assert "Not there, and left empty: corpora.jnlpba, rows.none." in table
    assert "| small | mean of PubMed | 2 of 2 |" in table and "| small | mean | 2 of 3 |" in table


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"corpora.drugs.template": "textcat"}, "textcat is for textcat_multilabel, and "),
        ({"corpora.drugs.template": "none"}, "none: no such config"),
        ({"corpora.drugs.folds": "given"}, r"corpora.drugs: .*drugs is not there"),
        (
            {"corpora.drugs.template": "papers/mulyar_ner", "grid.learn_rates": [0.1, 0.2]},
            'study.select: the template of corpora.drugs learns .* write select = "test"',
        ),
        (
            {
                "corpora.drugs.template": "papers/mulyar_ner",
                "rows.small.seeds": [0, 1],
                "study.statistic": "best",
            },
            "study.select: the template of corpora.drugs learns",
        ),
    ],
)
def test_what_does_not_fit_is_found_before_the_first_training(read, corpora, overrides, problem):
    with pytest.raises(BiomedError, match=problem):
        plan_study(read(**overrides), corpora)


def test_a_setting_cannot_be_chosen_if_the_template_or_the_study_has_no_development_part(
    read, corpora
):
    changed = {"rows.joint.template": "papers/mulyar_multitask", "grid.learn_rates": [0.1, 0.2]}
    with pytest.raises(BiomedError, match=r"study.select: the template of rows.joint learns"):
        plan_study(read(TOGETHER, **changed), corpora)
    study = read(
        "[config]\n[config.recipe]\ndevelopment_part = false\n", **{"grid.batch_sizes": [60, 90]}
    )
    with pytest.raises(BiomedError, match=r"study.select: the template of corpora.drugs learns"):
        plan_study(study, corpora)


def test_pipelines_to_time_are_those_of_the_first_cell(read, corpora, template):
    joint = {"training": "together", "companions": ["drugs"], "template": str(template)}
    changed = {f"rows.small.{name}": value for name, value in joint.items()}
    study = read('[rows.other]\nencoder = "ENCODER"\n', **changed, **{"speed.precision": "fp32"})
    plan = plan_study(study, corpora)
    kept = [cell for cell, (trial,) in plan.cells.items() if plan.runs[trial.run].keep]
    assert kept == [("small", "topics"), ("other", "topics")]


def test_a_metric_that_is_not_there_is_an_error_that_names_those_that_are(run, read):
    with pytest.raises(BiomedError, match=r"corpora.drugs.metric: no score 'acc'; use .*f"):
        run(read(**{"corpora.drugs.metric": "acc"}))


def test_the_training_together_has_its_own_rate_or_those_of_the_grid(read, corpora):
    rates = {"grid.learn_rates": [0.1, 0.2], "corpora.drugs.learn_rates": [0.3]}
    plan = plan_study(read(TOGETHER, **rates, **{"rows.with_drugs.learn_rate": 0.4}), corpora)
    tried = {key: [trial.learn_rate for trial in trials] for key, trials in plan.cells.items()}
    assert tried["small", "drugs"] == tried["apart", "drugs"] == [0.3]
    assert tried["joint", "drugs"] == tried["joint", "topics"] == [0.1, 0.2]
    assert tried["with_drugs", "topics"] == [0.4]
    assert all(plan.runs[one.run].learn_rate == 0.4 for one in plan.cells["with_drugs", "topics"])


def test_folds_together_are_refused(read, corpora):
    with pytest.raises(BiomedError, match='corpora.drugs.folds: folds are for training = "alone"'):
        plan_study(read(TOGETHER, **{"corpora.drugs.folds": 3}), corpora)
