from .compression import open_binary
from .folders import FoundFile, find_files
from .records import Layout, Record, read_delimited, read_objects, read_text_lines

__all__ = [
    "FoundFile",
    "Layout",
    "Record",
    "find_files",
    "open_binary",
    "read_delimited",
    "read_objects",
    "read_text_lines",
]
