"""The notebook of collections, which no page of tasks has, runs from its first cell to its last."""

import ast
import json
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "notebooks"


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


def test_the_notebook_of_collections_shows_what_it_finds(monkeypatch):
    notebook = json.loads((FOLDER / "collections.ipynb").read_text(encoding="utf8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)  # none is kept in the repository
    monkeypatch.chdir(FOLDER)
    assert "'values': 'DISEASE'" in "".join(run(cells))
