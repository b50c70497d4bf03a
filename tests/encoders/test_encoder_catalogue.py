"""The encoder catalogue: who is in it, and the facts that loading and users rely on."""

import re
from dataclasses import replace

import pytest

from spacy_biomed.encoders.encoder_catalogue import all_encoders, find_encoder
from spacy_biomed.encoders.loading import suggest_encoder


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("BioBERT", "biobert"),
        ("SciBERT", "scibert"),
        ("Bio+Clinical BERT", "bio-clinical-bert"),
        ("BioMed-RoBERTa", "biomed-roberta"),
        ("RoBERTa-base", "roberta-base"),
        ("RoBERTa-large", "roberta-large"),
        ("Bio-LM base", "bio-lm-base"),
        ("Bio-LM large", "bio-lm-large"),
        ("RoBERTa-base-PM", "bio-lm-base-pm"),
        ("RoBERTa-base-PM-Voc", "bio-lm-base-pm-voc"),
        ("RoBERTa-base-PM-M3", "bio-lm-base-pm-m3"),
        ("RoBERTa-base-PM-M3-Voc", "bio-lm-base"),
        ("RoBERTa-base-PM-M3-Voc-train-longer", "bio-lm-base-longer"),
        ("RoBERTa-base-PM-M3-Voc-distill", "bio-lm-base-unaligned"),
        ("RoBERTa-base-PM-M3-Voc-distill-align", "bio-lm-base-distilled"),
        ("RoBERTa-large-PM-M3", "bio-lm-large-pm-m3"),
        ("RoBERTa-large-PM-M3-Voc", "bio-lm-large"),
        ("BlueBERT", "bluebert"),
        ("bluebert-mimic", "bluebert-mimic"),
        ("bluebert-large", "bluebert-large"),
        ("bluebert-large-mimic", "bluebert-large-mimic"),
        ("DistilBioBERT", "distil-biobert"),
        ("CompactBioBERT", "compact-biobert"),
        ("TinyBioBERT", "tiny-biobert"),
        ("BioDistilBERT", "bio-distilbert"),
        ("BioTinyBERT", "bio-tinybert"),
        ("BioMobileBERT", "bio-mobilebert"),
        ("DistilBERT", "distilbert"),
        ("TinyBERT", "tinybert"),
        ("MobileBERT", "mobilebert"),
        ("bsc-bio-es", "bsc-bio-es"),
        ("bsc-bio-ehr-es", "bsc-bio-ehr-es"),
        ("roberta-base-bne", "roberta-base-bne"),
        ("mBERT", "mbert"),
        ("BETO", "beto"),
        ("XLM-R", "xlm-r"),
        ("mBERT-Galén", "mbert-galen"),
        ("BETO-Galén", "beto-galen"),
        ("XLM-R-Galén", "xlm-r-galen"),
    ],
)
def test_every_encoder_of_the_papers_is_found_as_they_spell_it(spelling: str, name: str) -> None:
    assert find_encoder(spelling).name == name


@pytest.mark.parametrize(("paper", "count"), {1: 15, 2: 10, 3: 1, 4: 8, 5: 4}.items())
def test_each_paper_has_the_encoders_that_it_evaluates_or_releases(paper: int, count: int) -> None:
    assert sum(paper in entry.papers for entry in all_encoders()) == count


def test_names_and_aliases_lead_to_one_entry_each() -> None:
    for entry in all_encoders():
        for name in (entry.name, entry.name.upper(), *entry.aliases):
            assert find_encoder(name) is entry


def test_a_hub_id_that_is_spelled_out_is_found() -> None:
    assert find_encoder("dmis-lab/biobert-v1.1").name == "biobert"


@pytest.mark.parametrize(
    "name", ["./biobert", "models/biobert", "biobert/", "someone/biobert", "x"]
)
def test_paths_and_other_hub_ids_are_not_in_the_catalogue(name: str) -> None:
    assert find_encoder(name) is None


def test_close_names_are_suggested_and_far_ones_not() -> None:
    assert suggest_encoder("bio-brt").startswith("did you mean biobert")
    assert suggest_encoder("qqqqqq") == ""


@pytest.mark.parametrize("entry", all_encoders(), ids=lambda entry: entry.name)
def test_every_entry_says_what_the_catalogue_is_asked_for(entry) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.name)
    assert entry.language in {"en", "es", "multilingual"}
    assert entry.parameters > 10_000_000
    assert entry.layers > 0 and entry.width > 0
    assert entry.licence and entry.paper and entry.vocabulary
    assert entry.revision is None or re.fullmatch(r"[0-9a-f]{40}", entry.revision)


@pytest.mark.parametrize("entry", all_encoders(), ids=lambda entry: entry.name)
def test_an_encoder_is_on_the_hub_or_says_where_else(entry) -> None:
    if entry.hub_id:
        assert entry.hub_id.count("/") == 1
    else:
        assert entry.download and entry.revision is None and entry.notes


@pytest.mark.parametrize(
    ("name", "layers", "width", "millions"),
    [
        ("biobert", 12, 768, 108),
        ("roberta-large", 24, 1024, 354),
        ("distil-biobert", 6, 768, 65),
        ("bio-tinybert", 4, 312, 14),
        ("bio-mobilebert", 24, 512, 25),
        ("xlm-r", 12, 768, 277),
        ("bioclinical-modernbert", 22, 768, 149),
        ("bioformer-16l", 16, 384, 41),
        ("ettin-17m", 7, 256, 17),
        ("mmbert-base", 22, 768, 307),
    ],
)
def test_sizes(name: str, layers: int, width: int, millions: int) -> None:
    entry = find_encoder(name)
    assert (entry.layers, entry.width) == (layers, width)
    assert round(entry.parameters / 1e6) == millions


@pytest.mark.parametrize(
    ("licence", "is_forbidden"),
    [
        ("CC BY-NC 4.0", True),
        ("CC-BY-NC-SA-4.0", True),
        ("for non-commercial research", True),
        ("MIT", False),
        ("CC BY 4.0", False),
        ("not stated", False),
    ],
)
def test_a_licence_that_forbids_commercial_use_is_recognised(licence, is_forbidden) -> None:
    entry = replace(find_encoder("biobert"), licence=licence)
    assert entry.forbids_commercial_use == is_forbidden
