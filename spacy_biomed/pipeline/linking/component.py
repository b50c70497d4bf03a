"""The component `biomed_linker`: the concepts of a terminology that entities mean."""

from __future__ import annotations

import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import srsly
from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.scorer import PRFScore
from spacy.tokens import Doc, Span, SpanGroup
from spacy.training import Example
from spacy.util import SimpleFrozenDict

from ...annotations.document_keys import NIL, declare_extension, get_user_data, span_key
from ...annotations.seen_mentions import mentions_of
from ...errors import BiomedError, DamagedPipelineError, list_choices
from ...files.outputs import MARKER
from ...terminologies.terminology import Terminology
from ..checksums import check_component, forget_checksums
from ..described import Described, ShownScores
from ..encoder_head import check_least, check_share
from ..factories import register_factory
from ..mention_layer import gold_spans
from .candidates import CandidateFinder, KnownNames, LinkedDocument
from .ranker import DEFAULT_RANKER, LinkRanker, Ranked, train_linking

FACTORY = "biomed_linker"
# The extensions of a span; their values are stored together, by its label.
CODE, CODE_NAME, CODE_CONFIDENCE, CANDIDATES = "code", "code_name", "code_confidence", "candidates"
_EXTENSIONS = (CODE, CODE_NAME, CODE_CONFIDENCE, CANDIDATES)
_LINKED = "linked"
_INDEXES = "terminologies"
# Between several identifiers of one mention.
_BETWEEN = re.compile(r"[|,;+]")
_UNTRAINED = (KnownNames({}, {}), DEFAULT_RANKER)


class BiomedLinker(Described, Pipe):
    """Give entities the codes of a terminology.

    Candidates are the concepts that have the mention as a name, whatever the case, accents,
    punctuation, number and word order. Its long form or genus in the document, its parts, similar
    names and other mentions give more. A small network gives each a probability, and
    the rest to none of them. It is trained, and calibrated, on mentions with identifiers; without
    that it has general weights.

    Attributes:
        terminologies: name to the directory of a terminology (`spacy biomed terminology build`),
            which stays there. `add_terminology` adds one that is saved with the pipeline.
        labels: label to the name of the terminology of its entities, "*" for all others. By default
            all labels have the only terminology.
        spans_key: span group of the entities; None for `doc.ents`.
        threshold: smallest probability of a code, 0 to 1.
        most_candidates: length of `span._.candidates`, 1 or more.

    Extensions of spans:
        `code`, `code_name`, `code_confidence`: the code, its preferred name and the probability
        that it is right if the entity is; None without a code. `ent.kb_id_` is the code too.
        `candidates`: (code, name, probability) of the most probable concepts, also below the
        threshold; None if nobody looked.

    Examples:
        >>> import spacy
        >>> nlp = spacy.load("en_biomed_ner")  # doctest: +SKIP
        >>> settings = {"terminologies": {"hpo": "terms/hpo"}, "labels": {"DISEASE": "hpo"}}
        >>> linker = nlp.add_pipe("biomed_linker", config=settings)  # doctest: +SKIP
        >>> [(ent.text, ent._.code) for ent in nlp("No seizures.").ents]  # doctest: +SKIP
        [('seizures', 'HP:0001250')]
    """

    default_name, task_name = FACTORY, "entity linking"
    usage_line = "print([(ent.text, ent._.code, ent._.code_name) for ent in doc.ents])"

    def __init__(
        self,
        name: str = FACTORY,
        *,
        terminologies: dict[str, str] = SimpleFrozenDict(),
        labels: dict[str, str] = SimpleFrozenDict(),
        spans_key: str | None = None,
        threshold: float = 0.5,
        most_candidates: int = 5,
    ):
        check_share(name, "threshold", threshold)
        check_least(name, "most_candidates", most_candidates, 1)
        for extension in _EXTENSIONS:
            declare_extension(extension, partial(_get_linked, extension), on=Span)
        self.name = name
        self.scorer = partial(score_links, spans_key=spans_key, read_ids=self._read_present_ids)
        self.labels_of = dict(labels)
        self._spans_key = spans_key
        self._threshold = threshold
        self._most_candidates = most_candidates
        self._paths = {name: Path(path) for name, path in terminologies.items()}
        self._saved: set[str] = set()
        self._trained: dict[str, tuple[KnownNames, LinkRanker]] = {}
        self._finders: dict[str, CandidateFinder] = {}

    @classmethod
    def shown_scores(cls, name: str, settings: Mapping[str, object]) -> ShownScores:
        return ShownScores(averages={"Codes": "links"})

    def add_terminology(self, name: str, path: Path | str) -> None:
        """Add a terminology that is copied to where the pipeline is saved."""
        self._paths[name] = Path(path)
        self._saved.add(name)
        self._finders.pop(name, None)

    def open(self) -> None:
        """Open the terminologies before the first entity does; BiomedError if one cannot be."""
        for name in self._paths:
            self._get_finder(name)

    def forget_words(self) -> None:
        """Let go of the mentions that were looked up, which make the next ones faster."""
        for finder in self._finders.values():
            finder.forget_words()

    def __call__(self, doc: Doc) -> Doc:
        """Set the codes of the entities of a document."""
        key, spans = self._spans_key, mentions_of(doc, self._spans_key)
        by_terminology = self._group(spans)
        for name, own in by_terminology.items():
            self._link(name, own, doc.text)
        if by_terminology and key is not None:
            doc.spans[key] = SpanGroup(doc, name=key, attrs=doc.spans[key].attrs, spans=spans)
        elif by_terminology:
            doc.set_ents(spans, default="unmodified")
        return doc

    def _group(self, spans: Iterable[Span]) -> dict[str, list[Span]]:
        """The entities of each terminology."""
        grouped: dict[str, list[Span]] = defaultdict(list)
        for span in spans:
            if name := self._choose(span.label_):
                grouped[name].append(span)
        return grouped

    def _link(self, name: str, spans: Sequence[Span], document: str) -> None:
        """Set the codes of entities of one terminology, in text order."""
        finder = self._get_finder(name)
        _, ranker = self._trained.get(name, _UNTRAINED)
        found = finder.find([span.text for span in sorted(spans)], document)
        ranked = ranker.rank(list(found.values()))
        values = [self._describe(finder, ranker, one) for one in ranked]
        by_text = dict(zip(found, values, strict=True))
        for span in spans:
            own = by_text[span.text]
            span.kb_id_ = own[CODE] or ""
            key = span_key(_LINKED, span.start_char, span.end_char)
            get_user_data(span.doc).setdefault(key, {})[span.label_] = own

    def _describe(
        self, finder: CandidateFinder, ranker: LinkRanker, ranked: Ranked
    ) -> dict[str, Any]:
        rows = [
            (id, finder.get_name(id), round(probability, 6))
            for id, probability in ranked[: self._most_candidates]
        ]
        if rows:
            id, name, probability = rows[0]
            rows[0] = id, name, round(ranker.calibrate(probability), 6)
        has_code = bool(rows) and rows[0][2] >= self._threshold
        own = rows[0] if has_code else (None, None, None)
        return dict(zip(_EXTENSIONS, (*own, rows), strict=True))

    def _choose(self, label: str) -> str:
        """The name of the terminology for a label; "" without one."""
        if self.labels_of:
            name = self.labels_of.get(label, self.labels_of.get("*", ""))
            if name and name not in self._paths:
                raise DamagedPipelineError(
                    f"[components.{self.name}.labels] {label}: {list_choices(name, self._paths)}"
                )
            return name
        if len(self._paths) != 1:
            raise DamagedPipelineError(
                f"[components.{self.name}] has {len(self._paths)} terminologies: give one in "
                "[terminologies], or say in [labels] which label has which"
            )
        return next(iter(self._paths))

    def _get_finder(self, name: str) -> CandidateFinder:
        if name not in self._finders:
            known, _ = self._trained.get(name, _UNTRAINED)
            try:
                terminology = Terminology(self._paths[name])
            except BiomedError as error:
                is_saved = name in self._saved
                where = "" if is_saved else f"[components.{self.name}.terminologies] {name}: "
                raise DamagedPipelineError(f"{where}{error}") from error
            self._finders[name] = CandidateFinder(terminology, known)
        return self._finders[name]

    @property
    def is_trained(self) -> bool:
        """Whether it has learned from mentions with identifiers."""
        return bool(self._trained)

    def initialize(
        self, get_examples: Callable[[], Iterable[Example]], *, nlp: Language | None = None
    ) -> None:
        """Learn from the mentions with identifiers (`ent.kb_id_`) of documents, if there are any.

        An identifier may be several, with `|`, `,`, `;` or `+` between, of which any is right.
        "NIL" means none. The identifier of a merged concept stands for the one that it became.
        """
        documents: dict[str, list[LinkedDocument]] = defaultdict(list)
        for example in get_examples():
            gold = gold_spans(example.reference, self._spans_key) or ()
            for name, spans in self._group(gold).items():
                mentions = [(span.text, self._read_present_ids(span)) for span in spans]
                documents[name].append(LinkedDocument(example.reference.text, mentions))
        for name, own in documents.items():
            if any(ids is not None for one in own for _, ids in one.mentions):
                self._finders.pop(name, None)
                self._trained[name] = train_linking(Terminology(self._paths[name]), own)

    def _read_present_ids(self, span: Span) -> frozenset[str] | None:
        """`read_ids`, with what merged concepts of the label's terminology became."""
        ids = read_ids(span)
        name = self._choose(span.label_) if ids else ""
        if not ids or not name:
            return ids
        return frozenset(map(self._get_finder(name).terminology.find_present_id, ids))

    def to_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> None:
        """Write what was learned, and the terminologies of `add_terminology`."""
        path = Path(path)
        forget_checksums(path.parent)
        path.mkdir(parents=True, exist_ok=True)
        srsly.write_json(path / "cfg", {"terminologies": sorted(self._saved)})
        srsly.write_msgpack(path / "trained.msgpack", self._describe_trained())
        for name in self._saved:
            target = path / _INDEXES / name
            if target.resolve() != self._paths[name].resolve():
                ignored = shutil.ignore_patterns(MARKER)
                shutil.copytree(self._paths[name], target, dirs_exist_ok=True, ignore=ignored)

    def from_disk(self, path: Path | str, *, exclude: Iterable[str] = ()) -> BiomedLinker:
        """The counterpart of `to_disk`."""
        path = Path(path)
        check_component(path)
        self._restore(srsly.read_msgpack(path / "trained.msgpack"))
        for name in srsly.read_json(path / "cfg")["terminologies"]:
            self.add_terminology(name, path / _INDEXES / name)
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """What was learned; of terminologies only the paths."""
        paths = {name: str(path) for name, path in self._paths.items()}
        return srsly.msgpack_dumps([self._describe_trained(), paths, sorted(self._saved)])

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> BiomedLinker:
        """The counterpart of `to_bytes`."""
        trained, paths, saved = srsly.msgpack_loads(data)
        self._restore(trained)
        self._paths = {name: Path(path) for name, path in paths.items()}
        self._saved = set(saved)
        return self

    def _describe_trained(self) -> dict[str, Any]:
        return {
            name: {"counts": known.counts, "names": known.names, "ranker": ranker.to_dict()}
            for name, (known, ranker) in self._trained.items()
        }

    def _restore(self, trained: dict[str, Any]) -> None:
        self._finders = {}
        self._trained = {
            name: (KnownNames(one["counts"], one["names"]), LinkRanker.from_dict(one["ranker"]))
            for name, one in trained.items()
        }


make_biomed_linker = register_factory(
    FACTORY,
    BiomedLinker,
    assigns=["token.ent_kb_id", *(f"span._.{name}" for name in _EXTENSIONS)],
    default_score_weights={"links_f": 1.0, "links_p": None, "links_r": None},
)


def _get_linked(name: str, span: Span) -> object:
    key = span_key(_LINKED, span.start_char, span.end_char)
    return get_user_data(span.doc).get(key, {}).get(span.label_, {}).get(name)


def read_ids(span: Span) -> frozenset[str] | None:
    """The identifiers of a gold mention, of which any is right; None if it has none."""
    ids = frozenset(map(str.strip, _BETWEEN.split(span.kb_id_))) - {""}
    return ids - {NIL} if ids else None


def score_links(
    examples: Iterable[Example],
    *,
    spans_key: str | None = None,
    read_ids: Callable[[Span], frozenset[str] | None] = read_ids,
    **_: object,
) -> dict[str, float]:
    """Score the codes of entities at exactly the gold offsets: `links_p`, `links_r`, `links_f`.

    Gold mentions for which `read_ids` gives None, and what is predicted there, do not count.
    """
    scores = PRFScore()
    for example in examples:
        gold = gold_spans(example.reference, spans_key)
        if gold is None:
            continue
        ids = {(span.start_char, span.end_char): read_ids(span) for span in gold}
        spans = mentions_of(example.predicted, spans_key)
        codes = {(span.start_char, span.end_char): span.kb_id_ for span in spans if span.kb_id_}
        for place, code in codes.items():
            wanted = ids.get(place, frozenset())
            if wanted is not None:
                scores.tp += code in wanted
                scores.fp += code not in wanted
        wanting = {place: wanted for place, wanted in ids.items() if wanted}
        scores.fn += sum(codes.get(place) not in wanted for place, wanted in wanting.items())
    return {"links_p": scores.precision, "links_r": scores.recall, "links_f": scores.fscore}
