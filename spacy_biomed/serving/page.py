"""The page of a server: a form whose script asks the other paths and draws what they answer."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from spacy.language import Language

PAGE_FILES = Path(__file__).parent / "page_files"

# What is shown in the empty field, by language of the pipeline.
_EXAMPLES = {
    "ca": "Pacient de 58 anys amb un carcinoma de còlon, tractat amb cisplatí.",
    "de": "Der 58-jährige Patient mit Kolonkarzinom erhielt Cisplatin.",
    "en": "Aspirin reduced the risk of colorectal cancer.",
    "es": "María Pérez, de 58 años, ingresó el 12/03/2021 por un carcinoma de colon.",
    "fr": "Patient de 58 ans atteint d'un carcinome du côlon, traité par cisplatine.",
    "it": "Paziente di 58 anni con carcinoma del colon, trattato con cisplatino.",
    "nl": "Patiënt van 58 jaar met een coloncarcinoom, behandeld met cisplatine.",
    "pt": "Doente de 58 anos com carcinoma do cólon, tratado com cisplatina.",
}


def find_example(lang: str) -> str:
    """A sentence in a language: ours, else the first of spaCy's; "" if there is none."""
    if lang in _EXAMPLES:
        return _EXAMPLES[lang]
    try:
        return import_module(f"spacy.lang.{lang}.examples").sentences[0]
    except ImportError:
        return ""


def write_form(
    nlp: Language, max_characters: int, *, has_token: bool, can_deidentify: bool, needs_id: bool
) -> str:
    """The page. The pipeline's labels get the colours in alphabetical order.

    Args:
        needs_id: whether surrogates depend on the identifier of a document.
    """
    environment = Environment(
        loader=FileSystemLoader(PAGE_FILES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("form.html.jinja").render(
        name=f"{nlp.meta['lang']}_{nlp.meta['name']}",
        version=nlp.meta["version"],
        lang=nlp.lang,
        example=find_example(nlp.lang or ""),
        labels=sorted({label for own in nlp.pipe_labels.values() for label in own}),
        max_characters=max_characters,
        has_token=has_token,
        can_deidentify=can_deidentify,
        needs_id=needs_id,
    )
