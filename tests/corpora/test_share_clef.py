import re

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.share_clef import read_share_clef

TEXT = "Left atrium was dilated.\nNo chest pain, no\nfever.\n"
NAME = "00098-016139-DISCHARGE_SUMMARY"
DISORDERS = (
    f"{NAME}.txt||Disease_Disorder||C0344720||0||11||16||23\n"
    f"{NAME}.txt||Disease_Disorder||CUI-less||28||38\n"
)


def write(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def training(disorders=DISORDERS, text=TEXT):
    return {f"ALLREPORTS/{NAME}.txt": text, f"GOLD/{NAME}.pipe.txt": disorders}


def test_disjoint_mentions_and_concepts(tmp_path):
    (document,) = read_share_clef(write(tmp_path, training()))
    assert (document.id, document.text) == (NAME, TEXT)
    assert [(m.label, m.fragments, m.attributes["concept"]) for m in document.mentions] == [
        ("Disease_Disorder", ((0, 11), (16, 23)), "C0344720"),
        ("Disease_Disorder", ((28, 38),), "CUI-less"),
    ]


def test_fragments_that_only_white_space_parts_are_one(tmp_path):
    line = f"{NAME}.txt||Disease_Disorder||C1||34||38||28||33\n"
    (document,) = read_share_clef(write(tmp_path, training(line)))
    assert document.mentions[0].fragments == ((28, 38),)


def test_in_the_test_part_both_files_have_one_name(tmp_path):
    files = {
        f"Gold_SN2012/{NAME}.txt": DISORDERS,
        f"ALLREPORTS/{NAME}.txt": TEXT,
        "Gold_SN2012/b.txt": "",
        "ALLREPORTS/b.txt": "Well.",
        "ALLREPORTS/c.txt": "Well || not.",
    }
    documents = list(read_share_clef(write(tmp_path, files)))
    assert [(d.id, d.text, len(d.mentions)) for d in documents] == [
        (NAME, TEXT, 2),
        ("b", "Well.", 0),
        ("c", "Well || not.", 0),
    ]


def annotation(number, spans, spanned, label="Disease_Disorder", slot=""):
    places = "".join(f'<span start="{start}" end="{end}"/>' for start, end in spans)
    slots = ""
    if slot:
        slots = (
            f'<stringSlotMention id="S{number}"><mentionSlot id="code"/>'
            f'<stringSlotMentionValue value="{slot}"/></stringSlotMention>'
        )
    has_slot = f'<hasSlotMention id="S{number}"/>' if slot else ""
    return (
        f'<annotation><mention id="M{number}"/><annotator id="1">A</annotator>{places}'
        f"<spannedText>{spanned}</spannedText></annotation>\n{slots}"
        f'<classMention id="M{number}">{has_slot}<mentionClass id="{label}">x</mentionClass>'
        f"</classMention>\n"
    )


def knowtator(*annotations):
    return {
        f"ALLREPORTS/{NAME}.txt": TEXT,
        f"ALLSAVED/{NAME}.txt.knowtator.xml": (
            f'<annotations textSource="{NAME}.txt">\n{"".join(annotations)}</annotations>'
        ),
        "ALLSAVED/other.xml": "<x/>",
    }


def test_disorders_are_read_from_knowtators_xml(tmp_path):
    files = knowtator(
        annotation(1, [(16, 23), (0, 11)], "Left atrium ...dilated", slot="C0344720"),
        annotation(2, [(28, 38)], "chest pain"),
    )
    (document,) = read_share_clef(write(tmp_path, files))
    assert [(m.label, m.fragments, m.attributes["concept"]) for m in document.mentions] == [
        ("Disease_Disorder", ((0, 11), (16, 23)), "C0344720"),
        ("Disease_Disorder", ((28, 38),), "CUI-less"),
    ]


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (annotation(1, [], "x"), "expected <span>"),
        (annotation(1, [(0, 4)], "x").replace("classMention", "other"), "expected <span>"),
        (annotation(1, [(0, 4)], "fever, chills and more"), "reads 'fever, chills and more'"),
        (annotation(1, [(0, 400)], ""), "beyond the text's end"),
        (annotation(1, [(0, "x")], "x"), "with a whole number, found 'x'"),
    ],
)
def test_bad_annotations_of_knowtator_are_named_with_file_and_line(tmp_path, bad, what):
    folder = write(tmp_path, knowtator(bad))
    with pytest.raises(BiomedError, match=rf"{NAME}\.txt\.knowtator\.xml:2: .*{re.escape(what)}"):
        list(read_share_clef(folder))


def test_a_list_among_the_files_of_disorders_is_no_report(tmp_path):
    files = training() | {"GOLD/list.txt": f"{NAME}.pipe.txt\n", "ALLREPORTS/b.txt": "Well."}
    assert [document.id for document in read_share_clef(write(tmp_path, files))] == [NAME, "b"]


def test_reports_may_lie_among_their_files_of_disorders(tmp_path):
    files = {f"{NAME}.txt": TEXT, f"{NAME}.pipe.txt": DISORDERS, "b.txt": "Well."}
    assert [document.id for document in read_share_clef(write(tmp_path, files))] == [NAME, "b"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (f"{NAME}.txt||Disease_Disorder||C1", "malformed line"),
        (f"{NAME}.txt||Disease_Disorder||C1||0||4||6", "malformed line"),
        (f"{NAME}.txt||Disease_Disorder||C1||0||400", "beyond the text's end at 50"),
        (f"{NAME}.txt||Disease_Disorder||C1||4||4", "covers nothing"),
        (f"{NAME}.txt||Disease_Disorder||C1||0||11||5||14", "overlap"),
        ("other.txt||Disease_Disorder||C1||0||4", "a line about 'other.txt'"),
    ],
)
def test_bad_lines_are_named_with_file_and_line(tmp_path, line, what):
    folder = write(tmp_path, training(DISORDERS + line))
    with pytest.raises(BiomedError, match=rf"{NAME}\.pipe\.txt:3: .*{re.escape(what)}"):
        list(read_share_clef(folder))


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({"a.txt": "One."}, "no file of disorders"),
        ({"a.pipe.txt": ""}, "a.pipe.txt: there is no report a.txt"),
        (training(text=""), f"ALLREPORTS/{NAME}.txt: the file is empty"),
        ({"x/a.txt": "One.", "y/a.txt": "Two."}, "a.txt: there is .*a.txt of this name already"),
    ],
)
def test_missing_empty_and_repeated_files_are_named(tmp_path, files, what):
    with pytest.raises(BiomedError, match=what):
        list(read_share_clef(write(tmp_path, files)))


def test_a_wrong_encoding_is_named_with_its_line(tmp_path):
    folder = write(tmp_path, training())
    (folder / "ALLREPORTS" / f"{NAME}.txt").write_bytes("a\nfièvre".encode("latin-1"))
    with pytest.raises(BiomedError, match=rf"{NAME}\.txt:2: the byte at offset 4 is not UTF-8"):
        list(read_share_clef(folder))
