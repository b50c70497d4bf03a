import json
import re
import sys

import numpy as np
import pytest
import spacy
import torch
from spacy.tokens import DocBin
from stock_heads import STOCK_HEADS, TRAINING, check_learned, make_examples, needs_stock
from thinc.api import Model
from transformers import AutoModel, AutoTokenizer

from spacy_biomed.encoders.batching.encoded import get_encoding
from spacy_biomed.errors import BiomedError, install_command
from spacy_biomed.training.optimizer import AdamW_v1

NER, ENCODER = "biomed_ner", "biomed_transformer"


def entities(docs):
    return [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in docs]


def initialised(make_pipeline, heads, **settings):
    nlp = make_pipeline(heads, **settings)
    examples = make_examples(nlp)
    optimizer = AdamW_v1(3e-3)
    nlp.initialize(lambda: examples)
    return nlp, examples, optimizer


def gradient(nlp):
    encoder = nlp.get_pipe(ENCODER).model.shims[0]._model
    return np.concatenate(
        [p.grad.numpy().ravel() for p in encoder.parameters() if p.grad is not None]
    )


def test_the_gradient_of_two_heads_is_the_sum_of_theirs(make_pipeline):
    gradients = []
    for exclude in (["biomed_ner-b"], ["biomed_ner-a"], []):
        nlp, examples, _ = initialised(make_pipeline, {"biomed_ner-a": {}, "biomed_ner-b": {}})
        # Different weights: those of a new pipeline are zeros, whose gradients are zeros.
        for seed, name in enumerate(("biomed_ner-a", "biomed_ner-b")):
            output = nlp.get_pipe(name).model.get_ref("output")
            W = np.random.default_rng(seed).normal(size=output.get_param("W").shape)
            output.set_param("W", W.astype("float32"))
        nlp.update(examples, sgd=False, exclude=exclude)
        nlp.get_pipe(ENCODER)._finish_pending()
        gradients.append(gradient(nlp))
    assert all(np.abs(one).sum() > 0 for one in gradients)
    assert not np.allclose(gradients[0], gradients[1])
    np.testing.assert_allclose(gradients[2], gradients[0] + gradients[1], atol=1e-4)


def test_a_frozen_head_does_not_keep_the_encoder_from_learning(make_pipeline, weights):
    heads = {"biomed_ner-a": {}, "biomed_ner-b": {}}
    nlp, examples, optimizer = initialised(make_pipeline, heads)
    before = {name: weights(nlp, name) for name in nlp.pipe_names}
    for _ in range(3):
        nlp.update(examples, sgd=optimizer, exclude=["biomed_ner-b"])
    assert not np.array_equal(weights(nlp, ENCODER), before[ENCODER])
    assert not np.array_equal(weights(nlp, "biomed_ner-a"), before["biomed_ner-a"])
    np.testing.assert_array_equal(weights(nlp, "biomed_ner-b"), before["biomed_ner-b"])


def test_a_frozen_head_does_not_hold_up_the_training_loops_step(make_pipeline, weights):
    """`spacy train` accumulates gradients and then updates all components."""
    heads = {"biomed_ner-a": {}, "biomed_ner-b": {}}
    nlp, examples, optimizer = initialised(make_pipeline, heads)
    nlp.update(examples, sgd=optimizer, exclude=["biomed_ner-b"])  # so that weights are not zeros
    before = weights(nlp, ENCODER)
    nlp.update(examples, sgd=False, exclude=["biomed_ner-b"])
    nlp.get_pipe(ENCODER).finish_update(optimizer)
    assert not np.array_equal(weights(nlp, ENCODER), before)


def test_gradients_accumulate_over_batches_until_the_step(make_pipeline, weights):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}})
    nlp.update(examples, sgd=optimizer)
    before = weights(nlp, ENCODER)
    nlp.update(examples[:1], sgd=False)
    first = gradient(nlp)
    nlp.update(examples[1:], sgd=False)
    assert not np.allclose(gradient(nlp), first)
    np.testing.assert_array_equal(weights(nlp, ENCODER), before)
    nlp.get_pipe(ENCODER).finish_update(optimizer)
    assert not np.array_equal(weights(nlp, ENCODER), before)


def test_the_training_loops_step_can_clip_encoder_and_heads_by_one_norm(make_pipeline):
    nlp, examples, _ = initialised(make_pipeline, {NER: {}})
    nlp.update(examples, sgd=AdamW_v1(3e-3))  # so that weights, and so gradients, are not zeros
    nlp.update(examples, sgd=False)
    nlp.get_pipe(ENCODER)._finish_pending()
    output = nlp.get_pipe(NER).model.get_ref("output")
    of_head = {name: output.get_grad(name).copy() for name in ("W", "b")}
    of_encoder = gradient(nlp)
    parts = [of_encoder, *(array.ravel() for array in of_head.values())]
    norm = float(np.linalg.norm(np.concatenate(parts).astype("float64")))
    optimizer = AdamW_v1(3e-3, grad_clip=norm / 10, clip_together=True)
    for _, pipe in nlp.pipeline:
        pipe.finish_update(optimizer)
    # After the first step the first moment is a tenth of the clipped gradient.
    for name, whole in of_head.items():
        moment = optimizer.mom1[output.id, name].reshape(whole.shape)
        np.testing.assert_allclose(moment, 0.01 * whole, rtol=1e-3, atol=1e-9)


@needs_stock
def test_grad_factor_zero_keeps_a_head_from_training_the_encoder(make_pipeline):
    listener = {"@architectures": "spacy_biomed.EncoderListener.v1", "grad_factor": 0.0}
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {"model": {"tok2vec": listener}}})
    nlp.update(examples, sgd=optimizer)
    nlp.update(examples, sgd=False)
    assert np.abs(gradient(nlp)).sum() == 0


@pytest.mark.slow(least=1)
@needs_stock
@pytest.mark.parametrize("head", STOCK_HEADS)
def test_spacys_own_heads_train_through_the_stock_listener(make_pipeline, weights, head):
    nlp, examples, optimizer = initialised(make_pipeline, {head: STOCK_HEADS[head]})
    before = weights(nlp, ENCODER)
    losses = []
    for _ in range(30):
        step = nlp.update(examples, sgd=optimizer, losses={})
        losses.append(step[head])
    assert losses[-1] < 0.5 * losses[0]
    assert step[ENCODER] > 0
    assert not np.array_equal(weights(nlp, ENCODER), before)
    check_learned(nlp, head)


@pytest.mark.slow
@needs_stock
def test_stock_and_own_heads_share_an_encoder(make_pipeline, weights):
    from spacy_transformers.layers import TransformerListener

    heads = {NER: {}, "textcat_multilabel": STOCK_HEADS["textcat_multilabel"], "ner": {}}
    heads["ner"] = STOCK_HEADS["ner"]
    nlp, examples, optimizer = initialised(make_pipeline, heads)
    for _ in range(30):
        losses = nlp.update(examples, sgd=optimizer, losses={})
    assert all(losses[name] < 1.0 for name in heads)
    listeners = nlp.get_pipe(ENCODER).listeners
    assert sum(isinstance(listener, TransformerListener) for listener in listeners) == 2
    assert len(listeners) == 3


@needs_stock
def test_stock_listeners_get_what_spacy_transformers_gives(make_pipeline, tiny_bert):
    """The vector of a token is the mean of its word pieces' rows, zeros if it has none."""
    nlp, _, _ = initialised(make_pipeline, {"tagger": STOCK_HEADS["tagger"]})
    doc = nlp("Aspirin  reduced cancer")
    tok2vec = nlp.get_pipe("tagger").model.get_ref("tok2vec")
    [vectors] = tok2vec.predict([doc])
    tokenizer = AutoTokenizer.from_pretrained(tiny_bert)
    hidden = (
        AutoModel.from_pretrained(tiny_bert)
        .eval()(**tokenizer(doc.text, return_tensors="pt"))[0][0]
        .detach()
    )
    spans = tokenizer(doc.text, return_offsets_mapping=True)["offset_mapping"]
    for token in doc:
        rows = [
            hidden[i].numpy()
            for i, (start, end) in enumerate(spans)
            if start < token.idx + len(token) and end > token.idx
        ]
        expected = np.mean(rows, axis=0) if rows else np.zeros(16)
        np.testing.assert_allclose(vectors[token.i], expected, atol=1e-5)


@needs_stock
def test_trf_data_is_one_sequence_over_the_whole_document(make_pipeline, tiny_bert):
    nlp, _, _ = initialised(make_pipeline, {}, keep_encodings=True)
    doc = nlp("Aspirin reduced cancer. " * 300)
    data = doc._.trf_data
    ids = AutoTokenizer.from_pretrained(tiny_bert)(doc.text)["input_ids"]
    assert len(ids) > 1000
    assert data.wordpieces.input_ids.tolist() == [ids]
    assert data.model_output.last_hidden_state.shape == (1, len(ids), 16)
    assert data.wordpieces.strings[0][0] == "[CLS]"
    assert data.wordpieces.lengths == [len(ids)]
    assert len(data.align.lengths) == len(doc)
    for token in (doc[0], doc[len(doc) // 2], doc[-1]):
        rows = data.align[token.i].dataXd.ravel().tolist()
        pieces = [data.wordpieces.strings[0][row] for row in rows]
        assert "".join(piece.removeprefix("##") for piece in pieces) == token.text
    assert data is doc._.trf_data


@needs_stock
def test_trf_data_of_an_empty_document_is_empty(make_pipeline):
    nlp, _, _ = initialised(make_pipeline, {}, keep_encodings=True)
    assert len(nlp("")._.trf_data.wordpieces.strings) == 0
    assert nlp.make_doc("a")._.trf_data is None


@needs_stock
def test_trf_data_is_that_of_the_last_run(make_pipeline):
    nlp, _, _ = initialised(make_pipeline, {}, keep_encodings=True)
    doc = nlp("Aspirin reduced cancer")
    before = doc._.trf_data.model_output.last_hidden_state.copy()
    parameter = next(nlp.get_pipe(ENCODER).model.shims[0]._model.parameters())
    parameter.data += 0.5 * parameter.data.flip(0)
    after = nlp(doc)._.trf_data.model_output.last_hidden_state
    assert not np.allclose(before, after)


@pytest.mark.slow(least=1)
@needs_stock
@pytest.mark.parametrize(
    "heads, settings, stays",
    [
        ({NER: {}}, {}, False),
        ({"biomed_ner-a": {}, "biomed_ner-b": {}}, {}, False),
        ({NER: {}}, {"keep_encodings": True}, True),
        ({}, {}, True),
        ({NER: {}, "tagger": STOCK_HEADS["tagger"]}, {}, True),
    ],
)
def test_which_documents_keep_their_encoding(make_pipeline, heads, settings, stays):
    nlp, examples, optimizer = initialised(make_pipeline, heads, **settings)
    nlp.update(examples, sgd=optimizer)
    for doc in [nlp("Aspirin"), nlp(""), *nlp.pipe(text for text, _ in TRAINING)]:
        assert (get_encoding(doc) is not None) == stays
        assert (doc._.trf_data is not None) == stays


def test_a_head_called_again_on_a_finished_document_finds_the_same(make_pipeline):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}})
    nlp.update(examples, sgd=optimizer)
    docs = list(nlp.pipe([text for text, _ in TRAINING], batch_size=100))
    expected = [[(span.text, span._.confidence) for span in doc.ents] for doc in docs]
    head = nlp.get_pipe(NER)
    for doc, spans in zip(docs, expected, strict=True):
        assert get_encoding(doc) is None
        doc.ents = ()
        again = [(span.text, span._.confidence) for span in head(doc).ents]
        assert again == [(text, pytest.approx(value, abs=1e-5)) for text, value in spans]
    assert any(expected)


def test_training_leaves_nothing_on_the_documents(make_pipeline):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}})
    nlp.update(examples, sgd=optimizer)
    assert all(get_encoding(example.predicted) is None for example in examples)


def test_pipe_keeps_the_order_of_documents(make_pipeline):
    nlp, _, _ = initialised(make_pipeline, {}, keep_encodings=True, max_batch_words=7)
    texts = ["a b c d e f", "a", "", "a b c", "  ", "a b c d e f g h i j", "b", "a b"] * 3
    docs = list(nlp.pipe(texts, batch_size=5))
    assert [doc.text for doc in docs] == texts
    for doc, text in zip(docs, texts, strict=True):
        alone = get_encoding(nlp(text)).hidden
        np.testing.assert_allclose(get_encoding(doc).hidden, alone, atol=1e-5)


def test_pipe_encodes_up_to_max_batch_words_at_once_however_their_lengths_differ(
    make_pipeline, monkeypatch
):
    nlp, _, _ = initialised(make_pipeline, {}, max_batch_words=100)
    encoder, sizes = nlp.get_pipe("biomed_transformer"), []
    predict = encoder.predict

    def record(docs):
        sizes.append([len(doc) for doc in docs])
        return predict(docs)

    monkeypatch.setattr(encoder, "predict", record)
    list(nlp.pipe(["a " * 59 + "a", *["a"] * 20, "a " * 200, "a", "b"]))
    assert sizes == [[60, *[1] * 20], [200], [1, 1]]


@pytest.fixture
def two_threads():
    """PyTorch with two threads, which a forked process does not inherit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


@pytest.mark.slow(least=1)
@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("keep", [False, True])
def test_several_processes_give_what_one_gives(make_pipeline, two_threads, keep):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}}, keep_encodings=keep)
    for _ in range(8):
        nlp.update(examples, sgd=optimizer)
    texts = [text for text, _ in TRAINING] * 4
    one = list(nlp.pipe(texts, batch_size=3))
    two = list(nlp.pipe(texts, batch_size=3, n_process=2))
    assert [doc.text for doc in two] == texts
    assert entities(two) == entities(one)
    assert any(entities(one))
    for first, second in zip(one, two, strict=True):
        assert (get_encoding(second) is not None) == keep
        if keep:
            np.testing.assert_allclose(
                get_encoding(second).hidden, get_encoding(first).hidden, atol=1e-5
            )


def test_a_frozen_encoder_that_annotates_trains_the_head_alone(make_pipeline, weights):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}})
    encoder, head = weights(nlp, ENCODER), weights(nlp, NER)
    losses = [
        nlp.update(examples, sgd=optimizer, losses={}, exclude=[ENCODER], annotates=[ENCODER])[NER]
        for _ in range(40)
    ]
    assert losses[-1] < 0.9 * losses[0]
    np.testing.assert_array_equal(weights(nlp, ENCODER), encoder)
    assert not np.array_equal(weights(nlp, NER), head)


@pytest.mark.parametrize("annotates", [[], [ENCODER], [ENCODER, "biomed_ner-a"]])
def test_a_frozen_encoder_trains_its_heads_whatever_annotates(make_pipeline, weights, annotates):
    """A head that annotates reads the vectors twice, and the one after it has to encode again."""
    heads = ["biomed_ner-a", "biomed_ner-b"]
    nlp, examples, optimizer = initialised(make_pipeline, {name: {} for name in heads})
    before = {name: weights(nlp, name) for name in nlp.pipe_names}
    losses = [
        nlp.update(examples, sgd=optimizer, losses={}, exclude=[ENCODER], annotates=annotates)
        for _ in range(30)
    ]
    np.testing.assert_array_equal(weights(nlp, ENCODER), before[ENCODER])
    assert all(losses[-1][name] < 0.9 * losses[0][name] for name in heads)


def test_heads_behind_two_encoders_hear_those_that_they_name(make_pipeline, tiny_roberta):
    nlp, both = make_pipeline({}), {ENCODER: "a", "second": "b"}
    model = {"name": str(tiny_roberta), "precision": "fp32"}
    nlp.add_pipe(ENCODER, "second", config={"model": model})
    for encoder, key in both.items():
        listener = {"@architectures": "spacy_biomed.EncoderListener.v1", "upstream": encoder}
        nlp.add_pipe(NER, key, config={"spans_key": key, "model": {"tok2vec": listener}})
    examples, optimizer = make_examples(nlp), AdamW_v1(1e-2)
    for example in examples:
        example.reference.spans.update(dict.fromkeys(both.values(), [*example.reference.ents]))
    nlp.initialize(lambda: examples)
    for _ in range(30):
        nlp.update(examples, sgd=optimizer)
    docs = list(nlp.pipe(text for text, _ in TRAINING))
    assert all(get_encoding(doc) is None for doc in docs)
    for encoder, key in both.items():
        with nlp.select_pipes(enable=[encoder, key]):
            alone = [nlp(text) for text, _ in TRAINING]
        found, expected = ([doc.spans[key] for doc in some] for some in (docs, alone))
        assert any(found)
        for one, other in zip(found, expected, strict=True):
            assert [span.text for span in one] == [span.text for span in other]
            np.testing.assert_allclose(one.attrs["scores"], other.attrs["scores"], atol=1e-4)


def test_an_encoder_that_annotates_and_learns(make_pipeline, weights):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}})
    before = weights(nlp, ENCODER)
    for _ in range(2):
        nlp.update(examples, sgd=optimizer, annotates=[ENCODER])
    assert not np.array_equal(weights(nlp, ENCODER), before)


def test_batches_without_tokens_change_nothing(make_pipeline, weights):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}})
    before = weights(nlp, ENCODER)
    assert nlp.update(examples[-1:], sgd=optimizer, losses={})[NER] == 0.0
    assert nlp.get_pipe(ENCODER).update([], sgd=optimizer, losses={}) == {ENCODER: 0.0}
    np.testing.assert_array_equal(weights(nlp, ENCODER), before)


def test_a_listener_hears_the_encoder_that_it_names(make_pipeline):
    listener = {"@architectures": "spacy_biomed.EncoderListener.v1", "upstream": "another"}
    nlp = make_pipeline({NER: {}, "biomed_ner-b": {"model": {"tok2vec": listener}}})
    assert nlp.get_pipe(ENCODER).listening_components == [NER]


@pytest.mark.slow(least=1)
def test_a_saved_pipeline_gives_the_same(make_pipeline, any_encoder, tmp_path):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}}, encoder=any_encoder)
    for _ in range(15):
        nlp.update(examples, sgd=optimizer)
    texts = [text for text, _ in TRAINING]
    expected = list(nlp.pipe(texts))
    assert any(entities(expected))
    nlp.to_disk(tmp_path / "saved")
    from_bytes = spacy.blank("en").from_config(nlp.config).from_bytes(nlp.to_bytes())
    for again in (spacy.load(tmp_path / "saved"), from_bytes):
        docs = list(again.pipe(texts))
        assert entities(docs) == entities(expected)
        for doc, same in zip(docs, expected, strict=True):
            assert [ent._.confidence for ent in doc.ents] == pytest.approx(
                [ent._.confidence for ent in same.ents], abs=1e-6
            )


@pytest.mark.slow
@needs_stock
def test_a_loaded_pipeline_learns_on(make_pipeline, weights, tmp_path):
    nlp, examples, _ = initialised(make_pipeline, {NER: {}, "tagger": STOCK_HEADS["tagger"]})
    nlp.to_disk(tmp_path)
    again = spacy.load(tmp_path)
    before = weights(again, ENCODER)
    optimizer = again.resume_training(sgd=AdamW_v1(3e-3))
    losses = [again.update(examples, sgd=optimizer, losses={})[NER] for _ in range(20)]
    assert losses[-1] < 0.5 * losses[0]
    assert not np.array_equal(weights(again, ENCODER), before)


def test_a_saved_pipeline_holds_no_pickle(make_pipeline, tmp_path):
    nlp, _, _ = initialised(make_pipeline, {NER: {}})
    nlp.to_disk(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert (tmp_path / ENCODER / "encoder" / "model.safetensors") in files
    for path in files:
        content = path.read_bytes()
        # Pickles of protocol 2 and later, and archives written by torch.save.
        is_pickle = content[:1] == b"\x80" and content[1:2] in b"\x02\x03\x04\x05"
        assert not (is_pickle and content[-1:] == b"."), path
        assert content[:4] != b"PK\x03\x04", path
    assert b"torch" not in (tmp_path / NER / "model").read_bytes()


def test_the_encoder_of_a_saved_pipeline_loads_with_transformers(make_pipeline, tmp_path):
    nlp, examples, optimizer = initialised(make_pipeline, {NER: {}}, keep_encodings=True)
    nlp.update(examples, sgd=optimizer)
    nlp.to_disk(tmp_path)
    path = tmp_path / ENCODER / "encoder"
    text = "Aspirin reduced  cancer"
    inputs = AutoTokenizer.from_pretrained(path)(text, return_tensors="pt")
    hidden = AutoModel.from_pretrained(path).eval()(**inputs).last_hidden_state[0].detach()
    np.testing.assert_allclose(get_encoding(nlp(text)).hidden, hidden.numpy(), atol=1e-5)


def test_an_encoder_that_was_not_loaded_yet_is_not_saved(make_pipeline, tmp_path):
    with pytest.raises(ValueError, match=f"E109.*{ENCODER}"):
        make_pipeline({}).to_disk(tmp_path)


def test_settings_are_saved(make_pipeline, tmp_path):
    nlp, _, _ = initialised(make_pipeline, {}, max_batch_words=99, keep_encodings=True)
    nlp.to_disk(tmp_path)
    cfg = json.loads((tmp_path / ENCODER / "cfg").read_text(encoding="utf8"))
    assert cfg == {"max_batch_words": 99, "keep_encodings": True}


@needs_stock
def test_documents_that_keep_their_encoding_can_be_stored(make_pipeline):
    nlp, _, _ = initialised(make_pipeline, {}, keep_encodings=True)
    doc = nlp("Aspirin reduced cancer")
    doc_bin = DocBin(docs=[doc], store_user_data=True)
    [read] = DocBin().from_bytes(doc_bin.to_bytes()).get_docs(nlp.vocab)
    np.testing.assert_array_equal(
        read._.trf_data.model_output.last_hidden_state, get_encoding(doc).hidden[None]
    )
    assert read._.trf_data.wordpieces.strings == doc._.trf_data.wordpieces.strings


def test_an_encoder_that_is_not_there_is_one_line(make_pipeline, tmp_path):
    nlp = make_pipeline({NER: {}}, encoder=tmp_path / "none")
    with pytest.raises(BiomedError, match="no such encoder directory") as error:
        nlp.initialize()
    assert "\n" not in str(error.value)


def test_without_torch_the_component_says_what_to_install(monkeypatch, make_pipeline):
    monkeypatch.setitem(sys.modules, "spacy_biomed.encoders.torch.torch_model", None)
    with pytest.raises(BiomedError, match=re.escape(install_command("train"))):
        make_pipeline({})


def test_a_component_without_a_model_is_no_listener(make_pipeline):
    nlp = make_pipeline({"sentencizer": {}, NER: {}})
    encoder = nlp.get_pipe(ENCODER)
    assert encoder.listening_components == [NER]
    assert isinstance(encoder.model, Model)


def test_averaged_weights_are_used_for_a_while_and_given_back(make_pipeline, weights):
    nlp, examples, _ = initialised(make_pipeline, {NER: {}})
    optimizer = AdamW_v1(1e-2, use_averages=True)
    for _ in range(5):
        nlp.update(examples, sgd=optimizer)
    own = weights(nlp, ENCODER)
    shim = nlp.get_pipe(ENCODER).model.shims[0]
    expected = np.concatenate(
        [optimizer.averages[shim.id, name].ravel() for name, _ in shim._model.named_parameters()]
    )
    with nlp.use_params(optimizer.averages):
        np.testing.assert_array_equal(weights(nlp, ENCODER), expected)
    np.testing.assert_array_equal(weights(nlp, ENCODER), own)
    assert not np.allclose(expected, own)
