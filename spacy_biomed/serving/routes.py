"""The paths of a server, and its page: a form whose script asks the other paths."""

from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

from fastapi import FastAPI, HTTPException
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from fastapi.routing import APIRoute
from spacy.language import Language
from spacy.tokens import Doc
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.requests import Request

from .. import __version__
from ..bulk.time_limit import TookTooLong
from ..errors import escape
from ..files.records import TWICE, parse_json
from ..files.templates import read_template
from . import messages
from .annotator import Annotator, write_json
from .batching import Answer, Batcher, BatchFailed, Failed, Job, Overloaded, ServerLimits
from .guard import Application, Guard, overloaded

PAGE_FILES = Path(__file__).parent / "page_files"

# What is shown in the empty field, by language of the pipeline; in others an example of spaCy's.
_EXAMPLES = {
    "en": "Aspirin reduced the risk of colorectal cancer.",
    "es": "María Pérez, de 58 años, ingresó el 12/03/2021 por un carcinoma de colon.",
}

JSON = "application/json"
# Characters of a message.
_LONGEST_LINE = 300

# Statuses of answers that are a line, for the OpenAPI description.
_LINES = {
    400: "The body is not JSON.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body, a text or the number of documents is too large.",
    422: "A field is wrong, or the pipeline could not read the text.",
    429: "Too many requests are waiting: send it again, after `Retry-After`.",
    500: "The server failed.",
    504: "The pipeline did not finish in time.",
}
# Lines for errors that Starlette and FastAPI find.
_KNOWN_ERRORS = {
    400: "the body is not JSON in UTF-8",
    404: "no such path; /openapi.json lists them",
    405: "not with this method; /openapi.json lists them",
}
_NO_DEIDENTIFICATION = {409: "The pipeline finds no personal data."}

Write = Callable[[str, Doc], Answer]


def _describe_lines(lines: dict[int, str]) -> dict[int | str, dict[str, object]]:
    return {code: {"description": line, "model": messages.Problem} for code, line in lines.items()}


def create_guarded_app(
    nlp: Language, limits: ServerLimits, *, hosts: Iterable[str] | None, token: str | None
) -> Application:
    """Create the application with its guard; see `create_app`."""
    limits = replace(limits, max_characters=min(limits.max_characters, nlp.max_length))
    annotator = Annotator(nlp, limits.timeout)
    form = write_form(
        nlp,
        max_characters=limits.max_characters,
        has_token=token is not None,
        can_deidentify=not annotator.no_deidentification,
        needs_id=annotator.needs_id,
    )
    batcher = Batcher(annotator.annotate, limits)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        await batcher.close(limits.timeout)

    app = FastAPI(
        title="spacy-biomed",
        summary=f"The pipeline {nlp.meta['lang']}_{nlp.meta['name']} {nlp.meta['version']}",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,  # these pages load scripts from another server
        redoc_url=None,
        redirect_slashes=False,
        # What OpenTelemetry records of a request may have its text.
        telemetry={"tracing": False, "metrics": False, "logs": False, "auto_configure": False},
    )
    app.router.route_class = _Route
    _add_error_lines(app)
    _add_page(app, form)
    _add_work(app, _Requests(annotator, batcher, limits))
    paths = {str(getattr(route, "path", "")) for route in app.routes}
    return Guard(app, limits, paths=paths, hosts=hosts, token=token)


class _Request(Request):
    """A request whose JSON is refused if two fields of an object have one name."""

    async def json(self) -> Any:
        try:
            return parse_json(await self.body())
        except ValueError as error:
            if str(error) == TWICE:
                raise HTTPException(422, TWICE) from None
            raise


class _Route(APIRoute):
    """A route whose handler gets a `_Request`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_checked(request: Request) -> Response:
            return await handle(_Request(request.scope, request.receive))

        return handle_checked


class _Requests:
    """Checks documents of requests, and turns answers into responses."""

    def __init__(self, annotator: Annotator, batcher: Batcher, limits: ServerLimits):
        self.annotator, self.batcher, self.limits = annotator, batcher, limits

    async def answer(self, document: messages.DocumentToRead, write: Write) -> Response:
        (answer,) = await self._annotate([self._make_job(document, 0, write)])
        if isinstance(answer, Failed):
            raise HTTPException(422, f"the pipeline could not read this text: {answer.reason}")
        return Response(answer, media_type=JSON)

    async def answer_batch(self, batch: messages.BatchToRead, write: Write) -> Response:
        count, limit = len(batch.documents), self.limits.max_documents
        if count > limit:
            raise HTTPException(413, f"{count:,} documents; send at most {limit:,} at a time")
        jobs = [self._make_job(one, place, write) for place, one in enumerate(batch.documents)]
        answers = await self._annotate(jobs)
        bodies = (
            write_json({"id": job.id, "error": answer.reason})
            if isinstance(answer, Failed)
            else answer
            for job, answer in zip(jobs, answers, strict=True)
        )
        return Response(b'{"documents":[' + b",".join(bodies) + b"]}", media_type=JSON)

    def check_deidentification(self, documents: Iterable[messages.DocumentToRead]) -> None:
        """Refuse to de-identify what cannot be."""
        if self.annotator.no_deidentification:
            raise HTTPException(409, self.annotator.no_deidentification)
        if self.annotator.needs_id and any(one.id is None for one in documents):
            raise HTTPException(
                422, "a document has no id, on which the pipeline's surrogates depend: give one"
            )

    def _make_job(self, document: messages.DocumentToRead, place: int, write: Write) -> Job:
        length, limit = len(document.text), self.limits.max_characters
        if length > limit:
            raise HTTPException(
                413, f"document {place} has {length:,} characters; send at most {limit:,}"
            )
        return Job(str(place) if document.id is None else document.id, document.text, write)

    async def _annotate(self, jobs: list[Job]) -> list[Answer]:
        try:
            return await self.batcher.annotate(jobs)
        except Overloaded:
            raise overloaded() from None
        except TookTooLong:
            raise HTTPException(
                504, f"not finished within {self.limits.timeout:g} s; send less at a time"
            ) from None
        except BatchFailed as error:
            raise HTTPException(500, f"the pipeline failed: {error}") from None


def _add_work(app: FastAPI, requests: _Requests) -> None:
    annotator, batcher = requests.annotator, requests.batcher
    lines = _describe_lines(_LINES)

    @app.post("/annotate", responses=lines, response_model=messages.AnnotatedDocument)
    async def annotate(document: messages.DocumentToRead) -> Response:
        """Annotate a text."""
        return await requests.answer(document, annotator.write_findings)

    @app.post("/annotate/batch", responses=lines, response_model=messages.AnnotatedBatch)
    async def annotate_batch(batch: messages.BatchToRead) -> Response:
        """Annotate texts."""
        return await requests.answer_batch(batch, annotator.write_findings)

    able_lines = _describe_lines({**_LINES, **_NO_DEIDENTIFICATION})

    @app.post("/deidentify", responses=able_lines, response_model=messages.DeidentifiedDocument)
    async def deidentify(document: messages.DocumentToRead) -> Response:
        """Replace personal data in a text by tags or surrogates, as the pipeline is set."""
        requests.check_deidentification([document])
        return await requests.answer(document, annotator.write_deidentified)

    @app.post("/deidentify/batch", responses=able_lines, response_model=messages.DeidentifiedBatch)
    async def deidentify_batch(batch: messages.BatchToRead) -> Response:
        """Replace personal data in texts by tags or surrogates, as the pipeline is set."""
        requests.check_deidentification(batch.documents)
        return await requests.answer_batch(batch, annotator.write_deidentified)

    @app.get("/health", response_model=messages.Health, responses={503: {"model": messages.Health}})
    async def health() -> Response:
        """Whether the pipeline works: 503 if a batch takes longer than a request may."""
        is_stuck = batcher.busy_time > requests.limits.timeout
        status, code = ("stuck", 503) if is_stuck else ("ok", 200)
        return JSONResponse({"status": status, "waiting": batcher.waiting}, code)


def find_example(lang: str) -> str:
    """A sentence in a language: ours, else the first of spaCy's; "" if there is none."""
    if lang in _EXAMPLES:
        return _EXAMPLES[lang]
    try:
        return import_module(f"spacy.lang.{lang}.examples").sentences[0]
    except ImportError:
        return ""


def write_form(nlp: Language, **settings: object) -> str:
    """The page, with the settings of its template. Colours of labels are in alphabetical order."""
    return read_template(PAGE_FILES / "form.html.jinja").render(
        name=f"{nlp.meta['lang']}_{nlp.meta['name']}",
        version=nlp.meta["version"],
        lang=nlp.lang,
        example=find_example(nlp.lang or ""),
        labels=sorted({label for own in nlp.pipe_labels.values() for label in own}),
        **settings,
    )


def _add_page(app: FastAPI, form: str) -> None:
    @app.get("/", include_in_schema=False)
    async def show_form() -> Response:
        return HTMLResponse(form)

    @app.get("/page/style.css", include_in_schema=False)
    async def send_style() -> Response:
        return FileResponse(PAGE_FILES / "style.css")

    @app.get("/page/script.js", include_in_schema=False)
    async def send_script() -> Response:
        return FileResponse(PAGE_FILES / "script.js")


def _add_error_lines(app: FastAPI) -> None:
    """Answer errors by one line, without what was sent."""

    @app.exception_handler(AnyHTTPException)
    async def refuse(_: Request, error: AnyHTTPException) -> Response:
        line = _KNOWN_ERRORS.get(error.status_code) or str(error.detail)
        return JSONResponse({"error": line}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def refuse_fields(_: Request, error: RequestValidationError) -> Response:
        return JSONResponse({"error": _explain(error)}, 422)

    @app.exception_handler(Exception)
    async def fail(_: Request, error: Exception) -> Response:
        # The guard writes to the log where it failed.
        return JSONResponse({"error": "the server failed; its log says where"}, 500)


def _explain(error: RequestValidationError) -> str:
    """The first error of a body: where and what, without the value."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return f"not JSON at character {first['loc'][-1]}"
    if first["type"] in ("model_attributes_type", "missing") and len(first["loc"]) == 1:
        return "send a JSON object, with the header Content-Type: application/json"
    where = ".".join(map(str, first["loc"][1:])) or "the body"
    what = first["msg"].removeprefix("Value error, ")
    if first["type"] == "model_attributes_type":
        what = "not a JSON object"
    return escape(f"{where}: {what}", _LONGEST_LINE)
