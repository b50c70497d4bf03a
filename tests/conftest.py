"""Shared fixtures of all tests."""

import gc
import os
import pickle
import tarfile
from collections import defaultdict
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import catalogue
import pytest
from fault_injection import choose_tries, is_campaign
from filelock import FileLock
from forked_commands import fork_workers, save_time
from small_encoders import NO_DROPOUT, SMALL, SMALL_DISTILBERT

# Tests run in a process per core, with one thread each. Set before a test imports PyTorch.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Exported encoders run in the same engine everywhere, whichever is faster, except where a test
# chooses another.
os.environ["SPACY_BIOMED_ENGINE"] = "onnxruntime"

# A new process takes seconds to import PyTorch.
fork_workers()
save_time()

# Registries look through the entry points of all packages for each name, unless they are grouped.
catalogue.AVAILABLE_ENTRY_POINTS = {
    group: entry_points(group=group) for group in entry_points().groups
}

REPOSITORY = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run all cases of slow tests too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes long and reaches no line that other tests do not, unless it is named.

    If a test that is marked `slow` has several cases, a tenth runs, or as many as the mark says. If
    it has one, it does not run.
    """
    is_all = config.option.slow or is_campaign()
    if is_all or config.option.keyword or any("::" in one for one in config.args):
        return
    marked = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("slow"):
            marked[item.nodeid.partition("[")[0], mark.kwargs.get("least", 1)].append(item)
    left_out = {item for cases in marked.values() for item in cases}
    for (name, least), cases in marked.items():
        if len(cases) > 1:
            left_out -= {*choose_tries(cases, name, least)}
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Keep what has been imported, half a million objects, out of garbage collection."""
    gc.collect()
    gc.freeze()


def _archives() -> Path:
    """The folder of the public corpora's archives: SPACY_BIOMED_CORPORA, or next to the project."""
    return Path(os.environ.get("SPACY_BIOMED_CORPORA", REPOSITORY.parent / "shared" / "corpora"))


@pytest.fixture(scope="session")
def corpora_dir(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Unpack a public corpus by name, once per session; skip the test if it is missing."""
    unpacked = tmp_path_factory.mktemp("corpora")

    def unpack(name: str) -> Path:
        folder = unpacked / name
        if folder.is_dir():
            return folder
        archive = _archives() / f"{name}.tar.xz"
        if not archive.is_file():
            pytest.skip(f"no archive of {name}: set SPACY_BIOMED_CORPORA to the archives' folder")
        with tarfile.open(archive) as tar:
            has_folder = any(member.name.split("/")[0] == name for member in tar.getmembers())
            tar.extractall(unpacked if has_folder else folder, filter="data")
        return folder

    return unpack


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the tests of a module share."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="session")
def convert_starter(tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """Convert a starter corpus by name, once for all processes; return the report."""
    folder = tmp_path_factory.getbasetemp()
    folder = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "starters"
    folder.mkdir(exist_ok=True)

    def convert(name):
        from spacy_biomed.corpora import convert_corpus

        written = folder / f"{name}.pickle"
        with FileLock(folder / f"{name}.lock"):
            if not written.exists():
                report = convert_corpus(name, REPOSITORY / "assets" / name, folder / name)
                written.write_bytes(pickle.dumps(report))
        return pickle.loads(written.read_bytes())

    return convert


# The text for the vocabularies of the small encoders below.
SENTENCES = [
    "Aspirin reduced the risk of colorectal cancer in patients with diabetes.",
    "El paciente presentó náuseas, vómitos y fiebre de 39 °C tras la quimioterapia.",
    "Mutations of BRCA1 and TP53 were found in breast and ovarian tumours.",
    "No se observó metástasis; se administró paracetamol 500 mg cada 8 horas.",
]


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers and width 16 with random weights, without dropout."""
    import torch
    from transformers import BertModel

    from spacy_biomed.encoders.batching.word_piece_tokenizer import WordPieceTokenizer
    from spacy_biomed.encoders.loading import save_encoder
    from spacy_biomed.language_models.initialization import create_config
    from spacy_biomed.language_models.recipe import FreshEncoder
    from spacy_biomed.language_models.vocabulary import learn_word_pieces

    path = tmp_path_factory.mktemp("encoders") / "tiny-bert"
    learned = learn_word_pieces(SENTENCES * 2, 200)
    tokenizer = WordPieceTokenizer(learned, learned.token_to_id("[PAD]"))
    encoder = FreshEncoder(type="bert", layers=2, width=16, heads=2, feed_forward=64, dropout=0.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        model = BertModel(create_config(tokenizer, encoder), add_pooling_layer=False)
    save_encoder(path, tokenizer, model)
    return path


@pytest.fixture(scope="session")
def tiny_roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with RoBERTa's byte-level BPE and positions, saved by transformers."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
    from tokenizers.trainers import BpeTrainer
    from transformers import RobertaConfig, RobertaModel, RobertaTokenizerFast

    path = tmp_path_factory.mktemp("encoders") / "tiny-roberta"
    path.mkdir()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = BpeTrainer(
        vocab_size=330,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(
        ("</s>", 2), ("<s>", 0), add_prefix_space=False
    )
    tokenizer.save(str(path / "learned.json"))
    RobertaTokenizerFast(tokenizer_file=str(path / "learned.json")).save_pretrained(path)
    (path / "learned.json").unlink()
    torch.manual_seed(2)
    config = RobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        max_position_embeddings=514,
        type_vocab_size=1,
        **SMALL,
        **NO_DROPOUT,
    )
    RobertaModel(config, add_pooling_layer=False).save_pretrained(path)
    return path


@pytest.fixture(scope="session")
def tiny_distilbert(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A DistilBERT of the same size with the vocabulary of `tiny_bert`."""
    import torch
    from transformers import DistilBertConfig, DistilBertModel, DistilBertTokenizerFast

    path = tmp_path_factory.mktemp("encoders") / "tiny-distilbert"
    tokenizer = DistilBertTokenizerFast(
        tokenizer_file=str(tiny_bert / "tokenizer.json"), do_lower_case=False
    )
    tokenizer.save_pretrained(path)
    torch.manual_seed(3)
    config = DistilBertConfig(
        vocab_size=len(tokenizer), dropout=0.0, attention_dropout=0.0, **SMALL_DISTILBERT
    )
    DistilBertModel(config).save_pretrained(path)
    return path


@pytest.fixture(scope="session", params=["tiny_bert", "tiny_roberta", "tiny_distilbert"])
def any_encoder(request: pytest.FixtureRequest) -> Path:
    """Each of the small encoders."""
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three small converted corpora (`multitask_corpora`)."""
    from multitask_corpora import convert_tasks

    return convert_tasks(tmp_path_factory.mktemp("tasks"))


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The template `multitask` with few weights."""
    from multitask_corpora import write_small_template

    return write_small_template(tmp_path_factory.mktemp("template") / "multitask.cfg")


@pytest.fixture(scope="session")
def weights() -> Callable:
    """All weights of a component in one array, copied."""

    def flatten(nlp, name):
        import numpy as np
        from thinc.api import PyTorchShim

        model = nlp.get_pipe(name).model
        if model.shims and isinstance(model.shims[0], PyTorchShim):
            parts = [p.detach().numpy().ravel() for p in model.shims[0]._model.parameters()]
        else:
            parts = [
                np.asarray(node.get_param(param)).ravel()
                for node in model.walk()
                for param in node.param_names
                if node.has_param(param)
            ]
        return np.concatenate(parts).copy()

    return flatten
