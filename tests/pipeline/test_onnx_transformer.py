"""`biomed_onnx_transformer`: instead of `biomed_transformer`, and with heads in training."""

import json
import pickle
import shutil
import signal

import numpy as np
import pytest
import spacy
from stock_heads import STOCK_HEADS, TRAINING, check_learned, make_examples, needs_stock
from thinc.api import Adam

from spacy_biomed.encoders.batching.encoded import get_encoding
from spacy_biomed.errors import BiomedError
from spacy_biomed.packaging.compression import write_compressed
from spacy_biomed.training.optimizer import AdamW_v1

NER, ENCODER, ONNX = "biomed_ner", "biomed_transformer", "biomed_onnx_transformer"
MARKED_STOCK_HEADS = [pytest.param(head, marks=needs_stock) for head in STOCK_HEADS]
TEXTS = [
    *(text for text, _ in TRAINING),
    "cancer",
    "Aspirin for cancer. No diabetes. " * 60,
    "BRCA1 mutations reduced diabetes",
]


def train(nlp, steps, sgd=None, **settings):
    """Train a pipeline; return the losses of each step."""
    examples, optimizer = make_examples(nlp), sgd or AdamW_v1(3e-3)
    nlp.initialize(lambda: examples)
    return [nlp.update(examples, sgd=optimizer, losses={}, **settings) for _ in range(steps)]


def add_heads(nlp, heads):
    for name in heads:
        factory = name.split("-")[0]
        nlp.add_pipe(factory, name, config=STOCK_HEADS.get(factory, {}))
    return nlp


@pytest.fixture(scope="module")
def make_pair(tiny_bert, tmp_path_factory):
    """Train heads on `biomed_transformer`; return the pipeline and its compressed directory.

    The pipelines are in fp32, so that both have the same results. Each set of heads is trained
    once.
    """
    made = {}

    def make(*heads, **settings):
        key = str((heads, settings))
        if key not in made:
            spacy.util.fix_random_seed(0)
            nlp = spacy.blank("en")
            model = {"name": str(tiny_bert), "precision": "fp32"}
            nlp.add_pipe(ENCODER, config={"model": model, **settings})
            train(add_heads(nlp, heads), 20)
            path = tmp_path_factory.mktemp("compressed") / "pipeline"
            write_compressed(nlp, path, "fp32", False)
            made[key] = nlp, path
        return made[key]

    return make


@pytest.fixture(scope="module")
def encoder_path(make_pair):
    """The directory of an exported encoder."""
    return make_pair(NER)[1] / ENCODER / "encoder"


@pytest.fixture
def deadline():
    """Fail if processes wait for each other forever."""

    def expire(number, frame):
        raise TimeoutError("still waiting")

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def entities(docs):
    return [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in docs]


def confidences(docs):
    return [ent._.confidence for doc in docs for ent in doc.ents]


def assert_same_entities(docs, expected, tolerance=1e-4):
    assert any(entities(expected))
    assert entities(docs) == entities(expected)
    assert confidences(docs) == pytest.approx(confidences(expected), abs=tolerance)


def assert_same_annotations(docs, expected):
    assert entities(docs) == entities(expected)
    assert [[token.tag_ for token in doc] for doc in docs] == [
        [token.tag_ for token in doc] for doc in expected
    ]
    for doc, same in zip(docs, expected, strict=True):
        assert doc.cats == pytest.approx(same.cats, abs=1e-4)


def encodings(nlp):
    return np.concatenate(
        [nlp.get_pipe(nlp.pipe_names[0]).predict([nlp.make_doc(text)]).hidden for text in TEXTS]
    )


@pytest.mark.slow
def test_entities_and_confidences_are_those_of_pytorch(make_pair):
    nlp, path = make_pair(NER)
    compressed = spacy.load(path)
    assert compressed.pipe_names == nlp.pipe_names
    assert compressed.get_pipe_meta(ENCODER).factory == ONNX
    assert_same_entities([compressed(text) for text in TEXTS], [nlp(text) for text in TEXTS])


def test_pipe_keeps_the_order_of_documents(make_pair):
    compressed = spacy.load(make_pair(NER)[1])
    compressed.get_pipe(ENCODER).cfg["max_batch_words"] = 7
    docs = list(compressed.pipe(TEXTS * 3, batch_size=5))
    assert [doc.text for doc in docs] == TEXTS * 3
    assert_same_entities(docs, [compressed(text) for text in TEXTS] * 3)


@pytest.mark.filterwarnings("ignore:This process")
@pytest.mark.parametrize("keep", [False, True])
def test_several_processes_give_what_one_gives(make_pair, deadline, keep):
    threads = {"components.biomed_transformer.model.threads": 2}
    compressed = spacy.load(make_pair(NER)[1], config=threads)
    encoder = compressed.get_pipe(ENCODER)
    encoder.cfg["keep_encodings"] = keep
    session = encoder.model.shims[0].engine(1)
    one = list(compressed.pipe(TEXTS * 3, batch_size=4))
    two = list(compressed.pipe(TEXTS * 3, batch_size=4, n_process=2))
    assert [doc.text for doc in two] == TEXTS * 3
    assert_same_entities(two, one)
    for first, second in zip(one, two, strict=True):
        assert (get_encoding(second) is not None) == keep
        if keep:
            np.testing.assert_allclose(
                get_encoding(second).hidden, get_encoding(first).hidden, atol=1e-5
            )
    # The parent process still has its session.
    assert encoder.model.shims[0].engine(1) is session
    assert_same_entities([compressed(text) for text in TEXTS], one[: len(TEXTS)])


def test_a_component_can_be_pickled(make_pair):
    """Processes that are spawned and not forked need this."""
    compressed = spacy.load(make_pair(NER)[1])
    encoder = pickle.loads(pickle.dumps(compressed.get_pipe(ENCODER)))
    doc = compressed.make_doc("Aspirin reduced cancer")
    np.testing.assert_array_equal(
        encoder.predict([doc]).hidden, compressed.get_pipe(ENCODER).predict([doc]).hidden
    )


def test_memory_zones_can_be_used(make_pair):
    nlp, path = make_pair(NER)
    compressed = spacy.load(path)
    expected = entities([nlp(text) for text in TEXTS])
    for _ in range(2):
        with compressed.memory_zone():
            assert entities(compressed.pipe(TEXTS)) == expected
    assert entities([compressed(text) for text in TEXTS]) == expected


@pytest.mark.slow
@needs_stock
def test_the_first_of_two_heads_leaves_the_encoding_to_the_second(make_pair):
    nlp, path = make_pair("biomed_ner-a", "biomed_ner-b")
    compressed = spacy.load(path)
    assert compressed.get_pipe(ENCODER).listening_components == ["biomed_ner-a", "biomed_ner-b"]
    with compressed.select_pipes(disable="biomed_ner-b"):
        assert get_encoding(compressed("Aspirin")) is not None
    assert_same_entities(list(compressed.pipe(TEXTS)), list(nlp.pipe(TEXTS)))


@pytest.mark.slow(least=1)
@needs_stock
@pytest.mark.parametrize("heads", [[head] for head in STOCK_HEADS] + [[NER, *STOCK_HEADS]])
def test_spacys_own_heads_predict_the_same(make_pair, heads):
    nlp, path = make_pair(*heads)
    expected, docs = list(nlp.pipe(TEXTS)), list(spacy.load(path).pipe(TEXTS))
    assert_same_annotations(docs, expected)
    # Not empty: heads that learned nothing would agree too.
    if {"ner", NER} & {*heads}:
        assert any(entities(expected))
    if "tagger" in heads:
        assert {token.tag_ for doc in docs for token in doc} >= {"X", "x"}
    if "textcat_multilabel" in heads:
        assert docs[2].cats["GENE"] - docs[0].cats["GENE"] > 0.1


@pytest.mark.slow
@needs_stock
def test_trf_data_is_that_of_pytorch(make_pair):
    nlp, path = make_pair(NER, keep_encodings=True)
    compressed = spacy.load(path)
    for text in TEXTS[-3:]:
        expected, data = nlp(text)._.trf_data, compressed(text)._.trf_data
        np.testing.assert_allclose(
            data.model_output.last_hidden_state, expected.model_output.last_hidden_state, atol=1e-4
        )
        np.testing.assert_array_equal(data.wordpieces.input_ids, expected.wordpieces.input_ids)
        assert data.wordpieces.strings == expected.wordpieces.strings
        np.testing.assert_array_equal(data.align.dataXd, expected.align.dataXd)


def test_components_that_do_not_listen_stand_beside_it(make_pair):
    nlp, path = make_pair(NER)
    compressed = spacy.load(path)
    compressed.add_pipe("sentencizer", first=True)
    compressed.add_pipe("entity_ruler").add_patterns([{"label": "P", "pattern": "BRCA1"}])
    assert compressed.get_pipe(ENCODER).listening_components == [NER]
    docs = list(compressed.pipe(TEXTS))
    assert len(list(docs[-2].sents)) == 120
    assert [ent.label_ for ent in docs[2].ents][-1:] == ["P"]
    found = [[ent for ent in own if ent[2] != "P"] for own in entities(docs)]
    assert found == entities(nlp.pipe(TEXTS))


def test_a_head_cannot_have_a_copy_of_its_encoder(make_pair):
    nlp, path = make_pair(NER)
    for own in (nlp, spacy.load(path)):
        encoder = own.pipe_names[0]
        with pytest.raises(BiomedError, match="put a second encoder component in front of it"):
            own.replace_listeners(encoder, NER, ["model.tok2vec"])
        assert own.get_pipe(encoder).listening_components == [NER]
        assert entities(own.pipe(TEXTS)) == entities(nlp.pipe(TEXTS))


@pytest.fixture(params=["source", "path"])
def make_trainable(request, make_pair, encoder_path):
    """Build heads on an exported encoder: from a compressed pipeline, or from its directory."""

    def make(*heads):
        spacy.util.fix_random_seed(0)
        nlp = spacy.blank("en")
        if request.param == "source":
            nlp.add_pipe(ENCODER, ONNX, source=spacy.load(make_pair(NER)[1]))
        else:
            nlp.add_pipe(ONNX, config={"model": {"path": str(encoder_path)}})
        return add_heads(nlp, heads)

    return make


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("head", [NER, *MARKED_STOCK_HEADS])
def test_heads_train_on_it_and_it_stays_as_it_was(make_trainable, make_pair, head):
    nlp = make_trainable(head)
    losses = train(nlp, 80, AdamW_v1(2e-2))
    assert losses[-1][head] < 0.5 * losses[0][head]
    assert nlp.get_pipe(ONNX).listening_components == [head]
    np.testing.assert_array_equal(encodings(nlp), encodings(spacy.load(make_pair(NER)[1])))
    check_learned(nlp, head)


@pytest.mark.slow(least=1)
@needs_stock
def test_heads_of_both_kinds_train_together(make_trainable):
    nlp = make_trainable(NER, "tagger", "textcat_multilabel")
    losses = train(nlp, 80, AdamW_v1(2e-2))
    for head in (NER, "tagger", "textcat_multilabel"):
        assert losses[-1][head] < 0.5 * losses[0][head]
    assert losses[-1][ONNX] == 0.0


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("head", [NER, pytest.param("tagger", marks=needs_stock)])
def test_heads_train_on_it_frozen(make_trainable, head):
    """Like `spacy train` with `frozen_components` and `annotating_components`."""
    nlp = make_trainable(head)
    losses = train(nlp, 80, AdamW_v1(2e-2), exclude=[ONNX], annotates=[ONNX])
    assert losses[-1][head] < 0.5 * losses[0][head]


def test_a_frozen_head_lets_the_other_learn(make_trainable):
    nlp = make_trainable("biomed_ner-a", "biomed_ner-b")
    losses = train(nlp, 80, AdamW_v1(2e-2), exclude=["biomed_ner-b"])
    assert losses[-1]["biomed_ner-a"] < 0.5 * losses[0]["biomed_ner-a"]
    docs = list(nlp.pipe(TEXTS))
    assert all(get_encoding(doc) is None for doc in docs)


@needs_stock
def test_averaged_weights_of_its_heads_can_be_used(make_trainable):
    """Averages of thinc's optimizer, with which `spacy train` evaluates and saves."""
    nlp = make_trainable("tagger")
    optimizer = Adam(1e-2)
    train(nlp, 10, optimizer)
    weights = nlp.get_pipe("tagger").model.get_ref("softmax").get_param("W").copy()
    with nlp.use_params(optimizer.averages):
        averaged = nlp.get_pipe("tagger").model.get_ref("softmax").get_param("W").copy()
        assert nlp("Aspirin")[0].tag_
    assert not np.allclose(averaged, weights)


def test_batches_without_tokens_change_nothing(make_trainable):
    nlp = make_trainable(NER)
    train(nlp, 1)
    empty = make_examples(nlp)[-1:]
    assert nlp.update(empty, sgd=AdamW_v1(1e-2), losses={}) == {NER: 0.0, ONNX: 0.0}
    assert nlp.get_pipe(ONNX).update([], losses={}) == {ONNX: 0.0}


def test_training_leaves_nothing_on_the_documents(make_trainable):
    nlp = make_trainable(NER)
    train(nlp, 1)
    examples = make_examples(nlp)
    nlp.update(examples, sgd=AdamW_v1(1e-2))
    assert all(get_encoding(example.predicted) is None for example in examples)


@pytest.mark.slow
def test_a_pipeline_of_an_encoder_by_path_is_complete_without_the_path(encoder_path, tmp_path):
    shutil.copytree(encoder_path, tmp_path / "encoder")
    nlp = spacy.blank("en")
    nlp.add_pipe(ONNX, config={"model": {"path": str(tmp_path / "encoder")}})
    train(add_heads(nlp, [NER]), 80, AdamW_v1(2e-2))
    nlp.to_disk(tmp_path / "saved")
    shutil.rmtree(tmp_path / "encoder")
    assert_same_entities(list(spacy.load(tmp_path / "saved").pipe(TEXTS)), list(nlp.pipe(TEXTS)))


@pytest.mark.slow
@needs_stock
def test_a_compressed_pipeline_can_be_saved_again(make_pair, tmp_path):
    compressed = spacy.load(make_pair(NER, "tagger")[1])
    expected = list(compressed.pipe(TEXTS))
    compressed.to_disk(tmp_path / "saved")
    from_bytes = spacy.blank("en").from_config(compressed.config).from_bytes(compressed.to_bytes())
    for again in (spacy.load(tmp_path / "saved"), from_bytes):
        docs = list(again.pipe(TEXTS))
        assert_same_entities(docs, expected, 1e-6)
        assert_same_annotations(docs, expected)


def test_settings_are_those_of_the_encoder_before(tiny_bert, tmp_path):
    settings = {"max_batch_words": 99, "keep_encodings": True}
    model = {"name": str(tiny_bert), "window": 40, "context": 7}
    nlp = spacy.blank("en")
    nlp.add_pipe(ENCODER, "encoder", config={"model": model, **settings})
    nlp.initialize()
    write_compressed(nlp, tmp_path, "fp32", False)
    cfg = json.loads((tmp_path / "encoder" / "cfg").read_text(encoding="utf8"))
    assert cfg == settings
    compressed = spacy.load(tmp_path)
    assert compressed.get_pipe("encoder").cfg == settings
    attrs = compressed.get_pipe("encoder").model.attrs
    assert (attrs["window"], attrs["context"]) == (40, 7)
    config = compressed.config["components"]["encoder"]
    assert (config["max_batch_words"], config["keep_encodings"]) == (99, True)


def test_a_component_without_an_encoder_says_what_to_give():
    nlp = add_heads(spacy.blank("en"), [ONNX, NER])
    with pytest.raises(BiomedError, match="give `path`"):
        nlp.initialize(lambda: make_examples(nlp))


def test_a_pipeline_with_a_damaged_encoder_is_one_line(make_pair, tmp_path):
    shutil.copytree(make_pair(NER)[1], tmp_path / "pipeline")
    encoder = tmp_path / "pipeline" / ENCODER / "encoder"
    (encoder / "model.onnx").write_bytes((encoder / "model.onnx").read_bytes()[:500])
    with pytest.raises(BiomedError) as error:
        spacy.load(tmp_path / "pipeline")
    assert str(error.value).startswith(f"{encoder}: not a readable exported encoder (")
    assert "\n" not in str(error.value)


def test_the_component_says_which_engine_runs_it(make_pair):
    assert spacy.blank("en").add_pipe(ONNX).engine is None
    assert spacy.load(make_pair(NER)[1]).get_pipe(ENCODER).engine == "onnxruntime"
