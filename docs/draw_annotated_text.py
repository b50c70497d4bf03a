"""Draw `docs/annotated_text.svg` and the pictures of the task pages: what pipelines find.

Run it when an included pipeline changes: python docs/draw_annotated_text.py [NAME ...]

Without names it draws what the included pipelines find. The pictures of other pages (`TRAINED`) are
drawn when they are named. They need the pipelines that the first sections of these pages train.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

import spacy_biomed

REPOSITORY = Path(__file__).parents[1]

# One for each label in turn. Black text on each has a contrast of 7 or more.
COLOURS = (
    "#9ad0f5",
    "#ffc48a",
    "#b5e3a1",
    "#f7a8b8",
    "#d5b8f5",
    "#ffe27a",
    "#8fe0d4",
    "#e3c4a8",
)

# In pixels. The letters of a text and of a label have fixed widths, whatever the font.
WIDTH, MARGIN, LINE, PADDING = 800, 24, 38, 5
LETTER, SMALL = 9.0, 6.2


class Piece(NamedTuple):
    """A token, or something that was found.

    Attributes:
        label: "" for a token.
        detail: what is known besides, which is beside the label.
        space: what follows.
    """

    text: str
    label: str = ""
    detail: str = ""
    space: str = " "


Rows = list[list[Piece]]

CLINICAL = (
    "Paciente: Juana Robles Ortega, 64 años. Ingresó el 12/03/2019 con adenocarcinoma de colon; "
    "tratada con capecitabina."
)
PERSONAL = (
    "Mary Okafor, 64, came to Riverside Hospital on March 12, 2019 with fever; her son Daniel is "
    "at 515-555-0142."
)
# What is not so now, or of somebody else.
ASSERTIONS = ("negated", "uncertain", "historical", "hypothetical", "family")


@cache
def load(path: str) -> Language:
    """A pipeline by its folder, or an included one by its name."""
    included = REPOSITORY / "assets" / "pipelines" / path
    return spacy.load(included if included.is_dir() else REPOSITORY / path)


def split(
    doc: Doc, spans: Iterable[Span] | None = None, tell: Callable[[Span], str] = lambda span: ""
) -> Rows:
    """The lines of a text, with what was found.

    Args:
        spans: what was found; None for the entities.
        tell: the detail of a span.
    """
    found = {span.start: span for span in (doc.ents if spans is None else spans)}
    rows: Rows = [[]]
    start = 0
    while start < len(doc):
        piece = found.get(start, doc[start : start + 1])
        start = piece.end
        if piece.text.strip():
            space = doc[start - 1].whitespace_
            rows[-1].append(Piece(piece.text, piece.label_, piece.label_ and tell(piece), space))
        else:
            rows.append([])
    return [row for row in rows if row]


def tell_confidence(span: Span) -> str:
    return f"{span._.confidence:.2f}"


def show_classes(cats: dict[str, float], most: int = 4) -> list[Piece]:
    """The most probable classes."""
    ordered = sorted(cats.items(), key=lambda item: -item[1])[:most]
    return [Piece(name, "p", f"{score:.2f}") for name, score in ordered]


def show_relations(doc: Doc) -> Rows:
    return [
        [Piece(one.head.text), Piece("→", one.label, f"{one.score:.2f}"), Piece(one.tail.text)]
        for one in doc._.relations
    ]


def draw_front_page() -> Rows:
    """Two sentences with the entities that the included pipelines find."""
    spanish = load("es_clinical_ner")(CLINICAL)
    english = load("en_biomed_ner")(
        "Gefitinib inhibits EGFR in patients with lung cancer, and in mice without the T790M "
        "mutation."
    )
    return split(spanish) + split(english)


def draw_entities() -> Rows:
    """A sentence with its entities and their confidence."""
    text = "Aspirin reduced the risk of colorectal cancer in patients with diabetes."
    return split(load("en_biomed_ner")(text), tell=tell_confidence)


def draw_annotation_tools() -> Rows:
    """A note with the entities to correct and their confidence."""
    lines = (REPOSITORY / "assets/starter_en/test.jsonl").read_text(encoding="utf8").splitlines()
    text = json.loads(lines[0])["text"]
    doc = load("en_biomed_ner")(text[: text.index(". ") + 1])
    return split(doc, tell=tell_confidence)


def draw_assertion() -> Rows:
    """A note with its entities and what is said of them."""
    doc = load("es_clinical_ner")(
        "ANTECEDENTES FAMILIARES: madre con asma.\n"
        "EVOLUCIÓN: Niega alergias a penicilina. Posible neumonía.\n"
        "PLAN: acudir a urgencias si presenta fiebre."
    )
    return split(
        doc, tell=lambda span: ", ".join(one for one in ASSERTIONS if span._.get(f"is_{one}"))
    )


def draw_deidentification() -> Rows:
    """A sentence with personal data, with tags, and with surrogates."""
    nlp = load("en_clinical_deid")
    doc = nlp(PERSONAL)
    rows = split(doc)
    for mode in ("tags", "surrogates"):
        component = nlp.create_pipe("biomed_deidentify", config={"mode": mode})
        component.set_secret("of the picture only")
        new = component(doc)._.deidentified
        row: list[Piece] = []
        end = 0
        for one in new.replacements:
            row += split_words(new.text[end : one.new_start])
            row.append(Piece(new.text[one.new_start : one.new_end], one.label, space=""))
            end = one.new_end
        rows.append(row + split_words(new.text[end:]))
    return rows


def split_words(text: str) -> list[Piece]:
    found = re.findall(r"(\S*)(\s*)", text)
    return [Piece(word, space=space) for word, space in found if word or space]


def draw_linking() -> Rows:
    """A sentence with the codes of its entities."""
    page = (REPOSITORY / "docs/tasks/linking.md").read_text(encoding="utf8")
    first = page.split("```python\n")[1].split("```")[0]
    pipeline = REPOSITORY / "assets/pipelines/en_biomed_ner"
    begin = [sys.executable, "-m", "spacy", "biomed", "terminology"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-c", first], cwd=folder, check=True)
        build = ["build", "terms.csv", "bacteria", "--format", "csv", "--licence", "CC0-1.0"]
        link = ["link", str(pipeline), "linked", "--terminology", "SPECIES=bacteria"]
        for command in (build, link):
            subprocess.run([*begin, *command], cwd=folder, check=True)
        doc = spacy.load(Path(folder) / "linked")(
            "Escherichia coli and Staphylococcus aureus grew. E. coli was resistant to ampicillin."
        )
    return split(
        doc, tell=lambda span: f"{span._.code} {span._.code_confidence:.2f}" if span._.code else ""
    )


def draw_patients() -> Rows:
    """The diagnoses and drugs of two patients."""
    lines = (REPOSITORY / "assets/starter_notes/es.jsonl").read_text(encoding="utf8").splitlines()
    docs = list(load("es_clinical_ner").pipe(json.loads(line)["text"] for line in lines[:6]))
    rows: Rows = []
    for patient in range(2):
        found: set[tuple[str, str]] = set()
        for doc in docs[3 * patient : 3 * patient + 3]:
            found |= {(one.label_, one.text.lower()) for one in doc.ents if counts_now(one)}
        rows.append(
            [
                Piece(f"patient {patient + 1}:"),
                *(Piece(text, label) for label, text in sorted(found)),
            ]
        )
    return rows


def counts_now(entity: Span) -> bool:
    """Whether the patient has or takes it, as in the query of the page."""
    is_other = any(entity._.get(f"is_{name}") for name in ASSERTIONS)
    is_shown = entity.label_ in ("DIAGNOSTICO", "FARMACO") and entity._.section != "allergies"
    return is_shown and not is_other


def draw_updating() -> Rows:
    """A sentence before the pipeline learned species, and after."""
    text = "Aspirin reduced the growth of colorectal cancer in mice."
    names = ("without_species", "mynotes")
    docs = [load(f"training/{name}/model-best")(text) for name in names]
    return [row for doc in docs for row in split(doc, tell=tell_confidence)]


def draw_relations() -> Rows:
    """A sentence with the relation of two marked entities."""
    doc = load("training/starter_relations/model-best")(
        "<< Aspirin >> blocks [[ COX-1 ]] in platelets."
    )
    return split(doc, spans=()) + show_relations(doc)


def draw_text_classification() -> Rows:
    """A sentence with its most probable hallmarks of cancer."""
    doc = load("training/starter_hallmarks/model-best")(
        "Loss of p53 let the tumour cells escape apoptosis after cisplatin."
    )
    return [*split(doc), show_classes(doc.cats)]


def draw_pairs() -> Rows:
    """Two texts with the probabilities of the classes."""
    nlp = load("training/starter_entailment/model-best")
    texts = (
        "Blood cultures grew Escherichia coli in two of two bottles.",
        "The patient has bacteremia.",
    )
    doc = nlp(spacy_biomed.pair(nlp, *texts))
    return [*([Piece(text)] for text in texts), show_classes(doc.cats)]


def draw_question_answering() -> Rows:
    """A question, and what a pipeline of the small encoder takes for its answer."""
    nlp = load("training/starter_questions/model-best")
    question = "What was found in breast tumours?"
    context = "We sequenced 120 samples. Mutations of BRCA1 were found in breast tumours."
    doc = nlp(spacy_biomed.pair(nlp, question, context))
    best = doc.spans["answer"][0]
    start = best.start_char - doc.text.index(context)
    answer = Piece(best.text, "answer", tell_confidence(best), space="")
    before, after = context[:start], context[start + len(best.text) :]
    return [[Piece(question)], [*split_words(before), answer, *split_words(after)]]


def draw_multitask() -> Rows:
    """Two sentences with what three heads find."""
    nlp = load("training/multitask/model-best")
    doc = nlp("Loss of BRCA1 made breast cancer cells sensitive to olaparib.")
    marked = nlp("<< Olaparib >> blocks [[ PARP1 ]] at low doses.")
    return [
        *split(doc, doc.spans["starter_en"]),
        show_classes(doc.cats),
        *split(marked, spans=()),
        *show_relations(marked),
    ]


# By the name of the picture: what draws it. Its docstring is the title.
INCLUDED = {
    "annotated_text": draw_front_page,
    "tasks/entities": draw_entities,
    "tasks/annotation_tools": draw_annotation_tools,
    "tasks/assertion": draw_assertion,
    "tasks/deidentification": draw_deidentification,
    "tasks/linking": draw_linking,
    "tasks/patients": draw_patients,
}
TRAINED = {
    "tasks/updating": draw_updating,
    "tasks/relations": draw_relations,
    "tasks/text_classification": draw_text_classification,
    "tasks/pairs": draw_pairs,
    "tasks/question_answering": draw_question_answering,
    "tasks/multitask": draw_multitask,
}


def tell_title(draw_rows: Callable[[], Rows]) -> str:
    return str(draw_rows.__doc__).rstrip(".")


def draw(rows: Rows, title: str) -> str:
    """Draw rows of pieces below each other; long rows are wrapped."""
    labels = dict.fromkeys(piece.label for row in rows for piece in row if piece.label)
    colours = {label: COLOURS[n % len(COLOURS)] for n, label in enumerate(labels)}
    shapes: list[str] = []
    top = MARGIN
    for row in rows:
        top = draw_row(row, colours, top, shapes) + LINE + PADDING
    height = top - LINE // 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}"'
            ' font-family="monospace" font-size="15" fill="#1a1a1a">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#ffffff"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def draw_row(row: list[Piece], colours: dict[str, str], top: int, shapes: list[str]) -> int:
    """Append the shapes of a row, in lines from `top` on; return the top of its last line."""
    left = float(MARGIN)
    for piece in row:
        label = f"{piece.label} {piece.detail}".strip()
        words = len(piece.text) * LETTER
        width = words + (len(label) * SMALL + 3 * PADDING if label else 0)
        if left + width > WIDTH - MARGIN and left > MARGIN:
            left, top = float(MARGIN), top + LINE
        if label:
            shapes.append(
                f'<rect x="{left:.1f}" y="{top - 18}" width="{width:.1f}" height="27" rx="5"'
                f' fill="{colours[piece.label]}"/>'
            )
            after, rest = left + words + 2 * PADDING, width - words - 3 * PADDING
            shapes.append(draw_text(piece.text, left + PADDING, top, words))
            shapes.append(draw_text(label, after, top, rest, 'font-size="10" font-weight="bold"'))
        else:
            shapes.append(draw_text(piece.text, left, top, words))
        left += width + len(piece.space) * LETTER
    return top


def draw_text(text: str, left: float, top: int, width: float, style: str = "") -> str:
    return (
        f'<text x="{left:.1f}" y="{top}" textLength="{width:.1f}"'
        f"{f' {style}' if style else ''}>{escape(text)}</text>"
    )


if __name__ == "__main__":
    known = INCLUDED | TRAINED
    for name in [f"tasks/{one}" for one in sys.argv[1:]] or INCLUDED:
        picture = REPOSITORY / "docs" / f"{name}.svg"
        picture.write_text(draw(known[name](), tell_title(known[name])), encoding="utf8")
        print(picture)
