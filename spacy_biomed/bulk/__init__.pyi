from .annotated_batches import AnnotatedBatch, annotate
from .annotating import BulkReport, annotate_collection
from .shard_worker import BulkSettings

__all__ = [
    "AnnotatedBatch",
    "BulkReport",
    "BulkSettings",
    "annotate",
    "annotate_collection",
]
