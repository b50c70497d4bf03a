import json
from collections import Counter

import pytest

from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.repairs import keeping_log

LINES = ["naïve 😀 pain, left arm", "β-blocker for pain 👩🏽‍⚕️", "Núñez: 𝛼-toxin, then pain"] * 9
WORDS = {"pain": 27, "left arm": 9, "β-blocker": 9, "𝛼-toxin": 9, "Núñez": 9}
UNITS = {
    "code points": len,
    "UTF-16": lambda text: len(text.encode("utf-16-le")) // 2,
    "UTF-8": lambda text: len(text.encode()),
    "CR LF as one": lambda text: len(text.replace("\r\n", "\n")),
    "CR LF as one in UTF-16": lambda text: len(text.replace("\r\n", "\n").encode("utf-16-le")) // 2,
    "LF as CR LF": lambda text: len(text.replace("\r\n", "\n").replace("\n", "\r\n")),
    "as people see them": lambda text: len(
        text.replace("\r\n", "\n").replace("👩🏽‍⚕️", "x").replace("\u0301", "")
    ),
}


def find(text, count):
    """The words, with their offsets as a program counts."""
    for word in WORDS:
        place = text.find(word)
        while place >= 0:
            yield count(text[:place]), count(text[: place + len(word)]), word
            place = text.find(word, place + 1)


def write_jsonl(folder, text, found):
    spans = [{"start": a, "end": b, "label": "X", "text": word} for a, b, word in found]
    (folder / "a.jsonl").write_text(json.dumps({"text": text, "spans": spans}), encoding="utf-8")


def write_doccano(folder, text, found):
    label = [[a, b, "X"] for a, b, _ in found]
    (folder / "a.jsonl").write_text(json.dumps({"text": text, "label": label}), encoding="utf-8")


def write_brat(folder, text, found):
    (folder / "a.txt").write_bytes(text.encode())
    lines = [f"T{n}\tX {a} {b}\t{word}\n" for n, (a, b, word) in enumerate(found)]
    (folder / "a.ann").write_bytes("".join(lines).encode())


def write_bioc(folder, text, found):
    annotations = [
        {"infons": {"type": "X"}, "text": word, "locations": [{"offset": a, "length": b - a}]}
        for a, b, word in found
    ]
    passage = {"offset": 0, "text": text, "annotations": annotations}
    content = {"documents": [{"id": "1", "passages": [passage]}]}
    (folder / "a.json").write_text(json.dumps(content), encoding="utf-8")


def write_label_studio(folder, text, found):
    result = [
        {"type": "labels", "value": {"start": a, "end": b, "text": word, "labels": ["X"]}}
        for a, b, word in found
    ]
    task = {"data": {"text": text}, "annotations": [{"result": result}]}
    (folder / "a.json").write_text(json.dumps([task]), encoding="utf-8")


WRITERS = {
    "jsonl": write_jsonl,
    "prodigy": write_doccano,  # which has no strings
    "brat": write_brat,
    "bioc": write_bioc,
    "label_studio": write_label_studio,
}


@pytest.mark.parametrize("format", WRITERS)
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CR LF"])
def test_offsets_count_what_the_strings_or_whole_words_show(tmp_path, format, unit, end):
    text = end.join(LINES)
    WRITERS[format](tmp_path, text, list(find(text, UNITS[unit])))
    with keeping_log("stop") as log:
        (document,) = read_documents(format, [tmp_path])
    assert document.text == text
    assert len({mention.fragments for mention in document.mentions}) == sum(WORDS.values())
    assert Counter(mention.read(text) for mention in document.mentions) == WORDS
    # What the file does not show by its strings is listed.
    counts = {UNITS["code points"](text), UNITS[unit](text)}
    assert bool(log.changes) == (format == "prodigy" and len(counts) == 2)


def test_a_part_of_a_word_stays_where_code_points_have_it(tmp_path):
    text = "a\r\nb appendicitis\r\nappendicitis"
    write_doccano(tmp_path, text, [(5, 17, ""), (25, 31, "")])
    with keeping_log("stop") as log:
        (document,) = read_documents("jsonl", [tmp_path])
    assert [one.read(text) for one in document.mentions] == ["appendicitis", "icitis"]
    assert log.changes == []


def test_offsets_of_pubtator_and_i2b2_count_what_the_strings_show(tmp_path):
    title, *abstract = LINES
    text = " ".join(LINES)
    lines = [f"1\t{a}\t{b}\t{word}\tX" for a, b, word in find(text, UNITS["UTF-16"])]
    content = [f"1|t|{title}", f"1|a|{' '.join(abstract)}", *lines]
    (tmp_path / "a.txt").write_text("\n".join(content), encoding="utf-8")
    text = "\n" + "\n".join(LINES)
    tags = [
        f'<NAME id="P{n}" start="{a}" end="{b}" text="{word}" TYPE="X"/>'
        for n, (a, b, word) in enumerate(find(text, UNITS["LF as CR LF"]))
    ]
    content = f"<x><TEXT><![CDATA[{text}]]></TEXT><TAGS>{''.join(tags)}</TAGS></x>"
    (tmp_path / "a.xml").write_text(content, encoding="utf-8")
    for format, name in (("pubtator", "a.txt"), ("i2b2_2014", "a.xml")):
        with keeping_log("stop") as log:
            (document,) = read_documents(format, [tmp_path / name])
        assert Counter(one.read(document.text) for one in document.mentions) == WORDS
        assert log.changes == []
