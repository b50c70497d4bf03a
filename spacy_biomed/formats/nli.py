"""Natural language inference as JSON lines (MedNLI, Romanov and Shivade 2018; SNLI, MultiNLI)."""

from collections.abc import Iterator
from pathlib import Path

from ..errors import BiomedError, quote
from .documents import Document, create_pair
from .json_fields import get_field, get_id, read_json_lines
from .repairs import leaving_out

LABELS = ("contradiction", "entailment", "neutral")

# SNLI's label of pairs on which its annotators did not agree.
NO_LABEL = "-"

_ADVICE = 'write it as {"sentence1": "...", "sentence2": "...", "gold_label": "neutral"}'


def read_nli(path: Path | str, encoding: str = "utf-8") -> Iterator[Document]:
    """Read `.jsonl` files: one, or those in and below a folder.

    Each line is an object with `sentence1` (premise), `sentence2` (hypothesis), `gold_label` and,
    optionally, `pairID`. `cats` has all three labels, 1.0 for the pair's and 0.0 for the others. A
    pair with the label "-" is left out.

    Raises:
        BiomedError: if a line is not such an object, a label is unknown, or a sentence is empty.
    """
    for row, where, id in read_json_lines(path, (".jsonl",), encoding):
        with leaving_out():
            keys = ("sentence1", "sentence2", "gold_label")
            premise, hypothesis, label = (get_field(row, key, str, where, _ADVICE) for key in keys)
            if label not in (*LABELS, NO_LABEL):
                raise BiomedError(
                    f"{where}: unknown label {quote(label)}; write one of {', '.join(LABELS)}"
                )
            if label != NO_LABEL:
                cats = {one: float(one == label) for one in LABELS}
                id = get_id(row, "pairID", id)
                yield create_pair(id, premise, hypothesis, cats, where)
