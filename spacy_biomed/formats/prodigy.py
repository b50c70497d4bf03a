"""Tasks for Prodigy."""

from spacy.tokens import Doc

from . import findings
from .jsonl import read_jsonl
from .registry import Format

# A class with at least this score is preselected.
_ACCEPTED = 0.5
# What relations say of their spans.
_PLACE = ("start", "end", "token_start", "token_end", "label")


def write_prodigy(shard: findings.AnnotatedShard) -> dict[str, bytes]:
    """Write a file of JSON lines, each a task for `ner.manual`, `spans.manual` or `rel.manual`.

    Offsets are code points, indices of tokens include the last token, and the head and the child of
    a relation are the last tokens of their spans, as Prodigy has them. The card shows `meta`: the
    identifier, and the lowest confidence of the document's mentions. Where the pipeline classifies,
    `options` and `accept` are for the interface `choice`.
    """
    tasks = (_create_task(document, shard.layers) for document in shard.documents)
    return {f"{shard.name}.jsonl": findings.pack_lines(tasks)}


PRODIGY = Format(read_jsonl, write_prodigy, has_fields=True)


def _create_task(document: findings.AnnotatedDocument, layers: findings.Layers) -> findings.Row:
    _, item, doc, found = document
    mentions, relations = findings.list_mentions(doc.text, found)
    spans = {mention.number: _describe(mention, doc) for mention in mentions}
    lowest = findings.find_lowest(mentions)
    shown = {} if lowest is None else {"lowest confidence": round(lowest, 2)}
    task: findings.Row = {
        "text": doc.text,
        "meta": {**item.fields, "id": item.id, **shown},
        "tokens": [
            {
                "text": token.text,
                "start": token.idx,
                "end": token.idx + len(token),
                "id": token.i,
                "ws": bool(token.whitespace_),
            }
            for token in doc
        ],
        "spans": list(spans.values()),
    }
    if layers.relations:
        task["relations"] = []
        for relation in relations:
            head, child = spans[relation.head.number], spans[relation.tail.number]
            ends = {
                "head": head["token_end"],
                "child": child["token_end"],
                "head_span": {key: head[key] for key in _PLACE},
                "child_span": {key: child[key] for key in _PLACE},
            }
            task["relations"].append({**ends, "label": relation.label})
    if layers.cats:
        cats = found["cats"]
        task["options"] = [{"id": label, "text": label} for label in cats]
        task["accept"] = [label for label, score in cats.items() if score >= _ACCEPTED]
    return task


def _describe(mention: findings.FoundMention, doc: Doc) -> findings.Row:
    span = doc.char_span(mention.start, mention.end)
    assert span is not None  # it was a span of tokens
    described = {
        "start": mention.start,
        "end": mention.end,
        "token_start": span.start,
        "token_end": span.end - 1,
        "label": mention.label,
        "text": span.text,
        "id": f"T{mention.number}",
        "score": mention.confidence,
        "attributes": mention.attributes,
    }
    return {name: value for name, value in described.items() if value not in (None, {})}
