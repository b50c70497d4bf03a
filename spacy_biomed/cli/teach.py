"""`spacy biomed teach`."""

from pathlib import Path

import typer
from wasabi import msg

from ._shared.number_options import LARGEST_SEED


def teach(
    teachers: list[str] = typer.Argument(
        help="Fine-tuned pipelines: directories or installed packages."
    ),
    corpus: Path = typer.Argument(help="Folder that `spacy biomed convert` wrote."),
    output: Path = typer.Argument(help="Folder to write: the corpus, taught."),
    texts: list[str] = typer.Option(
        [], help="Unlabelled text, a document per line, or folders of it; repeatable; '' for none."
    ),
    max_words: int = typer.Option(
        0, min=0, help="Number of words to draw from all of the text; 0: all."
    ),
    repeat: int = typer.Option(
        1,
        min=1,
        max=1000,
        help="How often the corpus has each annotated document; texts once.",
    ),
    seed: int = typer.Option(0, min=0, max=LARGEST_SEED, help="Seed of the drawing."),
    merge_into: str | None = typer.Option(
        None, help="Component that every entity head teaches; else the component of the same name."
    ),
) -> None:
    """Write a corpus with the probabilities that trained pipelines predict.

    A smaller pipeline that trains on it learns from the probabilities and the gold annotations,
    and on unlabelled text from the probabilities alone. If each document of the corpus is one
    sentence, each sentence of the text becomes a document too. Entity heads that teach the same
    component (heads of several pipelines, or with --merge-into) teach it the labels of all heads. A
    pipeline that continues learning (`init-config --source`) rehearses what it knows on a corpus
    that it taught itself. With --repeat, few annotated documents are read many times beside texts
    that are read once.

    Example: python -m spacy biomed teach training/ncbi_disease/model-best corpus/ncbi_disease
    corpus/ncbi_disease_taught --texts abstracts.txt.xz --max-words 1000000
    """
    from ..language_models.text_sources import read_documents, sample_documents
    from ..pipeline.pipeline_loading import find_trainable, load_pipeline
    from ..training.teaching import create_taught_corpus

    paths = [Path(text) for text in texts if text]
    drawn = sample_documents(paths, max_words, seed=seed) if max_words else read_documents(paths)
    report = create_taught_corpus(
        [load_pipeline(find_trainable(teacher)) for teacher in teachers],
        corpus,
        drawn,
        output,
        sources=[*teachers, *paths],
        merge_into=merge_into,
        repeat=repeat,
    )
    times = f" {repeat} times" if repeat > 1 else ""
    msg.good(
        f"{output}: {report.annotated} annotated documents{times} and {report.unlabelled} "
        f"unlabelled ones ({report.words} tokens), taught by {', '.join(report.components)}"
    )
