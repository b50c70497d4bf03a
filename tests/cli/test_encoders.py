"""`spacy biomed encoders`: the table, one encoder, the filter, JSON."""

import json
from dataclasses import replace

import pytest
from commands import run

from spacy_biomed.encoders import encoder_catalogue
from spacy_biomed.encoders.encoder_catalogue import find_encoder


def test_the_language_chooses_rows() -> None:
    printed = run("encoders", "--language", "multilingual", "--json")
    names = {entry["name"] for entry in json.loads(printed)}
    assert names == {"mbert", "xlm-r", "mmbert-small", "mmbert-base"}


def test_a_licence_that_forbids_commercial_use_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = find_encoder("biobert")
    entry = replace(known, licence="CC BY-NC 4.0")
    monkeypatch.setattr(encoder_catalogue, "all_encoders", lambda: (known, entry))
    monkeypatch.setattr(encoder_catalogue, "find_encoder", lambda name: entry)
    assert " ".join(run("encoders", columns=200).split()).count("no commercial") == 1
    assert "CC BY-NC 4.0, no commercial use" in run("encoders", "biobert", columns=120)


def test_one_encoder_shows_all_that_is_known() -> None:
    shown = run("encoders", "BioBERT", columns=120)
    for text in (
        "dmis-lab/biobert-v1.1",
        "551ca18efd7f052c8dfa0b01c94c2a8e68bc5488",
        "107,719,680",
        "28,996",
        "Apache-2.0",
        "1, 2, 4, 5",
    ):
        assert text in shown
    assert json.loads(run("encoders", "BioBERT", "--json"))["width"] == 768


def test_an_encoder_that_is_not_on_the_hub_shows_where_to_get_it() -> None:
    shown = run("encoders", "bio-lm-large", columns=120)
    assert "RoBERTa-large-PM-M3-Voc-hf.tar.gz" in shown
