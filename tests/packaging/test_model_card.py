"""The meta and the model card of a wheel."""

import json
import re
import shutil
from importlib.metadata import version
from xml.etree import ElementTree

import numpy as np
import pytest
import spacy
import yaml
from spacy.cli.package import get_third_party_dependencies
from spacy.util import split_requirement
from stock_heads import needs_stock

import spacy_biomed
from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.described_pipeline import write_described_pipeline
from spacy_biomed.packaging.model_card import HUB_TASKS
from spacy_biomed.pipeline.component_classes import list_heads
from spacy_biomed.training.config import fill_config

DESCRIPTION = {
    "name": "ncbi_disease",
    "language": "en",
    "parts": {part: {"documents": n} for part, n in (("train", 5000), ("dev", 50), ("test", 60))},
    "licence": "CC0",
    "source": "https://example.org/corpus",
    "unseen_share": 0.25,
}
METRICS = {
    "ents_p": 0.8,
    "ents_r": 0.6,
    "ents_f": 0.6857,
    "ents_per_type": {"Disease": {"p": 0.81, "r": 0.61, "f": 0.69}},
    "spans_unseen_p": 0.5,
    "spans_unseen_r": 0.25,
    "spans_unseen_f": 0.3333,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with a pipeline without weights, a corpus folder and a metrics file."""
    folder = tmp_path_factory.mktemp("made")
    corpus, pipeline = folder / "corpus", folder / "model-best"
    corpus.mkdir()
    (corpus / "corpus.json").write_text(json.dumps(DESCRIPTION), encoding="utf8")
    spacy.tokens.DocBin(docs=[spacy.blank("en")("a b")]).to_disk(corpus / "train.spacy")
    (folder / "m.json").write_text(json.dumps(METRICS), encoding="utf8")
    config = fill_config(corpus, encoder="biobert", epochs=1, seed=3)
    nlp = spacy.util.load_model_from_config(config, auto_fill=True)
    nlp.get_pipe("biomed_ner").add_label("Disease")
    pipeline.mkdir()
    (pipeline / "meta.json").write_text(json.dumps(nlp.meta), encoding="utf8")
    nlp.config.to_disk(pipeline / "config.cfg")
    return folder


@pytest.fixture
def parts(made, tmp_path):
    """A copy of the pipeline directory; the paths of a corpus folder and a metrics file."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path / "model-best", {"corpus": tmp_path / "corpus", "metrics": tmp_path / "m.json"}


def describe(parts, output, **settings):
    pipeline, where = parts
    meta = write_described_pipeline(pipeline, output, **where, **settings)
    return meta, (output / "README.md").read_text(encoding="utf8")


def change(path, **fields):
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}), encoding="utf8")


def go_on_from(parts, source):
    config = parts[0] / "config.cfg"
    config.write_text(config.read_text().replace("[vars]\n", f'[vars]\nsource = "{source}"\n'))


def test_the_meta_tells_labels_scores_corpus_encoder_licence_and_sources(parts, tmp_path):
    meta, _ = describe(parts, tmp_path / "out", name="biomed_ner", pipeline_version="1.2.3")
    assert (meta["lang"], meta["name"], meta["version"]) == ("en", "biomed_ner", "1.2.3")
    assert meta["labels"]["biomed_ner"] == ["Disease"]
    assert meta["performance"] == METRICS
    assert meta["description"] == "Named entity recognition, trained on ncbi_disease."
    assert meta["license"] == "corpus: CC0; encoder: Apache-2.0"
    assert meta["sources"] == [
        {
            "name": "NCBI Disease",
            "url": "https://example.org/corpus",
            "license": "CC0",
        },
        {
            "name": "encoder: biobert",
            "url": "https://huggingface.co/dmis-lab/biobert-v1.1",
            "license": "Apache-2.0",
        },
    ]
    assert meta["spacy_biomed"] == {
        "corpus": "ncbi_disease",
        "documents": {"train": 5000, "dev": 50, "test": 60},
        "encoder": "biobert",
        "seed": 3,
        "unseen_test_mentions": 0.25,
    }


def test_the_wheel_requires_this_version_of_the_package_and_none_that_may_break_it(parts, tmp_path):
    meta, _ = describe(parts, tmp_path / "out")
    own = version("spacy-biomed")
    major, minor = own.split(".")[:2]
    assert meta["requirements"] == [f"spacy-biomed[train]>={own},<{major}.{int(minor) + 1}"]


@needs_stock
def test_the_meta_requires_what_spacy_package_would_add(parts, tmp_path):
    """spaCy's heads on the encoder listen through spacy-transformers."""
    listener = {
        "@architectures": "spacy-transformers.TransformerListener.v1",
        "pooling": {"@layers": "reduce_mean.v1"},
    }
    classifier = {"@architectures": "spacy.TextCatReduce.v1", "tok2vec": listener}
    put_heads(parts, textcat={"factory": "textcat", "model": classifier})
    change(parts[1]["metrics"], cats_score=0.5, cats_macro_f=0.5)
    meta, card = describe(parts, tmp_path / "out")
    own, stock = meta["requirements"]
    assert own.startswith("spacy-biomed[train]>=")
    assert stock.startswith("spacy-transformers>=")
    assert f"| Requires | {own}, {stock}, spaCy >=" in card
    given = [split_requirement(requirement)[0] for requirement in meta["requirements"]]
    config = spacy.util.load_config(tmp_path / "out" / "config.cfg")
    assert get_third_party_dependencies(config, exclude=given) == []


def test_the_name_is_the_corpuss_unless_given(parts, tmp_path):
    meta, card = describe(parts, tmp_path / "out")
    assert meta["name"] == "ncbi_disease"
    assert 'spacy.load("en_ncbi_disease")' in card


def test_what_is_returned_is_what_is_written(parts, tmp_path):
    meta, _ = describe(parts, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "meta.json").read_text(encoding="utf8")) == meta
    assert (tmp_path / "out" / "config.cfg").read_bytes() == (parts[0] / "config.cfg").read_bytes()


def test_the_card_gives_scores_in_per_cent_with_unseen_mentions_apart(parts, tmp_path):
    _, card = describe(parts, tmp_path / "out", name="biomed_ner", pipeline_version="1.2.3")
    lines = card.splitlines()
    assert "# en_biomed_ner 1.2.3" in lines
    assert "| all mentions | 80.00 | 60.00 | 68.57 |" in lines
    assert "| not seen in training | 50.00 | 25.00 | 33.33 |" in lines
    assert "| Disease | 81.00 | 61.00 | 69.00 |" in lines
    assert "(25.0% of the test mentions)" in card
    for line in (
        "| Encoder | biobert |",
        "| Corpus | ncbi_disease |",
        "| Documents, train | 5,000 |",
        "| Licence | corpus: CC0; encoder: Apache-2.0 |",
    ):
        assert line in lines


RELIABILITY = [[0, 0.0, 0]] * 8 + [[4, 3.4, 2], [16, 15.2, 16]]


def describe_reliability(parts, tmp_path):
    change(parts[1]["metrics"], ents_ece=0.11, ents_reliability=RELIABILITY)
    other = tmp_path / "other.json"
    other.write_text(json.dumps(METRICS | {"ents_reliability": [[1, 0.05, 1], *[[0, 0, 0]] * 9]}))
    return describe(parts, tmp_path / "out", other_metrics={"elsewhere": other})[1]


def test_the_card_shows_how_reliable_confidence_is_on_each_test_part(parts, tmp_path):
    """Errors of |3.4 - 2| and |15.2 - 16| over 20 entities."""
    here, there = describe_reliability(parts, tmp_path).split("## Scores on elsewhere")
    assert "Expected calibration error of the confidence: 0.110, in ten bins:" in here
    assert "| 0.8 to 0.9 | 4 | 85.00 | 50.00 |" in here.splitlines()
    assert "| 0.9 to 1.0 | 16 | 95.00 | 100.00 |" in here.splitlines()
    assert "| 0.7 to 0.8" not in here
    assert "Expected calibration error of the confidence: 0.950, in ten bins:" in there


def test_a_diagram_shows_each_bin_of_the_test_part_against_the_diagonal(parts, tmp_path):
    here, there = describe_reliability(parts, tmp_path).split("## Scores on elsewhere")
    assert re.findall(r"!\[.*\]\((.*)\)", here) == ["reliability-1.svg"]
    assert re.findall(r"!\[.*\]\((.*)\)", there) == ["reliability-2.svg"]
    drawn = tmp_path / "out" / "reliability-1.svg"
    root = ElementTree.parse(drawn).getroot()
    (diagonal,) = root.findall(".//*[@class='diagonal']")
    left, bottom, right, top = map(float, re.findall(r"[\d.]+", diagonal.get("d")))
    assert (right - left, bottom - top) == (275, 275)
    heights = [float(bar.get("height")) / 275 for bar in root.findall(".//*[@class='bin']")]
    assert heights == pytest.approx([2 / 4, 16 / 16], abs=0.001)
    dots = root.findall(".//{*}circle")
    places = [(float(dot.get("cx")) - left, bottom - float(dot.get("cy"))) for dot in dots]
    assert np.array(places) / 275 == pytest.approx(np.array([[0.85, 0.5], [0.95, 1.0]]), abs=0.001)
    assert drawn.stat().st_size < 5_000


def read_bars(path):
    """Label and series of each bar, with its length as a share of the scale."""
    bars = ElementTree.parse(path).getroot().findall(".//*[@class='bar']")
    return {bar[0].text.rpartition(" ")[0]: float(bar.get("width")) / 400 for bar in bars}


def test_a_diagram_shows_the_f1_of_each_label_and_of_its_unseen_mentions(parts, tmp_path):
    per_type = {"Disease": {"p": 0.8, "r": 0.6, "f": 0.69}, "A<B": {"p": 1.0, "r": 1.0, "f": 1.0}}
    unseen = {"Disease": {"p": 0.5, "r": 0.25, "f": 0.33}}
    change(parts[1]["metrics"], ents_per_type=per_type, spans_unseen_per_type=unseen)
    _, card = describe(parts, tmp_path / "out")
    assert "](labels-1.svg)" in card
    assert read_bars(tmp_path / "out" / "labels-1.svg") == pytest.approx(
        {
            "Disease: F1": 0.69,
            "Disease: F1 of mentions not seen in training": 0.33,
            "A<B: F1": 1.0,
        },
        abs=0.001,
    )


@pytest.mark.parametrize("clean", [None, 0.5])
def test_the_scores_on_changed_texts_are_a_table_and_a_diagram(parts, tmp_path, clean):
    rows = [
        {"change": change, "precision": 0.9, "recall": 0.5, "f1": f1, "clean": clean}
        for change, f1 in (("as it is", 0.64), ("in capitals", 0.6))
    ]
    measured = tmp_path / "robustness.json"
    measured.write_text(json.dumps({"corpus": "hoc", "rows": rows}))
    _, card = describe(parts, tmp_path / "out", robustness=[measured])
    end = " 50.00 |" if clean else ""
    assert (
        f"\n\n| text | precision | recall | F1 |{' clean documents |' if clean else ''}\n" in card
    )
    assert f"\n| in capitals | 90.00 | 50.00 | 60.00 |{end}\n" in card
    assert "](robustness-1.svg)" in card
    found = read_bars(tmp_path / "out" / "robustness-1.svg")
    assert found == {"as it is: F1": 0.64, "in capitals: F1": 0.6}


def test_a_label_of_any_length_is_in_the_diagram(parts, tmp_path):
    row = {"p": 1.0, "r": 1.0, "f": 1.0}
    change(parts[1]["metrics"], ents_per_type={"A" * 500: row, "B": row})
    describe(parts, tmp_path / "out")
    drawn = tmp_path / "out" / "labels-1.svg"
    assert set(read_bars(drawn)) == {"A" * 500 + ": F1", "B: F1"}
    assert int(ElementTree.parse(drawn).getroot().get("width")) < 1_000


def test_a_card_without_confidences_has_no_diagram_of_an_earlier_one(parts, tmp_path):
    for kind in ("reliability", "labels", "robustness"):
        (parts[0] / f"{kind}-1.svg").write_text("<svg/>")
    _, card = describe(parts, tmp_path / "out")
    assert "reliability-" not in card
    assert not list((tmp_path / "out").glob("*.svg"))


def test_the_card_says_whether_confidence_is_calibrated(parts, tmp_path):
    _, card = describe(parts, tmp_path / "out")
    assert "`biomed_ner` is the model's own probability: it is not calibrated." in card
    curve = {"temperature": 1.5}
    calibration = {"predictions": 1234, "curves": {"pooled": curve, "labels": {"Disease": curve}}}
    (parts[0] / "biomed_ner").mkdir()
    content = {"calibration": calibration, "recall_offsets": {"Disease": 1.0}}
    (parts[0] / "biomed_ner" / "cfg").write_text(json.dumps(content))
    _, card = describe(parts, tmp_path / "out")
    assert "It is calibrated on 1,234 predictions on the development part" in card
    assert ": Disease by itself, other labels together.\n" in card
    assert "| Disease | 2.7 |" in card.splitlines()


def front_matter(card):
    begin, fields, _ = card.split("---\n", 2)
    assert begin == ""
    return yaml.safe_load(fields)


def test_the_front_matter_of_the_card_is_what_the_hub_reads(parts, tmp_path):
    _, card = describe(parts, tmp_path / "out")
    fields = front_matter(card)
    assert (fields["language"], fields["library_name"]) == ("en", "spacy")
    assert fields["pipeline_tag"] == "token-classification"
    assert fields["base_model"] == "dmis-lab/biobert-v1.1"
    (model,) = fields["model-index"]
    (result,) = model["results"]
    assert model["name"] == "en_ncbi_disease"
    assert result["task"]["type"] == "token-classification"
    assert (result["dataset"]["name"], result["dataset"]["split"]) == ("ncbi_disease", "test")
    values = {metric["name"]: (metric["type"], metric["value"]) for metric in result["metrics"]}
    assert values["all mentions, F1"] == ("f1", 0.6857)
    assert values["not seen in training, recall"] == ("recall", 0.25)
    assert len(values) == 6  # without those of single labels


def test_the_front_matter_leaves_out_scores_that_could_not_be_measured(parts, tmp_path):
    write_metrics(parts, ents_p=None, ents_r=None, ents_f=None)
    _, card = describe(parts, tmp_path / "out")
    assert "model-index" not in front_matter(card)


def test_every_task_that_the_hub_knows_is_a_task_of_some_head():
    assert set(HUB_TASKS) <= {head.task_name for head in list_heads().values()}


def test_a_name_with_a_bar_or_a_line_break_does_not_break_a_table(parts, tmp_path):
    per_type = {"A|B\nC": {"p": 1.0, "r": 0.25, "f": 0.4}}
    change(parts[1]["metrics"], ents_per_type=per_type)
    _, card = describe(parts, tmp_path / "out")
    assert "| A\\|B C | 100.00 | 25.00 | 40.00 |" in card.splitlines()


def test_a_name_with_signs_of_markdown_and_html_is_shown_as_it_is(parts, tmp_path):
    per_type = {"<b>*A*": {"p": 1.0, "r": 0.25, "f": 0.4}}
    change(parts[1]["metrics"], ents_per_type=per_type)
    _, card = describe(parts, tmp_path / "out")
    assert r"| \<b>\*A\* | 100.00 | 25.00 | 40.00 |" in card.splitlines()


def put_heads(parts, **factories):
    """Put other heads on the pipeline's encoder: names to settings."""
    path = parts[0] / "config.cfg"
    config = spacy.util.load_config(path)
    config["components"] = {"biomed_transformer": config["components"]["biomed_transformer"]}
    config["components"] |= factories
    config["nlp"]["pipeline"] = list(config["components"])
    config.to_disk(path)


def write_metrics(parts, **metrics):
    parts[1]["metrics"].write_text(json.dumps(metrics), encoding="utf8")


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("name", "factory", "prefix"),
    [
        ("textcat_multilabel", "textcat_multilabel", "cats"),
        ("hallmarks", "textcat_multilabel", "cats"),
        ("biomed_textcat", "biomed_textcat", "cats"),
        ("hallmarks", "biomed_textcat", "cats_hallmarks"),
    ],
)
def test_the_card_of_a_classifier_gives_macro_f1_and_shows_its_classes(
    parts, tmp_path, name, factory, prefix
):
    put_heads(parts, **{name: {"factory": factory}})
    per_type = {"growth": {"p": 1.0, "r": 0.25, "f": 0.4}}
    write_metrics(parts, **{f"{prefix}_score": 0.5, f"{prefix}_f_per_type": per_type})
    meta, card = describe(parts, tmp_path / "out")
    assert meta["description"] == "Document classification, trained on ncbi_disease."
    assert "print(doc.cats)" in card
    assert "| macro average over classes |  |  | 50.00 |" in card.splitlines()
    assert "| growth | 100.00 | 25.00 | 40.00 |" in card.splitlines()
    assert "all mentions" not in card


@pytest.mark.parametrize(
    ("factory", "scores", "lines"),
    [
        (
            "biomed_relations",
            {"relations_micro_p": 0.5, "relations_micro_r": 0.25, "relations_micro_f": 0.3333},
            ["| micro average over relations | 50.00 | 25.00 | 33.33 |"],
        ),
        (
            "biomed_similarity",
            {"similarity_pearson": 0.875, "similarity_spearman": None},
            ["| Pearson's correlation | 87.50 |", "| Spearman's rank correlation |  |"],
        ),
        ("biomed_qa", {"qa_mrr": 0.625}, ["| mean reciprocal rank | 62.50 |"]),
    ],
)
def test_the_card_gives_the_scores_of_each_task(parts, tmp_path, factory, scores, lines):
    put_heads(parts, **{factory: {"factory": factory}})
    write_metrics(parts, **scores)
    _, card = describe(parts, tmp_path / "out")
    assert set(lines) <= set(card.splitlines())


def section(card, head):
    """The lines under a head's name."""
    return card.split(f"### {head}\n")[1].split("\n#")[0].splitlines()


def test_the_card_of_many_heads_has_the_scores_of_each_under_its_name(parts, tmp_path):
    put_heads(
        parts,
        diseases={"factory": "biomed_ner", "spans_key": "diseases"},
        genes={"factory": "biomed_ner", "spans_key": "genes"},
        hallmarks={"factory": "biomed_textcat"},
        entailment={"factory": "biomed_textcat", "exclusive": True},
    )
    write_metrics(
        parts,
        **{"spans_diseases_p": 0.5, "spans_diseases_r": 0.5, "spans_diseases_f": 0.5},
        **{"spans_genes_p": 0.25, "spans_genes_r": 0.25, "spans_genes_f": 0.25},
        **{"cats_hallmarks_score": 0.75, "cats_hallmarks_acc": None},
        **{"cats_entailment_score": 0.5, "cats_entailment_acc": 0.8},
    )
    meta, card = describe(parts, tmp_path / "out")
    assert meta["description"] == (
        "Named entity recognition and document classification, trained on ncbi_disease."
    )
    assert "doc.spans['genes']" in card
    for head, line in {
        "diseases": "| all mentions | 50.00 | 50.00 | 50.00 |",
        "genes": "| all mentions | 25.00 | 25.00 | 25.00 |",
        "hallmarks": "| macro average over classes |  |  | 75.00 |",
        "entailment": "| accuracy | 80.00 |",
    }.items():
        assert line in section(card, head)
    assert not any("accuracy" in line for line in section(card, "hallmarks"))


def test_a_pipeline_of_several_corpora_names_each_with_its_licence(parts, tmp_path):
    corpora = [
        {"name": "ncbi_disease", "licence": "CC0", "source": "https://example.org/1"},
        {"name": "mine", "licence": "", "source": ""},
        {"name": "yours", "licence": "CC0", "source": "https://example.org/3"},
    ]
    change(parts[1]["corpus"] / "corpus.json", name="all", corpora=corpora)
    meta, card = describe(parts, tmp_path / "output")
    assert [one["name"] for one in meta["sources"]][:3] == ["NCBI Disease", "mine", "yours"]
    assert meta["license"].startswith("corpora: CC0, not stated; encoder: ")
    assert "| NCBI Disease | CC0 | https://example.org/1 |" in card
    assert "| mine | not stated |  |" in card


def test_the_card_of_one_corpus_has_no_table_of_corpora(parts, tmp_path):
    assert "## Corpora" not in describe(parts, tmp_path / "output")[1]


def test_the_card_has_the_scores_on_other_test_parts_under_their_names(parts, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({"ents_p": 0.5, "ents_r": 0.25, "ents_f": 0.3333}))
    _, card = describe(parts, tmp_path / "output", other_metrics={"theirs": other})
    own, other = card.split("## Scores on theirs\n")
    assert "| 80.00 | 60.00 | 68.57 |" in own
    assert "| 50.00 | 25.00 | 33.33 |" in other


def test_a_pipeline_that_goes_on_from_another_names_what_that_was_made_of(parts, tmp_path):
    nlp = spacy.blank("en")
    nlp.meta.update(
        name="first",
        license="corpus: CC0",
        spacy_biomed={"corpus": "ncbi_disease"},
        sources=[
            {"name": "NCBI Disease", "url": "https://example.org", "license": "CC0"},
            {"name": "encoder: old", "license": "MIT"},
        ],
    )
    nlp.to_disk(tmp_path / "first")
    change(parts[1]["corpus"] / "corpus.json", name="mine", licence="CC BY 4.0", source="")
    go_on_from(parts, tmp_path / "first")
    meta, card = describe(parts, tmp_path / "second")
    names = [one["name"] for one in meta["sources"]]
    assert names[0] == "mine" and names[-2:] == ["NCBI Disease", "encoder: old"]
    assert meta["license"] == "corpora: CC BY 4.0, CC0; encoder: Apache-2.0, MIT"
    assert "| NCBI Disease | CC0 | https://example.org |" in card
    assert "| Continues from | en_first |" in card


def test_a_pipeline_that_was_taught_names_its_teachers_and_what_they_were_made_of(parts, tmp_path):
    theirs = {"name": "Theirs", "license": "GPL-3.0", "url": "https://example.org"}
    sources = [theirs, {"name": "encoder: old", "license": "NC"}]
    large = {"name": "large", "license": "", "sources": sources}
    lost = {"name": "lost", "license": "", "sources": [sources[1]]}
    taught = {"teachers": [large, large, lost], "unlabelled_tokens": 1234}
    change(parts[1]["corpus"] / "corpus.json", name="mine", licence="CC0", taught=taught)
    meta, card = describe(parts, tmp_path / "output")
    assert [one["name"] for one in meta["sources"]] == [
        "mine",
        "encoder: biobert",
        "Theirs",
        "encoder: old",
    ]
    assert meta["license"] == "corpora: CC0, GPL-3.0; encoder: Apache-2.0, NC; lost: not stated"
    assert "| Taught by | large, lost, on the corpus and 1,234 words of unlabelled text |" in card


def test_a_described_copy_has_no_words_of_texts(parts, tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "NAME", "pattern": "Lee"}])
    nlp("Ochoa was seen.")
    nlp.to_disk(parts[0])
    assert "Ochoa" in (parts[0] / "vocab" / "strings.json").read_text()
    describe(parts, tmp_path / "out")
    assert json.loads((tmp_path / "out" / "vocab" / "strings.json").read_text()) == ["NAME"]
    assert [ent.text for ent in spacy.load(tmp_path / "out")("Ms. Lee came.").ents] == ["Lee"]


def test_scores_that_could_not_be_measured_are_left_blank(parts, tmp_path):
    change(parts[1]["metrics"], ents_p=None, ents_r=None, ents_f=None, ents_per_type=None)
    _, card = describe(parts, tmp_path / "out")
    assert "| all mentions |  |  |  |" in card.splitlines()


def test_a_corpus_and_an_encoder_of_ones_own_are_named(parts, tmp_path):
    pipeline, where = parts
    change(where["corpus"] / "corpus.json", name="my_notes", licence="", source="")
    config = (pipeline / "config.cfg").read_text()
    (pipeline / "config.cfg").write_text(config.replace('"biobert"', '"/home/ana/mine"'))
    meta, card = describe(parts, tmp_path / "out")
    assert [source["name"] for source in meta["sources"]] == ["my_notes", "encoder: mine"]
    assert "| Encoder | mine |" in card
    assert "/home" not in card
    assert meta["license"] == "corpus: not stated"


def test_a_pipeline_to_go_on_from_that_is_gone_is_named_without_its_folder(parts, tmp_path):
    assert "Continues from" not in describe(parts, tmp_path / "anew")[1]
    go_on_from(parts, "training/all")
    meta, card = describe(parts, tmp_path / "out")
    assert "| Continues from | all |" in card
    assert meta["license"].endswith("; all: not stated")


def test_a_described_pipeline_that_is_there_is_replaced(parts, tmp_path):
    describe(parts, tmp_path / "out")
    before = sorted(tmp_path.iterdir())
    describe(parts, tmp_path / "out", name="other")
    assert json.loads((tmp_path / "out" / "meta.json").read_text())["name"] == "other"
    assert sorted(tmp_path.iterdir()) == before


def test_a_directory_of_something_else_is_not_replaced(parts, tmp_path):
    """Neither what is read nor a folder of sources beside some meta.json."""
    with pytest.raises(BiomedError, match="is what is read"):
        describe(parts, parts[1]["corpus"])
    assert (parts[1]["corpus"] / "corpus.json").is_file()
    (tmp_path / "mine").mkdir()
    for name in ("meta.json", "thesis.py"):
        (tmp_path / "mine" / name).write_text("{}")
    with pytest.raises(BiomedError, match="did not write"):
        describe(parts, tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.py").read_text() == "{}"


@pytest.mark.parametrize("name", ["../x", "a/b", "a b", "", "-x", "ñ", "x" * 500 + "/"])
def test_a_name_that_no_package_can_have_is_refused(parts, tmp_path, name):
    with pytest.raises(BiomedError, match="letters, digits and underscores") as raised:
        describe(parts, tmp_path / "out", name=name)
    assert len(str(raised.value)) < 200
    assert not (tmp_path / "out").exists()


@pytest.mark.slow(least=1)
def test_the_version_is_written_as_the_names_of_wheels_have_it(parts, tmp_path):
    meta, _ = describe(parts, tmp_path / "out", pipeline_version="1.0-rc1")
    assert meta["version"] == "1.0rc1"


@pytest.mark.parametrize("version", ["x", "../1", "1.0/..", ""])
def test_a_version_that_no_package_can_have_is_refused(parts, tmp_path, version):
    with pytest.raises(BiomedError, match="no version of a package"):
        describe(parts, tmp_path / "out", pipeline_version=version)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda p, w: shutil.rmtree(p), "model-best: no pipeline there; `python -m spacy train`"),
        (lambda p, w: w["metrics"].unlink(), "m.json: not there; `python -m spacy evaluate"),
        (lambda p, w: w["metrics"].write_text("{\n,"), "m.json:2: not JSON"),
        (lambda p, w: w["metrics"].write_text("{}"), "m.json: has no scores of biomed_ner"),
        (lambda p, w: w["metrics"].write_text('{"cats_score": 1}'), "no scores of biomed_ner"),
        (lambda p, w: w["metrics"].write_text('{"ents_f": "?"}'), "no scores of biomed_ner"),
        (lambda p, w: change(w["metrics"], ents_per_type={"A": 1}), "no scores of biomed_ner"),
        (lambda p, w: change(w["corpus"] / "corpus.json", language="es"), "its language is es"),
        (lambda p, w: (w["corpus"] / "corpus.json").unlink(), "corpus.json: not there"),
        (lambda p, w: (w["corpus"] / "corpus.json").write_text("{}"), "no field 'name'"),
        (lambda p, w: (p / "meta.json").write_text("{"), "meta.json:1: not JSON"),
        (lambda p, w: (p / "config.cfg").unlink(), "config.cfg: not there"),
    ],
)
def test_bad_input_leaves_what_was_there(parts, tmp_path, damage, message):
    pipeline, where = parts
    describe(parts, tmp_path / "out")
    before = (tmp_path / "out" / "README.md").read_bytes()
    damage(pipeline, where)
    with pytest.raises(BiomedError, match=message):
        describe(parts, tmp_path / "out", name="other")
    assert (tmp_path / "out" / "README.md").read_bytes() == before
    assert not list(tmp_path.glob(".*"))


def test_a_card_of_pairs_shows_how_to_make_one(parts, tmp_path):
    nlp = spacy.blank("en")
    doc = spacy_biomed.pair(nlp, "Is it safe?", "It is.")
    spacy.tokens.DocBin(docs=[doc]).to_disk(parts[1]["corpus"] / "train.spacy")
    _, card = describe(parts, tmp_path / "out")
    assert 'doc = nlp(spacy_biomed.pair(nlp, "...", "..."))' in card
    assert "import spacy\nimport spacy_biomed\n" in card


def test_a_card_of_single_texts_does_not(parts, tmp_path):
    _, card = describe(parts, tmp_path / "out")
    assert 'doc = nlp("...")' in card
    assert "import spacy_biomed" not in card
