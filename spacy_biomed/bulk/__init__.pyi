from .annotated_batches import AnnotatedBatch, annotate
from .annotating import BulkReport, BulkSettings, annotate_collection

__all__ = [
    "AnnotatedBatch",
    "BulkReport",
    "BulkSettings",
    "annotate",
    "annotate_collection",
]
