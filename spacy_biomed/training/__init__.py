"""What `spacy train` plugs in; resumable training; configs; corpora combined and taught."""

from typing import TYPE_CHECKING

from ..lazy_names import attach

if TYPE_CHECKING:
    from .batcher import batch_by_word_pieces_v1
    from .combining import CombinationReport, combine_corpora
    from .config import fill_config, read_description
    from .corpus import Corpus_v1, read_docs
    from .logger import RichLogger_v1
    from .multitask import MultiTaskCorpus, MultiTaskCorpus_v1
    from .multitask_batchers import proportional_v1, round_robin_v1
    from .multitask_config import create_multitask_config
    from .optimizer import AdamW, AdamW_v1
    from .resumable import train
    from .teaching import TeachingReport, create_taught_corpus
    from .updating import Update, continue_pipeline_v1, create_update
else:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "batcher": ["batch_by_word_pieces_v1"],
            "combining": ["CombinationReport", "combine_corpora"],
            "config": ["fill_config", "read_description"],
            "corpus": ["Corpus_v1", "read_docs"],
            "logger": ["RichLogger_v1"],
            "multitask": ["MultiTaskCorpus", "MultiTaskCorpus_v1"],
            "multitask_batchers": ["proportional_v1", "round_robin_v1"],
            "multitask_config": ["create_multitask_config"],
            "optimizer": ["AdamW", "AdamW_v1"],
            "resumable": ["train"],
            "teaching": ["TeachingReport", "create_taught_corpus"],
            "updating": ["Update", "continue_pipeline_v1", "create_update"],
        },
    )

__all__ = [
    "AdamW",
    "AdamW_v1",
    "CombinationReport",
    "Corpus_v1",
    "MultiTaskCorpus",
    "MultiTaskCorpus_v1",
    "RichLogger_v1",
    "TeachingReport",
    "Update",
    "batch_by_word_pieces_v1",
    "combine_corpora",
    "continue_pipeline_v1",
    "create_multitask_config",
    "create_taught_corpus",
    "create_update",
    "fill_config",
    "proportional_v1",
    "read_description",
    "read_docs",
    "round_robin_v1",
    "train",
]
