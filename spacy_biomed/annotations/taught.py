"""A teacher's probabilities on a document, for a student to learn from.

They stay on the reference document, in corpora too: `doc.user_data` is written with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from spacy.tokens import Doc
from thinc.types import Floats2d

from ..errors import BiomedError

TAUGHT_KEY = "spacy_biomed_taught"

# The smallest probability that teachers are compared by, about what half precision keeps.
_LEAST = 1e-6


@runtime_checkable
class Teacher(Protocol):
    """A component that can tell how probable it finds each of its classes."""

    name: str

    def classes(self) -> list[str]:
        """What the columns of `probabilities` stand for."""

    def probabilities(self, docs: Iterable[Doc]) -> list[Floats2d]:
        """(rows, classes) of each document; a row for each token, or one for the document."""


def set_taught(doc: Doc, name: str, classes: list[str], probabilities: Floats2d) -> None:
    """Leave a teacher's probabilities on a document.

    Args:
        name: the component that gave them, and that learns from them in the student.
        classes: what the columns stand for.
        probabilities: (rows, classes); a row for each token, or one for the document.
    """
    taught = doc.user_data.setdefault(TAUGHT_KEY, {})
    # Half precision is a thousandth of a probability, and half the size of a corpus.
    taught[name] = {"classes": classes, "probabilities": probabilities.astype("float16")}


def taught_classes(doc: Doc, name: str) -> list[str]:
    """The classes of which a teacher left the probabilities; none if it has not seen this."""
    taught = doc.user_data.get(TAUGHT_KEY, {}).get(name)
    return list(taught["classes"]) if taught else []


def get_taught(
    doc: Doc, name: str, classes: list[str], *, may_lack: bool = False
) -> Floats2d | None:
    """A teacher's probabilities, (rows, classes), in the student's order; None if there are none.

    Args:
        may_lack: whether the teacher may not know all of the classes; of others the column is
            zeros.

    Raises:
        BiomedError: if the teacher's classes are not the student's.
    """
    known = taught_classes(doc, name)
    if not known:
        return None
    if not set(known) <= set(classes) or (len(known) < len(classes) and not may_lack):
        raise explain_classes(name, known, classes)
    probabilities = np.asarray(doc.user_data[TAUGHT_KEY][name]["probabilities"], dtype="float32")
    if len(known) == len(classes):
        return probabilities[:, [known.index(one) for one in classes]]
    taught = np.zeros((len(probabilities), len(classes)), dtype="float32")
    taught[:, [classes.index(one) for one in known]] = probabilities
    return taught


def explain_classes(name: str, taught: list[str], classes: list[str]) -> BiomedError:
    """The error that a component, `name`, cannot learn from a teacher of such classes."""
    return BiomedError(
        f"the teacher of '{name}' has the classes {', '.join(taught)}, and the student "
        f"{', '.join(classes)}: give both the same labels and, for entities, the same scheme"
    )


def merge_tags(opinions: Sequence[tuple[list[str], Floats2d]]) -> tuple[list[str], Floats2d]:
    """What teachers of different labels find probable of the same tokens, put together.

    How many times as probable as "O" a tag is, is the geometric mean of what the teachers that know
    the tag say. Where each has labels of its own, that is the product of what they say, with "O"
    for "none of my labels".

    Args:
        opinions: of each teacher the tags, the first of them "O", and (tokens, tags).

    Returns:
        the tags of all, and (tokens, tags).
    """
    classes = list(dict.fromkeys(tag for tags, _ in opinions for tag in tags))
    total = np.zeros((len(opinions[0][1]), len(classes)))
    known = np.zeros(len(classes))
    for tags, probabilities in opinions:
        columns = [classes.index(tag) for tag in tags]
        log_probs = np.log(np.maximum(probabilities, _LEAST))
        total[:, columns] += log_probs - log_probs[:, [tags.index("O")]]
        known[columns] += 1
    odds = np.exp(total / known)
    return classes, (odds / odds.sum(axis=1, keepdims=True)).astype("float32")
