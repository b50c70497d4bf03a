"""The exception for bad input, and what its messages quote and advise."""

import json
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from importlib.metadata import distributions
from pathlib import Path
from reprlib import Repr
from urllib.parse import urlsplit
from urllib.request import url2pathname

# Maximum characters of a quotation.
QUOTED = 80

# A short representation of numbers, lists and objects of any size.
_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxstring = 2, 4, 4, 30

# Larger integers are not written out: Python refuses integers of more than 4,300 digits.
_LONGEST_NUMBER = 10**40


class BiomedError(ValueError):
    """Bad input: the message is one complete line for the user.

    Command-line programs print it and exit with status 1; libraries may catch it as a `ValueError`.
    Data from files are passed through `quote` or `escape` before they enter a message.
    """


class DamagedPipelineError(BiomedError):
    """The files of a pipeline are missing or not as they were written, or its scores no numbers.

    No document can be annotated with it, so a run ends instead of leaving out documents.
    """


def quote(value: object) -> str:
    """Quote data in a message: at most 80 characters, none of them a control character.

    Args:
        value: a string, which gets quotation marks; or a number, a list or an object of any size
            and depth, as Python represents it, shortened.

    Examples:
        >>> quote("the end\\r\\x1b[2J")
        "'the end\\\\r\\\\x1b[2J'"
        >>> quote([1, 2.5, None])
        '[1, 2.5, None]'
    """
    if isinstance(value, str):
        mark = '"' if "'" in value else "'"
        return f"{mark}{escape(value)}{mark}"
    if isinstance(value, int) and abs(value) > _LONGEST_NUMBER:
        return "a number of many digits"
    try:
        shown = _SHORT.repr(value)
    except ValueError:  # a nested integer of too many digits
        shown = f"a {type(value).__name__}"
    return escape(shown)


def escape(text: str, limit: int = QUOTED) -> str:
    """Replace invisible characters by Python's escapes, and cut longer text with an ellipsis.

    Invisible are line ends, escape sequences, marks of writing direction, and halves of surrogate
    pairs.
    """
    shown = "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in text[: limit + 1]
    )
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def suggest(name: str, known: Iterable[str], count: int = 3) -> str:
    """Ask whether one of at most `count` known names is meant; "" if none is similar.

    Examples:
        >>> suggest("Bratt", ["brat", "jsonl"])
        'did you mean brat?'
    """
    by_key = {one.casefold(): one for one in known}
    close = get_close_matches(name.casefold(), by_key, n=count)
    return f"did you mean {' or '.join(by_key[one] for one in close)}?" if close else ""


def suggest_sibling(path: Path, holding: str) -> str:
    """Ask whether a folder beside a path is meant, which has a file; "" if none is similar."""
    try:
        found = path.parent.iterdir()
        siblings = [one.name for one in found if one.name != path.name and (one / holding).exists()]
    except OSError:
        return ""
    hint = suggest(path.name, siblings, 1)
    return escape(hint.replace("mean ", f"mean {path.parent}/", 1)) if path.parent.name else hint


def add_hint(message: str, hint: str) -> str:
    """A message with what `suggest` asks, if anything."""
    return f"{message}; {hint}" if hint else message


def list_choices(name: str, choices: Iterable[str]) -> str:
    """What to do about an unknown name of few: the choices, and which of them may be meant.

    Examples:
        >>> list_choices("int9", ["int8", "fp32", "fp16"])
        'use int8, fp32 or fp16; did you mean int8?'
    """
    *others, last = choices
    listed = f"use {', '.join(others)} or {last}" if others else f"use {last}"
    return add_hint(listed, suggest(name, [*others, last], 1))


def first_line(error: BaseException) -> str:
    """The first line of an error's message; its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def install_command(extra: str) -> str:
    """The command that adds an extra to this installation.

    pip takes an installed package as it is and adds what the extra needs. An editable clone is
    installed again by its path, so that it stays editable.
    """
    # The clone's own egg-info, which is found first inside the clone, records no origin.
    found = [one.read_text("direct_url.json") for one in distributions(name="spacy-biomed")]
    origin = json.loads(next(filter(None, found), "{}"))
    if not origin.get("dir_info", {}).get("editable"):
        return f"python -m pip install 'spacy-biomed[{extra}]'"
    clone = Path(url2pathname(urlsplit(origin["url"]).path))
    place = "." if clone == Path.cwd() else clone
    return f"python -m pip install -e {shlex.quote(f'{place}[{extra}]')}"
