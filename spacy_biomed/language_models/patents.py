"""The texts of patents, as Google Patents Public Data has them: a JSON object for each.

Only medical patents are read, by the codes that Carrino et al. 2022 accept ("Pre-trained Biomedical
Language Models for Clinical NLP in Spanish", section 2).
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import BiomedError

# Lists of texts in several languages.
_TEXTS = ("title_localized", "abstract_localized", "description_localized", "claims_localized")
# Lists of codes of the international and the cooperative classification.
_CODES = ("ipc", "cpc")
MEDICAL_CODES = ("A61B", "A61C", "A61F", "A61H", "A61K", "A61L", "A61M", "A61P")


def is_patent(row: dict[str, object]) -> bool:
    return any(name in row for name in _TEXTS)


def read_patent(row: dict[str, object], place: str) -> Iterator[str]:
    """Yield the text of a patent in each of its languages; nothing if it is not of medicine."""
    codes = [code for name in _CODES for code in _read_list(row, name, "code", place)]
    if not any(code.startswith(MEDICAL_CODES) for code in codes):
        return
    by_language: dict[str, list[str]] = {}
    for name in _TEXTS:
        languages = _read_list(row, name, "language", place)
        for language, text in zip(languages, _read_list(row, name, "text", place), strict=True):
            by_language.setdefault(language, []).append(text)
    yield from map("\n\n".join, by_language.values())


def _read_list(row: dict[str, object], name: str, key: str, place: str) -> list[str]:
    """A field of each of a list's objects; null stands for an empty list."""
    entries = row.get(name) or []
    objects = [one for one in entries if isinstance(one, dict)] if isinstance(entries, list) else []
    texts = [one[key] for one in objects if isinstance(one.get(key), str)]
    if not isinstance(entries, list) or len(texts) != len(entries):
        raise BiomedError(
            f"{place}: {name} of a patent is not a list of objects with {key}, a text; mend it, "
            "or name the field with the text"
        )
    return texts
