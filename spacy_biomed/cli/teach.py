"""`spacy biomed teach`."""

from pathlib import Path

import typer

from ._shared.number_options import LARGEST_SEED


def teach(
    teachers: list[str] = typer.Argument(
        help="Fine-tuned pipelines: directories or installed packages."
    ),
    corpus: Path = typer.Argument(help="Folder that `spacy biomed convert` wrote."),
    output: Path = typer.Argument(help="Folder to write: the corpus, taught."),
    texts: list[str] = typer.Option(
        [], help="Unlabelled text, a document a line, or folders of it; repeatable; '' for none."
    ),
    max_words: int = typer.Option(
        0, min=0, help="Draw so many words of the text, from all of it; 0: all."
    ),
    repeat: int = typer.Option(
        1, min=1, max=1000, help="How often each annotated document stands there; each text once."
    ),
    seed: int = typer.Option(0, min=0, max=LARGEST_SEED, help="Of what is drawn."),
    merge_into: str | None = typer.Option(
        None, help="Component that every head of entities teaches; else the one of its own name."
    ),
) -> None:
    """Let pipelines teach: write a corpus that carries their probabilities.

    A smaller pipeline that trains on it learns from them as well as from the gold annotation, and
    on unlabelled text from them alone. Where each document of the corpus is one sentence, each
    sentence of the text becomes one too. Heads of entities that teach a component of one name, of
    several pipelines or with --merge-into, teach it the labels of all. A pipeline that goes on
    learning (`init-config --source`) rehearses what it knows on a corpus that it taught itself; few
    documents are learned from many times beside texts that are read once with --repeat.

    Example: python -m spacy biomed teach training/ncbi_disease/model-best corpus/ncbi_disease
    corpus/ncbi_disease_taught --texts abstracts.txt.xz --max-words 1000000
    """
    from wasabi import msg

    from ..language_models.sources import read_documents, sample_documents
    from ..pipeline.pipeline_loading import load_pipeline
    from ..training.teaching import create_taught_corpus

    paths = [Path(text) for text in texts if text]
    drawn = sample_documents(paths, max_words, seed=seed) if max_words else read_documents(paths)
    report = create_taught_corpus(
        [load_pipeline(teacher) for teacher in teachers],
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
