import re
import time
from random import Random

import pytest

from spacy_biomed.formats.spelling import fold_case
from spacy_biomed.formats.squad import find_nearest


def test_the_nearest_place_is_that_of_a_search_through_all_places():
    random = Random(0)
    for _ in range(2000):
        text = "".join(random.choices("ab", k=random.randint(0, 30)))
        string = "".join(random.choices("ab", k=random.randint(1, 4)))
        place = random.randint(-3, 40)
        places = [match.start() for match in re.finditer(f"(?={string})", text)]
        expected = min(
            places, key=lambda one: abs(one - min(max(place, 0), len(text))), default=None
        )
        assert find_nearest(text, string, place) == expected


@pytest.mark.parametrize("string", ["a" * 100_000 + "b", "b" + "a" * 100_000, "a" * 100_000])
def test_long_strings_are_searched_for_in_linear_time(string):
    begin = time.process_time()
    for place in (0, 200_000, 400_000):
        assert find_nearest("a" * 400_000, string, place) == (
            None if "b" in string else min(place, 300_000)
        )
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("text", ["Straße", "İZMİR", "ΟΔΟΣ", "ﬁ"])
def test_a_folded_text_has_as_many_characters(text):
    assert len(fold_case(text)) == len(text)
    assert fold_case(fold_case(text)) == fold_case(text)
