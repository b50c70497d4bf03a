"""Recognising question entailment (Ben Abacha and Demner-Fushman 2016; MEDIQA 2019) as XML."""

from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, escape
from .documents import Document, create_pair, list_files
from .repairs import leaving_out
from .xml_elements import read_xml

LABELS = ("true", "false")


def read_medrqe(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read `.xml` files: one, or those in and below a folder.

    Each `<pair>` has the question that was asked (`<chq>`), a question with a known answer
    (`<faq>`) and, as the attribute "value", whether the first entails the second: "true" or
    "false". `cats` has both labels, 1.0 for the pair's and 0.0 for the other; it is None in the
    documents of a file without values. A question may be empty, as in one published pair.

    Raises:
        BiomedError: if a file is not such XML, a pair lacks a part, a value is unknown, or a pair
            has no value although others have.
    """
    for file in list_files(Path(path), (".xml",)):
        root = read_xml(file, encoding, "a file of question pairs")
        pairs = root.find("pair")
        if not pairs:
            raise BiomedError(
                f"{root.where}: no <pair> in <{escape(root.name)}>; is it a file of question pairs?"
            )
        has_values = any("value" in pair.attributes for pair in pairs)
        for pair in pairs:
            with leaving_out():
                asked, answered = pair.text_of("chq"), pair.text_of("faq")
                if asked is None or answered is None:
                    raise BiomedError(
                        f"{pair.where}: expected <chq> and <faq> in <pair>; add what is missing"
                    )
                cats = None
                if has_values:
                    value = pair.get_truth("value")
                    cats = {label: float(label == value) for label in LABELS}
                id = pair.get("pid")
                yield create_pair(id, asked, answered, cats, pair.where, may_be_empty=True)
