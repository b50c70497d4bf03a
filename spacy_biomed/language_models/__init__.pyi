from .cleaning import CleaningReport, CleaningSettings, Source, clean_corpus
from .deduplication import NearDuplicates
from .distillation import create_smaller, distill, take_layers
from .initialization import create_language_model, load_language_model
from .objectives import Needs, Objective, Outputs, Shape
from .pretraining import pretrain
from .recipe import DistillationRecipe, PretrainingRecipe, TrainingRecipe, read_recipe
from .run_folders import RunReport
from .sentences import LanguageIdentifier, SentenceFilter, SentenceSplitter, Thresholds
from .text_sources import read_documents, sample_documents
from .text_start import start_from_text
from .vocabulary import learn_vocabulary, read_tokenizer, save_tokenizer

__all__ = [
    "CleaningReport",
    "CleaningSettings",
    "DistillationRecipe",
    "LanguageIdentifier",
    "NearDuplicates",
    "Needs",
    "Objective",
    "Outputs",
    "PretrainingRecipe",
    "RunReport",
    "SentenceFilter",
    "SentenceSplitter",
    "Shape",
    "Source",
    "Thresholds",
    "TrainingRecipe",
    "clean_corpus",
    "create_language_model",
    "create_smaller",
    "distill",
    "learn_vocabulary",
    "load_language_model",
    "pretrain",
    "read_documents",
    "read_recipe",
    "read_tokenizer",
    "sample_documents",
    "save_tokenizer",
    "start_from_text",
    "take_layers",
]
