"""Masked language modelling, from text to an encoder directory: `spacy biomed pretrain`."""

import hashlib
import json

from accelerate import PartialState
from rich.console import Console
from transformers import PreTrainedModel

from ..encoders.batching.word_piece_tokenizer import WordPieceTokenizer
from ..errors import BiomedError
from ..files.outputs import replacing_directory
from . import initialization, run_folders
from .packed_sequences import hash_text
from .recipe import Existing, FreshEncoder, PretrainingRecipe
from .run_folders import RunReport
from .text_start import start_from_text
from .trainer import MaskedLanguageModelTrainer
from .vocabulary import Documents, learn_vocabulary, read_tokenizer, save_tokenizer


def pretrain(recipe: PretrainingRecipe, console: Console | None = None) -> RunReport | None:
    """Train an encoder as described by a recipe, resuming from the last checkpoint if there is one.

    Args:
        console: where the main process shows progress; None for nowhere.

    Returns:
        the result; None in processes other than the main process.

    Raises:
        BiomedError: if a part of the recipe cannot be loaded, if the parts do not fit together, or
            if the run's folder has a run of another recipe.
    """
    state = run_folders.start_processes(recipe)
    console = console if state.is_main_process else None
    with run_folders.open_run(recipe, state) as partial:
        with state.main_process_first():
            tokenizer, model, made = prepare_model(recipe, state, console)
            training, validation = run_folders.claim_text(recipe, tokenizer, state, console)
        if isinstance(recipe.encoder, FreshEncoder) and recipe.encoder.start == "text":
            try:
                start_from_text(model, training, seed=recipe.training.seed)
            except BiomedError as error:
                raise recipe.error("encoder.start", str(error)) from error
        trainer = MaskedLanguageModelTrainer(model, recipe, tokenizer, training, validation)
        return run_folders.train(trainer, tokenizer, made, partial, console)


def prepare_model(
    recipe: PretrainingRecipe, state: PartialState, console: Console | None = None
) -> tuple[WordPieceTokenizer, PreTrainedModel, str]:
    """Load or create the tokenizer and the untrained model, and describe where it is from."""
    on_cpu = state.device.type == "cpu"
    encoder = recipe.encoder
    if not isinstance(encoder, Existing):
        tokenizer = prepare_vocabulary(recipe, console)
        config = initialization.create_config(tokenizer, encoder)
        model = initialization.create_language_model(
            config, seed=recipe.training.seed, on_cpu=on_cpu
        )
        begun = ", begun from counts of its text" if encoder.start == "text" else ""
        return tokenizer, model, f"Trained from scratch by masked language modelling{begun}."
    tokenizer, model, has_new_head = initialization.load_language_model(
        encoder.name, encoder.revision, on_cpu=on_cpu, seed=recipe.training.seed
    )
    initialization.check_positions(recipe, model, "encoder")
    head = ", with a new language-model head" if has_new_head else ""
    if has_new_head and console is not None:
        console.print("The encoder has no head for masked language modelling: a new one is trained")
    begun = run_folders.short_name(encoder.name)
    return tokenizer, model, f"Trained by masked language modelling on from {begun}{head}."


def prepare_vocabulary(
    recipe: PretrainingRecipe, console: Console | None = None
) -> WordPieceTokenizer:
    """Load or learn the vocabulary of an encoder that is trained from scratch.

    It is learned once, from the text of [vocabulary] or the training text, including documents set
    aside for validation. A later run of the same recipe reads it from the run's folder.
    """
    section = recipe.vocabulary
    if isinstance(section, Existing):
        tokenizer = read_tokenizer(section.name, section.revision)
        if tokenizer.mask is None:
            raise recipe.error("vocabulary.name", "has no mask token to train with; take another")
        return tokenizer
    assert section is not None  # encoders from scratch always have a vocabulary
    paths = section.paths or recipe.text.paths
    settings = section.model_dump(exclude={"paths"})
    made_from = json.dumps([settings, recipe.text.field]).encode() + hash_text(paths)
    name = hashlib.sha256(made_from).hexdigest()[:16]
    place = recipe.output.work / "vocabulary" / name
    if not place.is_dir():
        with (
            run_folders.counting("Documents read for the vocabulary", console) as progress,
            replacing_directory(place, recipe.made_by) as partial,
        ):
            documents = Documents(paths, recipe.text.field, progress)
            try:
                save_tokenizer(learn_vocabulary(documents, **settings), partial)
            except BiomedError as error:
                raise recipe.error("vocabulary", str(error)) from error
    return read_tokenizer(str(place))
