"""Articles in XML and patents as texts to learn from."""

import gzip
import json
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from damaged_corpora import damage

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.text_sources import read_documents

PUBMED = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE PubmedArticleSet SYSTEM "https://example.org/pubmed.dtd">
<PubmedArticleSet>
<PubmedArticle><MedlineCitation><PMID Version="1">1</PMID><Article>
  <Journal><Title>A journal</Title></Journal>
  <ArticleTitle>Loss of <i>TP53</i> in
    tumours.</ArticleTitle>
  <Abstract>
    <AbstractText Label="AIM">We looked for H<sub>2</sub>O.</AbstractText>
    <AbstractText Label="RESULTS">P &lt; 0.05 &amp; &#946;-catenin.</AbstractText>
    <CopyrightInformation>Copyright.</CopyrightInformation>
  </Abstract></Article>
  <OtherAbstract Language="spa"><AbstractText>Buscamos agua.</AbstractText></OtherAbstract>
</MedlineCitation></PubmedArticle>
<PubmedArticle><MedlineCitation><Article><ArticleTitle>No abstract.</ArticleTitle></Article>
</MedlineCitation></PubmedArticle>
<PubmedBookArticle><BookDocument><ArticleTitle>A chapter.</ArticleTitle>
  <Abstract><AbstractText>On books.</AbstractText></Abstract></BookDocument></PubmedBookArticle>
<DeleteCitation><PMID>3</PMID></DeleteCitation>
</PubmedArticleSet>"""

JATS = """<!DOCTYPE article PUBLIC "-//NLM//DTD JATS v1.0//EN" "JATS-journalpublishing1.dtd">
<article xmlns:xlink="http://www.w3.org/1999/xlink" xml:lang="es">
<front><journal-meta><journal-title>Revista</journal-title></journal-meta><article-meta>
  <title-group><article-title>Dolor&nbsp;abdominal</article-title>
    <trans-title-group xml:lang="en"><trans-title>Abdominal pain</trans-title></trans-title-group>
  </title-group>
  <abstract><title>Resumen</title> Texto sin p.</abstract>
  <trans-abstract xml:lang="en"><title>Abstract</title><p>In English.</p></trans-abstract>
  <kwd-group><kwd>dolor</kwd></kwd-group>
</article-meta></front>
<body><sec><title>Caso</title>
  <p>Visto antes<sup><xref ref-type="bibr" rid="b1">1</xref>–<xref ref-type="bibr"
    rid="b3">3</xref></sup> y en otros [<xref ref-type="bibr" rid="b4">4</xref>,
    <xref ref-type="bibr" rid="b5">5</xref>]. <xref ref-type="bibr" rid="b6">Gil et al.</xref>
    dan 10<sup>5</sup> en <xref ref-type="fig" rid="f1">Fig. 2</xref>:
    <list><list-item><p>uno</p></list-item><list-item><p>dos</p></list-item></list>
    <inline-formula><tex-math>x^2</tex-math></inline-formula></p>
  <table-wrap><label>Tabla 1</label><table><tr><td>7</td></tr></table></table-wrap>
  <fig><caption><p>Una figura.</p></caption></fig>
</sec></body>
<back><ack><p>Gracias.</p></ack><ref-list><ref><article-title>Otro</article-title></ref></ref-list>
</back>
<sub-article article-type="translation" xml:lang="en"><front-stub><title-group>
  <article-title>Pain</article-title></title-group></front-stub><body><p>Seen before.</p></body>
</sub-article>
</article>"""

BIOC = """<collection><source>PMC</source><document><id>1</id>
<passage><infon key="section_type">TITLE</infon><offset>0</offset><text>A title</text></passage>
<passage><infon key="section_type">INTRO</infon><offset>9</offset>
  <sentence><offset>9</offset><text>One.</text></sentence>
  <sentence><offset>14</offset><text>Two.</text></sentence></passage>
<passage><infon key="section_type">REF</infon><offset>30</offset><text>A reference</text></passage>
</document></collection>"""

OAI = """<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><ListRecords>
<record><header><identifier>1</identifier></header><metadata>
 <oai-dc:dc xmlns:oai-dc="http://www.openarchives.org/OAI/2.0/oai_dc/"
   xmlns:dc="http://purl.org/dc/elements/1.1/">
  <dc:title>Asma</dc:title><dc:title>Asthma</dc:title>
  <dc:description>En niños.</dc:description><dc:description>In children.</dc:description>
 </oai-dc:dc></metadata></record>
<record><header status="deleted"><identifier>2</identifier></header></record>
</ListRecords></OAI-PMH>"""

ARTICLE = "<article><body><p>{}</p></body></article>"


def read(path, **settings) -> list[str]:
    return list(read_documents([path], **settings))


def read_text(tmp_path, content: str, name: str = "a.xml") -> list[str]:
    path = tmp_path / name
    path.write_text(content, encoding="utf8")
    return read(path)


def refuse(tmp_path, content: str, name: str = "a.xml") -> str:
    with pytest.raises(BiomedError) as raised:
        read_text(tmp_path, content, name)
    message = str(raised.value)
    assert "\n" not in message
    return message.removeprefix(f"{tmp_path}/")


def test_citations_of_pubmed_give_title_and_abstract(tmp_path):
    assert read_text(tmp_path, PUBMED) == [
        "Loss of TP53 in tumours.\n\nWe looked for H2O.\n\nP < 0.05 & β-catenin.",
        "Buscamos agua.",
        "A chapter.\n\nOn books.",
    ]


def test_articles_give_running_text_and_their_translations(tmp_path):
    assert read_text(tmp_path, JATS, "a.nxml") == [
        "Dolor abdominal\n\nResumen\n\nTexto sin p.\n\nCaso\n\n"
        "Visto antes y en otros. Gil et al. dan 105 en Fig. 2:\n\nuno\n\ndos",
        "Abdominal pain\n\nAbstract\n\nIn English.",
        "Pain\n\nSeen before.",
    ]


def test_many_articles_can_be_in_one_file(tmp_path):
    content = ARTICLE.format("One.") + ARTICLE.format("Two.")
    assert read_text(tmp_path, f"<pmc-articleset>{content}</pmc-articleset>") == ["One.", "Two."]
    record = "<record><metadata>{}</metadata></record>"
    records = "".join(record.format(ARTICLE.format(text)) for text in ("One.", "Two."))
    assert read_text(tmp_path, f"<OAI-PMH>{records}</OAI-PMH>") == ["One.", "Two."]


def test_bioc_gives_its_passages_without_references(tmp_path):
    assert read_text(tmp_path, BIOC) == ["A title\n\nOne.\n\nTwo."]


def test_dublin_core_gives_a_text_for_each_description(tmp_path):
    assert read_text(tmp_path, OAI) == ["Asma\n\nEn niños.", "Asthma\n\nIn children."]
    fewer = OAI.replace("<dc:title>Asthma</dc:title>", "")
    assert read_text(tmp_path, fewer) == ["En niños.", "In children."]


def test_xml_is_read_compressed_in_folders_and_in_the_encoding_it_declares(tmp_path):
    content = '<?xml version="1.0" encoding="iso-8859-1"?>' + ARTICLE.format("Náuseas.")
    (tmp_path / "b.xml.gz").write_bytes(gzip.compress(content.encode("latin-1")))
    (tmp_path / "a.xml").write_bytes(ARTICLE.format("β").encode("utf-16"))
    assert read(tmp_path) == ["β", "Náuseas."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<html><p>x</p></html>", "a.xml:1: articles in XML begin with <PubmedArticleSet>, "),
        ("<article><body>", "a.xml:1: no XML at column 16 (no element found)"),
        ("", "a.xml:1: no XML at column 1 (no element found)"),
        (ARTICLE.format("&nbsp;"), "a.xml:1: no XML at column 19 (undefined entity)"),
        (
            '<!DOCTYPE article [<!ENTITY a "aa">]>' + ARTICLE.format("&a;"),
            "a.xml:1: declares the entity 'a'",
        ),
        ("<article>" + "<sec>" * 5000, "a.xml:1: nested over 500 elements deep"),
        *(
            (f'<?xml version="1.0" encoding="{name}"?><article/>', "a.xml:1: declares an encoding")
            for name in ("utf-7", "punycode", "undefined", "nothing")
        ),
    ],
)
def test_what_is_no_article_is_refused_with_its_line(tmp_path, content, message):
    assert refuse(tmp_path, content).startswith(message)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_damaged_articles_give_texts_or_one_line(tmp_path, seed):
    random = Random(seed)
    sound = random.choice([PUBMED, JATS, BIOC, OAI])
    (tmp_path / "a.xml").write_bytes(damage({"a.xml": sound}, random)["a.xml"])
    try:
        texts = read(tmp_path / "a.xml")
    except BiomedError as error:
        assert "\n" not in str(error) and len(str(error)) < 500
    else:
        assert all("\n\n\n" not in text for text in texts)


def test_a_record_that_is_too_long_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_MAX_LINE_MB", "1")
    long = ARTICLE.format("word " * 300_000)
    assert "a record of over 1 MB" in refuse(tmp_path, long)
    short = ARTICLE.format("word " * 100_000)
    assert len(read_text(tmp_path, f"<pmc-articleset>{short * 4}</pmc-articleset>")) == 4


def test_notes_of_mimic_are_rows_of_which_errors_are_left_out(tmp_path):
    content = (
        "ROW_ID,CATEGORY,ISERROR,TEXT\r\n"
        '1,Nursing,,"Pt ""stable"".\r\nNo pain, no fever."\r\n'
        '2,Nursing,1,"Wrong patient."\r\n'
        '3,Physician,,"Discharged."\r\n'
    )
    path = tmp_path / "NOTEEVENTS.csv.gz"
    path.write_bytes(gzip.compress(content.encode()))
    assert read(path, text_field="TEXT") == [
        'Pt "stable".\r\nNo pain, no fever.',
        "Discharged.",
    ]
    with pytest.raises(BiomedError, match=r"gz: no column text, but ROW_ID, CATEGORY, ISERROR"):
        read(path)


@pytest.mark.parametrize("mark", ["1", 1, 1.0])
def test_errors_of_mimic_are_left_out_as_other_programs_write_them(tmp_path, mark):
    rows = [{"ISERROR": mark, "TEXT": "Wrong patient."}, {"ISERROR": None, "TEXT": "Discharged."}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "notes.parquet")
    (tmp_path / "notes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "notes.csv").write_text(f"ISERROR,TEXT\n{mark},Wrong patient.\n,Discharged.\n")
    for ending in ("parquet", "jsonl", "csv"):
        assert read(tmp_path / f"notes.{ending}", text_field="TEXT") == ["Discharged."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('text\n"a', "a.csv:2: a quotation mark opens a field here and does not close"),
        ("text,id\na", "a.csv:2: 1 fields and not 2, as the first line has"),
    ],
)
def test_what_is_no_csv_is_refused_with_its_line(tmp_path, content, message):
    assert refuse(tmp_path, content, "a.csv").startswith(message)


def test_columns_may_be_divided_by_tabs(tmp_path):
    assert read_text(tmp_path, "id\ttext\n1\tone, two\n", "a.tsv") == ["one, two"]


def test_one_side_of_a_parallel_corpus_is_text(tmp_path):
    assert read_text(tmp_path, "Una dosis.\nDos.\n", "EMEA.en-es.es") == ["Una dosis.", "Dos."]
    with pytest.raises(BiomedError, match="not a regular file that ends in .txt"):
        read_text(tmp_path, "Una dosis.", "EMEA.en-es.ids")


def write_patents(path, *patents):
    path.write_text("".join(json.dumps(patent) + "\n" for patent in patents), encoding="utf8")
    return path


def test_patents_of_medicine_give_a_text_for_each_language(tmp_path):
    def localized(**texts):
        return [{"language": name, "text": text} for name, text in texts.items()]

    patent = {
        "publication_number": "ES-1-A1",
        "ipc": [{"code": "C07D233/00"}],
        "cpc": [{"code": "A61K31/00", "first": True}],
        "title_localized": localized(es="Un fármaco", en="A drug"),
        "abstract_localized": localized(es="Se usa."),
        "claims_localized": None,
    }
    other = {**patent, "ipc": [{"code": "G06F16/00"}], "cpc": []}
    path = write_patents(tmp_path / "p.jsonl", patent, other, {"text": "No patent."})
    assert read(path) == ["Un fármaco\n\nSe usa.", "A drug", "No patent."]


@pytest.mark.parametrize(
    "wrong", [5, "A61K", {"code": "A61K"}, [5], [{"code": None}], [{"id": "A61K"}]]
)
def test_a_patent_of_another_form_is_refused_with_its_line(tmp_path, wrong):
    path = write_patents(tmp_path / "p.jsonl", {"title_localized": [], "cpc": wrong})
    with pytest.raises(BiomedError, match=r"p.jsonl:1: cpc of a patent is not a list of objects"):
        read(path)
