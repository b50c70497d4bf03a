"""Pretrained encoders from a directory, the local hub cache or the hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer

from .. import errors
from ..errors import BiomedError, escape
from .batching.word_piece_tokenizer import WordPieceTokenizer
from .casing import check_casing
from .encoder_catalogue import all_encoders, find_encoder
from .encoder_model import attention_implementation, count_segments, max_sequence_length
from .finite import check_weights

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

# Files that `save_encoder` writes; WEIGHTS and PICKLE are transformers' names too.
CONFIG, WEIGHTS = "config.json", "model.safetensors"
TOKENIZER, TOKENIZER_SETTINGS = "tokenizer.json", "tokenizer_config.json"
FILES = (CONFIG, WEIGHTS, TOKENIZER, TOKENIZER_SETTINGS)
PICKLE = "pytorch_model.bin"
OWN_CODE = "Python of its own (auto_map)"
OTHER_TYPE = (
    "models of type '{}' do not read texts as BERT does; give an encoder of a type that "
    "`python -m spacy biomed encoders` lists"
)


def load_pretrained(
    name: str, revision: str | None = None, *, dropout: float | None = None
) -> tuple[WordPieceTokenizer, PreTrainedModel]:
    """Load an encoder and its tokenizer.

    Args:
        name: a directory in Hugging Face layout, a name from the encoder catalogue, or a hub id.
        revision: commit, branch or tag on the hub; by default the one the catalogue pins.
            Directories have none.
        dropout: dropout probability of all its layers in training, instead of that in its
            config.json.

    Returns:
        the tokenizer, and the encoder without pooling layer and language-model head.

    Raises:
        BiomedError: if the encoder is not available, or cannot be read.
    """
    from transformers import AutoModel

    tokenizer = load_tokenizer(name, revision)
    source, revision = locate(name, revision)
    with explaining(name, source, revision):
        config = read_config(source, revision)
        for setting, value in config.to_dict().items() if dropout is not None else ():
            if "dropout" in setting and isinstance(value, int | float):
                setattr(config, setting, dropout)
        model, _ = read_weights(AutoModel, source, config, **choose_attention())
        _check_reading(model, tokenizer, source)
    return tokenizer, model


def _check_reading(model: PreTrainedModel, tokenizer: WordPieceTokenizer, source: str) -> None:
    """Raise BiomedError if a model does not give each word piece of a tokenizer a vector."""
    import torch

    try:
        table = model.get_input_embeddings()
        known = table.num_embeddings
        pieces = torch.tensor([[*tokenizer.prefix, *tokenizer.suffix, tokenizer.pad]]) % known
        with torch.no_grad():
            read = model(inputs_embeds=table(pieces), attention_mask=torch.ones_like(pieces))
        is_read = read.last_hidden_state.shape == (*pieces.shape, model.config.hidden_size)
    except Exception:  # each type of model raises its own
        is_read = False
    if not is_read:
        raise BiomedError(f"{source}: {OTHER_TYPE.format(model.config.model_type)}")
    size = tokenizer.tokenizer.get_vocab_size(with_added_tokens=False)
    if known <= max(size - 1, tokenizer.mask or 0, *tokenizer.special_ids):
        raise BiomedError(
            f"{source}: its weights have vectors for {known:,} word pieces, and its tokenizer has "
            "more; get both from the encoder's authors again"
        )


def load_tokenizer(name: str, revision: str | None = None) -> WordPieceTokenizer:
    """Load only an encoder's tokenizer; arguments and errors are as in `load_pretrained`."""
    from transformers import AutoTokenizer
    from transformers.models.auto.tokenization_auto import get_tokenizer_config

    source, revision = locate(name, revision)
    where = files_of(source, revision)
    with explaining(name, source, revision):
        # The config first: transformers looks for the tokenizer's class in it too.
        config = read_config(source, revision)
        settings = get_tokenizer_config(source, **where)
        if settings.get("auto_map"):
            raise _code_refusal(source, TOKENIZER_SETTINGS, OWN_CODE)
        entry = None if Path(source).is_dir() and name == source else find_encoder(name)
        cased = entry.cased if entry is not None and entry.vocabulary == "WordPiece" else None
        lowers = _find_lower_case(source, where) if cased is None else not cased
        if lowers is not None and (cased is not None or "do_lower_case" not in settings):
            where["do_lower_case"] = lowers  # which old files do not say; transformers assumes True
        tokenizer = AutoTokenizer.from_pretrained(
            source, use_fast=True, trust_remote_code=False, **where
        )
    if not tokenizer.is_fast:
        raise BiomedError(
            f"encoder '{name}' ({source}): its tokenizer has no fast version; convert it with "
            "`tokenizers` and save a tokenizer.json beside it"
        )
    check_casing(tokenizer.backend_tokenizer, source, cased=cased)
    own = tokenizer.pad_token_id
    pad = own if own is not None else (getattr(config, "pad_token_id", None) or 0)
    return WordPieceTokenizer.from_str(tokenizer.backend_tokenizer.to_str(), pad)


def locate(name: str, revision: str | None) -> tuple[str, str | None]:
    """The directory or hub id of an encoder, and its revision on the hub."""
    directory = Path(name).expanduser()
    if directory.is_dir():
        if not (directory / CONFIG).is_file():
            raise BiomedError(
                f"{directory}: no config.json there; an encoder directory holds config.json, "
                "model.safetensors and tokenizer.json (Hugging Face layout)"
            )
        return str(directory), None
    if name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name:
        problem = (
            f"{directory}: no such encoder directory; give a directory in Hugging Face layout, a "
            "hub id or a name that `python -m spacy biomed encoders` lists"
        )
        raise BiomedError(errors.add_hint(problem, suggest_encoder(name)))
    entry = find_encoder(name)
    if entry is None:
        return name, revision
    if entry.hub_id is None:
        raise BiomedError(
            f"encoder '{entry.name}' is on no hub: get it from {entry.download}, unpack it, "
            "and give the directory as the encoder's name"
        )
    return entry.hub_id, revision or entry.revision


def suggest_encoder(name: str) -> str:
    """Ask whether a name of the catalogue or a directory beside is meant; "" if none is similar."""
    if "/" in name or "\\" in name:
        return errors.suggest_sibling(Path(name).expanduser(), CONFIG)
    return errors.suggest(name, (entry.name for entry in all_encoders()))


def is_on_disk(name: str) -> bool:
    """Whether an encoder is a directory or in the hub client's cache; nothing is downloaded."""
    from huggingface_hub import try_to_load_from_cache

    try:
        source, revision = locate(name, None)
    except BiomedError:
        return False
    if Path(source).is_dir():
        return True
    return isinstance(try_to_load_from_cache(source, CONFIG, revision=revision), str)


def _find_lower_case(source: str, where: dict[str, object]) -> bool | None:
    """Whether BERT's tokenizer writes in lower case, by a tokenizer.json; None without one."""
    from transformers.utils import cached_file

    try:
        path = cached_file(source, TOKENIZER, **where)
    except OSError:
        return None
    normalizer = json.loads(Path(path).read_text(encoding="utf8")).get("normalizer") or {}
    return normalizer.get("lowercase")


def read_config(source: str | Path, revision: str | None = None) -> PretrainedConfig:
    """Read the config.json of a directory, or of a hub id with its revision.

    A directory is never looked up on the hub. An encoder that needs custom Python code, which is
    never run, is refused.
    """
    from huggingface_hub import try_to_load_from_cache
    from transformers import AutoConfig, PretrainedConfig

    where = files_of(source, revision)
    settings, _ = PretrainedConfig.get_config_dict(source, **where)
    # Even if transformers has a class for the same type: its computation may differ.
    if settings.get("auto_map"):
        raise _code_refusal(source, CONFIG, OWN_CODE)
    config = AutoConfig.from_pretrained(source, trust_remote_code=False, **where)
    if config.is_encoder_decoder:
        raise BiomedError(f"{source}: {OTHER_TYPE.format(config.model_type)}")
    # The name of a compiled kernel that transformers would get from the hub.
    if "/" in attention_implementation(config):
        raise _code_refusal(source, CONFIG, "a kernel for attention")
    # Otherwise ModernBERT may compile its layers on a GPU, which needs a compiler.
    if hasattr(config, "reference_compile"):
        config.reference_compile = False
    # transformers 4 stores the commit itself; it is also in the place in the hub client's cache.
    if not Path(source).is_dir() and commit_of(config) is None:
        path = try_to_load_from_cache(str(source), CONFIG, revision=revision)
        config._commit_hash = Path(path).parent.name if isinstance(path, str) else revision
    return config


def commit_of(config: PretrainedConfig) -> str | None:
    """The commit on the hub that a config was read from; None for that of a directory."""
    return getattr(config, "_commit_hash", None)


def _code_refusal(source: str | Path, file: str, what: str) -> BiomedError:
    return BiomedError(
        f"{source}: its {file} asks for {what}, and no encoder's code is ever run; choose an "
        "encoder of a type that transformers has itself"
    )


def read_weights(
    kind: type[PreTrainedModel], source: str | Path, config: PretrainedConfig, **settings: object
) -> tuple[PreTrainedModel, list[str]]:
    """Load a model from a safetensors checkpoint: `kind.from_pretrained` without its dangers.

    It gives the model, in fp32, and the names of the tensors of its head that the checkpoint lacks,
    which are random. The pooling layer may be missing, but no other tensor of the encoder.
    """
    import torch

    # The files of the config's commit, which a directory does not have: for a branch without
    # safetensors, transformers asks a service on the hub to convert the weights, and loads the
    # result.
    where = files_of(source, commit_of(config))
    try:
        model, found = kind.from_pretrained(
            source,
            config=config,
            output_loading_info=True,
            # Else transformers 5 takes the checkpoint's precision, also for copies of the model.
            torch_dtype=torch.float32,
            trust_remote_code=False,
            use_safetensors=True,
            weights_only=True,
            **where,
            **settings,
        )
    except OSError as error:
        if has_only_pickles(source, where):
            at = f" --revision {where['revision']}" if where["revision"] else ""
            raise BiomedError(
                f"{source}: its weights are a pickle ({PICKLE}), which may hold code. Only "
                f"safetensors are read: `python -m spacy biomed convert-encoder {source}{at} DIR` "
                "writes them as such and runs nothing; give DIR as the encoder's name"
            ) from error
        raise
    except UnpicklingError as error:  # transformers 4 raises OSError
        raise BiomedError(
            f"{source}: its {WEIGHTS}.index.json names files that are pickles, and only safetensors"
            " are read; get the encoder from its authors again"
        ) from error
    return model, check_tensors(model, source, found)


def check_tensors(
    model: PreTrainedModel, source: str | Path, found: Mapping[str, Iterable[str]]
) -> list[str]:
    """Check that a checkpoint has the encoder that config.json describes, in finite numbers.

    `found` is what `from_pretrained` tells. The pooling layer and heads may have tensors in excess.
    It gives the names of the tensors of the head that the checkpoint lacks.
    """
    layers = {name for name, _ in model.base_model.named_children()} - {"pooler"}
    prefix = f"{model.base_model_prefix}."
    of_pooler = ("pooler.", f"{prefix}pooler.")
    missing = [name for name in found["missing_keys"] if not name.startswith(of_pooler)]
    is_base = model.base_model is model
    lacking = [name for name in missing if is_base or name.startswith(prefix)]
    excess = [
        name
        for name in found["unexpected_keys"]
        if name.removeprefix(prefix).partition(".")[0] in layers
    ]
    for names, what in ((lacking, "lack"), (excess, "have, with no place for it,")):
        if names:
            raise errors.DamagedPipelineError(
                f"{source}: its weights {what} {escape(sorted(names)[0])} ({len(names)} in all), "
                "so they are not those that its config.json describes; copy or get it again"
            )
    check_weights(model.state_dict().items(), source)
    return missing


def files_of(source: str | Path, revision: str | None) -> dict[str, Any]:
    """The arguments with which transformers looks for an encoder's files in the same place."""
    return {"revision": revision, "local_files_only": Path(source).is_dir()}


def has_only_pickles(source: str | Path, where: dict[str, object]) -> bool:
    """Whether the weights of an encoder are a pickle; `where` is from `files_of`."""
    from transformers.utils import has_file

    def has(*names: str) -> bool:
        return any(has_file(source, name, **where) for name in names)

    return not has(WEIGHTS, f"{WEIGHTS}.index.json") and has(PICKLE, f"{PICKLE}.index.json")


@contextmanager
def explaining(name: str, source: str, revision: str | None) -> Iterator[None]:
    """Turn any exception from loading into a one-line error."""
    try:
        with without_warnings():
            yield
    except BiomedError:
        raise
    except Exception as error:  # safetensors and tokenizers raise nothing more specific
        reason = escape(errors.first_line(error))
        if Path(source).is_dir():
            raise BiomedError(f"{source}: not a readable encoder ({reason})") from error
        at = f" at revision {revision}" if revision else ""
        option = f" --revision {revision}" if revision else ""
        called = f"encoder '{name}'" if name == source else f"encoder '{name}' (hub id {source})"
        problem = (
            f"{called}{at} is neither in the local cache nor could it be downloaded; where there "
            f"is internet run `hf download {source}{option} --local-dir DIR`, copy "
            f"DIR here and give its path as the encoder's name ({reason})"
        )
        hint = "" if "/" in name or find_encoder(name) else suggest_encoder(name)
        raise BiomedError(errors.add_hint(problem, hint)) from error


@contextmanager
def without_warnings() -> Iterator[None]:
    """Suppress transformers' warnings about weights that a checkpoint lacks or has in excess.

    A pooling layer is dropped, and we report a missing head. The progress bars of transformers 5
    for reading and writing weights are hidden too, but not those of downloads.
    """
    from huggingface_hub.utils import are_progress_bars_disabled, enable_progress_bars
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    has_bars = logging.is_progress_bar_enabled() and not are_progress_bars_disabled()
    logging.set_verbosity_error()
    if has_bars:
        logging.disable_progress_bar()  # both
        enable_progress_bars()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_bars:
            logging.enable_progress_bar()


def choose_attention() -> dict[str, str]:
    """The argument of `from_pretrained` that selects how attention is computed.

    On a CPU the plain products are faster than the fused kernel, which lacks a masked path.
    """
    import torch
    from thinc.api import get_torch_default_device

    on_cpu = torch.device(get_torch_default_device()).type == "cpu"
    return {"attn_implementation": "eager"} if on_cpu else {}


def save_encoder(path: Path, tokenizer: WordPieceTokenizer, model: PreTrainedModel) -> None:
    """Write an encoder directory: config.json, model.safetensors, tokenizer.json.

    transformers' `AutoModel` and `AutoTokenizer` load it, and so does `load_pretrained`.
    """
    with without_warnings():
        model.save_pretrained(path, safe_serialization=True)
    (path / TOKENIZER).write_text(tokenizer.to_str(), encoding="utf8")
    backend = tokenizer.tokenizer
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": backend.id_to_token(tokenizer.pad),
        "model_max_length": max_sequence_length(model.base_model),
        "clean_up_tokenization_spaces": False,
        # Which transformers 5 does not take from the tokenizer's template.
        "model_input_names": [
            "input_ids",
            *(["token_type_ids"] if count_segments(model.base_model) > 1 else []),
            "attention_mask",
        ],
    }
    if tokenizer.prefix:
        settings["cls_token"] = backend.id_to_token(tokenizer.prefix[0])
    if tokenizer.suffix:
        settings["sep_token"] = backend.id_to_token(tokenizer.suffix[-1])
    for name in ("unk", "mask"):
        for token in (f"[{name.upper()}]", f"<{name}>"):
            if backend.token_to_id(token) is not None:
                settings[f"{name}_token"] = token
    (path / TOKENIZER_SETTINGS).write_text(json.dumps(settings, indent=2), encoding="utf8")


def load_directory(path: Path) -> tuple[WordPieceTokenizer, PreTrainedModel]:
    """Read an encoder written by `save_encoder`; refuse one that needs code, or is a pickle."""
    from transformers import AutoModel

    with without_warnings():
        model, _ = read_weights(AutoModel, path, read_config(path), **choose_attention())
    return read_word_pieces(path), model


def read_word_pieces(path: Path) -> WordPieceTokenizer:
    """Read a tokenizer.json and the padding token of its tokenizer_config.json."""
    settings = json.loads((path / TOKENIZER_SETTINGS).read_text(encoding="utf8"))
    tokenizer = Tokenizer.from_str((path / TOKENIZER).read_text(encoding="utf8"))
    return WordPieceTokenizer(tokenizer, tokenizer.token_to_id(settings["pad_token"]))
