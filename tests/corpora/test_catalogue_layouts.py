"""Corpora that cannot be had here, in the folders where their catalogue entries want them."""

import json
import zipfile
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.corpora.corpus_catalogue import find_corpus
from spacy_biomed.errors import BiomedError

REPORT = "She took aspirin\nfor pain .\n"
CONCEPTS = 'c="aspirin" 1:2 1:2||t="treatment"\nc="pain" 2:1 2:1||t="problem"\n'
RELATION = 'c="aspirin" 1:2 1:2||r="TrAP"||c="pain" 2:1 2:1\n'
BRAT = "T1\tDrug 9 16\taspirin\nT2\tReason 21 25\tpain\nR1\tReason-Drug Arg1:T2 Arg2:T1\n"
EVENTS = (
    "<A><TEXT><![CDATA[\nShe took aspirin.]]></TEXT><TAGS>"
    '<EVENT id="E0" start="10" end="17" text="aspirin" type="TREATMENT"/></TAGS></A>'
)
PHI = (
    "<deIdi2b2><TEXT><![CDATA[Seen by Ana.]]></TEXT><TAGS>"
    '<NAME id="P0" start="8" end="11" text="Ana" TYPE="DOCTOR"/></TAGS></deIdi2b2>'
)
DISORDER = "r.txt||Disease_Disorder||C0030193||21||25\n"
INTERACTION = (
    '<document id="d"><sentence id="d.s0" text="Aspirin raises warfarin.">'
    '<entity id="e0" charOffset="0-6" type="drug" text="Aspirin"/>'
    '<entity id="e1" charOffset="15-22" type="drug" text="warfarin"/>'
    '<pair id="p0" e1="e0" e2="e1" ddi="true" type="effect"/></sentence></document>'
)
INFERENCE = json.dumps({"sentence1": "A.", "sentence2": "B.", "gold_label": "neutral"})
FRENCH = {
    "a.txt": "Douleur à l'œil.\n",
    "a.ann": "T1\tANAT 12 15\tœil\n#1\tAnnotatorNotes T1\tC0\n",
}
SPANISH = {"a.txt": "Tomó ácido fólico.\n", "a.ann": "T1\tNORMALIZABLES 5 17\tácido fólico\n"}


def i2b2_2010(part):
    if part == "train":
        folder = "train/concept_assertion_relation_training_data/beth"
        places = {"txt": f"{folder}/txt", "con": f"{folder}/concept", "rel": f"{folder}/rel"}
    else:
        folder = "test/reference_standard_for_test_data"
        places = {"txt": "test/test_data", "con": f"{folder}/concepts", "rel": f"{folder}/rel"}
    contents = {"txt": REPORT, "con": CONCEPTS, "rel": RELATION}
    return {f"{place}/{part}-1.{suffix}": contents[suffix] for suffix, place in places.items()}


def chemprot(folder, kind):
    return {
        f"{folder}/{kind.format('abstracts')}.tsv": "1\tA blocks B.\tYes.\n",
        f"{folder}/{kind.format('entities')}.tsv": (
            "1\tT1\tCHEMICAL\t0\t1\tA\n1\tT2\tGENE-Y\t9\t10\tB\n"
        ),
        f"{folder}/{kind.format('relations')}.tsv": "1\tCPR:4\tY \tINHIBITOR\tArg1:T1\tArg2:T2\n",
    }


def in_folders(files, *folders):
    return {f"{folder}/{name}": files[name] for folder in folders for name in files}


LAYOUTS = {
    "i2b2_2010": i2b2_2010("train") | i2b2_2010("test"),
    "i2b2_2010_re": i2b2_2010("train") | i2b2_2010("test"),
    "i2b2_2012": in_folders(
        {"1.xml": EVENTS}, "2012-07-15.original-annotation.release", "ground_truth/merged_xml"
    ),
    "i2b2_2014": {
        "training-PHI-Gold-Set1/220-01.xml": PHI,
        "training-PHI-Gold-Set2/280-01.xml": PHI,
        "testing-PHI-Gold-fixed/110-01.xml": PHI,
    },
    "n2c2_2018": in_folders({"1.txt": REPORT, "1.ann": BRAT}, "training_20180910", "test"),
    "n2c2_2019": {
        "clinicalSTS2019.train.txt": "A.\tB.\t4.5\n",
        "clinicalSTS2019.test.txt": "A.\tB.\n",
        "clinicalSTS2019.test.gs.sim.txt": "3\n",
    },
    "mednli": {f"mli_{part}_v1.jsonl": INFERENCE for part in ("train", "dev", "test")},
    "share_clef_2013": {
        "train/ALLREPORTS/r.txt": REPORT,
        "train/GOLD/r.pipe.txt": DISORDER,
        "test/ALLREPORTS/r.txt": REPORT,
        "test/Gold_SN2012/r.txt": DISORDER,
    },
    "ddi_2013": {
        "Train/DrugBank/a.xml": INTERACTION,
        "Train/MedLine/b.xml": INTERACTION,
        "Test/Test for DDI Extraction task/DrugBank/c.xml": INTERACTION,
        "Test/Test for DrugNER task/DrugBank/d.xml": INTERACTION,
    },
    "clinical_sts_2018": {
        "clinicalSTS.train.txt": "A.\tB.\t4.5\n",
        "clinicalSTS.test.txt": "A.\tB.\t3\n",
    },
    "chemprot_abstracts": chemprot("chemprot_training", "chemprot_training_{}")
    | chemprot("chemprot_development", "chemprot_development_{}")
    | chemprot("chemprot_test_gs", "chemprot_test_{}_gs"),
    "quaero": in_folders(FRENCH, "train", "test"),
    "pharmaconer": in_folders(SPANISH, "train/subtrack1", "dev/subtrack1", "test/subtrack1"),
    "ictusnet": in_folders(SPANISH, "train", "dev", "test"),
}


@pytest.fixture
def converted(tmp_path, request):
    name = request.param
    for path, content in LAYOUTS[name].items():
        (tmp_path / name / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name / path).write_text(content, encoding="utf-8")
    report = convert_corpus(name, tmp_path / name, tmp_path / "out")
    vocab = spacy.blank(find_corpus(name).language).vocab
    (doc,) = DocBin().from_disk(tmp_path / "out" / "test.spacy").get_docs(vocab)
    return report, doc


@pytest.mark.slow
@pytest.mark.parametrize("converted", LAYOUTS, indirect=True)
def test_every_part_is_found_where_the_entry_says(converted):
    report, _ = converted
    assert {part for part, one in report.parts.items() if one.documents} >= {"train", "test"}
    assert report.parts["test"].documents == 1
    assert set(find_corpus(report.name).splits) | set(report.seeded_parts) == set(report.parts)


@pytest.mark.parametrize(
    ("converted", "entities"),
    [
        ("i2b2_2010", [("aspirin", "treatment"), ("pain", "problem")]),
        ("i2b2_2012", [("aspirin", "TREATMENT")]),
        ("i2b2_2014", [("Ana", "DOCTOR")]),
        ("n2c2_2018", [("aspirin", "Drug"), ("pain", "Reason")]),
        ("share_clef_2013", [("pain", "Disease_Disorder")]),
        ("quaero", [("œil", "ANAT")]),
        ("pharmaconer", [("ácido fólico", "NORMALIZABLES")]),
    ],
    indirect=["converted"],
)
def test_their_entities_are_read(converted, entities):
    _, doc = converted
    assert [(ent.text, ent.label_) for ent in doc.ents] == entities


@pytest.mark.parametrize(
    ("converted", "relation"),
    [
        ("i2b2_2010_re", ("aspirin", "TrAP", "pain")),
        ("n2c2_2018", ("pain", "Reason-Drug", "aspirin")),
        ("ddi_2013", ("Aspirin", "effect", "warfarin")),
        ("chemprot_abstracts", ("A", "CPR:4", "B")),
    ],
    indirect=["converted"],
)
def test_their_relations_are_read(converted, relation):
    _, doc = converted
    ((head, tail, label, score),) = doc._.relations
    assert (head.text, label, tail.text) == relation
    assert score == 1.0


@pytest.mark.parametrize(
    ("converted", "cats"),
    [
        ("n2c2_2019", {"similarity": 3.0}),
        ("clinical_sts_2018", {"similarity": 3.0}),
        ("mednli", {"contradiction": 0.0, "entailment": 0.0, "neutral": 1.0}),
    ],
    indirect=["converted"],
)
def test_their_pairs_are_read(converted, cats):
    _, doc = converted
    assert [span.text for span in doc.spans["pair"]] == ["A.", "B."]
    assert doc.cats == cats


def write_zip(folder, files, root):
    folder.mkdir()
    with zipfile.ZipFile(folder / "DDICorpus-2013.zip", "w") as archive:
        for path, content in files.items():
            archive.writestr(f"{root}/{path}", content)
    return folder


def test_a_corpus_is_read_from_the_zip_file_of_its_authors(tmp_path):
    folder = write_zip(tmp_path / "ddi_2013", LAYOUTS["ddi_2013"], "DDICorpus")
    report = convert_corpus("ddi_2013", folder, tmp_path / "out")
    assert report.parts["test"].relations == {"effect": 1}
    assert [path.name for path in folder.iterdir()] == ["DDICorpus-2013.zip"]


def test_an_error_in_a_zip_file_names_the_folder_that_it_is_in(tmp_path):
    files = {**LAYOUTS["ddi_2013"], "Train/DrugBank/a.xml": INTERACTION.replace("0-6", "0-x")}
    folder = write_zip(tmp_path / "ddi_2013", files, "DDICorpus")
    with pytest.raises(BiomedError, match=r"charOffset=\"0-x\" is malformed") as raised:
        convert_corpus("ddi_2013", folder, tmp_path / "out")
    assert str(raised.value).startswith(f"{folder}/DDICorpus/Train/DrugBank/a.xml:1: ")
    assert not (tmp_path / "out").exists()


def test_a_zip_file_writes_nowhere_else(tmp_path):
    folder = write_zip(tmp_path / "ddi_2013", LAYOUTS["ddi_2013"], "DDICorpus")
    with zipfile.ZipFile(folder / "DDICorpus-2013.zip", "a") as archive:
        archive.writestr("../outside.xml", "<document/>")
        archive.writestr("/tmp/outside_of_ddi.xml", "<document/>")
    convert_corpus("ddi_2013", folder, tmp_path / "out")
    assert not list(tmp_path.rglob("outside*")) and not Path("/tmp/outside_of_ddi.xml").exists()
