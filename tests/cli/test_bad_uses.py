"""Bad uses of every command: one line on standard error, status 1, and nothing is changed.

A command is given as a use that is good, and for each of its arguments the values that are bad
there. What holds for arguments of every command (left out, without a value, one too many) is tried
as well. A tenth of the uses is tried; with SPACY_BIOMED_CAMPAIGNS=1 in the environment, all.
"""

from __future__ import annotations

import os
import shutil
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from bad_use_room import LONG_NAME, Room, import_everything, list_files, run_in
from fault_injection import choose_tries
from forked_commands import find_server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="commands are run in forks")

# Characters of a message beside those of a path that it names.
LONGEST_MESSAGE = 400

NO_PATHS = ["nowhere", "empty_folder/nowhere", "file/under", "broken_link", "loop", LONG_NAME]
NO_PATHS += ["new\nline", "\x1b[2Jred", "\udcff", "unreadable/file", "fifo", "/dev/full"]
INPUT_FILES = [*NO_PATHS, "empty_folder", "unreadable_file", "/dev/null", "", "mine"]
INPUT_FOLDERS = [*NO_PATHS, "file", "empty_folder", "unreadable", "/dev/null"]

NO_OUTPUTS = ["file/under", "locked/new", "locked/a/new", "unreadable/new", "unreadable_file/new"]
NO_OUTPUTS += [LONG_NAME, f"new/{LONG_NAME}", "fifo", "fifo/new", "loop", "loop/new", "/dev/full"]
NO_OUTPUTS += ["/dev/null", "/proc/new", "/", "..", ".", ""]
OUTPUT_FILES = [*NO_OUTPUTS, "empty_folder", "mine", "locked"]
OUTPUT_FOLDERS = [*NO_OUTPUTS, "file", "unreadable_file", "mine", "marked", "badly_marked"]
OUTPUT_FOLDERS += ["unreadable", "locked", "pipeline", "encoder", "corpus", "corpus/drugs"]

NO_PACKAGES = ["en_core_web_none", "en", "os", "pip", "spacy_biomed", "../x", "a b", "-", "e\nn"]
PIPELINES = [*INPUT_FOLDERS, *NO_PACKAGES, "", "encoder", "corpus/drugs", "p_no_config"]
PIPELINES += ["p_no_meta", "p_no_encoder", "p_noise_meta", "p_list_meta", "p_empty_config"]
PIPELINES += ["p_factory", "p_language", "p_cut_model", "p_no_model", "p_cut_model.safetensors"]
PIPELINES += ["p_cut_config.json", "p_cut_tokenizer.json"]
# `card` does not load a pipeline.
UNDESCRIBABLE = [*INPUT_FOLDERS, *NO_PACKAGES, "", "encoder", "corpus/drugs", "p_no_config"]
UNDESCRIBABLE += ["p_no_meta", "p_noise_meta", "p_list_meta", "p_empty_config", "p_factory"]
SOME_PIPELINES = ["nowhere", "file", "en_core_web_none", "os", "", "p_no_config", "p_cut_model"]

ENCODERS = [*NO_PATHS, "", "file", "empty_folder", "mine", "unreadable", "corpus/drugs", "biobrt"]
ENCODERS += ["a/b/c", "a b", "../x", "nobody/none", "e_none_config.json", "e_noise_config.json"]
ENCODERS += ["e_list_config.json", "e_none_model.safetensors", "e_noise_model.safetensors"]
ENCODERS += ["e_noise_tokenizer.json", "e_list_tokenizer.json"]

CONFIGS = [*INPUT_FILES, "empty.cfg", "noise.cfg", "folder.cfg", "latin.cfg", "no_section.cfg"]
CONFIGS += ["other.cfg", "twice.cfg", "variable.cfg", "orphan.cfg", "value.cfg", "little.cfg"]
CONFIGS += ["numbers.cfg", "null.cfg", "itself.cfg", "prose.cfg", "sections.cfg", "texts.jsonl"]

JSONS = ["empty.json", "noise.json", "folder.json", "latin.json", "cut.json", "list.json"]
JSONS += ["number.json", "null.json", "text.json", "bom.json", "deep.json", "digits.json"]
CORPUS_FILES = [*INPUT_FILES, "empty.spacy", "noise.spacy", "folder.spacy", "cut.spacy"]
CORPUS_FILES += ["text.spacy", "none.spacy"]
CHECKED_ON_A_CORPUS = {
    "PIPELINE": [*PIPELINES, "blank"],
    "OUTPUT": [*OUTPUT_FOLDERS, "pipeline/new", "corpus/diseases/test.spacy"],
}
TEXT_FILES = [*NO_PATHS, "empty_folder", "unreadable_file", "unreadable", "file", "/dev/null"]
TEXT_FILES += ["empty.txt", "noise.txt", "latin.txt", "noise.txt.gz", "noise.txt.xz", "noise.jsonl"]
TEXT_FILES += ["noise.txt.zst", "noise.parquet", "empty.parquet", "empty.jsonl", "cut.jsonl"]
TEXT_FILES += ["list.jsonl", "number.jsonl", "null.jsonl", "text.jsonl", "latin.jsonl", "bom.jsonl"]
TEXT_FILES += ["deep.jsonl", "digits.jsonl", "number_text.jsonl", "null_text.jsonl"]
TEXT_FILES += ["list_text.jsonl", "object_text.jsonl", "other_field.jsonl"]

BAD_DESCRIPTIONS = ["cut", "list", "number", "null", "text", "latin", "bom", "deep", "digits"]
CORPORA = [*INPUT_FOLDERS, "corpus", "corpus/no_description", "corpus/no_train", "corpus/cut_train"]
CORPORA += [f"corpus/json_{name}" for name in [*BAD_DESCRIPTIONS, "nothing"]]
NAMES_OF_CORPORA = ["", ",", " ", "nowhere", "drugs,nowhere", "drugs,drugs", LONG_NAME, "../mine"]
NAMES_OF_CORPORA += ["new\nline", "no_description", "no_train", "cut_train", "json_list", "drugs;x"]

WHOLE = ["", "x", "1.5", "nan", "1e3", "9" * 5000, "0x10", "--", "1 2", "-", "None"]
NATURAL = [*WHOLE, "-1", "-9999999999"]
POSITIVE = [*NATURAL, "0"]
SEEDS = [*NATURAL, str(1 << 32)]
RATES = ["", "x", "nan", "inf", "-inf", "-1", "0", "1e999", "1,5", "1e", "9" * 5000 + "x"]
# JSON has 1e3; a setting without a value is true.
PROBABILITIES = ["", "x", "nan", "inf", "-1", "1.5", "0,5"]
SHARES = [*PROBABILITIES, "0"]
SETTINGS_ABOVE_ZERO = [value for value in POSITIVE if value not in ("1e3", "--")]
GPUS = [*WHOLE, "-2", "99"]
CHOICES = ["", "x", "INT8x", "new\nline", LONG_NAME, "\x1b[2J", "\udcff", " ", "0", "a,b", "-1"]


@dataclass(frozen=True)
class Command:
    """A command in good use, and values that are bad.

    good: each argument's value; those whose name begins with "-" are options.
    bad: values that are bad for an argument, or for an option that is not in the good use.
    more: other arguments that are bad after those of the good use.
    optional: arguments of the good use that can be left out.
    """

    good: dict[str, str]
    bad: dict[str, Sequence[str]]
    more: Sequence[Sequence[str]] = field(default=())
    optional: Sequence[str] = ()

    def uses(self, name: str) -> Iterator[list[str]]:
        if self.good:
            yield self.line(name, {})
        for left_out in self.good:
            if left_out not in self.optional:
                yield self.line(name, {k: v for k, v in self.good.items() if k != left_out})
        for argument, values in self.bad.items():
            for value in values:
                yield self.line(name, {**self.good, argument: value})
        for argument in {**self.good, **self.bad}:
            if argument.startswith("-") and "." not in argument:
                yield [*self.line(name, self.good), argument]
        for others in [*self.more, ["--none"], ["--none", "1"], ["-é"], ["one", "too", "many"]]:
            yield [*self.line(name, self.good), *others]

    @staticmethod
    def line(name: str, values: dict[str, str]) -> list[str]:
        words = [
            word
            for key, value in values.items()
            for word in ((key, value) if key.startswith("-") else (value,))
        ]
        command = [word for word in name.split() if not word.startswith("-")]
        return [*command, *words]


SETTINGS = [["--training.stepps", "1"], ["--training.steps", "x"], ["--training.steps", "-1"]]
SETTINGS += [["--training"], ["--none.none", "1"]]
SETTINGS += [
    ["--training.steps", "[1"],
    ["--training.batch", "0"],
    ["--.", "1"],
    ["--a.b.c.d", "1"],
]
SETTINGS += [["--training.learning_rate", "nan"], ["--training.learning_rate", "-1"]]
SETTINGS += [["--text.field", "5"], ["--text.validation", "0"], ["--training.precision", "x"]]
SETTINGS += [["--packing.length", "0"], ["--packing.length", "x"], ["--output.directory", "5"]]

# Folders of one wheel each.
WHEELS = [f"wheel_{kind}" for kind in ("name", "empty", "noise", "folder", "link", "zip", "text")]

# Settings of a study.
STUDY_SETTINGS = [["--grid.seeds", "x"], ["--grid.seeds", "[]"], ["--grid.seeds", "[-1]"]]
STUDY_SETTINGS += [["--grid.epochs", "0"], ["--grid.epoch", "1"], ["--grid"], ["--none.none", "1"]]
STUDY_SETTINGS += [
    ["--grid.learn_rates", "[0]"],
    ["--grid.documents", "-1"],
    ["--grid.seeds", "[1"],
]
STUDY_SETTINGS += [["--study.statistic", "x"], ["--study.paper", "x"], ["--study.select", "train"]]
STUDY_SETTINGS += [
    ["--rows.small.encoder", value] for value in ("", "nowhere/none", "file", "random:")
]
STUDY_SETTINGS += [["--rows.small.training", "x"], ["--rows.small.companions", '["drugs"]']]
STUDY_SETTINGS += [["--corpora.drugs.folds", value] for value in ("2", "x", '"given"', "1.5")]
STUDY_SETTINGS += [
    ["--corpora.drugs.template", value] for value in ("textcat", "none", "empty.cfg")
]
STUDY_SETTINGS += [
    ["--corpora.drugs.folder", value] for value in ("nowhere", "no_train", "cut_test")
]
STUDY_SETTINGS += [["--comparisons.pairs", '[["small", "x"]]'], ["--comparisons.level", "1"]]

COMMANDS = {
    "annotate": Command(
        {"PIPELINE": "pipeline", "--corpus": "corpus/drugs/test.spacy"},
        {"PIPELINE": PIPELINES, "--corpus": CORPUS_FILES, "--min-confidence": PROBABILITIES},
        optional=["--corpus"],
    ),
    "annotate --collection": Command(
        {"PIPELINE": "pipeline", "INPUT": "texts.jsonl", "OUTPUT": "new"},
        {
            "PIPELINE": SOME_PIPELINES,
            "INPUT": ["", *NO_PATHS, "empty_folder", "noise.parquet", "empty.parquet", "/dev/null"],
            "OUTPUT": [*OUTPUT_FOLDERS, "new.docx"],
            "--corpus": ["corpus/drugs/test.spacy"],
            "--shard-size": POSITIVE,
            "--batch-size": POSITIVE,
            "--n-process": POSITIVE,
            "--max-errors": NATURAL,
            "--min-confidence": PROBABILITIES,
        },
        optional=["INPUT", "OUTPUT"],
    ),
    "benchmark": Command(
        {"PIPELINE": "pipeline", "TEXTS": "texts.txt", "--repeats": "1", "--output": "new.json"},
        {
            "PIPELINE": SOME_PIPELINES,
            "TEXTS": [*NO_PATHS, "noise.spacy", "empty.txt", "number_text.jsonl", "list.jsonl"],
            "--against": ["", "nowhere"],
            "--repeats": POSITIVE,
            "--threads": POSITIVE,
            "--batch-size": POSITIVE,
            "--output": [*OUTPUT_FILES, "texts.txt", "pipeline/new.json"],
        },
        optional=["--repeats", "--output"],
    ),
    "benchmark --corpora": Command(
        {"PIPELINE": "pipeline", "--corpora": "sources", "--output": "new.json"},
        {
            "--corpora": [*INPUT_FOLDERS, "corpus"],
            "--map": [*CHOICES, "x:", ":A=B", "drugs:A", "drugs:=B", "drugs:A=?"],
            "--trained-on": SOME_PIPELINES,
            "--robustness": ["corpus/diseases/test.spacy"],
            "--against": ["pipeline"],
        },
        optional=["--output"],
    ),
    "card": Command(
        {
            "PIPELINE": "pipeline",
            "OUTPUT": "new",
            "--corpus": "corpus/diseases",
            "--metrics": "metrics.json",
        },
        {
            "PIPELINE": UNDESCRIBABLE,
            "OUTPUT": [*OUTPUT_FOLDERS, "pipeline/new", "corpus/diseases/new", "metrics.json"],
            "--corpus": CORPORA,
            "--metrics": [*INPUT_FILES, *JSONS],
            "--name": ["../x", "a b", "a-b", "_", "-", "a/b", "é", "a\nb", "a'b", ".", LONG_NAME],
            "--version": ["", "x", "1.x", "../1", "1 2", "1\n2", LONG_NAME, "1'2", "v", "latest"],
        },
    ),
    "scores": Command(
        {"PIPELINE": "pipeline", "METRICS": "metrics.json"},
        {
            # It does not read the meta.
            "PIPELINE": [one for one in UNDESCRIBABLE if not str(one).endswith("_meta")],
            "METRICS": [*INPUT_FILES, *JSONS],
        },
    ),
    "clean": Command(
        {"SOURCE": "texts.txt", "--output": "new.txt", "--lang": "en"},
        {
            "SOURCE": [*TEXT_FILES, "a=nowhere", "a=", "=texts.txt"],
            "--output": [*OUTPUT_FILES, "texts.txt", "new.doc", "new", "new.txt.bz2", "new.jsonl"],
            "--lang": CHOICES,
            "--min-words": POSITIVE,
            "--max-words": [*POSITIVE, "2"],
            "--similarity": [*RATES, "0.4", "0.96"],
            "--workers": POSITIVE,
        },
    ),
    "calibrate": Command(
        {"PIPELINE": "pipeline", "OUTPUT": "new", "--dev": "corpus/diseases/test.spacy"},
        {
            **CHECKED_ON_A_CORPUS,
            "--dev": CORPUS_FILES,
            "--target-recall": [*SHARES[1:], "=", "0.9=", "NO_LABEL=0.9"],
            "--unseen-share": SHARES,
        },
    ),
    "compress": Command(
        {"PIPELINE": "pipeline", "OUTPUT": "new", "--check": "corpus/diseases/test.spacy"},
        {
            **CHECKED_ON_A_CORPUS,
            "--precision": CHOICES,
            "--check": CORPUS_FILES,
            "--max-loss": ["", "x", "nan", "1,5", "-1", "-inf"],
            "--target-recall": SHARES[1:],
            "--unseen-share": SHARES,
        },
        optional=["--check"],
    ),
    "convert": Command(
        {"NAME": "own", "SOURCE": "sources/drugs", "OUTPUT": "new", "--format": "columns"},
        {
            "SOURCE": INPUT_FOLDERS,
            "OUTPUT": [*OUTPUT_FOLDERS[:-1], "sources/drugs", "sources"],
            "--format": [*CHOICES[1:], "brat", "jsonl", "bioc", "hoc", "squad"],
            "--language": ["x", "xx1", "e\nn", LONG_NAME, "../en", "no such", "-1"],
            "--train": NO_PATHS,
            "--dev": [*NO_PATHS, "empty_folder"],
            "--test": [*NO_PATHS, "unreadable_file"],
            "--encoding": ["x", "utf-99", "base64", "rot13", "a\nb", LONG_NAME, "\udcff"],
            "--n-sents": POSITIVE,
            "--labels": ["", ",", " "],
            "--replace-mentions": [name for name in INPUT_FOLDERS if name != "empty_folder"],
            "--seed": WHOLE,
        },
        more=[["--copies", "2"], ["--replace-mentions", "terms", "--copies", "0"]],
    ),
    "convert-encoder": Command(
        {"NAME": "encoder", "OUTPUT": "new"},
        {
            "NAME": ENCODERS,
            "OUTPUT": [*OUTPUT_FOLDERS, "encoder/new"],
            "--revision": ["", "x", "a\nb", LONG_NAME, "../x"],
        },
    ),
    "corpora": Command(
        {},
        {
            "NAME": [*NO_PATHS, *CHOICES, "ncbi_diseas", "'", "a" * 100_000],
            "--task": [*CHOICES, "nerr", "ner,textcat", "*"],
            "--language": [*CHOICES, "english", "e", "en es", "*"],
        },
        more=[
            ["ncbi_disease", "--task", "ner"],
            ["ncbi_disease", "--language", "en"],
            ["--json=1"],
            ["--json", "x"],
        ],
    ),
    "deidentify": Command(
        {"PIPELINE": "pipeline", "TEXTS": "texts.txt", "OUTPUT": "new.txt"},
        {
            "PIPELINE": [*PIPELINES, "blank"],
            "TEXTS": TEXT_FILES,
            "OUTPUT": [*OUTPUT_FILES, "texts.txt", "new.jsonl"],
            "--mode": CHOICES,
            "--annotations": [
                "empty_folder",
                "mine",
                "locked",
                "/dev/null",
                "fifo",
                "texts.txt",
                "new.txt",
            ],
        },
    ),
    "reidentify": Command(
        {"TEXTS": "texts.txt", "VAULT": "mine", "OUTPUT": "new.txt"},
        {"TEXTS": TEXT_FILES, "VAULT": ["gone", "empty_folder"], "OUTPUT": OUTPUT_FILES},
    ),
    "distill": Command(
        {
            "RECIPE": "distillation.cfg",
            "--paths.text": "texts.txt",
            "--paths.teacher": "encoder",
            "--paths.output": "new",
        },
        {
            "RECIPE": CONFIGS,
            "--paths.text": TEXT_FILES,
            "--paths.teacher": ENCODERS,
            "--paths.output": [*OUTPUT_FOLDERS, "texts.txt"],
            "--objective.name": CHOICES,
            "--student.layers": SETTINGS_ABOVE_ZERO,
        },
        more=SETTINGS,
    ),
    "encoders": Command(
        {},
        {
            "NAME": [*NO_PATHS, *CHOICES, "biobrt", "'", "dmis-lab/none", "a" * 100_000],
            "--language": [*CHOICES, "english", "e", "en es", "*", "multi", "all", "EN,ES"],
        },
        more=[
            ["biobert", "--language", "en"],
            ["--json=1"],
            ["--json", "x"],
            ["biobert", "minilm"],
        ],
    ),
    "init-config": Command(
        {
            "CORPUS": "corpus/drugs",
            "OUTPUT": "new.cfg",
            "--encoder": "encoder",
            "--template": "configs/ner.cfg",
        },
        {
            "--template": [*CONFIGS, "recipe.cfg"],
            "--task": CHOICES[1:],
            "CORPUS": CORPORA,
            "OUTPUT": [*OUTPUT_FILES, "configs/ner.cfg", "corpus/drugs/new.cfg"],
            "--encoder": ["", "new\nline", "../x", "a b", "a/b/c", "\udcff"],
            "--epochs": POSITIVE,
            "--batch-words": POSITIVE,
            "--learn-rate": RATES,
            "--seed": SEEDS,
        },
        optional=["--template"],
    ),
    "init-config --source": Command(
        {
            "CORPUS": "corpus/drugs",
            "OUTPUT": "new.cfg",
            "--source": "pipeline",
        },
        {
            "--template": ["nowhere", "little.cfg", "recipe.cfg"],
            "--task": ["textcat_multilabel", "x"],
            "CORPUS": ["corpus/no_train", "corpus/json_list", "nowhere", "corpus/spanish"],
            "OUTPUT": [*OUTPUT_FILES, "pipeline/new.cfg", "corpus/drugs/new.cfg"],
            "--source": [*PIPELINES, "blank"],
            "--encoder": ["encoder", ""],
            "--epochs": POSITIVE,
            "--learn-rate": RATES,
        },
    ),
    "init-config multitask": Command(
        {
            "OUTPUT": "new.cfg",
            "--tasks": "drugs,topics",
            "--encoder": "encoder",
            "--template": "configs/multitask.cfg",
        },
        {
            "OUTPUT": [*OUTPUT_FILES, "configs/multitask.cfg", "corpus/drugs/new.cfg"],
            "--tasks": NAMES_OF_CORPORA,
            "--encoder": ["", "new\nline", "../x", "a b", "a/b/c", "\udcff"],
            "--schedule": CHOICES,
            "--epochs": POSITIVE,
            "--batch-words": POSITIVE,
            "--learn-rate": RATES,
            "--seed": SEEDS,
            "--corpora-dir": INPUT_FOLDERS,
            "--template": [*CONFIGS, "configs/ner.cfg", "recipe.cfg"],
        },
        optional=["--template"],
    ),
    "install": Command(
        {"FOLDER": "mine"},
        {"FOLDER": [*INPUT_FOLDERS, "", ".", "noise.whl", "empty.whl", "folder.whl", *WHEELS]},
        more=[["--upgrade"], *([folder] for folder in INPUT_FOLDERS)],
    ),
    "leakage": Command(
        {"PIPELINE": "pipeline", "CORPUS": "corpus/drugs/test.spacy"},
        {
            "PIPELINE": [*PIPELINES, "blank"],
            "CORPUS": CORPUS_FILES,
            "--mode": CHOICES,
            "--kind": ["", "=", "X", "NOMBRE=x"],
            "--spans-key": ["", "none", "new\nline", LONG_NAME],
        },
    ),
    "errors": Command(
        {"PIPELINE": "pipeline", "CORPUS": "corpus/drugs/test.spacy", "OUTPUT": "page.html"},
        {
            "PIPELINE": PIPELINES,
            "CORPUS": CORPUS_FILES,
            "OUTPUT": OUTPUT_FILES,
            "--other": PIPELINES,
            "--spans-key": ["", "none", "new\nline", LONG_NAME],
            "--most": ["-1", "x"],
        },
    ),
    "pretrain": Command(
        {"RECIPE": "recipe.cfg", "--paths.text": "texts.txt", "--paths.output": "new"},
        {
            "RECIPE": CONFIGS,
            "--paths.text": TEXT_FILES,
            "--paths.output": [*OUTPUT_FOLDERS, "texts.txt"],
            "--vocabulary.kind": CHOICES,
            "--vocabulary.size": SETTINGS_ABOVE_ZERO,
            "--encoder.layers": SETTINGS_ABOVE_ZERO,
            "--masking.probability": RATES,
        },
        more=SETTINGS,
    ),
    "pull": Command(
        {"SOURCE": f"me/tiny@{'0' * 40}", "OUTPUT": "new"},
        {
            "SOURCE": [*CHOICES, *NO_PATHS, "me/tiny", "me/tiny@main", "@", f"a/b/c@{'0' * 40}"],
            "OUTPUT": OUTPUT_FOLDERS,
        },
    ),
    "push": Command(
        {"PIPELINE": "pipeline", "REPO_ID": "me/tiny"},
        {
            "PIPELINE": UNDESCRIBABLE,
            "REPO_ID": [*CHOICES, "a/b/c", "me/..", "/", "a b/c", "me/tiny.git"],
            "--wheel": [*INPUT_FOLDERS, *WHEELS],
        },
        more=[["--private=x"]],
    ),
    "serve": Command(
        {"PIPELINE": "pipeline"},
        {
            "PIPELINE": PIPELINES,
            "--host": ["", "nowhere", "new\nline", "192.0.2.1", "1.2.3", "::x", "http://127.0.0.1"],
            "--port": [*WHOLE, "-1", "65536"],
            "--token-file": [
                *NO_PATHS,
                "empty_folder",
                "unreadable_file",
                "empty.txt",
                "/dev/null",
            ],
            "--max-characters": POSITIVE,
            "--max-body": [*POSITIVE, "100000001"],
            "--max-waiting": POSITIVE,
            "--timeout": RATES,
            "--batch-size": POSITIVE,
        },
    ),
    "study scores": Command(
        {"PIPELINE": "pipeline"},
        {
            "PIPELINE": [*PIPELINES, "blank"],
            "--part": CHOICES,
            "--output": OUTPUT_FILES,
            "--gpu-id": GPUS,
        },
    ),
    "study run": Command(
        {"STUDY": "study.cfg", "OUTPUT": "new"},
        {
            "STUDY": [*CONFIGS, "recipe.cfg", "lewis_table_22", "mulyar_table_2"],
            "OUTPUT": OUTPUT_FOLDERS,
            "--jobs": POSITIVE,
            "--gpu-ids": ["a", "99", "-1", "0,x", "\x1b[2J"],
            "--corpora-dir": INPUT_FOLDERS,
        },
        more=STUDY_SETTINGS,
    ),
    "study distillation": Command(
        {
            "RECIPE": "distillation.cfg",
            "OUTPUT": "new",
            "--paths.text": "texts.txt",
            "--paths.teacher": "encoder",
            "--paths.output": "unused",
            "--study": "study.cfg",
        },
        {
            "RECIPE": CONFIGS,
            "OUTPUT": OUTPUT_FOLDERS,
            "--objectives": ["", ",", "none", "mobilebert,none", "mobilebert,mobilebert", "a\nb"],
            "--paths.text": TEXT_FILES,
            "--paths.teacher": ENCODERS,
            "--study": [*CONFIGS, "recipe.cfg", "lewis_table_22", "mulyar_table_2"],
            "--corpora-dir": INPUT_FOLDERS,
        },
        optional=["--study"],
        more=SETTINGS,
    ),
    "teach": Command(
        {"TEACHER": "pipeline", "CORPUS": "corpus/diseases", "OUTPUT": "new"},
        {
            "TEACHER": [*PIPELINES, "blank"],
            "CORPUS": CORPORA,
            "OUTPUT": [*OUTPUT_FOLDERS, "corpus/diseases", "corpus/diseases/new", "pipeline/new"],
            "--texts": [name for name in TEXT_FILES if name not in ("empty.txt", "empty.jsonl")],
            "--max-words": NATURAL,
        },
    ),
    "train": Command(
        {"CONFIG": "train.cfg", "--output": "new"},
        {
            "CONFIG": CONFIGS,
            "--output": [*NO_OUTPUTS[:-4], "file", "unreadable_file", "unreadable", "locked"],
            "--gpu-id": GPUS,
            "--code": [*INPUT_FILES, "noise.txt"],
            "--paths.train": [*CORPUS_FILES, "5"],
            "--paths.dev": [*CORPUS_FILES, "5"],
            "--components.biomed_transformer.model.name": ENCODERS,
        },
        more=[
            ["--training.max_steps", "x"],
            ["--vars.none", "1"],
            ["--training"],
            ["--training.seed"],
            ["--resume", "x"],
            ["--nlp.pipeline", "[1"],
            ["--nlp.pipeline", "x"],
            ["--nlp.lang", "klingon"],
        ],
    ),
    "vocabulary": Command(
        {"TEXT": "texts.txt", "--output": "new", "--size": "100"},
        {
            "TEXT": TEXT_FILES,
            "--output": [*OUTPUT_FOLDERS, "texts.txt"],
            "--kind": CHOICES,
            "--size": POSITIVE,
        },
        more=[["--kind", "bpe", "--lowercase"], ["--text-field", "none", "texts.jsonl"]],
    ),
}


def uses_of(name: str) -> list[list[str]]:
    """All bad uses of a command, each of them once."""
    command = COMMANDS[name]
    found = {tuple(use): None for use in command.uses(name)}
    if name != "install":  # whose good use is bad here
        found.pop(tuple(command.line(name, command.good)), None)
    return [list(use) for use in found]


def shown(use: Sequence[str]) -> str:
    words = (ascii(word)[1:-1] if word else "''" for word in use)
    return " ".join(word if len(word) < 50 else f"{word[:40]}..." for word in words)


@pytest.fixture(scope="module")
def room(tmp_path_factory, tiny_bert, tiny_pipeline):
    import_everything()
    find_server()  # which no fork has to start
    return Room(tmp_path_factory.mktemp("uses"), tiny_bert, tiny_pipeline)


def fault(use: list[str], room: Room) -> str | None:
    """Run a bad use; what is wrong with how it ends."""
    before = list_files(room.path.parent)
    outcome = run_in(room.path, use)
    after = list_files(room.path.parent)
    if before != after:
        changed = {
            path for path in before.keys() | after.keys() if before.get(path) != after.get(path)
        }
        room.restore()
        return f"changed {sorted(changed)[:4]}; {outcome}"
    lines = outcome.errors.splitlines()
    if outcome.status != 1:
        return f"status {outcome.status}: {outcome.output[-300:]} {outcome.errors[-600:]}"
    if len(lines) != 1 or not lines[0].startswith("✘ "):
        return f"no single line: {outcome.errors[-900:]}"
    named = max(len(word) for word in use)
    if len(lines[0]) > LONGEST_MESSAGE + named:
        return f"{len(lines[0])} characters: {lines[0][:500]}"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in lines[0]):
        return f"control characters: {lines[0]!r}"
    return None


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_uses_are_one_line_and_change_nothing(room, name):
    uses = uses_of(name)
    assert len(uses) >= 50
    tried = choose_tries(uses, name, fewest=8)
    faults = {shown(use): what for use in tried if (what := fault(use, room))}
    assert not faults, "\n\n".join(f"{use}\n    {what}" for use, what in faults.items())


def listed(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (["train", "empty.cfg", "--output", "new"], "empty.cfg: has no section [nlp]"),
        (["train", "no.cfg", "--output", "new"], "no.cfg"),
        (["clean", "texts.txt", "--output", "/dev/full", "--lang", "en"], "/dev/full: "),
    ],
)
def test_a_process_of_its_own_says_so_in_one_line(run_spacy, tmp_path, use, message):
    (tmp_path / "empty.cfg").touch()
    (tmp_path / "texts.txt").write_text("Aspirin reduced the risk of stroke.\n")
    done = run_spacy("biomed", *use, cwd=tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("✘ ") and message in line
    assert listed(tmp_path) == ["empty.cfg", "texts.txt"]


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("value", ["x'y", "x'; touch executed; '", "x' `touch executed`"])
def test_quotation_marks_in_variables_of_the_project_execute_nothing(run_spacy, tmp_path, value):
    shutil.copy(Path(__file__).parents[2] / "project.yml", tmp_path)
    (tmp_path / "assets" / "starter_en").mkdir(parents=True)
    done = run_spacy("project", "run", "convert", tmp_path, "--vars.format", value, cwd=tmp_path)
    assert done.returncode == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["project.yml"]
