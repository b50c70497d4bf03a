"""Mentions in tables: columns, offsets, codes, and which texts belong to them."""

import pytest
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_biomed.corpora import convert_corpus
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats import keeping_log, read_documents

TEXT = "Varón con fiebre alta y tos. Niega dolor de pecho o de espalda."
HEADER = "filename\tmark\tlabel\toff0\toff1\tspan\n"
FEVER = "nota1\tT1\tSINTOMA\t10\t21\tfiebre alta\n"


def write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", "/").replace("_tsv", ".tsv").replace("_csv", ".csv")
        path = path if path.suffix else path.with_suffix(".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def read(*paths, **options):
    return list(read_documents("tsv", paths, **options))


def read_one(folder, table, text=TEXT, **options):
    (document,) = read(write(folder, nota1=text, table_tsv=table), **options)
    return document


def mentions(document):
    return [(one.label, one.fragments, one.read(document.text)) for one in document.mentions]


@pytest.mark.parametrize(
    "table",
    [
        HEADER + FEVER,
        "filename\tlabel\tstart_span\tend_span\ttext\nnota1.txt\tSINTOMA\t10\t21\tfiebre alta\n",
        "filename\tlabel\tspan_ini\tspan_end\ttext\nnota1\tSINTOMA\t10\t21\tfiebre alta\n",
        "name\ttag\tstart_span\tend_span\ttext\tnote\nnota1\tSINTOMA\t10\t21\tfiebre alta\t\n",
        '"filename"\t"label"\t"start_span"\t"end_span"\t"text"\n'
        '"nota1"\t"SINTOMA"\t10\t21\t"fiebre alta"\n',
        "doc_id,start,end,label,text\nnota1,10,21,SINTOMA,fiebre alta\n",
        "Doc ID;Start;End;Label;Text\nnota1;10.0;21.0;SINTOMA;fiebre alta\n",
        "document,id,start,end,text,label\n0,nota1,10,21,fiebre alta,SINTOMA\n",
        "file_name,span,entity,type\nnota1.ann,10 21,fiebre alta,SINTOMA\n",
        'doc,spans,label\nnota1,"[(10, 21)]",SINTOMA\n',
        "nota1\tSINTOMA\tr50.9\tfiebre alta\t10 21\n",
        (HEADER + FEVER).replace("\n", "\r\n").encode("utf-8-sig"),
    ],
)
def test_columns_are_known_by_their_names(tmp_path, table):
    assert mentions(read_one(tmp_path, table)) == [("SINTOMA", ((10, 21),), "fiebre alta")]


def test_fragments_codes_and_other_columns(tmp_path):
    table = (
        "filename\tlabel\tposition\ttext\tcode\tsemantic_rel\n"
        "nota1\tSINTOMA\t35 43;52 62\tdolor de de espalda\t161891005\tEXACT\n"
        "nota1\tSINTOMA\t52 62;35 40\tde espalda dolor\t8000/3/H + 8140/3\tNARROW\n"
        "nota1\tSINTOMA\t24 27\ttos\tNO_CODE\t\n"
    )
    document = read_one(tmp_path, table)
    assert [one.fragments for one in document.mentions] == [
        ((35, 43), (52, 62)),
        ((35, 40), (52, 62)),
        ((24, 27),),
    ]
    assert [one.attributes for one in document.mentions] == [
        {"semantic_rel": "EXACT", "concept": "161891005"},
        {"semantic_rel": "NARROW", "concept": "8000/3/H; 8140/3"},
        {"concept": "NO_CODE"},
    ]


def test_codes_of_all_tables_of_a_mention_become_kb_id(tmp_path):
    codes = HEADER.replace("\n", "\tcode\tisH\tisN\n")
    row = FEVER.replace("\n", "\t386661006|H\tTrue\tFalse\n")
    row += "nota1\tT2\tSINTOMA\t24\t27\ttos\tNOCODE\tFalse\tFalse\n"
    write(tmp_path, nota1=TEXT, nota2="Nada.", nota3="Nada más.")
    write(tmp_path, task1__a_tsv=HEADER + FEVER, task2__b_tsv=codes + row)
    out = tmp_path.with_name("out")
    report = convert_corpus("x", tmp_path, out, format="tsv", language="es")
    docs = {}
    for part in ("train", "dev", "test"):
        for doc in DocBin().from_disk(out / f"{part}.spacy").get_docs(Vocab()):
            docs[doc.user_data["document_id"]] = doc
    assert [(one.text, one.kb_id_) for one in docs["nota1"].ents] == [
        ("fiebre alta", "386661006"),
        ("tos", "NIL"),
    ]
    assert sorted(docs) == ["nota1", "nota2", "nota3"]
    assert docs["nota2"].has_annotation("ENT_IOB")
    assert sum(one.mentions.get("SINTOMA", 0) for one in report.parts.values()) == 2


@pytest.mark.parametrize(
    ("covered", "plain"),
    [
        ('"mal" general', '"mal" general'),
        ('"mal"', '"mal"'),
        ('"""mal"" general"', '"mal" general'),
        ('"mal general', '"mal general'),
        ('mal general"', 'mal general"'),
    ],
)
def test_quotation_marks_join_no_rows(tmp_path, covered, plain):
    text = f"Refiere {plain} y tos."
    end = 8 + len(plain)
    table = HEADER + f"nota1\tT1\tS\t8\t{end}\t{covered}\nnota1\tT2\tS\t{end + 3}\t{end + 6}\ttos\n"
    table += f'nota1\tT3\tS\t{end + 3}\t{end + 6}\t"tos"\n'
    assert [one[2] for one in mentions(read_one(tmp_path, table, text))] == [plain, "tos", "tos"]


@pytest.mark.parametrize("unit", ["utf-8", "utf-16-le"])
def test_offsets_of_other_units_and_line_ends(tmp_path, unit):
    text = "😀 Años:\r\n fiebre\r\n y tos."
    size = 1 if unit == "utf-8" else 2
    start = len(text[: text.index("tos")].encode(unit)) // size
    table = HEADER + f"nota1\tT1\tS\t{start}\t{start + 3}\ttos\n"
    with keeping_log("stop") as log:
        document = read_one(tmp_path, table, text)
    assert (mentions(document)[0][2], document.text, log.changes) == ("tos", text, [])


def test_a_byte_order_mark_of_a_text_may_count(tmp_path):
    document = read_one(tmp_path, HEADER + FEVER.replace("10\t21", "11\t22"), "\ufeff" + TEXT)
    assert mentions(document) == [("SINTOMA", ((10, 21),), "fiebre alta")]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (FEVER.replace("alta", "baja"), r"table\.tsv:2: the annotation reads 'fiebre baja'"),
        (FEVER.replace("nota1", "nota9"), r"table\.tsv:2: there is no text 'nota9'; give its"),
        (FEVER.replace("10\t21", "10\t"), r"table\.tsv:2: '10' and '' for the offsets; write"),
        (FEVER.replace("10", "-1"), r"table\.tsv:2: '-1' and '21' for the offsets; write whole"),
        (FEVER.replace("\t21", ""), r"table\.tsv:2: 5 fields and not 6, as the first line has"),
        (FEVER.replace("SINTOMA", ""), "an empty label"),
    ],
)
def test_rows_that_do_not_fit_are_named_or_left_out(tmp_path, rows, message):
    good = "nota1\tT2\tSINTOMA\t24\t27\ttos\n"
    with pytest.raises(BiomedError, match=message):
        read_one(tmp_path, HEADER + rows + rows + good)
    with keeping_log("skip") as log:
        document = read_one(tmp_path, HEADER + rows + good)
    assert mentions(document) == [("SINTOMA", ((24, 27),), "tos")]
    assert [one.kind for one in log.changes] == ["left out"]


def test_a_text_in_another_encoding_is_named_or_left_out(tmp_path):
    write(tmp_path, nota1=TEXT, nota2="Él.".encode("latin-1"), a_tsv=HEADER + FEVER)
    with pytest.raises(BiomedError, match=r"nota2\.txt:1: the byte at offset 0 is not UTF-8"):
        read(tmp_path)
    with keeping_log("skip"):
        assert [one.id for one in read(tmp_path)] == ["nota1"]


def test_the_message_of_a_missing_text_is_given_once_for_each(tmp_path):
    write(tmp_path, nota1=TEXT, a_tsv=HEADER + FEVER + 2 * FEVER.replace("nota1", "nota9"))
    with keeping_log("skip") as log:
        read(tmp_path)
    assert [one.line for one in log.changes] == [3]


def test_a_table_without_labels_needs_one(tmp_path):
    table = "filename\tmention_string\tspan\tcode\nnota1\tfiebre alta\t10 21\t2212\n"
    with pytest.raises(BiomedError, match="no column has labels; give one to all with --tag-label"):
        read_one(tmp_path, table)
    assert mentions(read_one(tmp_path, table, tag_label="S"))[0][0] == "S"


def test_texts_in_a_table(tmp_path):
    texts = f'note_id,text\n7,"{TEXT}"\n8,"Sin\nfiebre, ni ""tos""."\n'
    rows = "note_id,start,end,concept_id\n7,10,21,386661006\n8,,,\n"
    write(tmp_path, notes_csv=texts, rows_csv=rows)
    seven, eight = read(tmp_path, tag_label="F")
    assert (seven.id, mentions(seven)) == ("7", [("F", ((10, 21),), "fiebre alta")])
    assert (eight.id, eight.mentions, eight.text) == ("8", [], 'Sin\nfiebre, ni "tos".')
    # Of another corpus.
    write(tmp_path.with_name(f"{tmp_path.name}_other"), **{"7": "x" * 90})
    with pytest.raises(BiomedError, match=r"rows\.csv:2: there is no text '7'"):
        write(tmp_path / "b", rows_csv=rows)
        read(tmp_path / "b", tag_label="F")
    (tmp_path / "b" / "rows.csv").unlink()
    write(tmp_path, more_csv="note_id,text\n7,Otro.\n")
    with pytest.raises(BiomedError, match=r"notes\.csv:2: another text of '7'; keep one of them"):
        read(tmp_path, tag_label="F")


def test_texts_in_the_table_of_mentions(tmp_path):
    row = f"9,10,21,S,fiebre alta,{TEXT.replace(',', '')}\n"
    table = f"tweet_id,begin,end,type,extraction,tweet\n{row}{row.replace('10,21', '24,27')}"
    (document,) = read(write(tmp_path, a_csv=table.replace("24,27,S,fiebre alta", "24,27,S,tos")))
    assert [one[2] for one in mentions(document)] == ["fiebre alta", "tos"]
    table = f"doc_id,text,start,end,label,mention\n1,{TEXT},10,21,S,fiebre alta\n"
    (document,) = read(write(tmp_path / "b", a_csv=table))
    assert (document.text, document.mentions[0].attributes) == (TEXT, {})


def test_what_annotate_writes_as_csv(tmp_path):
    entities = (
        "document,id,start,end,text,label,group,confidence,attributes,is_negated\n"
        '0,a,10,21,fiebre alta,S,,0.5,"{""kb_id"": ""D1"", ""note"": ""x""}",True\n'
    )
    write(
        tmp_path,
        notes_csv=f'id,text\na,"{TEXT}"\nb,Nada.\n',
        documents__part_csv="document,id,characters,words\n0,a,63,12\n1,b,5,2\n",
        entities__part_csv=entities,
    )
    first, second = list(read_documents("csv", [tmp_path]))
    assert mentions(first) == [("S", ((10, 21),), "fiebre alta")]
    attributes = first.mentions[0].attributes
    assert (attributes["concept"], attributes["note"], attributes["is_negated"]) == (
        "D1",
        "x",
        "True",
    )
    assert (second.id, second.mentions) == ("b", [])


def test_texts_that_belong_to_the_tables(tmp_path, capsys):
    write(tmp_path, README="About.", tsv__a_tsv=HEADER + FEVER, tsv__codes_tsv="code\tterm\n1\tx\n")
    write(tmp_path, es__nota1=TEXT, es__nota2="Sin datos.", en__nota1="Man.", en__nota2="None.")
    assert [(one.id, one.text) for one in read(tmp_path)] == [
        ("nota1", TEXT),
        ("nota2", "Sin datos."),
    ]
    told = capsys.readouterr().err
    assert all(name in told for name in ("README.txt", "codes.tsv", "nota1.txt", "nota2.txt"))
    # Only a table: the texts that it names.
    assert [one.id for one in read(tmp_path / "tsv" / "a.tsv")] == ["nota1"]
    assert "nota2.txt" in capsys.readouterr().err
    assert [one.id for one in read(tmp_path / "tsv", tmp_path / "es")] == ["nota1", "nota2"]
    write(tmp_path, pt__nota1=TEXT + " ")
    with pytest.raises(BiomedError, match=r"nota1\.txt has the same name and another text"):
        read(tmp_path)


def test_names_with_folders_and_tables_of_one_text(tmp_path):
    write(tmp_path, a__n=TEXT, b__n="Tiene tos.", t_tsv=HEADER + FEVER.replace("nota1", "a/n.txt"))
    assert [(one.id, len(one.mentions)) for one in read(tmp_path)][:1] == [("a/n", 1)]
    (document,) = read(write(tmp_path / "x", n=TEXT, n_tsv="start\tend\tlabel\n10\t21\tS\n"))
    assert mentions(document) == [("S", ((10, 21),), "fiebre alta")]


def test_offsets_without_quotes_have_to_be_of_words(tmp_path):
    table = "doc_id\tstart\tend\tlabel\nnota1\t12\t21\tS\nnota1\t22\t26\tS\nnota1\t1\t5\tS\n"
    with pytest.raises(BiomedError, match=r"most mentions are not whole words \(0 of 3 are\)"):
        read_one(tmp_path, table)
    table = table.replace("12", "10").replace("22\t26", "22\t23")
    assert [one[2] for one in mentions(read_one(tmp_path, table))] == ["fiebre alta", "y", "arón"]


def test_a_folder_without_mentions_is_refused(tmp_path):
    write(tmp_path, nota1=TEXT, codes_tsv="code\tterm\n1\tx\n")
    with pytest.raises(BiomedError, match=r"no table here has columns for offsets.*code, term"):
        read(tmp_path)


def test_parts_are_tables_that_share_a_folder_of_texts(tmp_path, capsys):
    rows = {f"{part}_tsv": HEADER + FEVER for part in ("train", "dev", "test")}
    write(tmp_path, **rows, texts__nota1=TEXT, texts__nota2="Nada.")
    out = tmp_path.with_name(f"{tmp_path.name}_out")
    report = convert_corpus("x", tmp_path, out, format="tsv", language="es")
    assert {part: one.documents for part, one in report.parts.items()} == dict.fromkeys(
        ("train", "dev", "test"), 1
    )
    assert "nota2.txt: not read" in capsys.readouterr().err
    paths = {"train": [tmp_path / "train.tsv", tmp_path / "texts"]}
    report = convert_corpus("x", tmp_path, out, format="tsv", language="es", paths=paths)
    assert sum(one.documents for one in report.parts.values()) == 2


def test_tables_of_two_annotators_are_not_joined(tmp_path):
    other = FEVER.replace("10\t21\tfiebre alta", "24\t27\ttos")
    write(tmp_path, nota1=TEXT, a_tsv=HEADER + FEVER, b_tsv=HEADER + FEVER + other)
    (document,) = read(tmp_path)  # one has all that the other has
    assert len({one.fragments for one in document.mentions}) == 2
    write(tmp_path, a_tsv=HEADER + FEVER + FEVER.replace("10\t21\tfiebre alta", "10\t16\tfiebre"))
    with pytest.raises(BiomedError, match=r"tsv: mentions of 'SINTOMA' that .*tsv does not have"):
        read(tmp_path)
    write(tmp_path, a_tsv=(HEADER + other).replace("SINTOMA", "OTRO"))
    (document,) = read(tmp_path)
    assert sorted(one.label for one in document.mentions) == ["OTRO", "SINTOMA", "SINTOMA"]


def test_the_column_that_names_most_texts_names_all(tmp_path):
    write(tmp_path, **{"1": "Tiene tos y fiebre.", "n1": "Tos."})
    write(tmp_path, a_tsv="filename\tid\tstart\tend\tlabel\nn1\t1\t0\t3\tS\nn2\t1\t0\t3\tS\n")
    with pytest.raises(BiomedError, match=r"a\.tsv:3: there is no text 'n2'"):
        read(tmp_path)
