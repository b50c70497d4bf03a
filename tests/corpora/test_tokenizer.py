import time

import pytest
import spacy
from spacy.tokenizer import Tokenizer

from spacy_biomed.corpora.gold import create_doc, place_mentions
from spacy_biomed.corpora.tokenizer import create_tokenizer
from spacy_biomed.formats.brat import read_brat


def pipeline(language="en"):
    nlp = spacy.blank(language)
    nlp.tokenizer = create_tokenizer()(nlp)
    return nlp


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("en", "IL-2/p53+ (TNFα)", "IL - 2 / p53 + ( TNFα )"),
        ("en", "p<0.05, 1,25-D3.", "p < 0.05 , 1,25 - D3 ."),
        ("en", "Crohn's don't e.g. 5'-end", "Crohn 's do n't e.g. 5 ' - end"),
        ("en", "Id binds Ras, in Fig. 2.", "Id binds Ras , in Fig . 2 ."),
        ("es", "(G3pT2N0M0), Dra.Pérez", "( G3 pT2N0M0 ) , Dra . Pérez"),
        ("es", "p.ej. 12/03/2010 y ana.b@x.es.", "p.ej. 12 / 03 / 2010 y ana.b@x.es ."),
        ("fr", "l'apnée d’effort, qu'est-ce", "l' apnée d’ effort , qu' est -ce"),
        ("fr", "(aujourd’hui)", "( aujourd’hui )"),
        ("en", "a_b e\u0301t\u00e9 😀!", "a _ b e\u0301t\u00e9 😀 !"),
    ],
)
def test_words_numbers_and_signs_are_tokens(language, text, tokens):
    assert [token.text for token in pipeline(language).make_doc(text)] == tokens.split()


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", " ", "\n\t ", "😀", "(((", "a  b\n\nc", "..", "l'"])
@pytest.mark.parametrize("language", ["en", "es", "fr"])
def test_the_text_is_kept(language, text):
    assert pipeline(language).make_doc(text).text == text


@pytest.mark.parametrize("language", ["en", "es", "fr"])
def test_a_saved_pipeline_loads_an_equal_tokenizer(tmp_path, language):
    nlp = pipeline(language)
    nlp.to_disk(tmp_path)
    loaded = spacy.load(tmp_path)
    text = "IL-2/p53 (0.05), l'apnée; don't e.g. Crohn's a.b@c.org G3pT2N0M0."
    assert [t.text for t in loaded.make_doc(text)] == [t.text for t in nlp.make_doc(text)]
    assert loaded.tokenizer.to_bytes() == nlp.tokenizer.to_bytes()


def test_a_config_names_the_tokenizer():
    nlp = spacy.blank(
        "es", config={"nlp": {"tokenizer": {"@tokenizers": "spacy_biomed.Tokenizer.v1"}}}
    )
    assert [token.text for token in nlp.make_doc("IL-2")] == ["IL", "-", "2"]
    nlp.config.to_str()


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("corpus", "language"), [("jnlpba", "en"), ("cantemist", "es"), ("meddocan", "es")]
)
def test_of_published_mentions_one_in_a_thousand_at_most_is_off_the_boundaries(
    corpora_dir, corpus, language
):
    nlp = pipeline(language)
    total = inside = 0
    for document in read_brat(corpora_dir(corpus)):
        placement = place_mentions(create_doc(nlp, document), document.mentions, flat=False)
        total += len(placement.mentions)
        inside += len(placement.inside_token)
    assert total > 10_000
    assert inside / total <= 0.001


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("language", ["en", "es"])
def test_it_takes_at_most_half_as_long_again_as_the_languages_own(corpora_dir, language):
    folder = corpora_dir({"en": "jnlpba", "es": "meddocan"}[language])
    texts = [document.text for document in read_brat(folder)][:300]

    def seconds(nlp):
        begin = time.process_time()
        for text in texts:
            nlp.make_doc(text)
        return time.process_time() - begin

    assert seconds(pipeline(language)) < 1.5 * seconds(spacy.blank(language))


RUNS = [*" \t\n-./()[]_,'\"@:;#éa1\u0301\u3000😀", "a-", "1,", "a.", "'s", "a@", ".-", "-1", "G1T2"]


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("language", ["en", "fr"])
def test_a_run_of_any_signs_is_tokenized_in_linear_time(language, run):
    """One by one from its ends, as spaCy takes signs off, it would be a minute and a half."""
    text = run * (40_000 // len(run))
    nlp = pipeline(language)
    begin = time.process_time()
    doc = nlp.tokenizer(text)
    assert time.process_time() - begin < 2
    assert doc.text == text


@pytest.mark.slow
@pytest.mark.parametrize("run", ["x", "-", "a-b/", "(", "1.5,", " ", "\n", "a.b@c.org;"])
@pytest.mark.parametrize("around", ["a b {} don't", "one  \n{}\n e.g.", "a b{}c d", "\n\n{} \n"])
def test_a_long_run_changes_nothing_around_it_and_keeps_the_text(run, around):
    nlp = pipeline()
    doc, short = (nlp.tokenizer(around.format(run * times)) for times in (300, 3))
    assert doc.text == around.format(run * 300)
    for part in (slice(1), slice(-1, None)):
        words, expected = ([token.text_with_ws for token in one[part]] for one in (doc, short))
        assert words == expected


@pytest.mark.slow
@pytest.mark.parametrize("around", ["{}", "one {} two", " {} ", "\n{}\n", "one  {}"])
@pytest.mark.parametrize("run", [" ", "\n", "-", "a-", "1,5;", "word"])
def test_long_runs_are_tokenized_as_short_ones(run, around):
    """Where nothing is cut, spaCy's own way of it gives the same."""
    nlp = pipeline()
    text = around.format(run * 80 if len(run) > 1 else run * 300)
    words = [token.text_with_ws for token in nlp.tokenizer(text)]
    assert words == [token.text_with_ws for token in Tokenizer.__call__(nlp.tokenizer, text)]


def test_exceptions_keep_their_norms_beside_a_long_run():
    doc = pipeline().tokenizer(f"don't {'-' * 300} don't")
    assert (
        [token.norm_ for token in doc[:2]] == [token.norm_ for token in doc[-2:]] == ["do", "not"]
    )
