"""Configs out of templates."""

import json
import shutil
from configparser import ConfigParser
from pathlib import Path

import pytest
import spacy
from spacy.cli.init_config import fill_config as spacy_fill
from spacy.training import Corpus
from spacy.util import load_config, registry

import spacy_biomed
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.training import config as config_module
from spacy_biomed.training.config import (
    BY_WORDS,
    TEMPLATES,
    count_batches,
    fill_config,
    read_description,
)

TASKS = (
    "assertion",
    "ner",
    "pair_classification",
    "qa",
    "relations",
    "similarity",
    "textcat_multilabel",
)
PACKAGE = Path(spacy_biomed.__file__).parent
NOTE_RULES = ["biomed_sentences", "biomed_sections", "biomed_context"]
LINEAR = {"template": "ner_linear"}


def fill(corpus, **settings):
    return fill_config(corpus, **{"encoder": "biobert", "epochs": 5, **settings})


@pytest.fixture
def classes(corpora):
    """A converted corpus of classes."""
    return corpora / "topics"


@pytest.mark.parametrize("task", TASKS)
def test_steps_are_the_epochs_batches_and_each_epoch_is_scored(converted, task):
    config = fill(converted, task=task, batch_words=10)
    batches = count_batches([converted / "train.spacy"], {"@batchers": BY_WORDS, "size": 10})
    assert config["vars"]["max_steps"] == 5 * batches
    assert config["vars"]["eval_frequency"] == batches
    assert config["vars"]["warmup_steps"] == round(0.1 * 5 * batches)


def test_a_single_epoch_is_scored_four_times(converted):
    config = fill(converted, epochs=1, batch_words=2)
    batches = count_batches([converted / "train.spacy"], {"@batchers": BY_WORDS, "size": 2})
    assert batches > 4
    assert config["vars"]["max_steps"] == batches
    assert config["vars"]["eval_frequency"] == batches // 4


def test_a_long_epoch_is_scored_four_times(converted, monkeypatch):
    batches = count_batches([converted / "train.spacy"], {"@batchers": BY_WORDS, "size": 2})
    monkeypatch.setattr(config_module, "LONG_EPOCH", batches)
    assert fill(converted, batch_words=2)["vars"]["eval_frequency"] == batches
    monkeypatch.setattr(config_module, "LONG_EPOCH", batches - 1)
    assert fill(converted, batch_words=2)["vars"]["eval_frequency"] == batches // 4


def test_a_training_of_a_single_step_has_a_step_of_warm_up(converted):
    config = fill(converted, epochs=1, batch_words=100_000)
    assert (config["vars"]["max_steps"], config["vars"]["warmup_steps"]) == (1, 1)


def test_paths_language_encoder_and_seed_are_filled_in(converted):
    config = fill(converted, seed=7).interpolate()
    assert config["corpora"]["train"]["path"] == (converted / "train.spacy").as_posix()
    assert config["corpora"]["dev"]["path"] == (converted / "dev.spacy").as_posix()
    assert config["nlp"]["lang"] == "es"
    assert config["components"]["biomed_transformer"]["model"]["name"] == "biobert"
    assert config["training"]["seed"] == config["system"]["seed"] == 7


def test_batch_words_and_learning_rate_are_the_templates_unless_given(converted):
    template = load_config(TEMPLATES / "base.cfg")["vars"]
    given = fill(converted, batch_words=123, learn_rate=0.5).interpolate()
    left = fill(converted).interpolate()
    assert left["training"]["batcher"]["size"] == template["batch_words"]
    assert left["vars"]["learn_rate"] == template["learn_rate"]
    assert given["training"]["batcher"]["size"] == 123
    assert given["training"]["optimizer"]["learn_rate"]["initial_rate"] == 0.5


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("settings", [*({"task": task} for task in TASKS), LINEAR], ids=str)
def test_a_filled_config_makes_a_pipeline(converted, settings):
    config = fill(converted, **settings)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    assert nlp.lang == "es"
    assert nlp.pipe_names == config["nlp"]["pipeline"]


@pytest.mark.parametrize(
    ("task", "head", "main", "variables", "head_settings", "encoder_settings", "optimizer"),
    [
        (
            "ner",
            "biomed_ner",
            "ents_f",
            (0.0002, 400),
            {"scheme": "biluo", "learn_rate_factor": 3.0, "model.hidden_width": 128},
            {"word_piece_dropout": 0.1, "window": 256, "context": 16, "normalize": True},
            {"use_averages": True},
        ),
        (
            "textcat_multilabel",
            "biomed_textcat",
            "cats_score",
            (0.0002, 1500),
            {"exclusive": False, "model.tok2vec.pooling": "mean"},
            {},
            {},
        ),
        (
            "pair_classification",
            "biomed_textcat",
            "cats_acc",
            (0.00005, 1000),
            {"exclusive": True, "model.tok2vec.pooling": "cls"},
            {},
            {},
        ),
        (
            "similarity",
            "biomed_similarity",
            "similarity_pearson",
            (0.00005, 1000),
            {"label": "similarity"},
            {"dropout": 0.0},
            {},
        ),
        (
            "relations",
            "biomed_relations",
            "relations_micro_f",
            (0.0002, 600),
            {"directed": False, "exclusive": True, "pairs": None},
            {},
            {},
        ),
        (
            "qa",
            "biomed_qa",
            "qa_f1",
            (0.0002, 800),
            {"max_answer_words": 80, "model.tok2vec.pooling": "pieces"},
            {"pair_overflow": "window"},
            {},
        ),
    ],
)
def test_the_task_decides_the_head_and_what_differs_from_other_tasks(
    converted, task, head, main, variables, head_settings, encoder_settings, optimizer
):
    config = fill(converted, task=task)
    encoder = config["components"]["biomed_transformer"]["model"]
    basic = {
        "@architectures": "spacy_biomed.TransformerModel.v1",
        "name": "${vars.encoder}",
    }
    others = ["biomed_consistency", *NOTE_RULES] if task == "ner" else []
    assert config["nlp"]["pipeline"] == ["biomed_transformer", head, *others]
    assert (config["vars"]["learn_rate"], config["vars"]["batch_words"]) == variables
    assert encoder == {**basic, **encoder_settings}
    given = config["training"]["optimizer"]
    assert {name: given[name] for name in given if name == "use_averages"} == optimizer
    weights = config["training"]["score_weights"]
    assert {name for name, weight in weights.items() if weight} == {main}
    for name, value in head_settings.items():
        found = config["components"][head]
        for part in name.split("."):
            found = found[part]
        assert found == value, name
    assert "heads" not in config


def test_rules_for_notes_are_left_out_in_a_language_that_has_none(converted, tmp_path):
    shutil.copytree(converted, tmp_path / "corpus")
    description = json.loads((converted / "corpus.json").read_text(encoding="utf8"))
    (tmp_path / "corpus" / "corpus.json").write_text(json.dumps({**description, "language": "fr"}))
    names = fill(tmp_path / "corpus", task="ner")["nlp"]["pipeline"]
    assert names == ["biomed_transformer", "biomed_ner", "biomed_consistency"]
    config = fill(tmp_path / "corpus", task="assertion")
    assert config["nlp"]["pipeline"] == ["biomed_transformer", "biomed_assertion"]
    assert config["training"]["annotating_components"] == []


def test_variants_get_the_component_of_their_nomenclature(converted, tmp_path):
    corpus = shutil.copytree(converted, tmp_path / "variants")
    description = json.loads((corpus / "corpus.json").read_text())
    description["labels"].append("VARIANT")
    (corpus / "corpus.json").write_text(json.dumps(description))
    pipeline = fill(corpus)["nlp"]["pipeline"]
    assert pipeline[1:4] == ["biomed_ner", "biomed_variants", "biomed_consistency"]


@pytest.mark.parametrize("task", ["ner", "relations", "assertion"])
def test_components_read_the_span_group_of_the_corpus(converted, tmp_path, task):
    corpus = shutil.copytree(converted, tmp_path / "spans")
    assert all("sc" not in one.values() for one in fill(corpus, task=task)["components"].values())
    description = json.loads((corpus / "corpus.json").read_text())
    (corpus / "corpus.json").write_text(json.dumps({**description, "spans_key": "sc"}))
    config = fill(corpus, task=task)
    keys = {
        name: one["spans_key"] for name, one in config["components"].items() if "spans_key" in one
    }
    assert f"biomed_{task}" in keys and set(keys.values()) == {"sc"}
    if task == "ner":
        assert {*keys} == {"biomed_ner", "biomed_consistency", "biomed_context"}
        assert config["training"]["score_weights"]["spans_sc_f"] == 1.0


def test_sentences_are_found_before_the_head_of_assertions(converted):
    config = fill(converted, template="assertion")
    assert config["nlp"]["pipeline"] == ["biomed_transformer", *NOTE_RULES[:1], "biomed_assertion"]
    assert config["training"]["annotating_components"] == ["biomed_sentences"]


@pytest.mark.parametrize("template", ["assertion", "document_relations", "relations"])
def test_the_development_part_has_the_entities_that_a_head_reads(converted, template):
    assert fill(converted, template=template)["corpora"]["dev"]["gold_entities"] is True


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("settings", [*({"task": task} for task in TASKS), LINEAR], ids=str)
def test_a_written_config_is_complete_and_spacy_changes_none_of_it(converted, tmp_path, settings):
    fill(converted, **settings).to_disk(tmp_path / "written.cfg")
    _, filled = spacy_fill(tmp_path / "filled.cfg", tmp_path / "written.cfg")
    written = load_config(tmp_path / "written.cfg")
    assert filled.merge(written) == filled
    _, again = spacy_fill(tmp_path / "again.cfg", tmp_path / "filled.cfg")
    assert again == filled
    sections = "paths vars system nlp components corpora training pretraining initialize"
    assert set(filled) == set(sections.split())


def test_the_templates_are_among_the_files_of_the_package():
    setup = ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg")
    patterns = setup["options.package_data"]["spacy_biomed"].split()
    shipped = {path for pattern in patterns for path in PACKAGE.glob(pattern)}
    templates = {path for path in TEMPLATES.rglob("*") if path.is_file()}
    assert len(templates) == 12 + 23 and templates <= shipped


def test_the_template_of_deidentification_reads_as_ner_does_and_replaces(converted):
    ours, ner = (fill(converted, template=name) for name in ("deidentification", "ner"))
    assert ours["nlp"]["pipeline"][2:] == ["biomed_phi_patterns", "biomed_deidentify"]
    for name in ours["nlp"]["pipeline"][:2]:
        assert ours["components"][name] == ner["components"][name]
    for name in ("corpora", "training"):
        assert {**ours[name], "frozen_components": 0} == {**ner[name], "frozen_components": 0}


def test_a_linear_head_sees_nothing_but_the_encoder(converted):
    model = fill(converted, **LINEAR)["components"]["biomed_ner"]["model"]
    assert (model["window_size"], model["hidden_width"], model["features"]) == (0, 0, None)


@pytest.mark.parametrize(
    ("template", "task"),
    [
        ("ner", "ner"),
        ("textcat", "textcat_multilabel"),
        ("pair", "pair_classification"),
        ("relations", "relations"),
        (TEMPLATES / "qa.cfg", "qa"),
    ],
)
def test_a_template_of_a_task_brings_its_head_whatever_the_corpus_holds(converted, template, task):
    assert fill(converted, template=template) == fill(converted, task=task)


def test_a_variant_of_a_template_is_for_the_same_task(classes):
    assert fill(classes, **LINEAR)["nlp"]["pipeline"] == ["biomed_transformer", "biomed_ner"]
    assert fill(classes)["nlp"]["pipeline"] == ["biomed_transformer", "biomed_textcat"]


def test_a_given_task_is_stronger_than_that_of_the_template(converted):
    config = fill(converted, template="textcat", task="ner")
    assert config["nlp"]["pipeline"] == ["biomed_transformer", "biomed_ner"]


def test_a_config_that_was_written_is_a_template_too(converted, tmp_path):
    written = fill(converted, seed=3)
    written["components"]["biomed_ner"]["scheme"] = "bio"
    written.to_disk(tmp_path / "own.cfg")
    again = fill(converted, template=tmp_path / "own.cfg", seed=3)
    assert again == load_config(tmp_path / "own.cfg")


def test_a_template_has_only_what_differs(converted, tmp_path):
    (tmp_path / "own.cfg").write_text(
        "[vars]\nbatch_words = 7\n[heads]\n[heads.biomed_ner]\nscheme = 'bio'\n".replace("'", '"')
    )
    config = fill(converted, template=tmp_path / "own.cfg")
    assert config["vars"]["batch_words"] == 7
    assert config["components"]["biomed_ner"]["scheme"] == "bio"
    assert config["components"]["biomed_ner"]["learn_rate_factor"] == 3.0


@pytest.mark.parametrize("size", [1, 7, 10, 25, 10_000])
def test_batches_are_counted_as_spacys_batcher_makes_them(converted, size):
    nlp = fill(converted)
    nlp = spacy.util.load_model_from_config(nlp, auto_fill=True)
    batcher = registry.batchers.get("spacy.batch_by_words.v1")(
        size=size, tolerance=0.2, discard_oversize=False
    )
    yielded = list(batcher(list(Corpus(converted / "train.spacy")(nlp))))
    by_words = {"@batchers": BY_WORDS, "size": size}
    assert count_batches([converted / "train.spacy"], by_words) == len(yielded)


def test_documents_without_words_make_no_batch(tmp_path):
    nlp = spacy.blank("en")
    docs = [nlp.make_doc(text) for text in ("", "a b c", "", "d e f", "")]
    spacy.tokens.DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    assert count_batches([tmp_path / "train.spacy"], {"@batchers": BY_WORDS, "size": 3}) == 2


def test_a_missing_template_is_bad_input(converted, tmp_path):
    message = "nope.cfg: no such config; give one, or the name of a template: assertion, base"
    with pytest.raises(BiomedError, match=message):
        fill(converted, template=tmp_path / "nope.cfg")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[paths]\ntrain = null\n[vars\nseed = 0\n", r"t\.cfg:3: .*correct it"),
        ("[paths]\ntrain = null\n[nlp]\nlang = null\n", r"t\.cfg: no template: it has neither"),
        ("[paths]\n[nlp]\n[vars]\nseed = 0\n", r"t\.cfg: no template: it has neither"),
        ("[training]\nsteps = 5\n[text]\npaths = []\n", r"t\.cfg: no template: it has neither"),
        ("", r"t\.cfg: no template: it has neither"),
        ('[recipe]\nextends = "t.cfg"\n', r"t\.cfg: recipe.extends: .* cannot extend itself"),
        ("[recipe]\nextends = 5\n", "5: no such config"),
        ("[nlp]\npipeline = 3\n", r"t\.cfg: nlp.pipeline = 3: input should be a valid list"),
        ("[components]\nbiomed_ner = 3\n", r"components.biomed_ner = 3: input should be a valid d"),
        ("[training]\nbatcher = null\n", r"training.batcher = None: .* valid dictionary; correct"),
        ("[corpora]\ntrain = 3\n", r"corpora.train = 3: input should be a valid dictionary; corr"),
        ('[corpora]\n[corpora.train]\nmax_words = "x"\n', "corpora.train.max_words = 'x': use a w"),
    ],
)
def test_what_is_no_template_is_bad_input(converted, tmp_path, monkeypatch, content, message):
    monkeypatch.chdir(tmp_path)
    Path("t.cfg").write_text(content)
    with pytest.raises(BiomedError, match=message) as raised:
        fill(converted, template="t.cfg")
    assert "\n" not in str(raised.value)


def test_a_folder_that_is_no_converted_corpus_is_bad_input(tmp_path):
    with pytest.raises(BiomedError, match="corpus.json: not there; `python -m spacy biomed conv"):
        fill(tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{\n"name": "own",\n"parts": {},,\n}', r"corpus\.json:3: not JSON"),
        ("[]", r"corpus\.json:1: not a JSON object"),
        ('{"name": "own", "parts": {}}', r"corpus\.json: no field 'language'"),
        (b"\xff\xfe\x00", r"corpus\.json: not JSON in UTF-8"),
    ],
)
def test_a_damaged_description_is_bad_input(tmp_path, content, message):
    content = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "corpus.json").write_bytes(content)
    with pytest.raises(BiomedError, match=message):
        read_description(tmp_path)


def test_a_converted_corpus_without_its_training_part_is_bad_input(converted, tmp_path):
    shutil.copytree(converted, tmp_path / "own")
    (tmp_path / "own" / "train.spacy").unlink()
    with pytest.raises(BiomedError, match="train.spacy: no such file"):
        fill(tmp_path / "own")


def test_the_description_of_a_converted_corpus_is_read(converted):
    written = json.loads((converted / "corpus.json").read_text(encoding="utf8"))
    assert read_description(converted) == written


@pytest.mark.parametrize(("second", "exclusive"), [("effect", False), ("mechanism", True)])
def test_a_head_is_exclusive_unless_a_pair_of_the_corpus_has_two_relations(
    tmp_path, second, exclusive
):
    pairs = "".join(
        f'<pair id="p{n}" e1="e{n}" e2="e{1 - n}" ddi="true" type="{type}"/>'
        for n, type in enumerate(("mechanism", second))
    )
    document = (
        '<document id="d"><sentence id="s" text="Aspirin raises warfarin.">'
        '<entity id="e0" charOffset="0-6" type="drug" text="Aspirin"/>'
        f'<entity id="e1" charOffset="15-22" type="drug" text="warfarin"/>{pairs}'
        "</sentence></document>"
    )
    for part in ("train", "dev"):
        (tmp_path / "ddi" / part).mkdir(parents=True)
        (tmp_path / "ddi" / part / "a.xml").write_text(document)
    report = convert_corpus("ddi", tmp_path / "ddi", tmp_path / "out", format="ddi")
    assert report.parts["train"].several_relations == (not exclusive)
    assert sum(report.parts["train"].relations.values()) == 2
    config = fill(tmp_path / "out")
    assert config["components"]["biomed_relations"]["exclusive"] is exclusive
