from .compression import open_binary
from .folders import FoundFile, find_files
from .records import Layout, Record, read_delimited, read_objects, read_text_lines
from .sources import Columns, Item, find_parts

__all__ = [
    "Columns",
    "FoundFile",
    "Item",
    "Layout",
    "Record",
    "find_files",
    "find_parts",
    "open_binary",
    "read_delimited",
    "read_objects",
    "read_text_lines",
]
