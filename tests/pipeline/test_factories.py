"""Factories made from constructors: names, types and defaults of the settings."""

import pytest
import spacy
from spacy.language import Language
from spacy.pipeline import Pipe
from thinc.api import ConfigValidationError

from spacy_biomed.pipeline.factories import register_factory


class Repeat(Pipe):
    def __init__(self, name, nlp: Language, *, times: int = 2, marks: dict[str, str] | None = None):
        self.name, self.nlp, self.times, self.marks = name, nlp, times, marks

    def __call__(self, doc):
        return doc


class OfVocab(Repeat):
    def __init__(self, vocab, name="of_vocab", *, times: int = 3):
        super().__init__(name, vocab, times=times)


register_factory("repeat", Repeat, {"marks": {"end": "."}}, assigns=[])
register_factory("of_vocab", OfVocab, assigns=["doc.cats"], default_score_weights={"repeats": 1.0})


def test_defaults_are_those_of_the_constructor_and_of_the_config():
    nlp = spacy.blank("en")
    found = nlp.add_pipe("repeat", name="twice")
    assert (found.name, found.nlp, found.times, found.marks) == ("twice", nlp, 2, {"end": "."})
    assert nlp.config["components"]["twice"] == {
        "factory": "repeat",
        "times": 2,
        "marks": {"end": "."},
    }


def test_a_class_that_takes_the_vocabulary_gets_it_and_what_it_declares_is_kept():
    nlp = spacy.blank("en")
    assert nlp.add_pipe("of_vocab", config={"times": 5}).nlp is nlp.vocab
    meta = nlp.get_factory_meta("of_vocab")
    assert (meta.default_config, list(meta.assigns)) == ({"times": 3}, ["doc.cats"])
    assert meta.default_score_weights == {"repeats": 1.0}


@pytest.mark.parametrize("settings", [{"times": "many"}, {"time": 2}])
def test_settings_of_another_type_or_name_are_refused(settings):
    (wrong,) = settings
    with pytest.raises(ConfigValidationError, match=wrong):
        spacy.blank("en").add_pipe("repeat", config=settings)
