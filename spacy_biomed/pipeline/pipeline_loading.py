"""Load pipelines by directory or package name, with one-line errors."""

from pathlib import Path

import spacy
from spacy.language import Language
from spacy.util import get_installed_models, get_package_path, import_file, is_package
from thinc.api import ConfigValidationError

from ..errors import BiomedError, add_hint, escape, first_line, quote, suggest, suggest_sibling
from ..settings.config_errors import find_unknown_name, locate_string, suggest_extra
from .checksums import CHECKSUMS, TRAINABLE, check_checksums

# Where the config of a pipeline lists its components, as `find_unknown_name` calls it.
SECTION = "[components]"


def load_pipeline(name: str, code: Path | str | None = None, gpu_id: int = -1) -> Language:
    """Load a pipeline with `spacy.load`.

    Args:
        name: an installed package, or a pipeline directory.
        code: Python file to import first, with what the pipeline needs.
        gpu_id: the GPU that it is to compute on; -1 for the CPU.

    Raises:
        BiomedError: if there is no such pipeline or GPU, if it is incomplete or damaged, if it
            needs a package that is not installed, or if the code cannot be imported.
    """
    use_gpu(gpu_id)
    if code is not None:
        import_code(Path(code))
    try:
        _check(name)
        return spacy.load(name)
    except BiomedError:
        raise
    except Exception as error:  # every component reads its files and may raise anything
        raise BiomedError(_explain(name, error)) from error


def use_gpu(gpu_id: int, option: str = "--gpu-id") -> None:
    """Make a GPU the current one; do nothing for -1. `option` is for the message."""
    if gpu_id >= 0:
        try:
            spacy.require_gpu(gpu_id)
        except ValueError as error:
            raise BiomedError(f"{option} {gpu_id}: {error}; leave it out for the CPU") from error


def _explain(name: str, error: Exception) -> str:
    reason = first_line(error)
    if reason.startswith(("[E050]", "[E053]")):
        problem = (
            f"{name}: neither an installed pipeline package nor a pipeline directory; "
            "`python -m spacy biomed install FOLDER` installs a wheel"
        )
        return add_hint(
            problem,
            suggest(name, get_installed_models()) or suggest_sibling(Path(name), "meta.json"),
        )
    missing, kind = find_unknown_name(str(error)) or ("", SECTION)
    if kind != SECTION:  # a config without the section of a component is damaged
        advice = suggest_extra(missing) or (
            "install the package that provides it, or import it with --code FILE if the command "
            "has this option"
        )
        return f"{_place(name, missing)}: '{escape(missing)}' is not among the {kind}; {advice}"
    if dotted := _find_dotted(error):
        return (
            f"{_place(name, dotted)}: the component '{escape(dotted)}' has a dot in its name, so "
            "spaCy cannot read its section; save the pipeline with another name for it: "
            f"nlp.add_pipe(..., name={quote(dotted.rpartition('.')[2])})"
        )
    if isinstance(error, ImportError):
        return f"{name}: needs a package that is not installed or not whole ({reason}); install it"
    what = "complete" if isinstance(error, OSError) else "readable"
    return f"{name}: not a {what} pipeline ({reason}); copy or install it again"


def _find_dotted(error: Exception) -> str | None:
    """The name of a component whose section of the config spaCy takes for one inside another."""
    for one in (isinstance(error, ConfigValidationError) and error.errors) or ():
        section, *names = one["loc"]
        if section == "components" and len(names) > 1 and one["msg"].endswith("is not defined"):
            return ".".join(names)
    return None


def _place(name: str, value: str) -> str:
    """The line of a pipeline's config that has a value; the pipeline if it is not found."""
    config = Path(name, "config.cfg")
    try:
        line = locate_string(config.read_text(encoding="utf8"), value)
    except (OSError, UnicodeDecodeError):
        return name
    return f"{config}:{line}" if line else name


def find_trainable(name: str) -> str:
    """What to train or compress of a pipeline: its folder `trainable`, else `name` itself."""
    folder = Path(name, TRAINABLE)
    return str(folder) if (folder / "config.cfg").is_file() else name


def _check(name: str) -> None:
    """Check the files of a pipeline before any of them is read."""
    folder, pattern = Path(name), CHECKSUMS
    if is_package(name):
        folder, pattern = get_package_path(name), f"*/{CHECKSUMS}"
    for sums in folder.glob(pattern):
        check_checksums(sums.parent)


def import_code(path: Path) -> None:
    """Import a file of code; raise BiomedError if that fails for any reason."""
    try:
        import_file("python_code", path)
    except Exception as error:  # the file can raise any exception
        reason = escape(f"{type(error).__name__}: {error}")
        raise BiomedError(f"--code {path}: cannot be imported ({reason}); correct it") from error
