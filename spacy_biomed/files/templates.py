"""Templates of cards, pages and pictures, which lie beside the modules that fill them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


def read_template(path: Path, **filters: Callable[[Any], object]) -> Template:
    """A template that fails on names without a value, with filters; of HTML, one that escapes."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        undefined=StrictUndefined,
        autoescape=path.name.endswith(".html.jinja"),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(filters)
    return environment.get_template(path.name)
