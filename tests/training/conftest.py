import pytest

from spacy_biomed.corpora.convert import convert_corpus

SENTENCES = [
    "Lung\tB-D\ncancer\tI-D\n.\tO\n\n",
    "Aspirin\tB-C\nreduced\tO\nthe\tO\nrisk\tO\nof\tO\nstroke\tB-D\n.\tO\n\n",
    "No\tO\nsymptoms\tO\n.\tO\n\n",
    "Metformin\tB-C\nwas\tO\ngiven\tO\nto\tO\npatients\tO\nwith\tO\ndiabetes\tB-D\n.\tO\n\n",
]


@pytest.fixture(scope="session")
def converted(tmp_path_factory):
    """A converted corpus of diseases (D) and chemicals (C)."""
    folder = tmp_path_factory.mktemp("converted")
    source = folder / "source"
    source.mkdir()
    for part, times in (("train", 6), ("dev", 1), ("test", 1)):
        (source / f"{part}.tsv").write_text("".join(SENTENCES * times))
    convert_corpus("own", source, folder / "own", format="columns", language="es")
    return folder / "own"
