"""Patterns of personal data, on texts written for the tests."""

import pytest

from spacy_biomed.deidentification.pattern_checks import is_social_security_number
from spacy_biomed.deidentification.pattern_matches import choose_labels, find_patterns
from spacy_biomed.deidentification.pattern_rules import find_prefixes
from spacy_biomed.errors import BiomedError


def find(text, language="es"):
    return [(text[start:end], pattern) for start, end, pattern in find_patterns(text, language)]


@pytest.mark.parametrize(
    ("language", "text", "form", "pattern"),
    [
        ("es", "El 12/03/2019 ingresa", "12/03/2019", "date"),
        ("es", "El 12-3-19 ingresa", "12-3-19", "date"),
        ("es", "Alta 2019-03-12.", "2019-03-12", "date"),
        ("es", "Alta el 5 de mayo de 2018.", "5 de mayo de 2018", "date"),
        ("es", "Visto en marzo", "marzo", "date"),
        ("es", "Operado en 2003.", "2003", "date"),
        ("es", "DNI 12.345.678-Z", "12.345.678-Z", "national_id"),
        ("es", "con X1234567L firma", "X1234567L", "national_id"),
        ("es", "con 12345678A firma", "12345678A", "national_id"),  # the letter is Z
        ("es", "con 12345678Z firma", "12345678Z", "national_id"),
        ("es", "NASS: 28 11111111 11", "28 11111111 11", "insurance"),
        ("es", "con 281234567840 firma", "281234567840", "insurance"),
        ("es", "NHC: 7654321.", "7654321", "record"),
        ("es", "NºCol: 28 28 12345.", "28 28 12345", "license"),
        ("es", "episodio 445566", "445566", "encounter"),
        ("es", "Tel.: 912 345 678", "912 345 678", "phone"),
        ("es", "llamar al 612345678", "612345678", "phone"),
        ("es", "Fax: 91 234 56 78", "91 234 56 78", "fax"),
        ("es", "CP: 28035", "28035", "postal_code"),
        ("es", "3. 28035 Madrid", "28035", "postal_code"),
        ("es", "ana.ruiz@hospital.es hoy", "ana.ruiz@hospital.es", "email"),
        ("es", "ana@hospital hoy", "ana@hospital", "email"),
        ("es", "en www.hospital.es/a", "www.hospital.es/a", "url"),
        ("es", "ES91 2100 0418 4502 0005 1332", "ES91 2100 0418 4502 0005 1332", "account"),
        ("es", "4111 1111 1111 1111", "4111 1111 1111 1111", "account"),
        ("es", "paciente de 53 años", "53 años", "age"),
        ("es", "Calle Mayor, 3, 2 B. Alta", "Calle Mayor, 3, 2 B", "address"),
        ("es", "vive en KR7 #12-34", "KR7 #12-34", "address"),
        ("es", "del Hospital de la Vega hoy", "Hospital de la Vega", "institution"),
        ("es", "del Hospital general La Vega hoy", "Hospital general La Vega", "institution"),
        ("es", "reactivos (Roche Diagnostics GmbH)", "Roche Diagnostics GmbH", "institution"),
        ("es", "un stent de Boston Scientific", "Boston Scientific", "institution"),
        ("es", "prótesis de Acme Médica, S.L. hoy", "Acme Médica, S.L.", "institution"),
        ("es", "Paclente: MlGUEL ARANC1BIA", "MlGUEL ARANC1BIA", "name"),
        ("es", "F.Nac: O4/l2/1949", "O4/l2/1949", "date"),
        ("es", "nacido el 3 del 5 del 48", "3 del 5 del 48", "date"),
        ("es", "catorce del tres del sesenta y uno", "catorce del tres del sesenta y uno", "date"),
        ("es", "dolor desde el jue 21/11, vino", "21/11", "date"),
        ("es", "EDAD/SEXO.....: 94 / M", "94", "age"),
        ("es", "(0010,0010) PN [Xwqzrt^Ana]", "Xwqzrt^Ana", "name"),
        ("es", "(0010,0020) LO [QX448127]", "QX448127", "record"),
        ("es", '"identifier":[{"value":"8003608166690503"}]', "8003608166690503", "record"),
        ("es", "Cédula de ciudadanía 52.447.190", "52.447.190", "national_id"),
        ("es", "[14:02] enf_xwqzrt: voy", "enf_xwqzrt", "name"),
        ("es", "> El 3/9/24, Xwqzrt Zxcvb escribió:", "Xwqzrt Zxcvb", "name"),
        ("es", "llama Xwqzrt (hija) hoy", "Xwqzrt", "name"),
        ("es", "con la mujer de D. Xwqzrt, Zxcvb.", "Zxcvb", "name"),
        ("es", "visto por la r3 (xwqzrt)", "xwqzrt", "name"),
        ("es", "Radiólogo: T. Xwqzrt", "Xwqzrt", "name"),
        ("es", "subida por DraXwqzrt.", "Xwqzrt", "name"),
        ("es", "se deletrea K-O-W-A-L", "K-O-W-A-L", "name"),
        ("es", "Veo a Kayleigh Drummond", "Kayleigh Drummond", "name"),
        ("es", "la trajo desde Medina del\nCampo", "Medina del\nCampo", "place"),
        ("es", "la farmacia de la calle Toledo", "Toledo", "place"),
        ("es", "Unidad de Psiquiatría de Bétera", "Bétera", "place"),
        ("es", "Camí de l'Horta 9\nAlta", "Camí de l'Horta 9", "address"),
        ("es", "Urbieta kalea 14, hoy", "Urbieta kalea 14", "address"),
        ("es", "en el CP Río Xwqzrt", "CP Río Xwqzrt", "institution"),
        ("es", "su UMF 28, turno", "UMF 28", "institution"),
        ("en", "rang Xwqzrt (wife) today", "Xwqzrt", "name"),
        ("es", "viajó a los 25 años, solo", "25 años", "age"),
        ("es", "paciente de 77, sin dolor", "77", "age"),
        ("es", "procedente de Guinea Bissau.", "Guinea Bissau", "place"),
        ("es", "vive en la provincia de Girona (España)", "Girona", "place"),
        ("es", "vive en la provincia de Girona (España)", "España", "place"),
        ("en", "Seen May 5, 2019.", "May 5, 2019", "date"),
        ("en", "Seen on 5th May.", "5th May", "date"),
        ("en", "DOB 03/25/1956", "03/25/1956", "date"),
        ("en", "SSN 219-09-9999", "219-09-9999", "national_id"),
        ("en", "with 943 476 5919 on", "943 476 5919", "insurance"),
        ("en", "MRN: 1234567", "1234567", "record"),
        ("en", "Call (555) 123-4567", "(555) 123-4567", "phone"),
        ("en", "Boston, MA 02115", "02115", "postal_code"),
        ("en", "London SW1A 1AA", "SW1A 1AA", "postal_code"),
        ("en", "a 64-year-old man", "64-year", "age"),
        ("en", "12 Main Street, Apt 4", "12 Main Street, Apt 4", "address"),
        ("en", "from Mercy Hospital today", "Mercy Hospital", "institution"),
        ("es", "la cita del jueves 14 a las 9:30", "jueves 14", "date"),
        ("es", "la cita del lunes día 9", "lunes día 9", "date"),
        ("es", "Lo vimos el 1/3.", "1/3", "date"),
        ("es", "Alta 12/set/2021", "12/set/2021", "date"),
        (
            "es",
            "el dos de mayo de mil novecientos treinta y uno",
            "dos de mayo de mil novecientos treinta y uno",
            "date",
        ),
        ("es", "Dra. Iribarne M.N. 112.345", "112.345", "license"),
        ("es", "Ced. Prof. 8765432", "8765432", "license"),
        ("es", "Tarjeta TIS 01234567", "01234567", "national_id"),
        ("es", "tel de su hija: 6 1 2 - 4 5 - 7 8 - 9 0", "6 1 2 - 4 5 - 7 8 - 9 0", "phone"),
        ("es", "Impreso por mlopezg", "mlopezg", "email"),
        ("es", "PID|1||987654||Soto^Ana||||||C. Luna 4 5ºB^^Oviedo", "C. Luna 4 5ºB", "address"),
        ("es", "ingresan al padre de Tere", "Tere", "name"),
        ("es", "al final nos llama Chema", "Chema", "name"),
        ("es", "Próxima cita: mié 22 a las 17h", "mié 22", "date"),
        ("en", "clinic on Tuesday 6th", "Tuesday 6th", "date"),
        ("en", "Review Weds 18th", "Weds 18th", "date"),
        ("en", "Name|Age|WBC|Na\nXwqzrt|95|9.1|138", "95", "age"),
        ("en", "seen on 2/1, 2/8 and 2/15/2023", "2/8", "date"),
        ("en", "Quit smoking 1999", "1999", "date"),
        ("en", "Name: BANERJEE,SUCHITRA", "BANERJEE,SUCHITRA", "name"),
        ("en", "at home. Son Quavion lives near", "Quavion", "name"),
        ("en", "Handoff: Bed 5 - Delgado-Ruiz, septic", "Delgado-Ruiz", "name"),
        ("en", "wants appt w/ Nguyen soon", "Nguyen", "name"),
        ("en", "home in Yonkers", "Yonkers", "place"),
        ("en", "inmate #A7781234", "A7781234", "record"),
        ("en", "pager 7-3390", "7-3390", "phone"),
        ("es", "NAF 35/10123456/78", "35/10123456/78", "insurance"),
        ("es", "diligencias previas 1234/2022", "1234/2022", "encounter"),
        ("es", "iniciales MGT, de 60", "MGT", "name"),
        ("es", "buenas tardes, soy raul de analisis", "raul", "name"),
        ("es", "NIF del tutor legal: B-18765432", "B-18765432", "national_id"),
        ("es", "en el apto 502 de la torre", "apto 502", "address"),
        ("es", "serie 1.2.840.113619.2.55.3", "1.2.840.113619.2.55.3", "encounter"),
        ("en", "can you bleep suresh", "suresh", "name"),
        ("en", "mother Miriam née Adler", "Adler", "name"),
        ("en", "Galway (H91 X4YE)", "H91 X4YE", "postal_code"),
        ("en", "sent to NORTHSIDE URGENT CARE", "NORTHSIDE URGENT CARE", "institution"),
        ("en", "ACC: 10293847", "10293847", "encounter"),
        ("en", "(415) 555-0136 x22", "(415) 555-0136 x22", "phone"),
        ("en", "PATIENT MBEKI THANDIWE  SEX F", "MBEKI THANDIWE", "name"),
        ("en", "2207-B OLD CHAPEL HILL RD", "2207-B OLD CHAPEL HILL RD", "address"),
        ("en", "RD DURHAM NC 27707 INS", "27707", "postal_code"),
        ("en", "AZ DL D08812345", "D08812345", "national_id"),
        ("en", "goes to Pine Ridge Elementary now", "Pine Ridge Elementary", "institution"),
        ("en", "before Mar. 1st?", "Mar. 1st", "date"),
        ("en", "TAVR Feb '20", "Feb '20", "date"),
        ("en", "born Christmas Day 1920", "1920", "date"),
        ("en", "SSN last 4: 8841", "8841", "national_id"),
        ("en", "health card is 1234-567-897-XJ", "1234-567-897-XJ", "national_id"),
        ("en", "Flat 4, 27B Clarendon Rd", "Flat 4, 27B Clarendon Rd", "address"),
        ("en", "Clinic, Praed Street, London", "Praed Street", "address"),
        ("en", "Lives with Earl", "Earl", "name"),
        ("en", "She saw Earl W. at noon", "Earl W", "name"),
        ("en", "Mum (Shaz) attended", "Shaz", "name"),
        ("en", "NAME: TORRES-VEGA, LUZ", "TORRES-VEGA, LUZ", "name"),
        ("en", "Surgeon: Baker", "Baker", "name"),
        ("en", "thanks for seeing sandra", "sandra", "name"),
        ("en", "of Oakwood Primary. Health visitor", "Oakwood Primary", "institution"),
        ("es", "Tarjeta con BBBBBBBBCS123456 al alta", "BBBBBBBBCS123456", "national_id"),
        ("es", "pulsera R-20817 puesta", "R-20817", "record"),
        ("es", "Muestra B21-004418: sin malignidad", "B21-004418", "encounter"),
        ("en", "Our ref: CARD/22/118", "CARD/22/118", "record"),
        ("en", "BSB 062-000 for travel", "062-000", "account"),
        ("es", "moto C-4471-BVX azul", "C-4471-BVX", "vehicle"),
        ("es", "cama C22 por la noche", "C22", "room"),
        ("en", "moved to ward J47 at 9", "J47", "room"),
        ("es", "Última analítica 12/3: bien", "12/3", "date"),
        ("es", "desde el martes con fiebre", "martes", "date"),
        ("es", "Cayó el domingo por la noche", "domingo", "date"),
        ("es", "de nuevo el 14 del cte.", "14", "date"),
        ("es", "Cayó el día de Reyes en casa", "día de Reyes", "date"),
        ("es", "Edad: noventa y cuatro", "noventa y cuatro", "age"),
        ("es", "Cumple 95 en mayo", "95", "age"),
        ("en", "phone (212) 555-0100 ext. 9 today", "(212) 555-0100 ext. 9", "phone"),
        ("es", "tel. 976 55 01 43 ext. 9", "976 55 01 43 ext. 9", "phone"),
        ("en", "Skype: live:pgrunewald_2", "live:pgrunewald_2", "email"),
        ("es", "usuario del portal teo.lindo88", "teo.lindo88", "email"),
        ("en", "see portal.hospital.org/p/778 for", "portal.hospital.org/p/778", "url"),
        ("en", "from fe80::1ff:fe23:4567:890a at", "fe80::1ff:fe23:4567:890a", "url"),
        ("es", "Vive en Teruel (44001).", "Teruel (44001)", "place"),
        ("es", "domicilio Cl. 72 # 10-34 de Bogotá", "Cl. 72 # 10-34", "address"),
        ("en", "22a Corn Exchange Bldgs, Leeds", "22a Corn Exchange Bldgs", "address"),
        ("es", "Va a la parroquia del Carmen.", "parroquia del Carmen", "institution"),
        ("es", "Está en el Instituto Nacional. Viene", "Instituto Nacional", "institution"),
        ("es", "Trabaja de noche en Carrefour", "Carrefour", "institution"),
        ("es", "Pérez de la Oliva niega fiebre", "Pérez de la Oliva", "name"),
        ("es", "Hdez. Cruz, Fco. Javier, cama", "Hdez. Cruz, Fco. Javier", "name"),
        ("es", "el caso con Luján de Digestivo", "Luján", "name"),
        ("en", "spoke with Tulkarev (GI) today", "Tulkarev", "name"),
        ("es", "el R3 Bolea y la enfermera", "Bolea", "name"),
        ("es", "con los técnicos Lizaso y Oquendo", "Oquendo", "name"),
        ("en", "the nurse Tamsin is here", "Tamsin", "name"),
        ("en", "Twin A (Elowen) is well", "Elowen", "name"),
        ("en", "Transcribed by jlm.", "jlm", "name"),
        ("es", "La Sra. Xu acude", "Xu", "name"),
    ],
)
def test_what_has_the_form_of_personal_data_is_found(language, text, form, pattern):
    assert (form, pattern) in find(text, language)


CLINICAL_ES = """TA 120/80, dolor 5/10, escala 3/5, 1/2 comprimido, 12,5 mg cada 8 h, 10-20 mg.
Leucocitos 12500, plaquetas 250.000, Hb 13.5, pH 7.35, Na 140, glucosa 100-200..
T3N0M0, HLA-B27, CIE 250.00, a los 3 días, 2.5.10, INR 2.0-3.0, FG 90 ml/min, en 2000 ml.
RM 2019: sin cambios. Amoxicilina c/12h, Pantoprazol, clindamicina c/8 h, vancomicina.
Sintrom: lunes 1/2, martes 20 mg. Afecta al 1/3 distal. Yasmin 3 mg.
Índice de Mayo 1, Los Ángeles B. Operación de Mayo-Robson.
OBX|1|NM|2345-7^Glucosa^LN||104|mg/dL|70-110|N
Hemocultivos 2/2 positivos. Metotrexato los lunes. Cura el martes, jueves y sábado. TAC 1/3 medio.
Leucocitos (12300), recogido en farmacia Humira. Conducto de Wirsung. Cirujano Vascular, MIR.
Tratado con Rivotril (Neurología), con Holter de Cardiología. Cumple 95 días y 9 ciclos.
Nitroglicerina SL, Cobalto Co-60. Dolor en MSD. Ventana pericárdica. UCB, KCI, control a 3M."""
CLINICAL_EN = """BP 120/80, pain 5/10, 3/4, 1/2 tablet, 12.5 mg q8h, 10-20 mg, glucose 100-200.
WBC 12500, platelets 250,000, pH 7.35, T2 N0 M0, B12 5MG, ratio 1:2, INR 2.0-3.0, 13/13/2019.
Threshold 0.75 V @ 0.4ms, seen @ clinic. Crohn's, Guillain-Barré, Addison's. Robin sequence.
Pt ID'd twice. On Camila 0.35 mg. Friday 20 mg. O2 sat 97%. Last 4 weeks. Werner protein, Kip1.
Trimethoprim R, Nitrofurantoin S, Cefalexin S. Marshall protocol. CC: ABD PAIN
Apgars 6/9/10. Drew blood. At 12:30:45, ratio 1:2:3. 5 mcg/kg. Sample B12 1000. Ref 42-5000-066-01.
Nurse Practitioner, nurse Zofran given, tech Foley. Flagyl per GI. Edema of ext. 2+ pulses.
He may improve and she can march on. 500 mg 3 times, FEV1/FVC 0.62, in 2000 ml, EF 55-60%."""


@pytest.mark.parametrize(("text", "language"), [(CLINICAL_ES, "es"), (CLINICAL_EN, "en")])
def test_doses_values_scores_and_ratios_are_not_found(text, language):
    assert find(text, language) == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Abordaje A-B-C-D-E.", "es"),
        ("Granulomas tipo Langhans, factor V Cambridge negativo.", "es"),
        ("Pérdida de peso, dificultad para caminar y pérdida de 7 kg.", "es"),
        ("Servicio de Urgencia de Ginecología.", "es"),
        ("Dolor (hombro), tos (noche).", "es"),
        ("[08:00] Constantes: TA 120/80.", "es"),
        ("Given 1 L Hartmann's over 4 h.", "en"),
        ("con 1234567A firma", "es"),  # the letter is L
        ("con X1234567A firma", "es"),
        ("con 281234567841 firma", "es"),
        ("con 4111 1111 1111 1112 firma", "es"),
        ("ES92 2100 0418 4502 0005 1332", "es"),
        ("with 143 476 5918 on", "en"),
        ("with 000-12-3456 on", "en"),
    ],
)
def test_wrong_check_digits_are_no_identifier(text, language):
    assert find(text, language) == []


def test_after_the_name_of_an_identifier_no_check_is_needed():
    assert find("DNI: 12345678A") == [("12345678A", "national_id")]


def test_the_check_digits_of_social_security():
    # 28 12345678: 2812345678 modulo 97 is 40; a leading zero of the number does not count.
    assert 2812345678 % 97 == 40 and is_social_security_number("28/12345678/40")
    assert is_social_security_number(f"28 01234567 {281234567 % 97:02}")
    assert not is_social_security_number("28 12345678 4")


def test_matches_are_disjoint_and_in_text_order():
    text = "Fax 912345678, tel. 912345679, NHC 1234567, 12/03/2019, ana@b.es, Calle Mayor 3\n" * 3
    found = find_patterns(text, "es")
    assert len(found) == 18
    assert all(a[1] <= b[0] for a, b in zip(found, found[1:], strict=False))


def test_labels_are_those_of_the_pipeline_or_generic():
    chosen = choose_labels(["FECHA", "CONTACTO"], {"record": "NHC"})
    assert (chosen["date"], chosen["phone"], chosen["record"]) == ("FECHA", "CONTACTO", "NHC")
    assert (chosen["account"], chosen["postal_code"]) == ("ID", "ZIP")
    assert "relative" not in chosen
    assert choose_labels(["FAMILIAR"], {})["relative"] == "FAMILIAR"
    from spacy_biomed.deidentification.pattern_matches import check_patterns

    with pytest.raises(BiomedError, match="no pattern dates; use some of date, age"):
        check_patterns(["dates"])


def test_the_prefixes_of_a_form_are_where_it_matches():
    prefixes = find_prefixes(r"\b(?:c/\.?|calle|av[./,]|p[º°])\s*")
    assert prefixes == {"c/", "c/.", "cal", "av.", "av/", "av,", "pº", "p°"}
    assert find_prefixes(r"\b\d+ mg|\bmg") == {"0", "mg"}
    assert find_prefixes(r"\bkr ?\d+") == {"kr", "kr "}  # and any number
    assert find_prefixes(r"(?i:tel)[eé]fono") == frozenset()  # may be within a word
    assert find_prefixes(r"\b[^\W\d]+") == frozenset()


TABLE = """Hab.\tApellidos y nombre\tNHC\tDx
204\tXwq Zrt, Ana\t55\tHTA
205\tGhj Klm\t-\tEPOC

Hb\t1\t2"""


def test_the_head_of_a_column_says_what_its_cells_are():
    assert find(TABLE) == [
        ("204", "room"),
        ("Xwq Zrt, Ana", "name"),
        ("55", "record"),
        ("205", "room"),
        ("Ghj Klm", "name"),
    ]


def test_a_table_of_many_values_has_heads_too():
    table = "NHC | Pt | Na | K | Cr | Hb | Ca | To do\n33 | Xwqzrt | 138 | 4.1 | 0.9 | 12 | 9 | CT"
    assert find(table) == [("33", "record"), ("Xwqzrt", "name")]


@pytest.mark.parametrize(
    "text",
    ['{"apellido1": "Xwqzrt"}', "<apellidos>Xwqzrt</apellidos>", '<p nombre="Xwqzrt"/>'],
)
def test_a_key_says_what_its_value_is(text):
    assert find(text) == [("Xwqzrt", "name")]
