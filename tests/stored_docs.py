"""Docs stored like in conversion."""

import spacy
from spacy.tokens import Doc, DocBin

from spacy_biomed.corpora.convert import ATTRIBUTES


def stored(doc: Doc) -> Doc:
    """Write a Doc as conversion does, and read it again."""
    doc_bin = DocBin(attrs=ATTRIBUTES, store_user_data=True)
    doc_bin.add(doc)
    read = DocBin().from_bytes(doc_bin.to_bytes())
    return next(read.get_docs(spacy.blank("en").vocab))
