"""What every request passes before and after the application: who asks, how much, how long."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import suppress

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from ..bulk.shards import explain_failure
from .batching import ServerLimits

logger = logging.getLogger(__package__)

Application = Callable[[Scope, Receive, Send], Awaitable[None]]

# Nothing but this server's own files.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}

# Bytes of a refused body that are read and thrown away, so that the client, which is still sending,
# reads the answer instead of a reset of the connection.
_DRAINED = 100_000_000
# A header `Host`: an address of IPv6, or a name, and perhaps a port.
_HOST = re.compile(r"(?:\[([\da-fA-F:.]+)\]|([\w.-]+))(?::\d*)?", re.ASCII)
# Values of `Sec-Fetch-Site` of requests that no page of another site has made.
_OWN_SITE = ("", "same-origin", "none")
_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
# The status of a request whose client has gone, in the log only.
_GONE = 499


class Guard:
    """An ASGI application around another one.

    It refuses requests for other hosts, from pages of other sites, without the token, or that are
    too large or too slow. It reads bodies, and cancels the work for clients that have gone. Where
    the application fails, it answers with one line of JSON. It logs method, path (of `paths`) and
    status, and nothing that a client has written.
    """

    def __init__(
        self,
        app: Application,
        limits: ServerLimits,
        *,
        paths: Collection[str],
        hosts: Iterable[str] | None = None,
        token: str | None = None,
    ):
        self._app, self._limits = app, limits
        self._paths = frozenset(paths)
        self._hosts = None if hosts is None else frozenset(map(str.lower, hosts))
        self._token = token
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        started = time.monotonic()
        try:
            await self._handle(exchange)
        except ClientDisconnect:
            exchange.status = _GONE
        except HTTPException as refusal:
            # With `Expect`, the client waits before it sends the body.
            if refusal.status_code != 408 and "expect" not in exchange.headers:
                with suppress(asyncio.TimeoutError, ClientDisconnect):
                    await asyncio.wait_for(_drain(exchange), self._limits.timeout)
            await exchange.answer(refusal.status_code, refusal.detail, refusal.headers)
        except Exception as error:
            logger.error("failed: %s", explain_failure(error))
            await exchange.answer(500, "the server failed; its log says where")
        finally:
            self._held -= exchange.held
            self._log(exchange, time.monotonic() - started)

    async def _handle(self, exchange: _Exchange) -> None:
        self._check(exchange)
        try:
            body = await asyncio.wait_for(self._read(exchange), self._limits.timeout)
        except asyncio.TimeoutError:
            line = f"the body did not arrive in {self._limits.timeout:g} s"
            raise HTTPException(408, line) from None
        await exchange.run(self._app, body)

    def _check(self, exchange: _Exchange) -> None:
        headers = exchange.headers
        if self._hosts is not None and _host_name(headers.get("host", "")) not in self._hosts:
            # A page of another site can only get here by a name of its own for this address.
            raise HTTPException(421, "the header Host names another server; see --allow-host")
        if exchange.scope["method"] != "POST":
            return
        if headers.get("sec-fetch-site", "") not in _OWN_SITE:
            raise HTTPException(403, "pages of other sites may not ask")
        if self._token is not None:
            scheme, _, given = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(
                given.strip().encode(), self._token.encode()
            ):
                how = {"www-authenticate": "Bearer"}
                raise HTTPException(401, "send the header Authorization: Bearer TOKEN", how)

    async def _read(self, exchange: _Exchange) -> bytes:
        """Read the body, and hold the bytes until the request is answered."""
        limit = self._limits.max_body
        line = f"the body is larger than {limit:,} bytes; send less at a time"
        too_large = HTTPException(413, line)
        length = exchange.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > limit:
            raise too_large
        body = bytearray()
        async for chunk in exchange.chunks:
            if len(body) + len(chunk) > limit:
                raise too_large
            if self._held + len(chunk) > self._limits.max_held:
                raise overloaded()
            exchange.held += len(chunk)
            self._held += len(chunk)
            body += chunk
        return bytes(body)

    def _log(self, exchange: _Exchange, seconds: float) -> None:
        scope = exchange.scope
        client = (scope.get("client") or ("-",))[0]
        method = scope["method"] if scope["method"] in _METHODS else "-"
        path = scope["path"] if scope["path"] in self._paths else "-"
        logger.info("%s %s %s %d %.0f ms", client, method, path, exchange.status, seconds * 1000)


class _Exchange:
    """A request and its answer, whose status is 0 before it.

    `chunks` gives what is left of the body, of which `held` bytes are in memory.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send):
        self.scope, self._receive, self._send = scope, receive, send
        request = Request(scope, receive)
        self.headers, self.chunks = request.headers, request.stream()
        self.status, self.held = 0, 0
        self._is_answered = False

    async def run(self, app: Application, body: bytes) -> None:
        """Run the application on the body, and cancel it if the client closes the connection."""
        gone = asyncio.ensure_future(self._receive())
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            return messages.pop() if messages else await asyncio.shield(gone)

        work = asyncio.ensure_future(app(self.scope, receive, self.send))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done() and self._is_answered:
                await work  # the server tells of the end of the answer in the same way
            if not work.done():
                raise ClientDisconnect
            work.result()
        finally:
            for task in (work, gone):
                task.cancel()
            await asyncio.gather(work, gone, return_exceptions=True)

    async def send(self, message: Message) -> None:
        """Send a message of the answer, with our headers."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            own = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", ()), *own]}
        else:
            self._is_answered = not message.get("more_body", False)
        await self._send(message)

    async def answer(
        self, status: int, line: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer by a line, unless an answer has begun."""
        if not self.status:
            response = JSONResponse({"error": line}, status, headers)
            await response(self.scope, self._receive, self.send)


async def _drain(exchange: _Exchange) -> None:
    left = _DRAINED
    async for chunk in exchange.chunks:
        left -= len(chunk)
        if left < 0:
            return


def overloaded() -> HTTPException:
    """The refusal of a request for which there is no room."""
    line = "too many requests are waiting; send it again later"
    return HTTPException(429, line, {"retry-after": "1"})


def _host_name(host: str) -> str:
    """The name in a header `Host`, without the port and the brackets of IPv6."""
    match = _HOST.fullmatch(host)
    return "" if match is None else (match[1] or match[2]).lower()
