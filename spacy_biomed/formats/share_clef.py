"""ShARe/CLEF eHealth 2013 task 1: reports, and disorders in files of fields between `||`.

A line of those is `report.txt||Disease_Disorder||C0027051||12||20||31||36`: the report, the type,
the concept, and the start and end of each fragment. The training part is published as Knowtator's
XML too, in which an annotation names a mention of a class, and that the slot with the concept.
"""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from . import documents
from .documents import Document, Mention
from .repairs import leaving_out, locate
from .xml_elements import Element, read_xml

PIPE_SUFFIX = ".pipe"
KNOWTATOR_SUFFIX = ".knowtator.xml"
NO_CONCEPT = "CUI-less"

_LINE = re.compile(r"([^|]+)\|\|([^|]+)\|\|([^|]+)((?:\|\|\d+\|\|\d+)+)")
_BEGINS_AS_LINE = re.compile(r"[^|\n]+\|\|[^|\n]+\|\|")


def read_share_clef(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read the reports below a folder with their disorders; both may lie in any sub-folders.

    The disorders of `NAME.txt` are in `NAME.pipe.txt`, in another `NAME.txt` that has only lines of
    fields, or in `NAME.txt.knowtator.xml`. The concept is the mention's attribute "concept". A
    report without a file of disorders has no disorders. Other texts among such files, such as the
    published list of their names, are not reports. The lines do not quote the text, so their
    offsets cannot be checked.

    Raises:
        BiomedError: if no report has a file of disorders, such a file has no report, a line is
            malformed or about another report, fragments overlap, or a mention lies beyond the text.
    """
    root = Path(path)
    texts, disorders = _sort_files(documents.list_files(root, (".txt", ".xml")), encoding)
    if not disorders:
        raise BiomedError(
            f"{root}: no file of disorders (NAME.pipe.txt) in this folder; give the folder that "
            f"holds both reports and disorders"
        )
    for name, file in disorders.items():
        if name not in texts:
            raise BiomedError(f"{file}: there is no report {name}.txt; unpack the reports as well")
    # A folder with files of disorders, but without a report that has some, has other texts.
    with_disorders = {texts[name].parent for name in disorders}
    among_disorders = {file.parent for file in disorders.values()} - with_disorders
    for name, file in sorted(texts.items()):
        with leaving_out():
            if file.parent not in among_disorders:
                text = documents.read_text(file, encoding)
                mentions = _read_mentions(disorders.get(name), name, text, encoding)
                yield Document(name, text, list(mentions), source=f"{file}:1")


def _sort_files(files: list[Path], encoding: str) -> tuple[dict[str, Path], dict[str, Path]]:
    """Map names of reports to their texts, and to their disorders."""
    texts: dict[str, Path] = {}
    disorders: dict[str, Path] = {}
    count = Counter(file.name for file in files)
    for file in files:
        is_xml = file.name.endswith(KNOWTATOR_SUFFIX)
        if file.suffix.lower() == ".xml" and not is_xml:
            continue
        is_pipe = file.stem.endswith(PIPE_SUFFIX)
        if count[file.name] > 1 and not is_pipe:
            content = documents.read_text(file, encoding, may_be_empty=True).lstrip()
            is_pipe = not content or _BEGINS_AS_LINE.match(content) is not None
        name = file.name.removesuffix(KNOWTATOR_SUFFIX).removesuffix(".txt")
        name = name.removesuffix(PIPE_SUFFIX)
        kind = disorders if is_pipe or is_xml else texts
        if name in kind:
            raise BiomedError(f"{file}: there is {kind[name]} of this name already; keep one")
        kind[name] = file
    return texts, disorders


def _read_mentions(file: Path | None, name: str, text: str, encoding: str) -> Iterator[Mention]:
    """Read the disorders of a report, if it has a file of them."""
    if file is None:
        return
    if not file.name.endswith(KNOWTATOR_SUFFIX):
        for number, line in documents.number_lines(file, encoding, may_be_empty=True):
            with leaving_out():
                yield _parse_line(line, f"{file}:{number}", name, text)
        return
    root = read_xml(file, encoding, "Knowtator's XML")
    classes = {element.get("id"): element for element in root.find("classMention")}
    values = {
        element.get("id"): value.attributes.get("value", "")
        for element in root.find("stringSlotMention")
        for value in element.find("stringSlotMentionValue")
    }
    for annotation in root.find("annotation"):
        with leaving_out():
            yield _create_mention(annotation, classes, values, text)


def _parse_line(line: str, where: str, name: str, text: str) -> Mention:
    match = _LINE.fullmatch(line.strip())
    if match is None:
        raise BiomedError(
            f"{where}: malformed line {quote(line)}; write it as "
            f"report||type||concept||start||end, a start and an end for each fragment"
        )
    report, label, concept, offsets = match.groups()
    if report.removesuffix(".txt") != name:
        raise BiomedError(f"{where}: a line about {quote(report)} in the file of {name}; move it")
    numbers = [documents.parse_offset(number) for number in offsets.split("||")[1:]]
    fragments = tuple(sorted(zip(numbers[::2], numbers[1::2], strict=True)))
    mention = Mention(label, fragments, "", {"concept": concept})
    return documents.join_fragments(text, locate(text, mention, None, where), where)


def _create_mention(
    annotation: Element, classes: dict[str, Element], values: dict[str, str], text: str
) -> Mention:
    where = annotation.where
    id = "".join(element.get("id") for element in annotation.find("mention"))
    labels = classes[id].find("mentionClass") if id in classes else []
    spans = annotation.find("span")
    if not labels or not spans:
        raise BiomedError(
            f"{where}: expected <span> and <mention> of a <classMention> with a <mentionClass> in "
            f"this annotation; is it Knowtator's XML?"
        )
    slots = (values.get(slot.get("id")) for slot in classes[id].find("hasSlotMention"))
    concept = next(filter(None, slots), NO_CONCEPT)
    parts = sorted((one.get_whole_number("start"), one.get_whole_number("end")) for one in spans)
    mention = Mention(labels[0].get("id"), tuple(parts), "", {"concept": concept})
    # How the quoted text of several parts is joined depends on the program.
    covered = annotation.text_of("spannedText") if len(parts) == 1 else None
    return documents.join_fragments(text, locate(text, mention, covered, where), where)
