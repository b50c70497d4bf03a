"""Names of people by where they stand: after a role or a verb, at the start of a note, beside
another name; and without what only looks like a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from .pattern_names import DOES, NameFinder, Word
from .pattern_rules import Found, caseless, find_matches, rule
from .plain_text import LONGEST, PlainText
from .term_lists import LANGUAGES, is_clinical_term, name_words

# Roles before a colon, after which any word that is not ordinary is a name.
_ROLES = (
    r"cirujan[oa]s?|ayudantes?|ayte|ayud|anestesi(?:a|sta|olog[oa])|instrumentista|circulante"
    r"|perfusionista|matrona|comadrona|residente|adjunt[oa]|mir|due|enfermer[oa]|tcae|auxiliar"
    r"|supervisor[a]?|trabajador[a]? social|celador[a]?|fisio(?:terapeuta)?|logopeda"
    r"|psic[óo]log[oa]"
    r"|psiquiatra|pediatra|radi[óo]log[oa]|pat[óo]log[oa]|cardi[óo]log[oa]|informante|int[ée]rprete"
    r"|farmac[ée]utic[oa]|t[ée]cnico|investigador[a]?(?: principal)?|monitor[a]?|coordinador[a]?"
    r"|tutor[a]?|especialista|autor[a]?|cuidador[a]?(?: principal)?|representante"
    r"|persona de contacto"
    r"|surgeons?|ass(?:t|istant)s?|ana?esth(?:esia|etist|esiologist)?|crna|scrub(?: nurse| tech)?"
    r"|circulat(?:or|ing)(?: nurse)?|consultant|registrar|sho|fy?[12]|ct[12]|st[1-8]|intern"
    r"|resident"
    r"|fellow|attending|hospitalist|physician|provider|prescriber|clinician|doctor|nurse|rn|lpn"
    r"|np|cna"
    r"|hca|sw|midwife|doula|tech(?:nician|nologist)?|sonographer|radiographer|(?:cardi|onc|ur"
    r"|neur|nephr|radi|path|pulmon|dermat|endocrin|hemat"
    r"|rheumat|psych|gastroenter|immun)ologist|psychiatrist|pcp|gp"
    r"|pediatrician|dentist|pharmacist|dietitian|therapist|physio|ot|slp|nurse in charge"
    r"|charge nurse|team lead(?:er)?|interpreter|chaplain"
    r"|social worker"
    r"|case manager|coordinator|investigator|witness|author|scribe|operator|endoscopist"
    r"|perfusionist"
    r"|caregiver|carer|guardian|proxy|hcp|poa|nok|next of kin|emergency contact|contact|guarantor"
    r"|informant|accompanied by|escort|teacher|supervisor|spouse|partner"
)
_ROLE = caseless(
    "name",
    rf"(?<![^\W_])(?:{_ROLES})\.?(?: ?\([^()\n]{{1,25}}\)| (?:de )?(?:turno|guardia)"
    r"(?: de (?:noche|mañana|tarde|d[íi]a))?| on (?:call|duty|shift))? ?[:=] ?(?=[^\W\d_])",
)
_COLON = re.compile(r"[:=] ?(?=[^\W\d_])")
# Words of a role and of brackets after it.
_MOST_WORDS = 4
# What a person does to another, before the name of a patient at the start of a sentence.
_TO_SOMEBODY = rule(
    "name",
    r"\b(?:Reingres[aó]|Ingres[aó]|Acud[ei]ó?|Lleg[aó]|Viene|Vino|Falleció"
    r"|Fallece|Nace|Reconsulta|Llama|Se (?:cita|informa|avisa|traslada) a|Veo a|Hablo con|Saw"
    r"|Seeing"
    r"|Met(?: with)?|Reviewed|Examined|Consented|Counsel+ed|Admitt(?:ed|ing)|Discharged|Reassessed"
    r"|Assessed|Visited|Transferred|Extubated|Intubated|Called|Phoned|Informed|Updated"
    r"|Spoke (?:with"
    r"|to|w/)|D/[wW]|Discussed with|Thank you for (?:seeing|referring)|Re|RE"
    r"|Dear) ?:? (?=[A-ZÀ-Þ])",
)
_SENTENCE_START = re.compile(r"(?:\A|\n|[.;:!?] |[-*•>] )\Z")
# The words that call somebody by another name.
_CALLS = caseless(
    "name",
    r"(?<![^\W_])(?:goes by|known (?:to \w+ |locally |at home )?as|(?:likes|wants) to be called"
    r"|prefers(?: to be called)?|nicknamed?|alias|aka|calls? (?:him|her|them)(?:self)?|call me"
    r"|l[ae]s? llaman"
    r"|le dicen"
    r"|le digan|se hace llamar|apodad[oa]|conocid[oa] como)[ :]{1,2}[\"'«“(]?(?:(?:el|la) )?"
    r"(?=[^\W\d_]{3})",
)
_CALLED = re.compile(r"[\"'»”,;()\n]|\.(?=\s|\Z)|\Z")
_CASE = rule(
    "name",
    r"\b(?i:caso (?:cl[íi]nico )?del?|case of|pacientes?|patient|pte|pt|iniciales|initials)\.?:? "
    r"(?P<value>(?:[A-ZÀ-Þ]\.[ ]?){2,4})",
)
# Beds and items of a list before a name.
_ITEM = re.compile(
    r"^[ >*•-]*(?P<bed>(?i:bed|room|rm|bay|cubicle|chair|cama|box|hab|habitaci[óo]n)\.? ?)?"
    r"\d{1,4}[A-Za-z]?[ ]?[-–.:)|] ?(?=[^\W\d_])",
    re.MULTILINE,
)
_AFTER_ITEM = re.compile(r"[ ]?[-–,:(|;\n]|\.?[ ]?(?:\n|\Z)")
# Where a name may begin: a line or, in English, a sentence.
_START = re.compile(r"^[ >*•#-]*(?=[^\W\d_])|(?<=[.;!?] )(?=[A-Z][a-z])", re.MULTILINE)
_AGE = re.compile(r",? \(?\d{1,3} ?(?:-?y(?:ea)?rs?\b|y/?o\b|[yYMFmf]\b|\))")
_ACTS = re.compile(
    r" (?:(?:is|was|has|still|also|now|again|then|not|does|did|would|will|who) ){0,2}(?:c/o|w/"
    r"|attend\w*"
    r"|(?:came|comes) (?:in|to|for|back)|here (?:for|with|today)|needs?|wants?|ask(?:s|ed)"
    r"|call(?:s|ed)"
    r"|request(?:s|ed)|refus(?:es|ed)|declin(?:es|ed)|agree[sd]|understands|tolerat(?:es|ed)"
    r"|ambulat(?:es|ed|ing)|slept|voided|remains|underwent|brought|arrived|admitted|discharged"
    r"|transferred|works|weighs|d/c'?d|dna'?d?|went|got|fell|said|says|told|felt|took|drank|ate"
    r"|died"
    r"|passed away|improving|stable|report(?:s|ed|ing)|den(?:ies|ied|ying)|present(?:s|ed|ing)"
    r"|complain(?:s|ed|ing)|endors(?:es|ed))(?![^\W_])"
)
_AFTER_START = re.compile(r" ?(?:[:\n;(,]|[-–] )|\.?\Z|\. ")
_AFTER_INVERTED = re.compile(r" ?(?:[.;:(,\n]|[-–] |\d)|\Z|  ")
# A further name after one.
_AND = re.compile(
    r" (?:to|and|y|e|&|with|con) (?:(?:his |her |su )?[a-z]{3,8} )?(?=[A-ZÀ-Þ][a-zß-ÿ])"
)
_MOST_NAMES = 3
_COLLEAGUES = re.compile(r"(?:, | / | (?:and|y|&) )(?=[A-ZÀ-Þ])")
# Endings of drugs, microbes and diseases, which no list has all of.
_SUBSTANCE = re.compile(
    r"(?:ine|ol|ide|ate|pam|lam|pril|cillin|mycin|micin|azole|statin|mab|nib|vir|sartan|floxacin"
    r"|emide"
    r"|ella|coccus|itis|osis|emia|uria|algia|pathy|ectomy|otomy|oscopy|gram|graphy|ina|azol"
    r"|cilina)$"
)
# Nouns that make a name before them part of a term: "Bell's palsy", "Ann Arbor stage".
_NOUN = re.compile(
    r"(?:'s?)?[ -](?:disease|syndrome|sign|palsy|procedure|operation|test|criteria|scor(?:e|ing)"
    r"|scale"
    r"|stag(?:e|ing)|grad(?:e|ing)|class|classification|catheter|tube|drain|line|fracture|lesion"
    r"|node"
    r"|murmur|reflex|man(?:o)?euver|phenomenon|lymphoma|sarcoma|tumou?r|cyst|hernia|ulcer"
    r"|o?esophagus"
    r"|fundoplication|stain|thyroiditis|contracture|dementia|chorea|an(?:a)?emia|arthropathy|foot"
    r"|joint|view|position|incision|repair|flap|graft|loop|pouch|limb|triad|law|rule|index|type"
    r"|virus"
    r"|fever|spotted|bod(?:y|ies)|cell|spot|patch|plaque|nodule|ring|exam|mask|suction|retractor"
    r"|forceps|clamp|wire|pin|plate|nail|screw|traction|brace|splint|cast|collar|valve|shunt|stent"
    r"|filter|balloon|pump|needle|trocar|diverticulum|phototype|skin type|unit)(?:e?s)?\b"
)
_TITLE = re.compile(r"\b(?:dra?|mr|mrs|ms|miss|sra?|srta|don|dona|prof)\.? \Z")


def find_people(plain: PlainText, language: str) -> Found:
    """Find names of people.

    These are the names of `NameFinder`, and:

    - Words after a role and a colon ("Surgeon: Rosenthal").
    - Names after a verb at the start of a sentence ("Saw Thaddeus Wexford").
    - A name that somebody is called by, and initials after "case of".
    - At the start of a line or a sentence, names before an age, a verb or a sign, and two words
      that are not ordinary with a comma between ("Okonkwo, Chidi.").
    - Names after a bed, and a given name that "and" joins to another name.

    Single words that are clinical terms ("Parkinson"), and names before a noun such as "sign", are
    left out unless a title is before them.
    """
    finder = _PeopleFinder(plain, language)
    names = _unite(plain.text, [*finder.find_names(), *finder.find_people()])
    for start, end in [*names, *finder.find_joined(names)]:
        if not finder.is_term(start, end):
            yield start, end, "name"


def _unite(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Overlapping spans of one line as one."""
    united: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if united and start < united[-1][1] and "\n" not in text[start:end]:
            united[-1] = united[-1][0], max(end, united[-1][1])
        else:
            united.append((start, end))
    return united


class _PeopleFinder(NameFinder):
    def find_people(self) -> Iterator[tuple[int, int]]:
        """(start, end) of each name that stands where people do."""
        yield from self._after_roles()
        yield from self._after_verbs()
        yield from self._after_calls()
        for match in find_matches(_CASE, self.plain):
            yield match.start("value"), match.start("value") + len(match["value"].rstrip())
        yield from self._in_items()
        if self.language == "en":
            yield from self._at_starts()

    def find_joined(self, names: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        """Given names after a name and "and", and a word with a name in brackets after it."""
        for _, end in names:
            joined = _AND.match(self.text, end)
            place = self.at.get(joined.end()) if joined else None
            if (
                place is not None
                and (word := self.word(place)).is_clear()
                and word.known == "given"
            ):
                yield word.start, self.places[self.extend(place) - 1][1]

    def is_term(self, start: int, end: int) -> bool:
        """Whether what looks like a name is a clinical term."""
        name = self.folded[start:end].removesuffix("'s")
        if self.folded.startswith(" virus", end):
            return True
        if name.count(" ") > 1 or _TITLE.search(self.folded, max(start - 8, 0), start):
            return False
        is_known_term = is_clinical_term(name)
        if _NOUN.match(self.folded, end) and (is_known_term or " " not in name):
            return True
        return is_known_term and not DOES.match(self.folded, end)

    def _is_unusual(self, word: Word) -> bool:
        """Whether a capitalised word is ordinary in no language and no clinical term."""
        return (
            word.shape in "tu"
            and len(word.form) > 1
            and not word.is_ordinary
            and not is_clinical_term(word.form)
            and (
                bool(word.known)
                or not any(word.form in name_words(one).ordinary for one in LANGUAGES)
            )
        )

    def _is_substance(self, word: Word) -> bool:
        return not word.known and _SUBSTANCE.search(word.form) is not None

    def _read_words(self, place: int, most: int = 5) -> list[Word]:
        """The capitalised words from a place on that no ordinary word is among, with initials."""
        words: list[Word] = []
        while place < len(self.places) and len(words) < most:
            word = self.word(place)
            is_initial = word.shape == "i" and bool(words)
            if not (self._is_unusual(word) or is_initial) or (words and not self.joins(place)):
                break
            words.append(word)
            place += 1
        return words

    def _after_roles(self) -> Iterator[tuple[int, int]]:
        for colon in _COLON.finditer(self.text):
            place = self.at.get(colon.end()) if self._is_role(colon.end()) else None
            for _ in range(_MOST_NAMES):
                if place is None:
                    break
                word = self.word(place)
                is_name = word.shape in "tu" and len(word.form) > 2 and not self._is_substance(word)
                is_free = bool(word.known) and _CALLED.match(self.text, word.end) is not None
                if not is_name or (word.is_ordinary and not is_free):
                    break
                end = self.places[self.extend(place) - 1][1]
                yield word.start, end
                following = _COLLEAGUES.match(self.text, end)
                place = self.at.get(following.end()) if following else None
                if place is not None and not self.word(place).is_clear():
                    break

    def _is_role(self, end: int) -> bool:
        """Whether one to three words before a colon, of which this is the end, are a role."""
        place = self.at[end]
        for start, _ in self.places[max(place - _MOST_WORDS, 0) : place]:
            if self.folded[start : start + LONGEST] in _ROLE.prefixes:
                match = _ROLE.form.match(self.folded, start)
                if match is not None and match.end() == end:
                    return True
        return False

    def _after_verbs(self) -> Iterator[tuple[int, int]]:
        for match in find_matches(_TO_SOMEBODY, self.plain):
            start = match.start()
            is_first = _SENTENCE_START.search(self.text, max(start - 2, 0), start)
            place = self.at.get(match.end()) if start == 0 or is_first else None
            words = self._read_words(place) if place is not None else []
            names = [word for word in words if word.shape != "i"]
            is_one = len(names) == 1 and names[0].known == "given" and names[0].shape == "t"
            if is_one or (len(names) > 1 and not any(map(self._is_substance, names))):
                yield words[0].start, words[-1].end

    def _after_calls(self) -> Iterator[tuple[int, int]]:
        for match in find_matches(_CALLS, self.plain):
            place = self.at.get(match.end())
            word = self.word(place) if place is not None else None
            if word is None or word.shape != "t":
                continue
            is_end = (
                _CALLED.match(self.text, word.end) or self.text[word.end : word.end + 2] == " ("
            )
            if is_end and not is_clinical_term(word.form):
                yield word.start, word.end

    def _in_items(self) -> Iterator[tuple[int, int]]:
        for match in _ITEM.finditer(self.text):
            place = self.at.get(match.end())
            words = self._read_words(place) if place is not None else []
            if not words or not _AFTER_ITEM.match(self.text, words[-1].end):
                continue
            is_known = any(word.is_clear() for word in words)
            if is_known or (match["bed"] and not any(map(self._is_substance, words))):
                yield words[0].start, words[-1].end

    def _at_starts(self) -> Iterator[tuple[int, int]]:
        for match in _START.finditer(self.text):
            place = self.at.get(match.end())
            words = self._read_words(place) if place is not None else []
            names = [word for word in words if word.shape != "i"]
            if not names or any(map(self._is_substance, names)):
                continue
            end = words[-1].end
            if self.text[end : end + 2] == ", " and (inverted := self._after_comma(end + 2, names)):
                yield words[0].start, inverted
            elif len(names) > 1 and self._is_person(names, end):
                yield words[0].start, end

    def _is_person(self, names: list[Word], end: int) -> bool:
        """Whether what follows two capitalised words is said of people, or ends a heading."""
        if _AGE.match(self.text, end) or DOES.match(self.folded, end):
            return True
        if _ACTS.match(self.folded, end):
            return True
        return any(one.is_clear() for one in names) and bool(_AFTER_START.match(self.text, end))

    def _after_comma(self, start: int, before: list[Word]) -> int | None:
        """The end of the given name after a surname and a comma."""
        place = self.at.get(start)
        words = self._read_words(place, 3) if place is not None else []
        if not words or len(before) > 2 or any(map(self._is_substance, words)):
            return None
        is_same = words[0].shape == before[0].shape or words[0].shape == "t"
        end = words[-1].end
        is_known = words[0].known == "given" or before[0].known == "surname"
        is_end = _AFTER_INVERTED.match(self.text, end) is not None
        return end if is_same and (is_end or is_known) else None
