"""The studies of papers, read back against what the papers and their authors' scripts say."""

from itertools import chain
from typing import NamedTuple

import pytest

from spacy_biomed.corpora.corpus_catalogue import find_corpus
from spacy_biomed.corpora.downloads import unpacking
from spacy_biomed.corpora.label_map import LabelMap, map_labels
from spacy_biomed.corpora.splits import split_parts
from spacy_biomed.corpora.units import cut_documents
from spacy_biomed.formats import read_documents
from spacy_biomed.formats.repairs import keeping_log
from spacy_biomed.studies.study_config import list_studies, read_study
from spacy_biomed.training.config import read_template

SENTENCE, DOCUMENT, MENTIONS = "sentence", "document", "pair of mentions in a sentence"
TEXTS, QUESTION = "pair of texts", "question"
UNITS = {
    "columns": SENTENCE,
    "hoc_sentences": SENTENCE,
    "marked_relations": SENTENCE,
    "relation_tsv": SENTENCE,
    "nli": TEXTS,
    "medrqe": TEXTS,
    "sts": TEXTS,
    "clinical_sts": TEXTS,
    "bioasq": QUESTION,
}


class Task(NamedTuple):
    """What a paper trains on.

    Attributes:
        entry: of the catalogue.
        labels: how many.
        metric: ending of its score where it is not the head's main one.
    """

    entry: str
    kind: str
    unit: str
    labels: int
    metric: str | None = None


NER = {
    "bc5cdr_chemical": Task("bc5cdr_chemical", "ner", SENTENCE, 1),
    "bc5cdr_disease": Task("bc5cdr_disease", "ner", SENTENCE, 1),
    "jnlpba": Task("jnlpba_sentences", "ner", SENTENCE, 1),
    "ncbi_disease": Task("ncbi_disease", "ner", SENTENCE, 1),
    "bc4chemd": Task("bc4chemd", "ner", SENTENCE, 1),
    "bc2gm": Task("bc2gm", "ner", SENTENCE, 1),
    "linnaeus": Task("linnaeus", "ner", SENTENCE, 1),
    "s800": Task("s800_sentences", "ner", SENTENCE, 1),
}
BLUE = {
    "chemprot": Task("chemprot_blue", "relations", MENTIONS, 5),
    "ddi_2013": Task("ddi_2013_blue", "relations", MENTIONS, 4),
    "i2b2_2010_re": Task("i2b2_2010_re_blue", "relations", MENTIONS, 8),
}
MEDNLI = {"mednli": Task("mednli", "pair_classification", TEXTS, 3)}
TASKS = {
    "lewis_2020": {
        **NER,
        **BLUE,
        **MEDNLI,
        "chemprot": BLUE["chemprot"]._replace(metric="micro_f"),
        "i2b2_2010": Task("i2b2_2010_sentences", "ner", SENTENCE, 3),
        "i2b2_2012": Task("i2b2_2012_sentences", "ner", SENTENCE, 6),
        "i2b2_2014": Task("i2b2_2014_sentences", "deidentification", SENTENCE, 23),
        "hoc": Task("hoc_sentences", "textcat_multilabel", SENTENCE, 10, "example_f"),
        "gad": Task("gad", "relations", SENTENCE, 2),
        "euadr": Task("euadr", "relations", SENTENCE, 2),
    },
    "rohanian_2023": {
        **NER,
        "gad": Task("gad", "relations", SENTENCE, 2),
        "chemprot": Task("chemprot", "relations", SENTENCE, 13, "macro_f"),
        "bioasq_7b": Task("bioasq_7b", "qa", QUESTION, 1, "mrr"),
    },
    "mulyar_2020": {
        **MEDNLI,
        "n2c2_2019": Task("n2c2_2019", "similarity", TEXTS, 1),
        "medrqe_302": Task("medrqe_302", "pair_classification", TEXTS, 2),
        "n2c2_2018": Task("n2c2_2018", "ner", DOCUMENT, 9),
        "i2b2_2014": Task("i2b2_2014", "deidentification", DOCUMENT, 23),
        "i2b2_2012": Task("i2b2_2012", "ner", DOCUMENT, 6),
        "i2b2_2010": Task("i2b2_2010", "ner", DOCUMENT, 3),
        "quaero": Task("quaero", "ner", DOCUMENT, 10),
    },
    "carrino_2022": {
        "pharmaconer": Task("pharmaconer_sentences", "ner", SENTENCE, 4),
        "cantemist": Task("cantemist_sentences", "ner", SENTENCE, 1),
        "ictusnet": Task("ictusnet_sentences", "ner", SENTENCE, 0),
    },
    "peng_2020": {
        **BLUE,
        **MEDNLI,
        "clinical_sts_2018": Task("clinical_sts_2018", "similarity", TEXTS, 1),
        "share_clef_2013": Task("share_clef_2013_sentences", "ner", SENTENCE, 1),
        "bc5cdr_chemical": NER["bc5cdr_chemical"],
        "bc5cdr_disease": NER["bc5cdr_disease"],
    },
}
# Corpora of our own in the studies of public corpora: documents for Mulyar and McInnes.
ALSO = {
    "mulyar_2020": {"ncbi_disease": DOCUMENT, "bc5cdr": DOCUMENT, "biored": DOCUMENT},
    "peng_2020": {"ncbi_disease": SENTENCE, "sts": TEXTS, "medrqe": TEXTS},
}
ALSO["mulyar_2020"] |= {"nlm_gene": DOCUMENT, "sts": TEXTS}

STUDIES = {
    name: study for name in list_studies() if (study := read_study(name)).study.paper is not None
}
CASES = [(name, corpus) for name, study in STUDIES.items() for corpus in study.corpora]
PAPERS = [(name, corpus) for name, corpus in CASES if not name.endswith("_public")]


def entry_of(study, corpus):
    return find_corpus(STUDIES[study].corpora[corpus].source or corpus)


def unit_of(entry):
    if entry.conversion.get("pairs"):
        return MENTIONS
    return SENTENCE if entry.conversion.get("sentences") else UNITS.get(entry.format, DOCUMENT)


@pytest.mark.slow
@pytest.mark.parametrize(("study", "corpus"), PAPERS)
def test_the_task_its_labels_unit_and_metric_are_the_papers(study, corpus):
    entry, section = entry_of(study, corpus), STUDIES[study].corpora[corpus]
    found = Task(entry.name, entry.task, unit_of(entry), len(entry.labels), section.metric)
    expected = TASKS[STUDIES[study].study.paper][corpus]
    assert found == expected


@pytest.mark.parametrize(("study", "corpus"), [case for case in CASES if case not in PAPERS])
def test_public_studies_have_the_same_units_and_metrics(study, corpus):
    paper, section = STUDIES[study].study.paper, STUDIES[study].corpora[corpus]
    expected = TASKS[paper].get(corpus)
    if expected is None:
        assert unit_of(entry_of(study, corpus)) == ALSO[paper][corpus]
    else:
        assert entry_of(study, corpus).name == expected.entry
        assert section.metric == expected.metric


# Batches, optimizer and rates by template: Lewis section 5.2 and script, Rohanian section 5, Mulyar
# "Details", Carrino table 4; of Peng the authors' scripts.
ADAM, ADAMAX = "spacy_biomed.AdamW.v1", "spacy_biomed.Adamax.v1"
CARRINO_RATES = {0.000008, 0.00001, 0.00002, 0.00003, 0.00005}
ROHANIAN_RATES = {0.00005, 0.00003}
PROTOCOLS = {
    "lewis_ner": (32, ADAM, {0.00001}),
    "lewis_textcat": (16, ADAM, {0.00002}),
    "lewis_relations": (16, ADAM, {0.00002}),
    "lewis_pair": (16, ADAM, {0.00002}),
    "rohanian_ner": (16, ADAM, ROHANIAN_RATES),
    "rohanian_relations": (16, ADAM, ROHANIAN_RATES),
    "rohanian_qa": (16, ADAM, {0.00003}),
    "mulyar_ner": (25, ADAM, {0.00005}),
    "mulyar_pair": (40, ADAM, {0.00005}),
    "mulyar_similarity": (40, ADAM, {0.00005}),
    "carrino_ner": (64, ADAM, CARRINO_RATES),
    **{f"peng_{task}": (32, ADAMAX, {0.00001}) for task in ("ner", "relations", "pair")},
    "peng_similarity": (32, ADAMAX, {0.00001}),
}
PENG_CODE = {
    "clinical_sts_2018": (0.00005, 30),
    "mednli": (0.00001, 10),
    "i2b2_2010_re": (0.00002, 10),
    "chemprot": (0.00002, 20),
    "ddi_2013": (0.00005, 10),
    "bc5cdr_chemical": (0.00005, 20),
    "bc5cdr_disease": (0.00006, 20),
    "share_clef_2013": (0.00005, 20),
}


def read_protocol(study, corpus):
    """Sequences in a batch, the optimizer, and the rates that are tried."""
    section, grid = STUDIES[study].corpora[corpus], STUDIES[study].grid
    template = read_template(section.template)
    training = template["training"]
    rates = section.learn_rates or grid.learn_rates or [template["vars"]["learn_rate"]]
    sizes = grid.batch_sizes or [training["batcher"]["size"]]
    assert len(sizes) == 1
    return sizes[0], training["optimizer"]["@optimizers"], set(rates)


# Figure 2 of Rohanian et al. is on time.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("study", "corpus"), [case for case in PAPERS if case[0] != "rohanian_figure_2"]
)
def test_the_batches_the_optimizer_and_the_rate_are_the_papers(study, corpus):
    template = STUDIES[study].corpora[corpus].template.removeprefix("papers/")
    if template.startswith("peng_code"):
        rate, epochs = PENG_CODE[corpus]
        assert read_protocol(study, corpus) == (32, ADAM, {rate})
        assert STUDIES[study].corpora[corpus].epochs == epochs
    else:
        assert read_protocol(study, corpus) == PROTOCOLS[template]


def count_units(entry, source):
    """The documents of each part after conversion, without their tokens."""
    with unpacking(entry, source) as folder:
        read = {
            part: [*read_documents(entry.format, [folder / path for path in paths])]
            for part, paths in entry.splits.items()
        }
    parts, _ = split_parts(read, entry.format, {"all": [source]}, 0, entry.part_ids)
    if targets := entry.conversion.get("map"):
        parts = map_labels(parts, LabelMap(targets))
    pairs = entry.conversion.get("pairs", "")
    sentences = bool(pairs) or entry.conversion.get("sentences", False)
    return cut_documents(parts, entry.language, sentences=sentences, pairs=pairs)


# Training and development units as published: sentences of the shared tasks (JNLPBA 18,546 with the
# development part), of the column files of BC5CDR and NCBI Disease; Carrino et al. count 63,016
# sentences in CANTEMIST. Pairs of drugs are those of the files. Ours split otherwise, by so much.
SIZES = {
    "ncbi_disease": ("ncbi_disease", 5424, 0.0),
    "bc5cdr_chemical": ("bc5cdr", 4560, 0.0),
    "jnlpba_sentences": ("jnlpba", 18546, 0.01),
    "ddi_2013_blue": ("ddi2013", 27792, 0.0),
    "cantemist_sentences": ("cantemist", 63016, 0.13),
    "medrqe_302": ("medrqe", 8588, 0.0),
}


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", SIZES)
def test_an_epoch_has_as_many_units_as_the_paper(name, corpora_dir):
    archive, size, tolerance = SIZES[name]
    parts = count_units(find_corpus(name), corpora_dir(archive))
    counted = {"cantemist_sentences": ["train", "dev", "test"], "bc5cdr_chemical": ["train"]}
    counted["ncbi_disease"] = ["train"]
    units = sum(len(parts[part]) for part in counted.get(name, ["train", "dev"]))
    assert units == pytest.approx(size, rel=tolerance)


@pytest.mark.slow(least=3)
@pytest.mark.parametrize(
    ("study", "corpus", "archive", "steps"),
    [
        ("carrino_table_2", "pharmaconer", "pharmaconer", 127),
        ("lewis_table_2", "jnlpba", "jnlpba", 526),
        ("lewis_table_2", "s800", "s800", 167),
        ("lewis_table_2", "ddi_2013", "ddi2013", 1568),
        ("rohanian_table_1", "s800", "s800", 333),
        ("rohanian_table_1", "ncbi_disease", "ncbi_disease", 339),
        ("rohanian_table_3", "chemprot", "chemprot", 261),
        ("mulyar_table_2", "medrqe_302", "medrqe", 215),
        ("peng_table_3", "ddi_2013", "ddi2013", 784),
    ],
)
def test_steps_of_an_epoch_are_units_by_the_size_of_a_batch(
    study, corpus, archive, steps, corpora_dir
):
    parts = count_units(entry_of(study, corpus), corpora_dir(archive))
    learned = chain(parts["train"], parts["dev"] if study.startswith("mulyar") else ())
    size, _, _ = read_protocol(study, corpus)
    assert -(-sum(1 for _ in learned) // size) == steps


@pytest.mark.slow
def test_all_pairs_and_relations_of_ddi_are_there(corpora_dir):
    parts = count_units(find_corpus("ddi_2013_blue"), corpora_dir("ddi2013"))
    relations = {
        part: sum(len(document.relations) for document in documents)
        for part, documents in parts.items()
    }
    assert relations["train"] + relations["dev"] == 4021
    assert (len(parts["test"]), relations["test"]) == (5716, 979)


@pytest.mark.slow
def test_every_mention_of_quaero_is_read(corpora_dir):
    folder, entry = corpora_dir("quaero"), find_corpus("quaero")
    files = [file for part in ("train", "test") for file in (folder / part).glob("*.ann")]
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    with keeping_log("skip") as log:
        documents = list(read_documents(entry.format, [folder / "train", folder / "test"]))
    mentions = [one for document in documents for one in document.mentions]
    assert len(mentions) == sum(line.startswith("T") for line in lines) == 16231
    assert log.describe()["counts"] == {"moved": 412, "left out": 1}


def test_the_parts_of_species_800_are_the_published_ones(corpora_dir):
    parts = count_units(find_corpus("s800_sentences"), corpora_dir("s800"))
    abstracts = {part: len({one.part_of for one in parts[part]}) for part in parts}
    assert abstracts == {"train": 559, "dev": 80, "test": 160}


def test_together_and_longer_have_as_many_steps_of_each_corpus():
    study = STUDIES["mulyar_table_2_public"]
    documents = {"ncbi_disease": 693, "bc5cdr": 1000, "biored": 500, "nlm_gene": 450}
    pairs = {"sts": 3750, "medrqe_302": 8588}
    batches = {name: -(-count // 25) for name, count in documents.items()}
    batches |= {name: -(-count // 40) for name, count in pairs.items()}
    together = 6 * max(batches.values())
    for name, count in batches.items():
        assert study.rows["longer"].epochs[name] * count == pytest.approx(together, rel=0.03)
    refined = STUDIES["peng_table_3_public"]
    assert refined.rows["longer"].epochs == 100 + 10
