"""The page of errors: what is counted, what is shown, and what a browser makes of it."""

import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
import spacy
from browser import CHROMIUM, browsing
from commands import call, refuse, run
from spacy.tokens import Doc, DocBin, Span

from spacy_biomed.evaluation.error_analysis import (
    BOUNDARY,
    FALSE,
    LABEL,
    LOST,
    MISSED,
    NONE,
    RIGHT,
    Case,
    ErrorAnalysis,
    pair_mentions,
)

TEXT = "Aspirin for breast cancer. Metformin <b> helps sclerosis."
GOLD = [("Aspirin", "DRUG"), ("breast cancer", "DISEASE"), ("sclerosis", "DISEASE")]


def create_doc(mentions: list[tuple[str, str]], nlp=spacy.blank("en")) -> Doc:
    doc = nlp.make_doc(TEXT)
    starts = [(TEXT.index(text), text, label) for text, label in mentions]
    doc.ents = [doc.char_span(at, at + len(text), label) for at, text, label in sorted(starts)]
    return doc


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        ((3, 9, "A"), RIGHT),
        ((3, 9, "B"), LABEL),
        ((5, 9, "A"), BOUNDARY),
        ((5, 12, "B"), f"{BOUNDARY} and {LABEL}"),
    ],
)
def test_a_mention_found_wrongly_stands_for_the_one_that_it_overlaps(found, kind):
    gold = (3, 9, "A")
    assert pair_mentions({gold}, {found}) == [Case(kind, gold, found)]


def test_no_gold_mention_is_given_away_twice():
    first, second = (0, 10, "A"), (12, 20, "A")
    cases = pair_mentions({first, second}, {(0, 4, "A"), (6, 10, "A"), (12, 20, "B")})
    assert cases == [
        Case(BOUNDARY, first, (0, 4, "A")),
        Case(FALSE, None, (6, 10, "A")),
        Case(LABEL, second, (12, 20, "B")),
    ]


def test_errors_are_counted_by_label_length_text_and_training_part():
    reference = create_doc(GOLD)
    reference.spans["seen_in_training"] = [Span(reference, 0, 1, "DRUG")]
    found = create_doc([("Aspirin", "DRUG"), ("cancer", "DISEASE"), ("Metformin", "DRUG")])
    analysis = ErrorAnalysis(["one"], "en")
    analysis.add(reference, [found])
    [system] = analysis.systems
    assert system.confusion == {
        ("DRUG", "DRUG"): 1,
        ("DISEASE", "DISEASE"): 1,
        (NONE, "DRUG"): 1,
        ("DISEASE", NONE): 1,
    }
    assert system.kinds == {
        (BOUNDARY, "DISEASE"): 1,
        (FALSE, "DRUG"): 1,
        (MISSED, "DISEASE"): 1,
    }
    assert system.lengths == {(1, True): 1, (2, False): 1, (1, False): 1}
    assert system.seen == {(True, True): 1, (False, False): 2}
    assert system.texts[MISSED, "DISEASE", "sclerosis"] == 1
    assert system.documents == {"1": [1, 2, 2]}
    assert (system.scores.overall.precision, system.scores.overall.recall) == (
        pytest.approx(1 / 3),
        pytest.approx(1 / 3),
    )
    assert [one.kinds for one in analysis.passages] == [[BOUNDARY], [FALSE, MISSED]]


def test_the_time_is_in_proportion_to_the_text():
    """Not to its square: a book would take hours."""
    nlp = spacy.blank("en")
    text = "Aspirin is bad. Ibuprofen and Metformin help. " * 2000
    reference, found = nlp.make_doc(text), nlp.make_doc(text)
    for doc, word in ((reference, "Metformin"), (found, "Aspirin")):
        doc.set_ents([Span(doc, t.i, t.i + 1, "DRUG") for t in doc if t.text == word])
    analysis = ErrorAnalysis(["one"], "en", most_passages=3)
    begin = time.process_time()
    analysis.add(reference, [found])
    assert time.process_time() - begin < 10.0
    assert sum(analysis.systems[0].kinds.values()) == 4000
    assert len(analysis.passages) == 3


def test_documents_of_the_same_name_are_added_up():
    analysis = ErrorAnalysis(["one"], "en")
    for found in (GOLD, GOLD[:1]):
        reference = create_doc(GOLD)
        reference.user_data["document_id"] = "12345"
        analysis.add(reference, [create_doc(found)])
    assert analysis.systems[0].documents == {"12345": [4, 0, 2]}


def test_a_document_without_an_id_has_its_number_in_the_file():
    analysis = ErrorAnalysis(["one"], "en")
    for reference in (spacy.blank("en")("Not annotated."), create_doc(GOLD)):
        analysis.add(reference, [create_doc([])])
    assert list(analysis.systems[0].documents) == ["2"]
    assert {passage.document for passage in analysis.passages} == {"2"}


def test_of_two_pipelines_it_counts_what_only_one_finds():
    analysis = ErrorAnalysis(["one", "two"], "en")
    analysis.add(create_doc(GOLD), [create_doc(GOLD), create_doc(GOLD[:2])])
    assert analysis.compared == {"both are right": 2, LOST: 1}
    [passage] = analysis.passages
    assert (passage.kinds, passage.labels) == ([MISSED, LOST], ["DISEASE"])
    assert [name for name, _ in passage.views] == ["gold", "one", "two"]
    assert ["sclerosis" in html and "<mark" in html for _, html in passage.views] == [
        True,
        True,
        False,
    ]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """The page of two pipelines of rules."""
    paths = []
    for name, words in (("one", ["Aspirin", "cancer"]), ("two", ["Aspirin", "sclerosis"])):
        nlp = spacy.blank("en")
        labels = {"Aspirin": "DRUG"}
        patterns = [{"label": labels.get(word, "DISEASE"), "pattern": word} for word in words]
        nlp.add_pipe("entity_ruler").add_patterns(patterns)
        nlp.to_disk(tmp_path / name)
        paths.append(str(tmp_path / name))
    DocBin(docs=[create_doc(GOLD) for _ in range(3)]).to_disk(tmp_path / "test.spacy")
    first, second = paths
    arguments = [first, str(tmp_path / "test.spacy"), str(tmp_path / "errors.html")]
    result = call("errors", *arguments, "--other", second)
    assert result.exit_code == 0, result.output
    assert "F1 of the second minus the first: +40.00 points" in result.output
    return tmp_path / "errors.html"


class _Tags(HTMLParser):
    def __init__(self, page: str):
        super().__init__()
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.slow
def test_the_page_is_whole_and_needs_no_network(page):
    text = page.read_text()
    tags = _Tags(text)
    assert tags.open == []
    addresses = {value for name, value in tags.attributes if name in ("src", "href")}
    assert addresses == {"#sentences"}
    assert ("data-error", f'["{BOUNDARY}", "{MISSED}"]') in tags.attributes
    assert "&lt;b&gt;" in text and "<b> helps" not in text


def test_without_text_the_page_has_none(page, tmp_path):
    pipeline, corpus = str(tmp_path / "one"), str(tmp_path / "test.spacy")
    arguments = ["errors", pipeline, corpus, str(page), "--no-text"]
    run(*arguments)
    text = page.read_text().lower()
    assert "errors by label" in text
    assert not [word for word in ("cancer", "sclerosis", "aspirin", "helps") if word in text]


def test_the_corpus_is_not_written_over(page, tmp_path):
    corpus = tmp_path / "test.spacy"
    before = corpus.read_bytes()
    arguments = ["errors", str(tmp_path / "one"), str(corpus), str(corpus)]
    line = refuse(*arguments)
    assert line == f"{corpus}: is what is read; name another output"
    assert corpus.read_bytes() == before


def test_two_pipelines_that_find_nothing_where_nothing_is_do_not_differ(page, tmp_path):
    nlp = spacy.blank("en")
    DocBin(docs=[create_doc([], nlp)] * 2).to_disk(tmp_path / "none.spacy")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "DRUG", "pattern": "Ibuprofen"}])
    nlp.to_disk(tmp_path / "none")
    arguments = [tmp_path / "none", tmp_path / "none.spacy", page, "--other", tmp_path / "none"]
    assert "+0.00 points" in run("errors", *arguments)


def test_the_page_is_named_after_the_folder_of_the_corpus_from_inside_it(
    page, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run("errors", "one", "test.spacy", page)
    assert f"<h1>Errors on {tmp_path.name}/test</h1>" in page.read_text()


def test_a_corpus_without_the_layer_is_refused(page, tmp_path):
    arguments = [str(tmp_path / "one"), str(tmp_path / "test.spacy"), str(tmp_path / "new.html")]
    assert "no document there has annotated the span group sc" in refuse(
        "errors", *arguments, "--spans-key", "sc"
    )
    assert not (tmp_path / "new.html").exists()


def test_a_pipeline_that_writes_to_another_layer_is_refused(page, tmp_path):
    """As one of several tasks does."""
    nlp = spacy.blank("en")
    nlp.add_pipe("span_ruler")
    nlp.to_disk(tmp_path / "task")
    arguments = [str(tmp_path / "one"), str(tmp_path / "test.spacy"), str(tmp_path / "new.html")]
    line = refuse("errors", *arguments, "--other", str(tmp_path / "task"))
    assert line.startswith(f"{tmp_path / 'task'}: none of its components finds entities;")
    assert not (tmp_path / "new.html").exists()


def test_what_stands_in_the_way_is_told_before_the_work(page, tmp_path, monkeypatch):
    monkeypatch.setattr("spacy_biomed.pipeline.pipeline_loading.load_pipeline", None)
    arguments = ["errors", tmp_path / "one", tmp_path / "test.spacy"]
    (tmp_path / "folder").mkdir()
    assert "this is a directory" in refuse(*arguments, tmp_path / "folder")
    monkeypatch.setitem(sys.modules, "spacy_biomed.studies.paired_tests", None)
    line = refuse(*arguments, tmp_path / "new.html", "--other", tmp_path / "one")
    assert line.startswith("the paired test needs scipy")
    assert not (tmp_path / "new.html").exists()


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_filters_the_sentences(page, tmp_path):
    with browsing(tmp_path / "profile") as browser:
        browser.open(page.as_uri())
        shown = "document.querySelectorAll('article:not([hidden])').length"
        assert browser.evaluate(shown) == 6
        for kind, count in ((MISSED, 6), (BOUNDARY, 3), ("", 6)):
            browser.evaluate(
                f"error.value = '{kind}'; error.dispatchEvent(new Event('change')); null"
            )
            assert browser.evaluate(shown) == count
        requests = [e for e in browser.events if e["method"] == "Network.requestWillBeSent"]
        assert len(requests) == 1
