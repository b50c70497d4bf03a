"""`spacy biomed teach`."""

from pathlib import Path

import typer


def teach(
    teacher: str = typer.Argument(help="Fine-tuned pipeline: a directory or installed package."),
    corpus: Path = typer.Argument(help="Folder that `spacy biomed convert` wrote."),
    output: Path = typer.Argument(help="Folder to write: the corpus, taught."),
    texts: list[Path] = typer.Option(
        [], help="Unlabelled text, a document a line, or folders of it; repeatable."
    ),
    max_words: int = typer.Option(0, min=0, help="Tokens of unlabelled text to take; 0: all."),
) -> None:
    """Let a pipeline teach: write a corpus that carries its probabilities.

    A smaller pipeline that trains on it learns from them as well as from the gold annotation, and
    on unlabelled text from them alone. Where each document of the corpus is one sentence, each
    sentence of the text becomes one too.

    Example: python -m spacy biomed teach training/ncbi_disease/model-best corpus/ncbi_disease
    corpus/ncbi_disease_taught --texts abstracts.txt.xz --max-words 1000000
    """
    from wasabi import msg

    from ..language_models.sources import read_documents
    from ..pipeline.loading import load_pipeline
    from ..training.teaching import create_taught_corpus

    report = create_taught_corpus(
        load_pipeline(teacher),
        corpus,
        read_documents(texts),
        output,
        max_words=max_words,
        sources=[Path(teacher), *texts],
    )
    msg.good(
        f"{output}: {report.annotated} annotated documents and {report.unlabelled} unlabelled ones "
        f"({report.words} tokens), taught by {', '.join(report.components)}"
    )
