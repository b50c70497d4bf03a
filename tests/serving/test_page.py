"""The page of a server: its HTML, and what a browser makes of it."""

import re

import pytest
from browser import CHROMIUM, browsing
from running_server import running
from served_pipelines import create_rules
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_biomed.serving.page import COLOURS, leave_out_overlapping

SCRIPT = "<script>document.title = 'broken'</script><img src=x onerror=\"document.title='broken'\">"
TEXT = f"Ochoa took aspirin & {SCRIPT}\naspirin < 3"


def entity(start: int, end: int) -> dict:
    return {"start": start, "end": end}


@Language.component("test_spans", assigns=["doc.spans", "doc.cats", "doc._.relations"])
def add_spans(doc: Doc) -> Doc:
    doc.spans["<i>layer"] = [
        Span(doc, 0, 2, label="<b>OUTER"),
        Span(doc, 1, 2, label="INNER"),
    ]
    doc.cats = {"<u>RARE": 0.25, "OFTEN": 0.75}
    return doc


@Language.component("test_confidence")
def add_confidence(doc: Doc) -> Doc:
    if not Span.has_extension("confidence"):
        Span.set_extension("confidence", default=None)
    for span in doc.ents:
        span._.confidence = 0.987
    return doc


def test_of_overlapping_entities_the_longest_are_marked():
    spans = [(0, 2), (1, 9), (2, 4), (8, 12), (9, 11), (12, 13)]
    kept = leave_out_overlapping(entity(*span) for span in spans)
    assert kept == [entity(1, 9), entity(9, 11), entity(12, 13)]


def test_the_result_escapes_texts_labels_and_names(post, rules):
    rules.add_pipe("test_spans")
    html = post("/page/annotate", {"text": TEXT}).text
    assert html.count("<mark") == 4  # three entities, and the outer span
    assert not re.search(r"<(script|img|i|u)\b", html)
    assert "<b>OUTER" not in html
    assert "&lt;b&gt;OUTER" in html
    assert "Spans of &lt;i&gt;layer" in html
    assert "1 that overlap longer ones are in the table only" in html
    assert html.index("OFTEN") < html.index("&lt;u&gt;RARE")


def test_what_is_marked_has_its_label_and_the_confidence_as_a_tooltip(post, rules):
    rules.add_pipe("test_confidence")
    html = post("/page/annotate", {"text": "No aspirin."}).text
    assert 'title="DRUG, confidence 0.99"' in html
    assert f"background: {COLOURS[0]}" in html
    assert "<td>aspirin</td><td>DRUG</td>" in html
    assert ">0.987<" in html


def test_nothing_found_is_said(post):
    assert "No entities." in post("/page/annotate", {"text": "Nothing."}).text


def test_the_page_names_its_own_files_alone(ask):
    async def read(client):
        pages = [await client.get(path) for path in ("/", "/page/style.css", "/page/script.js")]
        return [page.text for page in pages], [page.headers["content-type"] for page in pages]

    texts, types = ask(read)
    assert [kind.split(";")[0].split("/")[1] for kind in types] == ["html", "css", "javascript"]
    assert not [text for text in texts if re.search(r"https?:|url\(|@import", text)]
    assert re.findall(r'(?:href|src)="([^"]*)"', texts[0]) == [
        "data:,",
        "page/style.css",
        "page/script.js",
        "openapi.json",
        "openapi.json",
    ]


def test_black_text_on_every_colour_has_enough_contrast():
    def luminance(colour: str) -> float:
        parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    assert min((luminance(colour) + 0.05) / 0.05 for colour in COLOURS) >= 7
    assert len(set(COLOURS)) == len(COLOURS)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a server in a browser."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    folder = tmp_path_factory.mktemp("page")
    create_rules().to_disk(folder / "rules")
    limits = ("--max-characters", "1000")
    with (
        running(folder / "rules", folder / "log.txt", *limits) as server,
        browsing(folder / "profile") as page,
    ):
        page.open(server.address)
        yield page


def annotate(page, text: str) -> str:
    """Type a text, send it with the keyboard, and return the line of status."""
    page.evaluate("document.getElementById('clear').click()")
    page.type(text)
    page.press("Enter", modifiers=2)
    status = "document.getElementById('status').textContent"
    page.wait_for(f"!['', 'Annotating …'].includes({status})")
    return page.evaluate(status)


def test_a_text_in_the_browser_is_marked_and_in_the_table(page):
    assert annotate(page, "Ochoa took aspirin.\n🙂 aspirin") == "3 entities"
    marks = "[...document.querySelectorAll('mark')]"
    assert page.evaluate(f"{marks}.map(mark => mark.firstChild.textContent)") == [
        "Ochoa",
        "aspirin",
        "aspirin",
    ]
    colours = page.evaluate(f"{marks}.map(mark => getComputedStyle(mark).backgroundColor)")
    assert colours[0] != colours[1] == colours[2]
    assert page.evaluate("document.querySelectorAll('#entities tbody tr').length") == 3


def test_html_in_a_text_is_shown_and_not_run(page):
    title = page.evaluate("document.title")
    assert annotate(page, TEXT) == "3 entities"
    assert SCRIPT in page.evaluate("document.querySelector('.entities').textContent")
    assert page.evaluate("document.querySelectorAll('#result script, #result img').length") == 0
    assert page.evaluate("document.title") == title


def test_a_problem_is_said_in_the_line_of_status(page):
    line = annotate(page, "a" * 1001)
    assert line == "document 0 has 1,001 characters; send at most 1,000"
    assert page.evaluate("document.getElementById('status').className") == "problem"
    assert annotate(page, "aspirin") == "1 entity"


def test_everything_can_be_reached_with_the_keyboard_and_has_a_name(page):
    annotate(page, "aspirin")
    page.evaluate("document.getElementById('text').focus()")
    active, reached = "document.activeElement", []
    for _ in range(3):
        page.press("Tab")
        reached.append(page.evaluate(f"{active}.id || {active}.className"))
    assert reached == ["annotate", "clear", "table"]
    labels = page.evaluate("document.getElementById('text').labels[0].textContent")
    assert labels == "Text to annotate"
    assert page.evaluate("document.getElementById('status').getAttribute('role')") == "status"
    assert page.evaluate("document.documentElement.lang") == "en"
    page.evaluate("document.getElementById('annotate').focus()")
    page.press(" ")
    page.wait_for("document.getElementById('status').textContent === '1 entity'")


def test_the_browser_asked_this_server_alone_and_found_no_fault(page):
    asked = [
        event["params"]["request"]["url"]
        for event in page.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    own = page.evaluate("location.origin")
    assert f"{own}/page/annotate" in asked
    assert {url.removeprefix(own) for url in asked if not url.startswith("data:")} == {
        "/",
        "/page/style.css",
        "/page/script.js",
        "/page/annotate",
    }
    faults = [event for event in page.events if event["method"] == "Runtime.exceptionThrown"]
    # The refused text above is told as an error of the network.
    told = [e["params"]["entry"] for e in page.events if e["method"] == "Log.entryAdded"]
    assert faults + [entry for entry in told if entry["source"] != "network"] == []
