from .bioasq import read_bioasq
from .bioc import read_bioc
from .brat import read_brat, write_brat
from .chemprot import read_chemprot
from .columns import read_columns
from .ddi import read_ddi
from .documents import (
    Document,
    Mention,
    Relation,
    check_mention,
    create_pair,
    create_question,
    join_fragments,
    list_files,
    parse_offset,
    read_lines,
    read_text,
)
from .fhir import write_fhir
from .findings import AnnotatedDocument, AnnotatedShard, Layers
from .hoc import read_hoc
from .i2b2_2010 import read_i2b2_2010
from .i2b2_xml import read_i2b2_2012, read_i2b2_2014
from .inception import read_inception, write_inception
from .jsonl import read_jsonl, write_jsonl
from .label_studio import read_label_studio, write_label_studio
from .marked_relations import read_marked_relations, read_relation_tsv
from .medrqe import read_medrqe
from .mention_tables import read_mention_tables
from .nli import read_nli
from .omop import write_omop
from .prodigy import write_prodigy
from .pubtator import read_pubtator, write_pubtator
from .registry import Format, list_formats, list_outputs, read_documents
from .repairs import Change, ChangeLog, keeping_log, leaving_out, locate
from .share_clef import read_share_clef
from .spacy_docs import read_docs, write_spacy
from .squad import read_squad
from .sts import read_clinical_sts, read_sts
from .tables import write_csv, write_parquet

__all__ = [
    "AnnotatedDocument",
    "AnnotatedShard",
    "Change",
    "ChangeLog",
    "Document",
    "Format",
    "Layers",
    "Mention",
    "Relation",
    "check_mention",
    "create_pair",
    "create_question",
    "join_fragments",
    "keeping_log",
    "leaving_out",
    "list_files",
    "list_formats",
    "list_outputs",
    "locate",
    "parse_offset",
    "read_bioasq",
    "read_bioc",
    "read_brat",
    "read_chemprot",
    "read_clinical_sts",
    "read_columns",
    "read_ddi",
    "read_docs",
    "read_documents",
    "read_hoc",
    "read_i2b2_2010",
    "read_i2b2_2012",
    "read_i2b2_2014",
    "read_inception",
    "read_jsonl",
    "read_label_studio",
    "read_lines",
    "read_marked_relations",
    "read_medrqe",
    "read_mention_tables",
    "read_nli",
    "read_pubtator",
    "read_relation_tsv",
    "read_share_clef",
    "read_squad",
    "read_sts",
    "read_text",
    "write_brat",
    "write_csv",
    "write_fhir",
    "write_inception",
    "write_jsonl",
    "write_label_studio",
    "write_omop",
    "write_parquet",
    "write_prodigy",
    "write_pubtator",
    "write_spacy",
]
