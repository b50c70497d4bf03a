"""Three small tasks, and a template with minimal heads."""

from __future__ import annotations

import json
from pathlib import Path

from spacy.util import load_config

from spacy_biomed.corpora.convert import convert_corpus
from spacy_biomed.training.config import TEMPLATES

DRUGS = [
    "Aspirin\tB-DRUG\nreduced\tO\nthe\tO\nrisk\tO\nof\tO\nstroke\tO\n.\tO\n\n",
    "Metformin\tB-DRUG\nwas\tO\ngiven\tO\nfor\tO\ndiabetes\tO\n.\tO\n\n",
    "No\tO\nsymptoms\tO\n.\tO\n\n",
]
DISEASES = [
    "Lung\tB-D\ncancer\tI-D\n.\tO\n\n",
    "Aspirin\tB-C\nreduced\tO\nthe\tO\nrisk\tO\nof\tO\nstroke\tB-D\n.\tO\n\n",
    "No\tO\nsymptoms\tO\n.\tO\n\n",
    "Metformin\tB-C\nwas\tO\ngiven\tO\nto\tO\npatients\tO\nwith\tO\ndiabetes\tB-D\n.\tO\n\n",
]
TOPICS = [
    ("Aspirin reduced the risk of stroke.", {"TREATMENT": 1, "RISK": 1}),
    ("Lung cancer was found in patients with diabetes.", {"TREATMENT": 0, "RISK": 0}),
    ("Metformin was given.", {"TREATMENT": 1, "RISK": 0}),
    ("Tumours were found.", {"TREATMENT": 0, "RISK": 0}),
]

# A study with one training, to be formatted with an encoder.
STUDY = """
[study]
title = "Drugs"

[grid]
epochs = 1

[rows]

[rows.small]
encoder = "{encoder}"

[corpora]

[corpora.drugs]
"""

# A study with two ways to train on two tasks, to be formatted with an encoder and a template.
TASKS_STUDY = """
[study]
title = "Tasks"

[grid]
epochs = 1

[rows]

[rows.alone]
encoder = "{encoder}"

[rows.apart]
encoder = "{encoder}"
training = "apart"
template = "{template}"

[corpora]

[corpora.drugs]

[corpora.topics]
"""

# Settings of a head of entities that replace its template's.
SMALL_MODEL = {"hidden_width": 16, "features": {"rows": [50, 50, 50, 50]}}


def convert_tasks(folder: Path) -> Path:
    """Convert corpora of drugs and of diseases (flat entities) and of topics (classes).

    They share some texts.
    """
    for name, sentences, times in (("drugs", DRUGS, 4), ("diseases", DISEASES, 9)):
        source = folder / "sources" / name
        source.mkdir(parents=True)
        for part in ("train", "dev", "test"):
            text = "".join(sentences * (times if part == "train" else 1))
            (source / f"{part}.tsv").write_text(text)
        convert_corpus(name, source, folder / name, format="columns")
    source = folder / "sources" / "topics"
    source.mkdir(parents=True)
    lines = [json.dumps({"text": text, "cats": cats}) for text, cats in TOPICS]
    for part, times in (("train", 5), ("dev", 1), ("test", 1)):
        (source / f"{part}.jsonl").write_text("\n".join(lines * times) + "\n")
    convert_corpus("topics", source, folder / "topics", format="jsonl")
    return folder


def write_small_template(path: Path) -> Path:
    """The template `multitask` with few weights, and a learning rate for few steps."""
    config = load_config(TEMPLATES / "multitask.cfg")
    config["heads"] = {"biomed_ner": {"model": SMALL_MODEL}}
    config["vars"] = {"learn_rate": 0.005}
    config.to_disk(path)
    return path
