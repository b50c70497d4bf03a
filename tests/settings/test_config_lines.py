"""Where in a config a setting, a section or a value stands."""

import pytest
from confection import Config

from spacy_biomed.settings.config_errors import (
    explain_syntax,
    locate,
    locate_mentioned,
    locate_setting_or_section,
    locate_string,
)
from spacy_biomed.settings.sections import read_config_text
from spacy_biomed.settings.unchecked_settings import check_settings


def test_a_byte_order_mark_is_not_of_the_config(tmp_path):
    (tmp_path / "a.cfg").write_text("[a]\nx = 1\n", encoding="utf-8-sig")
    assert read_config_text(tmp_path / "a.cfg", "recipe") == "[a]\nx = 1\n"


def test_settings_and_sections_are_found_by_the_end_of_their_name():
    text = "[a]\nx = 1\n\n[a.b]\n# x = 0\nx = 2\n[c.b]\nx = 3\n"
    assert locate(text, "a.x") == 2
    assert locate(text, "a.b.x") == 6
    assert locate(text, "b.x") == 6
    assert locate(text, "d.x") is None
    assert locate(text, "c.b") == 7
    assert locate(text, "") is None


def test_a_whole_name_is_preferred_to_the_end_of_one():
    assert locate("[student.encoder]\nlayers = 1\n[encoder]\nlayers = 2\n", "encoder.layers") == 4


def test_where_a_setting_is_not_given_its_section_is_found():
    text = "[a]\nx = 1\n[b]\ny = 1\n"
    assert locate_setting_or_section(text, "b.y") == 4
    assert locate_setting_or_section(text, "b.x") == 3
    assert locate_setting_or_section(text, "c.x") is None


def test_a_value_is_found_as_a_whole_string():
    assert locate_string('[a]\nx = "name"\ny = "name.of"', "name.of") == 3
    assert locate_string('[a]\nx = "name"', "na") is None


def test_the_line_that_a_message_is_about_is_found():
    text = '[paths]\ntrain = "a/train.spacy"\ndev = "a"\n[initialize.components.ner]\nlabels = []'
    assert locate_mentioned(text, "a/train.spacy: no such file") == 2
    assert locate_mentioned(text, "no corpus 'a/train.spacy'") == 2
    assert locate_mentioned(text, "label 'X': see initialize.components.ner.labels.") == 5
    assert locate_mentioned(text, "about something else") is None


def test_what_configparser_finds_is_read_from_its_messages():
    with pytest.raises(Exception, match="interpolation") as raised:
        Config().from_str("[a]\nx = ${b.y}\n")
    assert explain_syntax("[a]\nx = ${b.y}\n", raised.value) == (
        2,
        "a.x: ${b.y} refers to a setting that is not there; correct its name, or add it",
    )
    with pytest.raises(Exception, match="line") as raised:
        Config().from_str("[a]\nx = 1\nno setting\n")
    line, problem = explain_syntax("", raised.value)
    assert line == 3
    assert problem.startswith("Make sure the sections and values are formatted correctly.")
    assert explain_syntax("", ValueError("something else")) == (None, "something else; correct it")


def test_lists_of_components_may_be_variables_and_what_is_no_list_is_left_to_spacy(tmp_path):
    for value in ("${vars.frozen}", "3", "[3]"):
        text = '[vars]\nfrozen = []\n[nlp]\npipeline = ["ner"]\n[training]\nfrozen_components = '
        check_settings(Config().from_str(text + value, interpolate=False), tmp_path)
    text = (
        "[vars]\nnames = []\n[nlp]\npipeline = ${vars.names}\n[training]\nfrozen_components = ['a']"
    )
    check_settings(Config().from_str(text.replace("'", '"'), interpolate=False), tmp_path)
