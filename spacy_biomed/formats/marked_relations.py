"""Sentences with the two arguments of a relation marked, and the relation as a label.

ChemProt's marked sentences are JSON lines; GAD and EU-ADR are tab-separated, with tags in place of
the arguments, as the authors of BioBERT prepared them (Lee et al. 2020).
"""

from collections.abc import Collection, Iterator
from pathlib import Path

from ..annotations.marked_arguments import find_marked_arguments
from ..errors import BiomedError, quote
from .documents import Document, Mention, Relation, list_files, number_lines
from .json_fields import get_field, read_json_lines
from .registry import Format
from .repairs import leaving_out

# Labels that corpora give to pairs without a relation, in lower case.
NEGATIVE_LABELS = ("", "0", "false", "none", "negative", "no_relation", "no relation")

HEAD, TAIL = "T1", "T2"
HEADER = "label"

_ADVICE = 'write it as {"text": "<< Aspirin >> inhibits [[ COX-1 ]].", "label": "INHIBITOR"}'


def read_marked_relations(
    path: Path | str, encoding: str = "utf-8", negative_labels: Collection[str] = NEGATIVE_LABELS
) -> Iterator[Document]:
    """Read JSON lines: a file, or the `.jsonl`, `.json` and `.txt` files in and below a folder.

    Each line is an object with

    text: a sentence with its arguments in `<< >>`, the head, and `[[ ]]`, the tail, or with tags
        such as @GENE$ in their places.
    label: the relation between the arguments.

    The arguments are the mentions `T1`, the head, and `T2`, the tail. Their label is the tag's
    type, or "". Other keys are ignored.

    Args:
        negative_labels: labels, in lower case, of pairs without a relation.

    Raises:
        BiomedError: if a line is not such an object, or a text does not mark two arguments.
    """
    for record, where, id in read_json_lines(path, (".jsonl", ".json", ".txt"), encoding):
        with leaving_out():
            text, label = (get_field(record, key, str, where, _ADVICE) for key in ("text", "label"))
            yield _create_document(text, label, id, where, negative_labels)


def read_relation_tsv(
    path: Path | str, encoding: str = "utf-8", negative_labels: Collection[str] = NEGATIVE_LABELS
) -> Iterator[Document]:
    """Read tab-separated files: a file, or the `.tsv` files of one folder.

    A line is index, sentence and label, or sentence and label. A first line with names of columns
    is skipped. Documents and errors are as in `read_marked_relations`. Each cross-validation fold
    is a folder; the path determines which fold is read.

    Args:
        negative_labels: labels, in lower case, of pairs without a relation.

    Raises:
        BiomedError: if a line is wrong, or the files are in several folders.
    """
    path = Path(path)
    files = list_files(path, (".tsv",))
    folders = sorted({file.parent for file in files})
    if len(folders) > 1:
        raise BiomedError(
            f"{path}: files in {len(folders)} folders, each the whole corpus if they are "
            f"cross-validation folds; name one, such as {folders[0]}"
        )
    for file in files:
        for number, line in number_lines(file, encoding):
            fields = line.split("\t")
            if number == 1 and fields[-1].strip().lower() == HEADER:
                continue
            where = f"{file}:{number}"
            with leaving_out():
                if len(fields) not in (2, 3):
                    raise BiomedError(
                        f"{where}: {len(fields)} columns; write index, sentence and label, or "
                        "sentence and label, with tabs between them"
                    )
                *index, text, label = map(str.strip, fields)
                id = index[0] if index else f"{file.stem}-{number}"
                yield _create_document(text, label, id, where, negative_labels)


def _create_document(
    text: str, label: str, id: str, where: str, negative_labels: Collection[str]
) -> Document:
    is_negative = label.strip().lower() in negative_labels
    document = create_marked_document(id, text, None if is_negative else label, where)
    if document is None:
        raise BiomedError(
            f"{where}: no two arguments in {quote(text)}; mark one as << head >> and one as "
            f"[[ tail ]], or put tags such as @GENE$ and @DISEASE$ in their places"
        )
    return document


def create_marked_document(id: str, text: str, label: str | None, where: str) -> Document | None:
    """Create the document of a text that marks two arguments; None if it does not mark two.

    Their relation has the label; there is none if that is None.
    """
    arguments = find_marked_arguments(text)
    if arguments is None:
        return None
    mentions = [
        Mention(argument.label, ((argument.start, argument.end),), id)
        for argument, id in zip(arguments, (HEAD, TAIL), strict=True)
    ]
    relations = [] if label is None else [Relation(label, HEAD, TAIL)]
    return Document(id=id, text=text, mentions=mentions, relations=relations, source=where)


MARKED_RELATIONS, RELATION_TSV = (
    Format(read, has_unknown_types=True) for read in (read_marked_relations, read_relation_tsv)
)
