"""Conversations with servers of a pipeline of rules."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import httpx
import pytest
from served_pipelines import create_rules, entered, released
from spacy.language import Language

from spacy_biomed.serving import ServerLimits, create_app


@pytest.fixture
def rules() -> Iterator[Language]:
    """The pipeline of rules. What stays in it is released after the test."""
    entered.clear()
    released.clear()
    yield create_rules()
    released.set()


@pytest.fixture
def ask(rules: Language) -> Callable[..., Any]:
    """Run a conversation with an application of the pipeline of rules, in this process."""

    def run(
        talk: Callable[[httpx.AsyncClient], Awaitable[Any]],
        *,
        nlp: Language = rules,
        limits: dict[str, Any] | None = None,
        **settings: Any,
    ) -> Any:
        async def converse() -> Any:
            app = create_app(nlp, ServerLimits(**limits or {}), **settings)
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                return await asyncio.wait_for(talk(client), 60)

        return asyncio.run(converse())

    return run


@pytest.fixture
def post(ask: Callable[..., Any]) -> Callable[..., httpx.Response]:
    """Post one request to an application of the pipeline of rules."""

    def run(
        path: str,
        json: Any = None,
        *,
        content: bytes | None = None,
        headers: dict[str, str] | None = None,
        **settings: Any,
    ) -> httpx.Response:
        body = {"json": json} if content is None else {"content": content}
        return ask(lambda client: client.post(path, headers=headers, **body), **settings)

    return run
