"""Column files: a line for each token and its tag, blank lines between sentences (CoNLL style)."""

import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from pathlib import Path

from ..errors import BiomedError, list_choices, quote
from .documents import Document, list_files, read_lines
from .registry import Format
from .repairs import keep_sound, leaving_out
from .tags import STARTS, Row, create_document, find_scheme, parse_tag
from .webanno import HEADER as WEBANNO

SUFFIXES = (".tsv", ".txt", ".conll", ".iob", ".iob2", ".bio", ".bioes")
# The second in JNLPBA's files, before an abstract's number; the last two are comments of CoNLL-U
# and of CoNLL-2012.
DOCUMENT_STARTS = ("-DOCSTART-", "###MEDLINE:", "# newdoc", "#begin document")
_COMMENT = re.compile(r"#\s*(?:[\w.:-]+\s*=(?:\s.*)?|newpar\b.*|end document\b.*)")

# Words of file names that name a part of the corpus and not a label.
_PART_NAMES = {
    *("train", "dev", "devel", "develop", "val", "valid", "validation", "test", "eval"),
    *("data", "iob", "bio"),
}

_NUMBER = re.compile(r"\d+(?:[-.:_]\d+)*")
_OTHER_TAG = re.compile(r"O|[BIESLU]-(\S+)")
# Tags of phrases (CoNLL 2000), which CoNLL 2003 has beside those of mentions.
_PHRASES = {"NP", "VP", "PP", "ADJP", "ADVP", "SBAR", "PRT", "CONJP", "INTJ", "LST", "UCP"}
_TAG = re.compile(r"\s(?:O|[BIESLU](?:-\S+)?)\s*$")


def read_columns(
    path: Path | str,
    encoding: str = "utf-8",
    scheme: str | None = None,
    n_sents: int = 1,
    tag_label: str | None = None,
) -> Iterator[Document]:
    """Read column files: the first column is the token, the last is its tag.

    Other columns are not read, and may not have tags of mentions.
    Columns are separated by tabs, or by spaces in a line without a tab. A line with `-DOCSTART-`,
    with `###MEDLINE:` and a number, or with `# newdoc` begins a document. Other comments, such as
    `# sent_id = 1`, are left out. Every `n_sents` sentences are a document in a file that begins
    none, and in a single file that begins only one, in its first line, as Label Studio exports it.
    Tags may be without a label (B, I and O alone). A text is its tokens joined with spaces;
    `tokens` and `sentences` contain their offsets.

    Args:
        path: a file, or a folder whose column files are read in the order of their names.
        scheme: "iob1" (an entity starts with I-, or with B- directly after another entity of its
            label), "iob2" (every entity starts with B-) or "bioes" (also as BILOU). None determines
            it from the tags of each file.
        n_sents: sentences per document in a file that does not mark documents. If sentences follow
            each other as in the articles they come from, several together have more context.
        tag_label: the label of tags that have none; by default what names the file besides its
            part, as in `gene_train.tsv`, or else its folder.

    Raises:
        BiomedError: if the scheme or a tag is unknown, or a line has fewer than two columns. Also
            if the scheme does not allow a tag after the tag before it, only some tags have a
            label, or another column has tags too.
    """
    if scheme is not None and scheme not in STARTS:
        raise BiomedError(f"unknown scheme {quote(scheme)}: {list_choices(scheme, STARTS)}")
    files = list_files(Path(path), SUFFIXES)
    for file in files:
        documents = _read_rows(file, encoding)
        if len(files) == 1 and len(documents) == 2 and not documents[0]:
            del documents[0]  # the only document start heads the file
        yield from _create_documents(file, documents, scheme, n_sents, tag_label)


def _create_documents(
    path: Path,
    documents: list[list[list[Row]]],
    scheme: str | None,
    n_sents: int,
    tag_label: str | None,
) -> Iterator[Document]:
    everything = [*chain.from_iterable(documents)]
    _name_tags([*chain.from_iterable(everything)], path, tag_label)
    scheme = scheme or find_scheme(everything)
    if len(documents) == 1:
        (sentences,) = documents
        documents = [sentences[i : i + n_sents] for i in range(0, len(sentences), n_sents)]
    for number, sentences in enumerate(documents, start=1):
        with leaving_out():
            if sentences:
                yield create_document(f"{path.stem}-{number}", sentences, scheme)


def _read_rows(path: Path, encoding: str) -> list[list[list[Row]]]:
    """Return documents of sentences of rows; the first is what precedes all document starts.

    A sentence with a line that is left out is left out as a whole: its text would be another one.
    """
    documents: list[list[list[Row]]] = [[]]
    sentence: list[tuple[int, str]] = []
    for number, line in enumerate([*read_lines(path, encoding), ""], start=1):
        if number == 1 and line.startswith(WEBANNO):
            raise BiomedError(
                f"{path}: WebAnno TSV has more columns than these; convert it with "
                "--format inception"
            )
        is_start = line.startswith(DOCUMENT_STARTS)
        if line.strip() and not is_start:
            # A token may begin with # too, and then ends with a tag.
            is_comment = line.startswith("#") and (
                _COMMENT.fullmatch(line) or ("\t" not in line and not _TAG.search(line))
            )
            if not is_comment:
                sentence.append((number, line))
            continue
        rows = list(keep_sound(partial(_parse_row, path), sentence))
        if rows and len(rows) == len(sentence):
            documents[-1].append(rows)
        sentence = []
        if is_start:
            documents.append([])
    if not any(documents):
        with leaving_out():  # as all sentences may have been
            raise BiomedError(f"{path}: no token in this file; unpack the corpus again")
    _check_tokens([*chain.from_iterable(documents)])
    _check_others([*chain.from_iterable(chain.from_iterable(documents))])
    return documents


def _check_tokens(sentences: list[list[Row]]) -> None:
    """Refuse files whose first column numbers the tokens (CoNLL-U) or names the text (CoNLL-2012).

    Then each token of the file is a number, or all tokens of each sentence are the same.
    """
    columns = [[row.token for row in sentence] for sentence in sentences]
    if max(map(len, columns), default=0) > 1 and (
        all(_NUMBER.fullmatch(token) for column in columns for token in column)
        or all(len({*column}) == 1 for column in columns)
    ):
        raise BiomedError(
            f"{sentences[0][0].where}: the first column numbers the tokens or names the "
            "text; remove it: the first column is the token"
        )


def _check_others(rows: list[Row]) -> None:
    """Refuse files with mentions in another column too: of other labels, nested, or predicted."""
    for number, cells in enumerate(zip(*(row.others for row in rows), strict=False), start=2):
        tags = [_OTHER_TAG.fullmatch(cell) for cell in cells]
        labels = {tag[1] for tag in tags if tag} - {None, *_PHRASES}
        is_same = all(
            cell.partition("-")[2] == row.label for cell, row in zip(cells, rows, strict=True)
        )
        if all(tags) and labels and not is_same:
            raise BiomedError(
                f"{rows[0].where}: column {number} has tags of mentions as well as the last; keep "
                "one of them, or make a file of each"
            )


def _name_tags(rows: list[Row], path: Path, tag_label: str | None) -> None:
    """Give tags without a label the one of the file."""
    bare = [row for row in rows if row.prefix != "O" and not row.label]
    if not bare:
        return
    if any(row.label for row in rows):
        raise BiomedError(
            f"{bare[0].where}: the tag {quote(bare[0].prefix)} has no label, and other tags "
            "of the file have one; write B-, I- (E-, S-, L-, U-) and a label, or O"
        )
    label = tag_label or _find_label(path)
    for row in bare:
        row.label = label


def _find_label(path: Path) -> str:
    """The label of a file, by its name without that of its part, or by its folder's name."""
    for name in (path.stem, path.absolute().parent.name):
        words = [word for word in re.split(r"[\s_.-]+", name) if word.lower() not in _PART_NAMES]
        if label := "_".join(filter(None, words)):
            return label
    raise BiomedError(
        f"{path}: its tags have no label, and neither has the name of the file; give --tag-label"
    )


def _parse_row(path: Path, numbered: tuple[int, str]) -> Row:
    number, line = numbered
    where = f"{path}:{number}"
    columns = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
    token, tag = columns[0].strip(" "), columns[-1].strip()
    if len(columns) < 2 or not token or not tag or "\r" in line:
        raise BiomedError(
            f"{where}: expected a token and a tag in two or more columns, found "
            f"{quote(line)}; separate them with a tab"
        )
    row = parse_tag(where, token, tag)
    row.others = tuple(cell.strip() for cell in columns[1:-1])
    return row


_OPTIONS = ("n_sents", "tag_label")
COLUMNS = Format(read_columns, options=_OPTIONS)
IOB1, IOB2, BIOES = (
    Format(partial(read_columns, scheme=scheme), options=_OPTIONS) for scheme in STARTS
)
