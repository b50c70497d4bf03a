"""The one exception users meet, and how its message quotes what is in their files."""

from reprlib import Repr

# Characters of a quotation.
QUOTED = 80

# Numbers, lists and objects of any size, in a few words.
_SHORT = Repr()
_SHORT.maxlevel, _SHORT.maxlist, _SHORT.maxdict, _SHORT.maxstring = 2, 4, 4, 30

# Longer whole numbers are not written out: Python refuses those of over 4,300 digits.
_LONGEST_NUMBER = 10**40


class BiomedError(ValueError):
    """Bad input: the message is one complete line for the user.

    Command-line programs print it and exit with status 1; libraries may catch it as a `ValueError`.
    What it has from a file stands there as `quote` or `escape` gives it.
    """


def quote(value: object) -> str:
    """Quote data in a message: at most 80 characters, none of them a control character.

    Args:
        value: a string, which is put between quotation marks; or a number, a list or an object of
            any size and depth, as Python writes it.

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
    return escape(_represent(value))


def escape(text: str, limit: int = QUOTED) -> str:
    """Write what cannot be seen (line ends, escape sequences, marks that turn the direction of
    writing, halves of surrogate pairs) as Python's escapes, and cut what is too long.

    Returns:
        at most `limit` characters, the last of them an ellipsis where the text is cut.
    """
    shown = "".join(
        character if character.isprintable() else ascii(character)[1:-1]
        for character in text[: limit + 1]
    )
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _represent(value: object) -> str:
    try:
        return _SHORT.repr(value)
    except ValueError:  # a whole number of many digits, deep inside
        return f"a {type(value).__name__}"
