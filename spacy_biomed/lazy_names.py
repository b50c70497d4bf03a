"""Public names of a package whose modules are imported at first use (PEP 562)."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from sys import modules
from typing import Any


def attach(
    package: str, table: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Create `__getattr__` and `__dir__` of a package.

    Args:
        package: name of the package.
        table: module to its public names.
    """
    places = {name: f"{package}.{module}" for module, names in table.items() for name in names}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(places[name]), name)

    def list_names() -> list[str]:
        return sorted({*vars(modules[package]), *places})

    return find, list_names
