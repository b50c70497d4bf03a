import pytest
import spacy
from spacy.tokens import Span

from spacy_biomed.pipeline.mention_layer import install_extensions


def find(text, *rules, **settings):
    """The texts and labels of what is found after a ruler with patterns."""
    nlp = spacy.blank("en", config={"nlp": {"tokenizer": {"@tokenizers": TOKENIZER}}})
    if rules:
        nlp.add_pipe("entity_ruler").add_patterns(
            [{"label": label, "pattern": pattern} for pattern, label in rules]
        )
    nlp.add_pipe("biomed_variants", config=settings)
    doc = nlp(text)
    key = settings.get("spans_key")
    return [(one.text, one.label_) for one in (doc.ents if key is None else doc.spans[key])]


TOKENIZER = "spacy_biomed.Tokenizer.v1"


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    [
        *("rs1801133", "RS1801133", "rs 1801133", "c.1799T>A", "c.76_78del", "c.76_78delinsTT"),
        *("c.*32G>A", "g.140453136A>T", "c.88+2T>G", "c.-32-13T>G", "m.8993T>G"),
        *("c.304ins(GCG)(7)", "p.Val600Glu", "P.VAL600GLU", "p.V600E", "p.(Arg97Profs*23)"),
        *("p.Arg97ProfsTer23", "p.Gly12_Gly13insAsp", "p.Trp24*", "p. Glu104X", "Val158Met"),
        *("VAL158MET", "Arg506Ter", "Val 158 Met", "Arg506 to Gln", "Ser551->Thr", "158 Val/Met"),
        *("-616C/G", "+3100 T/G", "\u2212308G>A", "1691 G>A", "G1691->A", "C(-260)T", "G-308A"),
        *("3120+1G>A", "IVS8 -2A>G", "IVS10+1G>A", "35delG", "5382insC", "2238-9del AG"),
        *("76_78del", "delF508", "\u0394F508", "F508del", "35 delG", "657del5", "Y329fs"),
        *("Glu873Stop", "p.E947stop", "c.G1714C", "192Q/R", "55M/L", "232Thr", "-1240 L/S"),
        *("-31T", "-511C", "\u2212511 CC", "-120 bp duplication", "2-bp deletion"),
        "6 base-pair insertion",
    ],
)
def test_a_nomenclature_is_found_with_its_borders(variant):
    assert find(f"A carrier of {variant}, aged 40.") == [(variant, "VARIANT")]


def test_variants_may_be_joined_with_each_other_and_with_genes():
    found = find("MTHFR-rs1801133 is c.665C>T/p.Ala222Val, and FOXP3 -924 A/G")
    assert [text for text, _ in found] == ["rs1801133", "c.665C>T", "p.Ala222Val", "-924 A/G"]


def test_a_reference_sequence_is_not_part_of_the_variant():
    assert find("(NM_000059.3:c.7007G>A)") == [("c.7007G>A", "VARIANT")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        *("Ser473/Thr308", "Ser 473 and Thr 308", "Ser 473 Thr 308", "T47D cells", "Figure S10A"),
        *("a 5 C/T scan", "p. 12", "p.m. 5", "Rs 50000", "c. 1990 A", "his 30 met the", "rs 5"),
        *("H1N1", "group C. 12 del", "1,200 A/G", "12.5 G/A", "2-3 A/C", "12/13 G/A", "Met 5 days"),
        *("pro 12 his", "12 del C", "680 U/L", "12 C/D", "Arg1", "a (T)-16T library", "-31 Tests"),
        *("2 bp insertion/deletion", "a 5 bp insert", "-5 C", "-80 C", "\u221220C", "-20 A"),
        *("250G/L", "20M/F", "150K/L"),
    ],
)
def test_what_only_resembles_a_nomenclature_is_not_found(text):
    assert find(text) == []


def test_the_form_takes_the_place_of_what_is_within_it_and_of_variants_around_it():
    text = "The c.1052delA deletion and Ser551 to Thr."
    rules = [("c.1052delA deletion", "VARIANT"), ("Ser551", "CHEMICAL"), ("Thr", "CHEMICAL")]
    assert find(text, *rules) == [("c.1052delA", "VARIANT"), ("Ser551 to Thr", "VARIANT")]


def test_a_longer_mention_of_another_label_stays():
    rules = [("c.35delG deafness", "DISEASE"), ("x", "VARIANT")]
    assert find("A c.35delG deafness.", *rules) == [("c.35delG deafness", "DISEASE")]


def test_a_variant_stays_where_its_form_meets_a_longer_mention():
    nlp = spacy.blank("en")
    variants = nlp.add_pipe("biomed_variants", config={"spans_key": "all"})
    doc = nlp.make_doc("one Ser551 to Thr mutant here")
    doc.spans["all"] = [Span(doc, 0, 3, label="VARIANT"), Span(doc, 3, 6, label="GENE")]
    before = [(span.text, span.label_) for span in doc.spans["all"]]
    assert [(span.text, span.label_) for span in variants(doc).spans["all"]] == before


@pytest.mark.parametrize(
    ("text", "confidence", "stays"),
    [
        *(("Gln/Arg", 0.5, False), ("Gln/Arg", 0.9, True), ("Gln/Arg", None, True)),
        *(("ArgArg", 0.5, False), ("Gln", 0.5, False), ("Gln192Arg", 0.5, True)),
        *(("G/A", 0.5, True), ("Arg/Argon", 0.5, True)),
    ],
)
def test_a_doubtful_genotype_without_a_place_does_not_stay(text, confidence, stays):
    nlp = spacy.blank("en")
    component = nlp.add_pipe("biomed_variants")
    doc = spacy.tokens.Doc(nlp.vocab, words=["the", text, "genotype"])
    doc.ents = [Span(doc, 1, 2, "VARIANT")]
    install_extensions()
    doc.ents[0]._.confidence = confidence
    assert [ent.text for ent in component(doc).ents] == ([text] if stays else [])


def test_it_is_idle_where_nobody_finds_variants():
    assert find("Aspirin and rs1801133.", ("Aspirin", "CHEMICAL")) == [("Aspirin", "CHEMICAL")]
    assert find("rs1801133", ("x", "SNP"), label="SNP") == [("rs1801133", "SNP")]


def test_a_span_group_keeps_what_it_has():
    nlp = spacy.blank("en")
    variants = nlp.add_pipe("biomed_variants", config={"spans_key": "all"})
    doc = nlp.make_doc("MTHFR rs1801133")
    doc.spans["all"] = [Span(doc, 0, 1, label="GENE")]
    found = [(span.text, span.label_) for span in variants(doc).spans["all"]]
    assert found == [("MTHFR", "GENE"), ("rs1801133", "VARIANT")]


def test_a_group_keeps_the_probabilities_of_others():
    nlp = spacy.blank("en")
    nlp.add_pipe("biomed_consistency")  # declares the extension
    variants = nlp.add_pipe("biomed_variants", config={"spans_key": "all"})
    doc = nlp.make_doc("MTHFR rs1801133")
    gene = Span(doc, 0, 1, label="GENE")
    gene._.confidence = 0.9
    doc.spans["all"] = [gene]
    assert variants(doc).spans["all"].attrs["scores"] == [0.9, None]
