"""spaCy's heads on a shared encoder, and a few documents to train them."""

from importlib.util import find_spec

import pytest
from spacy.training import Example

needs_stock = pytest.mark.skipif(
    find_spec("spacy_transformers") is None, reason="spacy-transformers is not installed"
)

STOCK_LISTENER = {
    "@architectures": "spacy-transformers.TransformerListener.v1",
    "grad_factor": 1.0,
    "pooling": {"@layers": "reduce_mean.v1"},
}
STOCK_HEADS = {
    "ner": {
        "model": {
            "@architectures": "spacy.TransitionBasedParser.v2",
            "state_type": "ner",
            "extra_state_tokens": False,
            "hidden_width": 16,
            "maxout_pieces": 2,
            "use_upper": False,
            "tok2vec": STOCK_LISTENER,
        }
    },
    "textcat_multilabel": {
        "model": {
            "@architectures": "spacy.TextCatReduce.v1",
            "exclusive_classes": False,
            "use_reduce_first": False,
            "use_reduce_last": False,
            "use_reduce_max": False,
            "use_reduce_mean": True,
            "tok2vec": STOCK_LISTENER,
        }
    },
    "tagger": {"model": {"@architectures": "spacy.Tagger.v2", "tok2vec": STOCK_LISTENER}},
}
TRAINING = [
    ("Aspirin reduced cancer", {"entities": [(16, 22, "D")]}),
    ("No diabetes  was found", {"entities": [(3, 11, "D")]}),
    ("mutations of BRCA1", {"entities": []}),
    ("   ", {"entities": []}),
    ("", {"entities": []}),
]
EVEN = {"cats": {"DISEASE": 1.0, "GENE": 0.0}}, {"cats": {"DISEASE": 0.0, "GENE": 1.0}}


def make_examples(nlp):
    examples = []
    for text, annotations in TRAINING:
        doc = nlp.make_doc(text)
        tags = {"tags": [token.shape_[:1] for token in doc]} if len(doc) else {}
        gold = {**annotations, **EVEN["BRCA1" in text], **tags}
        examples.append(Example.from_dict(doc, gold))
    return examples


def check_learned(nlp, head):
    """Check what a head annotates that has learned the documents by heart."""
    docs = list(nlp.pipe([text for text, _ in TRAINING]))
    if head.endswith("ner"):
        found = [[(ent.start, ent.end, ent.label_) for ent in doc.ents] for doc in docs[:3]]
        assert found == [[(2, 3, "D")], [(1, 2, "D")], []]
    elif head == "tagger":
        assert [token.tag_ for token in docs[0]] == ["X", "x", "x"]
    else:
        assert [doc.cats["GENE"] > 0.5 for doc in docs[:3]] == [False, False, True]
