"""What the paths of a server answer."""

import asyncio
import json
import logging
from unittest.mock import Mock

import pytest
import spacy
from fastapi import FastAPI
from fastapi.testclient import TestClient
from served_pipelines import BREAKS
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import minibatch

from spacy_biomed import BiomedError
from spacy_biomed.annotations.relation_layer import SpanRelation
from spacy_biomed.formats.findings import describe, find_layers
from spacy_biomed.serving import create_app
from spacy_biomed.serving.messages import (
    AnnotatedBatch,
    AnnotatedDocument,
    DeidentifiedBatch,
    DeidentifiedDocument,
    Problem,
)
from spacy_biomed.terminologies import build_terminology

TEXTS = ["No aspirin today.", "", "Ochoa, 40, took Aspirin\nand 🙂 aspirin.", "a\x00b"]
JSON = {"content-type": "application/json"}


@Language.component("test_other_layers", assigns=["doc.cats", "doc._.relations", "doc.spans"])
def add_other_layers(doc: Doc) -> Doc:
    doc.cats = {"LONG": len(doc) / 10, "SHORT": 0.5}
    doc.spans["others"] = [Span(doc, 0, 1, label="FIRST")] if len(doc) else []
    if len(doc.ents) > 1:
        doc._.relations = [SpanRelation(doc.ents[0], doc.ents[1], "TAKES", 0.75)]
    return doc


def one_line(response) -> str:
    """The line of a refusal, of which there is nothing else."""
    line = Problem.model_validate(response.json()).error
    assert line.isprintable()
    assert 0 < len(line) < 500
    return line


def test_an_annotated_text_has_the_findings_of_bulk_annotation(post, rules):
    rules.add_pipe("test_other_layers")
    for text in TEXTS:
        response = post("/annotate", {"text": text, "id": "n1"})
        assert response.status_code == 200
        expected = describe(rules(text), find_layers(rules))
        assert response.json() == json.loads(json.dumps({"id": "n1", **expected}))
        AnnotatedDocument.model_validate(response.json())


def test_the_description_lists_the_codes_of_a_linker(post, rules, tmp_path):
    (tmp_path / "terms.csv").write_text("id,name\nC1,aspirin\n")
    build_terminology(tmp_path / "terms.csv", tmp_path / "terms", format="csv")
    rules.add_pipe("biomed_linker", config={"terminologies": {"terms": str(tmp_path / "terms")}})
    answer = post("/annotate", {"text": "No aspirin today."}).json()
    (entity,) = AnnotatedDocument.model_validate(answer).entities
    assert (entity.code, entity.code_name) == ("C1", "aspirin")


def test_a_server_does_not_begin_without_the_terminology_of_a_linker(rules, tmp_path):
    rules.add_pipe("biomed_linker", config={"terminologies": {"terms": str(tmp_path / "gone")}})
    with pytest.raises(BiomedError, match="gone: not a terminology"):
        create_app(rules)


def test_offsets_count_code_points_of_the_text_as_given(post):
    text = "\r\n🙂 e\u0301 aspirin"
    (entity,) = post("/annotate", {"text": text}).json()["entities"]
    assert text[entity["start"] : entity["end"]] == entity["text"] == "aspirin"


def test_a_batch_has_the_same_documents_in_order(ask, post):
    documents = [{"text": text, "id": f"n{number}"} for number, text in enumerate(TEXTS)]
    batch = post("/annotate/batch", {"documents": documents})
    assert batch.status_code == 200
    AnnotatedBatch.model_validate(batch.json())
    single = [post("/annotate", document).json() for document in documents]
    assert batch.json()["documents"] == single


def test_documents_without_id_are_numbered(post):
    batch = post("/annotate/batch", {"documents": [{"text": "a"}, {"text": "b", "id": "x"}]})
    assert [one["id"] for one in batch.json()["documents"]] == ["0", "x"]
    assert post("/annotate/batch", {"documents": []}).json() == {"documents": []}


def test_a_document_that_a_component_cannot_read_fails_alone_and_is_not_quoted(post, caplog):
    caplog.set_level(logging.DEBUG)
    documents = [{"text": "aspirin"}, {"text": f"Ochoa {BREAKS}"}, {"text": "aspirin"}]
    response = post("/annotate/batch", {"documents": documents})
    first, failed, last = response.json()["documents"]
    assert response.status_code == 200
    AnnotatedBatch.model_validate(response.json())
    assert len(first["entities"]) == len(last["entities"]) == 1
    assert failed == {"id": "1", "error": failed["error"]}
    assert "ValueError in served_pipelines.py:" in failed["error"]
    response = post("/annotate", documents[1])
    assert response.status_code == 422
    assert "ValueError in" in one_line(response)
    for said in (failed["error"], one_line(response), caplog.text):
        assert "Ochoa" not in said
        assert BREAKS not in said


def test_deidentification_adds_the_component_where_labels_are_personal_data(post, rules):
    text = "Ochoa took aspirin."
    response = post("/deidentify", {"text": text, "id": "n1"})
    DeidentifiedDocument.model_validate(response.json())
    assert response.json() == {
        "id": "n1",
        "text": "[NAME] took [DRUG].",
        "replacements": response.json()["replacements"],
    }
    assert [one["label"] for one in response.json()["replacements"]] == ["NAME", "DRUG"]
    batch = post("/deidentify/batch", {"documents": [{"text": text}, {"text": BREAKS}]}).json()
    DeidentifiedBatch.model_validate(batch)
    assert batch["documents"][0]["text"] == "[NAME] took [DRUG]."
    assert "error" in batch["documents"][1]


def test_texts_are_de_identified_one_by_one_so_that_a_text_has_one_answer(ask, rules):
    batches = []

    class Counting:
        def __call__(self, doc):
            return doc

        def pipe(self, stream, *, batch_size):
            for batch in minibatch(stream, batch_size):
                batches.append(len(batch))
                yield from batch

    Language.factory("test_counts_batches", func=lambda nlp, name: Counting())
    rules.add_pipe("test_counts_batches")
    body = {"documents": [{"text": "Ochoa"}] * 3}
    ask(lambda client: client.post("/deidentify/batch", json=body))
    assert batches == [1, 1, 1]
    batches.clear()
    ask(lambda client: client.post("/annotate/batch", json=body))
    assert batches == [3]


def test_the_pipelines_own_deidentifier_keeps_its_settings_and_gives_the_same(post, rules):
    component = rules.add_pipe("biomed_deidentify", config={"tag": "<{label}>"})
    expected = rules("Ochoa was here.")._.deidentified.text
    assert expected == "<NAME> was here."
    assert post("/deidentify", {"text": "Ochoa was here."}).json()["text"] == expected
    assert component.name not in rules.pipe_names  # it costs annotation nothing


def test_surrogates_by_identifier_need_one_and_equal_ones_share_them(post, rules, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_SECRET", "a secret of the hospital")
    settings = {"mode": "surrogates", "key_from": "document_id"}
    rules.add_pipe("biomed_deidentify", config=settings)
    documents = [{"text": f"Ochoa came, {n}", "id": "p1"} for n in "ab"]
    batch = post("/deidentify/batch", {"documents": documents}).json()["documents"]
    first, second = (one["replacements"][0]["text"] for one in batch)
    assert first == second
    response = post("/deidentify", {"text": "Ochoa came."})
    assert response.status_code == 422
    assert "no id" in one_line(response)
    assert post("/annotate", {"text": "Ochoa came."}).status_code == 200


def test_without_a_secret_surrogates_are_refused_and_annotation_works(post, rules, monkeypatch):
    monkeypatch.delenv("SPACY_BIOMED_SECRET", raising=False)
    rules.add_pipe("biomed_deidentify", config={"mode": "surrogates"})
    response = post("/deidentify", {"text": "Ochoa."})
    assert response.status_code == 409
    assert "SPACY_BIOMED_SECRET" in one_line(response)
    assert len(post("/annotate", {"text": "Ochoa."}).json()["entities"]) == 1


def test_a_pipeline_that_finds_no_personal_data_deidentifies_nothing(post):
    nlp = spacy.blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "CHEMICAL", "pattern": "aspirin"}])
    for path, body in (("", {"text": "a"}), ("/batch", {"documents": [{"text": "a"}]})):
        response = post(f"/deidentify{path}", body, nlp=nlp)
        assert response.status_code == 409
        assert "CHEMICAL" in one_line(response)


def test_health_tells_what_waits(ask):
    response = ask(lambda client: client.get("/health"))
    assert (response.status_code, response.json()) == (200, {"status": "ok", "waiting": 0})


def test_the_description_lists_the_paths_and_no_page_of_another_server(ask):
    async def read(client):
        return [await client.get(path) for path in ("/openapi.json", "/docs", "/redoc")]

    description, *pages = ask(read)
    paths = {"/annotate", "/annotate/batch", "/deidentify", "/deidentify/batch", "/health"}
    assert set(description.json()["paths"]) == paths
    statuses = description.json()["paths"]["/annotate"]["post"]["responses"]
    assert {"200", "408", "413", "422", "429", "504"} <= set(statuses)
    assert [page.status_code for page in pages] == [404, 404]


BAD_BODIES = [
    (b"", 422, "JSON object"),
    (b"{", 422, "not JSON at character 1"),
    (b'{"text": "a"', 422, "not JSON"),
    (b'{"text": "a"}}', 422, "not JSON"),
    (b"\xff\xfe{}", 422, "not JSON"),
    (b'{"text": "\xff"}', 400, "not JSON in UTF-8"),
    (b"[" * 100_000, 400, "not JSON"),
    (b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "not JSON"),
    (b"null", 422, "JSON object"),
    (b"[]", 422, "JSON object"),
    (b'"text"', 422, "JSON object"),
    (b"{}", 422, "text: Field required"),
    (b'{"text": null}', 422, "text: Input should be a valid string"),
    (b'{"text": 5}', 422, "text"),
    (b'{"text": ["a"]}', 422, "text"),
    (b'{"text": NaN}', 422, "text"),
    (b'{"text": ' + b"9" * 5000 + b"}", 400, "not JSON"),
    (b'{"text": "a", "id": 5}', 422, "id"),
    (b'{"text": "a", "id": "' + b"x" * 1001 + b'"}', 422, "id"),
    (b'{"text": "a", "text": "b"}', 422, "two fields of an object have one name"),
    (b'{"text": "a", "txet": 5}', 422, "no field 'txet'"),
    (b'{"text": "a", "\\ud800": 5}', 422, "no field"),
    (b'{"text": "a \\ud83d"}', 422, "text: half of a surrogate pair at character 2"),
    (b'{"text": "a", "id": "\\udc00"}', 422, "id: half of a surrogate pair"),
    (b'{"documents": []}', 422, "no field 'documents'"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("body", "status", "message"), BAD_BODIES)
@pytest.mark.parametrize("path", ["/annotate", "/deidentify"])
def test_a_bad_body_is_refused_in_a_line(post, path, body, status, message):
    response = post(path, content=body, headers=JSON)
    assert response.status_code == status
    assert message in one_line(response)


@pytest.mark.parametrize(
    "body",
    [b"{}", b'{"documents": {}}', b'{"documents": "a"}', b'{"documents": [1]}', b'{"text": "a"}']
    + [b'{"documents": [{"text": "a"}, {"text": 1}]}', b'{"documents": [{"text": "\\ud800"}]}']
    + [b'{"documents": [{"text": "a", "id": "1", "id": "2"}]}']
    + [b'{"documents": [' + b"{}," * 500_000 + b"{}]}"],
)
@pytest.mark.parametrize("path", ["/annotate/batch", "/deidentify/batch"])
def test_a_bad_batch_is_refused_in_a_line(post, path, body):
    response = post(path, content=body, headers=JSON)
    assert response.status_code == 422
    one_line(response)


def test_a_body_of_another_type_is_refused_with_what_to_send(post):
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; x", ""):
        headers = {"content-type": kind} if kind else {}
        response = post("/annotate", content=b'{"text": "a"}', headers=headers)
        assert response.status_code == 422
        assert "Content-Type: application/json" in one_line(response)


def test_an_unknown_path_or_method_is_a_line(ask):
    async def talk(client):
        return [
            await client.request(method, path)
            for method, path in (("GET", "/none"), ("POST", "/annotate/"), ("GET", "/annotate"))
        ] + [await client.request(method, "/annotate") for method in ("PUT", "TRACE", "PATIENT")]

    responses = ask(talk)
    assert [one.status_code for one in responses] == [404, 404, 405, 405, 405, 405]
    assert all("/openapi.json" in one_line(one) for one in responses)


def test_long_texts_and_batches_are_refused_with_the_limit(post):
    limits = {"max_characters": 5, "max_documents": 2}
    assert post("/annotate", {"text": "12345"}, limits=limits).status_code == 200
    response = post("/annotate", {"text": "123456"}, limits=limits)
    assert response.status_code == 413
    assert one_line(response) == "document 0 has 6 characters; send at most 5"
    response = post("/annotate/batch", {"documents": [{"text": "a"}] * 3}, limits=limits)
    assert response.status_code == 413
    assert one_line(response) == "3 documents; send at most 2 at a time"
    response = post(
        "/annotate/batch", {"documents": [{"text": "a"}, {"text": "123456"}]}, limits=limits
    )
    assert one_line(response) == "document 1 has 6 characters; send at most 5"


def test_the_pipelines_own_limit_counts_too(post, rules):
    rules.max_length = 4
    assert post("/annotate", {"text": "12345"}).status_code == 413


def test_concurrent_requests_give_what_nlp_pipe_gives(ask, rules):
    texts = [f"{n} aspirin for Ochoa" * (n % 4) for n in range(200)]
    layers = find_layers(rules)
    expected = [describe(doc, layers) for doc in rules.pipe(texts)]

    async def talk(client):
        return await asyncio.gather(
            *(client.post("/annotate", json={"text": text, "id": ""}) for text in texts)
        )

    found = [response.json() for response in ask(talk)]
    assert found == [{"id": "", **json.loads(json.dumps(one))} for one in expected]


def test_opentelemetry_is_not_asked_to_record_requests(post, monkeypatch):
    for name in ("trace.get_tracer_provider", "metrics.get_meter_provider"):
        module, function = name.split(".")
        pytest.importorskip(f"opentelemetry.{module}")
        monkeypatch.setattr(f"opentelemetry.{module}.{function}", Mock(side_effect=ValueError))
    with pytest.raises(ValueError):  # what an application without our setting does
        TestClient(FastAPI()).get("/")
    assert post("/annotate", {"text": "a"}).status_code == 200
