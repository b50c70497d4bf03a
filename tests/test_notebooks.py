"""The notebooks run from the first cell to the last, and show what they are for."""

import ast
import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
SHOWN = {
    "assertion": "('alergias', 'hospital_course', True, False)",
    "collections": "'values': 'DISEASE'",
    "deidentification": "'[NOMBRE] ingresó el [DATE] con fiebre. Tel.: [PHONE].'",
    "entities": "('colorectal cancer', 'DISEASE', 0.",
}


def run(cells):
    """The values that the cells show, as Jupyter does: of the last line if it is an expression."""
    names, shown = {}, []
    for cell in cells:
        tree = ast.parse("".join(cell["source"]))
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            shown.append(repr(eval(compile(ast.Expression(last.value), "cell", "eval"), names)))
    return shown


def test_each_notebook_is_checked():
    assert sorted(SHOWN) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs_and_shows_what_it_finds(name, monkeypatch):
    notebook = json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)  # none is kept in the repository
    monkeypatch.chdir(FOLDER)
    shown = run(cells)
    assert SHOWN[name] in "".join(shown)
    assert any("<div" in value for value in shown) or name == "collections"
