"""Convert encoders whose authors published their weights only as a pickle."""

from pathlib import Path
from pickle import UnpicklingError

import transformers
from huggingface_hub import snapshot_download
from transformers import PreTrainedModel

from ..errors import BiomedError
from .batching.word_piece_tokenizer import WordPieceTokenizer
from .encoder_model import drop_pooler
from .loading import PICKLE, check_tensors, explaining, load_tokenizer, locate, read_config


def read_pickled(
    name: str, revision: str | None = None
) -> tuple[WordPieceTokenizer, PreTrainedModel]:
    """Read an encoder from its pytorch_model.bin, for `encoders.loading.save_encoder` to write.

    PyTorch reads only numbers from it (`weights_only`): a pickle that would run code is refused.

    Args:
        name, revision: as in `encoders.loading.load_pretrained`.

    Returns:
        the tokenizer, and the model: with its head for masked language modelling if the checkpoint
        has one, without pooling layer.

    Raises:
        BiomedError: if there is no such checkpoint, or if it contains anything but the weights of
            its config.json.
    """
    source, revision = locate(name, revision)
    with explaining(name, source, revision):
        model = _read_model(fetch_pickle(source, revision))
    return load_tokenizer(name, revision), model


def _read_model(folder: str) -> PreTrainedModel:
    if type(read_config(folder)) in transformers.MODEL_FOR_MASKED_LM_MAPPING:
        model, missing = read_checkpoint(transformers.AutoModelForMaskedLM, folder)
        if not missing:
            return model
    model, _ = read_checkpoint(transformers.AutoModel, folder)
    drop_pooler(model)
    return model


def fetch_pickle(source: str, revision: str | None) -> str:
    """A local directory with an encoder's files; the hub's are downloaded to its cache first."""
    if Path(source).is_dir():
        return source
    # Weights are in one file, or in several with their index.
    patterns = ["*.json", "*.txt", "*.model", f"{PICKLE.removesuffix('.bin')}*.bin*"]
    return snapshot_download(source, revision=revision, allow_patterns=patterns)


def read_checkpoint(kind: type[PreTrainedModel], folder: str) -> tuple[PreTrainedModel, list[str]]:
    """Load a model from a folder with a pytorch_model.bin, as `loading.read_weights` does."""
    try:
        model, found = kind.from_pretrained(
            folder,
            config=read_config(folder),
            trust_remote_code=False,
            use_safetensors=False,
            weights_only=True,
            local_files_only=True,
            output_loading_info=True,
        )
    except (OSError, UnpicklingError, EOFError) as error:  # transformers 4 raises only the first
        raise BiomedError(
            f"{folder}: no {PICKLE} that can be read as numbers alone; it is missing or damaged, "
            "or it holds code, which is not run"
        ) from error
    return model, check_tensors(model, folder, found)
