"""The notebooks run from the first cell to the last, and show what they are for."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
NotebookClient = pytest.importorskip("nbclient", reason="nbclient is not installed").NotebookClient
pytest.importorskip("ipykernel", reason="ipykernel is not installed")

FOLDER = Path(__file__).parents[1] / "notebooks"
SHOWN = {
    "assertion": "('alergias', 'hospital_course', True, False)",
    "collections": "'values': 'DISEASE'",
    "deidentification": "'[NOMBRE] ingresó el [DATE] con fiebre. Tel.: [PHONE].'",
    "entities": "('colorectal cancer', 'DISEASE', 0.",
}


def test_each_notebook_is_checked():
    assert sorted(SHOWN) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("name", SHOWN)
def test_a_notebook_runs_and_shows_what_it_finds(name):
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells)  # none is kept in the repository
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": FOLDER}}).execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    texts = [out["data"].get("text/plain", "") for out in outputs if "data" in out]
    assert SHOWN[name] in "".join(texts)
    assert any("text/html" in out.get("data", {}) for out in outputs) or name == "collections"
