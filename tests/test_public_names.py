"""The names that each room of the package exports, and what importing a room imports."""

import ast
import inspect
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

import pytest
from without_training import run_code

from spacy_biomed.formats.registry import GROUP, get_format

ROOMS = [
    "spacy_biomed",
    "spacy_biomed.annotations",
    "spacy_biomed.bulk",
    "spacy_biomed.corpora",
    "spacy_biomed.formats",
    "spacy_biomed.deidentification",
    "spacy_biomed.encoders",
    "spacy_biomed.evaluation",
    "spacy_biomed.files",
    "spacy_biomed.formats",
    "spacy_biomed.language_models",
    "spacy_biomed.models",
    "spacy_biomed.notes",
    "spacy_biomed.packaging",
    "spacy_biomed.pipeline",
    "spacy_biomed.serving",
    "spacy_biomed.studies",
    "spacy_biomed.training",
]
NAMES = [(room, name) for room in ROOMS for name in import_module(room).__all__]


def names_for_type_checkers(room: str) -> list[str]:
    source = Path(find_spec(room).origin).with_suffix(".pyi").read_text(encoding="utf8")
    (names,) = (node for node in ast.parse(source).body if isinstance(node, ast.Assign))
    return ast.literal_eval(names.value)


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_importing_a_room_imports_no_other_module_of_the_package_and_nothing_heavy(room):
    code = (
        f"import sys, {room}\n"
        "heavy = {'numpy', 'onnxruntime', 'spacy', 'spacy_transformers', 'torch', 'transformers'}\n"
        "print(*sorted(heavy & sys.modules.keys()))\n"
        "print(*sorted(name for name in sys.modules if name.startswith('spacy_biomed')))"
    )
    heavy, imported = run_code(code).splitlines()
    parts = room.split(".")
    packages = [".".join(parts[: n + 1]) for n in range(len(parts))]
    assert heavy == ""
    assert imported.split() == sorted(packages)


@pytest.mark.parametrize("room", ROOMS)
def test_the_stub_exports_the_names_that_it_imports(room):
    exported = import_module(room).__all__
    assert sorted(names_for_type_checkers(room)) == sorted(exported)
    assert set(exported) <= set(dir(import_module(room)))


@pytest.mark.slow
@pytest.mark.parametrize(("room", "name"), NAMES)
def test_an_exported_name_is_defined_in_its_room_and_has_a_docstring(room, name):
    exported = getattr(import_module(room), name)
    assert exported.__name__ == name
    assert exported.__module__.startswith(f"{room}.")
    docstring = inspect.getdoc(exported) or ""
    assert docstring
    assert not docstring.startswith(f"{name}(")  # as dataclasses and named tuples write it


def test_what_reads_and_writes_a_format_is_exported():
    formats = map(get_format, {point.name for point in entry_points(group=GROUP)})
    functions = [one for format in formats for one in (format.read, format.write) if one]
    names = {getattr(one, "func", one).__name__ for one in functions}
    assert names <= set(import_module("spacy_biomed.formats").__all__)


def test_a_name_that_a_room_does_not_have_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"spacy_biomed.corpora.* nothing"):
        import_module("spacy_biomed.corpora").nothing  # noqa: B018
