"""Batches of concurrent requests: what is together, what waits, and what happens when it fails."""

import asyncio
import gc
import logging
from threading import Event

import pytest

from spacy_biomed import BiomedError
from spacy_biomed.serving import ServerLimits
from spacy_biomed.serving.batching import Batcher, BatchFailed, Job, Overloaded, TookTooLong

LIMITS = {"max_documents": 100, "max_waiting": 100, "gathering_time": 0.02, "timeout": 10.0}


class Work:
    """Stands for a pipeline: records batches, stays in one until it is let go."""

    def __init__(self, *, is_held: bool = False, error: BaseException | None = None):
        self.batches: list[list[str]] = []
        self.go = Event()
        self.error = error
        if not is_held:
            self.go.set()

    def __call__(self, jobs: list[Job]) -> list[bytes]:
        self.batches.append([job.text for job in jobs])
        assert self.go.wait(timeout=30)
        if self.error is not None:
            raise self.error
        return [job.text.encode() for job in jobs]


def jobs(*texts: str) -> list[Job]:
    return [Job("", text, lambda id, doc: b"") for text in texts]


def ask(batcher: Batcher, *texts: str) -> asyncio.Future[list[bytes]]:
    return asyncio.ensure_future(batcher.annotate(jobs(*texts)))


async def begin(batcher: Batcher, work: Work, *texts: str) -> asyncio.Future[list[bytes]]:
    """Ask, and wait until the batch has begun."""
    answer = ask(batcher, *texts)
    while not work.batches:
        await asyncio.sleep(0.005)
    return answer


def run(talk, work: Work, **limits):
    """Run a conversation with a batcher, which must end."""

    async def converse():
        batcher = Batcher(work, ServerLimits(**{**LIMITS, **limits}))
        try:
            return await asyncio.wait_for(talk(batcher), 30)
        finally:
            work.go.set()
            assert await batcher.close(30)

    return asyncio.run(converse())


def test_requests_that_come_together_share_a_batch():
    work = Work()

    async def talk(batcher):
        return await asyncio.gather(*(batcher.annotate(jobs(text)) for text in "abc"))

    assert run(talk, work) == [[b"a"], [b"b"], [b"c"]]
    assert work.batches == [["a", "b", "c"]]


def test_a_lone_request_that_comes_later_is_answered_too():
    work = Work()

    async def talk(batcher):
        answers = []
        for text in "abc":
            answers += await batcher.annotate(jobs(text))
        return answers

    assert run(talk, work) == [b"a", b"b", b"c"]
    assert len(work.batches) == 3


def test_what_comes_during_a_batch_is_the_next_one():
    work = Work(is_held=True)

    async def talk(batcher):
        first = await begin(batcher, work, "a")
        others = [ask(batcher, text) for text in "bc"]
        await asyncio.sleep(0.1)  # longer than requests are gathered
        assert (batcher.waiting, work.batches) == (2, [["a"]])
        assert batcher.busy_time > 0
        work.go.set()
        return await asyncio.gather(first, *others)

    assert run(talk, work) == [[b"a"], [b"b"], [b"c"]]
    assert work.batches == [["a"], ["b", "c"]]


def test_batches_end_at_the_limits_and_a_longer_text_is_one_by_itself():
    work = Work()
    texts = ["aa", "bb", "c", "dddddddd", "e", "f", "g", "h"]
    run(lambda b: b.annotate(jobs(*texts)), work, batch_documents=3, batch_characters=5)
    assert work.batches == [["aa", "bb", "c"], ["dddddddd"], ["e", "f", "g"], ["h"]]


def test_a_short_request_is_not_behind_all_of_a_long_one():
    work = Work(is_held=True)

    async def talk(batcher):
        await begin(batcher, work, "first")
        long = ask(batcher, "a", "b", "c", "d", "e")
        await asyncio.sleep(0)
        short = ask(batcher, "s")
        await asyncio.sleep(0)
        work.go.set()
        return await asyncio.gather(long, short)

    long, short = run(talk, work, batch_documents=2)
    assert (long, short) == ([b"a", b"b", b"c", b"d", b"e"], [b"s"])
    assert work.batches == [["first"], ["a", "s"], ["b", "c"], ["d", "e"]]


def test_too_many_that_wait_are_refused_and_the_others_answered():
    work = Work(is_held=True)

    async def talk(batcher):
        first = await begin(batcher, work, "a")
        second = ask(batcher, "b", "c")
        await asyncio.sleep(0)
        for refused in (jobs("d", "e"), jobs("d", "e", "f")):
            with pytest.raises(Overloaded):
                await batcher.annotate(refused)
        third = ask(batcher, "g")
        await asyncio.sleep(0)
        work.go.set()
        return await asyncio.gather(first, second, third)

    answers = run(talk, work, max_waiting=3, max_documents=3)
    assert answers == [[b"a"], [b"b", b"c"], [b"g"]]
    assert sorted(sum(work.batches, [])) == ["a", "b", "c", "g"]


def test_the_end_of_its_time_frees_a_request_and_its_places_while_the_thread_goes_on():
    work = Work(is_held=True)

    async def talk(batcher):
        long = await begin(batcher, work, "long")
        waiting = ask(batcher, "a", "b", "c")
        with pytest.raises(TookTooLong):
            await long
        with pytest.raises(Overloaded):
            await waiting
        assert batcher.waiting == 0
        assert batcher.busy_time > 0
        later = ask(batcher, "d", "e", "f")
        await asyncio.sleep(0)
        work.go.set()
        return await later

    assert run(talk, work, timeout=1.0, max_waiting=3, max_documents=3) == [b"d", b"e", b"f"]
    assert work.batches == [["long"], ["d", "e", "f"]]


def test_a_request_that_no_batch_takes_in_time_is_refused_and_what_has_begun_is_answered():
    work = Work(is_held=True)

    async def talk(batcher):
        begins = await begin(batcher, work, "a")
        waiting = [ask(batcher, text) for text in "bc"]
        refused = await asyncio.gather(*waiting, return_exceptions=True)
        assert batcher.waiting == 0
        work.go.set()
        return [type(one) for one in refused], await begins

    assert run(talk, work, max_wait=0.2) == ([Overloaded, Overloaded], [b"a"])
    assert work.batches == [["a"]]


def test_a_request_of_which_a_document_has_begun_is_not_refused():
    work = Work(is_held=True)

    async def talk(batcher):
        request = await begin(batcher, work, "a", "b")
        await asyncio.sleep(0.3)
        work.go.set()
        return await request

    assert run(talk, work, max_wait=0.1, batch_documents=1) == [b"a", b"b"]


def test_the_next_batch_has_as_much_text_as_fits_in_its_time(monkeypatch):
    work = Work()
    texts = ["a" * 2000] * 8

    async def talk(batcher):
        monkeypatch.setattr(Batcher, "busy_time", 4.0)  # 500 characters in a second
        await batcher.annotate(jobs(texts[0]))
        return await batcher.annotate(jobs(*texts))

    assert len(run(talk, work, batch_time=12.0)) == 8
    assert [len(batch) for batch in work.batches] == [
        1,
        3,
        5,
    ]  # the speed then is that of the last batch


def test_a_request_that_is_given_up_leaves_the_queue():
    work = Work(is_held=True)

    async def talk(batcher):
        first = await begin(batcher, work, "a")
        second = ask(batcher, "b", "c")
        third = ask(batcher, "d")
        await asyncio.sleep(0)
        second.cancel()
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        assert batcher.waiting == 1
        work.go.set()
        return await third

    assert run(talk, work) == [b"d"]
    assert work.batches == [["a"], ["d"]]


@pytest.mark.parametrize("error", [ValueError("Ochoa"), MemoryError("Ochoa"), SystemExit("Ochoa")])
def test_whatever_a_batch_raises_its_requests_are_answered_and_the_next_is_read(error, caplog):
    work = Work(error=error)

    async def talk(batcher):
        failed = await asyncio.gather(
            *(batcher.annotate(jobs(text, text)) for text in "ab"), return_exceptions=True
        )
        work.error = None
        return failed, await batcher.annotate(jobs("c"))

    failed, answers = run(talk, work)
    assert answers == [b"c"]
    assert [type(one) for one in failed] == [BatchFailed, BatchFailed]
    for one in failed:
        assert type(error).__name__ in str(one)
        assert "Ochoa" not in f"{one}{one.__cause__}"


def test_a_batch_with_too_few_answers_is_a_failure():
    with pytest.raises(BatchFailed, match="ValueError"):
        asyncio.run(Batcher(lambda jobs: [], ServerLimits()).annotate(jobs("a")))


def test_a_failure_that_nobody_waits_for_is_not_logged(caplog):
    caplog.set_level(logging.DEBUG)
    work = Work(is_held=True, error=ValueError("Ochoa"))

    async def talk(batcher):
        request = await begin(batcher, work, "Ochoa")
        request.cancel()
        work.go.set()
        await asyncio.gather(request, return_exceptions=True)

    run(talk, work)
    gc.collect()
    assert "Ochoa" not in caplog.text
    assert "never retrieved" not in caplog.text


def test_nothing_to_annotate_is_answered_at_once():
    work = Work()
    assert run(lambda b: b.annotate([]), work) == []
    assert work.batches == []


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"max_body": 0}, "max_body = 0: use a number above 0"),
        ({"timeout": float("nan")}, "timeout = nan: use a number above 0"),
        ({"max_waiting": 5}, "max_documents = 1,000 is more than max_waiting = 5"),
        ({"max_held": 5}, "max_body = 5,000,000 is more than max_held = 5"),
    ],
)
def test_limits_that_allow_nothing_are_refused(limits, message):
    with pytest.raises(BiomedError, match=message):
        ServerLimits(**limits)
