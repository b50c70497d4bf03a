"""Training that goes on from a trained pipeline."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import spacy
from multitask_corpora import SMALL_MODEL
from spacy.tokens import Doc
from spacy.training import Example
from spacy.training.initialize import init_nlp
from spacy.training.loop import train as spacy_train
from spacy.util import load_config

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.spacy_docs import read_docs
from spacy_biomed.packaging.compression import compress_pipeline
from spacy_biomed.pipeline.encoder_head import add_labels
from spacy_biomed.training.checkpoint import fingerprint
from spacy_biomed.training.config import TEMPLATES, fill_config
from spacy_biomed.training.resumable import train
from spacy_biomed.training.teaching import create_taught_corpus
from spacy_biomed.training.updating import LEARN_RATE_SHARE, create_update

NER, ENCODER = "biomed_ner", "biomed_transformer"
# Components that are not trained.
RULES = ["biomed_consistency", "biomed_sentences", "biomed_sections", "biomed_context"]
OTHERS = [*RULES, "biomed_deidentify"]
OLD_TAGS = 1 + 2 * 4

GENES = [
    "BRCA1\tB-GENE\nwas\tO\nfound\tO\nin\tO\ncancer\tO\n.\tO\n\n",
    "Metformin\tO\nreduced\tO\nTP53\tB-GENE\n.\tO\n\n",
    "No\tO\nmutations\tO\nwere\tO\nfound\tO\n.\tO\n\n",
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """The template `ner` with few weights, and a learning rate for few steps."""
    config = load_config(TEMPLATES / "ner.cfg")
    config["heads"] = {NER: {"model": SMALL_MODEL}}
    config["components"][ENCODER]["model"]["precision"] = "fp32"
    config["vars"] = {"learn_rate": 0.01, "batch_words": 60}
    config["training"]["optimizer"]["use_averages"] = False
    path = tmp_path_factory.mktemp("template") / "ner.cfg"
    config.to_disk(path)
    return path


@pytest.fixture(scope="module")
def genes(tmp_path_factory):
    """A corpus that annotates a label that the trained pipeline lacks, and none that it has."""
    return convert_genes(tmp_path_factory.mktemp("genes"))


def convert_genes(folder, language="es"):
    source = folder / "source"
    source.mkdir()
    for part, times in (("train", 6), ("dev", 1), ("test", 1)):
        (source / f"{part}.tsv").write_text("".join(GENES * times))
    convert_corpus("genes", source, folder / "genes", format="columns", language=language)
    return folder / "genes"


@pytest.fixture(scope="module")
def trained(template, converted, tiny_bert, tmp_path_factory):
    """A pipeline that has learned the corpus of diseases (D) and chemicals (C)."""
    config = fill_config(converted, encoder=str(tiny_bert), template=template, epochs=30)
    config["vars"]["eval_frequency"] = config["vars"]["max_steps"]
    output = tmp_path_factory.mktemp("trained")
    spacy_train(init_nlp(config), output, stdout=(output / "log.txt").open("w"))
    nlp = spacy.load(output / "model-last")
    nlp.add_pipe("biomed_deidentify", config={"kinds": {"C": "id"}})
    nlp.to_disk(output / "pipeline")
    return output / "pipeline"


@pytest.fixture
def update(template, genes, trained):
    return create_update(genes, source=str(trained), template=template, epochs=2)


def texts(corpus, part="train"):
    docs = read_docs(corpus / f"{part}.spacy", spacy.blank("es").vocab)
    return sorted({doc.text for doc in docs})


def found(nlp, corpus):
    return [[(ent.text, ent.label_) for ent in nlp(text).ents] for text in texts(corpus)]


@pytest.mark.slow
def test_every_component_is_sourced_in_its_order_and_what_the_template_trains_learns(
    update, trained
):
    config = update.config.interpolate()
    assert config["nlp"]["pipeline"] == [ENCODER, NER, *OTHERS]
    assert config["components"] == {
        name: {"source": str(trained)} for name in config["nlp"]["pipeline"]
    }
    assert config["training"]["frozen_components"] == OTHERS
    assert config["nlp"]["lang"] == "es"
    assert update.new == ["GENE"]
    assert update.unannotated == ["C", "D"]
    assert update.moved == []


def test_a_tagger_of_spacy_on_the_encoder_is_named_as_moved(template, genes, trained, tmp_path):
    nlp = spacy.load(trained)
    listener = {"@architectures": "spacy_biomed.EncoderListener.v1"}
    model = {"@architectures": "spacy.Tagger.v2", "tok2vec": listener}
    tagger = nlp.add_pipe("tagger", config={"model": model})
    tagger.initialize(lambda: [Example(nlp.make_doc("a"), Doc(nlp.vocab, ["a"], tags=["N"]))])
    nlp.to_disk(tmp_path / "source")
    update = create_update(genes, source=str(tmp_path / "source"), template=template, epochs=2)
    assert update.moved == ["tagger"]


@pytest.mark.parametrize(
    ("trained_with", "given", "rate"),
    [
        ({"learn_rate": 0.004}, None, LEARN_RATE_SHARE * 0.004),
        ({"learn_rate": 0.004, "source": "another"}, None, 0.004),
        ({}, None, LEARN_RATE_SHARE * 0.01),  # the template's
        ({"learn_rate": 0.004}, 0.5, 0.5),
    ],
    ids=["half of its own", "of an update: its own", "not told: half of the template's", "given"],
)
def test_the_learning_rate_is_chosen_by_the_pipelines_own(
    template, genes, trained, tmp_path, trained_with, given, rate
):
    source = shutil.copytree(trained, tmp_path / "source")
    config = load_config(source / "config.cfg")
    # Nothing that the variables stand for is needed to load it.
    config = config.interpolate()
    config["vars"] = trained_with
    config.to_disk(source / "config.cfg")
    update = create_update(genes, source=str(source), template=template, epochs=2, learn_rate=given)
    optimizer = update.config.interpolate()["training"]["optimizer"]
    assert optimizer["learn_rate"]["initial_rate"] == rate


@pytest.mark.slow
def test_new_labels_come_after_the_old_ones_whose_weights_and_predictions_stay(
    update, trained, converted, genes
):
    old, grown = spacy.load(trained), init_nlp(update.config)
    assert grown.get_pipe(NER).labels == ("C", "D", "GENE")
    assert grown.get_pipe(NER).classes()[:OLD_TAGS] == old.get_pipe(NER).classes()
    for name in ("W", "b"):
        before, after = (
            nlp.get_pipe(NER).model.get_ref("output").get_param(name) for nlp in (old, grown)
        )
        assert len(after) == OLD_TAGS + 4
        np.testing.assert_array_equal(after[:OLD_TAGS], before)
    some = found(old, converted)
    assert sum(map(len, some)) > 3
    assert found(grown, converted) == some
    assert found(grown, genes) == found(old, genes)
    for text in texts(converted):
        for before, after in zip(old(text).ents, grown(text).ents, strict=True):
            assert after._.confidence == pytest.approx(before._.confidence, abs=0.01)


def test_all_new_tags_together_are_a_hundredth_as_probable_as_outside(update, trained):
    old, grown = spacy.load(trained), init_nlp(update.config)
    before, after = (
        nlp.get_pipe(NER).probabilities([nlp.get_pipe(ENCODER)(nlp.make_doc("Aspirin for cancer"))])
        for nlp in (old, grown)
    )
    new = after[0][:, OLD_TAGS:]
    np.testing.assert_allclose(new.sum(axis=1), 0.01 * after[0][:, 0], rtol=1e-4)
    kept = after[0][:, :OLD_TAGS] / (1.0 - new.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(kept, before[0], rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_a_grown_pipeline_is_saved_and_loaded(update, genes, tmp_path):
    grown = init_nlp(update.config)
    grown.to_disk(tmp_path / "grown")
    loaded = spacy.load(tmp_path / "grown")
    assert loaded.get_pipe(NER).labels == ("C", "D", "GENE")
    assert found(loaded, genes) == found(grown, genes)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("run", [spacy_train, train], ids=["spacy", "biomed"])
def test_the_new_label_is_learned(run, template, genes, trained, tmp_path):
    update = create_update(
        genes, source=str(trained), template=template, epochs=30, learn_rate=0.01
    )
    update.config["vars"]["eval_frequency"] = 10_000
    with (tmp_path / "log.txt").open("w") as log:
        run(init_nlp(update.config), tmp_path, stdout=log)
    nlp = spacy.load(tmp_path / "model-last")
    assert nlp.pipe_names == [ENCODER, NER, *OTHERS]
    gold = {"BRCA1": "GENE", "TP53": "GENE"}
    for entities in found(nlp, genes):
        assert [one for one in entities if one[1] == "GENE"] == [
            (text, label) for text, label in gold.items() if (text, label) in entities
        ]
    assert {one for entities in found(nlp, genes) for one in entities} >= set(gold.items())


def test_the_tokenizer_is_the_pipelines(template, genes, trained, tmp_path):
    nlp = spacy.load(trained)
    nlp.tokenizer.add_special_case("BRCA1", [{"ORTH": "BRC"}, {"ORTH": "A1"}])
    nlp.to_disk(tmp_path / "pipeline")
    update = create_update(genes, source=str(tmp_path / "pipeline"), template=template, epochs=1)
    grown = init_nlp(update.config)
    assert [token.text for token in grown.make_doc("BRCA1 x")] == ["BRC", "A1", "x"]


def test_a_run_that_was_stopped_ends_as_one_that_was_not(update, trained, tmp_path, weights):
    update.config["vars"]["eval_frequency"] = 2
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    with (tmp_path / "log.txt").open("w") as log:
        nlp = init_nlp(update.config)
        train(nlp, whole, stdout=log)
        killed = init_nlp(update.config)
        killed.get_pipe(NER).update = stop_after(3, killed.get_pipe(NER).update)
        with pytest.raises(KeyboardInterrupt):
            train(killed, stopped, stdout=log)
        again = init_nlp(update.config)
        assert (stopped / "checkpoint").is_dir()
        train(again, stopped, stdout=log)
    assert str(trained) in fingerprint(nlp)  # another pipeline there would be another run
    assert "Continuing after step 2" in (tmp_path / "log.txt").read_text()
    for name in (ENCODER, NER):
        np.testing.assert_array_equal(weights(again, name), weights(nlp, name))


def stop_after(steps, update):
    left = iter(range(steps))

    def update_or_stop(*args, **kwargs):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return update(*args, **kwargs)

    return update_or_stop


def test_a_pipeline_rehearses_what_it_knows(template, genes, trained, tmp_path):
    nlp = spacy.load(trained)
    taught = tmp_path / "taught"
    create_taught_corpus([nlp], genes, ["Aspirin reduced the risk of stroke."], taught)
    update = create_update(taught, source=str(trained), template=template, epochs=1)
    assert update.unannotated == []
    grown = init_nlp(update.config)
    assert grown.get_pipe(NER).labels == ("C", "D", "GENE")
    corpus = update.config.interpolate()["corpora"]["train"]["path"]
    # Learning begins where the teacher is: unlabelled text has nothing new to teach.
    docs = [
        doc for doc in read_docs(Path(corpus), grown.vocab) if not doc.has_annotation("ENT_IOB")
    ]
    head = grown.get_pipe(NER)
    for doc in docs:
        example = spacy.training.Example(grown.get_pipe(ENCODER)(grown.make_doc(doc.text)), doc)
        _, d_scores = head.get_loss([example], head.model.predict([example.predicted]))
        assert np.abs(d_scores).max() < 2e-3


# What cannot be gone on from


def test_an_exported_pipeline_is_refused(template, genes, trained, tmp_path):
    compress_pipeline(trained, tmp_path / "exported", precision="fp32")
    with pytest.raises(BiomedError, match=r"exported \(biomed_onnx_transformer\); give the pipeli"):
        create_update(genes, source=str(tmp_path / "exported"), template=template, epochs=1)


def test_a_pipeline_without_what_the_template_trains_is_refused(genes, trained):
    message = "has no component 'biomed_textcat' of the kind 'biomed_textcat', which is to be"
    with pytest.raises(BiomedError, match=message):
        create_update(genes, source=str(trained), task="textcat_multilabel", epochs=1)


def test_a_corpus_of_another_language_is_refused(template, trained, tmp_path):
    corpus = convert_genes(tmp_path, "en")
    with pytest.raises(BiomedError, match="a pipeline of the language 'es', and .* is of 'en'"):
        create_update(corpus, source=str(trained), template=template, epochs=1)


def test_a_tokenizer_of_another_kind_is_refused(update):
    update.config["nlp"]["tokenizer"] = {"@tokenizers": "spacy.Tokenizer.v1"}
    with pytest.raises(BiomedError, match=r"\[nlp.tokenizer\] of the config is not that of"):
        init_nlp(update.config)


def test_a_source_that_is_no_longer_there_is_named(update):
    update.config["initialize"]["before_init"]["source"] = "moved"
    with pytest.raises(BiomedError, match=r"\] source = 'moved': no such pipeline.*resume"):
        init_nlp(update.config)


def test_a_component_that_is_not_sourced_is_named(update, trained):
    update.config["components"][NER] = spacy.load(trained).config["components"][NER]
    message = rf"\[components.{NER}\] has no weights to go on from: give it source = "
    with pytest.raises(BiomedError, match=message):
        init_nlp(update.config)


def test_a_head_that_cannot_grow_says_so():
    nlp = spacy.blank("en")
    head = nlp.add_pipe("biomed_textcat")
    head.add_label("KNOWN")
    reference = nlp.make_doc("a")
    reference.cats = {"KNOWN": 1.0}
    assert add_labels(head, [Example(nlp.make_doc("a"), reference)]) == []
    reference.cats = {"KNOWN": 1.0, "NEW": 0.0}
    with pytest.raises(BiomedError, match=r"labels that 'biomed_textcat' does not know \('NEW'\)"):
        add_labels(head, [Example(nlp.make_doc("a"), reference)])
