"""Valid files of all formats, and many kinds of damage to them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random

_QA = {"id": 1, "question": "Which?", "answers": [{"text": "aspirin", "answer_start": 4}]}
_FACTOID = {
    "id": "55031181e9bde69634000014",
    "type": "factoid",
    "body": "Which?",
    "snippets": [{"text": "the aspirin"}],
    "exact_answer": [["aspirin"]],
}
_BIOC_JSON = {
    "documents": [
        {
            "id": "1",
            "passages": [
                {
                    "offset": 0,
                    "infons": {"type": "title"},
                    "text": "the aspirin – helps",
                    "annotations": [
                        {
                            "id": "T1",
                            "infons": {"type": "DRUG", "identifier": "D1"},
                            "locations": [{"offset": 4, "length": 7}],
                            "text": "aspirin",
                        },
                        {
                            "id": "T2",
                            "infons": {"type": "DRUG"},
                            "locations": [{"offset": 0, "length": 3}],
                            "text": "the",
                        },
                    ],
                }
            ],
            "relations": [
                {"id": "R1", "infons": {"type": "x"}, "nodes": [{"refid": "T1"}, {"refid": "T2"}]}
            ],
        }
    ]
}
_BIOC_XML = """<?xml version="1.0" encoding="UTF-8"?>
<collection><source>s</source><document><id>1</id><passage><offset>0</offset>
<text>the aspirin &amp; more</text><annotation id="T1"><infon key="type">DRUG</infon>
<location offset="4" length="7"/><text>aspirin</text></annotation><annotation id="T2">
<infon key="type">DRUG</infon><location offset="0" length="3"/><text>the</text></annotation>
</passage><relation id="R1"><infon key="type">x</infon><node refid="T1" role="a"/>
<node refid="T2" role="b"/></relation></document></collection>
"""
_DDI = """<?xml version="1.0" encoding="UTF-8"?>
<document id="d1"><sentence id="d1.s0" text="the aspirin and warfarin interact">
<entity id="e0" charOffset="4-10" type="drug" text="aspirin"/>
<entity id="e1" charOffset="16-19;20-23" type="drug" text="warfarin"/>
<pair id="p0" e1="e0" e2="e1" ddi="true" type="effect"/></sentence></document>
"""
_KNOWTATOR = """<?xml version="1.0" encoding="UTF-8"?>
<annotations textSource="a.txt"><annotation><mention id="M1" /><annotator id="1">A</annotator>
<span start="4" end="11" /><spannedText>aspirin</spannedText></annotation>
<stringSlotMention id="S1"><mentionSlot id="code" /><stringSlotMentionValue value="C1" />
</stringSlotMention><classMention id="M1"><hasSlotMention id="S1" />
<mentionClass id="Disorder">aspirin</mentionClass></classMention></annotations>
"""
_I2B2 = """<?xml version="1.0" encoding="UTF-8" ?>
<ClinicalNarrativeTemporalAnnotation><TEXT><![CDATA[
Seen by Ana Ruiz on May 3 for pain.
]]></TEXT><TAGS>
<EVENT id="E0" start="31" end="35" text="pain" type="PROBLEM" TYPE="DOCTOR" polarity="POS" />
<TIMEX3 id="T0" start="21" end="26" text="May 3" type="DATE" TYPE="DATE" val="x" mod="NA" />
<TLINK id="L0" start="1" end="5" text="Seen" TYPE="x" fromID="E0" toID="T0" type="OVERLAP" />
</TAGS></ClinicalNarrativeTemporalAnnotation>
"""
_MEDRQE = """<?xml version="1.0" encoding="UTF-8"?>
<rqe><pair pid="1" value="true" type="x"><chq>Is aspirin safe?</chq><faq>Safe?</faq></pair>
<pair pid="2" value="false" type="x"><chq>Is it?</chq><faq>What &lt; is?</faq></pair></rqe>
"""
_SPANS = [{"start": 4, "end": 11, "label": "DRUG", "text": "aspirin", "id": 1}]
_TOKENS = [{"start": 0, "end": 3}, {"start": 4, "end": 11}]
_JSONL = [
    {"text": "the aspirin", "spans": _SPANS, "tokens": _TOKENS, "meta": {"id": 7}},
    {"text": "more", "cats": {"A": 1, "B": 0.5}},
    {"text": "x", "options": [{"id": "A"}, {"id": "B"}], "accept": ["A"], "answer": "accept"},
]
_PLACES = [{"start": 4, "end": 11, "label": "DRUG"}, {"start": 0, "end": 3, "label": "X"}]
_PRODIGY = [
    {
        "text": "the aspirin",
        "tokens": _TOKENS,
        "spans": [{**_PLACES[0], "token_start": 1, "token_end": 1}, _PLACES[1]],
        "relations": [
            {"head": 1, "child": 0, "label": "x"},
            {"head_span": _PLACES[0], "child_span": _PLACES[1], "label": "x", "head": 1},
        ],
        "_view_id": "relations",
        "_task_hash": -5,
        "answer": "accept",
    },
    {"text": "no", "label": "A", "_view_id": "classification", "answer": "reject"},
    {"text": "x", "tokens": [{"start": 0, "end": 1}], "_task_hash": 6, "answer": "accept"},
]
_NLI = {"sentence1": "One is.", "sentence2": "It is.", "gold_label": "neutral", "pairID": "1"}
_MARKED = {"text": "<< Aspirin >> inhibits [[ COX-1 ]].", "label": "INHIBITOR"}
_COLUMNS = "-DOCSTART-\tO\n\nthe\tO\naspirin\tB-DRUG\nhelps\tO\n\nacid\tB-DRUG\ntoo\tI-DRUG\n"
_BRAT = (
    "T1\tDRUG 4 11\taspirin\nT2\tDRUG 0 3;12 17\tthe helps\nE1\tX:T1 Y:T2\nA1\tNeg T1\n"
    "R1\tx Arg1:T1 Arg2:T2\n#1\tAnnotatorNotes T1\tnote\nN1\tReference T1 A:B\tc\n*\tEquiv T1 T2\n"
)
_REGIONS = [
    {
        "id": "r1",
        "from_name": "label",
        "to_name": "text",
        "type": "labels",
        "value": {"start": 4, "end": 11, "text": "aspirin", "labels": ["DRUG"]},
        "meta": {"code": "D1"},
    },
    {"id": "r2", "type": "labels", "value": {"start": 0, "end": 3, "labels": ["X", "Y"]}},
    {"id": "r1", "type": "textarea", "from_name": "n", "value": {"start": 4, "text": ["note"]}},
    {"type": "relation", "from_id": "r1", "to_id": "r2", "direction": "bi", "labels": ["x"]},
    {"id": "r3", "type": "choices", "from_name": "class", "value": {"choices": ["A"]}},
]
_TASKS = [
    {
        "id": 1,
        "data": {"text": "the aspirin \U0001f600"},
        "annotations": [{"id": 5, "result": _REGIONS, "updated_at": "2024-01-02T03:04:05Z"}],
    },
    {"id": 2, "data": {"note": "more"}, "annotations": [{"result": [], "ground_truth": True}]},
]
_TYPES = """<?xml version="1.0" encoding="UTF-8"?>
<typeSystemDescription xmlns="http://uima.apache.org/resourceSpecifier"><types>
<typeDescription><name>custom.Span</name><supertypeName>uima.tcas.Annotation</supertypeName>
<features><featureDescription><name>label</name><rangeTypeName>uima.cas.String</rangeTypeName>
</featureDescription></features></typeDescription><typeDescription><name>custom.Relation</name>
<supertypeName>uima.tcas.Annotation</supertypeName><features><featureDescription><name>Governor
</name><rangeTypeName>custom.Span</rangeTypeName></featureDescription><featureDescription>
<name>Dependent</name><rangeTypeName>custom.Span</rangeTypeName></featureDescription></features>
</typeDescription></types></typeSystemDescription>
"""
_XMI = """<?xml version="1.0" encoding="UTF-8"?>
<xmi:XMI xmlns:xmi="http://www.omg.org/XMI" xmlns:cas="http:///uima/cas.ecore"
xmlns:custom="http:///custom.ecore" xmi:version="2.0"><cas:NULL xmi:id="0"/>
<custom:Span xmi:id="2" sofa="1" begin="4" end="11" label="DRUG"/>
<custom:Span xmi:id="3" sofa="1" begin="12" end="14" label="X"/>
<custom:Relation xmi:id="4" sofa="1" begin="12" end="14" Governor="2" Dependent="3"/>
<cas:Sofa xmi:id="1" sofaNum="1" sofaID="_InitialView" mimeType="text"
sofaString="the aspirin &#128512;&#13;&#10;helps"/><cas:View sofa="1" members="2 3 4"/></xmi:XMI>
"""
_CAS_JSON = {
    "%TYPES": {
        "custom.Span": {
            "%NAME": "custom.Span",
            "%SUPER_TYPE": "uima.tcas.Annotation",
            "label": {"%NAME": "label", "%RANGE": "uima.cas.String"},
        }
    },
    "%FEATURE_STRUCTURES": [
        {
            "%ID": 1,
            "%TYPE": "uima.cas.Sofa",
            "sofaNum": 1,
            "sofaID": "_InitialView",
            "mimeType": "text",
            "sofaString": "the aspirin \U0001f600",
        },
        {
            "%ID": 2,
            "%TYPE": "custom.Span",
            "@sofa": 1,
            "begin": 4,
            "end": 11,
            "label": "DRUG",
        },
    ],
    "%VIEWS": {"_InitialView": {"%SOFA": 1, "%MEMBERS": [2]}},
}
_WEBANNO = (
    "#FORMAT=WebAnno TSV 3.3\n#T_SP=webanno.custom.Span|label|ROLE_webanno.custom.Span:l_L|"
    "uima.tcas.Annotation\n#T_RL=webanno.custom.Rel|label|BT_webanno.custom.Span\n\n\n"
    "#Text=the \U0001f600 aspirin\n1-1\t0-3\tthe\tX\twho\t1-3[1]\t_\t_\t\n"
    "1-2\t4-6\t\U0001f600\tX[1]\t_\t_\tr\t1-1[0_1]\t\n1-3\t7-14\taspirin\tX[1]\t_\t_\t_\t_\t\n"
)
_CONCEPTS = 'c="aspirin" 1:1 1:1||t="treatment"\nc="pain" 2:0 2:0||t="problem"\n'


def _lines(*records: object) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


SOUND: dict[str, dict[str, str]] = {
    "columns": {"a.tsv": _COLUMNS},
    "iob1": {"a.tsv": _COLUMNS},
    "bioes": {"a.tsv": "the\tO\naspirin\tS-DRUG\nacid\tB-DRUG\ntoo\tE-DRUG\n"},
    "brat": {"a.txt": "the aspirin helps\n", "a.ann": _BRAT},
    "brat task": {
        "a.txt": "the aspirin helps\n",
        "a.a1": "T1\tDRUG 4 11\taspirin\nT2\tX 0 3;12 17\tthe helps\n",
        "a.a2": "E1\tBind Agent:T1 Target:T2\nE2\tBind Agent:T2 Target:T1 Cause:E1\n",
    },
    "pubtator": {
        "a.txt": "1|t|the aspirin\n1|a|It helps.\n1\t4\t11\taspirin\tChemical\tD1\n"
        "1\t15\t20\thelps\tX\tD2\n1\tCID\tD1\tD2\n\n2|t|pain\n2|a|\n"
    },
    "bioc": {"a.xml": _BIOC_XML},
    "bioc json": {"a.json": json.dumps(_BIOC_JSON, indent=1)},
    "bioc lines": {"a.json": _lines(_BIOC_JSON, {**_BIOC_JSON["documents"][0], "id": "2"})},
    "hoc": {
        "text/1.txt": "One sentence.\nAnother one.\n",
        "labels/1.txt": "< Resisting cell death--Necrosis AND Cellular energetics< NULL",
    },
    "hoc_sentences": {
        "text/1.txt": "One sentence.\nAnother one.\n",
        "labels/1.txt": "< Resisting cell death--Necrosis AND Cellular energetics< NULL",
    },
    "jsonl": {"a.jsonl": _lines(*_JSONL)},
    "prodigy": {"a.jsonl": _lines(*_PRODIGY)},
    "label_studio": {"a.json": json.dumps(_TASKS, indent=1)},
    "inception": {"a.xmi": _XMI, "TypeSystem.xml": _TYPES},
    "inception untyped": {
        "a.xml": _XMI.replace('label="X"', 'link="5"').replace(
            "<cas:Sofa", '<custom:SpanLinkLink xmi:id="5" role="r" target="2"/><cas:Sofa'
        )
    },
    "inception json": {"a.json": json.dumps(_CAS_JSON, indent=1)},
    "inception tsv": {"a.tsv": _WEBANNO},
    "i2b2_2010": {
        "a.txt": "the aspirin .\npain again\n",
        "a.con": _CONCEPTS,
        "a.ast": 'c="pain" 2:0 2:0||t="problem"||a="present"\n',
        "a.rel": 'c="aspirin" 1:1 1:1||r="TrAP"||c="pain" 2:0 2:0\n',
    },
    "i2b2_2012": {"a.xml": _I2B2},
    "i2b2_2012_temporal": {"a.xml": _I2B2},
    "i2b2_2014": {"a.xml": _I2B2},
    "tsv": {
        "a.tsv": "filename\tmark\tlabel\toff0\toff1\tspan\tcode\nb\tT1\tDRUG\t4\t11\taspirin\t1+2\n"
        "b\tT2\tDRUG\t0\t3\tthe\tNOCODE\n",
        "b.txt": "the aspirin\n",
        "c.txt": "none\n",
    },
    "csv": {
        "a.csv": 'id,span,label,text\n1,"0 3;12 17",DRUG,the helps\n2,4 11,DRUG,aspirin\n',
        "b.csv": 'id,text\n1,the aspirin helps\n2,"the\naspirin, or"\n',
    },
    "share_clef": {
        "a.txt": "the aspirin helps\n",
        "a.pipe.txt": "a.txt||Disease_Disorder||C1||0||3||4||11\na.txt||X||C2||12||17\n",
    },
    "share_clef knowtator": {"a.txt": "the aspirin helps\n", "a.txt.knowtator.xml": _KNOWTATOR},
    "ddi": {"a.xml": _DDI},
    "ddi task": {"a.xml": re.sub(r'<pair (.*) ddi="true"', r"<ddi \1", _DDI)},
    "chemprot": {
        "x_abstracts.tsv": "1\tthe aspirin\tIt helps.\n",
        "x_entities.tsv": "1\tT1\tCHEMICAL\t4\t11\taspirin\n1\tT2\tGENE\t15\t20\thelps\n",
        "x_relations.tsv": "1\tCPR:3\tY \tACTIVATOR\tArg1:T1\tArg2:T2\n",
    },
    "nli": {"a.jsonl": _lines(_NLI, {**_NLI, "gold_label": "-"})},
    "medrqe": {"a.xml": _MEDRQE},
    "sts": {"a.tsv": "4.5\tOne is.\tIt is.\n\tNo.\tScore.\n"},
    "sts named": {"a.tsv": '\tsentence1\tsentence2\tscore\n0\tOne.\tTwo.\t1\n1\t"A\tB."\tC\t2\n'},
    "clinical_sts": {"a.txt": "One is.\tIt is.\nA\tB\n", "a.gs.sim.txt": "4.5\n1\n"},
    "squad": {
        "a.json": json.dumps(
            {"data": [{"paragraphs": [{"context": "the aspirin helps", "qas": [_QA, _QA]}]}]}
        )
    },
    "bioasq": {"a.json": json.dumps({"questions": [_FACTOID]})},
    "marked_relations": {"a.jsonl": _lines(_MARKED)},
    "relation_tsv": {"a.tsv": "index\tsentence\tlabel\n0\t@GENE$ in @DISEASE$.\t1\n"},
}

_HOSTILE = [
    "\0",
    "\ufeff",
    "\u202e",
    "\x1b[2J",
    "\r",
    "\x85\u2028",
    "\\ud800",
    "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
    "9" * 5000,
    "-1",
    "1e999",
    "NaN",
    "null",
    "5",
    "[" * 5000,
    "[" * 900 + "]" * 900,
    '{"a":' * 900,
    "<a>" * 500,
    "<passage>" * 500 + "</passage>" * 500,
    "<sentence>" * 500,
    "&lt;&#0;&#xD800;&x;",
    '<!DOCTYPE a [<!ENTITY x "xxxx">]>',
    "x" * 100_000,
    " " * 50_000,
    "\n" * 10_000,
    "||",
    "\t",
    ";",
    '"',
    "--",
    ":",
]
_ENCODINGS = ["utf-7", "punycode", "undefined", "utf-16", "latin-1", "rot13", "zlib", "idna", "x"]


def damage(sound: dict[str, str], random: Random) -> dict[str, bytes]:
    """Damage one of a corpus's files in one to three ways."""
    files = {name: content.encode() for name, content in sound.items()}
    for _ in range(random.choice((1, 1, 2, 3))):
        name = random.choice(sorted(files))
        files[name] = random.choice(_KINDS)(files[name], random)
    return files


def _flip_bytes(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _cut(content: bytes, random: Random) -> bytes:
    start, end = sorted(random.randint(0, len(content)) for _ in range(2))
    return random.choice((content[:start], content[start:], content[:start] + content[end:]))


def _insert(content: bytes, random: Random) -> bytes:
    place = random.randint(0, len(content))
    return content[:place] + random.choice(_HOSTILE).encode() + content[place:]


def _replace_part(content: bytes, random: Random, pattern: bytes) -> bytes:
    places = [match.span() for match in re.finditer(pattern, content)]
    if not places:
        return content
    start, end = random.choice(places)
    return content[:start] + random.choice(_HOSTILE).encode() + content[end:]


def _replace_number(content: bytes, random: Random) -> bytes:
    if random.random() < 0.5:
        return _replace_part(content, random, rb"-?\d+")
    number = str(random.choice((0, 1, 2, 5, 12, 17, 18, 40, 10**12, 10**20))).encode()
    places = [match.span() for match in re.finditer(rb"\d+", content)] or [(0, 0)]
    start, end = random.choice(places)
    return content[:start] + number + content[end:]


def _replace_string(content: bytes, random: Random) -> bytes:
    return _replace_part(content, random, rb'"[^"]*"|[A-Za-z]+')


def _shuffle_lines(content: bytes, random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    kinds: list[Callable[[], None]] = [
        lambda: random.shuffle(lines),
        lambda: lines.extend(lines),
        lambda: lines.insert(0, random.choice(lines or [b""])),
        lambda: lines and lines.pop(random.randrange(len(lines))) and None,
    ]
    random.choice(kinds)()
    return b"".join(lines)


def _change_line_ends(content: bytes, random: Random) -> bytes:
    return content.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b"")))


def _mark(content: bytes, random: Random) -> bytes:
    return random.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\0\0\xfe\xff")) + content


def _repeat(content: bytes, random: Random) -> bytes:
    return content * (2 if len(content) > 10_000 else random.choice((2, 100)))


def _encode(content: bytes, random: Random) -> bytes:
    encoding = random.choice(_ENCODINGS)
    declared = re.sub(rb'encoding="[^"]*"', b'encoding="%s"' % encoding.encode(), content, count=1)
    if random.random() < 0.5:
        return declared
    try:
        return content.decode("utf-8", "replace").encode(encoding, "replace")
    except (LookupError, ValueError):
        return declared


def _declare_entities(content: bytes, random: Random) -> bytes:
    declarations = b'<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY %c "%s">' % (letter, b"&%c;" % (letter - 1) * 10) for letter in b"bcdefghij"
    )
    declaration = b"<!DOCTYPE x [%s]>" % declarations
    end = content.find(b"?>") + 2 if b"?>" in content else 0
    return content[:end] + declaration + content[end:].replace(b"aspirin", b"&j;")


_KINDS = [
    _flip_bytes,
    _cut,
    _insert,
    _insert,
    _replace_number,
    _replace_number,
    _replace_string,
    _replace_string,
    _shuffle_lines,
    _change_line_ends,
    _mark,
    _repeat,
    _encode,
    _declare_entities,
]
