"""Questions on contexts: their documents, and which documents ask the same question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..annotations.document_keys import ANSWER_KEY, split_id
from ..annotations.pairs import join_pair
from ..errors import BiomedError
from .documents import Document, Mention


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
