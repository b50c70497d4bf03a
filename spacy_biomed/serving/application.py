"""The application of a server, for uvicorn or another ASGI server."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

from spacy.language import Language

from ..errors import BiomedError, install_command
from .guard import Application
from .limits import ServerLimits


def create_app(
    nlp: Language,
    limits: ServerLimits | None = None,
    *,
    hosts: Iterable[str] | None = None,
    token: str | None = None,
) -> Application:
    """An ASGI application that annotates and de-identifies texts with a pipeline.

    Args:
        nlp: the pipeline. Leave it to the application: it is used in another thread, and gets a
            disabled `biomed_deidentify` if it has none.
        hosts: names that requests may use for this server (header `Host`); None for any. Name them
            where only programs of this machine reach it, or pages of any site can ask it by a name
            of their own.
        token: that requests with texts have to send as `Authorization: Bearer TOKEN`.

    Raises:
        BiomedError: if the extra `serve` is not installed.

    Examples:
        >>> import asyncio, httpx, spacy
        >>> nlp = spacy.blank("en")
        >>> nlp.add_pipe("entity_ruler").add_patterns([{"label": "DRUG", "pattern": "aspirin"}])
        >>> transport = httpx.ASGITransport(create_app(nlp))
        >>> async def annotate(text):
        ...     async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        ...         return (await client.post("/annotate", json={"text": text})).json()
        >>> asyncio.run(annotate("No aspirin."))["entities"][0]["start"]
        3
    """
    require_serving("the server")
    from .routes import create_guarded_app

    return create_guarded_app(nlp, limits or ServerLimits(), hosts=hosts, token=token)


def require_serving(what: str) -> None:
    """Raise BiomedError if the extra `serve`, which `what` needs, is not installed."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise BiomedError(f"{what} needs fastapi and uvicorn: {install_command('serve')}")
