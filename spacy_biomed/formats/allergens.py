"""Drugs that somebody is allergic to, by the words around them."""

import re

from ..annotations.sections import SECTION
from .findings import Row

# The section whose drugs are not taken.
ALLERGIES = "allergies"
# An allergy; one before what somebody is allergic to, and after it; what a drug is, if not that.
ALLERGY_WORD = re.compile(
    r"(?:drug |medication )?(?:allerg(?:y|ies|ic)|intoleran(?:ces?|t))"
    r"|(?:alergias?|intolerancias?)(?: medicamentosas?)?|al[ée]rgic[oa]|intolerante|RAMC?",
    re.IGNORECASE,
)
_ALLERGIC_TO = re.compile(
    rf"\b(?:{ALLERGY_WORD.pattern}|anaphylaxis|anafilaxia|hipersensibilidad|sensitivit(?:y|ies)"
    r"|(?:adverse |drug )*reactions?|ADRs?|reacci(?:ón|ones)(?: adversas?| alérgicas?)?)"
    r"(?: (?:reactions?|reviewed|status|conocid[oa]s?))?(?::| (?:to|of|al?)\b)",
    re.IGNORECASE,
)
_ALLERGIC = re.compile(r"[ -](?:allerg(?:y|ies|ic)|intoleran(?:ce|t))\b", re.IGNORECASE)
_TAKEN = re.compile(
    r"\b(?:tak(?:es?|ing)|on|start\w*|continu\w+|tolerat\w+|but|use[sd]?|treat\w*|giv(?:en|ing)"
    r"|receiv\w+|tom[ao]\w*|trat\w+|paut\w+|toler\w+|pero|inici\w+|pued[ea]|tto|recib\w+)\b",
    re.IGNORECASE,
)
_DOSE = re.compile(r"[ ]\d")
_SENTENCE_END = re.compile(r"[.!?;]\s+|\n")


def is_allergen(text: str, span: Row) -> bool:
    """Whether a drug is what somebody is allergic to: by its sentence, or a section's items."""
    if _ALLERGIC.match(text, span["end"]):
        return True
    before = text[max(span["start"] - 200, 0) : span["start"]]
    sentence = _SENTENCE_END.split(before)[-1]
    named = _ALLERGIC_TO.split(sentence)[-1]
    is_item = sentence == before.rpartition("\n")[2] or not sentence.strip()
    is_told = named != sentence or (span.get(SECTION) == ALLERGIES and is_item)
    return is_told and not (_TAKEN.search(named) or _DOSE.match(text, span["end"]))
