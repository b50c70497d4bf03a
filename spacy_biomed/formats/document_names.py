"""Names of files that are named after a document."""

from __future__ import annotations

from urllib.parse import quote

# Characters of a file's name, without its ending.
_LONGEST_NAME = 150


class DocumentNames:
    """Gives each document of a folder a file name that is safe, visible and different."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def find(self, document: int, id: str) -> str:
        """A name, which no document before has, also in another case.

        Args:
            document: number of the document in the input, for a name that is taken or too long.
            id: of the document.
        """
        name = quote(id, safe=" ,;=@()[]+")
        name = f"%2E{name[1:]}" if name.startswith(".") else name
        if len(name) > _LONGEST_NAME or name.lower() in self._names:
            name = f"{name[:_LONGEST_NAME]}-{document}"
        self._names.add(name.lower())
        return name
