"""Train as a new process would, and stop as if something had failed."""

import io
from pathlib import Path

import pytest
from spacy.training.initialize import init_nlp
from thinc.api import Config

from spacy_biomed.training.resumable import train


def run(config: Config, output: Path, stop_after: int | None = None, **settings) -> str:
    """Train; fail after so many updates. Return what was printed."""
    nlp, stdout = init_nlp(config.copy()), io.StringIO()
    if stop_after is None:
        train(nlp, output, stdout=stdout, **settings)
        return stdout.getvalue()
    update, calls = nlp.update, iter(range(stop_after))

    def fail_in_the_end(*args, **kwargs):
        if next(calls, None) is None:
            raise RuntimeError("stopped")
        return update(*args, **kwargs)

    nlp.update = fail_in_the_end
    with pytest.raises(RuntimeError, match="stopped"):
        train(nlp, output, stdout=stdout, **settings)
    return stdout.getvalue()
