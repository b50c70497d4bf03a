"""The commands of `python -m spacy biomed`: a thin module for each.

spaCy imports this module through the entry-point group `spacy_cli` before it parses any command, so
nothing heavy may be imported here or at the top of a sub-command's module.
"""

import typer
from spacy.cli import app as spacy_app

from ._shared.bad_input import OneLineGroup
from .annotate import annotate
from .benchmark import benchmark
from .build import build
from .calibrate import calibrate
from .card import card
from .clean import clean
from .combine import combine
from .compress import compress
from .convert import convert
from .convert_encoder import convert_encoder
from .corpora import corpora
from .deidentify import deidentify
from .distill import distill
from .encoders import encoders
from .errors import errors
from .import_model import import_model
from .info import info
from .init_config import init_config
from .install import install
from .leakage import leakage
from .pretrain import pretrain
from .pull import pull
from .push import push
from .reidentify import reidentify
from .scores import scores
from .serve import serve
from .strip import strip
from .study import study
from .teach import teach
from .terminology import terminology
from .train import CONFIG_OVERRIDES, train
from .version import print_versions
from .vocabulary import vocabulary

app = typer.Typer(
    name="biomed",
    help="Biomedical and clinical pipelines: corpora, encoders and what turns them into wheels.",
    no_args_is_help=True,
    cls=OneLineGroup,
)


@app.callback()
def choose_command(
    version: bool = typer.Option(
        False,
        "--version",
        is_eager=True,
        callback=print_versions,
        help="Print the versions of the package, Python, spaCy and the engines, and exit.",
    ),
) -> None:
    """The commands' own options follow their names."""


app.command("corpora")(corpora)
app.command("encoders")(encoders)
app.command("convert-encoder")(convert_encoder)
app.command("import-model")(import_model)
app.command("clean")(clean)
app.command("convert")(convert)
app.command("combine")(combine)
app.add_typer(init_config, name="init-config")
app.command("train", context_settings=CONFIG_OVERRIDES)(train)
app.command("vocabulary")(vocabulary)
app.command("pretrain", context_settings=CONFIG_OVERRIDES)(pretrain)
app.command("distill", context_settings=CONFIG_OVERRIDES)(distill)
app.command("teach")(teach)
app.add_typer(study, name="study")
app.command("compress")(compress)
app.add_typer(terminology, name="terminology")
app.command("calibrate")(calibrate)
app.command("benchmark")(benchmark)
app.command("annotate")(annotate)
app.command("deidentify")(deidentify)
app.command("reidentify")(reidentify)
app.command("serve")(serve)
app.command("leakage")(leakage)
app.command("scores")(scores)
app.command("errors")(errors)
app.command("card")(card)
app.command("strip")(strip)
app.command("build", context_settings=CONFIG_OVERRIDES)(build)
app.command("install")(install)
app.command("info")(info)
app.command("push")(push)
app.command("pull")(pull)

spacy_app.add_typer(app, name="biomed")
