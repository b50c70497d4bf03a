from .bioasq import read_bioasq
from .bioc import read_bioc
from .brat import read_brat
from .chemprot import read_chemprot
from .columns import read_columns
from .ddi import read_ddi
from .hoc import read_hoc
from .i2b2_2010 import read_i2b2_2010
from .i2b2_xml import read_i2b2_2012, read_i2b2_2014
from .inception import read_inception
from .jsonl import read_jsonl
from .label_studio import read_label_studio
from .marked_relations import read_marked_relations, read_relation_tsv
from .medrqe import read_medrqe
from .nli import read_nli
from .pubtator import read_pubtator
from .share_clef import read_share_clef
from .squad import read_squad
from .sts import read_clinical_sts, read_sts

__all__ = [
    "read_bioasq",
    "read_bioc",
    "read_brat",
    "read_chemprot",
    "read_clinical_sts",
    "read_columns",
    "read_ddi",
    "read_hoc",
    "read_i2b2_2010",
    "read_i2b2_2012",
    "read_i2b2_2014",
    "read_inception",
    "read_jsonl",
    "read_label_studio",
    "read_marked_relations",
    "read_medrqe",
    "read_nli",
    "read_pubtator",
    "read_relation_tsv",
    "read_share_clef",
    "read_squad",
    "read_sts",
]
