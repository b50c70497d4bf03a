"""One config for several corpora."""

import json
import shutil

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training.initialize import init_nlp
from spacy.util import load_config

from spacy_biomed.errors import BiomedError
from spacy_biomed.training.config import BY_WORDS, ENCODER, TEMPLATES, count_batches, read_template
from spacy_biomed.training.multitask_config import create_multitask_config

NAMES = ["drugs", "diseases", "topics"]


def create(folder, names=NAMES, **settings):
    settings = {"encoder": "biobert", "epochs": 3, "batch_words": 20, **settings}
    return create_multitask_config([folder / name for name in names], **settings)


def test_each_corpus_has_a_head_of_its_name(corpora):
    config, tasks = create(corpora)
    config = config.interpolate()
    assert [(task.name, task.task) for task in tasks] == [
        ("drugs", "ner"),
        ("diseases", "ner"),
        ("topics", "textcat_multilabel"),
    ]
    assert config["nlp"]["pipeline"] == ["biomed_transformer", *NAMES]
    components = config["components"]
    assert [components[name]["factory"] for name in NAMES] == [
        "biomed_ner",
        "biomed_ner",
        "biomed_textcat",
    ]
    assert [components[name].get("spans_key") for name in NAMES] == ["drugs", "diseases", None]
    assert components["topics"]["exclusive"] is False
    assert config["initialize"]["components"] == {"topics": {"labels": ["RISK", "TREATMENT"]}}
    for part in ("train", "dev"):
        paths = {name: (corpora / name / f"{part}.spacy").as_posix() for name in NAMES}
        assert config["corpora"][part]["paths"] == paths
    assert config["components"]["biomed_transformer"]["model"]["name"] == "biobert"
    assert "heads" not in config


def test_a_heads_settings_are_its_factorys_and_the_templates(corpora):
    config, _ = create(corpora, ["drugs"])
    nlp = spacy.blank("en")
    default = nlp.get_factory_meta("biomed_ner").default_config
    template = load_config(TEMPLATES / "base.cfg")["heads"]["biomed_ner"]
    drugs = config["components"]["drugs"]
    assert drugs["model"]["tok2vec"] == default["model"]["tok2vec"]
    assert drugs["model"]["hidden_width"] == template["model"]["hidden_width"]
    assert drugs["learn_rate_factor"] == template["learn_rate_factor"]
    assert "hidden_width" not in default["model"]  # so that this one was not changed


@pytest.mark.parametrize("schedule", ["round_robin", "proportional"])
def test_steps_are_those_of_the_schedules_epochs(corpora, schedule):
    config, tasks = create(corpora, schedule=schedule)
    batcher = {"@batchers": BY_WORDS, "size": 20}
    batches = [count_batches([corpora / name / "train.spacy"], batcher) for name in NAMES]
    assert [task.batches for task in tasks] == batches
    steps = 3 * max(batches) if schedule == "round_robin" else sum(batches)
    assert config["vars"]["max_steps"] == 3 * steps
    assert config["vars"]["eval_frequency"] == steps
    assert config["vars"]["warmup_steps"] == round(0.1 * 3 * steps)
    assert config["training"]["batcher"]["@batchers"] == f"spacy_biomed.{schedule}.v1"


def test_the_main_score_is_the_mean_of_the_tasks(corpora):
    config, tasks = create(corpora)
    assert [task.score for task in tasks] == [
        "spans_drugs_f",
        "spans_diseases_f",
        "cats_topics_score",
    ]
    # As spaCy weights them: it adds the factories' own defaults, and rounds.
    weights = (
        spacy.blank("en").from_config(with_tiny_heads(config)).config["training"]["score_weights"]
    )
    assert {name: weight for name, weight in weights.items() if weight} == {
        "spans_drugs_f": 0.33,
        "spans_diseases_f": 0.33,
        "cats_topics_score": 0.33,
    }


def with_tiny_heads(config):
    """Without the encoder, which is not there."""
    config = config.copy()
    config["nlp"]["pipeline"] = NAMES
    del config["components"]["biomed_transformer"]
    return config.interpolate()


def test_settings_of_the_command_reach_the_config(corpora):
    config, _ = create(corpora, seed=7, learn_rate=0.5)
    config = config.interpolate()
    assert config["training"]["seed"] == 7
    assert config["training"]["batcher"]["batcher"]["size"] == 20
    assert config["training"]["optimizer"]["learn_rate"]["initial_rate"] == 0.5
    assert config["nlp"]["lang"] == "en"


@pytest.fixture
def own(corpora, tmp_path):
    """Copy one of the corpora under another name, with changes to its corpus.json."""

    def copy(corpus, name, /, **changes):
        shutil.copytree(corpora / corpus, tmp_path / name)
        path = tmp_path / name / "corpus.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        return tmp_path

    return copy


def test_corpora_of_several_languages_have_spacys_multi_language(own):
    own("drugs", "es", language="es")
    config, _ = create(own("diseases", "en"), ["es", "en"])
    assert config["nlp"]["lang"] == "xx"


def test_classes_of_the_same_name_get_their_heads_name(own, tiny_bert):
    own("topics", "more", task="pair_classification")
    folder = own("topics", "topics")
    config, _ = create(folder, ["topics", "more"], encoder=str(tiny_bert))
    assert config["corpora"]["train"]["prefixed"] == ["topics", "more"]
    assert config["corpora"]["dev"]["prefixed"] == ["topics", "more"]
    assert config["initialize"]["components"]["more"]["labels"] == ["more_RISK", "more_TREATMENT"]
    assert config["components"]["more"]["exclusive"] is True
    config["components"]["more"]["exclusive"] = False  # these do not exclude each other
    nlp = init_nlp(config)
    assert set(nlp("Aspirin").cats) == {
        f"{name}_{label}" for name in ("topics", "more") for label in ("RISK", "TREATMENT")
    }


def test_questions_have_their_long_contexts_read_in_windows(own):
    for task, expected in (("qa", "window"), ("relations", None)):
        folder = own("topics", task, task=task)
        config, _ = create(folder, [task])
        assert config["components"]["biomed_transformer"]["model"].get("pair_overflow") == expected


def test_several_relations_of_a_pair_do_not_exclude_each_other(own):
    part = {"relations": {"A": 2}, "several_relations": 1}
    for name, parts in (("one", {"train": {}}), ("several", {"train": part})):
        folder = own("topics", name, task="relations", parts=parts)
        config, _ = create(folder, [name])
        assert config["components"][name]["exclusive"] == (name == "one")


def test_similarities_of_two_corpora_get_their_heads_name(own):
    for name in ("one", "two"):
        folder = own("topics", name, task="similarity")
        path = folder / name / "train.spacy"
        docs = list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))
        for doc in docs:
            doc.cats = {"similarity": 2.5}
        DocBin(docs=docs).to_disk(path)
    alone, _ = create(folder, ["one"])
    assert alone["components"]["one"]["label"] == "similarity"
    both, tasks = create(folder, ["one", "two"])
    assert both["corpora"]["dev"]["prefixed"] == ["one", "two"]
    assert both["components"]["two"]["label"] == "two_similarity"
    assert [task.score for task in tasks] == [
        f"similarity_{name}_pearson" for name in ("one", "two")
    ]


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ([], {}, "--tasks names no corpus"),
        (["drugs", "drugs"], {}, "--tasks names 'drugs' 2 times"),
        (["none"], {}, "none: no such folder; .*--format"),
        (["drugs"], {"schedule": "random"}, "--schedule random: use round_robin or proportional"),
    ],
)
def test_bad_input_is_one_line(corpora, names, settings, message):
    with pytest.raises(BiomedError, match=message) as error:
        create(corpora, names, **settings)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["a.b", "biomed_transformer"])
def test_a_name_that_no_head_can_have_is_refused(own, name):
    with pytest.raises(BiomedError, match="cannot be the name of a head: rename"):
        create(own("drugs", name), [name])


def test_a_template_of_another_kind_is_refused(corpora):
    with pytest.raises(BiomedError, match=r"ner.cfg: not for several corpora: begin with the temp"):
        create(corpora, ["drugs"], template="ner")


@pytest.mark.parametrize(
    ("section", "setting"), [("training", "batcher"), ("corpora", "dev"), ("components", ENCODER)]
)
def test_a_template_that_lacks_what_is_filled_is_refused(corpora, tmp_path, section, setting):
    config = read_template("multitask")
    del config[section][setting]
    config.to_disk(tmp_path / "own.cfg", interpolate=False)
    with pytest.raises(BiomedError, match=r"own.cfg: not for several corpora"):
        create(corpora, ["drugs"], template=tmp_path / "own.cfg")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "poetry"}, "no head learns the task 'poetry'; add \"task\" with one of "),
        ({"name": "my own", "parts": {"train": {}}}, 'its task is not known; add "task"'),
    ],
)
def test_a_corpus_of_unknown_task_is_refused(own, changes, message):
    with pytest.raises(BiomedError, match=message):
        create(own("drugs", "mine", **changes), ["mine"])


def test_a_corpus_without_a_development_part_is_refused(own):
    folder = own("drugs", "mine")
    (folder / "mine" / "dev.spacy").unlink()
    with pytest.raises(BiomedError, match="mine: no dev.spacy there"):
        create(folder, ["mine"])
