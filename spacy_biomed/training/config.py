"""A training config for one corpus and one encoder, out of the templates in `configs/`."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from configparser import Error as ConfigParserError
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from catalogue import RegistryError
from pydantic import BaseModel, Field, StrictBool, ValidationError, WrapValidator
from spacy.language import Language
from spacy.util import CONFIG_SECTION_ORDER, registry
from spacy.vocab import Vocab
from thinc.api import Config, ConfigValidationError

from ..corpora.corpus_catalogue import find_corpus
from ..encoders.encoder_catalogue import find_encoder
from ..encoders.loading import is_on_disk, locate, suggest_encoder
from ..errors import BiomedError, add_hint, escape, quote, suggest, suggest_sibling
from ..files.compression import reading
from ..formats.spacy_docs import read_docs
from ..pipeline.component_classes import find_described, find_head
from ..pipeline.encoder_head import EncoderHead
from ..settings.config_errors import explain_config_error
from ..settings.sections import Section, explain_validation, read_config_text
from .corpus import find_learner, list_learners, split_doc

# A whole number from 1.
Count = Annotated[int, Field(strict=True, ge=1)]

TEMPLATES = Path(__file__).with_name("configs")

# The template of what all trainings have, and the only component that is in it.
BASE, ENCODER = "base", "biomed_transformer"

# Evaluations of a single epoch, and of each epoch of more steps. Others have one at their end.
EVALUATIONS, LONG_EPOCH = 4, 2_000

BY_WORDS = "spacy.batch_by_words.v1"

# The reader of a development part that is not there.
NO_CORPUS = {"@readers": "spacy_biomed.NoCorpus.v1"}


# What refers to a variable, as ${vars.pipeline}, has its type later.
_LATER = WrapValidator(lambda value, check: value if str(value).startswith("${") else check(value))


class _Component(BaseModel):
    factory: str = ""
    model: Annotated[dict[str, Any], _LATER] = {}


class _Batcher(BaseModel):
    registered: Annotated[str, Field(alias="@batchers")] = BY_WORDS


class _Nlp(BaseModel):
    pipeline: Annotated[list[str], _LATER] = []


class _Training(BaseModel):
    batcher: _Batcher = _Batcher()
    annotating_components: Annotated[list[str], _LATER] = []
    score_weights: Annotated[dict[str, Any], _LATER] = {}


class Template(BaseModel):
    """The types of what a template has, as far as they are read before spaCy checks the config."""

    nlp: _Nlp = _Nlp()
    components: dict[str, _Component] = {}
    training: _Training = _Training()
    corpora: dict[str, Annotated[dict[str, Any], _LATER]] = {}
    heads: dict[str, dict[str, Any]] = {}


class Recipe(Section):
    """What a template says about a training in its section `[recipe]`, which is not in the config.

    Attributes:
        epochs: passes over the training part, unless a number is given.
        warmup_share: share of the training in which the learning rate rises from 0.
        evaluation_steps: steps from one evaluation to the next; by default once an epoch, or four
            times in a single or long one.
        development_part: whether there is one. Without it the training learns from all documents
            that are not for testing, and ends with its last step.
        batchers, max_words: for several tasks, by the factory of a head: the batcher of its
            corpora, if it is not that of the others, and the maximum tokens of their examples.
    """

    epochs: Count = 10
    warmup_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    evaluation_steps: Count | None = None
    development_part: StrictBool = True
    batchers: dict[str, dict[str, object]] = {}
    max_words: dict[str, Count] = {}

    @classmethod
    def take(cls, config: Config) -> "Recipe":
        """Take the section out of a template."""
        try:
            return cls.model_validate(config.pop("recipe", {}))
        except ValidationError as error:
            _, problem = explain_validation(cls, error, "recipe")
            raise BiomedError(f"[recipe] of the template: {problem}") from error

    def fill(self, variables: dict[str, object], steps: int, epochs: int) -> None:
        """Fill in the variables of a config that are numbers of steps, by the steps of an epoch."""
        total = epochs * steps
        is_long = epochs == 1 or steps > LONG_EPOCH
        frequency = self.evaluation_steps or max(steps // (EVALUATIONS if is_long else 1), 1)
        warmup = max(round(self.warmup_share * total), 1) if self.warmup_share else 0
        variables["max_steps"], variables["warmup_steps"] = total, warmup
        variables["eval_frequency"] = min(frequency, total) if self.development_part else total


def fill_config(
    corpus: Path,
    *,
    encoder: str,
    epochs: int | None = None,
    task: str | None = None,
    template: Path | str | None = None,
    batch_words: int | None = None,
    batch_size: int | None = None,
    learn_rate: float | None = None,
    seed: int = 0,
    settings: Mapping[str, object] | None = None,
) -> Config:
    """Write the config of a training on one corpus: what every training has, and the corpus' head.

    Args:
        corpus: folder that `spacy biomed convert` wrote.
        encoder: a catalogue name, a hub id or a directory.
        epochs: passes over the training part.
        task: kind of corpus, as the catalogue calls it; by default see `find_learner`.
        template: as for `read_template`; by default the one of the task's head.
        batch_words: tokens in a batch.
        batch_size: size of a batch in the measure of the template's batcher.
        learn_rate: highest learning rate. It and the numbers above are the template's by default.
        seed: of the initial weights, the order of the examples and dropout.
        settings: further sections, over the template's and over what this function fills in.
            "recipe" is the template's `[recipe]`.

    Raises:
        BiomedError: if the template or the corpus is not there or is not valid, or if the task of
            the corpus is unknown.
    """
    description = read_description(corpus)
    config = start_config(corpus, description, task, template)
    variables = {"encoder": encoder, "seed": seed, "learn_rate": learn_rate}
    config, recipe, settings = fill_variables(config, settings, variables, batch_words, batch_size)
    files = list_training_files(corpus, recipe)
    config["paths"]["train"] = files if len(files) > 1 else files[0]
    config["paths"]["dev"] = (corpus / "dev.spacy").as_posix()
    if not recipe.development_part:
        config["paths"]["dev"] = None
        config.setdefault("corpora", {})["dev"] = dict(NO_CORPUS)
    filled = config.interpolate()
    by_words = {"@batchers": BY_WORDS, "size": filled["vars"]["batch_words"]}
    batcher = filled.get("training", {}).get("batcher") or by_words
    max_words = filled.get("corpora", {}).get("train", {}).get("max_words", 0)
    steps = count_batches(files, batcher, max_words)
    recipe.fill(config["vars"], steps, recipe.epochs if epochs is None else epochs)
    config["nlp"]["lang"] = description["language"]
    return config.merge(settings)


def fill_variables(
    config: Config,
    settings: Mapping[str, object] | None,
    variables: Mapping[str, object],
    batch_words: int | None,
    batch_size: int | None,
) -> tuple[Config, Recipe, Mapping[str, object]]:
    """Merge further sections into a template, and fill in its variables and the size of a batch.

    Variables that are None stay; the other arguments are those of `fill_config`. Returned are the
    config, its recipe, and the further sections without `[recipe]`.
    """
    config = config.merge(dict(settings or {}))
    _check_types(config, "the template")
    recipe = Recipe.take(config)
    config["vars"].update({key: value for key, value in variables.items() if value is not None})
    section = config.get("training", {}).get("batcher", {})
    section = section.get("batcher", section)
    batcher = section.get("@batchers", BY_WORDS)
    if batch_words is not None and batcher != BY_WORDS:
        raise BiomedError(
            f"--batch-words: the batches of this template are not of words ({batcher}); leave it "
            "out, and change training.batcher.size of the config"
        )
    size = batch_words if batch_size is None else batch_size
    if size is not None:
        sized, key = (config["vars"], "batch_words") if batcher == BY_WORDS else (section, "size")
        sized[key] = size
    others = {name: section for name, section in (settings or {}).items() if name != "recipe"}
    return config, recipe, others


def find_epochs(template: Path | str | None) -> int:
    """The number of epochs of a template."""
    return Recipe.take(read_template(BASE if template is None else template)).epochs


def list_training_files(corpus: Path, recipe: Recipe) -> list[str]:
    """The files to learn from: the training part, and without a development part that too."""
    parts = ("train",) if recipe.development_part else ("train", "dev")
    files = [corpus / f"{part}.spacy" for part in parts]
    return [file.as_posix() for file in files if file.name == "train.spacy" or file.is_file()]


def count_batches(
    files: Sequence[Path | str], batcher: Mapping[str, Any], max_words: int = 0
) -> int:
    """Batches that a batcher, an interpolated section of a config, makes of .spacy files in order.

    Training shuffles the documents for each epoch, which changes the number by a few. Examples have
    at most `max_words` tokens; 0 for whole documents.
    """
    if not isinstance(max_words, int):
        raise BiomedError(f"corpora.train.max_words = {quote(max_words)}: use a whole number")
    if batcher.get("@batchers", BY_WORDS) == BY_WORDS:
        by_words = {"@batchers": BY_WORDS, "tolerance": 0.2, "discard_oversize": False}
        batcher = {**by_words, **batcher}
    docs = (doc for file in files for doc in read_docs(Path(file), Vocab()) if len(doc))
    if max_words:
        docs = (part for doc in docs for part in split_doc(doc, max_words))
    try:
        batches = registry.resolve({"batcher": batcher})["batcher"](docs)
    except (ConfigValidationError, RegistryError) as error:
        raise BiomedError(
            f"the batcher {quote(str(batcher['@batchers']))} of the template cannot be made "
            f"({escape(' '.join(str(error).split()))}); correct its section"
        ) from error
    return max(sum(1 for _ in batches), 1)


def start_config(
    corpus: Path, description: dict[str, Any], task: str | None, template: Path | str | None
) -> Config:
    """Read the template for a corpus, and add the head of its task unless it has its components.

    Heads get the settings that follow from what the corpus holds (`EncoderHead.corpus_settings`).
    Further components of a template without a head come after the head.
    """
    if template is None:
        task, head = find_learner(corpus, description, task)
        template = head.config_templates.get(task, BASE)
    task = task or find_template_task(find_template(template))
    config = read_template(template)
    if has_no_head(config):
        task, head = find_learner(corpus, description, task)
        settings = {**head.learns[task], **head.corpus_settings(description)}
        _adapt(config, description)
        followers = [one for one in config["components"] if one not in config["nlp"]["pipeline"]]
        main = add_head(config, head.default_name, head, settings)
        config["nlp"]["pipeline"] += followers
        others = {name: 0.0 for name, weight in default_weights(head).items() if weight}
        given = config["training"]["score_weights"]
        config["training"]["score_weights"] = {**others, main: 1.0, **given}
    else:
        for settings in config.get("components", {}).values():
            found = find_head(settings.get("factory", ""))
            if found is not None:
                settings.update(found.corpus_settings(description))
    config.pop("heads", None)
    return config


def _adapt(config: Config, description: Mapping[str, Any]) -> None:
    """Give a template's components the settings that follow from a corpus.

    Components without rules for the language, or without their label, are left out.
    """
    for name, settings in list(config["components"].items()):
        kind = find_described(settings.get("factory", name))
        if kind is None:
            continue
        settings.update(kind.corpus_settings(description))
        has_rules = not kind.languages or description["language"] in kind.languages
        has_label = not kind.needed_label or kind.needed_label in description.get("labels", ())
        if not (has_rules and has_label):
            del config["components"][name]
            annotating = config["training"].get("annotating_components", [])
            for names in (config["nlp"]["pipeline"], annotating):
                if name in names:
                    names.remove(name)


def has_no_head(config: Config) -> bool:
    """Whether a template has an encoder, and rules at most, to which heads are to be added."""
    first, *others = config["nlp"].get("pipeline") or [""]
    factories = [config["components"].get(one, {}).get("factory", one) for one in others]
    kinds = [find_described(factory) for factory in factories]
    has_encoder = first == ENCODER and "model" in config["components"].get(ENCODER, {})
    return has_encoder and all(kind and not issubclass(kind, EncoderHead) for kind in kinds)


def add_head(
    config: Config, name: str, head: type[EncoderHead], settings: dict[str, object]
) -> str:
    """Add a head to a template, and return the name of its main score.

    Given settings replace those of `[heads]` in the template, and these the factory's.
    """
    own = Config(Language.get_factory_meta(head.default_name).default_config).copy()
    own = own.merge(config.get("heads", {}).get(head.default_name, {})).merge(settings)
    config["components"][name] = {"factory": head.default_name, **own}
    config["nlp"]["pipeline"] = [*config["nlp"]["pipeline"], name]
    config["components"][ENCODER]["model"].update(head.encoder_settings)
    return head.main_score(name, own)


def default_weights(head: type[EncoderHead]) -> dict[str, float | None]:
    """The weights that spaCy gives a head's scores unless the config does."""
    return dict(Language.get_factory_meta(head.default_name).default_score_weights or {})


def find_template(template: Path | str) -> Path:
    """Find the file of a template: that file, or one that ships by its name, such as "ner".

    `configs/ner.cfg`, where the template used to be, means the same if there is no such file.
    """
    name = str(template)
    shipped = {
        path.relative_to(TEMPLATES).with_suffix("").as_posix(): path
        for path in sorted(TEMPLATES.rglob("*.cfg"))
    }
    path = shipped.get(name, Path(name))
    if not path.exists() and path.parent.name == "configs":
        path = shipped.get(path.stem, path)
    if not os.path.isfile(path):
        is_paper = path.parent.name == "papers"
        names = ", ".join(name for name in shipped if ("/" in name) == is_paper)
        papers = "" if is_paper else ", or a recipe of a paper such as papers/lewis_ner"
        problem = f"{path}: no such config; give one, or the name of a template: {names}{papers}"
        raise BiomedError(add_hint(problem, suggest(str(path), shipped)))
    return path


def find_template_task(path: Path) -> str | None:
    """The task that a template which ships is for; None for other files, and for all tasks.

    A variant of a template is named after it, as `ner_linear` after `ner`; a recipe of a paper has
    its name at the end, as `papers/lewis_ner`.
    """
    names = {
        TEMPLATES: path.stem.partition("_")[0],
        TEMPLATES / "papers": path.stem.rpartition("_")[2],
    }
    for task, head in list_learners().items():
        if path.parent in names and head.config_templates.get(task) == names[path.parent]:
            return task
    return None


def read_template(template: Path | str, extending: tuple[Path, ...] = ()) -> Config:
    """Read a config that has what `fill_config` fills.

    Without a section `[nlp]` it has only what differs from `base.cfg`, or from what it extends.
    `extending` are the templates that extend it.
    """
    path = find_template(template)
    if path in extending:
        raise BiomedError(f"{path}: recipe.extends: a template cannot extend itself; remove it")
    config = read_config(path)
    _check_types(config, str(path))
    if extended := config.get("recipe", {}).pop("extends", None):
        return read_template(extended, (*extending, path)).merge(config)
    if "nlp" not in config:
        base = read_config(TEMPLATES / f"{BASE}.cfg")
        if config and set(config) <= {*base, "initialize"}:
            merged = base.merge(config)
            ordered = {section: merged[section] for section in (*base, *merged)}
            return Config(ordered, is_interpolated=False)
    elif "paths" in config and "batch_words" in config.get("vars", {}):
        return config
    raise BiomedError(
        f"{path}: no template: it has neither only sections of base.cfg, nor [nlp], [paths] and "
        "[vars] with batch_words; begin with a config that `spacy biomed init-config` writes"
    )


def _check_types(config: Config, where: str) -> None:
    """Raise BiomedError if something in a template is of another type than it is read as."""
    try:
        Template.model_validate(config)
    except ValidationError as error:
        _, problem = explain_validation(Template, error, "template")
        raise BiomedError(f"{where}: {problem}") from error


def read_config(
    path: Path, overrides: Mapping[str, object] | None = None, *, interpolate: bool = False
) -> Config:
    """Read a config, with overrides by their dotted names."""
    text = read_config_text(path, "config")
    config = Config(section_order=CONFIG_SECTION_ORDER)
    try:
        return config.from_str(text, overrides=dict(overrides or {}), interpolate=interpolate)
    except (ConfigParserError, ValueError) as error:
        explained = explain_config_error(path, text, error)
        raise BiomedError(
            explained or f"{path}: not a config ({escape(' '.join(str(error).split()))})"
        ) from error


def check_encoder_name(encoder: str) -> None:
    """Raise BiomedError if an encoder is not a directory, catalogue name or hub id.

    A hub id has an owner, unless the encoder is in the hub client's cache.
    """
    if os.path.isdir(encoder):
        locate(encoder, None)
        return
    is_id = re.fullmatch(r"\w[\w.-]*(/[\w.-]+)?", encoder)
    if not (find_encoder(encoder) or is_id and ("/" in encoder or is_on_disk(encoder))):
        problem = (
            f"--encoder {quote(encoder)}: no such directory; give one, a hub id (owner/name), or a "
            "name that `python -m spacy biomed encoders` lists"
        )
        raise BiomedError(add_hint(problem, suggest_encoder(encoder)))


def check_sections(path: Path, config: Config, sections: Sequence[str]) -> None:
    """Raise BiomedError if a config lacks a section, or has nothing in it."""
    for section in sections:
        if not (config.get(section) and isinstance(config[section], dict)):
            raise BiomedError(
                f"{path}: has no section [{section}], so it is not a training config; "
                "`spacy biomed init-config` writes one"
            )


def read_description(corpus: Path) -> dict[str, Any]:
    """Read the `corpus.json` of a converted corpus; raise BiomedError if that fails."""
    with reading(corpus):  # a name may be too long
        is_there = corpus.is_dir()
    if not is_there:
        problem = (
            f"{corpus}: no such folder; `python -m spacy biomed convert` writes it, for one of "
            "your own with --format"
        )
        raise BiomedError(add_hint(problem, suggest_sibling(corpus, "corpus.json")))
    return read_fields(
        corpus / "corpus.json", ("name", "language", "parts"), "python -m spacy biomed convert"
    )


def write_description(corpus: Path, description: dict[str, Any]) -> None:
    """Write the `corpus.json` of a corpus."""
    content = json.dumps(description, ensure_ascii=False, indent=2)
    (corpus / "corpus.json").write_text(content + "\n", encoding="utf8")


def describe_corpus(description: dict[str, Any]) -> dict[str, str]:
    """A corpus, by its `corpus.json`, as a source in the meta of a pipeline."""
    source = {
        "name": description["name"],
        "url": description.get("source", ""),
        "license": description.get("licence", ""),
    }
    with suppress(BiomedError):  # the user's own corpus is not in the catalogue
        source["name"] = find_corpus(description["name"]).title
    return source


def describe_encoder(name: str) -> dict[str, str]:
    """An encoder as a source in the meta of a pipeline."""
    encoder = find_encoder(name)
    if encoder is None:
        return {"name": f"encoder: {Path(name).name}"}
    hub_url = f"https://huggingface.co/{encoder.hub_id}" if encoder.hub_id else None
    url, licence = hub_url or encoder.download or "", encoder.licence or ""
    return {"name": f"encoder: {encoder.name}", "url": url, "license": licence}


def read_fields(path: Path, fields: tuple[str, ...], writer: str) -> dict[str, object]:
    """Read a JSON object with these fields, which the command `writer` writes."""
    if not os.path.isfile(path):
        raise BiomedError(f"{path}: not there; `{writer}` writes it")
    try:
        content = json.loads(path.read_text(encoding="utf8"))
    except (RecursionError, ValueError) as error:  # too deep, or a number of thousands of digits
        line = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise BiomedError(f"{path}{line}: not JSON in UTF-8; `{writer}` writes it") from error
    if not isinstance(content, dict):
        raise BiomedError(f"{path}:1: not a JSON object; `{writer}` writes it")
    for field in fields:
        if field not in content:
            raise BiomedError(f"{path}: no field '{field}'; `{writer}` writes a new one")
    return content
