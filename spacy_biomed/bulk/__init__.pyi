from .annotated_batches import AnnotatedBatch, annotate
from .annotating import BulkReport, BulkSettings, annotate_collection
from .sources import Columns

__all__ = [
    "AnnotatedBatch",
    "BulkReport",
    "BulkSettings",
    "Columns",
    "annotate",
    "annotate_collection",
]
