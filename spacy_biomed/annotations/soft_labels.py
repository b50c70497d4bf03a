"""A teacher's probabilities on a document, in its `user_data`, for a student to learn from."""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from spacy.tokens import Doc

from ..arrays import Floats2d
from ..errors import BiomedError

SOFT_LABELS_KEY = "spacy_biomed_taught"

# Probabilities are stored as multiples of 1/512, so with an error of at most a thousandth. A saved
# corpus is then a quarter of the size that it has with all digits of half precision.
_STEPS = 512
# Minimum probability when teachers are combined, about the smallest that half precision can store.
_LEAST = 1e-6


@runtime_checkable
class Teacher(Protocol):
    """A component that can predict the probability of each of its classes."""

    name: str

    def classes(self) -> list[str]:
        """The classes, in the order of the columns of `probabilities`."""

    def probabilities(self, docs: Iterable[Doc]) -> list[Floats2d]:
        """(rows, classes) for each document, with one row per token, or one for the document."""


def set_soft_labels(doc: Doc, name: str, classes: list[str], probabilities: Floats2d) -> None:
    """Store a teacher's probabilities on a document.

    Args:
        name: name of the component that predicted them, and that learns from them in the student.
        classes: the classes of the columns.
        probabilities: (rows, classes), with one row per token, or one for the document.
    """
    taught = doc.user_data.setdefault(SOFT_LABELS_KEY, {})
    rounded = np.round(probabilities * _STEPS) / _STEPS
    taught[name] = {"classes": classes, "probabilities": rounded.astype("float16")}


def soft_label_classes(doc: Doc, name: str) -> list[str]:
    """The classes with probabilities of a teacher; empty if the document has none."""
    taught = doc.user_data.get(SOFT_LABELS_KEY, {}).get(name)
    return list(taught["classes"]) if taught else []


def get_soft_labels(
    doc: Doc, name: str, classes: list[str], *, may_lack: bool = False
) -> Floats2d | None:
    """A teacher's probabilities, (rows, classes), in the student's order; None if there are none.

    Args:
        may_lack: whether the teacher may know only some of the classes; the columns of the others
            are zeros.

    Raises:
        BiomedError: if the teacher's classes are not the student's.
    """
    known = soft_label_classes(doc, name)
    if not known:
        return None
    if not set(known) <= set(classes) or (len(known) < len(classes) and not may_lack):
        raise explain_classes(name, known, classes)
    stored = doc.user_data[SOFT_LABELS_KEY][name]["probabilities"]
    probabilities = np.asarray(stored, dtype="float32")
    if len(known) == len(classes):
        return probabilities[:, [known.index(label) for label in classes]]
    taught = np.zeros((len(probabilities), len(classes)), dtype="float32")
    taught[:, [classes.index(label) for label in known]] = probabilities
    return taught


def explain_classes(name: str, taught: list[str], classes: list[str]) -> BiomedError:
    """The error for a component `name` whose teacher has other classes."""
    return BiomedError(
        f"the teacher of '{name}' has the classes {', '.join(taught)}, and the student "
        f"{', '.join(classes)}: give both the same labels and, for entities, the same scheme"
    )


def merge_tags(opinions: Sequence[tuple[list[str], Floats2d]]) -> tuple[list[str], Floats2d]:
    """Combine the probabilities of teachers with different labels for the same tokens.

    The odds of a tag against "O" are the geometric mean of the odds of the teachers that know the
    tag. An opinion is a teacher's tags, including "O", and its probabilities, (tokens, tags); so is
    the result.
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
