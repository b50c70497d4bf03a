import pickle
import shutil

import numpy as np
import pytest

from spacy_biomed import BiomedError
from spacy_biomed.terminologies import Terminology, build_terminology
from spacy_biomed.terminologies.name_forms import abbreviate, find_grams, loosen, normalize

CSV = """id,name,synonyms,type,parent
2,Bacteria,,domain,
561,Escherichia,,genus,2
562,Escherichia coli,Bacterium coli|colon bacillus,species,561
9,Náusea,náuseas,,
10,Tumores del pulmón,,,
11,IL-2 β-chain,,,
"""


@pytest.fixture(scope="module")
def terminology(tmp_path_factory):
    folder = tmp_path_factory.mktemp("terms")
    (folder / "terms.csv").write_text(CSV, encoding="utf8")
    build_terminology(
        folder / "terms.csv", folder / "index", format="csv", version="7", licence="CC0"
    )
    return Terminology(folder / "index")


def find(terminology, text):
    key = normalize(text)
    matches = terminology.find(key) or terminology.find(loosen(key))
    return [(terminology.describe(one.concept).id, one.form) for one in matches]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ESCHERICHIA COLI", ("562", "normal")),
        ("Bacterium-coli", ("562", "normal")),
        ("E. coli", ("562", "abbreviated")),
        ("nausea", ("9", "normal")),
        ("tumor de pulmones", ("10", "loose")),
        ("pulmón: tumor", ("10", "loose")),
        ("IL2 beta", None),
        ("IL 2 beta chain", ("11", "normal")),
        ("Salmonella", None),
    ],
)
def test_a_name_is_found_whatever_its_form(terminology, text, expected):
    assert find(terminology, text)[:1] == ([expected] if expected else [])


@pytest.mark.parametrize("text", ["eschericha coli", "escherichia colli", "eschrichia coli"])
def test_a_misspelt_name_is_the_most_similar(terminology, text):
    best, *_ = terminology.search(text)
    assert terminology.describe(best.concept).id == "562"
    assert best.form == "similar" and 0.5 < best.similarity < 1.0


def test_the_similarity_of_the_same_name_is_one_and_other_names_are_not_found(terminology):
    assert terminology.search("colon bacillus")[0].similarity == pytest.approx(1.0)
    assert terminology.search("qqq zzz") == []
    assert terminology.search("") == []


def test_a_concept_has_id_type_parent_and_usualness(terminology):
    bacteria, genus, species = (terminology.get_place(id) for id in ("2", "561", "562"))
    described = terminology.describe(genus)
    assert (described.id, described.type, described.parent) == ("561", "genus", bacteria)
    assert terminology.describe(bacteria).usualness == pytest.approx(np.log(3), abs=1e-3)
    assert terminology.get_name(species) == "Escherichia coli"
    assert terminology.get_place("56") is terminology.get_place("") is None


def test_the_meta_says_what_it_is(terminology):
    meta = terminology.meta
    assert (meta["version"], meta["licence"], meta["format"]) == ("7", "CC0", "csv")
    assert (meta["concepts"], meta["names"], len(terminology)) == (6, 9, 6)


def test_the_arrays_are_mapped_and_a_copy_for_another_process_is_a_path(terminology):
    assert all(isinstance(one.base, np.memmap) for one in terminology._arrays.values())
    data = pickle.dumps(terminology)
    assert len(data) < 1000
    assert find(pickle.loads(data), "E. coli") == [("562", "abbreviated")]


@pytest.mark.parametrize(("name", "content"), [("ids.npy", ""), ("terminology.json", "[]")])
def test_a_damaged_terminology_is_one_line(tmp_path, terminology, name, content):
    folder = shutil.copytree(terminology.path, tmp_path / "index")
    (folder / name).write_text(content)
    with pytest.raises(BiomedError, match="not a terminology"):
        Terminology(folder)


def test_a_folder_that_is_no_terminology_is_one_line(tmp_path, terminology):
    with pytest.raises(BiomedError, match="not a terminology") as error:
        Terminology(tmp_path)
    assert "\n" not in str(error.value)
    assert "terminology build" in str(error.value)


def test_nothing_is_written_from_a_file_without_concepts(tmp_path):
    (tmp_path / "terms.csv").write_text("id,name\n", encoding="utf8")
    with pytest.raises(BiomedError, match="no concepts"):
        build_terminology(tmp_path / "terms.csv", tmp_path / "index", format="csv")
    assert not (tmp_path / "index").exists()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("lung cancers", "cancer of the lung"),
        ("metastases", "metastasis"),
        ("biopsies", "biopsy"),
        ("infecciones", "infección"),
        ("cicatrices", "cicatriz"),
        ("insuficiencias cardíacas", "Insuficiencia cardiaca"),
        ("pulmón, cáncer de", "cáncer del pulmón"),
        ("thoraces", "thorax"),
        ("Synechocystis sp. strain PCC6803", "Synechocystis sp. PCC 6803"),
        ("IL2", "IL-2"),
    ],
)
def test_the_loose_forms_of_plural_and_singular_are_the_same(one, other):
    assert loosen(normalize(one)) == loosen(normalize(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("IL-2", "IL-12"),
        ("fibula", "fibra"),
        ("1 2", "12"),
        ("Hemophilia A", "hemophilia"),
        ("Influenza A virus", "influenza viruses"),
    ],
)
def test_the_loose_forms_of_other_names_differ(one, other):
    assert loosen(normalize(one)) != loosen(normalize(other))


def test_only_binomials_are_abbreviated():
    assert abbreviate("escherichia coli") == "e coli"
    assert abbreviate("escherichia") is abbreviate("hiv 1") is None


def test_trigrams_are_of_single_keys():
    rows, grams = find_grams(["ab", "", "abab"])
    assert rows.tolist() == [0, 0, 2, 2, 2, 2]
    assert set(grams[:2]) < set(grams[2:])


def test_a_terminology_may_have_many_types(tmp_path):
    rows = "".join(f"{number},x,type {number}\n" for number in range(66_000))
    (tmp_path / "terms.csv").write_text(f"id,name,type\n{rows}", encoding="utf8")
    build_terminology(tmp_path / "terms.csv", tmp_path / "index", format="csv")
    terminology = Terminology(tmp_path / "index")
    assert terminology.describe(terminology.get_place("65999")).type == "type 65999"
