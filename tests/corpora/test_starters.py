"""The starter corpora in assets/: what the catalogue says, whole, and no text in two parts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from spacy.vocab import Vocab

from spacy_biomed.annotations.pairs import get_pair
from spacy_biomed.corpora.conversion_report import ConversionReport
from spacy_biomed.corpora.corpus_catalogue import CorpusEntry, all_corpora
from spacy_biomed.formats.spacy_docs import read_docs

ASSETS = Path(__file__).parents[2] / "assets"
STARTERS = [entry for entry in all_corpora() if entry.access == "ships"]
README = (ASSETS / "README.md").read_text(encoding="utf8")
MARKS = re.compile(r"<< | >>|\[\[ | \]\]")


@pytest.fixture(scope="module", params=STARTERS, ids=lambda entry: entry.name)
def starter(
    request: pytest.FixtureRequest, convert_starter: Callable
) -> tuple[CorpusEntry, ConversionReport]:
    """The entry of each starter corpus, and what its conversion found."""
    return request.param, convert_starter(request.param.name)


@pytest.mark.slow(least=1)
def test_the_readme_tells_of_each(starter) -> None:
    entry, report = starter
    (row,) = re.findall(rf"^\| `{entry.name}` \|.*", README, re.MULTILINE)
    counts = ", ".join(str(part.documents) for part in report.parts.values())
    assert counts in row


def test_there_are_as_many_as_the_catalogue_says(starter) -> None:
    entry, report = starter
    for part, size in entry.split_sizes.items():
        assert int(re.findall(r"\d+", size)[-1]) == report.parts[part].documents


def test_no_annotation_is_lost(starter) -> None:
    _, report = starter
    for part in report.parts.values():
        assert part.inside_token == part.overlapping == part.discontinuous == 0
        assert part.lost_relations == part.unaligned_answers == 0


def test_every_label_is_in_every_part(starter) -> None:
    entry, report = starter
    for part in report.parts.values():
        found = {*part.mentions, *part.relations, *part.classes, *part.means}
        labels = entry.conversion.get("labels", entry.labels)
        assert found == set(labels) or (entry.task == "qa" and part.answers)


def test_no_text_is_in_two_parts(starter) -> None:
    _, report = starter
    seen: set[str] = set()
    for part in report.parts:
        texts = set()
        for doc in read_docs(report.output / f"{part}.spacy", Vocab()):
            pair = get_pair(doc)
            texts.update([MARKS.sub("", doc.text)] if pair is None else [one.text for one in pair])
        assert seen.isdisjoint(texts), seen & texts
        seen |= texts
