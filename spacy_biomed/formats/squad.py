"""SQuAD's JSON, 1.1 and 2.0, also the format of COVID-QA and of BioBERT's conversion of BioASQ."""

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, create_question, list_files
from .json_fields import get_field, read_json
from .repairs import leaving_out
from .spelling import fold_case

# BioBERT appends the number of a snippet to BioASQ's id of the question.
_NUMBERED_SNIPPET = re.compile(r"([0-9a-f]{24})_(\d{3})")


def read_squad(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read `.json` files: one, or those in and below a folder. Each is an object with

    data: a list of articles with `paragraphs`, each with a `context` and its questions, `qas`.

    A question has a `question`, an `id`, `answers` with `text` and `answer_start` (characters in
    the context), and in SQuAD 2.0 `is_impossible`, true if the context does not answer it. If
    `answers` is missing, the question is not annotated. A question becomes one document, the pair
    of the question and its context.

    White space around an answer is left out. In published files an answer's text may differ from
    the context at its offset. The nearest place where the context has the text is then used, if
    necessary in another case.

    An id of BioBERT's conversion, which is BioASQ's id with `_000`, `_001`, ... for the snippets,
    is read as BioASQ's id with `:000`, so that the snippets of a question are scored together (see
    `document_keys.question_id`). `:1` is appended to any other id with a colon.

    Raises:
        BiomedError: if the file is not such an object, or an answer is nowhere in its context.
    """
    for file in list_files(Path(path), (".json",)):
        articles = get_field(read_json(file, encoding), "data", list, str(file))
        for number, article in enumerate(articles):
            where = f"{file}: data[{number}]"
            for index, paragraph in enumerate(get_field(article, "paragraphs", list, where)):
                yield from _read_paragraph(paragraph, f"{where}.paragraphs[{index}]")


def _read_paragraph(paragraph: object, where: str) -> Iterator[Document]:
    context = get_field(paragraph, "context", str, where)
    for number, question in enumerate(get_field(paragraph, "qas", list, where)):
        with leaving_out():
            yield _read_question(question, context, f"{where}.qas[{number}]")


def _read_question(record: dict[str, object], context: str, where: str) -> Document:
    id = str(get_field(record, "id", (str, int), where))
    question = get_field(record, "question", str, where)
    is_impossible = record.get("is_impossible") is True
    answers: list[tuple[int, int]] | None = [] if is_impossible else None
    if record.get("answers") is not None:
        answers = [
            _find_answer(answer, context, f"{where}.answers[{number}]")
            for number, answer in enumerate(get_field(record, "answers", list, where))
        ]
    if is_impossible and answers:
        raise BiomedError(f"{where}: it is_impossible but has answers; correct one of the two")
    if numbered := _NUMBERED_SNIPPET.fullmatch(id):
        id = ":".join(numbered.groups())
    elif ":" in id:
        id = f"{id}:1"
    return create_question(id, question, context, answers, where)


def _find_answer(answer: object, context: str, where: str) -> tuple[int, int]:
    text = get_field(answer, "text", str, where)
    start = get_field(answer, "answer_start", int, where)
    stripped = text.strip()
    if not stripped:
        raise BiomedError(f"{where}: the answer's text is empty; remove the answer")
    nearest = find_nearest(context, stripped, start)
    if start >= 0 and context.startswith(text, start):
        nearest = start + len(text) - len(text.lstrip())
    if nearest is None:
        nearest = find_nearest(fold_case(context), fold_case(stripped), start)
    if nearest is None:
        raise BiomedError(
            f"{where}: the context has no {quote(stripped)}; do answers and contexts belong "
            "together?"
        )
    return nearest, nearest + len(stripped)


def find_nearest(text: str, string: str, place: int) -> int | None:
    """Find the occurrence of a string nearest to any offset; of two equally near, the first.

    Examples:
        >>> find_nearest("BRCA1 and BRCA1", "BRCA1", 8)
        10
    """
    place = min(max(place, 0), len(text))
    after = text.find(string, place)
    # Not `rfind`, which can take time proportional to the product of both lengths.
    start = text[: place + len(string) - 1]
    from_end = start[::-1].find(string[::-1])
    before = -1 if from_end < 0 else len(start) - from_end - len(string)
    found = [offset for offset in (before, after) if offset >= 0]
    return min(found, key=lambda offset: abs(offset - place), default=None)
