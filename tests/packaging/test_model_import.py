"""Fine-tuned models of transformers become pipelines with the same predictions."""

import json
import random
import shutil

import numpy as np
import pytest
import spacy
import torch
import transformers
from commands import call
from small_encoders import SMALL

from spacy_biomed import BiomedError
from spacy_biomed.packaging import compress_pipeline
from spacy_biomed.packaging.model_import import import_model, read_tags

BIO = ["O", "B-DRUG", "I-DRUG", "B-DISEASE", "I-DISEASE"]
TEXT = (
    "Aspirin reduced the risk of colorectal cancer in patients with diabetes . Mutations BRCA1 , "
    "TP53 ( IL-2 ) p < 0.05 fiebre de 39 °C tras la quimioterapia"
)


@pytest.fixture(scope="module")
def sentences():
    choose, words = random.Random(0), TEXT.split()
    return [" ".join(choose.choices(words, k=choose.randint(1, 25))) for _ in range(1000)]


@pytest.fixture
def save_classifier(any_encoder, tmp_path):
    """Save a model of transformers with random layers on a small encoder, and return both."""

    def save(kind, classes=BIO, encoder=any_encoder, **settings):
        torch.manual_seed(5)
        config = transformers.AutoConfig.from_pretrained(
            encoder, id2label=dict(enumerate(classes)), num_labels=len(classes), **settings
        )
        model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(encoder, config=config)
        with torch.no_grad():  # such that all classes occur
            for name, weight in model.named_parameters():
                if not name.startswith(model.base_model_prefix) or "pooler" in name:
                    weight.normal_(std=1.0)
        path = tmp_path / kind
        model.save_pretrained(path)
        transformers.AutoTokenizer.from_pretrained(encoder).save_pretrained(path)
        return path, model.eval()

    return save


def pipeline_of(path, task, **settings):
    return transformers.pipeline(task, model=str(path), tokenizer=str(path), **settings)


def in_fp32(nlp):
    """The pipeline as it is on a processor that does not compute in bf16."""
    nlp.get_pipe("biomed_transformer").model.shims[0].computes_in = "fp32"
    return nlp


def entities_of_first_pieces(pieces, doc):
    """The entities of a document by the tags of its tokens' first word pieces, as in BIO."""
    tag_at = {}
    for piece in pieces:  # in order, so a token's first piece is set first
        for place in range(piece["start"], piece["end"]):
            tag_at.setdefault(place, piece["entity"])
    found, last = [], "O"
    for token in doc:
        tag = tag_at[token.idx]
        if tag != "O":
            if tag[0] == "I" and last[2:] == tag[2:]:
                found[-1][1] = token.idx + len(token)
            else:
                found.append([token.idx, token.idx + len(token), tag[2:]])
        last = tag
    return [tuple(entity) for entity in found]


def with_letters(entities, doc):
    """The entities with a letter or digit: `biomed_ner` finds no others."""
    return [one for one in entities if any(map(str.isalnum, doc.text[one[0] : one[1]]))]


def offsets(doc):
    return [(ent.start_char, ent.end_char, ent.label_) for ent in doc.ents]


@pytest.mark.slow(least=1)
def test_a_token_classifier_finds_what_it_finds_in_transformers(save_classifier, sentences):
    path, _ = save_classifier("TokenClassification")
    nlp = in_fp32(import_model(str(path)))
    tag = pipeline_of(path, "token-classification", ignore_labels=[])
    docs = list(nlp.pipe(sentences))
    assert sum(len(doc.ents) for doc in docs) > 1000
    assert {ent.label_ for doc in docs for ent in doc.ents} == {"DRUG", "DISEASE"}
    for doc, pieces in zip(docs, tag(sentences), strict=True):
        assert offsets(doc) == with_letters(entities_of_first_pieces(pieces, doc), doc)


def assert_classified_alike(nlp, path, texts):
    """The probabilities of a pipeline are those of transformers' own."""
    classify = pipeline_of(path, "text-classification", top_k=None)
    for doc, expected in zip(nlp.pipe(texts), classify(texts), strict=True):
        scores = {each["label"]: each["score"] for each in expected}
        assert doc.cats == pytest.approx(scores, abs=1e-5)


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("problem", ["single_label_classification", "multi_label_classification"])
def test_a_text_classifier_gives_the_probabilities_of_transformers(
    save_classifier, sentences, problem
):
    path, _ = save_classifier("SequenceClassification", ["A", "B", "C"], problem_type=problem)
    nlp = in_fp32(import_model(str(path)))
    assert nlp.get_pipe("biomed_textcat").cfg["exclusive"] == problem.startswith("single")
    assert_classified_alike(nlp, path, sentences[:200])


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("electra", {"embedding_size": 16, "intermediate_size": 32}),
        ("deberta-v2", {"intermediate_size": 32, "pooler_hidden_size": 16}),
    ],
)
def test_text_classifiers_with_gelu_too(
    tiny_bert, save_classifier, sentences, tmp_path, kind, config
):
    encoder = shutil.copytree(tiny_bert, tmp_path / kind)
    torch.manual_seed(6)
    created = transformers.AutoConfig.for_model(
        kind, vocab_size=200, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, **config
    )
    transformers.AutoModel.from_config(created).save_pretrained(encoder)
    path, _ = save_classifier("SequenceClassification", ["A", "B"], encoder=encoder)
    assert_classified_alike(in_fp32(import_model(str(path))), path, sentences[:50])


@pytest.mark.slow(least=1)
def test_it_is_saved_and_compressed_with_the_same_entities(save_classifier, sentences, tmp_path):
    path, _ = save_classifier("TokenClassification")
    nlp = in_fp32(import_model(str(path)))
    expected = [offsets(doc) for doc in nlp.pipe(sentences[:200])]
    nlp.to_disk(tmp_path / "saved")
    shutil.rmtree(path)
    loaded = in_fp32(spacy.load(tmp_path / "saved"))
    assert [offsets(doc) for doc in loaded.pipe(sentences[:200])] == expected
    compress_pipeline(tmp_path / "saved", tmp_path / "small", precision="fp32")
    small = spacy.load(tmp_path / "small")
    assert [offsets(doc) for doc in small.pipe(sentences[:200])] == expected


def test_a_model_that_is_a_pickle_is_imported_too(save_classifier, sentences):
    path, model = save_classifier("TokenClassification")
    expected = [offsets(doc) for doc in in_fp32(import_model(str(path))).pipe(sentences[:100])]
    torch.save(model.state_dict(), path / "pytorch_model.bin")
    (path / "model.safetensors").unlink()
    found = [offsets(doc) for doc in in_fp32(import_model(str(path))).pipe(sentences[:100])]
    assert found == expected


@pytest.mark.parametrize(
    ("classes", "scheme", "labels", "columns"),
    [
        (BIO, "bio", ["DRUG", "DISEASE"], {"O": 0, "B-DRUG": 1, "I-DRUG": 2}),
        (["I-X", "O"], "bio", ["X"], {"O": 1, "I-X": 0}),
        (["O", "CHEMICAL", "S-phase"], "bio", ["CHEMICAL", "S-phase"], {"I-S-phase": 2}),
        (["S-X", "E-X", "I-X", "B-X", "O"], "biluo", ["X"], {"U-X": 0, "L-X": 1, "B-X": 3}),
        (["O", "U-X", "L-X", "B-X", "I-X"], "biluo", ["X"], {"U-X": 1, "L-X": 2}),
        (["O", "B_X", "M_X", "E_X", "S_X"], "biluo", ["X"], {"I-X": 2, "U-X": 4}),
    ],
)
def test_classes_are_understood_as_tags(classes, scheme, labels, columns):
    tagging = read_tags("model", classes)
    assert (tagging.scheme, tagging.labels) == (scheme, labels)
    assert tagging.columns.items() >= columns.items()
    assert len(tagging.columns) == len(classes)


@pytest.mark.slow(least=1)
def test_labels_without_parts_are_entities_of_neighbouring_tokens(save_classifier, sentences):
    path, _ = save_classifier("TokenClassification", ["O", "DRUG", "DISEASE"])
    nlp = in_fp32(import_model(str(path)))
    tag = pipeline_of(path, "token-classification", ignore_labels=[])
    for doc, pieces in zip(nlp.pipe(sentences[:200]), tag(sentences[:200]), strict=True):
        for piece in pieces:
            if piece["entity"] != "O":
                piece["entity"] = f"I-{piece['entity']}"
        assert offsets(doc) == with_letters(entities_of_first_pieces(pieces, doc), doc)


def run(*arguments):
    return call("import-model", *arguments)


def test_the_command_writes_a_pipeline(save_classifier, tmp_path):
    path, _ = save_classifier("TokenClassification", [f"LABEL_{i}" for i in range(5)])
    output = tmp_path / "imported"
    result = run(path, output, "--language", "es", "--classes", ",".join(BIO))
    assert result.exit_code == 0, result.output
    assert result.stdout == f"✔ Wrote {output}: biomed_ner with DRUG, DISEASE\n"
    nlp = spacy.load(output)
    assert (nlp.lang, nlp.pipe_names) == ("es", ["biomed_transformer", "biomed_ner"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "none of its classes is O, outside of entities"),
        (["--classes", "O,B-X"], "3 classes ('LABEL_0', 'LABEL_1', 'LABEL_2'): give each a name"),
        (["--classes", "O,B-X,B-X"], "give each a name of its own in their order"),
        (["--classes", "O,S-X,U-X"], "are the same tag"),
        (["--language", "xx-zz"], "spaCy has no language"),
    ],
)
def test_bad_options_are_one_line_and_nothing_is_written(
    save_classifier, tmp_path, options, message
):
    path, _ = save_classifier("TokenClassification", ["LABEL_0", "LABEL_1", "LABEL_2"])
    result = run(path, tmp_path / "imported", *options)
    assert result.exit_code == 1
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "imported").exists()


def test_an_encoder_without_classifier_is_refused(any_encoder):
    with pytest.raises(BiomedError, match=r"only classifiers of tokens .* can be imported"):
        import_model(str(any_encoder))


def test_a_model_that_predicts_a_number_is_refused(save_classifier):
    path, _ = save_classifier("SequenceClassification", ["SCORE"])
    with pytest.raises(BiomedError, match="predicts a number"):
        import_model(str(path))


def test_classes_that_are_not_numbered_from_0_are_refused(save_classifier):
    path, _ = save_classifier("SequenceClassification", ["no", "yes"])
    config = json.loads((path / "config.json").read_text(encoding="utf8"))
    config["id2label"] = {"1": "no", "2": "yes"}
    (path / "config.json").write_text(json.dumps(config), encoding="utf8")
    with pytest.raises(BiomedError, match="does not number its classes from 0"):
        import_model(str(path))


def test_a_checkpoint_without_its_classifier_is_refused(save_classifier, any_encoder):
    path, _ = save_classifier("TokenClassification")
    shutil.copy(any_encoder / "model.safetensors", path / "model.safetensors")
    with pytest.raises(BiomedError, match=r"its weights lack classifier\.\w+ \(2 in all\)"):
        import_model(str(path))


def test_a_classifier_with_more_layers_is_refused(tmp_path, tiny_bert):
    torch.manual_seed(0)
    config = transformers.ModernBertConfig(
        vocab_size=200, num_labels=3, pad_token_id=0, **SMALL | {"num_hidden_layers": 1}
    )
    path = shutil.copytree(tiny_bert, tmp_path / "modern")
    transformers.ModernBertForTokenClassification(config).save_pretrained(path)
    with pytest.raises(BiomedError, match=r"the layers of ModernBertForTokenClassification cannot"):
        import_model(str(path))


def test_scores_of_tags_that_the_model_lacks_have_no_probability(save_classifier):
    path, _ = save_classifier("TokenClassification", ["O", "DRUG"])
    nlp = import_model(str(path))
    (rows,) = nlp.get_pipe("biomed_ner").probabilities([nlp("Aspirin reduced fever.")])
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, atol=1e-6)
    assert not rows[:, 1].any()  # B-DRUG
