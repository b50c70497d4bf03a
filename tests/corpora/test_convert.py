import json
from dataclasses import replace

import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed.annotations.annotation_scope import get_scope
from spacy_biomed.corpora import convert
from spacy_biomed.corpora import corpus_catalogue as catalogue
from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.corpora.label_map import LabelMap
from spacy_biomed.corpora.splits import find_parts, split_documents
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.documents import Document, Mention, create_pair
from spacy_biomed.formats.registry import list_formats, read_documents

TRAIN = "Lung\tB-D\ncancer\tI-D\n\nAspirin\tB-C\n\n"
TEST = "lung\tB-D\ncancer\tI-D\n\nGout\tB-D\n\nLung\tB-D\ncancer\tI-D\n"


def write(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for stem, text in files.items():
        (folder / f"{stem}.tsv").write_text(text, encoding="utf-8")
    return folder


def load(path):
    return list(DocBin().from_disk(path).get_docs(spacy.blank("en").vocab))


def test_parts_are_written_and_reported(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, devel="x\tO\n", test=TEST)
    report = convert_corpus("own", source, tmp_path / "out", format="columns")
    assert [doc.text for doc in load(tmp_path / "out" / "train.spacy")] == [
        "Lung cancer",
        "Aspirin",
    ]
    train, test = report.parts["train"], report.parts["test"]
    assert (train.documents, train.sentences, train.tokens) == (2, 2, 3)
    assert train.mentions == {"C": 1, "D": 1}
    assert test.duplicates == 1
    assert report.unseen_share == pytest.approx(1 / 3)
    assert report.seeded_parts == []
    assert report.labels == ["C", "D"]
    written = json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf-8"))
    assert written["parts"]["train"]["mentions"] == {"C": 1, "D": 1}
    assert (written["name"], written["format"], written["labels"]) == ("own", "columns", ["C", "D"])


@pytest.mark.parametrize("name", ["val", "Val_1", "valid", "my.validation", "devel"])
def test_a_file_of_a_part_is_known_by_its_name(tmp_path, name, capsys):
    source = write(tmp_path, train=TRAIN, **{name: "x\tO\n"})
    assert find_parts(source).keys() == {"train", "dev"}
    assert not capsys.readouterr().err


def test_files_whose_names_say_no_part_are_named(tmp_path, capsys):
    source = write(tmp_path, train=TRAIN, dev=TRAIN, values=TRAIN, eval=TRAIN)
    (source / "README.md").write_text("", encoding="utf-8")
    (source / "train_of_thought").mkdir()
    assert len(find_parts(source)["train"]) == 2
    line = f"⚠ {source}: eval.tsv, values.tsv: not read, as the names say no part; give --train"
    assert capsys.readouterr().err.startswith(line)
    (source / "more").mkdir()
    find_parts(source)
    assert "eval.tsv, more, values.tsv" in capsys.readouterr().err


def test_a_missing_dev_part_is_a_tenth_of_train_and_the_same_every_time(tmp_path):
    train = "".join(f"w{number}\tO\n\n" for number in range(50))
    source = write(tmp_path / "in", train=train, test=TEST)
    report = convert_corpus("own", source, tmp_path / "a", format="columns")
    convert_corpus("own", source, tmp_path / "b", format="columns")
    assert [report.parts[part].documents for part in ("train", "dev", "test")] == [45, 5, 3]
    assert report.seeded_parts == ["dev"]
    dev = [doc.text for doc in load(tmp_path / "a" / "dev.spacy")]
    assert dev == [doc.text for doc in load(tmp_path / "b" / "dev.spacy")]
    assert not set(dev) & {doc.text for doc in load(tmp_path / "a" / "train.spacy")}


def test_a_single_file_is_split_80_10_10(tmp_path):
    source = write(tmp_path, all="".join(f"w{number}\tO\n\n" for number in range(40)))
    report = convert_corpus("own", source / "all.tsv", tmp_path / "out", format="columns")
    assert {part: each.documents for part, each in report.parts.items()} == {
        "train": 32,
        "dev": 4,
        "test": 4,
    }
    assert report.seeded_parts == ["train", "dev", "test"]


def test_another_seed_draws_other_documents():
    documents = [Document(str(number), "") for number in range(100)]
    first, second = (split_documents(documents, {"dev": 0.1}, seed)["dev"] for seed in (0, 1))
    assert first != second


@pytest.mark.parametrize("count", [0, 1, 2, 3])
def test_train_keeps_a_document_of_a_corpus_of_few(count):
    documents = [Document(str(number), "") for number in range(count)]
    parts = split_documents(documents, {"dev": 0.1, "test": 0.1}, 0)
    assert len(parts["train"]) == min(count, 1)
    assert sum(map(len, parts.values())) == count


def test_parts_are_found_by_name(tmp_path):
    names = ("train-set", "dev-set1", "dev-set2", "TestSet.txt", "constraints.txt", "latest.txt")
    for name in (*names, ".train"):
        (tmp_path / name).write_text("x")
    found = {part: [path.name for path in paths] for part, paths in find_parts(tmp_path).items()}
    assert found == {
        "train": ["train-set"],
        "dev": ["dev-set1", "dev-set2"],
        "test": ["TestSet.txt"],
    }


def test_annotations_of_parts_in_one_folder_are_read_with_their_texts(tmp_path):
    for part in ("train", "dev", "test"):
        for number, annotations in enumerate(["T1\tX 0 1\ta\n", ""]):
            (tmp_path / f"{part}_{number}.txt").write_text("a b")
            (tmp_path / f"{part}_{number}.ann").write_text(annotations)
    report = convert_corpus("own", tmp_path, tmp_path / "out", format="brat")
    found = [(one.documents, one.mentions) for one in report.parts.values()]
    assert found == [(2, {"X": 1})] * 3


def test_parts_without_train_are_refused(tmp_path):
    source = write(tmp_path / "in", test=TEST)
    with pytest.raises(BiomedError, match=r"test\.tsv but nothing named train"):
        convert_corpus("own", source, tmp_path / "out", format="columns")


def test_given_paths_go_before_names(tmp_path):
    source = write(tmp_path / "in", train=TEST, a=TRAIN, b=TEST)
    paths = {"train": [source / "a.tsv"], "dev": [source / "b.tsv"]}
    report = convert_corpus("own", source, tmp_path / "out", format="iob2", paths=paths)
    assert {part: each.documents for part, each in report.parts.items()} == {"train": 2, "dev": 3}
    assert report.unseen_share is None


def test_hoc_in_one_folder_is_split_as_documented(tmp_path):
    for part, content in (("text", "One .\n"), ("labels", "<Cellular energetics--")):
        (tmp_path / "in" / part).mkdir(parents=True)
        for number in range(20):
            (tmp_path / "in" / part / f"{number}.txt").write_text(content)
    report = convert_corpus("hoc", tmp_path / "in", tmp_path / "out")
    assert [each.documents for each in report.parts.values()] == [14, 2, 4]
    assert report.parts["train"].classes == {"Cellular energetics": 14}
    assert report.seeded_parts == ["train", "dev", "test"]


def test_a_text_longer_than_a_million_characters_is_converted(tmp_path):
    source = write(tmp_path, train="")
    line = json.dumps({"text": "word " * 210_000, "spans": []})
    (source / "train.jsonl").write_text(line)
    paths = {"train": [source / "train.jsonl"]}
    report = convert_corpus("own", source, tmp_path / "out", format="jsonl", paths=paths)
    assert report.parts["train"].tokens == 210_000


def test_bad_input_leaves_no_output(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN, test="a\tB-D\nb\tI-C\n")
    with pytest.raises(BiomedError, match=r"test\.tsv:2: "):
        convert_corpus("own", source, tmp_path / "out", format="columns")
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_output_is_replaced_whole(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN, test=TEST)
    output = tmp_path / "out"
    convert_corpus("own", source, output, format="columns")
    paths = {"train": [source / "test.tsv"], "dev": [source / "dev.tsv"]}
    convert_corpus("own", source, output, format="columns", paths=paths)
    assert len(load(output / "train.spacy")) == 3
    assert sorted(path.name for path in output.iterdir()) == [
        ".spacy-biomed.json",
        "conversion.json",
        "corpus.json",
        "dev.spacy",
        "train.spacy",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_files_that_conversion_did_not_write_are_left_alone(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN, test=TEST)
    output = tmp_path / "out"
    output.mkdir()
    (output / "test.spacy").write_text("mine")
    with pytest.raises(BiomedError, match="did not write"):
        convert_corpus("own", source, output, format="columns")
    assert {path.name: path.read_text() for path in output.iterdir()} == {"test.spacy": "mine"}


def test_an_output_that_is_a_file_is_refused(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN)
    (tmp_path / "out").write_text("x")
    with pytest.raises(BiomedError, match="this is a file; name a directory"):
        convert_corpus("own", source, tmp_path / "out", format="columns")


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"name": "no-such-corpus"}, "no corpus named 'no-such-corpus'"),
        ({"name": "own", "format": "docx"}, "unknown format 'docx'; use bilou, bio"),
        ({"name": "own", "format": "columns", "language": "xyz"}, "no language 'xyz'"),
        ({"name": "own", "format": "columns", "source": "absent"}, "no such file or folder"),
        ({"name": "ncbi_disease", "source": "absent"}, "unpack ncbi_disease there"),
    ],
)
def test_unknown_names_are_refused(tmp_path, arguments, what):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN)
    source = tmp_path / arguments.pop("source", source)
    with pytest.raises(BiomedError, match=what):
        convert_corpus(source=source, output=tmp_path / "out", **arguments)


def test_a_corpus_without_a_reader_is_refused(tmp_path, monkeypatch):
    entry = replace(catalogue.find_corpus("gad"), format=None)
    monkeypatch.setattr(convert, "find_corpus", lambda name: entry)
    with pytest.raises(BiomedError, match="no reader for this corpus yet; .*give --format"):
        convert_corpus("gad", tmp_path, tmp_path / "out")


@pytest.mark.parametrize("format", list_formats())
def test_every_format_refuses_a_missing_path(tmp_path, format):
    with pytest.raises(BiomedError, match="absent"):
        list(read_documents(format, [tmp_path / "absent"]))


def test_mention_replacement_multiplies_train_alone_and_counts_for_the_unseen_share(tmp_path):
    sentences = "Lung\tB-D\ncancer\tI-D\nhurts\tO\n\n" * 20
    source = write(tmp_path / "in", train=sentences, dev=TRAIN, test="Gout\tB-D\nhurts\tO\n")
    terms = tmp_path / "terms"
    terms.mkdir()
    (terms / "D.txt").write_text("gout\n")
    plain = convert_corpus("own", source, tmp_path / "a", format="columns")
    multiplied = convert_corpus(
        "own", source, tmp_path / "b", format="columns", replace_mentions=terms, copies=2
    )
    assert [plain.parts[part].documents for part in ("train", "dev", "test")] == [20, 2, 1]
    assert [multiplied.parts[part].documents for part in ("train", "dev", "test")] == [60, 2, 1]
    assert (plain.unseen_share, multiplied.unseen_share) == (1.0, 0.0)


def test_overlapping_mentions_are_counted_in_a_flat_layer_alone(tmp_path):
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "a.txt").write_text("lung cancer\n")
    (folder / "a.ann").write_text("T1\tD 0 11\tlung cancer\nT2\tD 5 11\tcancer\nT3\tD 0 3\tlun\n")
    flat = convert_corpus("own", tmp_path, tmp_path / "out", format="brat")
    spans = convert_corpus("own", tmp_path, tmp_path / "out", format="brat", spans_key="own")
    assert (flat.parts["train"].overlapping, flat.parts["train"].inside_token) == (1, 1)
    assert (spans.parts["train"].overlapping, spans.parts["train"].inside_token) == (0, 1)
    (doc,) = load(tmp_path / "out" / "train.spacy")
    assert [span.text for span in doc.spans["own"]] == ["lung cancer", "cancer"]
    assert doc._.unaligned_mentions == [(0, 3, "D")]


def test_relations_are_reported_by_label_and_those_without_spans_counted(tmp_path):
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "a.txt").write_text("Aspirin 81 mg daily for aches\n")
    (folder / "a.ann").write_text(
        "T1\tDrug 0 7\tAspirin\nT2\tStrength 8 13\t81 mg\nT3\tReason 24 28\tache\n"
        "R1\tStrength-Drug Arg1:T2 Arg2:T1\nR2\tReason-Drug Arg1:T3 Arg2:T1\n"
    )
    report = convert_corpus("own", tmp_path, tmp_path / "out", format="brat")
    assert report.parts["train"].relations == {"Reason-Drug": 1, "Strength-Drug": 1}
    assert report.parts["train"].lost_relations == 1
    (doc,) = load(tmp_path / "out" / "train.spacy")
    ((head, tail, label, _),) = doc._.relations
    assert (head.text, tail.text, label) == ("81 mg", "Aspirin", "Strength-Drug")


def test_pairs_in_a_format_of_single_texts_are_counted(tmp_path):
    source = tmp_path / "in"
    source.mkdir()
    (source / "train.jsonl").write_text('{"text": "A.\\u001eB.", "cats": {"yes": 1, "no": 0}}\n')
    report = convert_corpus("own", source, tmp_path / "out", format="jsonl")
    assert report.parts["train"].pairs == 1


def test_pairs_and_their_scores_are_reported(tmp_path):
    source = write(tmp_path / "in", train="1\tA b.\tC.\n4\tD.\tE.\n", dev="0\tF.\tG.\n")
    report = convert_corpus("own", source, tmp_path / "out", format="sts")
    train, dev = report.parts["train"], report.parts["dev"]
    assert (train.pairs, train.means, train.classes) == (2, {"similarity": 2.5}, {})
    assert (dev.pairs, dev.means) == (1, {"similarity": 0.0})
    assert report.labels == ["similarity"]
    (doc,) = load(tmp_path / "out" / "dev.spacy")
    assert [span.text for span in doc.spans["pair"]] == ["F.", "G."]
    assert doc.cats == {"similarity": 0.0}


def test_answers_are_reported(tmp_path, monkeypatch):
    document = create_pair("1", "Who?", "It was Ada.", None, "f:1")
    document.answers = [Mention("answer", ((12, 15),)), Mention("answer", ((13, 15),))]
    monkeypatch.setattr(convert, "read_documents", lambda *arguments: [document])
    source = write(tmp_path / "in", train="")
    report = convert_corpus("own", source, tmp_path / "out", format="jsonl")
    assert (report.parts["train"].answers, report.parts["train"].unaligned_answers) == (2, 1)


def test_repeats_between_parts_are_dropped_where_the_catalogue_says_so(tmp_path):
    rows = [f"{number}\tOne {number}.\tTwo.\n" for number in range(6)]
    parts = {"train": rows[:3], "val": rows[2:4], "test": rows}
    folder = tmp_path / "in"
    folder.mkdir()
    for part, lines in parts.items():
        (folder / f"2015.{part}.tsv").write_text("".join(lines))
    report = convert_corpus("sts", folder, tmp_path / "out")
    assert {part: (one.documents, one.dropped) for part, one in report.parts.items()} == {
        "train": (3, 0),
        "dev": (1, 1),
        "test": (2, 4),
    }
    assert report.parts["test"].duplicates == 0


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("corpus", "documents", "mentions", "off"),
    [
        ("ncbi_disease", (5424, 923, 940), (5134, 787, 960), 0),
        ("cantemist", (501, 500, 300), (6396, 6001, 3633), 16),
    ],
)
def test_catalogue_corpora_convert_with_every_mention_kept(
    corpora_dir, tmp_path, corpus, documents, mentions, off
):
    report = convert_corpus(corpus, corpora_dir(corpus), tmp_path / "out")
    parts = [report.parts[part] for part in ("train", "dev", "test")]
    assert tuple(part.documents for part in parts) == documents
    assert tuple(sum(part.mentions.values()) for part in parts) == mentions
    assert sum(part.inside_token for part in parts) <= off
    for name, part in report.parts.items():
        docs = load(tmp_path / "out" / f"{name}.spacy")
        kept = sum(len(doc.ents) for doc in docs)
        unaligned = sum(len(doc._.unaligned_mentions) for doc in docs)
        assert kept + unaligned == sum(part.mentions.values())
        assert unaligned == part.unaligned


def test_only_mentions_of_some_labels_are_kept(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN, test=TEST)
    report = convert_corpus("own", source, tmp_path / "out", format="columns", labels=["D"])
    assert (report.labels, report.parts["train"].mentions) == (["D"], {"D": 1})
    found = [[ent.text for ent in doc.ents] for doc in load(tmp_path / "out" / "train.spacy")]
    assert found == [["Lung cancer"], []]
    description = json.loads((tmp_path / "out" / "corpus.json").read_text(encoding="utf-8"))
    assert description["labels"] == ["D"]


def test_labels_that_a_corpus_annotates_need_not_occur(tmp_path):
    row = {"text": "A 64-year-old man", "spans": [{"start": 2, "end": 13, "label": "AGE"}]}
    for part in ("train", "dev", "test"):
        (tmp_path / f"{part}.jsonl").write_text(json.dumps(row) + "\n", encoding="utf8")
    labels = ("AGE", "CONTACT")
    settings = {"label_map": LabelMap({}), "labels": labels}
    convert_corpus("starter_clinical", tmp_path, tmp_path / "out", **settings)
    [doc] = load(tmp_path / "out" / "train.spacy")
    assert [ent.label_ for ent in doc.ents] == ["AGE"]
    assert get_scope(doc).labels == {"AGE", "CONTACT"}
    with pytest.raises(BiomedError, match="no mention of the corpus is a 'FAX'"):
        settings["labels"] = ("FAX",)
        convert_corpus("starter_clinical", tmp_path, tmp_path / "out", **settings)


def test_a_document_without_the_labels_stays_annotated(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN)
    convert_corpus("own", source, tmp_path / "out", format="columns", labels=["D"])
    doc = load(tmp_path / "out" / "train.spacy")[1]
    assert doc.text == "Aspirin" and doc.has_annotation("ENT_IOB")


def test_relations_go_with_their_arguments(tmp_path):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "a.txt").write_text("Aspirin 81 mg daily for aches\n")
    (tmp_path / "train" / "a.ann").write_text(
        "T1\tDrug 0 7\tAspirin\nT2\tStrength 8 13\t81 mg\nT3\tReason 24 29\taches\n"
        "R1\tStrength-Drug Arg1:T2 Arg2:T1\nR2\tReason-Drug Arg1:T3 Arg2:T1\n"
    )
    labels = ["Drug", "Reason"]
    report = convert_corpus("own", tmp_path, tmp_path / "out", format="brat", labels=labels)
    assert report.parts["train"].relations == {"Reason-Drug": 1}
    assert report.parts["train"].lost_relations == 0


def test_relations_of_concepts_go_with_their_mentions(tmp_path):
    lines = ["1|t|Aspirin and gout", "1|a|", "1\t0\t7\tAspirin\tChemical\tC1"]
    lines += ["1\t12\t16\tgout\tDisease\tD1", "1\tCID\tC1\tD1"]
    (tmp_path / "train.txt").write_text("\n".join(lines) + "\n\n")
    convert_corpus("own", tmp_path, tmp_path / "all", format="pubtator")
    convert_corpus("own", tmp_path, tmp_path / "one", format="pubtator", labels=["Disease"])
    (doc,), (less,) = (load(tmp_path / name / "train.spacy") for name in ("all", "one"))
    assert [relation.label for relation in doc._.relations] == ["CID"]
    assert ([ent.text for ent in less.ents], less._.relations) == (["gout"], [])


def test_a_label_that_no_mention_has_is_refused(tmp_path):
    source = write(tmp_path / "in", train=TRAIN, dev=TRAIN)
    with pytest.raises(BiomedError, match="--labels: no mention .* is a 'X'; it has C, D"):
        convert_corpus("own", source, tmp_path / "out", format="columns", labels=["D", "X"])
    assert not (tmp_path / "out").exists()
