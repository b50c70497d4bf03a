"""The application of a server, for uvicorn or another ASGI server, and its run on an address."""

from __future__ import annotations

import ipaddress
import logging
import math
import socket
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from spacy.language import Language

from ..bulk.shards import explain_failure
from ..errors import BiomedError, install_command, quote
from ..pipeline.pipeline_loading import load_pipeline
from .batching import ServerLimits

if TYPE_CHECKING:
    from .guard import Application

logger = logging.getLogger(__package__)
# Names of this machine in the header `Host`.
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
# Bytes of a request's first line and headers.
_LONGEST_HEAD = 16_384
# Seconds that a connection stays open between two requests.
_LONGEST_IDLE = 75


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
    _require_serving()
    from .routes import create_guarded_app

    return create_guarded_app(nlp, limits or ServerLimits(), hosts=hosts, token=token)


def _require_serving() -> None:
    """Raise BiomedError if the extra `serve` is not installed."""
    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise BiomedError(f"a server needs fastapi and uvicorn: {install_command('serve')}")


def serve_pipeline(
    pipeline: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    limits: ServerLimits | None = None,
    hosts: Iterable[str] = (),
    token: str | None = None,
    on_start: Callable[[str, bool], None] = lambda address, is_loopback: None,
) -> None:
    """Serve a pipeline until the process gets SIGINT or SIGTERM; then finish what has begun.

    Args:
        pipeline: installed package or pipeline directory.
        host: IP address to listen on; by default programs of this machine alone reach it.
        port: TCP port; 0 for a free one.
        hosts: further names in the header `Host`. On a loopback address other names than this
            machine's are refused; on another address all are taken if none is given.
        token: that requests with texts have to send.
        on_start: called with the address, and whether it is a loopback address.

    Raises:
        BiomedError: if the pipeline cannot be read, the address cannot be listened on, or the extra
            `serve` is not installed.
    """
    _require_serving()
    import uvicorn

    limits = limits or ServerLimits()
    with _listen(host, port) as listener:
        bound, bound_port = listener.getsockname()[:2]
        is_loopback = ipaddress.ip_address(bound.partition("%")[0]).is_loopback
        names = {*hosts, *((*LOOPBACK_NAMES, bound) if is_loopback else ())}
        app = create_app(load_pipeline(pipeline), limits, hosts=names or None, token=token)
        _log_without_texts()
        config = uvicorn.Config(
            app,
            http="h11",
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_LONGEST_HEAD,
            # Longer than clients keep theirs, or they send to a connection that is being closed.
            timeout_keep_alive=_LONGEST_IDLE,
            # Everything that has begun is answered after the time that a request has.
            timeout_graceful_shutdown=math.ceil(2 * limits.timeout) + 1,
        )
        shown = f"[{bound}]" if ":" in bound else bound
        on_start(f"http://{shown}:{bound_port}", is_loopback)
        with suppress(KeyboardInterrupt):  # which uvicorn raises again after the last answer
            uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        # A name would be looked up, perhaps on another machine.
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise BiomedError(f"{quote(host)}: no IP address; give one to --host") from error
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        return socket.create_server((str(address), port), family=family, backlog=1024)
    except OSError as error:
        raise BiomedError(
            f"{address}, port {port}: {error.strerror}; give another --host or --port"
        ) from error


class _Formatter(logging.Formatter):
    """Writes of exceptions the type and the place alone, since their messages may quote texts."""

    def formatException(self, ei: tuple) -> str:
        error = ei[1]
        return explain_failure(error) if error is not None and error.__traceback__ else ""

    def formatStack(self, stack_info: str) -> str:
        return ""


def _log_without_texts() -> None:
    """Write the log to standard error, and of the pipeline's warnings the kind and the place."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S%z"))
    for name in (logger.name, "uvicorn", "asyncio"):
        one = logging.getLogger(name)
        one.handlers, one.propagate = [handler], False
        one.setLevel(logging.INFO if name == logger.name else logging.WARNING)

    def show(message: object, category: type, filename: str, lineno: int, *_: object) -> None:
        logger.warning("%s in %s:%d", category.__name__, Path(filename).name, lineno)

    warnings.showwarning = show  # type: ignore[assignment]
