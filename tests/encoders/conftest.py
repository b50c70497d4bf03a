"""Encoder models around small encoders: those of the shared fixtures, and ModernBERT's family."""

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import spacy
from small_encoders import SMALL
from spacy.language import Language
from spacy.tokens import Doc
from thinc.api import Model

from spacy_biomed.encoders.onnx.onnx_export import export_encoder
from spacy_biomed.encoders.transformer_model import TransformerModel_v1

# What the vocabularies below are learned on.
SENTENCES = [
    "Aspirin reduced the risk of colorectal cancer in patients with diabetes.",
    "El paciente presentó náuseas, vómitos y fiebre de 39 °C tras la quimioterapia.",
]


@pytest.fixture(scope="session")
def make_model() -> Callable[..., Model]:
    """Initialise a `TransformerModel.v1` from a directory; fp32 unless told."""

    def make(path: Path, **settings) -> Model:
        return TransformerModel_v1(str(path), **{"precision": "fp32", **settings}).initialize()

    return make


@pytest.fixture(scope="session")
def nlp() -> Language:
    return spacy.blank("en")


@pytest.fixture(scope="module")
def docs(request: pytest.FixtureRequest, nlp: Language) -> list[Doc]:
    """The TEXTS of a module's tests."""
    return [nlp.make_doc(text) for text in request.module.TEXTS]


@pytest.fixture(scope="module")
def pytorch(any_encoder: Path, make_model: Callable[..., Model]) -> Model:
    """Each of the small encoders, in PyTorch."""
    return make_model(any_encoder)


@pytest.fixture(scope="session")
def tiny_modernbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ModernBERT of two layers, one global and one local, with its byte-level BPE.

    BioClinical ModernBERT and Ettin are such encoders.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    special = {name: f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=340,
        special_tokens=list(special.values()),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    path = tmp_path_factory.mktemp("encoders") / "tiny-modernbert"
    return _save_modernbert(path, tokenizer, special)


@pytest.fixture(scope="session")
def tiny_mmbert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with a vocabulary like Gemma's, as mmBERT has: BPE in which "▁" is a space, and
    characters that it lacks are bytes."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
    from tokenizers.trainers import BpeTrainer

    special = {"pad": "<pad>", "sep": "<eos>", "cls": "<bos>", "unk": "<unk>", "mask": "<mask>"}
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, fuse_unk=True, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    trainer = BpeTrainer(
        vocab_size=400,
        special_tokens=[*special.values(), *(f"<0x{byte:02X}>" for byte in range(256))],
        show_progress=False,
    )
    words = [f"▁{word}" for sentence in SENTENCES for word in sentence.split()]
    tokenizer.train_from_iterator([*words, "abcdefghijklmnopqrstuvwxyz"], trainer)
    path = tmp_path_factory.mktemp("encoders") / "tiny-mmbert"
    return _save_modernbert(path, tokenizer, special)


def _save_modernbert(path: Path, tokenizer, special: dict[str, str]) -> Path:
    import torch
    from tokenizers import AddedToken, processors
    from transformers import ModernBertConfig, ModernBertModel, PreTrainedTokenizerFast

    ids = {name: tokenizer.token_to_id(token) for name, token in special.items()}
    cls, sep = special["cls"], special["sep"]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{cls} $A {sep}",
        pair=f"{cls} $A {sep} $B {sep}",
        special_tokens=[(cls, ids["cls"]), (sep, ids["sep"])],
    )
    names = {f"{name}_token": token for name, token in special.items()}
    names["mask_token"] = AddedToken(special["mask"], lstrip=True, special=True)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        **names,
    ).save_pretrained(path)
    torch.manual_seed(5)
    config = ModernBertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        **SMALL,
        max_position_embeddings=512,
        global_attn_every_n_layers=2,
        local_attention=12,
        pad_token_id=ids["pad"],
        bos_token_id=ids["cls"],
        cls_token_id=ids["cls"],
        eos_token_id=ids["sep"],
        sep_token_id=ids["sep"],
        # Larger than by default, so that attention is not almost uniform.
        initializer_range=0.2,
    )
    ModernBertModel(config).save_pretrained(path)
    return path


@pytest.fixture(
    scope="session",
    params=["tiny_bert", "tiny_roberta", "tiny_distilbert", "tiny_modernbert", "tiny_mmbert"],
)
def any_encoder(request: pytest.FixtureRequest) -> Path:
    """Each of the small encoders of the shared fixtures, and those above."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def tiny(
    tiny_bert: Path, make_model: Callable[..., Model], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """`tiny_bert` exported in fp32, for what does not depend on the family."""
    path = tmp_path_factory.mktemp("tiny") / "exported"
    export_encoder(make_model(tiny_bert), path, precision="fp32")
    return path


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A network that fails the test when it is touched. No variable says that there is none."""
    touched = []

    def refuse(*arguments, **settings):
        touched.append(arguments)
        raise OSError("the network was touched")

    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    yield
    assert touched == []
