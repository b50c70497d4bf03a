"""A format of another package: one module and one entry point."""

import pytest
import spacy

from spacy_biomed import BiomedError
from spacy_biomed.bulk import annotate_collection
from spacy_biomed.corpora import convert_corpus
from spacy_biomed.formats import list_formats, list_outputs, read_documents

READER = """
from spacy_biomed.formats import Document, Format, Mention


def read_wards(path, *, encoding):
    for file in [path] if path.is_file() else sorted(path.glob("*.wards")):
        for number, line in enumerate(file.read_text(encoding).splitlines()):
            ward, text = line.split("|")
            mentions = [Mention("WARD", ((0, len(ward)),))]
            yield Document(id=str(number), text=text, mentions=mentions, source=f"{file}:{number}")
"""

WRITER = """

def write_wards(shard):
    rows = [
        f"{span['text']}|{document.doc.text}"
        for document in shard.documents
        for span in document.found["entities"]
    ]
    return {f"{shard.name}.wards": "".join(f"{row}\\n" for row in rows).encode()}


WARDS = Format(read_wards, write_wards)
"""

ROWS = "ICU|ICU since Monday.\n" * 10


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Put a package with a module and an entry point on the path."""

    def run(module: str, entry: str) -> None:
        package = tmp_path / "package"
        (package / "wards-1.0.dist-info").mkdir(parents=True)
        (package / "wards.py").write_text(module)
        (package / "wards-1.0.dist-info" / "METADATA").write_text("Name: wards\nVersion: 1.0\n")
        points = f"[spacy_biomed_formats]\nwards = wards:{entry}\n"
        (package / "wards-1.0.dist-info" / "entry_points.txt").write_text(points)
        monkeypatch.syspath_prepend(package)
        monkeypatch.delitem(__import__("sys").modules, "wards", raising=False)

    return run


def test_a_module_and_an_entry_point_are_read_and_written(install, tmp_path):
    install(READER + WRITER, "WARDS")
    assert list_formats()[-1] == list_outputs()[-1] == "wards"
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "WARD", "pattern": "ICU"}])
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "notes.txt").write_text("ICU since Monday.\nNo ward.\nOn ICU.\n")
    annotate_collection(str(tmp_path / "pipeline"), tmp_path / "notes.txt", tmp_path / "o.wards")
    (part,) = (tmp_path / "o.wards").glob("*.wards")
    assert part.read_text() == "ICU|ICU since Monday.\nICU|On ICU.\n"

    (tmp_path / "rows.wards").write_text(ROWS)
    report = convert_corpus("mine", tmp_path / "rows.wards", tmp_path / "out", format="wards")
    assert report.labels == ["WARD"]
    assert sum(one.mentions["WARD"] for one in report.parts.values()) == 10


def test_an_entry_point_may_be_a_function_that_reads(install, tmp_path):
    install(READER, "read_wards")
    (tmp_path / "rows.wards").write_text(ROWS)
    assert len(list(read_documents("wards", [tmp_path / "rows.wards"]))) == 10
    assert "wards" not in list_outputs()
    with pytest.raises(BiomedError, match="unknown format 'ward'; .*did you mean wards"):
        list(read_documents("ward", []))
    with pytest.raises(BiomedError, match="format wards has no tags: leave --tag-label out"):
        list(read_documents("wards", [], tag_label="X"))
