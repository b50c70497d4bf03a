"""`spacy_biomed.TrackingLogger.v1`: scores and settings to MLflow or Weights & Biases."""

import os
import sys
from collections.abc import Callable
from typing import IO, Any, Literal

from spacy.language import Language
from spacy.util import dict_to_dot, registry
from thinc.api import Config

from ..errors import BiomedError
from .logger import Evaluation, LogStep, RichLogger_v1

# Sections of a config with paths of corpora and labels that were found in them.
PRIVATE_SECTIONS = ("paths", "corpora", "initialize")


def TrackingLogger_v1(
    to: Literal["mlflow", "wandb"], project: str = "spacy-biomed", run_name: str | None = None
) -> Callable[[Language, IO, IO], tuple[LogStep, Callable[[], None]]]:
    """Log as `spacy_biomed.RichLogger.v1` does, and with a logger of spacy-loggers.

    It gets losses, scores and settings, but no path, label list or pipeline, which has words of the
    texts.

    Args:
        to: "mlflow" or "wandb"; the package must be installed and set up.
        project: name of the project, for wandb.

    Raises:
        BiomedError: if the package is not installed.
    """
    console = RichLogger_v1()

    def setup_logger(
        nlp: Language, stdout: IO = sys.stdout, stderr: IO = sys.stderr
    ) -> tuple[LogStep, Callable[[], None]]:
        log_to_console, finalize_console = console(nlp, stdout, stderr)
        private = list_private_settings(nlp.config.interpolate())
        name = "spacy.MLflowLogger.v2"
        options: dict[str, Any] = {"run_name": run_name, "remove_config_values": private}
        if to == "wandb":
            name, options["project_name"] = "spacy.WandbLogger.v5", project
        try:
            tracker = registry.get("loggers", name)(**options)
        except ImportError as error:
            raise BiomedError(f"logging to {to} needs its package: pip install {to}") from error
        log_to_tracker, finalize_tracker = tracker(nlp, stdout, stderr)

        def log_step(info: Evaluation | None) -> None:
            log_to_console(info)
            log_to_tracker(info and {**info, "output_path": None})

        def finalize() -> None:
            finalize_console()
            finalize_tracker()

        return log_step, finalize

    return setup_logger


def list_private_settings(config: Config) -> list[str]:
    """The dotted names of an interpolated config's settings that are paths or found in a corpus."""
    return [
        name
        for name, value in dict_to_dot(config).items()
        if name.split(".")[0] in PRIVATE_SECTIONS
        or name.endswith((".labels", ".path", ".source"))
        or (isinstance(value, str) and os.path.exists(value))
    ]
