from .conversion_report import ConversionReport, PartReport
from .convert import convert_corpus
from .corpus_catalogue import CorpusEntry, all_corpora, find_corpus
from .documents import (
    Document,
    Mention,
    Relation,
    check_mention,
    create_pair,
    join_fragments,
    list_files,
    parse_offset,
    read_lines,
    read_text,
)
from .formats import read_documents
from .gold import create_doc, create_gold_doc
from .label_map import LabelMap, keep_labels, map_labels, parse_label_map
from .mention_replacement import read_terms, replace_mentions
from .questions import create_question
from .repairs import Change, ChangeLog, keeping_log, leaving_out, locate
from .repeated_texts import find_repeats
from .splits import find_parts, split_documents
from .tokenizer import create_tokenizer

__all__ = [
    "Change",
    "ChangeLog",
    "ConversionReport",
    "CorpusEntry",
    "Document",
    "LabelMap",
    "Mention",
    "PartReport",
    "Relation",
    "all_corpora",
    "check_mention",
    "convert_corpus",
    "create_doc",
    "create_gold_doc",
    "create_pair",
    "create_question",
    "create_tokenizer",
    "find_corpus",
    "find_parts",
    "find_repeats",
    "join_fragments",
    "keep_labels",
    "keeping_log",
    "leaving_out",
    "list_files",
    "locate",
    "map_labels",
    "parse_label_map",
    "parse_offset",
    "read_documents",
    "read_lines",
    "read_terms",
    "read_text",
    "replace_mentions",
    "split_documents",
]
