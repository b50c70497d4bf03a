"""`spacy biomed import-model`."""

from __future__ import annotations

from pathlib import Path

import typer

from ..pipeline.checksums import replacing_pipeline
from ._shared.bad_input import importing_extra


def import_model(
    name: str = typer.Argument(help="Hub id or directory of a fine-tuned classifier."),
    output: Path = typer.Argument(help="Directory to write the pipeline to."),
    revision: str | None = typer.Option(None, help="Commit, branch or tag on the hub."),
    language: str = typer.Option("en", help="Code of the pipeline's language."),
    classes: str | None = typer.Option(
        None, help="Names of its classes in their order, such as O,B-DRUG,I-DRUG."
    ),
) -> None:
    """Make a pipeline of a token or text classifier that was fine-tuned with transformers.

    The pipeline's predictions are the same as in transformers. It can be compressed, so that it
    runs without PyTorch, trained further, and packaged.

    Example: python -m spacy biomed import-model PlanTL-GOB-ES/bsc-bio-ehr-es-pharmaconer
    pharmaconer --language es
    """
    with importing_extra("importing a model needs PyTorch and transformers"):
        from ..packaging.model_import import import_model
        from ..pipeline.saved_words import write_pipeline
    source = Path(name).expanduser()
    with replacing_pipeline(output, "spacy biomed import-model", [source]) as partial:
        names = None if classes is None else [each.strip() for each in classes.split(",")]
        nlp = import_model(name, revision, language=language, classes=names)
        write_pipeline(nlp, partial)
    head = nlp.pipe_names[-1]
    typer.echo(f"✔ Wrote {output}: {head} with {', '.join(nlp.pipe_labels[head])}")
