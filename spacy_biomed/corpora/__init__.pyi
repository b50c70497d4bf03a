from .conversion_report import ConversionReport, PartReport
from .convert import convert_corpus
from .corpus_catalogue import CorpusEntry, all_corpora, find_corpus
from .gold import create_doc, create_gold_doc
from .label_map import LabelMap, keep_labels, map_labels, parse_label_map
from .mention_replacement import read_terms, replace_mentions
from .repeated_texts import find_repeats
from .splits import find_parts, split_documents
from .tokenizer import create_tokenizer

__all__ = [
    "ConversionReport",
    "CorpusEntry",
    "LabelMap",
    "PartReport",
    "all_corpora",
    "convert_corpus",
    "create_doc",
    "create_gold_doc",
    "create_tokenizer",
    "find_corpus",
    "find_parts",
    "find_repeats",
    "keep_labels",
    "map_labels",
    "parse_label_map",
    "read_terms",
    "replace_mentions",
    "split_documents",
]
