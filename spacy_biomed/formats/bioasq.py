"""The JSON of BioASQ's task b: biomedical questions with snippets of abstracts that answer them."""

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, create_question, list_files
from .json_fields import get_field, read_json
from .repairs import leaving_out

FACTOID = "factoid"


def read_bioasq(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read `.json` files: one, or those in and below a folder. Each is an object with

    questions: a list of objects with `id`, `type`, `body`, `snippets` (objects with a `text`) and,
        in training files and gold batches, `exact_answer`.

    Only factoid questions are read: questions of the types yesno, list and summary have no single
    answer in their snippets. A question becomes a document with each of its snippets: the pair,
    with the id `QUESTION:NUMBER`, so that the snippets are scored together (see
    `document_keys.question_id`). A snippet that is given twice is read once. A question without
    snippets gives no document.

    `exact_answer` is a string, a list of synonyms, or a list of such lists; every string counts as
    an answer. An answer is annotated wherever it occurs in the snippet as whole words, in any case.
    A snippet without an answer has an empty list of answers. If `exact_answer` is missing, answers
    are not annotated.

    Raises:
        BiomedError: if the file is not such an object.
    """
    for file in list_files(Path(path), (".json",)):
        content = read_json(file, encoding)
        for number, question in enumerate(get_field(content, "questions", list, str(file))):
            where = f"{file}: questions[{number}]"
            with leaving_out():
                if get_field(question, "type", str, where) == FACTOID:
                    yield from _read_factoid(question, where)


def _read_factoid(record: dict[str, object], where: str) -> Iterator[Document]:
    id, body = get_field(record, "id", str, where), get_field(record, "body", str, where)
    exact = record.get("exact_answer")
    strings = None if exact is None else list(_flatten(exact, where))
    seen: set[str] = set()
    snippets = [] if record.get("snippets") is None else get_field(record, "snippets", list, where)
    for number, snippet in enumerate(snippets, start=1):
        place = f"{where}.snippets[{number - 1}]"
        text = get_field(snippet, "text", str, place)
        if text not in seen:
            seen.add(text)
            answers = None if strings is None else find_answers(text, strings)
            yield create_question(f"{id}:{number}", body, text, answers, place)


def _flatten(exact_answer: object, where: str, depth: int = 2) -> Iterator[str]:
    """Yield every string of an `exact_answer`, whose lists may be nested so deeply."""
    if isinstance(exact_answer, list) and depth:
        for item in exact_answer:
            yield from _flatten(item, where, depth - 1)
    elif isinstance(exact_answer, str):
        yield exact_answer
    else:
        raise BiomedError(
            f"{where}: {quote(exact_answer)} in the exact_answer of a factoid question; write "
            f"strings, or lists of them"
        )


def find_answers(text: str, answers: Iterable[str]) -> list[tuple[int, int]]:
    """Find every occurrence of the answers in a text as whole words, in any case.

    Examples:
        >>> find_answers("MYC, and c-Myc again; not MYCN.", ["Myc"])
        [(0, 3), (11, 14)]
    """
    places = set()
    for answer in answers:
        words = answer.split()
        if not words:
            continue
        pattern = r"\s+".join(map(re.escape, words))
        before = r"(?<!\w)" if words[0][0].isalnum() else ""
        after = r"(?!\w)" if words[-1][-1].isalnum() else ""
        for match in re.finditer(before + pattern + after, text, re.IGNORECASE):
            places.add(match.span())
    return sorted(places)
