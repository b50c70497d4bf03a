"""The commands of `python -m spacy biomed`: a thin module for each.

spaCy imports this module through the entry-point group `spacy_cli` before it parses any command, so
nothing heavy may be imported here or at the top of a sub-command's module.
"""

import typer
from spacy.cli import app as spacy_app

from ._shared.bad_input import OneLineGroup
from .annotate import annotate
from .average import average
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


# In the order of the help. The names are those of the functions.
for command in (
    corpora,
    encoders,
    convert_encoder,
    import_model,
    clean,
    convert,
    combine,
    train,
    vocabulary,
    pretrain,
    distill,
    teach,
    average,
    compress,
    calibrate,
    benchmark,
    annotate,
    deidentify,
    reidentify,
    serve,
    leakage,
    scores,
    errors,
    card,
    strip,
    build,
    install,
    info,
    push,
    pull,
):
    takes_settings = command in (train, pretrain, distill, build)
    app.command(context_settings=CONFIG_OVERRIDES if takes_settings else None)(command)
for name, group in (
    ("init-config", init_config),
    ("study", study),
    ("terminology", terminology),
):
    app.add_typer(group, name=name)

spacy_app.add_typer(app, name="biomed")
