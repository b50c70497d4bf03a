"""Documents of concurrent requests, annotated together in one thread, and how many at once."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from queue import SimpleQueue
from threading import Thread
from typing import NamedTuple

from spacy.tokens import Doc

from ..bulk.shards import explain_failure
from ..bulk.time_limit import TookTooLong
from ..errors import BiomedError


@dataclass(frozen=True)
class ServerLimits:
    """The limits of a server. What exceeds one is refused with a line that names it.

    Attributes:
        max_characters: of a text.
        max_documents: of a request.
        max_body: bytes of a request's body.
        max_waiting: documents of all requests that wait for the pipeline.
        max_held: bytes of the bodies of all requests that are not yet answered, which bounds the
            memory of the server.
        timeout: seconds for a request to arrive, and again for it to be annotated; and for a text.
        max_wait: seconds that a request may wait for the pipeline to begin with it.
        batch_time: seconds that a batch may take, by the speed of those before it; a single text
            may take longer.
        batch_documents, batch_characters: of a batch; a longer text is a batch by itself.
        gathering_time: seconds that an idle pipeline waits for more requests to share its batch.
    """

    max_characters: int = 100_000
    max_documents: int = 1_000
    max_body: int = 5_000_000
    max_waiting: int = 1_000
    max_held: int = 100_000_000
    timeout: float = 60.0
    max_wait: float = 10.0
    batch_time: float = 2.0
    batch_documents: int = 64
    batch_characters: int = 100_000
    gathering_time: float = 0.002

    def __post_init__(self) -> None:
        """Refuse limits that are not above zero, or of which one makes another useless."""
        for one in fields(self):
            value = getattr(self, one.name)
            if not value > 0:
                raise BiomedError(f"{one.name} = {value}: use a number above 0")
        for smaller, larger in (("max_documents", "max_waiting"), ("max_body", "max_held")):
            if getattr(self, smaller) > getattr(self, larger):
                raise BiomedError(
                    f"{smaller} = {getattr(self, smaller):,} is more than {larger} = "
                    f"{getattr(self, larger):,}: such a request could never be taken"
                )


class Failed(NamedTuple):
    """The answer for a document that could not be annotated: a line without its text."""

    reason: str


Answer = bytes | Failed


class Job(NamedTuple):
    """A document of a request; `write` makes its answer from its identifier and annotation."""

    id: str
    text: str
    write: Callable[[str, Doc], Answer]


class Overloaded(Exception):
    """Too many documents are waiting."""


class BatchFailed(Exception):
    """A batch failed as a whole. The message says where, and quotes no text."""


@dataclass(eq=False)
class _Request:
    """A request in the queue: `waiting` has the places of the jobs that no batch has taken."""

    jobs: Sequence[Job]
    # A failure is a result too: asyncio would log an exception that nobody takes.
    done: asyncio.Future[list[Answer] | BatchFailed]
    waiting: deque[int]
    answers: dict[int, Answer] = field(default_factory=dict)


# A document: its request, and its place there.
_Place = tuple[_Request, int]
# A batch with less text than this says nothing of the speed.
_FEWEST_CHARACTERS = 1_000
# Characters in a second before any is measured. The first batch may have to wait for an engine.
_FIRST_SPEED = 2_000


class Batcher:
    """Collects documents of requests into batches, which a thread annotates.

    While the thread is busy, documents wait, and the next batch takes one from each request in
    turn: a short request does not wait for the end of a long one. All attributes belong to the
    thread of the event loop; the other thread only gets batches and returns answers. It calls
    `annotate` with the jobs of a batch, which returns an answer for each.
    """

    def __init__(self, annotate: Callable[[list[Job]], list[Answer]], limits: ServerLimits):
        self._annotate, self._limits = annotate, limits
        # All with documents that wait, and the number of these.
        self._requests: deque[_Request] = deque()
        self.waiting = 0
        self._handed = SimpleQueue[tuple[asyncio.AbstractEventLoop, list[_Place]] | None]()
        self._busy_since: float | None = None
        # Characters in a second of the last batch.
        self._speed: float = _FIRST_SPEED
        self._gathering: asyncio.TimerHandle | None = None
        # A daemon, so that a component that never returns does not keep the process alive.
        self._thread = Thread(target=self._run, name="annotation", daemon=True)

    @property
    def busy_time(self) -> float:
        """Seconds since the running batch began; 0 if none runs."""
        return 0.0 if self._busy_since is None else time.monotonic() - self._busy_since

    async def annotate(self, jobs: Sequence[Job]) -> list[Answer]:
        """Annotate documents. Whatever ends it, those that no batch has taken leave the queue.

        Raises:
            Overloaded: if too many documents wait, or no batch has taken one in time.
            TookTooLong: if the answers are not there in time. What has begun goes on.
            BatchFailed: if a batch with one of the documents failed as a whole.
        """
        if not jobs:
            return []
        if self.waiting + len(jobs) > self._limits.max_waiting:
            raise Overloaded
        done: asyncio.Future[list[Answer] | BatchFailed]
        done = asyncio.get_running_loop().create_future()
        request = _Request(jobs, done, deque(range(len(jobs))))
        self._requests.append(request)
        self.waiting += len(jobs)
        self._gather()
        try:
            max_wait = min(self._limits.max_wait, self._limits.timeout)
            await asyncio.wait([done], timeout=max_wait)
            if len(request.waiting) == len(jobs):
                raise Overloaded
            await asyncio.wait([done], timeout=self._limits.timeout - max_wait)
            if not done.done():
                raise TookTooLong
            answers = done.result()
            if isinstance(answers, BatchFailed):
                raise answers
            return answers
        finally:
            done.cancel()
            if request.waiting:
                self._requests.remove(request)
                self.waiting -= len(request.waiting)
                request.waiting.clear()

    async def close(self, timeout: float) -> bool:
        """End the thread after its batch; wait so many seconds, and return whether it has ended."""
        if self._thread.is_alive():
            self._handed.put(None)
            await asyncio.to_thread(self._thread.join, timeout)
        return not self._thread.is_alive()

    def _gather(self) -> None:
        """Begin a batch, now if it is full, else after a moment in which others may come."""
        if self._busy_since is not None:
            return  # the next batch begins when this one ends
        if self.waiting >= self._limits.batch_documents:
            self._begin()
        elif self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(self._limits.gathering_time, self._begin)

    def _begin(self) -> None:
        """Hand the next batch to the thread, unless it is busy or nothing waits."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        if self._busy_since is not None or not self._requests:
            return
        if self._thread.ident is None:
            self._thread.start()
        self._busy_since = time.monotonic()
        self._handed.put((asyncio.get_running_loop(), self._take()))

    def _take(self) -> list[_Place]:
        batch: list[_Place] = []
        characters = 0
        most = min(self._limits.batch_characters, self._speed * self._limits.batch_time)
        while self._requests and len(batch) < self._limits.batch_documents:
            request = self._requests[0]
            characters += len(request.jobs[request.waiting[0]].text)
            if batch and characters > most:
                break
            batch.append((request, request.waiting.popleft()))
            self._requests.popleft()
            if request.waiting:
                self._requests.append(request)
        self.waiting -= len(batch)
        return batch

    def _run(self) -> None:
        """Annotate batches; in the thread."""
        while (handed := self._handed.get()) is not None:
            loop, batch = handed
            answered: list[tuple[_Place, Answer | BatchFailed]]
            jobs = [request.jobs[place] for request, place in batch]
            try:
                answered = list(zip(batch, self._annotate(jobs), strict=True))
            except BaseException as error:  # whatever it is, the requests must get an answer
                failure = BatchFailed(explain_failure(error))
                answered = [(one, failure) for one in batch]
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(self._finish, answered)
            del handed, batch, jobs, answered  # the texts, while it waits for the next batch

    def _finish(self, answered: list[tuple[_Place, Answer | BatchFailed]]) -> None:
        """Give the answers of a batch to its requests, and begin the next one."""
        characters = sum(len(request.jobs[place].text) for (request, place), _ in answered)
        if characters > _FEWEST_CHARACTERS:  # of little text, the time is that of other things
            self._speed = characters / max(self.busy_time, 1e-3)
        self._busy_since = None
        for (request, place), answer in answered:
            if request.done.done():  # it was given up, or an earlier document failed
                continue
            if isinstance(answer, BatchFailed):
                request.done.set_result(answer)
                continue
            request.answers[place] = answer
            if len(request.answers) == len(request.jobs):
                request.done.set_result([request.answers[n] for n in range(len(request.jobs))])
        self._begin()
