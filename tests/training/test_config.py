"""Configs out of templates."""

import json
import shutil
from pathlib import Path

import pytest
import spacy
from spacy.training import Corpus
from spacy.util import load_config, registry

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.training.config import count_batches, fill_config, read_description

REPOSITORY = Path(__file__).parents[2]
TEMPLATES = ("ner.cfg", "ner_linear.cfg", "pair.cfg", "qa.cfg", "similarity.cfg", "textcat.cfg")


def fill(corpus, template="ner.cfg", **settings):
    settings = {"encoder": "biobert", "epochs": 5, **settings}
    return fill_config(REPOSITORY / "configs" / template, corpus, **settings)


@pytest.mark.parametrize("template", TEMPLATES)
def test_steps_are_the_epochs_batches_and_each_epoch_is_scored(converted, template):
    config = fill(converted, template, batch_words=10)
    batches = count_batches(converted / "train.spacy", 10)
    assert config["vars"]["max_steps"] == 5 * batches
    assert config["vars"]["eval_frequency"] == batches
    assert config["vars"]["warmup_steps"] == round(0.1 * 5 * batches)


def test_a_single_epoch_is_scored_four_times(converted):
    config = fill(converted, epochs=1, batch_words=2)
    batches = count_batches(converted / "train.spacy", 2)
    assert batches > 4
    assert config["vars"]["max_steps"] == batches
    assert config["vars"]["eval_frequency"] == batches // 4


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
    template = load_config(REPOSITORY / "configs" / "ner.cfg")["vars"]
    given = fill(converted, batch_words=123, learn_rate=0.5).interpolate()
    left = fill(converted).interpolate()
    assert left["training"]["batcher"]["size"] == template["batch_words"]
    assert left["vars"]["learn_rate"] == template["learn_rate"]
    assert given["training"]["batcher"]["size"] == 123
    assert given["training"]["optimizer"]["learn_rate"]["initial_rate"] == 0.5


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_filled_config_makes_a_pipeline(converted, template):
    config = fill(converted, template)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    assert nlp.lang == "es"
    assert nlp.pipe_names == config["nlp"]["pipeline"]


@pytest.mark.parametrize("size", [1, 7, 10, 25, 10_000])
def test_batches_are_counted_as_spacys_batcher_makes_them(converted, size):
    nlp = fill(converted)
    nlp = spacy.util.load_model_from_config(nlp, auto_fill=True)
    batcher = registry.batchers.get("spacy.batch_by_words.v1")(
        size=size, tolerance=0.2, discard_oversize=False
    )
    yielded = list(batcher(list(Corpus(converted / "train.spacy")(nlp))))
    assert count_batches(converted / "train.spacy", size) == len(yielded)


def test_documents_without_words_make_no_batch(tmp_path):
    nlp = spacy.blank("en")
    docs = [nlp.make_doc(text) for text in ("", "a b c", "", "d e f", "")]
    spacy.tokens.DocBin(docs=docs).to_disk(tmp_path / "train.spacy")
    assert count_batches(tmp_path / "train.spacy", 3) == 2


def test_a_missing_template_is_bad_input(converted, tmp_path):
    with pytest.raises(BiomedError, match="nope.cfg: no such config; the templates are in"):
        fill_config(tmp_path / "nope.cfg", converted, encoder="biobert", epochs=1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[paths]\ntrain = null\n[vars\nseed = 0\n", r"t\.cfg:3: .*correct this line"),
        ("[paths]\ntrain = null\n[nlp]\nlang = null\n", r"t\.cfg: no section \[vars\] to fill"),
        ("[paths]\n[nlp]\n[vars]\nseed = 0\n", r"t\.cfg: no setting batch_words in \[vars\]"),
    ],
)
def test_what_is_no_template_is_bad_input(converted, tmp_path, content, message):
    (tmp_path / "t.cfg").write_text(content)
    with pytest.raises(BiomedError, match=message) as raised:
        fill_config(tmp_path / "t.cfg", converted, encoder="biobert", epochs=1)
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
    config = fill(tmp_path / "out", "relations.cfg")
    assert config["components"]["biomed_relations"]["exclusive"] is exclusive
