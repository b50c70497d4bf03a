"""Pipelines that read normalised texts: the same entities, at the offsets of the text as given."""

import unicodedata

import pytest
import spacy
from spacy.training import Example

from spacy_biomed.corpora.tokenizer import create_tokenizer
from spacy_biomed.evaluation.robustness import measure_robustness
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.training.optimizer import AdamW_v1

TEXT = "El paciente presentó náuseas, vómitos y fiebre tras la quimioterapia."
DISEASES = ["náuseas", "vómitos", "fiebre"]

# What replaces each character, so that the offsets in the changed text are known.
CHANGES = {
    "two spaces": lambda c: "  " if c == " " else c,
    "tabs": lambda c: "\t" if c == " " else c,
    "no-break spaces": lambda c: "\u00a0" if c == " " else c,
    "soft hyphens": lambda c: c + "\u00ad" if c in "ae" else c,
    "zero-width spaces between words": lambda c: " \u200b " if c == " " else c,
    "decomposed accents": lambda c: unicodedata.normalize("NFD", c),
}


def build(encoder, accents=True, **head):
    nlp = spacy.blank("es")
    nlp.tokenizer = create_tokenizer()(nlp)
    model = {
        "@architectures": "spacy_biomed.TransformerModel.v1",
        "name": str(encoder),
        "precision": "fp32",
        "normalize": True,
        "accents": accents,
    }
    nlp.add_pipe("biomed_transformer", config={"model": model})
    nlp.add_pipe("biomed_ner", config=head)
    return nlp


def make_example(nlp, text=TEXT):
    reference = nlp.make_doc(text)
    starts = [text.index(disease) for disease in DISEASES]
    reference.set_ents(
        [
            reference.char_span(start, start + len(disease), "DISEASE")
            for start, disease in zip(starts, DISEASES, strict=True)
        ]
    )
    return Example(nlp.make_doc(text), reference)


CLASSIFIER = {
    "@architectures": "spacy_biomed.TokenClassifier.v1",
    "window_size": 1,
    "hidden_width": 16,
    "tok2vec": {"@architectures": "spacy_biomed.EncoderListener.v1"},
    "features": {
        "@architectures": "spacy_biomed.WordEmbed.v1",
        "width": 16,
        "attrs": ["NORM", "PREFIX", "SUFFIX", "SHAPE"],
        "rows": [500, 100, 250, 250],
    },
}


@pytest.fixture(scope="module")
def nlp(tiny_bert):
    return train(build(tiny_bert, model=CLASSIFIER))


def train(nlp):
    examples = [make_example(nlp)]
    nlp.initialize(lambda: examples)
    optimizer = AdamW_v1(5e-3)
    for _ in range(40):
        nlp.update(examples, sgd=optimizer)
    assert [ent.text for ent in nlp(TEXT).ents] == DISEASES
    return nlp


@pytest.fixture(scope="module", params=["PyTorch", "ONNX"])
def pipeline(nlp, request, tmp_path_factory):
    return save_and_load(nlp, request.param, tmp_path_factory)


def save_and_load(nlp, engine, tmp_path_factory):
    path = tmp_path_factory.mktemp("pipeline") / "saved"
    if engine == "PyTorch":
        nlp.to_disk(path)
    else:
        write_compressed(nlp, path, "fp32", quantize_embeddings=False)
    return spacy.load(path)


@pytest.mark.parametrize("engine", ["PyTorch", "ONNX"])
def test_a_text_without_accents_is_read_alike(tiny_bert, engine, tmp_path_factory):
    nlp = train(build(tiny_bert, accents=False, model=CLASSIFIER))
    pipeline = save_and_load(nlp, engine, tmp_path_factory)
    plain = unicodedata.normalize("NFD", TEXT).encode("ascii", "ignore").decode()
    docs = [pipeline(text) for text in (TEXT, plain)]
    found = [[(ent.start_char, ent.end_char, ent._.confidence) for ent in doc.ents] for doc in docs]
    assert [ent.text for ent in docs[0].ents] == DISEASES
    assert found[1] == found[0]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_text_has_the_same_entities_and_confidences(pipeline, change):
    parts = [CHANGES[change](c) for c in TEXT]
    plain, changed = pipeline(TEXT), pipeline("".join(parts))
    assert changed.text == "".join(parts)
    expected = ["".join(parts[ent.start_char : ent.end_char]) for ent in plain.ents]
    assert [ent.text for ent in changed.ents] == expected
    confidences = [ent._.confidence for ent in plain.ents]
    assert [ent._.confidence for ent in changed.ents] == pytest.approx(confidences, abs=1e-5)


def test_a_text_in_capitals_is_read_as_in_small_letters(pipeline):
    upper, lower = pipeline(TEXT.upper()), pipeline(TEXT.lower())
    offsets = [(ent.start_char, ent.end_char) for ent in lower.ents]
    assert [(ent.start_char, ent.end_char) for ent in upper.ents] == offsets
    assert offsets


def test_a_word_hyphenated_at_a_line_end_is_found_whole(pipeline):
    text = TEXT.replace("vómitos", "vómi-\ntos")
    assert "vómi-\ntos" in [ent.text for ent in pipeline(text).ents]


def test_texts_of_a_batch_may_be_changed_or_not(pipeline):
    texts = [TEXT, TEXT.replace(" ", "  "), "", " ", "\u200b", "vómitos", "\t\t"]
    batch = [[ent.text for ent in doc.ents] for doc in pipeline.pipe(texts)]
    assert batch == [[ent.text for ent in pipeline(text).ents] for text in texts]


@pytest.mark.parametrize("settings", [{"decoding": "argmax"}, {"scheme": "bio"}])
def test_entities_reach_across_spaces_with_every_decoding(tiny_bert, settings):
    nlp = build(tiny_bert, **settings)
    text = "fiebre tras quimioterapia y nada más"
    reference = nlp.make_doc(text)
    reference.set_ents([reference.char_span(0, 25, "DISEASE")])
    nlp.initialize(lambda: [Example(nlp.make_doc(text), reference)])
    optimizer = AdamW_v1(5e-3)
    for _ in range(40):
        nlp.update([Example(nlp.make_doc(text), reference)], sgd=optimizer)
    assert [ent.text for ent in nlp(text.replace(" ", "  ")).ents] == [
        "fiebre  tras  quimioterapia"
    ]


def test_training_reads_spaces_as_prediction_does(nlp, tiny_bert):
    """The loss of a text with runs of spaces is that of the plain text."""

    def loss(text, example_of):
        own = build(tiny_bert, model={**CLASSIFIER, "dropout": 0.0})
        example = example_of(own)
        own.initialize(lambda: [example])
        for name, _ in own.pipeline:
            own.get_pipe(name).from_bytes(nlp.get_pipe(name).to_bytes())
        predicted = Example(own.make_doc(text), example.reference)
        return own.update([predicted], sgd=None, drop=0.0)["biomed_ner"]

    def spaced(own):
        text = TEXT.replace(" ", "  ")
        return make_example(own, text)

    plain = loss(TEXT, make_example)
    assert loss(TEXT.replace(" ", "  "), spaced) == pytest.approx(plain, rel=1e-4)


def test_robustness_counts_entities_at_their_place_in_the_original_text(pipeline):
    reference = make_example(pipeline).reference
    rows = measure_robustness(pipeline, [reference], ["as it is", "two spaces", "tabs"])
    assert [row.f1 for row in rows] == [1.0, 1.0, 1.0]
