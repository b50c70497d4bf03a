import zipfile

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.formats import Relation, read_inception
from spacy_biomed.formats.repairs import keeping_log

HEAD = "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Drug|kind|sure\n"
RELATED = f"{HEAD}#T_RL=webanno.custom.Treats|label|BT_webanno.custom.Drug\n\n\n"
NAMED = "de.tudarmstadt.ukp.dkpro.core.api.ner.type.NamedEntity"
TOKEN = "de.tudarmstadt.ukp.dkpro.core.api.lexmorph.type.pos.POS"


def read(folder, content, on_error="stop"):
    (folder / "note.tsv").write_text(content, encoding="utf-8", newline="")
    with keeping_log(on_error) as log:
        (document,) = read_inception(folder)
    return document, [change.kind for change in log.changes]


def rows(text, *lines):
    texts = "".join(f"#Text={line}\n" for line in text.split("\n"))
    return texts + "".join("\t".join([*line, ""]) + "\n" for line in lines)


def strings(document):
    return [(document.text[one.start : one.end], one.label) for one in document.mentions]


def test_mentions_go_over_tokens_and_share_them(tmp_path):
    body = rows(
        "😀 low dose\nheparin \\[x\\]",
        ("1-1", "0-2", "😀", "_", "_"),
        ("1-2", "3-6", "low", "DOSE[1]|DRUG[2]", "true[1]|*[2]"),
        ("1-3", "7-11", "dose", "DOSE[1]|DRUG[2]", "true[1]|*[2]"),
        ("1-4", "12-19", "heparin", "DRUG[2]", "*[2]"),
        ("1-4.1", "12-15", "hep", "a\\|b", "*"),
        ("1-5", "20-23", "\\[x\\]", "*", "*"),
    )
    second = rows("Rest .", ("2-1", "25-29", "Rest", "_", "_"), ("2-2", "30-31", ".", "_", "_"))
    document, _ = read(tmp_path, f"{HEAD}\n\n{body}\n{second}")
    assert (document.id, document.text) == ("note", "😀 low dose\nheparin [x]  Rest .")
    assert strings(document) == [
        ("low dose", "DOSE"),
        ("low dose\nheparin", "DRUG"),
        ("hep", "a|b"),
        ("[x]", "Drug"),
    ]
    assert [one.attributes for one in document.mentions] == [{"sure": "true"}, {}, {}, {}]
    assert document.relations is None


def test_relations_name_their_source_and_which_span_there(tmp_path):
    body = rows(
        "a b c",
        ("1-1", "0-1", "a", "X[1]|Y[2]", "*[1]|*[2]", "_", "_"),
        ("1-2", "2-3", "b", "Z", "*", "r|s", "1-1[2_0]|1-3"),
        ("1-3", "4-5", "c", "Z", "*", "*", "1-1[1_0]"),
    )
    document, _ = read(tmp_path, RELATED + body)
    assert [one.label for one in document.mentions] == ["X", "Y", "Z", "Z"]
    assert document.relations == [
        Relation("r", "1", "2"),
        Relation("s", "3", "2"),
        Relation("Treats", "0", "3"),
    ]


def test_a_relation_of_a_span_that_is_left_out_is_left_out(tmp_path):
    body = rows(
        "a b",
        ("1-1", "0-1", "a", "X", "*", "_", "_"),
        ("1-1.1", "0-0", "", "Y", "*", "_", "_"),
        ("1-2", "2-3", "b", "Z", "*", "r|s", "1-1|1-1.1"),
    )
    document, changes = read(tmp_path, RELATED + body, on_error="skip")
    assert document.relations == [Relation("r", "0", "2")]
    assert changes == ["left out", "left out"]


def test_links_by_roles_are_relations(tmp_path):
    head = (
        f"#FORMAT=WebAnno TSV 3.2\n#T_SP={TOKEN}|PosValue\n"
        "#T_SP=webanno.custom.Frame|ROLE_webanno.custom.Frame:Args_webanno.custom.L|"
        "uima.tcas.Annotation\n#T_SP=webanno.custom.Plain|\n"
        f"#T_SP={NAMED}|identifier|value\n"
        "#T_CH=de.tudarmstadt.ukp.dkpro.core.api.coref.type.CoreferenceLink|referenceType|"
        "referenceRelation\n\n\n"
    )
    body = rows(
        "a b c",
        ("1-1", "0-1", "a", "NN", "who;*", "1-2;1-3[4]", "_", "_", "_", "pr[1]", "coref->1-1"),
        ("1-2", "2-3", "b", "NN", "_", "_", "*", "_", "_", "_", "_"),
        ("1-3", "4-5", "c", "NN", "_", "_", "*[3]", "C1[4]", "*[4]", "_", "_"),
    )
    document, _ = read(tmp_path, head + body)
    assert strings(document) == [
        ("a", "Frame"),
        ("b", "Plain"),
        ("c", "Plain"),
        ("c", "NamedEntity"),
    ]
    assert document.mentions[3].attributes == {"identifier": "C1"}
    assert document.relations == [Relation("who", "0", "1"), Relation("Args", "0", "3")]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("a\tB-X\n", r"note\.tsv: not WebAnno TSV 3"),
        (f"{HEAD}\n\n#Text=a\n1-1\t0-1\ta\tX\n", r"note\.tsv:6: malformed line"),
        (f"{HEAD}\n\n#Text=a\n1-1\t0:1\ta\tX\t*\t\n", r"note\.tsv:6: malformed line"),
        (
            RELATED + rows("a", ("1-1", "0-1", "a", "X", "*", "r", "1-9")),
            r"note\.tsv:7: there is no single span 'webanno\.custom\.Drug 1-9'",
        ),
        (
            f"{HEAD}\n\n" + rows("a", ("1-1", "0-0", "", "X", "*")),
            r"note\.tsv:6: a mention from 0 to 0 covers nothing",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, content, what):
    with pytest.raises(BiomedError, match=what):
        read(tmp_path, content)


def test_a_projects_export_has_the_curated_annotation(tmp_path):
    def annotate(label):
        return f"{HEAD}\n\n" + rows("a", ("1-1", "0-1", "a", label, "*"))

    with zipfile.ZipFile(tmp_path / "project.zip", "w") as archive:
        archive.writestr("annotation/n.txt/anna.tsv", annotate("A"))
        archive.writestr("annotation/n.txt/bob.tsv", annotate("B"))
        archive.writestr("curation/n.txt/CURATION_USER.tsv", annotate("C"))
    (document,) = read_inception(tmp_path / "project.zip")
    assert (document.id, strings(document)) == ("n", [("a", "C")])
