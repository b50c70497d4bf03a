"""Private interfaces of other packages: where they are used, and that they are still there.

The table in docs/internals.md says why each of them is used.
"""

import ast
import inspect
from pathlib import Path

import pytest

import spacy_biomed

PACKAGE = Path(spacy_biomed.__file__).parent
TABLE = PACKAGE.parent / "docs" / "internals.md"

# Modules that use a private name of another package.
USES = {
    "_util": {"cli/_shared/options.py"},
    "_model": {"encoders/encoder_model.py", "encoders/torch/torch_model.py"},
    "_grad_scaler": {"encoders/encoder_model.py", "encoders/torch/torch_model.py"},
    "_enabled": {"encoders/encoder_model.py"},
    "_scale": {"encoders/encoder_model.py"},
    "_growth_tracker": {"encoders/encoder_model.py"},
    "_version": {"encoders/torch/torch_model.py"},
    "_attn_implementation": {"encoders/encoder_model.py"},
    "_commit_hash": {"encoders/loading.py"},
    "_temp_dir": {"bulk/ray_engine.py"},
    "_save_checkpoint": {"language_models/trainer.py"},
    "_prepare_inputs": {"language_models/trainer.py"},
    "_n_gpu": {"language_models/trainer.py"},
}
# Named tuples have it, and it is documented.
PUBLIC = {"_asdict"}


def private_names(tree: ast.AST) -> set[str]:
    """Names with one underscore that are read from something, imported, or given as a keyword."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Call):
            names.update(keyword.arg for keyword in node.keywords if keyword.arg)
            if isinstance(node.func, ast.Name) and node.func.id in (
                "getattr",
                "setattr",
                "hasattr",
            ):
                names.update(arg.value for arg in node.args[1:2] if isinstance(arg, ast.Constant))
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.update([*(node.module or "").split("."), *(alias.name for alias in node.names)])
    return {name for name in names if name.startswith("_") and not name.startswith("__")}


def defined_names(tree: ast.AST) -> set[str]:
    """Names that a module gives to something of its own."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                names.add(node.attr)
        elif isinstance(node, ast.List | ast.Tuple):  # of __slots__
            names.update(one.value for one in node.elts if isinstance(one, ast.Constant))
    return names


@pytest.mark.slow
def test_private_names_of_other_packages_are_used_in_the_known_modules_only():
    trees = {
        path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf8"))
        for path in PACKAGE.rglob("*.py")
    }
    own = set().union(*map(defined_names, trees.values())) - set(USES)
    found: dict[str, set[str]] = {}
    for module, tree in trees.items():
        for name in private_names(tree) - own - PUBLIC:
            found.setdefault(name, set()).add(module)
    assert found == USES


def test_each_module_is_in_the_table():
    _, _, section = TABLE.read_text(encoding="utf8").partition("## Private interfaces")
    missing = {module for modules in USES.values() for module in modules if module not in section}
    assert not missing


def test_spacys_overrides_are_parsed():
    from spacy.cli._util import NoSuchOption, parse_config_overrides

    assert parse_config_overrides(["--training.seed", "5"]) == {"training.seed": 5}
    with pytest.raises(NoSuchOption):
        parse_config_overrides(["--seed"])


def test_the_parts_of_spacys_training_loop_are_there():
    from spacy.schemas import ConfigSchemaTraining
    from spacy.training import loop

    assert "frozen_components" in ConfigSchemaTraining.model_fields
    assert (loop.DIR_MODEL_BEST, loop.DIR_MODEL_LAST) == ("model-best", "model-last")
    parameters = {
        name: list(inspect.signature(getattr(loop, name)).parameters)
        for name in (
            "create_before_to_disk_callback",
            "create_evaluation_callback",
            "subdivide_batch",
            "update_meta",
        )
    }
    assert parameters == {
        "create_before_to_disk_callback": ["callback"],
        "create_evaluation_callback": ["nlp", "dev_corpus", "weights"],
        "subdivide_batch": ["batch", "accumulate_gradient"],
        "update_meta": ["training", "nlp", "info"],
    }


def test_typers_class_of_wrong_arguments_is_the_base_of_bad_parameter():
    from spacy_biomed.cli._shared.bad_input import UsageError

    assert UsageError.__name__ == "UsageError"
    assert UsageError("wrong").exit_code == 2


def test_thincs_layers_have_their_module_and_their_scale():
    torch = pytest.importorskip("torch")
    from thinc.api import PyTorchGradScaler, PyTorchShim

    from spacy_biomed.encoders.encoder_model import get_loss_scale, get_module

    module = torch.nn.Linear(2, 2)
    scaler = PyTorchGradScaler(enabled=True, init_scale=8.0)
    shim = PyTorchShim(module, mixed_precision=True, grad_scaler=scaler)
    assert get_module(shim) is module
    assert [value.item() for value in get_loss_scale(shim)] == [8.0, 0]
    assert get_loss_scale(PyTorchShim(module)) is None


def test_thincs_optimizer_has_moments_and_counts():
    from thinc.api import Adam

    from spacy_biomed.training import checkpoint

    optimizer = Adam(0.1, use_averages=True)
    for name in (*checkpoint._MOMENTS, *checkpoint._COUNTS):
        assert getattr(optimizer, name) == {}


def test_torch_counts_the_versions_of_a_tensor():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(2)
    before = tensor._version
    tensor.add_(1)
    assert tensor._version > before


def test_transformers_configs_name_their_attention():
    transformers = pytest.importorskip("transformers")
    assert isinstance(transformers.BertConfig(), transformers.PretrainedConfig)
    model = transformers.BertModel(
        transformers.BertConfig(
            vocab_size=5,
            hidden_size=4,
            num_hidden_layers=1,
            num_attention_heads=1,
            intermediate_size=4,
        )
    )
    assert model.config._attn_implementation in ("sdpa", "eager")


def test_transformers_trainer_has_what_ours_replaces(tmp_path):
    transformers = pytest.importorskip("transformers")

    def parameters(name: str) -> list[str]:
        return list(inspect.signature(getattr(transformers.Trainer, name)).parameters)

    assert parameters("_save_checkpoint")[:3] == ["self", "model", "trial"]
    assert parameters("_prepare_inputs") == ["self", "inputs"]
    arguments = transformers.TrainingArguments(output_dir=str(tmp_path), use_cpu=True)
    assert arguments.n_gpu == arguments._n_gpu


def test_srslys_decoders_need_not_search_entry_points():
    from srsly.msgpack import msgpack_decoders

    assert isinstance(msgpack_decoders.entry_points, bool)
    assert isinstance(msgpack_decoders.get_entry_points(), dict)


def test_pythons_parser_of_regular_expressions_is_there():
    from spacy_biomed.deidentification.pattern_rules import find_prefixes

    assert find_prefixes(r"\b(?:ab?|[cd]+|\d)") == {"a", "ab", "c", "d", "0"}
