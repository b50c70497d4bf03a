"""The page of a server: its files, and what a browser makes of it."""

import json
import re

import pytest
import spacy
from browser import CHROMIUM, browsing
from running_server import running
from served_pipelines import create_rules

from spacy_biomed.serving.routes import PAGE_FILES, find_example, write_form

SCRIPT = "<script>document.title = 'broken'</script><img src=x onerror=\"document.title='broken'\">"
TEXT = f"Ochoa took aspirin & {SCRIPT}\naspirin < 3"


def read_form(nlp, **settings) -> str:
    own = {"max_characters": 1000, "has_token": False, "can_deidentify": True, "needs_id": False}
    return write_form(nlp, **{**own, **settings})


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


def test_the_policy_allows_no_script_and_no_style_in_the_page(ask):
    answer = ask(lambda client: client.get("/"))
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'")
    assert not re.search(r"<script(?! src)|<style|\sstyle=|\son\w+=", answer.text)


def test_nothing_of_an_answer_becomes_html():
    script = (PAGE_FILES / "script.js").read_text(encoding="utf8")
    assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval", script)


@pytest.mark.slow
@pytest.mark.parametrize("lang", ["ca", "de", "en", "es", "fr", "it", "nl", "pt", "sv", "xx"])
def test_the_empty_field_shows_a_sentence_in_the_language_of_the_pipeline(lang):
    sentence = find_example(lang)
    assert (sentence == find_example("en")) == (lang == "en")
    form = read_form(spacy.blank(lang))
    assert f'lang="{lang}"' in form
    assert len(re.findall(r'placeholder="([^"]*)"', form)[0]) > (10 if lang != "xx" else -1)


def test_what_the_pipeline_cannot_do_is_not_on_the_page():
    nlp = create_rules()
    assert 'id="deidentify"' in read_form(nlp)
    assert 'id="deidentify"' not in read_form(nlp, can_deidentify=False)
    assert 'id="document-id"' not in read_form(nlp)
    assert 'id="document-id"' in read_form(nlp, needs_id=True)
    assert 'id="token"' in read_form(nlp, has_token=True)


def test_black_text_on_every_colour_has_enough_contrast():
    def luminance(colour: str) -> float:
        parts = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
        linear = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    style = (PAGE_FILES / "style.css").read_text(encoding="utf8")
    colours = re.findall(r"\.colour-\d+ \{ background: (#\w{6}); \}", style)
    assert min((luminance(colour) + 0.05) / 0.05 for colour in colours) >= 7
    assert len(set(colours)) == len(colours)
    assert f"COLOURS = {len(colours)};" in (PAGE_FILES / "script.js").read_text(encoding="utf8")


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a server in a browser, which keeps its downloads in `page.downloads`."""
    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    folder = tmp_path_factory.mktemp("page")
    rules = create_rules()
    rules.add_pipe("test_layers")
    rules.to_disk(folder / "rules")
    limits = ("--max-characters", "1000")
    with (
        running(folder / "rules", folder / "log.txt", *limits) as server,
        browsing(folder / "profile") as page,
    ):
        page.downloads = folder / "downloads"
        page.ask("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(page.downloads))
        page.open(server.address)
        yield page


def ask_for(page, text: str, button: str = "annotate") -> str:
    """Type a text, press a button, and return the line of status."""
    page.evaluate("document.getElementById('clear').click()")
    page.type(text)
    page.evaluate(f"document.getElementById('{button}').click()")
    return wait_for_status(page)


def wait_for_status(page) -> str:
    status = "document.getElementById('status').textContent"
    page.wait_for(f"!['', 'Working …'].includes({status})")
    return page.evaluate(status)


def read_all(page, selector: str) -> list[str]:
    """The texts of elements, without those of elements in them."""
    return page.evaluate(
        f"[...document.querySelectorAll('{selector}')].map(one => one.firstChild.textContent)"
    )


def slide(page, value: float) -> None:
    page.evaluate(
        "{ const slider = document.getElementById('confidence');"
        f"slider.value = {value}; slider.dispatchEvent(new Event('input')); }}"
    )


def switch(page, label: str) -> None:
    page.evaluate(f"document.querySelector('#labels input[value={label}]').click()")


def download(page, name: str) -> str:
    file = page.downloads / name
    file.unlink(missing_ok=True)
    page.evaluate("document.getElementById('download').click()")
    page.wait_for_file(file)
    return file.read_text(encoding="utf8")


def test_a_text_in_the_browser_is_marked_and_in_the_table(page):
    assert ask_for(page, "Ochoa took aspirin.\n🙂 aspirin") == "3 entities"
    assert read_all(page, "mark") == ["Ochoa", "aspirin", "aspirin"]
    marks = "[...document.querySelectorAll('mark')]"
    colours = page.evaluate(f"{marks}.map(mark => getComputedStyle(mark).backgroundColor)")
    assert colours[0] != colours[1] == colours[2]
    assert read_all(page, "#entities tbody td:nth-child(4)") == ["0", "11", "22"]
    titles = page.evaluate(f"{marks}.map(mark => mark.title)")
    assert titles == ["NAME", "DRUG, confidence 0.90", "DRUG, confidence 0.40"]


def test_of_overlapping_entities_the_longest_are_marked_and_the_others_counted(page):
    assert ask_for(page, "Layers: aspirin") == "3 entities"
    assert read_all(page, "#result h2") == ["Entities", "Spans of <i>layer", "Classes"]
    assert read_all(page, "mark") == ["aspirin", "Layers:"]
    assert read_all(page, "p.note") == ["1 inside or across others: in the table only."]
    assert read_all(page, "#cats tbody td") == ["OFTEN", "0.750", "<u>RARE", "0.250"]


def test_the_slider_leaves_out_what_is_less_sure_and_keeps_what_has_no_confidence(page):
    ask_for(page, "Ochoa took aspirin and aspirin.")
    slide(page, 0.5)
    assert read_all(page, "mark") == read_all(page, "#entities td:first-child")
    assert read_all(page, "mark") == ["Ochoa", "aspirin"]
    assert wait_for_status(page) == "2 of 3 entities shown"
    slide(page, 0)
    assert wait_for_status(page) == "3 entities"


def test_a_label_is_switched_off_and_stays_off_for_the_next_text(page):
    ask_for(page, "Ochoa took aspirin.")
    switch(page, "DRUG")
    assert read_all(page, "mark") == ["Ochoa"]
    assert ask_for(page, "Aspirin for Ochoa.") == "1 of 2 entities shown"
    switch(page, "DRUG")
    assert read_all(page, "mark") == ["Aspirin", "Ochoa"]


def test_the_download_has_what_is_shown(page):
    ask_for(page, "Ochoa took aspirin and aspirin.")
    slide(page, 0.5)
    switch(page, "NAME")
    saved = json.loads(download(page, "annotations.json"))
    slide(page, 0)
    switch(page, "NAME")
    assert [(one["text"], one["start"]) for one in saved["entities"]] == [("aspirin", 11)]
    assert saved["characters"] == 31
    assert "original" not in saved


def test_the_de_identified_text_is_shown_and_downloaded_whole(page):
    text = "🙂 Ochoa took aspirin.\nOchoa"
    assert ask_for(page, text, "deidentify") == "3 replacements"
    expected = "🙂 [NAME] took [DRUG].\n[NAME]"
    assert page.evaluate("document.querySelector('.entities').textContent") == expected
    assert read_all(page, "#replacements tbody tr:first-child td") == ["Ochoa", "[NAME]", "NAME"]
    assert page.evaluate("document.getElementById('threshold').hidden")
    assert read_all(page, "#labels input") == []
    assert download(page, "deidentified.txt") == expected


def test_a_label_that_is_off_stays_replaced_in_the_de_identified_text(page):
    ask_for(page, "Ochoa took aspirin.")
    switch(page, "NAME")
    ask_for(page, "Ochoa took aspirin.", "deidentify")
    assert download(page, "deidentified.txt") == "[NAME] took [DRUG]."
    ask_for(page, "Ochoa took aspirin.")
    switch(page, "NAME")


def test_html_in_a_text_and_in_labels_is_shown_and_not_run(page):
    title = page.evaluate("document.title")
    assert ask_for(page, TEXT) == "3 entities"
    assert SCRIPT in page.evaluate("document.querySelector('.entities').textContent")
    ask_for(page, "Layers: aspirin")
    assert "<b>OUTER" in read_all(page, "#labels span")
    assert (
        page.evaluate("document.querySelectorAll('#result :is(script, img, b, i, u)').length") == 0
    )
    assert page.evaluate("document.title") == title


def test_a_problem_is_said_in_the_line_of_status_and_nothing_old_is_shown(page):
    ask_for(page, "aspirin")
    line = ask_for(page, "a" * 1001)
    assert line == "document 0 has 1,001 characters; send at most 1,000"
    assert page.evaluate("document.getElementById('status').className") == "problem"
    assert page.evaluate("document.getElementById('result').hidden")
    assert ask_for(page, "aspirin") == "1 entity"


def test_everything_can_be_reached_with_the_keyboard_and_has_a_name(page):
    ask_for(page, "aspirin")
    page.evaluate("document.getElementById('text').focus()")
    active, reached = "document.activeElement", []
    for _ in range(7):
        page.press("Tab")
        reached.append(page.evaluate(f"{active}.id || {active}.value || {active}.className"))
    buttons = ["annotate", "deidentify", "clear", "confidence", "download"]
    assert reached == [*buttons, "DRUG", "table"]
    named = (
        "[...document.querySelectorAll('textarea, input')].map(one => one.labels[0].textContent)"
    )
    assert page.evaluate(named) == ["Text", "Confidence of at least 0.00", "DRUG 1"]
    assert page.evaluate("document.getElementById('status').getAttribute('role')") == "status"
    assert page.evaluate("document.documentElement.lang") == "en"
    page.evaluate("document.getElementById('annotate').focus()")
    page.press(" ")
    assert wait_for_status(page) == "1 entity"


def test_ctrl_enter_does_what_was_done_last(page):
    for button, line in [("deidentify", "1 replacement"), ("annotate", "1 entity")]:
        assert ask_for(page, "aspirin", button) == line
        page.evaluate("document.getElementById('text').focus()")
        page.evaluate("document.getElementById('status').textContent = ''")
        page.press("Enter", modifiers=2)
        assert wait_for_status(page) == line


def test_the_browser_asked_this_server_alone_and_found_no_fault(page):
    ask_for(page, "aspirin")
    ask_for(page, "aspirin", "deidentify")
    asked = [
        event["params"]["request"]["url"]
        for event in page.events
        if event["method"] == "Network.requestWillBeSent"
    ]
    own = page.evaluate("location.origin")
    outside = [url for url in asked if not url.startswith(("data:", f"blob:{own}/"))]
    assert {url.removeprefix(own) for url in outside} == {
        "/",
        "/page/style.css",
        "/page/script.js",
        "/annotate",
        "/deidentify",
    }
    faults = [event for event in page.events if event["method"] == "Runtime.exceptionThrown"]
    # The refused text above is told as an error of the network.
    told = [e["params"]["entry"] for e in page.events if e["method"] == "Log.entryAdded"]
    assert faults + [entry for entry in told if entry["source"] != "network"] == []
