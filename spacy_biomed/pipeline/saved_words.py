"""Pipelines on disk without the words of the texts that they have read."""

import copy
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import srsly
from spacy.language import Language

from ..errors import BiomedError
from ..files.outputs import replace_text
from .checksums import CHECKSUMS, forget_checksums, write_checksums
from .pipeline_loading import find_trainable, load_pipeline

# Its components, when they are loaded, add the strings that they need; `list_needed_strings` has
# the exceptions.
_KNOWN_PACKAGES = ("spacy", "spacy_transformers", "spacy_biomed")
_STRINGS = "strings.json"


def write_pipeline(nlp: Language, path: Path, exclude: Iterable[str] = ()) -> None:
    """Write a pipeline to a directory without the words of the texts; see `remove_words`."""
    unwritten = [] if list_unknown(nlp) else ["strings"]
    nlp.to_disk(path, exclude=[*exclude, *unwritten])
    remove_words(nlp, path)


def remove_words(nlp: Language, path: Path) -> None:
    """Leave only the strings that a pipeline needs in its directory.

    Where a component of another package may need others, all stay, with a warning.
    """
    unknown = list_unknown(nlp)
    if unknown:
        warnings.warn(
            f"{', '.join(unknown)} may need words of the texts that the pipeline has read, so they "
            "are saved with it; `python -m spacy biomed strip --force` removes them",
            stacklevel=2,
        )
        return
    strings = srsly.json_dumps(list_needed_strings(nlp))
    for file in find_strings(path):
        replace_text(file, strings)


def without_words_v1() -> Callable[[Language], Language]:
    """Create a callback for `[training] before_to_disk`: see `write_pipeline`."""

    def without_words(nlp: Language) -> Language:
        written = copy.copy(nlp)
        setattr(written, "to_disk", lambda path, exclude=(): write_pipeline(nlp, path, exclude))  # noqa: B010
        return written

    return without_words


def strip_directory(path: Path, *, force: bool = False) -> tuple[int, int]:
    """Remove the words of texts from a pipeline's directory and its folder `trainable`, in place.

    Without `force`, nothing is changed where a component of another package may need the words.
    Return the number of the pipeline's strings before and after.
    """
    if not path.is_dir():
        raise BiomedError(f"{path}: no such directory; give one with a pipeline")
    nlp = load_pipeline(str(path))
    unknown = list_unknown(nlp)
    if unknown and not force:
        raise BiomedError(
            f"{path}: {', '.join(unknown)} may need words of the texts that the pipeline has read; "
            "give --force, and compare its results before and after"
        )
    strings = list_needed_strings(nlp)
    before = 0
    if (trainable := find_trainable(str(path))) != str(path):
        strip_directory(Path(trainable), force=force)
    has_checksums = (path / CHECKSUMS).is_file()
    forget_checksums(path)
    for file in find_strings(path):
        before += len(srsly.read_json(file)) if file.is_file() else 0
        replace_text(file, srsly.json_dumps(strings))
    if has_checksums:
        write_checksums(path)
    return before, len(strings)


def list_unknown(nlp: Language) -> list[str]:
    """Components of other packages that have files, in which hashes of words may be."""
    return [
        name
        for name, pipe in nlp.components
        if getattr(pipe, "reads_words", not _is_known(pipe)) and hasattr(pipe, "to_disk")
    ]


def list_needed_strings(nlp: Language) -> list[str]:
    """The strings that components look up by their hashes, and that their files do not have."""
    known, strings = nlp.vocab.strings, set[str]()
    for _, pipe in nlp.components:
        strings.update(label for label in getattr(pipe, "labels", ()) if isinstance(label, str))
        trees = getattr(pipe, "trees", ())  # of a lemmatizer
        for tree in map(trees.__getitem__, range(len(trees))):
            strings.update(known[tree[key]] for key in ("orig", "subst") if key in tree)
        for method in ("get_entity_strings", "get_alias_strings"):  # of a knowledge base
            strings.update(getattr(getattr(pipe, "kb", None), method, list)())
    keys = set(getattr(nlp.vocab.vectors, "key2row", ()))
    strings.update(known[key] for key in keys if key in known)
    return sorted(filter(None, strings))


def find_strings(path: Path) -> list[Path]:
    """The files with the vocabulary's strings; a knowledge base has them a second time."""
    return sorted({path / "vocab" / _STRINGS, *path.glob(f"*/kb/{_STRINGS}")})


def _is_known(pipe: object) -> bool:
    module = getattr(pipe, "__module__", None) or type(pipe).__module__
    return module.partition(".")[0] in _KNOWN_PACKAGES
