from .batcher import batch_by_sequences_v1, batch_by_word_pieces_v1
from .combining import CombinationReport, combine_corpora
from .config import fill_config, read_description
from .corpus import CheckedCorpus, NoCorpus_v1
from .logger import RichLogger_v1
from .multitask import MultiTaskCorpus
from .multitask_batchers import proportional_v1, round_robin_v1
from .multitask_config import create_multitask_config
from .optimizer import Adamax, AdamW
from .resumable import train
from .schedules import cosine_v1, warmup_constant_v1
from .teaching import TeachingReport, create_taught_corpus
from .updating import Update, continue_pipeline_v1, create_update

__all__ = [
    "AdamW",
    "Adamax",
    "CheckedCorpus",
    "CombinationReport",
    "MultiTaskCorpus",
    "NoCorpus_v1",
    "RichLogger_v1",
    "TeachingReport",
    "Update",
    "batch_by_sequences_v1",
    "batch_by_word_pieces_v1",
    "combine_corpora",
    "continue_pipeline_v1",
    "cosine_v1",
    "create_multitask_config",
    "create_taught_corpus",
    "create_update",
    "fill_config",
    "proportional_v1",
    "read_description",
    "round_robin_v1",
    "train",
    "warmup_constant_v1",
]
