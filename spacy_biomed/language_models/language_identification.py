"""Sentences in another language than the corpus's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from ..errors import BiomedError

# Beginning of a text that is enough to tell its language.
_ENOUGH = 2000


class LanguageIdentifier:
    """Tells sentences of a language from those of others (py3langid's model; Lui and Baldwin 2012,
    "langid.py: An Off-the-shelf Language Identification Tool").

    Attributes:
        lang: code of the language.
        language_from: number of characters from which on a sentence tells its language.
        language_odds: how many times as probable another has to be to be believed. Close relatives
            of the language are often a little more probable for telegraphic sentences full of
            terms.

    Raises:
        BiomedError: if py3langid is not installed or does not know the language.
    """

    def __init__(self, lang: str, *, language_from: int, language_odds: float):
        if find_spec("py3langid") is None:
            raise BiomedError(
                "to identify languages needs py3langid: pip install 'spacy-biomed[train]'"
            )
        self.model = _load_model()
        if lang not in self.model.nb_classes:
            raise BiomedError(f"py3langid knows no language {lang!r}; give a code such as en or es")
        self.lang = lang
        self.language_from = language_from
        self.language_odds = language_odds

    def find_foreign(self, sentences: Sequence[str]) -> list[bool]:
        """Which sentences of a document are in another language.

        A sentence that does not tell is in the language of its document: that of most characters in
        sentences that do tell or, if there are none, of all sentences together.
        """
        told = [self.is_foreign(s) if len(s) >= self.language_from else None for s in sentences]
        if any(foreign is not None for foreign in told):
            characters: Counter[bool | None] = Counter()
            for sentence, foreign in zip(sentences, told, strict=True):
                characters[foreign] += len(sentence)
            default = characters[True] > characters[False]
        else:
            default = bool(self.is_foreign(" ".join(sentences)))
        return [default if foreign is None else foreign for foreign in told]

    def is_foreign(self, text: str) -> bool | None:
        """Whether a text is in another language; None if it does not tell."""
        text = text[:_ENOUGH]
        best, probability = self.model.classify(text)
        if best == self.lang:
            return False
        own = dict(self.model.rank(text))[self.lang]
        return True if probability >= self.language_odds * own else None


@cache
def _load_model() -> Any:
    from py3langid.langid import MODEL_FILE
    from py3langid.langid import LanguageIdentifier as Identifier

    return Identifier.from_model_file(MODEL_FILE, norm_probs=True)
