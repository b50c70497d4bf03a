"""What the thread of a server does: annotate a batch and write the answers."""

import json

from spacy.language import Language
from spacy.tokens import Doc

from ..annotations.document_keys import DOCUMENT_ID
from ..bulk.shards import annotate_items, explain_failure
from ..bulk.time_limit import DEFAULT_SECONDS
from ..errors import BiomedError
from ..files.sources import Item
from ..formats.findings import describe, find_layers
from ..pipeline.deidentify import FACTORY, BiomedDeidentifier, add_deidentifier
from ..pipeline.encoder_pipe import EncoderPipe
from ..pipeline.factories import find_names
from ..pipeline.linking.component import BiomedLinker
from .batching import Answer, Failed, Job


class Annotator:
    """Annotates batches with a pipeline, which from now on belongs to it, in one thread.

    A `biomed_deidentify` of the pipeline is disabled and only runs for requests that want it; a
    pipeline without one gets one, as with `spacy biomed deidentify`. `no_deidentification` says why
    texts cannot be de-identified, and `needs_id` whether surrogates depend on a document's id.

    Raises:
        BiomedError: if a terminology of the pipeline cannot be opened.
    """

    def __init__(self, nlp: Language, max_seconds: float = DEFAULT_SECONDS):
        self._nlp, self._max_seconds = nlp, max_seconds
        for _, pipe in nlp.components:
            if isinstance(pipe, BiomedLinker):
                pipe.open()
        self.layers = find_layers(nlp)
        self.no_deidentification, self.needs_id = "", False
        self._deidentifier: BiomedDeidentifier | None = None
        for name in set(nlp.disabled):
            if nlp.get_pipe_meta(name).factory == FACTORY:
                nlp.enable_pipe(name)
        component = add_deidentifier(nlp)
        name = find_names(nlp, FACTORY)[0]
        try:
            component.check_pipeline()
            if component.mode == "surrogates":
                component.make_key("")  # needs a secret
        except BiomedError as error:
            self.no_deidentification = str(error)
        else:
            self._deidentifier = component
            self.needs_id = nlp.get_pipe_config(name)["key_from"] == "document_id"
        nlp.disable_pipe(name)

    def annotate(self, jobs: list[Job]) -> list[Answer]:
        """Annotate a batch; return what `write` of each job makes of its document, or a failure."""
        items = [Item(job.id, job.text) for job in jobs]
        # In int8 without measured ranges, what is found in a text depends on its batch. Which
        # words are personal must not.
        is_alone = any(job.write == self.write_deidentified for job in jobs)
        # What the pipeline learns from the texts is forgotten with the batch.
        with self._nlp.memory_zone():
            size = 1 if is_alone else max(len(items), 1)
            docs = annotate_items(self._nlp, items, size, self._max_seconds)
            answers = [_answer(job, doc) for job, doc in zip(jobs, docs, strict=True)]
        for _, pipe in self._nlp.components:
            if isinstance(pipe, EncoderPipe | BiomedLinker):
                pipe.forget_words()
        return answers

    def write_findings(self, id: str, doc: Doc) -> bytes:
        """What was found, as `spacy biomed annotate` writes it to JSON lines, without a number."""
        return write_json({"id": id, **describe(doc, self.layers)})

    def write_deidentified(self, id: str, doc: Doc) -> Answer:
        """The text without personal data, or why there is none."""
        if self._deidentifier is None:
            return Failed(self.no_deidentification)
        doc.user_data[DOCUMENT_ID] = id
        deidentified = self._deidentifier(doc)._.deidentified
        if deidentified is None:
            return Failed("no component has looked for mentions of personal data")
        replacements = [one._asdict() for one in deidentified.replacements]
        return write_json({"id": id, "text": deidentified.text, "replacements": replacements})


def write_json(value: dict[str, object]) -> bytes:
    """Write JSON in UTF-8, without numbers that JSON does not have."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _answer(job: Job, doc: Doc | str) -> Answer:
    if isinstance(doc, str):
        return Failed(doc)
    try:
        return job.write(job.id, doc)
    except Exception as error:
        return Failed(explain_failure(error))
