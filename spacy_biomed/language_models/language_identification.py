"""Find sentences that are not in the language of the corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ..errors import BiomedError, install_command

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier as Identifier

# Maximum number of characters for the identification of a text's language.
_ENOUGH = 2000


class LanguageIdentifier:
    """Finds sentences that are not in a given language, with py3langid's model.

    Lui and Baldwin 2012, "langid.py: An Off-the-shelf Language Identification Tool".

    Attributes:
        language_from: minimum number of characters to identify the language of a sentence.
        language_odds: another language must be at least this many times as probable. For
            telegraphic sentences full of terms, closely related languages are often slightly more
            probable.

    Raises:
        BiomedError: if py3langid is not installed or does not know the language.
    """

    def __init__(self, lang: str, *, language_from: int, language_odds: float):
        if find_spec("py3langid") is None:
            raise BiomedError(f"identifying languages needs py3langid: {install_command('train')}")
        self.model = _load_model()
        if lang not in self.model.nb_classes:
            raise BiomedError(f"py3langid knows no language {lang!r}; give a code such as en or es")
        self.lang = lang
        self.language_from = language_from
        self.language_odds = language_odds

    def find_foreign(self, sentences: Sequence[str]) -> list[bool]:
        """Whether each sentence of a document is in another language.

        A sentence that is too short or undecided counts as in the language of its document: the
        language of most characters in the decided sentences or, if there are none, of all
        sentences together.
        """
        known = [self.is_foreign(s) if len(s) >= self.language_from else None for s in sentences]
        if any(foreign is not None for foreign in known):
            characters: Counter[bool | None] = Counter()
            for sentence, foreign in zip(sentences, known, strict=True):
                characters[foreign] += len(sentence)
            default = characters[True] > characters[False]
        else:
            default = bool(self.is_foreign(" ".join(sentences)))
        return [default if foreign is None else foreign for foreign in known]

    def is_foreign(self, text: str) -> bool | None:
        """Whether a text is in another language; None if undecided."""
        text = text[:_ENOUGH]
        best, probability = self.model.classify(text)
        if best == self.lang:
            return False
        expected = dict(self.model.rank(text))[self.lang]
        return True if probability >= self.language_odds * expected else None


@cache
def _load_model() -> Identifier:
    from py3langid.langid import MODEL_FILE
    from py3langid.langid import LanguageIdentifier as Identifier

    return Identifier.from_model_file(MODEL_FILE, norm_probs=True)
