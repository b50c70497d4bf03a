"""Pretrained encoders from a directory, the local hub cache or the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BiomedError
from .capabilities import max_sequence_length
from .catalogue import find_encoder
from .word_pieces import WordPieceTokenizer

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerFast


def load_pretrained(
    name: str, revision: str | None = None, *, dropout: float | None = None
) -> tuple[WordPieceTokenizer, PreTrainedModel]:
    """Load an encoder and its tokenizer.

    name: a directory in Hugging Face layout, a name from the encoder catalogue, or a hub id.
    revision: commit, branch or tag on the hub; by default the one the catalogue pins. Directories
        have none.
    dropout: of all its layers in training, instead of what its config.json says.
    RETURNS: the tokenizer, and the encoder without pooling layer and language-model head.
    RAISES BiomedError: if the encoder cannot be had, or cannot be read.
    """
    from transformers import AutoConfig, AutoModel

    source, revision = _locate(name, revision)
    tokenizer = _load_fast_tokenizer(name, source, revision)
    with _explaining(name, source, revision):
        config = AutoConfig.from_pretrained(source, revision=revision)
        if dropout is not None:
            _set_dropout(config, dropout)
        model = AutoModel.from_pretrained(source, config=config, revision=revision, **_attention())
    return _keep_word_pieces(tokenizer, model.config.pad_token_id), model


def load_tokenizer(name: str, revision: str | None = None) -> WordPieceTokenizer:
    """Load an encoder's tokenizer alone; arguments and errors are those of `load_pretrained`."""
    source, revision = _locate(name, revision)
    return _keep_word_pieces(_load_fast_tokenizer(name, source, revision), None)


def _locate(name: str, revision: str | None) -> tuple[str, str | None]:
    """The directory or hub id of an encoder, and the revision to ask the hub for."""
    directory = Path(name).expanduser()
    if directory.is_dir():
        if not (directory / "config.json").is_file():
            raise BiomedError(
                f"{directory}: no config.json there; an encoder directory holds config.json, "
                "model.safetensors and tokenizer.json (Hugging Face layout)"
            )
        return str(directory), None
    if _looks_like_path(name):
        raise BiomedError(
            f"{directory}: no such encoder directory; give a directory in Hugging Face layout, a "
            "hub id or a name that `python -m spacy biomed encoders` lists"
        )
    entry = find_encoder(name)
    if entry is None:
        return name, revision
    if entry.hub_id is None:
        raise BiomedError(
            f"encoder '{entry.name}' is on no hub: get it from {entry.download}, unpack it, "
            "and give the directory as the encoder's name"
        )
    return entry.hub_id, revision or entry.revision


def _load_fast_tokenizer(name: str, source: str, revision: str | None) -> PreTrainedTokenizerFast:
    from transformers import AutoTokenizer

    with _explaining(name, source, revision):
        tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, use_fast=True)
    if not tokenizer.is_fast:
        raise BiomedError(
            f"encoder '{name}' ({source}): its tokenizer has no fast version; convert it with "
            "`tokenizers` and save a tokenizer.json beside it"
        )
    return tokenizer


def _keep_word_pieces(tokenizer: PreTrainedTokenizerFast, pad: int | None) -> WordPieceTokenizer:
    """What we use of a tokenizer; `pad` is for one that does not know its own padding."""
    own = tokenizer.pad_token_id
    pad = own if own is not None else (pad or 0)
    return WordPieceTokenizer.from_str(tokenizer.backend_tokenizer.to_str(), pad)


@contextmanager
def _explaining(name: str, source: str, revision: str | None) -> Iterator[None]:
    """Turn whatever loading raises into one line."""
    try:
        with without_warnings():
            yield
    except Exception as error:  # safetensors and tokenizers raise nothing more specific
        raise BiomedError(_explain(name, source, revision, error)) from error


@contextmanager
def without_warnings() -> Iterator[None]:
    """Keep transformers from warning of weights that a checkpoint lacks or has in excess.

    A pooling layer is dropped, and a head that is missing is reported by us.
    """
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)


def _set_dropout(config: PretrainedConfig, dropout: float) -> None:
    """Set all probabilities of dropout, which each architecture names in its own way."""
    for name, value in config.to_dict().items():
        if "dropout" in name and isinstance(value, int | float):
            setattr(config, name, dropout)


def _attention() -> dict[str, str]:
    """On a CPU the plain products are faster than the fused kernel, which lacks a masked path."""
    import torch
    from thinc.api import get_torch_default_device

    on_cpu = torch.device(get_torch_default_device()).type == "cpu"
    return {"attn_implementation": "eager"} if on_cpu else {}


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.count("/") > 1 or "\\" in name


def _explain(name: str, source: str, revision: str | None, error: Exception) -> str:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    if Path(source).is_dir():
        return f"{source}: not a readable encoder ({reason})"
    at = f" at revision {revision}" if revision else ""
    option = f" --revision {revision}" if revision else ""
    called = f"encoder '{name}'" if name == source else f"encoder '{name}' (hub id {source})"
    return (
        f"{called}{at} is neither in the local cache nor could it be downloaded; where there is "
        f"internet run `huggingface-cli download {source}{option} --local-dir DIR`, copy DIR here "
        f"and give its path as the encoder's name ({reason})"
    )


def save_encoder(path: Path, tokenizer: WordPieceTokenizer, model: PreTrainedModel) -> None:
    """Write an encoder directory: config.json, model.safetensors, tokenizer.json.

    transformers' `AutoModel` and `AutoTokenizer` load it, and so does `load_pretrained`.
    """
    model.save_pretrained(path, safe_serialization=True)
    (path / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf8")
    backend = tokenizer.tokenizer
    first = [backend.id_to_token(i) for i in tokenizer.prefix]
    last = [backend.id_to_token(i) for i in tokenizer.suffix]
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "pad_token": backend.id_to_token(tokenizer.pad),
        "model_max_length": max_sequence_length(model.base_model),
        "clean_up_tokenization_spaces": False,
    }
    if first:
        settings["cls_token"] = first[0]
    if last:
        settings["sep_token"] = last[-1]
    for name in ("unk", "mask"):
        for token in (f"[{name.upper()}]", f"<{name}>"):
            if backend.token_to_id(token) is not None:
                settings[f"{name}_token"] = token
    (path / "tokenizer_config.json").write_text(json.dumps(settings, indent=2), encoding="utf8")


def load_directory(path: Path) -> tuple[WordPieceTokenizer, PreTrainedModel]:
    """Read what `save_encoder` wrote."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.from_pretrained(path)
    with without_warnings():
        model = AutoModel.from_pretrained(path, config=config, **_attention())
    settings = json.loads((path / "tokenizer_config.json").read_text(encoding="utf8"))
    text = (path / "tokenizer.json").read_text(encoding="utf8")
    tokenizer = WordPieceTokenizer.from_str(text, 0)
    tokenizer.pad = tokenizer.tokenizer.token_to_id(settings["pad_token"])
    return tokenizer, model
