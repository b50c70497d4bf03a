"""Every input format of `annotate` with every output format, read by no reader of the package."""

import csv
import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import spacy
from spacy.tokens import DocBin

from spacy_biomed.bulk import BulkSettings, annotate_collection, shards

LINES = [
    "aspirin for cancer",
    'a "quoted" aspirin, 1 mg; cancer',
    "náuseas 🙂 y cancer",
    "nothing here",
    '"aspirin" first',
]
NOTES = [*LINES, "two\r\nlines: aspirin", "bare\rcancer", "tab\taspirin\r", " \n"]


def with_ids(texts: list[str]) -> list[tuple[str, str]]:
    return [(f"n{number}", text) for number, text in enumerate(texts)]


def write_json(path: Path, texts: list[str]) -> None:
    rows = [{"id": id, "text": text} for id, text in with_ids(texts)]
    lines = "\n".join(map(json.dumps, rows))
    path.write_text(lines if path.suffix == ".jsonl" else json.dumps(rows, indent=1))


def write_csv(path: Path, texts: list[str]) -> None:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, delimiter="\t" if path.suffix == ".tsv" else ",")
    writer.writerows([("id", "text"), *with_ids(texts)])
    path.write_bytes(buffer.getvalue().encode())


def write_parquet(path: Path, texts: list[str]) -> None:
    ids, _ = zip(*with_ids(texts), strict=True)
    pq.write_table(pa.table({"id": ids, "text": texts}), path)


def write_spacy(path: Path, texts: list[str]) -> None:
    nlp, docs = spacy.blank("en"), DocBin(store_user_data=True)
    for id, text in with_ids(texts):
        doc = nlp(text)
        doc.user_data["document_id"] = id
        docs.add(doc)
    docs.to_disk(path)


def write_pubtator(path: Path, texts: list[str]) -> None:
    pairs = ((id, *text.split(" ", 1)) for id, text in with_ids(texts))
    titles = (f"{id}|t|{title}\n{id}|a|{abstract}\n\n" for id, title, abstract in pairs)
    path.write_text("".join(titles))


def write_notes(path: Path, texts: list[str]) -> None:
    path.mkdir()
    for id, text in with_ids(texts):
        (path / f"{id}.txt").write_bytes(text.encode())


INPUTS = {
    "in.jsonl": (write_json, NOTES),
    "in.json": (write_json, NOTES),
    "in.csv": (write_csv, NOTES),
    "in.tsv": (write_csv, NOTES),
    "in.parquet": (write_parquet, NOTES),
    "in.spacy": (write_spacy, NOTES),
    "in.pubtator": (write_pubtator, LINES),
    "in.txt": (lambda path, texts: path.write_text("\n".join(texts)), LINES),
    "in": (write_notes, NOTES),
}

# What a reader gives for a document: identifier, text (None if the format has none), and spans.
Read = list[tuple[str, str | None, list[tuple[int, int, str]]]]


def parts(output: Path, pattern: str) -> list[Path]:
    found = sorted(output.glob(pattern))
    assert found
    return found


def read_tables(documents: list[dict], entities: list[dict]) -> Read:
    return [
        (
            one["id"],
            None,
            [
                (int(e["start"]), int(e["end"]), e["label"])
                for e in entities
                if e["document"] == one["document"]
            ],
        )
        for one in documents
    ]


def read_parquet(output: Path) -> Read:
    return read_tables(*(pq.read_table(output / n).to_pylist() for n in ("documents", "entities")))


def read_csv(output: Path) -> Read:
    def read(name: str) -> list[dict]:
        files = [path.open(newline="") for path in parts(output, f"{name}/*.csv")]
        return [row for file in files for row in csv.DictReader(file)]

    return read_tables(read("documents"), read("entities"))


def json_lines(output: Path) -> list[dict]:
    lines = [line for path in parts(output, "part-*.jsonl") for line in path.open("rb")]
    return [json.loads(line) for line in lines]


def read_jsonl(output: Path) -> Read:
    return [(row["id"], None, spans(row["entities"])) for row in json_lines(output)]


def spans(rows: list[dict]) -> list[tuple[int, int, str]]:
    return [(row["start"], row["end"], row["label"]) for row in rows]


def read_prodigy(output: Path) -> Read:
    return [(row["meta"]["id"], row["text"], spans(row["spans"])) for row in json_lines(output)]


def read_spacy(output: Path) -> Read:
    vocab = spacy.blank("en").vocab
    bins = [DocBin().from_disk(path) for path in parts(output, "*.spacy")]
    return [
        (
            doc.user_data["document_id"],
            doc.text,
            [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents],
        )
        for found in bins
        for doc in found.get_docs(vocab)
    ]


def read_brat(output: Path) -> Read:
    read: Read = []
    for path in parts(output, "part-*/*.txt"):
        lines = path.with_suffix(".ann").read_text().splitlines()
        found = [line.split("\t")[1].split() for line in lines if line.startswith("T")]
        text = path.read_bytes().decode()
        read.append((path.stem, text, [(int(start), int(end), name) for name, start, end in found]))
    return read


def read_pubtator(output: Path) -> Read:
    read: dict[str, list] = {}
    for path in parts(output, "*.pubtator"):
        for line in path.read_text().split("\n"):
            if match := re.fullmatch(r"(\S+)\|([ta])\|(.*)", line):
                text = read.setdefault(match[1], [match[1], "", []])
                text[1] += match[3] + (" " if match[2] == "t" else "")
            elif line:
                id, start, end, _, label, _ = line.split("\t")
                read[id][2].append((int(start), int(end), label))
    return [tuple(one) for one in read.values()]


def read_label_studio(output: Path) -> Read:
    tasks = [task for path in parts(output, "part-*.json") for task in json.loads(path.read_text())]
    return [
        (
            task["data"]["id"],
            task["data"]["text"],
            [
                (one["value"]["start"], one["value"]["end"], one["value"]["labels"][0])
                for one in task["predictions"][0]["result"]
            ],
        )
        for task in tasks
    ]


def read_inception(output: Path) -> Read:
    read: Read = []
    for path in parts(output, "part-*/*.xmi"):
        root = ElementTree.parse(path).getroot()
        (text,) = (one.attrib["sofaString"] for one in root if "sofaString" in one.attrib)
        places = [0]  # of the code units of UTF-16, in which UIMA counts
        for place, character in enumerate(text, start=1):
            places += [place] * (len(character.encode("utf-16-le")) // 2)
        found = [one.attrib for one in root if one.tag.endswith("}Span")]
        read.append(
            (
                path.stem,
                text,
                [(places[int(f["begin"])], places[int(f["end"])], f["label"]) for f in found],
            )
        )
    return read


OUTPUTS = {
    "out.parquet": read_parquet,
    "out.csv": read_csv,
    "out.jsonl": read_jsonl,
    "out.spacy": read_spacy,
    "out.brat": read_brat,
    "out.pubtator": read_pubtator,
    "out.label_studio": read_label_studio,
    "out.prodigy": read_prodigy,
    "out.inception": read_inception,
}


def expect(text: str) -> list[tuple[int, int, str]]:
    labels = {"aspirin": "DRUG", "cancer": "DISEASE"}
    return [(*m.span(), labels[m[0]]) for m in re.finditer("aspirin|cancer", text)]


@pytest.fixture(scope="module")
def nlp(ruler):
    return spacy.load(ruler)


@pytest.mark.slow
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("source", INPUTS)
def test_each_record_is_written_once_with_its_text_and_spans(
    nlp, ruler, tmp_path, monkeypatch, source, output
):
    if output == "out.inception":
        pytest.importorskip("cassis")
    monkeypatch.setattr(shards, "load_pipeline", lambda *_: nlp)
    write, texts = INPUTS[source]
    write(tmp_path / source, texts)
    annotate_collection(
        str(ruler), tmp_path / source, tmp_path / output, BulkSettings(shard_size=4)
    )
    ids = [
        f"in.txt:{n + 1}" if source == "in.txt" else id for n, (id, _) in enumerate(with_ids(texts))
    ]
    expected = dict(zip(ids, texts, strict=True))
    read = OUTPUTS[output](tmp_path / output)
    assert len(read) == len(texts)
    assert {id.replace("%3A", ":") for id, _, _ in read} == set(expected)
    for id, text, found in read:
        original = expected[id.replace("%3A", ":")]
        if output == "out.pubtator":  # a line each, joined by a space
            original = re.sub(r"[\t\r\n]", " ", original) + ("" if "\n" in original else " ")
        assert text in (None, original)
        assert sorted(found) == expect(original)
