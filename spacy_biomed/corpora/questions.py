"""Questions on contexts: their documents, and which documents ask the same question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from spacy.tokens import Doc

from ..annotations.pairs import join_pair
from ..errors import BiomedError
from .documents import Document, Mention
from .gold import ANSWER_KEY, DOCUMENT_ID

QUESTION_ID = "question_id"


def create_question(
    id: str,
    question: str,
    context: str,
    answers: Iterable[tuple[int, int]] | None,
    where: str,
) -> Document:
    """Create the document of a question and its context.

    Args:
        answers: (start, end) of each answer in the context; None if answers are not annotated.
        where: file and place, for messages.

    Raises:
        BiomedError: if a text contains the separator of pairs.
    """
    try:
        text, pair = join_pair(question, context)
    except BiomedError as error:
        raise BiomedError(f"{where}: {error}") from None
    mentions = None
    if answers is not None:
        (_, (shift, _)) = pair
        mentions = [Mention(ANSWER_KEY, (span,)).move(shift) for span in sorted(set(answers))]
    return Document(id=id, text=text, pair=pair, answers=mentions, source=where)


def question_id(doc: Doc) -> str | None:
    """Get the id of the question that a document asks; None if it has none.

    The id is `doc.user_data["question_id"]` if that is set. Otherwise it is the document's id up to
    its last colon: readers append a colon and the number of the context to the id of a question
    with several contexts.
    """
    if QUESTION_ID in doc.user_data:
        return doc.user_data[QUESTION_ID]
    id = doc.user_data.get(DOCUMENT_ID)
    return None if id is None else split_id(id)


def split_id(document_id: str) -> str:
    """Get the question's id from a document's id: the part before its last colon, if it has one.

    Examples:
        >>> split_id("55031181e9bde69634000014:2")
        '55031181e9bde69634000014'
    """
    question, colon, _ = document_id.rpartition(":")
    return question if colon else document_id


def group_questions(documents: Sequence[Document]) -> list[list[int]]:
    """Group questions on the same context, contexts of the same question, and parts of one text.

    Returns:
        the numbers of the documents of each group, in the order of the groups' first documents. A
        whole text without answers is a separate group.
    """
    earliest = list(range(len(documents)))  # a forest: each points to an earlier one in its group

    def find(index: int) -> int:
        while earliest[index] != index:
            index = earliest[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, document in enumerate(documents):
        for key in _group_keys(document):
            roots = sorted((find(index), find(first.setdefault(key, index))))
            earliest[roots[1]] = roots[0]
    groups: dict[int, list[int]] = {}
    for index in range(len(documents)):
        groups.setdefault(find(index), []).append(index)
    return list(groups.values())


def _group_keys(document: Document) -> list[tuple[str, str]]:
    """What documents of a group may share: the whole text, the question's id, and the context."""
    if document.part_of is not None:
        return [("text", document.part_of)]
    if document.pair is None or document.answers is None:
        return []
    start, end = document.pair[1]
    return [("question", split_id(document.id)), ("context", document.text[start:end])]
