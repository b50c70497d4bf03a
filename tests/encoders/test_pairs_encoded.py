"""Pairs of texts in both encoders: what transformers computes for `tokenizer(first, second)`."""

import numpy as np
import pytest
import torch
from spacy.tokens import Doc
from stock_heads import needs_stock
from transformers import AutoModel, AutoTokenizer

import spacy_biomed
from spacy_biomed.annotations.pairs import PAIR_KEY, PAIR_SEPARATOR, get_pair
from spacy_biomed.encoders.batching.encoded import set_encoding
from spacy_biomed.encoders.batching.sequences import make_sequences
from spacy_biomed.encoders.listener import EncoderListener_v1
from spacy_biomed.encoders.onnx.onnx_export import export_encoder
from spacy_biomed.encoders.onnx.onnx_model import OnnxTransformerModel_v1
from spacy_biomed.encoders.stock import to_stock
from spacy_biomed.errors import BiomedError

PAIRS = [
    ("Aspirin reduced the risk of cancer.", "Does aspirin reduce risk?"),
    ("náuseas,  vómitos 😀", "fiebre de 39 °C"),
    ("a", "tras la quimioterapia, el paciente presentó vómitos y náuseas"),
    ("breast cancer", ""),
    ("", "breast cancer"),
    ("", ""),
    ("[SEP] </s> a", "b [CLS] <s>"),
]
TUMOURS = "Mutations of BRCA1 and TP53 were found in breast and ovarian tumours."


@pytest.fixture(scope="module", params=["torch", "onnx"])
def make_any_model(request, make_model, tmp_path_factory):
    """Build a model with either runtime, in fp32."""
    exported = {}

    def make(path, **settings):
        if request.param == "torch":
            return make_model(path, **settings)
        if path not in exported:
            exported[path] = tmp_path_factory.mktemp("exported")
            export_encoder(make_model(path), exported[path], precision="fp32")
        return OnnxTransformerModel_v1(str(exported[path]), **settings).initialize()

    return make


def make_docs(nlp, pairs=PAIRS):
    return [spacy_biomed.pair(nlp, *texts) for texts in pairs]


def direct(path, first, second, **settings):
    """Ids and rows of a pair by transformers alone."""
    # As a batch, because transformers takes an empty second text of one pair for none at all.
    inputs = AutoTokenizer.from_pretrained(path)([(first, second)], return_tensors="pt", **settings)
    model = AutoModel.from_pretrained(path).eval()
    if getattr(model.config, "type_vocab_size", 0) < 2:
        inputs.pop("token_type_ids", None)
    with torch.no_grad():
        return inputs["input_ids"][0].tolist(), model(**inputs).last_hidden_state[0].numpy()


def pieces_of_tokens(encoding):
    """The rows of each token's word pieces."""
    return np.split(encoding.indices, np.cumsum(encoding.piece_counts)[:-1])


@pytest.mark.slow
def test_rows_are_those_of_automodel(any_encoder, make_any_model, nlp):
    encodings = make_any_model(any_encoder).predict(make_docs(nlp)).split()
    for texts, encoding in zip(PAIRS, encodings, strict=True):
        ids, rows = direct(any_encoder, *texts)
        assert encoding.ids.tolist() == ids
        np.testing.assert_allclose(encoding.hidden, rows, atol=1e-5)


def test_segments_matter_where_the_encoder_has_them(tiny_bert, make_any_model, nlp):
    first, second = PAIRS[0]
    batch = make_any_model(tiny_bert).predict(make_docs(nlp, PAIRS[:1]))
    _, rows = direct(tiny_bert, first, second, return_token_type_ids=False)
    assert np.abs(batch.hidden - rows).max() > 1e-3


def test_pairs_and_single_texts_are_encoded_together_as_alone(any_encoder, make_any_model, nlp):
    texts = ["Aspirin reduced the risk.", "", "   ", TUMOURS * 3]
    singles = [nlp.make_doc(text) for text in texts]
    mixed = [doc for both in zip(singles, make_docs(nlp), strict=False) for doc in both]
    model = make_any_model(any_encoder, window=40, context=4, batch_pieces=200)
    for doc, encoding in zip(mixed, model.predict(mixed).split(), strict=True):
        alone = model.predict([doc])
        np.testing.assert_allclose(encoding.hidden, alone.hidden, atol=1e-5)
        for name in ("ids", "indices", "piece_counts"):
            np.testing.assert_array_equal(getattr(encoding, name), getattr(alone, name))


def test_a_batch_without_pairs_has_no_segments(tiny_bert, make_model, nlp):
    tokenizer = make_model(tiny_bert).shims[0].tokenizer
    settings = {"window": 512, "context": 64, "budget": 20}
    single = nlp.make_doc("Aspirin reduced the risk.")
    [batch], _ = make_sequences([single], tokenizer, **settings)
    assert batch.segments is None
    batches, _ = make_sequences([single, *make_docs(nlp)], tokenizer, **settings)
    assert {batch.segments.shape == batch.ids.shape for batch in batches} == {True}
    assert {0, 1} == {segment for batch in batches for segment in np.unique(batch.segments)}


def test_each_token_leads_to_its_own_pieces_and_the_separator_to_none(
    any_encoder, make_any_model, nlp
):
    docs = make_docs(nlp, PAIRS[:5])
    encodings = make_any_model(any_encoder).predict(docs).split()
    for doc, encoding in zip(docs, encodings, strict=True):
        first, second = get_pair(doc)
        offsets = AutoTokenizer.from_pretrained(any_encoder)(
            [(first.text, second.text)], return_offsets_mapping=True
        )
        text_of, spans = offsets.sequence_ids(0), offsets["offset_mapping"][0]
        for token, rows in zip(doc, pieces_of_tokens(encoding), strict=True):
            expected = []
            for row, (text, (start, end)) in enumerate(zip(text_of, spans, strict=True)):
                start_of_text = 0 if text == 0 else len(first.text) + len(PAIR_SEPARATOR)
                start, end = start + start_of_text, end + start_of_text
                touches = start < token.idx + len(token) and end > token.idx and start < end
                if text is not None and touches:
                    expected.append(row)
            assert rows.tolist() == expected
        assert len(pieces_of_tokens(encoding)[first.end]) == 0


def test_a_pair_is_told_from_its_text_alone(tiny_bert, make_any_model, nlp):
    model = make_any_model(tiny_bert)
    marked = make_docs(nlp, PAIRS[:3])
    unmarked = [nlp.make_doc(doc.text) for doc in marked]
    assert all(PAIR_KEY not in doc.spans for doc in unmarked)
    np.testing.assert_array_equal(model.predict(unmarked).hidden, model.predict(marked).hidden)


def test_what_is_outside_the_two_spans_of_a_pair_is_not_read(tiny_bert, make_any_model, nlp):
    doc = Doc(nlp.vocab, words=["Note", "breast", "cancer", "versus", "fiebre", "end"])
    doc.spans[PAIR_KEY] = [doc[1:3], doc[4:5]]
    [encoding] = make_any_model(tiny_bert).predict([doc]).split()
    ids, rows = direct(tiny_bert, "breast cancer", "fiebre")
    assert encoding.ids.tolist() == ids
    np.testing.assert_allclose(encoding.hidden, rows, atol=1e-5)
    assert (encoding.piece_counts > 0).tolist() == [False, True, True, False, True, False]


def test_a_pair_without_a_token_has_no_rows_and_changes_no_other(tiny_bert, make_any_model, nlp):
    empty = nlp.make_doc("")
    empty.spans[PAIR_KEY] = [empty[0:0], empty[0:0]]
    pairs = make_docs(nlp, PAIRS[:2])
    model = make_any_model(tiny_bert)
    batch = model.predict([empty, pairs[0], empty, pairs[1], empty])
    assert batch.row_counts[[0, 2, 4]].tolist() == [0, 0, 0]
    np.testing.assert_allclose(batch.hidden, model.predict(pairs).hidden, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "first, second, window",
    [
        (TUMOURS * 3, TUMOURS, 31),
        (TUMOURS, TUMOURS * 3, 32),
        (TUMOURS * 3, "a", 31),
        ("a", TUMOURS * 3, 8),
    ],
)
def test_a_long_pair_is_truncated_as_by_transformers(
    any_encoder, make_any_model, nlp, first, second, window
):
    doc = spacy_biomed.pair(nlp, first, second)
    [encoding] = make_any_model(any_encoder, window=window).predict([doc]).split()
    ids, rows = direct(any_encoder, first, second, truncation="longest_first", max_length=window)
    assert encoding.ids.tolist() == ids
    assert len(ids) == window
    np.testing.assert_allclose(encoding.hidden, rows, atol=1e-5)


def test_words_that_are_cut_off_have_zeros(tiny_bert, make_any_model, nlp):
    doc = spacy_biomed.pair(nlp, TUMOURS, TUMOURS)
    batch = make_any_model(tiny_bert, window=21).predict([doc])
    first, second = get_pair(doc)
    counts = batch.piece_counts
    for text in (first, second):
        kept = np.flatnonzero(counts[text.start : text.end])
        assert kept.tolist() == list(range(len(kept)))
        assert 0 < len(kept) < len(text)
    assert counts.sum() == 18
    [encoding] = batch.split(listeners=1)
    set_encoding(doc, encoding)
    [vectors] = EncoderListener_v1().predict([doc])
    np.testing.assert_array_equal(vectors.any(axis=1), counts > 0)


def test_a_long_second_text_is_read_in_windows_that_each_have_the_first(
    any_encoder, make_any_model, nlp
):
    tokenizer = AutoTokenizer.from_pretrained(any_encoder)
    first, text = "breast cancer", TUMOURS * 4
    spans = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
    second = text[: spans[44][1]]
    template = tokenizer(first, second)["input_ids"]
    head = len(template) - 45 - 1
    # Windows of 18 pieces of the second text, 9 apart; each piece from where it is most central.
    window = head + 18 + 1
    plan = [((0, 18), (0, 13)), ((9, 27), (13, 22)), ((18, 36), (22, 31)), ((27, 45), (31, 45))]
    encoder = AutoModel.from_pretrained(any_encoder).eval()
    takes_segments = getattr(encoder.config, "type_vocab_size", 0) > 1
    expected = []
    for (start, end), (keep_start, keep_end) in plan:
        pieces = template[head + start : head + end]
        ids = torch.tensor([[*template[:head], *pieces, tokenizer.sep_token_id]])
        segments = torch.tensor([[0] * head + [1] * (end - start + 1)])
        with torch.no_grad():
            inputs = {"token_type_ids": segments} if takes_segments else {}
            rows = encoder(ids, **inputs).last_hidden_state[0].numpy()
        from_row = 0 if start == 0 else head + keep_start - start
        to_row = len(rows) if end == 45 else head + keep_end - start
        expected.append(rows[from_row:to_row])
    model = make_any_model(any_encoder, window=window, context=4, pair_overflow="window")
    docs = [nlp.make_doc("b"), spacy_biomed.pair(nlp, first, second)]
    encoding = model.predict(docs).split()[1]
    assert encoding.ids.tolist() == template
    np.testing.assert_allclose(encoding.hidden, np.concatenate(expected), atol=1e-5)


@pytest.mark.parametrize("pair_overflow", ["truncate", "window"])
def test_a_pair_that_fits_is_the_same_either_way(tiny_bert, make_any_model, nlp, pair_overflow):
    doc = spacy_biomed.pair(nlp, *PAIRS[0])
    ids, rows = direct(tiny_bert, *PAIRS[0])
    model = make_any_model(tiny_bert, window=len(ids), pair_overflow=pair_overflow)
    np.testing.assert_allclose(model.predict([doc]).hidden, rows, atol=1e-5)


def test_a_first_text_that_leaves_no_room_is_one_line(tiny_bert, make_any_model, nlp):
    doc = spacy_biomed.pair(nlp, TUMOURS, "a")
    length = len(direct(tiny_bert, TUMOURS, "a")[0])
    settings = {"pair_overflow": "window", "context": 0}
    make_any_model(tiny_bert, window=length, **settings).predict([doc])
    with pytest.raises(BiomedError) as error:
        make_any_model(tiny_bert, window=length - 1, **settings).predict([doc])
    assert str(error.value) == (
        f"'{TUMOURS[:50]}': this first text of a pair has {length - 4} word pieces and leaves no "
        f"room for the second, as both have {length - 4} in window = {length - 1}: shorten it, or "
        "set pair_overflow = 'truncate'"
    )


@pytest.mark.parametrize("pair_overflow", ["truncate", "window"])
def test_a_window_without_room_for_a_pair_is_one_line(
    tiny_bert, make_any_model, nlp, pair_overflow
):
    model = make_any_model(tiny_bert, window=3, pair_overflow=pair_overflow)
    assert model.predict([nlp.make_doc("a")]).hidden.shape == (3, 16)
    with pytest.raises(BiomedError, match="window = 3 leaves no room for a pair of texts beside 3"):
        model.predict(make_docs(nlp, PAIRS[:1]))


def test_the_gradient_of_pairs_is_that_of_autograd(any_encoder, make_model, nlp):
    model = make_model(any_encoder, batch_pieces=60)
    batch, backprop = model.begin_update(make_docs(nlp))
    weights = np.random.default_rng(0).normal(size=batch.hidden.shape).astype("float32")
    backprop(weights)
    tokenizer = AutoTokenizer.from_pretrained(any_encoder)
    encoder = AutoModel.from_pretrained(any_encoder).train()
    hidden = []
    for texts in PAIRS:
        inputs = tokenizer([texts], return_tensors="pt")
        if getattr(encoder.config, "type_vocab_size", 0) < 2:
            inputs.pop("token_type_ids", None)
        hidden.append(encoder(**inputs).last_hidden_state[0])
    (torch.cat(hidden) * torch.from_numpy(weights)).sum().backward()
    ours = dict(model.shims[0]._model.named_parameters())
    compared = []
    for name, parameter in encoder.named_parameters():
        if parameter.grad is None or name.startswith("pooler"):
            continue
        torch.testing.assert_close(ours[name].grad, parameter.grad, atol=1e-4, rtol=1e-4)
        compared.append(name)
    assert len(compared) > 10


@needs_stock
def test_stock_listeners_see_a_pair_as_one_sequence(tiny_bert, make_any_model, nlp):
    doc = spacy_biomed.pair(nlp, *PAIRS[0])
    [encoding] = make_any_model(tiny_bert).predict([doc]).split()
    data = to_stock(encoding)
    [pieces] = data.wordpieces.strings
    assert pieces.count("[SEP]") == 2 and pieces[0] == "[CLS]"
    assert data.model_output.last_hidden_state.shape == (1, len(pieces), 16)
    assert data.align.lengths.tolist() == encoding.piece_counts.tolist()


def test_bf16_reads_segments_too(tiny_bert, make_model, nlp):
    docs = make_docs(nlp, PAIRS[:3])
    expected = make_model(tiny_bert).predict(docs).hidden
    batch = make_model(tiny_bert, precision="bf16").predict(docs)
    np.testing.assert_allclose(batch.hidden, expected, atol=0.1)


# Exported encoders


def test_int8_is_close_to_pytorch_on_pairs(any_encoder, make_model, nlp, tmp_path):
    model = make_model(any_encoder)
    export_encoder(model, tmp_path, precision="int8")
    docs = make_docs(nlp)
    expected = model.predict(docs).hidden
    actual = OnnxTransformerModel_v1(str(tmp_path)).initialize().predict(docs).hidden
    norms = np.linalg.norm(expected, axis=1) * np.linalg.norm(actual, axis=1)
    assert ((expected * actual).sum(axis=1) / norms).mean() > 0.99
