"""The commands of `python -m spacy biomed`: thin modules that parse, call and print.

spaCy imports this module through the entry-point group `spacy_cli` before it parses any command, so
nothing heavy may be imported here or at the top of a sub-command's module.
"""

import typer
from spacy.cli import app as spacy_app

from ._shared.bad_input import OneLineGroup
from ._shared.options import CONFIG_OVERRIDES
from .annotate import annotate
from .catalogues import corpora, encoders
from .conversion import combine, convert
from .deidentification import deidentify, leakage, reidentify
from .evaluation import benchmark, errors, scores
from .info import info, print_versions
from .language_models import clean, convert_encoder, distill, pretrain, vocabulary
from .packaging import average, calibrate, card, compress, import_model, strip
from .serve import serve
from .studies import study
from .terminology import terminology
from .training import init_config, teach, train
from .wheels import build, install, pull, push

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
    *(corpora, encoders, convert_encoder, import_model, clean, convert, combine, train),
    *(vocabulary, pretrain, distill, teach, average, compress, calibrate, benchmark),
    *(annotate, deidentify, reidentify, serve, leakage, scores, errors, card, strip, build),
    *(install, info, push, pull),
):
    takes_settings = command in (train, pretrain, distill, build)
    app.command(context_settings=CONFIG_OVERRIDES if takes_settings else None)(command)
app.add_typer(init_config, name="init-config")
app.add_typer(study, name="study")
app.add_typer(terminology, name="terminology")

spacy_app.add_typer(app, name="biomed")
