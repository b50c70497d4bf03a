from .annotated_batches import AnnotatedBatch, annotate
from .annotating import BulkReport, annotate_collection
from .shards import BulkSettings

__all__ = [
    "AnnotatedBatch",
    "BulkReport",
    "BulkSettings",
    "annotate",
    "annotate_collection",
]
