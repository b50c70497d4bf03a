"""The component `biomed_variants`: sequence variants that are written in a nomenclature."""

import re

from spacy.language import Language
from spacy.pipeline import Pipe
from spacy.tokens import Doc, Span

from ..annotations.seen_mentions import mentions_of
from ..normalization import get_text
from .described import Described
from .factories import register_factory
from .mention_layer import get_confidence, insert_mentions, list_finders, write_mentions

FACTORY = "biomed_variants"
LABEL = "VARIANT"

_SIGN = "[-+\u2013\u2212]"
_PLACE = rf"(?:\*|{_SIGN})?\d+(?:\s?{_SIGN}\d+)?"
_ARROW = "[-=\u2013\u2212]{0,4}>|\u2192"
_BECOMES = rf"\s?(?:{_ARROW}|/)\s?"
_BASES = "[ACGT]+"
_CHANGE = rf"\s?{_BASES}{_BECOMES}{_BASES}"
_LETTER = "[ACDEFGHIKLMNPQRSTVWY]"
_CODE = (
    "(?:Ala|Arg|Asn|Asp|Cys|Gln|Glu|Gly|His|Ile|Leu|Lys|Met|Phe|Pro|Ser|Thr|Trp|Tyr|Val|Sec"
    "|Ter|Stop)"
)
_RESIDUE = f"(?:{_CODE}|{_LETTER})"
_PROTEIN = (
    rf"{_RESIDUE}\d+(?:_{_RESIDUE}\d+)?"
    rf"(?:{_RESIDUE}?fs(?:(?:\*|X|Ter)?\d+|\*|X)?|(?:delins|del|dup|ins){_RESIDUE}*|{_RESIDUE}|\*|X|=)"
)
# What names nothing but a variant.
_FORMS = (
    # dbSNP: rs1801133; not Rs 500, which are rupees
    r"(?i:rs)\d{3,}|rs\s\d{5,}",
    # HGVS, DNA and RNA: c.1799T>A, c.76_78del, g.140453136A>T, c.88+2T>G, m.8993T>G
    rf"(?i:[cgmnr]\.\s?\(?{_PLACE}(?:_{_PLACE})?\)?"
    rf"(?:\s?[ACGTU]+{_BECOMES}[ACGTU]+|(?:delins|del|dup|ins|inv)"
    r"(?:\([ACGT]+\)(?:\(?\d+\)?)?|[ACGTU]*\d*)))",
    r"[cgm]\.\s?[ACGT]\d+[ACGT]",
    # HGVS, proteins: p.Val600Glu, p.V600E, p.(Arg97Profs*23), p.Gly12_Gly13insAsp
    rf"(?i:p\.\s?(?:\({_PROTEIN}\)|\[{_PROTEIN}\]|{_PROTEIN}))",
    # Older names of proteins: Val158Met, VAL158MET, Arg506Ter
    rf"(?i:{_CODE}-?\(?\d+\)?-?{_CODE})|{_CODE}\d+(?:X|\*|fs|del)",
    # Val 158 Met, Arg506 to Gln, Ser551->Thr; not the sites Ser 473 and Thr 308
    rf"{_CODE}[\s-]?\(?\d+\)?(?:\s?(?:{_ARROW}|/|to)\s?|[\s-])?{_CODE}(?![\s-]?\(?\d)",
    # 192Q/R, 232Thr; not 250G/L, 20M/F
    rf"\d{{2,4}}\s?{_CODE}{_BECOMES}{_CODE}|\d{{2,4}}{_CODE}",
    rf"\d{{2,4}}(?!(?:[GKT]/L|M/[FS]|F/M)){_LETTER}/{_LETTER}",
    # Older names of DNA: -616C/G, 1691 G>A, G1691->A, C(-260)T, G-308A, -31T, IVS8 -2A>G
    rf"{_SIGN}?\d{{2,}}(?:{_SIGN}\d+)?{_CHANGE}|[ACGT]\d{{2,}}{_BECOMES}[ACGT]",
    rf"[ACGT](?:\({_SIGN}\d{{2,5}}\)|{_SIGN}\d{{2,5}})[ACGT]",
    # not -80C, which is a temperature
    rf"(?<!\)){_SIGN}(?:\d{{2,5}}(?:[AGT]|\s?[ACGT]{{2}})|\d{{3,5}}C)(?!/)",
    rf"{_SIGN}\d{{3,5}}\s?{_LETTER}/{_LETTER}",
    rf"IVS\s?\d+,?\s?\(?{_SIGN}\s?\d+\)?(?:{_CHANGE}|\s?(?:del|ins|dup)\s?{_BASES})",
    # -120 bp duplication
    rf"{_SIGN}?\d+[ -]?(?:bp|base[ -]pair|nucleotide)[ -](?:deletion|insertion|duplication)(?!/)",
    # 35delG, 35 delG, 2238-9del AG, 76_78del, 657del5, delF508, F508del, Y329fs
    rf"\d+(?:[-_]\d+)?(?:(?:del|ins|dup)\s?|\s(?:del|ins|dup)){_BASES}",
    r"(?:\d+_\d+(?:delins|del|ins|dup)|\d{2,}(?:del|ins|dup)\d)\d*",
    rf"(?:\u0394|[dD]elta|del){_LETTER}\d{{3,4}}|{_LETTER}\d{{2,4}}(?:del|fs)",
)
# A form that begins with a letter may follow a sign: c.665C>T/p.Ala222Val, MTHFR-rs1801133.
_VARIANT = re.compile(
    rf"(?<![\w.])(?<!\d,)(?:(?<![-+/\u2013\u2212])|(?=[A-Za-z\u0394]))(?:{'|'.join(_FORMS)})(?!\w)"
)
# The residues of a person or an allele, without a place: Gln/Arg, ArgArg, the Gln allele.
_GENOTYPE = re.compile(rf"{_CODE}(?:\s?/?\s?{_CODE})?")
_LEAST_CONFIDENCE = 0.75


class BiomedVariants(Described, Pipe):
    """Find sequence variants by their nomenclature, such as rs1801133, c.1799T>A and Val158Met.

    The forms are those of dbSNP and HGVS (den Dunnen et al. 2016), and the common older ones. What
    has such a form becomes a mention, in place of mentions within it and of variants that reach
    beyond it ("c.1052delA deletion"). Short forms such as V600E are not searched for, since cell
    lines (T47D) and devices have them too. Genotypes without a place (Gln/Arg) stay only if a
    component is sure of them.

    If the components before it find entities, and none of them has the label, it does nothing.

    Attributes:
        label: label of variants.
        spans_key: span group of the mentions; None for `doc.ents`.
        nlp: the pipeline of the component; None to use it alone.

    Examples:
        >>> import spacy
        >>> nlp = spacy.blank("en")
        >>> variants = nlp.add_pipe("biomed_variants")
        >>> doc = nlp("Carriers of c.665C>T (p.Ala222Val, rs1801133) had more folate.")
        >>> [ent.text for ent in doc.ents]
        ['c.665C>T', 'p.Ala222Val', 'rs1801133']
    """

    default_name, needed_label = FACTORY, LABEL

    def __init__(
        self,
        name: str = FACTORY,
        *,
        label: str = LABEL,
        spans_key: str | None = None,
        nlp: Language | None = None,
    ):
        self.name = name
        self.cfg = {"spans_key": spans_key}
        self._label = label
        self._nlp = nlp

    @property
    def labels(self) -> tuple[str, ...]:
        """The label of variants."""
        return (self._label,)

    def __call__(self, doc: Doc) -> Doc:
        """Add variants to the layer of mentions."""
        found = [
            span
            for match in _VARIANT.finditer(get_text(doc))
            if (span := doc.char_span(*match.span(), label=self._label)) is not None
        ]
        mentions = mentions_of(doc, self.cfg["spans_key"])
        kept = [one for one in mentions if not self._is_doubtful(one)]
        if (found or len(kept) < len(mentions)) and self._is_wanted():
            united = insert_mentions(kept, found, yielding=self._label)
            write_mentions(doc, self.cfg["spans_key"], sorted(united))
        return doc

    def _is_doubtful(self, mention: Span) -> bool:
        if mention.label_ != self._label or not _GENOTYPE.fullmatch(mention.text):
            return False
        confidence = get_confidence(mention)
        return confidence is not None and confidence < _LEAST_CONFIDENCE

    def _is_wanted(self) -> bool:
        if self._nlp is None:
            return True
        labels = list_finders(self._nlp, self, self.cfg["spans_key"]).labels
        return not labels or self._label in labels


make_biomed_variants = register_factory(
    FACTORY, BiomedVariants, assigns=["doc.ents", "doc.spans", "token.ent_iob", "token.ent_type"]
)
