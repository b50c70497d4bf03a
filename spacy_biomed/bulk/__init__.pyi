from .annotating import BulkReport, BulkSettings, annotate_collection
from .sources import Columns

__all__ = ["BulkReport", "BulkSettings", "Columns", "annotate_collection"]
