"""The corpora and the runs that a study needs, checked before the first run."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import cast

from spacy.language import DEFAULT_CONFIG

from ..corpora.convert import convert_corpus
from ..corpora.corpus_catalogue import find_corpus
from ..corpora.downloads import download_corpus
from ..corpora.splits import PARTS
from ..encoders.encoder_catalogue import find_encoder
from ..encoders.loading import is_on_disk, load_pretrained
from ..errors import BiomedError
from ..files.digests import digest_files
from ..formats.spacy_docs import read_doc_bin
from ..settings.config_errors import suggest_setting
from ..settings.unchecked_settings import find_dropped
from ..training.config import (
    BASE,
    Recipe,
    fill_config,
    find_template,
    find_template_task,
    read_description,
    read_template,
)
from ..training.corpus import find_learner, list_learners
from ..training.multitask_config import create_multitask_config
from .runs import CorpusOfRun, Run, create_digest, find_result
from .study_config import GIVEN_FOLDS, RANDOM, CorpusSection, Row, Study, find_table


@dataclass(frozen=True, slots=True)
class Trial:
    """A run as a cell of the table counts it.

    Attributes:
        learn_rate, batch_size: None for the template's.
        fold: from 0; None without folds.
        run: the run's digest.
    """

    learn_rate: float | None
    batch_size: int | None
    seed: int
    fold: int | None
    run: str

    @property
    def setting(self) -> tuple[float | None, int | None]:
        return self.learn_rate, self.batch_size


@dataclass(frozen=True, slots=True)
class Plan:
    """What a study needs.

    Attributes:
        cells: the trials by row and corpus; without those of missing rows and corpora.
        runs: all runs by their digests.
        missing: what is not there, by the setting that names it, such as "corpora.jnlpba".
    """

    cells: dict[tuple[str, str], list[Trial]]
    runs: dict[str, Run]
    missing: dict[str, str]

    def find_open(self, output: Path) -> list[Run]:
        """The runs that are to be made."""
        return [run for run in self.runs.values() if find_result(output, run) is None]


def find_folder(study: Study, name: str, corpora_dir: Path) -> Path:
    """The folder of a study's corpus."""
    section = study.corpora[name]
    return corpora_dir / (section.folder or section.source or name)


def find_missing_corpora(study: Study, corpora_dir: Path) -> dict[str, str]:
    """How to get the corpora that are not there, by the settings that name them."""
    missing = {}
    for name, corpus in study.corpora.items():
        folder = find_folder(study, name, corpora_dir)
        try:
            for place in _list_folders(folder, corpus):
                read_description(place)
        except BiomedError:
            missing[f"corpora.{name}"] = f"{folder} is not there; {_how_to_get(name, corpus)}"
    return missing


def find_missing_encoders(study: Study) -> dict[str, str]:
    """Why encoders cannot be loaded, by the settings that name them."""
    problems = {
        f"rows.{name}": _find_problem(row.encoder.removeprefix(RANDOM))
        for name, row in study.rows.items()
    }
    return {setting: problem for setting, problem in problems.items() if problem}


def _how_to_get(name: str, corpus: CorpusSection) -> str:
    source = corpus.source or name
    with suppress(BiomedError):
        entry = find_corpus(source)
        if entry.access in ("download", "ships"):
            return "--prepare makes it"
        return f"`spacy biomed corpora {source}` says how to get it ({entry.access})"
    return f"`spacy biomed convert {source}` makes it"


@cache
def _find_problem(encoder: str) -> str | None:
    try:
        load_pretrained(encoder)
    except BiomedError as error:
        return str(error)
    return None


def _list_folders(folder: Path, corpus: CorpusSection) -> list[Path]:
    """The converted corpora of a section: one, or one for each given fold."""
    if corpus.folds != GIVEN_FOLDS:
        return [folder]
    found = sorted(
        (path for path in folder.glob("*") if path.name.isdecimal()), key=lambda p: int(p.name)
    )
    return found or [folder / "1"]


def prepare_corpora(
    study: Study,
    corpora_dir: Path,
    assets_dir: Path,
    progress: Callable[[Path], None] = lambda folder: None,
) -> None:
    """Convert the catalogue's corpora of a study that are not converted yet.

    Corpora whose files are not here, and which no command downloads, are passed over: `plan_study`
    names them. The error of a corpus that fails is raised after the last corpus.
    """
    failures: dict[str, BiomedError] = {}
    for name, section in study.corpora.items():
        entry = None
        with suppress(BiomedError):
            entry = find_corpus(section.source or name)
        if entry is None or entry.format is None:
            continue
        output = find_folder(study, name, corpora_dir)
        own = assets_dir / (section.folder or "")
        source = own if section.folder and own.is_dir() else entry.find_files(assets_dir)
        folds = [""]
        if section.folds == GIVEN_FOLDS:
            folds = [path.name for path in source.glob("*") if path.name.isdecimal()]
        for fold in folds:
            if (output / fold / "corpus.json").is_file():
                continue
            try:
                place = source / fold
                if entry.access == "download" and not place.is_dir():
                    download_corpus(entry, place)
                if place.is_dir():
                    progress(output / fold)
                    convert_corpus(entry.name, place, output / fold)
            except BiomedError as error:
                failures.setdefault(entry.name, error)
    if failures:
        (_, first), *others = failures.items()
        too = f"; {', '.join(name for name, _ in others)} failed too" if others else ""
        raise BiomedError(f"{first}{too}") from first


def plan_study(study: Study, corpora_dir: Path, *, allow_missing: bool = False) -> Plan:
    """Check all that a study names, and list its runs.

    Args:
        allow_missing: whether to leave out the cells of missing corpora and encoders.

    Raises:
        BiomedError: if a corpus or an encoder is missing and may not be, or a template does not fit
            a corpus, or nothing is left.
    """
    if study.study.paper is not None:
        try:
            find_table(study.study.paper, study.study.table or "")
        except BiomedError as error:
            raise study.error("study.paper", str(error)) from error
    missing = find_missing_corpora(study, corpora_dir)
    if allow_missing or not missing:  # else encoders need not be looked for on the hub
        missing |= find_missing_encoders(study)
    if missing and not allow_missing:
        (setting, problem), *others = missing.items()
        more = f" Also missing: {', '.join(name for name, _ in others)}." if others else ""
        advice = "With --allow-missing their cells of the table stay empty"
        raise study.error(setting, f"{problem}.{more} {advice}")
    rows = [name for name in study.rows if f"rows.{name}" not in missing]
    corpora = [name for name in study.corpora if f"corpora.{name}" not in missing]
    if not (rows and corpora):
        setting = "rows" if corpora else "corpora"
        first = next(problem for name, problem in missing.items() if name.startswith(setting))
        raise study.error(setting, f"none of them is there; {first}")
    planner = _Planner(study, corpora_dir, corpora)
    cells: dict[tuple[str, str], list[Trial]] = {}
    for corpus in corpora:
        planner.check_corpus(corpus, rows)
    for row in rows:
        for corpus in planner.list_tasks(study.rows[row]):
            cells[row, corpus] = planner.plan_cell(study.rows[row], corpus)
    if study.speed is not None:
        # The pipeline of the first trial of each row is kept.
        first = next(corpus for _, corpus in cells)
        for trials in (cells[row, first] for row in rows if (row, first) in cells):
            planner.runs[trials[0].run] = replace(planner.runs[trials[0].run], keep=True)
    return Plan(cells, planner.runs, missing)


@dataclass
class _Planner:
    """Makes the runs of a study's cells, each once, by their digests."""

    study: Study
    corpora_dir: Path
    corpora: list[str]
    runs: dict[str, Run] = field(default_factory=dict)
    _digests: dict[Path, str] = field(default_factory=dict)

    def list_tasks(self, row: Row) -> list[str]:
        """The corpora that a row has a cell for: with companions, the others."""
        if row.companions is None:
            return self.corpora
        companions = [name for name in row.companions if name in self.corpora]
        return [name for name in self.corpora if name not in companions] if companions else []

    def check_corpus(self, name: str, rows: list[str]) -> None:
        """See that a corpus can be trained alone by each of these rows, and scored.

        The encoder of the first row is used for batches that are counted in word pieces.
        """
        section, template = self.study.corpora[name], self.study.corpora[name].template
        encoder = self.study.rows[rows[0]].encoder.removeprefix(RANDOM)
        recipe = self._read_recipe(template or BASE)
        for folder in _list_folders(find_folder(self.study, name, self.corpora_dir), section):
            parts = ("train",) if isinstance(section.folds, int) else PARTS
            for part in parts:
                if part != "dev" or recipe.development_part:
                    read_doc_bin(folder / f"{part}.spacy")
            config = fill_config(folder, encoder=encoder, template=template)
            if dropped := find_dropped(self.study.config, config):
                advice = suggest_setting(dropped, DEFAULT_CONFIG.merge(config)).replace("--", "")
                raise self.study.error(f"config.{dropped}", f"no such setting; {advice}")
            task, head = find_learner(folder, read_description(folder))
            meant = find_template_task(find_template(template)) if template else None
            if meant is not None and list_learners()[meant] is not head:
                problem = f"{template} is for {meant}, and {folder} for {task}"
                raise self.study.error(f"corpora.{name}.template", problem)
        for row in rows:
            self._check_selection(row, name, recipe)

    def _read_recipe(self, template: str) -> Recipe:
        return Recipe.take(read_template(template).merge(self.study.config))

    def _list_rates(self, row: Row, corpus: str) -> list[float]:
        if row.training == "together":
            own = [row.learn_rate] if row.learn_rate else row.learn_rates
        else:
            own = row.learn_rates or self.study.corpora[corpus].learn_rates
        return own or self.study.grid.learn_rates

    def _check_selection(self, row: str, name: str, recipe: Recipe) -> None:
        grid, about, one = self.study.grid, self.study.study, self.study.rows[row]
        place = f"corpora.{name}"
        if one.training == "together":
            place, recipe = f"rows.{row}", self._read_recipe(one.template)
        chooses = max(len(self._list_rates(one, name)), len(grid.batch_sizes)) > 1
        if about.statistic == "best" and not chooses:
            chooses = len(one.seeds or grid.seeds) > 1 or bool(self.study.corpora[name].folds)
        if chooses and about.select == "dev" and not recipe.development_part:
            raise self.study.error(
                "study.select",
                f"the template of {place} learns from the development part, so nothing can "
                'be chosen on it: write select = "test" to choose as papers without one do',
            )

    def plan_cell(self, row: Row, name: str) -> list[Trial]:
        """The trials of a row with a corpus."""
        section, grid, speed = self.study.corpora[name], self.study.grid, self.study.speed
        folder = find_folder(self.study, name, self.corpora_dir)
        if section.folds and row.training != "alone":
            raise self.study.error(
                f"corpora.{name}.folds", 'folds are for training = "alone" in all rows'
            )
        folds: list[tuple[int | None, CorpusOfRun]] = [(None, self._read(folder))]
        if section.folds == GIVEN_FOLDS:
            folds = [*enumerate(map(self._read, _list_folders(folder, section)))]
        elif isinstance(section.folds, int):
            count, whole = section.folds, self._read(folder)
            folds = [(number, replace(whole, folds=count, fold=number)) for number in range(count)]
        rates: list[float | None] = [*self._list_rates(row, name)] or [None]
        sizes: list[int | None] = [*grid.batch_sizes] or [None]
        trials = []
        for rate, size, seed, (fold, corpus) in product(
            rates, sizes, row.seeds or grid.seeds, folds
        ):
            run = Run(
                corpora={name: corpus},
                is_joint=False,
                encoder=row.encoder,
                encoder_digest=_digest_encoder(row.encoder.removeprefix(RANDOM)),
                template=section.template,
                template_text=_read_template(section.template),
                epochs=_find_epochs(row, name) or section.epochs or grid.epochs,
                learn_rate=rate,
                batch_size=size,
                seed=seed,
                settings=self.study.config,
                export=speed.precision if speed else None,
                tracking=self.study.tracking.model_dump() if self.study.tracking else None,
            )
            if row.training != "alone":
                run = self._join(row, name, run)
            trials.append(Trial(rate, size, seed, fold, self._add(run)))
        return trials

    def _join(self, row: Row, name: str, alone: Run) -> Run:
        """The run of a row with companions for the run of a corpus alone."""
        others = row.companions or self.corpora
        names = [one for one in self.corpora if one == name or one in others]
        folders = {one: find_folder(self.study, one, self.corpora_dir) for one in names}
        is_apart = row.training == "apart"
        joint = replace(
            alone,
            corpora={one: self._read(folder) for one, folder in folders.items()},
            is_joint=True,
            template=row.template,
            template_text=_read_template(row.template),
            epochs=cast("int | None", row.epochs) or self.study.grid.epochs,
            learn_rate=row.learn_rate if is_apart else alone.learn_rate,
            batch_size=None if is_apart else alone.batch_size,
            schedule=row.schedule,
        )
        if joint.digest not in self.runs:  # raises an error if they do not fit together
            create_multitask_config(
                list(folders.values()),
                encoder=joint.encoder.removeprefix(RANDOM),
                template=str(joint.template),
                settings=joint.settings,
            )
        if is_apart:
            return replace(alone, starts_from=self._add(replace(joint, keep=True, export=None)))
        return joint

    def _add(self, run: Run) -> str:
        digest = run.digest
        known = self.runs.get(digest, run)
        self.runs[digest] = replace(run, keep=run.keep or known.keep)
        return digest

    def _read(self, folder: Path) -> CorpusOfRun:
        if folder not in self._digests:
            files = [*(folder / f"{part}.spacy" for part in PARTS), folder / "corpus.json"]
            texts = [digest_files(file) if file.is_file() else "" for file in files]
            self._digests[folder] = create_digest(*texts)
        documents = self.study.grid.documents
        return CorpusOfRun(folder, self._digests[folder], documents=documents)


def _find_epochs(row: Row, corpus: str) -> int | None:
    """The epochs of a row for a corpus alone."""
    if row.training != "alone" or row.epochs is None:
        return None
    return row.epochs.get(corpus) if isinstance(row.epochs, dict) else row.epochs


def _read_template(template: str | None) -> str:
    return "" if template is None else read_template(template).to_str(interpolate=False)


@cache
def _digest_encoder(encoder: str) -> str:
    directory = Path(encoder).expanduser()
    if directory.is_dir():
        return digest_files(directory)
    entry = find_encoder(encoder)
    return f"{entry.hub_id} {entry.revision}" if entry else ""


def list_needs(study: Study, corpora_dir: Path) -> tuple[dict[str, bool], dict[str, bool]]:
    """The corpora and the encoders that a study needs, and whether each is on this machine."""
    missing = find_missing_corpora(study, corpora_dir)
    corpora = {name: f"corpora.{name}" not in missing for name in study.corpora}
    names = (row.encoder.removeprefix(RANDOM) for row in study.rows.values())
    return corpora, {name: is_on_disk(name) for name in dict.fromkeys(names)}
