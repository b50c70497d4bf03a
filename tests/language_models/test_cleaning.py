"""Cleaning a corpus, and its report."""

import json
import lzma
import os
import pickle
from itertools import islice
from pathlib import Path

import pytest

from spacy_biomed.errors import BiomedError
from spacy_biomed.language_models.cleaning import (
    DOCUMENT_REASONS,
    SENTENCE_REASONS,
    Account,
    CleaningSettings,
    Sifter,
    Source,
    clean_corpus,
    report_path,
)
from spacy_biomed.language_models.deduplication import NearDuplicates
from spacy_biomed.language_models.sentences import Thresholds
from spacy_biomed.language_models.text_sources import read_documents
from spacy_biomed.workers import process
from spacy_biomed.workers.process import start_worker

REPOSITORY = Path(__file__).parents[2]

# Three documents of three sentences each, which are not similar to each other.
DOCUMENTS = [
    "A woman of 64 years was admitted with fever, cough and pain in the left side of her chest. "
    "The radiograph showed a shadow in the lower lobe of the left lung, and she was given "
    "amoxicillin for seven days. On the third day her temperature was normal again.",
    "Mutations in the gene for the cystic fibrosis transmembrane regulator cause a defect in the "
    "transport of chloride through the membrane of epithelial cells. The secretions of the lung "
    "become thick, and bacteria grow in them. Most of the patients are infertile if they are men.",
    "We compared two doses of the vaccine in 412 children between two and six years of age. Both "
    "of the groups had more antibodies after four weeks than before, and the larger dose did not "
    "lead to more of them. Redness of the skin was the most common adverse effect in our study.",
]
SPANISH = (
    "El paciente ingresó en el hospital por dolor abdominal intenso, náuseas y vómitos. "
    "La ecografía mostró varios cálculos en la vesícula biliar. No hubo complicaciones."
)
# A noisy sentence for each rule, as a separate document or at the end of another document.
NOISE = {
    "broken_encoding": "The patientâ€™s heart was normal on the next morning.",
    "markup": "The <i>heart</i> was normal on the next morning.",
    "address": "The results are at www.heart.org for all to see.",
    "repeated_characters": "Contents of the report .......... page 12 of it.",
    "too_many_digits": "Call 555 0199 2837 or 555 0199 2838 now.",
    "too_many_symbols": "List = [*] (+) {-} <see> /the/ ; - * -",
    "too_few_letters": "Abc1, de23; e5-g at 7.8.",
    "too_short": "Conflicting interests.",
    "too_long": "It " + " ".join(f"be{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(250)),
    "long_word": "The sequence of it was " + "acgt" * 20 + " in the end.",
    "all_capitals": "DO NOT COPY THIS PAGE OF THE REPORT.",
    "repeated_words": "Home and care, home and care, home and care, home and care.",
    "unbalanced": "The heart was (as we saw normal on the next morning.",
    "cut_off": "The heart was normal on the next...",
    "no_stop_words": "Aspirin, ibuprofen, diclofenac, naproxen, morphine, fentanyl, tramadol, "
    "codeine, oxycodone, methadone, ketamine, lidocaine, bupivacaine, propofol, midazolam.",
}


@pytest.fixture
def clean(tmp_path):
    """Clean documents of named sources; return the counts and the written documents."""

    def clean(settings=None, /, **documents: list[str]) -> tuple[dict[str, Account], list[str]]:
        sources = []
        for name, texts in documents.items():
            path = tmp_path / f"{name}.jsonl"
            path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
            sources.append(Source(name, (path,)))
        output = tmp_path / "clean.txt"
        report = clean_corpus(sources, output, settings or CleaningSettings("en"))
        return report.sources, output.read_text(encoding="utf8").splitlines()

    return clean


def removed(account: Account) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers of removed documents and sentences, by reason."""
    assert set(account.removed_documents) <= set(DOCUMENT_REASONS)
    assert set(account.removed_sentences) <= set(SENTENCE_REASONS)
    assert account.documents_in == account.documents_out + account.removed_documents.total()
    assert account.sentences_in == account.sentences_out + account.removed_sentences.total()
    return dict(+account.removed_documents), dict(+account.removed_sentences)


def rewrite(document: str) -> str:
    """The same text with different punctuation, case and white space."""
    return document.replace(", ", "  ; ").replace(" the ", " THE ")


def replace_last_word(document: str) -> str:
    return document.rsplit(" ", 1)[0] + " today."


def test_clean_documents_stay_as_they_are_and_apart(clean):
    accounts, lines = clean(a=DOCUMENTS)
    assert lines == DOCUMENTS
    words = sum(len(document.split()) for document in DOCUMENTS)
    assert accounts["a"] == Account(3, 3, 9, 9, words, words)
    assert removed(accounts["a"]) == ({}, {})


def test_everything_planted_is_counted_exactly(clean):
    first = [
        DOCUMENTS[0],
        *NOISE.values(),
        DOCUMENTS[1],
        rewrite(DOCUMENTS[0]),
        replace_last_word(DOCUMENTS[1]),
        f"{SPANISH} {SPANISH}",
        SPANISH,
        DOCUMENTS[1],
    ]
    second = [
        *(f"{DOCUMENTS[2]} {noise}" for noise in list(NOISE.values())[:2]),
        DOCUMENTS[1],
        DOCUMENTS[1],
        replace_last_word(DOCUMENTS[0]),
        # Kept, except for a sentence of the other source and a sentence it has twice.
        "The nurses were asked for their view. On the third day, her temperature was normal again! "
        "Nobody had asked them before this trial. The nurses were asked for their view.",
    ]
    accounts, lines = clean(first=first, second=second)
    assert removed(accounts["first"]) == (
        {"duplicate": 2, "near_duplicate": 1, "no_sentence_left": len(NOISE) + 2},
        dict.fromkeys(NOISE, 1) | {"other_language": 9, "in_duplicate_document": 9},
    )
    assert removed(accounts["second"]) == (
        {
            "duplicate": 2,
            "duplicate_of_other_source": 1,
            "near_duplicate_of_other_source": 1,
        },
        {
            "broken_encoding": 1,
            "markup": 1,
            "in_duplicate_document": 12,
            "duplicate": 1,
            "duplicate_of_other_source": 1,
        },
    )
    assert lines == [
        *DOCUMENTS,
        "The nurses were asked for their view. Nobody had asked them before this trial.",
    ]
    assert accounts["first"].words_in == sum(len(document.split()) for document in first)
    assert accounts["second"].words_out == sum(len(line.split()) for line in lines[2:])


def test_thresholds_reach_the_rules(clean):
    settings = CleaningSettings("en", Thresholds(min_words=16))
    accounts, lines = clean(settings, a=[DOCUMENTS[0]])
    assert removed(accounts["a"])[1] == {"too_short": 1}
    assert lines == [" ".join(DOCUMENTS[0].split()[:-9])]


def test_similarity_decides_what_is_near(clean):
    """46 words have 42 shingles; a changed word changes 5 of them: the similarity is 37 / 47."""
    documents = [DOCUMENTS[1], DOCUMENTS[1].replace("secretions", "fluids")]
    assert removed(clean(a=documents)[0]["a"])[0] == {}
    settings = CleaningSettings("en", near_duplicates=NearDuplicates(similarity=0.6))
    assert removed(clean(settings, a=documents)[0]["a"])[0] == {"near_duplicate": 1}


def test_a_document_is_compared_with_kept_ones_only(clean):
    """Each is near the document before; the third is not near the first, and stays."""
    words = DOCUMENTS[2].split()
    chain = [" ".join(words[: len(words) - 5 * i]) for i in range(3)]
    assert removed(clean(a=chain[:2])[0]["a"])[0] == {"near_duplicate": 1}
    assert removed(clean(a=chain[1:])[0]["a"])[0] == {"near_duplicate": 1}
    assert removed(clean(a=chain)[0]["a"])[0] == {"near_duplicate": 1}


def test_what_cannot_be_seen_is_taken_out(clean):
    document = DOCUMENTS[0].replace("woman", "wo\u00adman").replace("fever", "\ufefffever\u200b")
    assert clean(a=[document])[1] == [DOCUMENTS[0]]


def test_a_document_of_paragraphs_becomes_a_line(clean):
    document = DOCUMENTS[0].replace(". ", ".\n\n").replace(", ", ",\n")
    assert clean(a=[document])[1] == [DOCUMENTS[0]]


def test_the_report_lies_beside_the_output_and_agrees(tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("\n".join([*DOCUMENTS, DOCUMENTS[0], NOISE["markup"]]))
    output = tmp_path / "out" / "clean.txt.xz"
    report = clean_corpus([Source("a", (source,))], output, CleaningSettings("en"))
    assert lzma.decompress(output.read_bytes()).decode("utf8").splitlines() == DOCUMENTS
    assert sorted(path.name for path in output.parent.iterdir()) == [
        "clean.report.json",
        "clean.txt.xz",
    ]
    written = json.loads(report_path(output).read_text())
    assert written == json.loads(json.dumps(report.to_json()))
    assert written["settings"]["lang"] == "en"
    assert written["settings"]["thresholds"]["min_words"] == 3
    assert written["sources"]["a"] == written["total"]
    assert written["total"]["documents"] == {
        "in": 5,
        "out": 3,
        "removed": {**dict.fromkeys(DOCUMENT_REASONS, 0), "duplicate": 1, "no_sentence_left": 1},
    }
    assert list(written["total"]["sentences"]["removed"]) == list(SENTENCE_REASONS)


@pytest.mark.parametrize("ending", ["", ".gz", ".xz", ".zst"])
def test_the_output_is_compressed_as_its_name_says_and_can_be_read_again(tmp_path, ending):
    source = tmp_path / "a.txt"
    source.write_text("\n".join(DOCUMENTS))
    output = tmp_path / f"clean.txt{ending}"
    clean_corpus([Source("a", (source,))], output, CleaningSettings("en"))
    assert (output.read_bytes() == source.read_bytes() + b"\n") == (not ending)
    assert list(read_documents([output])) == DOCUMENTS


@pytest.mark.parametrize(
    ("output", "report"),
    [
        ("a/clean.txt", "a/clean.report.json"),
        ("clean.v2.text.XZ", "clean.v2.report.json"),
        ("v1.2/clean.txt.zst", "v1.2/clean.report.json"),
    ],
)
def test_the_report_is_named_like_the_output(output, report):
    assert report_path(Path(output)) == Path(report)


def test_what_sifts_can_be_sent_to_another_process():
    sifter = Sifter(CleaningSettings("en"))
    copy = pickle.loads(pickle.dumps(sifter))
    assert copy.sift(DOCUMENTS[0]) == sifter.sift(DOCUMENTS[0])


def test_several_processes_give_the_same(tmp_path):
    source = tmp_path / "a.txt"
    documents = [*DOCUMENTS, *NOISE.values(), replace_last_word(DOCUMENTS[0]), SPANISH] * 20
    source.write_text("\n".join(documents), encoding="utf8")
    outcomes = []
    for workers in (1, 2):
        output = tmp_path / f"clean{workers}.txt"
        report = clean_corpus(
            [Source("a", (source,))], output, CleaningSettings("en"), workers=workers
        )
        outcomes.append((report.to_json(), output.read_bytes()))
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][0]["total"]["documents"]["in"] == len(documents)


def test_a_process_that_is_killed_is_one_line(tmp_path, monkeypatch):
    def start(*arguments, **options):
        worker = start_worker(*arguments, **options)
        worker.kill()
        return worker

    monkeypatch.setattr(process, "start_worker", start)
    (tmp_path / "a.txt").write_text("\n".join(DOCUMENTS))
    output, source = tmp_path / "clean.txt", Source("a", (tmp_path / "a.txt",))
    with pytest.raises(BiomedError, match="^a process was killed.*with fewer --workers$"):
        clean_corpus([source], output, CleaningSettings("en"), workers=2)
    assert not output.exists()


def test_progress_is_told_from_the_start_to_the_end(tmp_path):
    for name in "ab":
        (tmp_path / f"{name}.txt").write_text("\n".join(DOCUMENTS))
    told = []
    clean_corpus(
        [Source(name, (tmp_path / f"{name}.txt",)) for name in "ab"],
        tmp_path / "clean.txt",
        CleaningSettings("en"),
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(done, 6) for done in range(7)]


@pytest.mark.parametrize(
    ("settings", "content", "message"),
    [
        (CleaningSettings("xx"), DOCUMENTS[0], "xx"),
        (CleaningSettings("es"), DOCUMENTS[0], "no document would be left; is 'es' the language"),
        (CleaningSettings("en"), "\n", "no document would be left"),
        (CleaningSettings("en"), f"{DOCUMENTS[0]}\n\udcff", r"a\.txt:2: not UTF-8"),
    ],
)
def test_bad_input_leaves_what_was_there(tmp_path, settings, content, message):
    (tmp_path / "a.txt").write_bytes(content.encode("utf8", "surrogateescape"))
    output = tmp_path / "clean.txt"
    output.write_text("of before")
    with pytest.raises(BiomedError, match=message):
        clean_corpus([Source("a", (tmp_path / "a.txt",))], output, settings)
    assert output.read_text() == "of before"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "clean.txt"]


def test_a_source_is_not_overwritten(tmp_path):
    (tmp_path / "a.txt").write_text(DOCUMENTS[0])
    with pytest.raises(BiomedError, match="which is read"):
        clean_corpus([Source("a", (tmp_path,))], tmp_path / "." / "a.txt", CleaningSettings("en"))
    assert (tmp_path / "a.txt").read_text() == DOCUMENTS[0]


@pytest.mark.parametrize("name", ["clean", "clean.jsonl", "clean.parquet", "clean.txt.bz2"])
def test_the_output_is_named_as_text(tmp_path, name):
    (tmp_path / "a.txt").write_text(DOCUMENTS[0])
    with pytest.raises(BiomedError, match="let the name end in .txt"):
        clean_corpus([Source("a", (tmp_path / "a.txt",))], tmp_path / name, CleaningSettings("en"))


@pytest.fixture(scope="module")
def real_text() -> list[str]:
    """The first documents of the corpora's English text; skip the test if it is missing."""
    folder = os.environ.get("SPACY_BIOMED_CORPORA", REPOSITORY.parent / "shared" / "corpora")
    path = Path(folder) / "text_en.txt.xz"
    if not path.is_file():
        pytest.skip("no text_en.txt.xz: set SPACY_BIOMED_CORPORA to the archives' folder")
    return list(islice(read_documents([path]), 200))


@pytest.mark.slow
def test_what_is_planted_into_real_text_is_counted_exactly(clean, real_text):
    """The counts of planted text are the differences between counts with and without it."""
    text = clean(a=real_text)[1]
    # Long documents, in which a single word hardly changes the similarity.
    long_ones = [document for document in text if len(document.split()) > 120][:30]
    assert len(long_ones) == 30
    before, lines = clean(a=text)
    planted = [
        *text,
        *map(rewrite, long_ones[:10]),
        *map(replace_last_word, long_ones[10:30]),
        *(f"{long_ones[0]} {noise}" for noise in NOISE.values()),
        *(SPANISH.replace("varios", str(number)) for number in range(5)),
    ]
    after, lines_after = clean(a=planted)
    documents, sentences = after["a"].removed_documents, after["a"].removed_sentences
    documents.subtract(before["a"].removed_documents)
    sentences.subtract(before["a"].removed_sentences)
    sentences.pop("in_duplicate_document")
    assert lines_after == lines
    assert dict(+documents) == {
        "duplicate": 10 + len(NOISE),
        "near_duplicate": 20,
        "no_sentence_left": 5,
    }
    assert dict(+sentences) == {**dict.fromkeys(NOISE, 1), "other_language": 15}
