"""Clean text for training: remove noise, other languages and duplicates, and report all counts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import srsly
from spacy.util import minibatch

from ..encoders.batching.concurrency import submit_ahead
from ..errors import BiomedError
from ..files.compression import COMPRESSED_ENDINGS, open_binary
from ..files.outputs import check_output, replacing_file, scratch_directory
from ..files.records import Layout
from ..files.sources import TEXTS, find_kind
from ..workers.process import ProcessPool, WorkerDied
from .deduplication import DuplicateIndex, NearDuplicates, Sketch, Sketcher, hash_text, normalize
from .sentences import RULES, LanguageIdentifier, SentenceFilter, SentenceSplitter, Thresholds
from .text_sources import read_documents, tell_unread

# Invisible characters: byte-order marks, zero-width spaces and joiners, soft hyphens.
_INVISIBLE = re.compile("[\u00ad\u200b-\u200d\u2060\ufeff]")

# Documents in a batch for a worker process, and maximum waiting batches per process.
_BATCH = 64
_WAITING = 4

OTHER_LANGUAGE, NO_STOP_WORDS = "other_language", "no_stop_words"
DUPLICATE, NEAR_DUPLICATE = "duplicate", "near_duplicate"
OF_OTHER_SOURCE = "_of_other_source"
IN_DUPLICATE = "in_duplicate_document"
NO_SENTENCE_LEFT = "no_sentence_left"

# Reasons to remove sentences and documents, in the order in which they are checked.
SENTENCE_REASONS = (
    *RULES,
    OTHER_LANGUAGE,
    NO_STOP_WORDS,
    IN_DUPLICATE,
    DUPLICATE,
    DUPLICATE + OF_OTHER_SOURCE,
)
DOCUMENT_REASONS = (
    *(kind + source for kind in (DUPLICATE, NEAR_DUPLICATE) for source in ("", OF_OTHER_SOURCE)),
    NO_SENTENCE_LEFT,
)


@dataclass(frozen=True, slots=True)
class CleaningSettings:
    """How to clean a corpus.

    Attributes:
        lang: code of the language to keep.
    """

    lang: str
    thresholds: Thresholds = Thresholds()
    near_duplicates: NearDuplicates = NearDuplicates()


@dataclass(slots=True)
class Account:
    """Counts of the input, the output, and what was removed, by reason.

    Words are separated by white space.
    """

    documents_in: int = 0
    documents_out: int = 0
    sentences_in: int = 0
    sentences_out: int = 0
    words_in: int = 0
    words_out: int = 0
    removed_documents: Counter[str] = field(default_factory=Counter)
    removed_sentences: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Account) -> Account:
        names = self.__slots__
        return Account(*(getattr(self, name) + getattr(other, name) for name in names))

    def to_json(self) -> dict[str, dict[str, Any]]:
        documents, sentences = self.removed_documents, self.removed_sentences
        return {
            "documents": {
                "in": self.documents_in,
                "out": self.documents_out,
                "removed": {reason: documents[reason] for reason in DOCUMENT_REASONS},
            },
            "sentences": {
                "in": self.sentences_in,
                "out": self.sentences_out,
                "removed": {reason: sentences[reason] for reason in SENTENCE_REASONS},
            },
            "words": {"in": self.words_in, "out": self.words_out},
        }


@dataclass(slots=True)
class CleaningReport:
    """The counts of each source by name, and the settings of the cleaning."""

    settings: CleaningSettings
    sources: dict[str, Account]

    @property
    def total(self) -> Account:
        return sum(self.sources.values(), Account())

    def to_json(self) -> dict[str, object]:
        return {
            "settings": asdict(self.settings),
            "sources": {name: account.to_json() for name, account in self.sources.items()},
            "total": self.total.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Source:
    """Texts of one origin: files and folders, and their name in the report."""

    name: str
    paths: tuple[Path, ...]


@dataclass(slots=True)
class Candidate:
    """A document: its well-formed sentences with hashes, and the others counted by rule."""

    words: int
    removed: Counter[str]
    sentences: list[str]
    sentence_keys: list[int]
    key: int
    sketch: Sketch | None


class Sifter:
    """Processes a document independently of other documents: all steps except deduplication."""

    def __init__(self, settings: CleaningSettings):
        self.splitter = SentenceSplitter(settings.lang)
        self.filter = SentenceFilter(settings.lang, settings.thresholds)
        self.identifier = LanguageIdentifier(settings.lang, settings.thresholds)
        self.sketcher = Sketcher(settings.near_duplicates)

    def sift(self, document: str) -> Candidate:
        removed: Counter[str] = Counter()
        well_formed, sentences = [], []
        for sentence in self.splitter.split(_INVISIBLE.sub("", document)):
            rule = self.filter.broken_rule(sentence)
            if rule is None:
                well_formed.append(sentence)
            else:
                removed[rule] += 1
        foreign = self.identifier.find_foreign(well_formed)
        for sentence, is_foreign in zip(well_formed, foreign, strict=True):
            if is_foreign:
                removed[OTHER_LANGUAGE] += 1
            elif self.filter.lacks_stop_words(sentence):
                removed[NO_STOP_WORDS] += 1
            else:
                sentences.append(sentence)
        normalized = [normalize(sentence) for sentence in sentences]
        text = " ".join(normalized)
        return Candidate(
            words=len(document.split()),
            removed=removed,
            sentences=sentences,
            sentence_keys=[hash_text(sentence) for sentence in normalized],
            key=hash_text(text),
            sketch=self.sketcher.sketch(text),
        )


@dataclass
class Deduplicator:
    """Removes duplicates from candidates, and counts everything for one source, by its number."""

    index: DuplicateIndex
    source: int
    account: Account = field(default_factory=Account)

    def keep(self, candidate: Candidate) -> list[str]:
        """The sentences to keep; empty if the document is removed."""
        account = self.account
        account.documents_in += 1
        account.words_in += candidate.words
        account.sentences_in += len(candidate.sentences) + candidate.removed.total()
        account.removed_sentences.update(candidate.removed)
        reason = self._find_duplicate(candidate)
        if reason is not None:
            account.removed_documents[reason] += 1
            account.removed_sentences[IN_DUPLICATE] += len(candidate.sentences)
            return []
        kept = []
        for sentence, key in zip(candidate.sentences, candidate.sentence_keys, strict=True):
            found = self.index.last_source("sentence", key, self.source)
            if found is None:
                kept.append(sentence)
            else:
                account.removed_sentences[self._name(DUPLICATE, found)] += 1
        if not kept:
            account.removed_documents[NO_SENTENCE_LEFT] += 1
            return []
        account.documents_out += 1
        account.sentences_out += len(kept)
        account.words_out += sum(len(sentence.split()) for sentence in kept)
        return kept

    def _find_duplicate(self, candidate: Candidate) -> str | None:
        """The reason why a document is a duplicate; None if it is not."""
        if not candidate.sentences:
            return None
        found = self.index.last_source("document", candidate.key, self.source)
        if found is not None:
            return self._name(DUPLICATE, found)
        if candidate.sketch is None:
            return None
        found = self.index.find_near(candidate.sketch, self.source)
        if found is not None:
            return self._name(NEAR_DUPLICATE, found)
        self.index.add_near(candidate.sketch, self.source)
        return None

    def _name(self, reason: str, source: int) -> str:
        return reason if source == self.source else reason + OF_OTHER_SOURCE


def clean_corpus(
    sources: Sequence[Source],
    output: Path,
    settings: CleaningSettings,
    *,
    text_field: str = "text",
    layout: Layout = Layout(),
    workers: int = 1,
    on_progress: Callable[[int, int], object] = lambda done, total: None,
) -> CleaningReport:
    """Clean sources and write them to one file, a document on each line.

    The steps are from Carrino et al. (2022, "Pre-trained Biomedical Language Models for Clinical
    NLP in Spanish", section 2). Sentences that are noisy, ill-formed or in another language are
    removed, and documents and sentences that occurred before, in this source or an earlier one.

    Args:
        sources: in the order in which they are written. They are read twice: first all documents
            are counted, so that a damaged file is found at once.
        output: text file; compressed if the name ends in .gz, .xz or .zst. The report is written
            next to it (`report_path`).
        text_field, layout: as in `read_documents`.
        workers: number of processes that split and filter; the result does not depend on it.
        on_progress: called with the number of documents done and the total.

    Raises:
        BiomedError: if a source cannot be read, the output cannot be written, the place of the
            report has another file, the language is unknown, a package is not installed, or nothing
            is left. Then nothing is written.
    """
    if find_kind(output.name, TEXTS) is None:
        raise BiomedError(
            f"{output}: the output is text; let the name end in .txt, .txt.gz, .txt.xz or .txt.zst"
        )
    paths = [path for source in sources for path in source.paths]
    check_output(output, paths)
    _check_report(report_path(output))
    for path in paths:
        tell_unread(path)
    with (
        replacing_file(report_path(output), paths) as new_report,
        replacing_file(output, paths) as new_output,
        scratch_directory(output) as folder,
        open_sifter(settings, workers) as sift_all,
        closing(DuplicateIndex(folder / "seen", settings.near_duplicates.similarity)) as index,
    ):
        read = partial(read_documents, text_field=text_field, layout=layout)
        total = sum(1 for _ in read(paths))
        on_progress(0, total)
        done = 0
        report = CleaningReport(settings, {})
        with open_binary(new_output, "wb", output.suffix.lower()) as file:
            for number, source in enumerate(sources):
                deduplicator = Deduplicator(index, number)
                for candidate in sift_all(read(source.paths)):
                    done += 1
                    kept = deduplicator.keep(candidate)
                    if kept:
                        file.write(f"{' '.join(kept)}\n".encode())
                    on_progress(done, total)
                report.sources[source.name] = deduplicator.account
        if report.total.documents_out == 0:
            raise BiomedError(
                f"{output}: not written, since no document would be left; is {settings.lang!r} the "
                "language of the sources?"
            )
        srsly.write_json(new_report, report.to_json())
    return report


def report_path(output: Path) -> Path:
    """The path of the report on a cleaned corpus: `text.report.json` next to `text.txt.xz`."""
    if output.suffix.lower() in COMPRESSED_ENDINGS:
        output = output.with_suffix("")
    return output.with_suffix(".report.json")


def _check_report(path: Path) -> None:
    """Refuse to replace a file that is not a report on a cleaned corpus."""
    if not path.exists():
        return
    try:
        keys = set(json.loads(path.read_text(encoding="utf8")))
        is_report = keys == {"settings", "sources", "total"}
    except (OSError, ValueError, TypeError):
        is_report = False
    if not is_report:
        raise BiomedError(
            f"{path}: the report would be written here, and this is not such a report: move it "
            "away, or name another output"
        )


@contextmanager
def open_sifter(
    settings: CleaningSettings, workers: int
) -> Iterator[Callable[[Iterable[str]], Iterator[Candidate]]]:
    """Open a function that makes a candidate of each text, in order, on several processes."""
    sifter = Sifter(settings)
    if workers == 1:
        yield partial(map, sifter.sift)
        return
    openings, most = repeat({"sifter": sifter}), workers * _WAITING
    try:
        with ProcessPool(f"{__name__}:_SiftWorker", workers, openings) as pool:

            def submit(texts: list[str]) -> Future[Iterable[Candidate]]:
                return pool.submit("sift", texts=texts)

            yield lambda texts: chain.from_iterable(
                submit_ahead(submit, minibatch(texts, _BATCH), most)
            )
    except WorkerDied as error:
        raise BiomedError(
            "a process was killed, as when memory runs out; clean again with fewer --workers"
        ) from error


class _SiftWorker:
    def open(self, sifter: Sifter) -> None:
        self._sifter = sifter

    def sift(self, texts: list[str]) -> list[Candidate]:
        return [self._sifter.sift(text) for text in texts]
