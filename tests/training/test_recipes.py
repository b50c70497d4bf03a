"""Recipes of papers, read back against what the papers say."""

import json
import random
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import spacy
from head_corpora import NLP, make_docs
from spacy.tokens import Doc, DocBin, Span
from spacy.training.initialize import init_nlp
from spacy.util import registry

from spacy_biomed.errors import BiomedError
from spacy_biomed.studies.study import read_part
from spacy_biomed.training.config import TEMPLATES, fill_config, find_epochs
from spacy_biomed.training.multitask import TASK_KEY
from spacy_biomed.training.multitask_config import create_multitask_config
from spacy_biomed.training.optimizer import Adamax, AdamW

FILES = sorted(path.stem for path in (TEMPLATES / "papers").glob("*.cfg"))
RECIPES = [name for name in FILES if not name.endswith("_multitask")]
TASKS = {
    "ner": "ner",
    "relations": "relations",
    "pair": "pair_classification",
    "similarity": "similarity",
    "textcat": "textcat_multilabel",
    "qa": "qa",
}
TRAIN, DEV = 72, 8


class Paper(NamedTuple):
    """What a paper says.

    Attributes:
        schedule: of the learning rate: "linear" to 0, "warm" for linear after a warm-up over a
            tenth, half a "cosine", or "constant".
        evaluation: steps from one evaluation to the next; None for each epoch.
        develops: whether there is a development part.
    """

    epochs: int
    sequences: int
    rate: float
    schedule: str = "linear"
    optimizer: type = AdamW
    decay: float = 0.0
    evaluation: int | None = None
    develops: bool = True
    eps: float = 1e-8


LEWIS_CLASSES = Paper(epochs=10, sequences=16, rate=2e-5, evaluation=200)
MULYAR = Paper(epochs=20, sequences=40, rate=5e-5, schedule="constant", develops=False)
PENG = Paper(epochs=10, sequences=32, rate=1e-5, schedule="warm", optimizer=Adamax, decay=0.01)
# What its authors' scripts do.
PENG_CODE = PENG._replace(optimizer=AdamW, decay=0.0, develops=False, eps=1e-6)
PAPERS = {
    "carrino_ner": Paper(epochs=20, sequences=64, rate=5e-5),
    "lewis_ner": Paper(epochs=20, sequences=32, rate=1e-5, evaluation=500),
    "lewis_pair": LEWIS_CLASSES,
    "lewis_relations": LEWIS_CLASSES,
    "lewis_textcat": LEWIS_CLASSES,
    "mulyar_ner": MULYAR._replace(sequences=25),
    "mulyar_pair": MULYAR,
    "mulyar_similarity": MULYAR,
    "peng_code_ner": PENG_CODE._replace(epochs=20, rate=5e-5),
    "peng_code_pair": PENG_CODE,
    "peng_code_relations": PENG_CODE._replace(rate=2e-5),
    "peng_code_similarity": PENG_CODE._replace(epochs=30, rate=5e-5),
    "peng_ner": PENG,
    "peng_pair": PENG,
    "peng_relations": PENG,
    "peng_similarity": PENG,
    "rohanian_code_ner": Paper(epochs=5, sequences=16, rate=5e-5, schedule="cosine", decay=0.01),
    "rohanian_ner": Paper(epochs=5, sequences=16, rate=5e-5),
    "rohanian_qa": Paper(epochs=5, sequences=16, rate=3e-5),
    "rohanian_relations": Paper(epochs=3, sequences=16, rate=5e-5),
}


def task_of(recipe):
    return TASKS[recipe.rpartition("_")[2]]


def write_corpus(folder, task, parts=("train", "dev")):
    folder.mkdir(parents=True)
    for part in parts:
        docs = make_docs(task) * ((TRAIN if part == "train" else DEV) // 8)
        DocBin(docs=docs, store_user_data=True).to_disk(folder / f"{part}.spacy")
    description = {"name": "my", "language": "en", "task": task, "parts": {}}
    (folder / "corpus.json").write_text(json.dumps(description))
    return folder


@pytest.fixture(scope="module")
def filled(tmp_path_factory, tiny_bert):
    """The filled config of each recipe, for a corpus of its task."""
    folder = tmp_path_factory.mktemp("recipes")
    corpora = {task: write_corpus(folder / task, task) for task in TASKS.values()}
    return {
        recipe: fill_config(
            corpora[task_of(recipe)], encoder=str(tiny_bert), template=f"papers/{recipe}"
        )
        for recipe in RECIPES
    }


def resolve(config):
    interpolated = config.interpolate()
    training = registry.resolve(
        {name: interpolated["training"][name] for name in ("batcher", "optimizer")}
    )
    corpora = registry.resolve(interpolated["corpora"])
    return training["batcher"], training["optimizer"], corpora


def count_examples(recipe):
    return TRAIN if PAPERS[recipe].develops else TRAIN + DEV


def test_each_recipe_is_that_of_a_paper():
    assert list(PAPERS) == RECIPES
    assert set(FILES) - set(RECIPES) == {
        f"{name}_multitask" for name in ("mulyar", "peng", "peng_code")
    }


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_batches_are_of_as_many_sequences_as_in_the_paper(filled, recipe):
    batcher, _, corpora = resolve(filled[recipe])
    sizes = [len(batch) for batch in batcher(list(corpora["train"](spacy.blank("en"))))]
    whole, rest = divmod(count_examples(recipe), PAPERS[recipe].sequences)
    assert sizes == [PAPERS[recipe].sequences] * whole + [rest] * bool(rest)


@pytest.mark.parametrize("recipe", RECIPES)
def test_training_takes_as_many_epochs_as_in_the_paper(filled, recipe):
    paper, variables = PAPERS[recipe], filled[recipe]["vars"]
    steps = -(-count_examples(recipe) // paper.sequences)
    assert variables["max_steps"] == paper.epochs * steps
    expected = paper.evaluation or steps
    if not paper.develops:
        expected = paper.epochs * steps
    assert variables["eval_frequency"] == min(expected, paper.epochs * steps)
    assert find_epochs(f"papers/{recipe}") == paper.epochs


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_rate_at_the_beginning_in_the_middle_and_at_the_end(filled, recipe):
    paper, total = PAPERS[recipe], filled[recipe]["vars"]["max_steps"]
    _, optimizer, _ = resolve(filled[recipe])
    rates = [optimizer.learn_rate]
    for _ in range(total):
        optimizer.step_schedules()
        rates.append(optimizer.learn_rate)
    middle = total // 2
    warm = round(0.1 * total)
    expected = {
        "constant": [1.0, 1.0, 1.0],
        "linear": [1.0, (total - middle) / total, 0.0],
        "cosine": [1.0, (1 + np.cos(np.pi * middle / total)) / 2, 0.0],
        "warm": [0.0, (total - middle) / (total - warm), 0.0],
    }[paper.schedule]
    found = [rates[0], rates[middle], rates[total]]
    assert found == pytest.approx([paper.rate * share for share in expected])
    assert max(rates) == pytest.approx(paper.rate)


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_optimizer_is_the_papers(filled, recipe):
    _, optimizer, _ = resolve(filled[recipe])
    assert type(optimizer) is PAPERS[recipe].optimizer
    assert PAPERS[recipe].decay == optimizer.L2
    assert (optimizer.b1, optimizer.b2, optimizer.eps) == (0.9, 0.999, PAPERS[recipe].eps)
    assert (optimizer.grad_clip, optimizer.clip_together) == (1.0, True)
    assert optimizer.averages is None
    assert optimizer.layer_decay == 1.0


def find_target_tags(nlp, recipe):
    """The tag that each word piece of a document is to learn; None for what is not in the loss."""
    ner = nlp.get_pipe("biomed_ner")
    doc = nlp.make_doc("paracetamol reduced")
    doc.ents = [Span(doc, 0, 1, label="DRUG")]
    example = spacy.training.Example(nlp.make_doc(doc.text), doc)
    encoding, _ = nlp.get_pipe("biomed_transformer").model([example.predicted], is_train=False)
    nlp.get_pipe("biomed_transformer").set_annotations([example.predicted], encoding)
    scores = ner.model.predict([example.predicted])
    _, d_scores = ner.get_loss([example], scores)
    # The gradient of cross-entropy is negative at the target and nowhere else.
    tags = [[ner.classes()[i] for i in np.flatnonzero(row < 0)] for row in d_scores]
    return np.asarray(scores.lengths).tolist(), tags


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("recipe", [name for name in RECIPES if task_of(name) == "ner"])
def test_the_labels_of_word_pieces_are_the_papers(filled, recipe):
    nlp = init_nlp(filled[recipe])
    lengths, tags = find_target_tags(nlp, recipe)
    if recipe.startswith(("rohanian", "mulyar")):  # all pieces of a word
        assert lengths[0] > 1
        assert tags == [["B-DRUG"]] * lengths[0] + [["O"]] * lengths[1]
    else:  # its first
        assert (lengths, tags) == ([1, 1], [["B-DRUG"], ["O"]])
    head = nlp.get_pipe("biomed_ner")
    assert head.cfg["decoding"] == "argmax"
    assert head.cfg["learn_rate_factor"] == 1.0
    model = head.model
    assert model.maybe_get_ref("features") is None
    assert model.get_ref("first") is model.get_ref("output")
    width = nlp.get_pipe("biomed_transformer").model.get_dim("nO")
    assert model.get_ref("output").get_param("W").shape == (len(head.classes()), width)
    assert nlp.get_pipe("biomed_transformer").model.shims[0].word_piece_dropout == 0.0


def test_a_linear_head_is_the_same_without_a_paper(filled, tiny_bert, tmp_path):
    corpus = write_corpus(tmp_path / "ner", "ner")
    linear = fill_config(corpus, encoder=str(tiny_bert), template="ner_linear")
    heads = [config["components"]["biomed_ner"] for config in (linear, filled["lewis_ner"])]
    assert heads[0] == heads[1]
    _, optimizer, _ = resolve(linear)
    assert (optimizer.L2, optimizer.averages, optimizer.clip_together) == (0.0, None, True)
    assert "word_piece_dropout" not in linear["components"]["biomed_transformer"]["model"]


@pytest.mark.parametrize("recipe", [name for name in RECIPES if not PAPERS[name].develops])
def test_without_a_development_part_training_learns_from_its_documents_too(filled, recipe):
    _, _, corpora = resolve(filled[recipe])
    nlp = spacy.blank("en")
    assert len(list(corpora["train"](nlp))) == TRAIN + DEV
    assert list(corpora["dev"](nlp)) == []


def test_a_corpus_without_a_development_part_needs_none(tmp_path, tiny_bert):
    corpus = write_corpus(tmp_path / "c", "pair_classification", parts=("train",))
    config = fill_config(corpus, encoder=str(tiny_bert), template="papers/mulyar_pair")
    assert config["paths"]["dev"] is None
    assert config["vars"]["max_steps"] == 20 * 2
    _, _, corpora = resolve(config)
    assert len(list(corpora["train"](spacy.blank("en")))) == TRAIN


def test_a_training_without_a_development_part_ends_with_its_last_step(filled, tmp_path):
    from spacy_biomed.training.resumable import train

    config = filled["mulyar_pair"].copy()
    config["vars"].update(max_steps=2, eval_frequency=2)
    nlp = init_nlp(config)
    with (tmp_path / "log").open("w") as log:
        train(nlp, tmp_path / "out", stdout=log, stderr=log)
    best, last = (spacy.load(tmp_path / "out" / f"model-{name}") for name in ("best", "last"))
    weights = [one.get_pipe("biomed_textcat").model.to_bytes() for one in (best, last)]
    assert weights[0] == weights[1]


def test_sub_sentences_have_at_most_thirty_words(tmp_path, tiny_bert):
    corpus = write_corpus(tmp_path / "ner", "ner")
    doc = Doc(NLP.vocab, words=["aspirin"] * 70)
    doc.ents = [Span(doc, 29, 31, label="DRUG")]
    DocBin(docs=[doc] * 11).to_disk(corpus / "train.spacy")
    config = fill_config(corpus, encoder=str(tiny_bert), template="papers/peng_ner")
    _, _, corpora = resolve(config)
    lengths = [len(one.reference) for one in islice(corpora["train"](spacy.blank("en")), 3)]
    assert lengths == [29, 30, 11]
    assert config["vars"]["max_steps"] == 10 * 2  # 33 sequences
    # Documents are evaluated whole.
    assert "max_words" not in config["corpora"]["dev"]


def test_steps_are_counted_with_the_settings_that_are_given(tmp_path, tiny_bert):
    corpus = write_corpus(tmp_path / "ner", "ner")
    DocBin(docs=[Doc(NLP.vocab, words=["aspirin"] * 70)] * 11).to_disk(corpus / "train.spacy")
    settings = {"corpora": {"train": {"max_words": 10}}}
    common = {"encoder": str(tiny_bert), "template": "papers/carrino_ner", "batch_size": 11}
    whole = fill_config(corpus, epochs=3, **common)
    cut = fill_config(corpus, epochs=3, settings=settings, **common)
    assert (whole["vars"]["max_steps"], cut["vars"]["max_steps"]) == (3, 3 * 7)
    assert (whole["vars"]["eval_frequency"], cut["vars"]["eval_frequency"]) == (1, 7)
    # A number of steps that is given is not counted.
    settings["vars"] = {"max_steps": 5}
    given = fill_config(corpus, epochs=3, settings=settings, **common)
    assert given["vars"]["max_steps"] == 5


def test_what_papers_say_of_pairs_relations_and_sequences(filled):
    for name in ("peng", "mulyar"):
        components = filled[f"{name}_similarity"]["components"]
        assert components["biomed_similarity"]["standardize"] is False
        assert components["biomed_similarity"]["model"]["tok2vec"]["pooling"] == "cls"
    for name in ("peng", "rohanian"):
        relations = filled[f"{name}_relations"]["components"]["biomed_relations"]
        assert relations["arguments"] == "tags"
    weights = filled["rohanian_relations"]["training"]["score_weights"]
    assert {name for name, weight in weights.items() if weight} == {"relations_macro_f"}
    for recipe, window in {"peng_pair": 128, "mulyar_ner": 512, "carrino_ner": 512}.items():
        encoder = filled[recipe]["components"]["biomed_transformer"]["model"]
        assert encoder["window"] == window
    textcat = filled["lewis_textcat"]["components"]["biomed_textcat"]
    assert textcat["model"]["tok2vec"]["pooling"] == "cls"
    assert filled["lewis_textcat"]["training"]["patience"] > 0


def test_epochs_and_rate_that_are_given_are_stronger_than_the_recipes(tmp_path, tiny_bert):
    corpus = write_corpus(tmp_path / "ner", "ner")
    config = fill_config(
        corpus,
        encoder=str(tiny_bert),
        template="papers/lewis_ner",
        epochs=2,
        learn_rate=3e-5,
    )
    assert config["vars"]["max_steps"] == 2 * 3
    assert config["vars"]["learn_rate"] == 3e-5
    assert find_epochs(None) == find_epochs("ner") == 10


def test_an_unknown_recipe_gets_the_names_of_all(tmp_path):
    with pytest.raises(BiomedError, match="papers/nobody: .*: papers/carrino_ner, "):
        fill_config(write_corpus(tmp_path / "ner", "ner"), encoder="any", template="papers/nobody")


def test_words_of_a_batch_are_no_setting_of_a_recipe(tmp_path, tiny_bert):
    corpus = write_corpus(tmp_path / "ner", "ner")
    with pytest.raises(BiomedError, match="--batch-words: .*not of words"):
        fill_config(corpus, encoder=str(tiny_bert), template="papers/lewis_ner", batch_words=100)


def test_another_setting_of_a_recipe_is_bad_input(tmp_path, tiny_bert):
    corpus = write_corpus(tmp_path / "ner", "ner")
    (tmp_path / "own.cfg").write_text("[recipe]\nepoch = 3\n")
    with pytest.raises(BiomedError, match=r"\[recipe\] .*epoch: no such setting; did you mean"):
        fill_config(corpus, encoder=str(tiny_bert), template=tmp_path / "own.cfg")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("epochs = 0", "epochs = 0: input should be greater than or equal to 1; correct it"),
        ("epochs = true", "epochs = True: input should be a valid integer"),
        ('epochs = "ten"', "epochs = 'ten': input should be a valid integer"),
        ("warmup_share = 1.5", "warmup_share = 1.5: input should be less than 1"),
        ("evaluation_steps = 2.5", "evaluation_steps = 2.5: input should be a valid integer"),
        ('development_part = "no"', "development_part = 'no': input should be a valid boolean"),
        ("max_words = 3", "max_words = 3: input should be a valid dictionary"),
        ("batchers = 3", "batchers = 3: input should be a valid dictionary"),
    ],
)
def test_values_that_a_recipe_cannot_have_are_bad_input(tmp_path, tiny_bert, setting, message):
    corpus = write_corpus(tmp_path / "ner", "ner")
    (tmp_path / "own.cfg").write_text(f"[recipe]\n{setting}\n")
    with pytest.raises(BiomedError, match=message):
        fill_config(corpus, encoder=str(tiny_bert), template=tmp_path / "own.cfg")


@pytest.mark.parametrize(
    "batcher",
    ['@batchers = "nobodys.v1"', '@batchers = "spacy.batch_by_sequence.v1"\nsize = "many"'],
)
def test_a_batcher_that_cannot_be_made_is_bad_input(tmp_path, tiny_bert, batcher):
    corpus = write_corpus(tmp_path / "ner", "ner")
    (tmp_path / "own.cfg").write_text(f"[training]\n\n[training.batcher]\n{batcher}\n")
    with pytest.raises(
        BiomedError, match="the batcher .* of the template cannot be made"
    ) as raised:
        fill_config(corpus, encoder=str(tiny_bert), template=tmp_path / "own.cfg")
    assert "\n" not in str(raised.value)


def test_a_whole_config_with_other_sections_is_a_template_still(tmp_path, tiny_bert):
    corpus = write_corpus(tmp_path / "ner", "ner")
    (tmp_path / "own.cfg").write_text(
        '[paths]\n[vars]\nbatch_words = 100\n[nlp]\nlang = "en"\npipeline = ["ner"]\n'
    )
    config = fill_config(corpus, encoder=str(tiny_bert), template=tmp_path / "own.cfg", epochs=1)
    assert config["vars"]["max_steps"] > 1


@pytest.fixture(scope="module")
def several(tmp_path_factory, tiny_bert):
    """The filled configs of the recipes for several tasks, by paper, and what they train."""
    folder = tmp_path_factory.mktemp("several")
    names = ("ner", "pair_classification", "similarity")
    folders = [write_corpus(folder / name, name) for name in names]
    return {
        paper: create_multitask_config(
            folders, encoder=str(tiny_bert), template=f"papers/{paper}_multitask"
        )
        for paper in ("mulyar", "peng")
    }


def read_batches(config, seed=0):
    """The task and the size of each batch of an epoch."""
    nlp = init_nlp(config)
    batcher, _, corpora = resolve(config)
    random.seed(seed)
    batches = [list(batch) for batch in batcher(list(corpora["train"](nlp)))]
    return [(batch[0].reference.user_data[TASK_KEY], len(batch)) for batch in batches]


def test_mulyar_takes_25_sequences_of_entities_and_40_pairs_in_turn(several):
    config, tasks = several["mulyar"]
    batches = read_batches(config)
    # 72 and 8 documents without a development part: 80 are four batches of 25, or two of 40.
    assert [task.batches for task in tasks] == [4, 2, 2]
    assert [name for name, _ in batches] == ["ner", "pair_classification", "similarity"] * 4
    assert [size for name, size in batches if name == "ner"] == [25, 25, 25, 5]
    assert {size for name, size in batches if name != "ner"} == {40}
    variables = config["vars"]
    assert variables["max_steps"] == variables["eval_frequency"] == 6 * 12
    _, optimizer, corpora = resolve(config)
    assert type(optimizer) is AdamW
    optimizer.step_schedules()
    assert optimizer.learn_rate == 5e-5
    assert list(corpora["dev"](spacy.blank("en"))) == []
    assert config["components"]["ner"]["model"]["tok2vec"]["pooling"] == "pieces"


@pytest.mark.slow
def test_peng_shuffles_batches_of_32_sequences_of_all_tasks(several):
    config, tasks = several["peng"]
    batches = read_batches(config)
    assert [task.batches for task in tasks] == [3, 3, 3]
    assert sorted(size for _, size in batches) == [8] * 3 + [32] * 6
    names = [name for name, _ in batches]
    assert names != sorted(names)
    assert config["vars"]["max_steps"] == 100 * 9
    assert config["vars"]["eval_frequency"] == 9
    assert config["vars"]["warmup_steps"] == 90
    _, optimizer, _ = resolve(config)
    rates = [optimizer.learn_rate]
    for _ in range(900):
        optimizer.step_schedules()
        rates.append(optimizer.learn_rate)
    assert type(optimizer) is Adamax
    assert [rates[0], rates[90], rates[495], rates[900]] == pytest.approx([0, 5e-5, 2.5e-5, 0])
    assert config["corpora"]["train"]["max_words"] == {"ner": 30}


def test_of_several_tasks_only_entities_are_cut_into_sub_sentences(tmp_path, tiny_bert):
    folders = [write_corpus(tmp_path / name, name) for name in ("ner", "similarity")]
    doc = Doc(NLP.vocab, words=["aspirin"] * 70)
    doc.ents = [Span(doc, 29, 31, label="DRUG")]
    DocBin(docs=[doc] * 11).to_disk(folders[0] / "train.spacy")
    config, tasks = create_multitask_config(
        folders, encoder=str(tiny_bert), template="papers/peng_multitask"
    )
    assert [task.batches for task in tasks] == [2, 3]  # of 33 sequences, and of 72 pairs
    _, _, corpora = resolve(config)
    examples = list(corpora["train"](init_nlp(config)))
    lengths = [len(one.reference) for one in examples[:33]]
    assert lengths == [29, 30, 11] * 11
    assert len(examples) == 33 + TRAIN


def test_steps_of_several_tasks_are_counted_with_the_settings_that_are_given(tmp_path, tiny_bert):
    folders = [write_corpus(tmp_path / name, name) for name in ("ner", "similarity")]
    docs = [Doc(NLP.vocab, words=["aspirin"] * 70)] * 11
    DocBin(docs=docs).to_disk(folders[0] / "train.spacy")
    config, tasks = create_multitask_config(
        folders,
        encoder=str(tiny_bert),
        template="papers/peng_multitask",
        epochs=1,
        settings={"corpora": {"train": {"max_words": {"ner": 10}}}},
    )
    assert [task.batches for task in tasks] == [3, 3]  # 77 sequences, and 72 pairs
    assert config["vars"]["max_steps"] == 6
    assert config["corpora"]["train"]["max_words"] == {"ner": 10}


def test_schedule_and_epochs_that_are_given_are_stronger_than_the_recipes(tmp_path, tiny_bert):
    folders = [write_corpus(tmp_path / name, name) for name in ("ner", "similarity")]
    config, _ = create_multitask_config(
        folders,
        encoder=str(tiny_bert),
        template="papers/peng_multitask",
        schedule="round_robin",
        epochs=2,
    )
    assert config["training"]["batcher"]["@batchers"] == "spacy_biomed.round_robin.v1"
    assert config["vars"]["max_steps"] == 2 * 6
    with pytest.raises(BiomedError, match="--batch-words: .*not of words"):
        create_multitask_config(
            folders, encoder=str(tiny_bert), template="papers/peng_multitask", batch_words=9
        )


@pytest.mark.parametrize("paper", ["mulyar", "peng"])
def test_the_tasks_of_a_recipe_are_scored_on_whole_documents_of_any_part(several, paper):
    config, tasks = several[paper]
    corpora = read_part(config.interpolate(), "dev")
    assert {name: Path(path).name for name, path in corpora.paths.items()} == {
        task.name: "dev.spacy" for task in tasks
    }
    assert len(list(corpora(init_nlp(config)))) == DEV * len(tasks)
