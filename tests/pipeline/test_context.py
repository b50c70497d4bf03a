"""The components `biomed_sentences`, `biomed_sections` and `biomed_context`."""

import csv
import json
import re
import tarfile
from functools import cache
from pathlib import Path

import pytest
import spacy
from spacy.tokens import DocBin
from without_training import WITHOUT_TRAINING, run_code

from spacy_biomed import BiomedError
from spacy_biomed.annotations.assertions import ASSERTIONS, mark_assertions
from spacy_biomed.files.sources import Item
from spacy_biomed.formats.findings import AnnotatedDocument, describe, find_layers, list_mentions
from spacy_biomed.formats.tables import FoundTables

REPOSITORY = Path(__file__).parents[2]
CORPORA = REPOSITORY.parent / "shared" / "corpora"
TOKENIZER = {"nlp": {"tokenizer": {"@tokenizers": "spacy_biomed.Tokenizer.v1"}}}
NOTE = "ANTECEDENTES FAMILIARES: asma.\nANTECEDENTES: gota, toma aspirina.\nEVOLUCIÓN: no fiebre."


def build(language, **settings):
    nlp = spacy.blank(language, config=TOKENIZER)
    for name in ("sentences", "sections"):
        nlp.add_pipe(f"biomed_{name}")
    nlp.add_pipe("entity_ruler")
    nlp.add_pipe("biomed_context", config=settings)
    return nlp


build_once = cache(build)


def create(language="es", *, label="DIAGNOSTICO", words=("asma", "gota", "fiebre"), **settings):
    """A pipeline, the same each time but for what its entity ruler finds."""
    nlp = build(language, **settings) if settings else build_once(language)
    ruler = nlp.get_pipe("entity_ruler")
    ruler.clear()
    ruler.add_patterns([{"label": label, "pattern": word} for word in words])
    ruler.add_patterns([{"label": "FARMACO", "pattern": "aspirina"}])
    return nlp


def said(span):
    return [name for name in ASSERTIONS if span._.get(name)]


def test_sections_say_what_is_family_and_past():
    ents = create()(NOTE).ents
    assert [(ent.text, ent._.section, said(ent)) for ent in ents] == [
        ("asma", "family_history", ["is_family"]),
        ("gota", "past_history", ["is_historical"]),
        ("aspirina", "past_history", []),
        ("fiebre", "hospital_course", ["is_negated"]),
    ]


def test_merged_tokens_have_their_sections_if_they_were_merged_before():
    nlp = create(words=("ANTECEDENTES FAMILIARES", "gota"), cues={})  # one of its own
    expected = [(ent.text, ent._.section) for ent in nlp(NOTE).ents]
    nlp.add_pipe("merge_entities")
    with pytest.raises(BiomedError, match="do that before biomed_sections"):
        [ent._.section for ent in nlp(NOTE).ents]
    nlp.remove_pipe("biomed_sections")
    nlp.add_pipe("biomed_sections")
    assert [(ent.text, ent._.section) for ent in nlp(NOTE).ents] == expected


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("es", "AF: madre con asma. Alergia a aspirina."),
        ("es", "Antecedentes familiares: asma. El paciente toma aspirina."),
        ("es", "AF: asma. No alérgico a aspirina."),
        ("en", "FH: mother with asma. Allergic to aspirina."),
        ("en", "Family history: asma. No known allergy to aspirina."),
        ("en", "FAMILY HISTORY: asma. Pt takes aspirina."),
    ],
)
def test_sentences_of_the_patient_among_those_of_relatives(language, text):
    asthma, drug = create(language)(text).ents
    assert (asthma._.is_family, drug._.is_family) == (True, False)
    assert drug._.is_negated == (" No " in text)
    assert drug._.section == "family_history"


@pytest.mark.parametrize(
    ("language", "text", "label", "expected"),
    [
        ("en", "enoxaparin prophylaxis", "CHEMICAL", []),
        ("en", "To prevent stroke, he takes enoxaparin", "DRUG", []),
        ("en", "Screening for enoxaparin", "PROCEDURE", []),
        ("en", "If bleeding recurs, hold the enoxaparin", "DRUG", ["is_hypothetical"]),
        ("es", "Para prevenir un ictus toma enoxaparin", "FARMACO", []),
        ("es", "Para prevenir un enoxaparin", "OTRO", ["is_hypothetical"]),
    ],
)
def test_what_prevents_is_not_hypothetical(language, text, label, expected):
    doc = create(language, label=label, words=["enoxaparin"])(text)
    assert [name for name in said(doc.ents[0]) if name == "is_hypothetical"] == expected


def test_entities_of_other_labels_are_left_open():
    doc = create(labels=["FARMACO"])(NOTE)
    assert [ent._.is_negated for ent in doc.ents] == [None, None, False, None]


def test_a_span_group_can_be_looked_at():
    nlp = create(spans_key="mine")
    nlp.get_pipe("entity_ruler").add_patterns([])
    doc = nlp.make_doc("No tiene asma.")
    doc.spans["mine"] = [doc[2:3]]
    doc = nlp.get_pipe("biomed_context")(nlp.get_pipe("biomed_sentences")(doc))
    assert doc.spans["mine"][0]._.is_negated is True


def test_own_cues_are_settings_that_are_saved(tmp_path):
    nlp = create(cues={"none": ["no"], "uncertain forward": ["pinta de"]})
    nlp.to_disk(tmp_path / "nlp")
    ents = spacy.load(tmp_path / "nlp")("no fiebre; pinta de gota").ents
    assert [said(ent) for ent in ents] == [[], ["is_uncertain"]]


@pytest.mark.parametrize("text", ["no fiebre \n", "\n no fiebre"])
def test_a_span_of_white_space_has_no_assertion(text):
    nlp = create(spans_key="mine")
    doc = nlp.make_doc(text)
    doc.spans["mine"] = [doc[place : place + 1] for place in range(len(doc))]
    doc = nlp.get_pipe("biomed_context")(nlp.get_pipe("biomed_sentences")(doc))
    blanks = [said(span) for span in doc.spans["mine"] if span.text.isspace()]
    assert blanks and not any(blanks)


@pytest.mark.parametrize("line_end", [" ", "\n", "   "])
def test_white_space_in_a_cue_does_not_count(line_end):
    nlp = create("en", label="DISEASE", words=["metastasis"])
    (ent,) = nlp(f"The scan of the whole chest showed no{line_end}evidence of metastasis.").ents
    assert said(ent) == ["is_negated"]


@pytest.mark.parametrize(
    "text", ["PIEL:\nNo fiebre.", "PIEL:\nNegativo para fiebre", "-\nno gota", "[ ] asma"]
)
def test_a_cue_is_within_a_sentence(text):
    (ent,) = create()(text).ents
    assert said(ent) == ["is_negated"]


def test_without_sentences_the_component_says_what_to_add():
    nlp = create()
    with (
        nlp.select_pipes(disable="biomed_sentences"),
        pytest.raises(BiomedError, match="add biomed_sentences before it"),
    ):
        nlp("no fiebre")


@pytest.mark.parametrize("name", ["sentences", "sections", "context"])
def test_a_language_without_rules_is_refused(name):
    with pytest.raises(BiomedError, match="there are no rules for the language de"):
        spacy.blank("de").add_pipe(f"biomed_{name}")


def test_a_wrong_group_of_cues_is_refused_with_the_component():
    with pytest.raises(BiomedError, match=r"\[components.biomed_context\] no group of cues"):
        create(cues={"denied": ["x"]})


@pytest.mark.parametrize("text", ["", " ", "fiebre", "\n\n"])
def test_texts_of_hardly_anything(text):
    doc = create()(text)
    assert [said(ent) for ent in doc.ents] == [[]] * len(doc.ents)


def test_assertions_and_sections_are_stored_with_the_document():
    nlp = create()
    doc = nlp(NOTE)
    read = next(
        DocBin().from_bytes(DocBin(docs=[doc], store_user_data=True).to_bytes()).get_docs(nlp.vocab)
    )
    assert [(ent._.section, said(ent)) for ent in read.ents] == [
        (ent._.section, said(ent)) for ent in doc.ents
    ]
    part = doc[doc.ents[1].start - 1 :].as_doc(copy_user_data=True)
    assert said(part.ents[0]) == ["is_historical"]


def test_annotation_has_the_columns():
    nlp = create()
    doc, layers = nlp(NOTE), find_layers(nlp)
    found = describe(doc, layers)
    assert [(one["group"], one["section"]) for one in found["entities"][:2]] == [
        (None, "family_history"),
        (None, "past_history"),
    ]
    document = AnnotatedDocument(0, Item("n"), doc, found)
    rows = dict(FoundTables([document], layers).tables())["entities"].to_pylist()
    assert [row["is_negated"] for row in rows] == [False, False, False, True]
    assert [row["is_family"] for row in rows] == [True, False, False, False]
    mentions, _ = list_mentions(doc.text, found)
    assert mentions[3].attributes == {"section": "hospital_course", "is_negated": "true"}


def test_annotation_without_the_components_has_no_such_columns():
    nlp = spacy.blank("es")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "X", "pattern": "gota"}])
    (entity,) = describe(nlp("no gota"), find_layers(nlp))["entities"]
    assert not {"section", *ASSERTIONS} & set(entity)


def test_displacy_shows_what_is_negated():
    doc = create()("No fiebre, posible gota.")
    labels = [ent["label"] for ent in mark_assertions(doc)["ents"]]
    assert labels == ["DIAGNOSTICO (negated)", "DIAGNOSTICO (uncertain)"]


def test_relations_keep_to_the_sentences():
    nlp = create()
    assert [sent.text.strip() for sent in nlp(NOTE).sents] == NOTE.split("\n")


def test_probabilities_are_those_of_the_rules_and_can_be_set():
    (ent,) = create()("no fiebre").ents
    negated, *others = (ent._.assertion_probabilities[name] for name in ASSERTIONS)
    assert 0.5 < negated < 1 and all(0 < other < 0.5 for other in others)
    ent._.assertion_probabilities.clear()  # a copy
    ent._.is_negated = False
    ent._.is_family = True
    assert said(ent) == ["is_family"]
    assert ent._.is_uncertain is False


def test_an_assertion_alone_leaves_the_others_open():
    doc = spacy.blank("es")("no fiebre")
    doc[1:2]._.is_negated = True
    assert [doc[1:2]._.get(name) for name in ASSERTIONS] == [True, None, None, None, None]


@pytest.mark.slow(least=1)
@pytest.mark.parametrize(
    ("pipeline", "text"),
    [
        ("en_biomed_ner", "No evidence of metastasis"),
        ("es_clinical_ner", "sin antecedentes de diabetes"),
        ("es_clinical_ner", "niega alergias a penicilina"),
    ],
)
def test_the_included_pipelines_mark_what_is_negated_without_torch(pipeline, text):
    code = (
        WITHOUT_TRAINING
        + f"nlp = spacy.load({str(REPOSITORY / 'assets' / 'pipelines' / pipeline)!r})\n"
        + f"ents = nlp({text!r}).ents\n"
        + "print(len(ents) > 0, all(ent._.is_negated for ent in ents), "
        + "min(ent._.assertion_probabilities['is_negated'] for ent in ents) >= 0.8)"
    )
    assert run_code(code).split() == ["True"] * 3


# Mentions in brackets, each with what is said of it: negated, uncertain, historical, "y" for
# hypothetical, family. Kinds of wordings, of which the corpora have few.
WORDINGS = {
    "es": """
[Depresión] en tratamiento con [=sertralina], [ideación suicida n] negativa
[Neumonía] tratada con [=ceftriaxona], [SARM n] negativo
[Asma] desde la infancia, [sibilancias n] ausentes
[Gripe n], [COVID n], [VRS n] negativo. [VHB n], [VHC n] y [VIH n] negativos
Sin [fiebre n], [HTA] controlada con [=enalapril]. No [náuseas n], [dolor abdominal] 7/10
Sin [TVP n], [celulitis] en mejoría. Posible [neumonía u], [EPOC] estable
La [fiebre n], la [tos n] y las [mialgias n] han cedido
[EPOC] con [=tiotropio], [cáncer de pulmón h] en 2010. [HTA] con [=enalapril], [TEP u] sospechado
No solo presenta [fiebre] sino también [tos]
El paciente presenta [exantema]
[HTA n]: no. [DM n]: no. [Dislipemia]: sí
[HTA n] no, [DM n] no, [dislipemia] sí
[HTA n] -, [DM n] -
[DM n] (-), [HTA] (+)
[Alergias n]: no conocidas
[Alergias n]: niega
Niega [fiebre n], [tos n] y [disnea n]; refiere [dolor]
[Metástasis n]: no
[Metástasis n] descartadas
[TEP u] no descartado
No se descarta [neumonía u]
[HBsAg n] negativo
Bacilo gram negativo en [hemocultivo]
No cede el [dolor]
No toma [aspirina n]
No se realiza [biopsia n]
Dx diferencial con [tuberculosis u]
[Infarto h] en 2010
[Cáncer de mama f] (madre)
Su madre niega [alergias n]
Su madre refiere [fiebre]
Hija refiere que la paciente tiene [fiebre]
Esposo con [asma f]
Su mujer tiene [asma f]
Mujer con [asma]
Acude con su esposo por [fiebre]
Sin antecedentes familiares de [cáncer nf]
Vacunado de [gripe y]
Riesgo de [sangrado y]
Antecedentes personales: [asma h], [gota h] y [migraña h].
APP: [hipertensión h]
Tuvo [sarampión h] en la infancia.
Hace 10 años presentó un [infarto h].
[Ictus h] hace 3 años, actualmente con [cefalea].
Intervenido de [hernia inguinal h] en 2003.
Operada de [apendicitis h] a los 12 años.
Exfumador desde 2010, con [disnea].
Ex [fumador h] de 20 cigarrillos.
[Neumonía h] previa en 2015.
Previamente diagnosticado de [epilepsia h].
Historia de [úlcera h], ahora ingresa por [melenas].
De niño padeció [tosferina h].
Había tenido [hepatitis h] en la juventud.
Sufrió un [traumatismo craneal h] hace varios años.
Refiere [dolor torácico] desde hace 2 horas.
Cuadro de [tos] de 10 años de evolución.
Sin antecedentes de [ictus nh].
No antecedentes familiares de [cáncer de colon nf].
Niega que su madre tenga [diabetes nf].
Niega antecedentes familiares de [asma nf].
Dos hermanos con [hemofilia f].
Su abuela falleció de [ictus f] a los 80 años.
[Diabetes f] por parte de padre.
Madre con [cáncer de mama f]; la paciente presenta [fiebre].
Padre fallecido por [infarto f] y madre [hipertensa f].
Acudir a urgencias si aparece [fiebre y] o [sangrado y].
[=Meropenem] d4, [=linezolid] d2, [=vancomicina n] suspendida
[=Enalapril n] y [=furosemida n] suspendidos. [Neumonía] en mejoría, [FRA n] resuelto
[Cefalea] desde ayer, [meningitis n] descartada. [Dolor], [=morfina n] no administrada
[Asma n]: N / [Gota]: S. ( ) [Ictus n] (x) [EPOC]. [NAC n] (J18.9) resuelta
[Neumonía] (PCR negativa)
Ictus sin [secuelas n], [gota]. ACV sin [déficit residual n], [diabetes]
[Preeclampsia h] en embarazo previo. Pendiente de [=cirugía y]. Puede notar [hinchazón y]
No candidato a [=quimioterapia n]. Dejó la [=metformina n]. Me planteo [lupus u]. r/o [neoplasia u]
Fracaso a [=metotrexato h]. Propongo [=adalimumab y]. Deje de tomar [=ibuprofeno n]
[=Amlodipino n] 5 - no lo toma. [=Tramadol n] - lo dejó
[=AAS] en casa, [=heparina n] no se administra
El [absceso n] ya no se visualiza. A favor de [lupus u] frente a [vasculitis u]
Última [ITU h] en junio. [Convulsión febril h] a los 18 meses. Se advierte de [alveolitis y]
DESCARTADO: [TEP n]
Retiro [=lorazepam n], subo [=sertralina]. Completó tratamiento con [=rifampicina h]
Se pauta heparina como profilaxis de [trombosis y].
Profilaxis de [TVP y] con [enoxaparina]. Profilaxis con [heparina].
Riesgo de [sangrado y] con [apixabán].
En caso de [dolor y], tomar paracetamol.
Se explican los riesgos de [infección y].
Los hallazgos podrían corresponder a [neumonía u] o [edema u].
No se puede excluir [embolia pulmonar u].
A descartar [apendicitis u].
Cuadro sugestivo de [bronquitis u].
Impresiona de [ansiedad u].
Nunca ha tenido [hemoptisis n].
Afebril, sin [exantema n], [artralgias n] ni [úlceras n].
Serología negativa para [gripe n] y positiva para [VRS].
La TC descarta [absceso n].
No presenta [fiebre n] pero sí [tos].
(-) [vómitos n], (+) [tos], (-) [diarrea n]
☐ [Ictus n] ☒ [diabetes] ☐ [gota n]
[Gota n]: ☐ [diabetes]: ☒
[Alergia n] a penicilina: niega
Niega: [fiebre n], [tos n]
Tampoco presenta [diarrea n]
La [lesión n] ha remitido
Aunque no había [fiebre n], presentaba [tos]
Imagen no sugestiva de [tumor n]
No se confirma [trombosis n]
[Lesiones n] no visibles
[Sepsis u] sospechada
DD: [linfoma u]
[Fiebre], a descartar [endocarditis u]
[Niega fiebre n], [tos n]
[Atorvastatina n] 40 mg (suspendida)
[Rx tórax]: no se observan [infiltrados n]
[Edemas n]: no se observan.
Traída por su [hija] por [fiebre]. [Hija] niega [caídas n]. [Hermana] con [asma f]
No se pudo descartar [tumor u], pendiente de [colonoscopia]
No tomar [AINE n]. No tolera [metformina n]
Ante cualquier signo de [sangrado y], acudir
[Cáncer] de mama con [metástasis]
[HTA]: si, [DM n]: no, [asma]: si.
[HTA] si, [DM n] no, [asma] si
[HTA]: controlada, [DM n]: no
Si, tras el alta, presenta [fiebre y], acudir
El fármaco no redujo la [mortalidad]
[Tos n]: niega\t[Fiebre n]: niega\t[Disnea]: sí
[Furosemida] iv, si [empeoramiento y] avisar. No [fiebre n], si que hay [tos]
Antecedentes de [ictus h] sin [secuelas n]. Padre, [infarto f] a los 50 años
Riesgo alto de [caídas y]. [Legionella n] y [neumococo n] en orina negativos.
No es descartable una [fractura u]. Se sustituye [enalapril n] por [losartán]
Biopsia para confirmar [linfoma u]
Ingresado en 2015 por [pancreatitis h]. Antecedente reciente de [gripe h]. [Alergias n]: NAMC
Sin antecedentes de interés, acude por [otalgia]. No [fiebre n], solo [tos]
En la familia hay casos de [epilepsia f]. Se baraja [vasculitis u]. Podría aparecer [rash y]
Antecedentes de [HTA h] en tratamiento con [=enalapril] y [DM2 h] con [=metformina], acude por [tos]
Antecedente de [FA h], previamente en tratamiento con [=sotalol h], toma [=digoxina]
[Derrame], no se puede descartar [neumonía u]. [Tumor u], que no puede descartarse
[TEP u], no se puede descartar
[=Metformina] vs [=glipizida] en [diabetes]. [Neumonía u] vs [atelectasia u] vs [derrame u]
No ha respondido a [=prednisona]. No es adherente a [=metformina]. No toma [=aspirina n]
No hay cambios en la [lesión] renal. Sin empeoramiento de los [edemas]
Ecografía normal, por lo que se descarta [colecistitis n], con lo que desaparece la [duda n]
Dolor, probable [cólico u]. [Anemia] por posible [sangrado u]
Ante la posibilidad de [ictus u] se realiza [=TC]. El [=TC] permite descartar [tumor n]
La [=RM], en la que se descarta [hernia n]. Sin que se observen [fracturas n]
Mujer con AP de [gota h] y [asma h]. Antecedente quirúrgico: [varices h]. En 2011, [zóster h]
[Fiebre] la noche previa, recibe suero previa [=sedación] y [=punción]
Se suspende el tratamiento con [=digoxina n]. Sin tratamiento con [=insulina n]
No fue posible realizar [=gastroscopia n]. No es posible excluir [úlcera u]
No muestra imágenes sugestivas de [absceso n]. No concluyente para [linfoma u]
De presentar [fiebre y], volver. Cuando tenga [dolor y], puede tomar [=ibuprofeno y]
Riesgo de [trombosis y] por [cirrosis]. Para determinar si es [viral u]
Sin antecedentes familiares de interés, como antecedentes personales, [hipertensión h]
Madre de 2 hijos, usuaria de [=DIU]. Madre con [gota f], el paciente tiene [asma]
Linfoma no Hodgkin, [=rituximab] y [anemia]. Síndrome sin elevación del ST, [asma]
La [erupción n] se resolvió. Fumó hasta 2012, [tabaquismo h] hasta 2012
Si no mejora o aparece [fiebre y], volver. No existe sospecha de [sepsis n]
Los padres niegan [fiebre n] y refieren [tos]. Sus padres refieren [asma]
[Hierro] y [=omeprazol] (suspendido [=hierro n]). Se desaconseja [=ibuprofeno n]
[Hiponatremia n] corregida. [Crisis n] que revierte. Se contempla [sepsis u]
Diagnóstico diferencial: [lupus u], [gota u] y [artrosis u]. [Virus n] no detectado
No controla su [diabetes]. Ingresó con 2 años por [asma h]. Vino en 2019, [tos]
[=Seguril] 40 mg, [=Entresto] 24/26, [=bisoprolol] 2,5, suspender [=amlodipino n]
Se aumenta [=escitalopram], se retira [=quetiapina n] por [obesidad]
Continuar [=bisoprolol], suspender [=digoxina n], iniciar [=apixaban]
[=Metformina] se mantiene, [=glimepirida n] se suspende, [=insulina] se inicia
[=Aspirina] 100 mg, [=clopidogrel n] suspendido en enero, [=atorvastatina] 80
[=Warfarina n] suspendida e iniciada [=heparina]. [=Enalapril n] (suspender)
No [fiebre n]; mantener [=azitromicina]. Se cambió a [=letrozol]
Traído por madre por [fiebre]""",
    "en": """
Not only [fever] but also [cough]
No [fever n], [chills n] or [cough n] but [pain]
[HIV n] (-), [HCV] (+)
[DM n]: no. [HTN]: yes
[Allergies n]: NKDA
[Cough n]: denies
The [tumour n] was ruled out
[Pulmonary embolism u] has not been excluded
Unlikely [PE u]
? [pneumonia u]
Doesn’t have [diabetes n]
Gram negative [sepsis]
No significant change in [cardiomegaly]
No relief of [pain]
Discontinued [aspirin n]
[Metformin n] was stopped
Resolved [pneumonia n]
[Cancer u] is a possibility
It is unclear whether she has [lupus u]
[Stroke h] in 2010
Previously diagnosed with [lupus h]
[Breast cancer f] (mother)
His mother denies [angina n]
Her husband noticed [confusion]
FHx: [asthma f], [stroke f]
fhx: [asthma f]
No fhx of [stroke nf]
Mom has [diabetes f]
Wife has [asthma f]
Family member with [asthma f]
Family h/o [cancer f]
Significant for [stroke f] in father
Lives with her husband, [asthma]
Doubt [pneumonia u]
No doubt this is [pneumonia]
Aspirin to prevent [stroke y]
At risk for [falls y]
If [fever y] develops, call
Past medical history: [asthma h], [gout h] and [migraine h].
PMHx: [atrial fibrillation h]
She had [measles h] as a child.
He was treated for [tuberculosis h] in 1987.
Treated 15 years ago for [lymphoma h].
Ten years ago he had a [myocardial infarction h].
[Appendicitis h] at age 12, now with [abdominal pain].
Prior [stroke h] without [residual weakness n].
Former [smoker h], quit in 2001.
Ex [smoker h] with [dyspnea].
Remote [head injury h].
A remote history of [seizures h], none since.
His [pneumonia nh] resolved last year.
He had suffered from [depression h] before the war.
The patient had been diagnosed with [hepatitis h] years earlier.
Used to have [migraine h] but currently has [tension headache].
History of [gout h], now presents with [chest pain].
History of present illness: [cough] and [fever] for two days.
A two-week history of [headache].
No history of [stroke nh].
[Cancer h] survivor, here for [back pain].
He underwent surgery for [colon cancer h] in March 2004.
[Appendicitis h] 2016, [asthma h] (1994).
[Diabetes]: metformin 2000 mg. Consider insulin for [diabetes].
On heparin for [thrombosis] 2000 IU.
Educated about [diabetes].
Once had [shingles h].
Previous episodes of [pancreatitis h].
The [rash h] she had last year has not returned.
In her twenties she developed [anorexia h].
Known [diabetes] on insulin.
Denies family history of [breast cancer nf].
No family history of [colon cancer nf] or [polyps nf].
Two brothers have [hemophilia f].
Her grandmother died of [stroke f] at 80.
[Diabetes f] on the father's side.
Strong family history of [melanoma f], but she has [eczema].
Call us if you notice [bleeding y] or [fever y].
Seek help should [chest pain y] recur.
He will start heparin as prophylaxis against [thrombosis y].
Possible side effects include [nausea y].
Findings could reflect [pneumonia u] or [edema u].
[Appendicitis u] remains a possibility.
[Pulmonary embolism u] cannot be ruled out.
Probably [viral bronchitis u].
The CT argues against [abscess n].
There was never any [hemoptysis n].
She is afebrile, with no [rash n], [joint pain n] or [ulcers n].
Negative for [influenza n] but positive for [RSV].
(-) [vomiting n], (+) [cough], (-) [diarrhea n]
☐ [Stroke n] ☒ [diabetes] ☐ [gout n]
[Gout n]: ☐ [diabetes]: ☒
[Allergy n] to oral penicillin: no
Denies: [fever n], [cough n]
No [fever n] was noted, [cough] was present
Despite no [fever n], [cough] persisted
Findings are not consistent with [pneumonia n]
Nothing to suggest [cancer n]
He is not known to have [diabetes n]
[Appendicitis n] excluded.
[Masses n] not visible
Provisional diagnosis: [gout u]
Query [gout u]
She [denies fever n], [chills n] and [cough n]; [lack of energy] and [negative symptoms]
No [h/o gout nh]; [r/o asthma u]
CV: + [orthopnea], - [palpitations n]
Treated for [pneumonia n], which has since resolved.
[Lisinopril n] (discontinued due to [cough])
[Warfarin n] - held
Return precautions: [fever y], [vomiting y]
[COPD] exacerbation - likely viral. [Gout u] likely.
His [mother] reports that he has [fever]. [Mother] with [gout f]
He was not found to have [gout n]. [Pneumonia n], now resolved
Off [tamoxifen n] since March. No association of [statins] and [gout]
Aspirin did not reduce the incidence of [cancer]
[Edema]: yes\t[Cyanosis n]: none\t[Rash n]: no
Discontinued [aspirin n] for [bleeding]. Hold [metformin n]. Refuses [surgery n]
There is no cure for [asthma]. No concern for [sepsis n]. No [seizures n] after [surgery]
[Hyperkalemia n]: resolved. The [opacity n] is no longer visualized
Concern for [sepsis u] given [fever]. Less likely [tumor u]
[Anemia] likely due to [bleeding u]. CT cannot differentiate [abscess u] from [tumor u]
[Aspirin] for [stroke y] prevention. Seek care immediately for [swelling y]. [Flu y] vaccine given
No [ulcers n] in the past month. Social Hx: no [tobacco n]
Her husband died of [sepsis f] and she has had [insomnia].
[Lasix n] held for [AKI]. [TIA h] in the 1990s. She is not currently taking [insulin n]
Prophylaxis of [DVT y] with [enoxaparin]. There is a risk of [bleeding y] with [apixaban].
Start heparin for [DVT y] ppx. Cannot completely exclude [abscess u]
Three months ago he was hospitalized for [pancreatitis h]. Father had a [stroke f] in 2010
PMH of [HTN h] on [=lisinopril], [DM h] on [=metformin] and prior [stroke h], presents with [cough]
History of [AF h], previously on [=sotalol h], and [gout h] managed with [=allopurinol]
Hx of [lymphoma h] on the left, treated with [=rituximab h]. Not on [=insulin n]
[=Warfarin] versus [=apixaban] in [stroke]. [Gout u] vs [cellulitis u] vs [septic arthritis u]
[PNA u] vs. [CHF u] exacerbation with [hypoxia]. [Gout] vs. controls
She was not compliant with [=metformin]. [HTN]: is not at goal, increase [=lisinopril]
No relief with [=ibuprofen]. Without significant improvement in [eczema]. No benefit from [surgery]
There was not only [fever] but also [cough]. It is not responding to [=methotrexate]
He had been on [=sotalol h], was on [=heparin h] last month. [=Metformin n] 1 g PO BID (held today)
Return to ED for [bleeding y]. [Sepsis u] less likely than [flu]
Absence of [p53 n] leads to [lymphoma]. Lack of [insulin n] results in [ketosis]
No CT evidence for [embolism n]. [Lymphoma u] cannot be entirely excluded. He doesn't have [gout n]
Nil [nausea n], [rash n] -ve. Neck [stiffness n] nil. [HIV n]: N  [Hepatitis B n]: N  [TB]: Y
[Fever n] has since abated. She had [delirium n], which cleared. [Hyperkalemia n], resolved
Suggestive of, but not diagnostic for, [lupus u]
I wonder whether he has [sleep apnea u]. It is conceivable that she has [lupus u]
I think he has [gout u]
I do not think he has [gout n]. Denies that he has [pain n]. He has never had a [stroke n]
[=Quetiapine n] ceased due to [sedation]. [=Oxycodone n] withheld
[=Aspirin] 81 mg daily, [=warfarin n] (on hold)
[=Allopurinol n] has been discontinued. [=Lasix n] omitted as NBM. [=Digoxin n] (patient not taking)
[=Simvastatin n] - d/c'd. [=Coumadin n] on hold
Avoid [=NSAIDs n]
Switched from [=warfarin n] to [=apixaban]. [=Prednisone h] taper completed
Finished [=amoxicillin h]
Start [=heparin y] if [PE y] is confirmed. Consider [=insulin y]. Consider [gout u]
No [=aspirin n] if bleeding
We discussed the possibility of adding [=denosumab y]. Would start [=vancomycin y] for [sepsis]
Continue [=lisinopril], hold if [hypotension y]. He took [=ibuprofen], and if [pain y] recurs, call
Likely [anxiety u] on a background of [COPD]. [Rash n]? No. [Cough]? Yes
Wife advised to return for [fever y]. Collateral from wife: [paranoia]. Wife thinks he is [confused]
[Lymphoma n]: ☐ Yes ☒ No. [Anemia]: ☒ Yes ☐ No. [Gout n]: not identified. [Polyps n] not confirmed
2/7 hx of [cough]. [Bladder cancer h], treated 2010
Tests for [syphilis n] and [lupus n] came back negative
Bleeding that doesn't stop or [weakness]. Lymphoma rather than [sarcoidosis n]
Does not meet criteria for [gout n]
Denies [fever n], reports [cough]. [Rash] worsening
Start [=apixaban], hold [=aspirin n], continue [=metoprolol]. Stop [=ibuprofen n]. Resume [=statins]
[=Metformin] continued, [=glipizide n] stopped, [=insulin] started. [=Prednisone n] stopped in May
Stopped [=glipizide n], started [=insulin]. [=Warfarin n] was stopped and [=apixaban] was started
[=Tacrolimus] reduced, [=mycophenolate n] held, [=prednisone] continued
No [fever n] or [cough n]; continue [=azithromycin]
Brought in by mother for [fever]
No filling defect to suggest [embolism n]. Nothing to suggest [sepsis n]. [Gout n] r/o by biopsy
CONTINUE: [=aspirin]. STOP: [=warfarin n]
C/w [UTI u], culture grew [Candida], sensitive to [=fluconazole]
Hx of [CAD h], [gout h] p/w [dyspnea]
Her sister has [asthma f] and so we suspect [asthma u]
[Aspirin] continued, [clopidogrel n] held. [Pneumonia] improving, [=morphine n] weaned off
[=Vancomycin] day 4, [=cefepime n] discontinued. [Cough], [=antibiotics n] not indicated
[=Ativan n] dc'd. [=Zoloft n] (pt stopped). [=Heparin n] withheld pending CT
[=Warfarin n] | 5 mg | held\t[=Insulin] | 10 u | taking
[Angina n] N; [gout] Y; [stroke n] N. ( ) [Asthma n] (x) [COPD]. [Gout n] N
[Nausea] n [vomiting] n [diarrhoea]
CVA without residual [deficit n], [gout]. Stroke w/o [sequelae n], [asthma]
Risks discussed: [bleeding y], [infection y]. Red flags given: [fever y]
ED precautions reviewed for [chest pain y]. You may notice [swelling y]
Not for [=chemotherapy n]. Unfit for [=surgery n]. [Melanoma u] suspect
[AF h], now in sinus rhythm. [Preeclampsia h] in last pregnancy
No secondary signs of [appendicitis n]. Hx of breast ca. Meds: [aspirin]
Diagnosis of [gout u] is queried. Mediastinal [mass u] query. Last [UTI h] in June
She is keen to avoid [=clozapine n]. Failed [=methotrexate h]
0/18 nodes positive for [carcinoma n]. Parents concerned about [autism u]
Prev [PE nh]: N. Given [=aspirin] by EMS. RULED OUT: [PE n]
[Depression] on [=sertraline], [suicidal ideation n] negative
[Pneumonia] improving, [ARDS n] resolved
[CHF] stable on [=furosemide], [edema n] resolved
[AKI] on [CKD], [hyperkalemia n] resolved. [Cirrhosis] with [ascites], [SBP n] ruled out
[Fever n], [cough n], [dyspnea n] denied
[Chest pain n], [dyspnea n] and [syncope n] absent
Her [fever n], [cough n] and [myalgia n] have resolved
[HTN] on [=lisinopril], [PE u] suspected. [Pneumonia] on CXR, [CHF u] possible
[Diabetes], [hypertension], [MI h] in 2015
[Vomiting] persists, [diarrhea n] resolved
No [fever n], [HTN] controlled on [=lisinopril]. No [chest pain n], [asthma] stable on [=albuterol]
No [DVT n], [cellulitis] improving. Suspected [PE u], [HTN] stable. No [nausea n], [pain] 7/10
No [mass n] or [edema n] seen
[Gout n] (M10.9) denied. Negative for the following: [fever n]""",
}


@pytest.mark.parametrize("capitals", [False, True], ids=["as it is", "in capitals"])
@pytest.mark.parametrize("language", ["en", "es"])
def test_wordings(language, capitals):
    nlp = create(language, words=())
    for line in WORDINGS[language].strip().split("\n"):
        pieces = re.split(r"\[(.+?)(?: ([nuhyf]+))?\](?!\w)", line)
        text, spans, wanted = pieces[0], [], []
        for mention, said_of_it, after in zip(
            pieces[1::3], pieces[2::3], pieces[3::3], strict=True
        ):
            label = "DRUG" if mention.startswith("=") else "PROBLEM"
            mention = mention.removeprefix("=")
            spans.append((len(text), len(text) + len(mention), label))
            wanted.append(set(said_of_it or ""))
            text += mention + after
        doc = nlp.make_doc(text.upper() if capitals else text)
        doc.ents = [doc.char_span(*span) for span in spans]
        for name in ("sentences", "sections", "context"):
            doc = nlp.get_pipe(f"biomed_{name}")(doc)
        letters = dict(zip(ASSERTIONS, "nuhyf", strict=True))
        found = [{letters[name] for name in said(ent)} for ent in doc.ents]
        assert found == wanted, doc.text


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("en", "The patient denies:\n- asma\n- fiebre\nHe reports:\n- gota", "nn-"),
        ("en", "Denies:\r\nAsma\r\nFiebre\r\n\r\nGota for 3 days.", "nn-"),
        ("en", "Negative for the following:\n1. asma\n2. fiebre\nPLAN\nTreat gota", "nn-"),
        ("en", "Return if you have:\n• asma\n• fiebre\nDiagnoses:\n• gota", "yy-"),
        ("en", "Possible:\n- asma\n- no fiebre\nFindings:\n- gota", "un-"),
        ("en", "Symptoms:\n- asma\n- no fiebre\n- gota", "-n-"),
        ("es", "No presenta:\nasma\nfiebre\nPresenta:\ngota", "nn-"),
        ("es", "Diagnóstico diferencial:\n- asma\n- fiebre\n\nGota.", "uu-"),
        ("en", "☐ Asma ☑ gota ☐ fiebre", "n-n"),
        ("en", "Asma ☐ gota ☒ fiebre ☐", "n-n"),
        ("es", "Asma: □ gota: ☑", "n-"),
    ],
)
def test_lists_and_boxes(language, text, expected):
    nlp = create(language, words=("asma", "gota", "fiebre", "Asma", "Gota", "Fiebre"))
    letters = dict(zip(ASSERTIONS, "nuhyf", strict=True))
    found = ["".join(letters[name] for name in said(ent)) or "-" for ent in nlp(text).ents]
    assert found == list(expected)


@pytest.mark.parametrize(
    ("text", "other", "label", "found"),
    [
        ("Hace 3 años: gota.", "3 años", "EDAD", ["is_historical"]),
        ("En 2015, gota.", "2015", "FECHA", ["is_historical"]),
        ("Tuvo gota de niño.", "niño", "SEXO", ["is_historical"]),
        ("Tía materna con gota.", "Tía materna", "FAMILIAR", ["is_family"]),
        ("Hace 3 años: gota.", "3 años", "GENE", []),
    ],
)
def test_entities_of_times_and_people_hide_no_cue(text, other, label, found):
    nlp = create()
    nlp.get_pipe("entity_ruler").add_patterns([{"label": label, "pattern": other}])
    assert [said(ent) for ent in nlp(text).ents if ent.label_ == "DIAGNOSTICO"] == [found]


def f1(pairs):
    right = sum(found and gold for found, gold in pairs)
    return 2 * right / sum(found + gold for found, gold in pairs)


@pytest.mark.parametrize(
    ("notes", "least"), [("en", 0.95), ("es", 0.93), ("en_test", 0.88), ("es_test", 0.9)]
)
def test_the_starter_notes(notes, least):
    nlp = create(notes[:2], label="PROBLEM", words=())
    lines = (REPOSITORY / "assets" / "starter_notes" / f"{notes}.jsonl").read_text("utf8")
    pairs = {name: [] for name in ASSERTIONS}
    for note in map(json.loads, lines.splitlines()):
        doc = nlp.make_doc(note["text"])
        doc.ents = [
            doc.char_span(one["start"], one["end"], "PROBLEM", alignment_mode="expand")
            for one in note["spans"]
        ]
        with nlp.select_pipes(disable="entity_ruler"):
            doc = nlp(doc)
        for ent, one in zip(doc.ents, note["spans"], strict=True):
            for name in ASSERTIONS:
                pairs[name].append((bool(ent._.get(name)), name in one["assertions"]))
    assert min(map(f1, pairs.values())) >= least


def test_english_conditions():
    path = CORPORA / "context_en.tar.xz"
    if not path.exists():
        pytest.skip("needs ../shared/corpora/context_en.tar.xz")
    with tarfile.open(path) as archive:
        member = next(one for one in archive.getmembers() if one.name.endswith(".tsv"))
        rows = archive.extractfile(member).read().decode().splitlines()
    nlp = create("en", label="PROBLEM", words=())
    negated, historical = [], []
    for row in csv.DictReader(rows, delimiter="\t", quoting=csv.QUOTE_NONE):
        start = row["sentence"].find(row["concept"].upper())
        if start >= 0:
            end = start + len(row["concept"])
            doc = nlp.make_doc(row["sentence"][:start] + row["concept"] + row["sentence"][end:])
            doc.ents = [doc.char_span(start, end, "PROBLEM", alignment_mode="expand")]
            with nlp.select_pipes(disable="entity_ruler"):
                ent = nlp(doc).ents[0]
            negated.append((ent._.is_negated, row["negation"] == "Negated"))
            historical.append((ent._.is_historical, row["temporality"] == "Historical"))
    assert f1(negated) >= 0.95
    assert f1(historical) >= 0.70
