"""The one exception users meet: a line that says what is wrong, where, and what to do."""


class BiomedError(ValueError):
    """Bad input: the message is one complete line for the user.

    Command-line programs print it and exit with status 1; libraries may catch it as a `ValueError`.
    """
