"""A pipeline of rules for tests of the server, with a component that can break or take long."""

import os
import time
from collections.abc import Callable
from threading import Event

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from spacy_biomed.pipeline.mention_layer import install_extensions

# A component raises at this word, and quotes the text.
BREAKS = "unreadable"
# It waits at this word, until `released` is set, or for so many seconds as the variable says, and
# sets `entered` before.
STAYS = "endless"
STAY_VARIABLE = "SECONDS_TO_STAY"
entered, released = Event(), Event()


def break_or_stay(doc: Doc) -> Doc:
    if BREAKS in doc.text:
        raise ValueError(doc.text)
    if STAYS in doc.text:
        entered.set()
        released.wait(timeout=float(os.environ.get(STAY_VARIABLE, "60")))
    return doc


def add_layers(doc: Doc) -> Doc:
    """Give each "aspirin" a confidence, and a text that begins with "Layers" other layers."""
    install_extensions()
    sure = iter((0.9, 0.4))
    for span in doc.ents:
        if span.label_ == "DRUG":
            span._.confidence = next(sure, 0.1)
    if doc.text.startswith("Layers"):
        doc.spans["<i>layer"] = [
            Span(doc, 0, 2, label="<b>OUTER"),
            Span(doc, 1, 2, label="INNER"),
        ]
        doc.cats = {"<u>RARE": 0.25, "OFTEN": 0.75}
    return doc


def register_component() -> None:
    """Register the components, not at import: the collection of doctests imports this file a second
    time, and the component would set the events of that module.
    """
    Language.component("test_breaks_or_stays", func=break_or_stay)
    Language.component("test_layers", func=add_layers, assigns=["doc.spans", "doc.cats"])


def create_rules() -> Language:
    """A pipeline that finds "aspirin" as DRUG, with the id D1, and "Ochoa" as NAME."""
    register_component()
    nlp = spacy.blank("en")
    nlp.add_pipe("test_breaks_or_stays")
    nlp.add_pipe("entity_ruler").add_patterns(
        [
            {"label": "DRUG", "pattern": [{"LOWER": "aspirin"}], "id": "D1"},
            {"label": "NAME", "pattern": "Ochoa"},
        ]
    )
    nlp.meta["name"] = "rules"
    return nlp


def wait_until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    """Wait until a function returns something true."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)
