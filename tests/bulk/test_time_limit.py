"""A text that takes too long fails, and the others do not."""

import sys
import time
from threading import Thread

import pytest
import spacy
from spacy.language import Language

from spacy_biomed.bulk.shards import annotate_items
from spacy_biomed.bulk.time_limit import TookTooLong, limit_each, time_limit
from spacy_biomed.files.sources import Item

SLOW = "slow"


@Language.component("hangs_at_a_word")
def hang(doc):
    while SLOW in doc.text:
        time.sleep(0.001)
    return doc


@pytest.fixture(scope="module")
def nlp():
    nlp = spacy.blank("en")
    nlp.add_pipe("hangs_at_a_word")
    return nlp


def annotate(nlp, texts):
    items = [Item(str(place), text) for place, text in enumerate(texts)]
    return list(annotate_items(nlp, items, 3, 0.2))


def in_thread(function):
    """What a function returns in another thread."""
    found = []
    thread = Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    thread.join(60)
    return found[0]


TEXTS = ["one", "two", SLOW, "four", "five", "six", "seven"]


@pytest.mark.parametrize("call", [lambda function: function(), in_thread])
def test_a_text_that_hangs_fails_alone(nlp, call):
    docs = call(lambda: annotate(nlp, TEXTS))
    assert docs[2] == "took longer than the limit for a text"
    assert [doc.text for doc in docs if not isinstance(doc, str)] == [*TEXTS[:2], *TEXTS[3:]]


def stop(seconds):
    try:
        with time_limit(seconds):
            while True:
                time.sleep(0.001)
    except TookTooLong:
        return "stopped"


@pytest.mark.parametrize("call", [lambda function: function(), in_thread])
def test_a_block_is_stopped(call):
    assert call(lambda: stop(0.05)) == "stopped"


@pytest.mark.parametrize("call", [lambda function: function(), in_thread])
def test_a_limit_may_be_longer_than_a_clock_counts(call):
    def count():
        with time_limit(1e300):
            return len("abc")

    assert call(count) == 3


@pytest.mark.parametrize("call", [lambda function: function(), in_thread])
def test_the_time_between_items_does_not_count(call):
    def read():
        found = []
        for one in limit_each(range(3), 0.1):
            time.sleep(0.15)
            found.append(one)
        return found

    assert call(read) == [0, 1, 2]


def test_what_signals_did_before_they_do_again():
    import signal

    before = signal.getsignal(signal.SIGALRM)
    with time_limit(60):
        assert signal.getsignal(signal.SIGALRM) is not before
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_a_limit_is_lifted_under_a_tracer():
    def count():
        sys.settrace(lambda *event: lambda *event: None)  # as debuggers and coverage do
        try:
            return list(limit_each(range(3), 60))
        finally:
            sys.settrace(None)

    assert in_thread(count) == [0, 1, 2]


def test_a_limit_that_comes_at_the_end_of_a_block_does_not_outlive_it():
    def wait(end):  # not in the block: CPython 3.13 leaves blocks where a loop in them goes back
        while time.perf_counter() < end:
            pass

    def count():
        late = 0
        for extra in range(40):
            start = time.perf_counter()
            try:
                with time_limit(0.01):
                    wait(start + 0.005 + extra * 5e-4)
            except TookTooLong:
                late += 1
        return late

    assert 0 < in_thread(count) < 40
