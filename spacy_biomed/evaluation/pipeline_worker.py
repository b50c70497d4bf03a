"""What measures a pipeline for `spacy biomed benchmark`, in a process of its own.

Modules are imported only when needed, so that the time to the first annotation is that of a program
that does nothing else.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from spacy.language import Language

Item = TypeVar("Item")
SENTENCE = "Aspirin reduced the risk of colorectal cancer in patients with type 2 diabetes."


class PipelineWorker:
    """Measures the pipeline that `load` sets, on the texts and the batch size that `read` sets."""

    nlp: Language
    texts: list[str]
    batch_size: int

    def load(self, pipeline: str, code: str | None = None) -> float:
        """Load a pipeline and annotate a sentence; return the seconds for loading."""
        from ..pipeline.pipeline_loading import load_pipeline

        start = time.perf_counter()
        self.nlp = load_pipeline(pipeline, code)
        seconds = time.perf_counter() - start
        self.nlp(SENTENCE)
        return seconds

    def read(self, texts: list[str], batch_size: int | None) -> dict[str, object]:
        """Set the texts, and describe them and the pipeline."""
        self.texts = texts
        self.batch_size = batch_size or self.nlp.batch_size
        return {
            "words": sum(len(self.nlp.make_doc(text)) for text in texts),
            "batch_size": self.batch_size,
            "disk_bytes": directory_size(self.nlp.path) if self.nlp.path else 0,
            "components": list(self.nlp.pipe_names),
            "engines": {n: p.engine for n, p in self.nlp.pipeline if hasattr(p, "engine")},
        }

    def pipe(self) -> float:
        """Annotate all texts in batches; return the seconds."""
        start = time.perf_counter()
        for _ in self.nlp.pipe(self.texts, batch_size=self.batch_size):
            pass
        return time.perf_counter() - start

    def singly(self, count: int) -> list[float]:
        """Annotate `count` evenly spaced texts one by one; return the seconds of each."""
        seconds = []
        for text in spread(self.texts, count):
            start = time.perf_counter()
            self.nlp(text)
            seconds.append(time.perf_counter() - start)
        return seconds

    def peak_memory(self) -> int | None:
        """Peak resident size of this process so far, in bytes; None if unknown."""
        if size := memory_status("VmHWM"):
            return size
        try:
            import resource
        except ImportError:
            return None
        # On Linux it includes the parent's memory at the fork.
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def spread(items: list[Item], count: int) -> list[Item]:
    """`count` evenly spaced items; all items if there are fewer."""
    count = min(count, len(items))
    return [items[i * len(items) // count] for i in range(count)]


def directory_size(path: Path) -> int:
    """The total bytes of a pipeline's files, without those of its form for training."""
    from ..pipeline.checksums import TRAINABLE

    own = (file for file in path.rglob("*") if file.relative_to(path).parts[0] != TRAINABLE)
    return sum(file.stat().st_size for file in own if file.is_file())


def memory_status(field: str) -> int | None:
    """A field of Linux's /proc/self/status, in bytes; None if there is no such field."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^{field}:\s*(\d+)", status, re.MULTILINE)
    return int(found[1]) * 1024 if found else None
