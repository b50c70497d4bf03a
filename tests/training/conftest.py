import json
import shutil

import pytest
from spacy.training.initialize import init_nlp

from spacy_biomed.corpora.convert import convert_corpus

SENTENCES = [
    "Lung\tB-D\ncancer\tI-D\n.\tO\n\n",
    "Aspirin\tB-C\nreduced\tO\nthe\tO\nrisk\tO\nof\tO\nstroke\tB-D\n.\tO\n\n",
    "No\tO\nsymptoms\tO\n.\tO\n\n",
    "Metformin\tB-C\nwas\tO\ngiven\tO\nto\tO\npatients\tO\nwith\tO\ndiabetes\tB-D\n.\tO\n\n",
]


@pytest.fixture(scope="session")
def converted(tmp_path_factory):
    """A converted corpus of diseases (D) and chemicals (C)."""
    folder = tmp_path_factory.mktemp("converted")
    source = folder / "source"
    source.mkdir()
    for part, times in (("train", 6), ("dev", 1), ("test", 1)):
        (source / f"{part}.tsv").write_text("".join(SENTENCES * times))
    convert_corpus("own", source, folder / "own", format="columns", language="es")
    return folder / "own"


@pytest.fixture(scope="session")
def encoder_with_dropout(tiny_bert, tmp_path_factory):
    """The tiny encoder with dropout, so that PyTorch's generator matters."""
    path = tmp_path_factory.mktemp("encoders") / "dropout"
    shutil.copytree(tiny_bert, path)
    config = json.loads((path / "config.json").read_text())
    config["hidden_dropout_prob"] = config["attention_probs_dropout_prob"] = 0.1
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.fixture(scope="session")
def make_tasks_config(corpora, template, encoder_with_dropout):
    """The config of an epoch of some of the three tasks, their heads as small as can be."""
    from spacy_biomed.training.multitask_config import create_multitask_config

    def make(names=("drugs", "diseases", "topics"), encoder=encoder_with_dropout, **settings):
        config, _ = create_multitask_config(
            [corpora / name for name in names],
            encoder=str(encoder),
            template=template,
            epochs=1,
            batch_words=30,
            schedule=settings.pop("schedule", "round_robin"),
        )
        config["vars"].update(settings)
        return config

    return make


@pytest.fixture(scope="session")
def trained_tasks(make_tasks_config, tiny_bert, tmp_path_factory):
    """A pipeline of three heads that have learned their tasks."""
    from spacy.training.loop import train

    output = tmp_path_factory.mktemp("trained")
    config = make_tasks_config(encoder=tiny_bert, max_steps=110, eval_frequency=110)
    config["training"]["optimizer"]["use_averages"] = False
    config["components"]["topics"]["learn_rate_factor"] = 10.0
    # Exports are compared to 1e-3, which bf16 does not give.
    config["components"]["biomed_transformer"]["model"]["precision"] = "fp32"
    train(init_nlp(config), output, stdout=(output / "log.txt").open("w"))
    return output / "model-best"
