"""Column files: a line for each token and its tag, blank lines between sentences (CoNLL style)."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, pairwise
from pathlib import Path

from ..errors import BiomedError, escape, list_choices, quote
from .documents import Document, Mention, Offsets, list_files, read_lines
from .registry import Format
from .repairs import keep_sound, leaving_out

# The tags that may start a mention, by scheme.
_STARTS = {"iob1": "BI", "iob2": "B", "bioes": "BS"}
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

# If I- begins more mentions than this, and more than a tenth of all, it is intended.
MOST_SLIPS = 10

# BILOU uses other letters than BIOES.
_CANONICAL = {"L": "E", "U": "S"}

_WEBANNO = "#FORMAT=WebAnno TSV"
_NUMBER = re.compile(r"\d+(?:[-.:_]\d+)*")
# Several tags in one, as nested mentions have.
_SEVERAL = re.compile(r"[|,;](?:O\b|[BIESLU]-)")
_TAG = re.compile(r"\s(?:O|[BIESLU](?:-\S+)?)\s*$")


@dataclass(slots=True)
class Row:
    """One token: line number in its file, string, tag prefix ("O" outside), label ("" outside)."""

    line: int
    token: str
    prefix: str = "O"
    label: str = ""


def read_columns(
    path: Path | str,
    encoding: str = "utf-8",
    scheme: str | None = None,
    n_sents: int = 1,
    tag_label: str | None = None,
) -> Iterator[Document]:
    """Read column files: the first column is the token, the last is its tag.

    Columns are separated by tabs, or by spaces in a line without a tab. A line with `-DOCSTART-`,
    with `###MEDLINE:` and a number, or with `# newdoc` begins a document. Other comments, such as
    `# sent_id = 1`, are left out. In a file that begins no document every `n_sents` sentences are
    a document. Tags may be without a label (B, I and O alone). A text is its tokens joined with
    spaces; `tokens` and `sentences` contain their offsets.

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
            if the scheme does not allow a tag after the tag before it, or only some tags have a
            label.
    """
    if scheme is not None and scheme not in _STARTS:
        raise BiomedError(f"unknown scheme {quote(scheme)}: {list_choices(scheme, _STARTS)}")
    for file in list_files(Path(path), SUFFIXES):
        yield from _read_file(file, encoding, scheme, n_sents, tag_label)


def _read_file(
    path: Path, encoding: str, scheme: str | None, n_sents: int, tag_label: str | None
) -> Iterator[Document]:
    documents = _read_rows(path, encoding)
    everything = [*chain.from_iterable(documents)]
    _name_tags([*chain.from_iterable(everything)], path, tag_label)
    scheme = scheme or _find_scheme(everything)
    if len(documents) == 1:
        (sentences,) = documents
        documents = [sentences[i : i + n_sents] for i in range(0, len(sentences), n_sents)]
    for number, sentences in enumerate(documents, start=1):
        with leaving_out():
            if sentences:
                yield _create_document(path, f"{path.stem}-{number}", sentences, scheme)


def _read_rows(path: Path, encoding: str) -> list[list[list[Row]]]:
    """Return documents of sentences of rows; the first is what precedes all document starts.

    A sentence with a line that is left out is left out as a whole: its text would be another one.
    """
    documents: list[list[list[Row]]] = [[]]
    sentence: list[tuple[int, str]] = []
    for number, line in enumerate([*read_lines(path, encoding), ""], start=1):
        if number == 1 and line.startswith(_WEBANNO):
            raise BiomedError(
                f"{path}: WebAnno TSV is not read; export the document as UIMA CAS JSON, and "
                "convert it with --format inception"
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
    _check_tokens([*chain.from_iterable(documents)], path)
    return documents


def _check_tokens(sentences: list[list[Row]], path: Path) -> None:
    """Refuse files whose first column numbers the tokens (CoNLL-U) or names the text (CoNLL-2012).

    Then each token of the file is a number, or all tokens of each sentence are the same.
    """
    columns = [[row.token for row in sentence] for sentence in sentences]
    if max(map(len, columns), default=0) > 1 and (
        all(_NUMBER.fullmatch(token) for column in columns for token in column)
        or all(len({*column}) == 1 for column in columns)
    ):
        raise BiomedError(
            f"{path}:{sentences[0][0].line}: the first column numbers the tokens or names the "
            "text; remove it: the first column is the token"
        )


def _name_tags(rows: list[Row], path: Path, tag_label: str | None) -> None:
    """Give tags without a label the one of the file."""
    bare = [row for row in rows if row.prefix != "O" and not row.label]
    if not bare:
        return
    if any(row.label for row in rows):
        raise BiomedError(
            f"{path}:{bare[0].line}: the tag {quote(bare[0].prefix)} has no label, and other tags "
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
    columns = line.split("\t") if "\t" in line else [cell for cell in line.split(" ") if cell]
    token, tag = columns[0].strip(" "), columns[-1].strip()
    if len(columns) < 2 or not token or not tag or "\r" in line:
        raise BiomedError(
            f"{path}:{number}: expected a token and a tag in two or more columns, found "
            f"{quote(line)}; separate them with a tab"
        )
    if tag == "O":
        return Row(number, token)
    prefix, dash, label = (part.strip() for part in tag.partition("-"))
    prefix = _CANONICAL.get(prefix, prefix)
    if bool(dash) != bool(label) or prefix not in {"B", "I", "E", "S"} or _SEVERAL.search(tag):
        raise BiomedError(
            f"{path}:{number}: {quote(tag)} is not a tag; write O, or B-, I- (E-, S-, L-, U-) and "
            f"a label"
        )
    return Row(number, token, prefix, label)


def _find_scheme(sentences: list[list[Row]]) -> str:
    """Find the scheme of a file by its tags.

    Only BIOES has E- and S-. In IOB1 a B- always follows another mention of its label; any other B-
    makes the file IOB2. Some files have B- for mentions of several tokens and I- for mentions of
    one token. Reading them as IOB1 gives the intended mentions, and valid IOB2 reads the same.
    """
    if any(row.prefix in "ES" for sentence in sentences for row in sentence):
        return "bioes"
    pairs = (pairwise([Row(0, ""), *sentence]) for sentence in sentences)
    changes = ((last, row) for last, row in chain.from_iterable(pairs) if row.label != last.label)
    first_tags = Counter(row.prefix for _, row in changes if row.label)
    if not first_tags["B"]:
        return "iob1" if first_tags["I"] else "iob2"
    return "iob1" if first_tags["I"] > max(MOST_SLIPS, 0.1 * first_tags.total()) else "iob2"


def _create_document(path: Path, id: str, sentences: list[list[Row]], scheme: str) -> Document:
    tokens: list[Offsets] = []
    mentions: list[Mention] = []
    sentence_offsets: list[Offsets] = []
    start = 0
    for sentence in sentences:
        first = len(tokens)
        for row in sentence:
            tokens.append((start, start + len(row.token)))
            start += len(row.token) + 1
        for begin, stop, label in _find_mentions(path, sentence, scheme):
            fragment = (tokens[first + begin][0], tokens[first + stop - 1][1])
            mentions.append(Mention(label, (fragment,)))
        sentence_offsets.append((tokens[first][0], tokens[-1][1]))
    text = " ".join(row.token for sentence in sentences for row in sentence)
    source = f"{path}:{sentences[0][0].line}"
    return Document(id, text, mentions, tokens=tokens, sentences=sentence_offsets, source=source)


def _find_mentions(path: Path, sentence: list[Row], scheme: str) -> Iterator[tuple[int, int, str]]:
    """Yield `(first token, token after the last, label)` of a sentence's mentions."""
    start, label = 0, ""
    end = Row(sentence[-1].line, "")
    for place, row in enumerate([*sentence, end]):
        goes_on = bool(label) and row.prefix in "IE" and row.label == label
        if label and not goes_on:
            if scheme == "bioes":
                problem = (
                    f"the sentence ends inside a mention of {quote(label)}"
                    if row is end
                    else f"the mention of {quote(label)} before this line has no end"
                )
                raise BiomedError(
                    f"{path}:{row.line}: {problem}; tag its last token E-{escape(label)}, or "
                    f"S-{escape(label)} where it is the only one"
                )
            yield start, place, label
            label = ""
        if row.prefix == "O":
            continue
        if not goes_on:
            if row.prefix not in _STARTS[scheme]:
                raise BiomedError(
                    f"{path}:{row.line}: {row.prefix}-{escape(row.label)} does not follow a token "
                    f"of the same mention; a mention of {quote(row.label)} starts with "
                    f"B-{escape(row.label)} in {scheme.upper()}, or with I- in IOB1 (--format iob1)"
                )
            start, label = place, row.label
        if scheme == "bioes" and row.prefix in "ES":
            yield start, place + 1, label
            label = ""


_OPTIONS = ("n_sents", "tag_label")
COLUMNS = Format(read_columns, options=_OPTIONS)
IOB1, IOB2, BIOES = (
    Format(partial(read_columns, scheme=scheme), options=_OPTIONS) for scheme in _STARTS
)
