"""`spacy biomed deidentify` of tables, runs that continue, patients, and the vault."""

import csv
import json
import random
import stat
from datetime import date

import pytest
import spacy
from commands import call, error_line
from cryptography.fernet import Fernet

from spacy_biomed.bulk import shards

NAMES = ["Marta Ochoa", "Juan Ruiz", "Lucía Sanz"]
PATTERNS = [{"label": "NOMBRE", "pattern": name} for name in NAMES]


@pytest.fixture
def run(finder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPACY_BIOMED_SECRET", "0123456789abcdef")
    monkeypatch.delenv("SPACY_BIOMED_VAULT_KEY", raising=False)

    def run(command, *arguments):
        return call(command, *arguments, columns=100)

    return lambda *arguments: run("deidentify", finder, *arguments), run


def make_rows(count=12):
    """Notes of three patients, with dates ten days apart."""
    return [
        {
            "note": f"{NAMES[i % 3]} vino el {1 + i // 3 % 2}1/03/2019, NHC 12345{i % 3}7.",
            "patient": f"p{i % 3}",
            "ward": i,
        }
        for i in range(count)
    ]


OPTIONS = ["--text-column", "note", "--patient-column", "patient", "--mode", "surrogates"]


def delimiter_of(path):
    return "\t" if path.suffix == ".tsv" else ","


def write_table(path, rows):
    if path.suffix == ".parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow.parquet import write_table

        write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter_of(path))
            writer.writeheader()
            writer.writerows(rows)


def read_table(path):
    if path.suffix == ".parquet":
        from pyarrow.parquet import read_table

        return read_table(path).to_pylist()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    with path.open(newline="") as file:
        return list(csv.DictReader(file, delimiter=delimiter_of(path)))


@pytest.mark.slow(least=1)
@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".tsv", ".parquet"])
def test_documents_of_a_patient_share_names_numbers_and_the_shift_of_dates(run, tmp_path, ending):
    rows = make_rows()
    write_table(tmp_path / f"notes{ending}", rows)
    result = run[0](f"notes{ending}", f"out{ending}", *OPTIONS, "--keep", "ward", "--shard-size", 5)
    assert result.exit_code == 0, result.output
    written = read_table(tmp_path / f"out{ending}")
    assert [str(row["ward"]) for row in written] == [str(row["ward"]) for row in rows]
    if ending == ".parquet":
        assert {type(row["ward"]) for row in written} == {int}
    names, days = {}, {}
    for old, new in zip(rows, written, strict=True):
        assert set(new) == {"ward", "note"}
        name, _, rest = new["note"].partition(" vino el ")
        names.setdefault(old["patient"], set()).add(name)
        moved = date(*map(int, reversed(rest[:10].split("/"))))
        original = date(2019, 3, int(old["note"].partition(" vino el ")[2][:2]))
        days.setdefault(old["patient"], set()).add((moved - original).days)
        assert "NHC 12345" not in new["note"] or rest.count("12345") == 0
    assert all(len(found) == 1 for found in [*names.values(), *days.values()])
    assert not (tmp_path / f"out{ending}.shards").exists()


def test_a_run_that_is_interrupted_continues_to_the_same_bytes(run, tmp_path, monkeypatch):
    write_table(tmp_path / "notes.csv", make_rows())
    options = ["notes.csv", "out.csv", *OPTIONS, "--shard-size", 3, "--keep", "ward"]
    assert run[0](*options).exit_code == 0
    expected = (tmp_path / "out.csv").read_bytes()
    (tmp_path / "out.csv").unlink()
    annotate, numbers = shards.ShardAnnotator.annotate, []

    def fail(self, number, *arguments):
        if number == 2 and numbers.count(2) == 0:
            numbers.append(number)
            raise KeyboardInterrupt
        numbers.append(number)
        return annotate(self, number, *arguments)

    monkeypatch.setattr(shards.ShardAnnotator, "annotate", fail)
    run[0](*options)
    work = tmp_path / "out.csv.shards"
    assert not (tmp_path / "out.csv").exists()
    assert stat.S_IMODE(work.stat().st_mode) == 0o700
    for file in work.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        content = file.read_text()
        assert not any(word in content for name in NAMES for word in name.split())
        assert "12345" not in content and "0123456789abcdef" not in content
    assert run[0](*options).exit_code == 0
    assert numbers == [0, 1, 2, 2, 3]
    assert (tmp_path / "out.csv").read_bytes() == expected
    assert not work.exists()


def test_another_secret_does_not_continue_a_run(run, tmp_path, monkeypatch):
    write_table(tmp_path / "notes.csv", make_rows())
    options = ["notes.csv", "out.csv", *OPTIONS, "--shard-size", 3]
    annotate = shards.ShardAnnotator.annotate

    def fail(self, number, *arguments):
        if number == 2:
            raise KeyboardInterrupt
        return annotate(self, number, *arguments)

    with monkeypatch.context() as context:
        context.setattr(shards.ShardAnnotator, "annotate", fail)
        run[0](*options)
    monkeypatch.setenv("SPACY_BIOMED_SECRET", "fedcba9876543210")
    assert "other values of the settings (secret)" in error_line(run[0](*options))


def test_patterns_can_be_turned_off(run, tmp_path):
    (tmp_path / "notes.txt").write_text("Marta Ochoa, tel. 912 345 678\n")
    assert run[0]("notes.txt", "out.txt").exit_code == 0
    assert (tmp_path / "out.txt").read_text() == "[NOMBRE], tel. [PHONE]\n"
    assert run[0]("notes.txt", "out.txt", "--no-patterns").exit_code == 0
    assert (tmp_path / "out.txt").read_text() == "[NOMBRE], tel. 912 345 678\n"


def test_the_secret_of_a_file_is_that_of_the_variable(run, tmp_path, monkeypatch):
    write_table(tmp_path / "notes.csv", make_rows())
    assert run[0]("notes.csv", "a.csv", *OPTIONS).exit_code == 0
    monkeypatch.delenv("SPACY_BIOMED_SECRET")
    (tmp_path / "secret").write_text("0123456789abcdef\n", encoding="utf-8-sig")
    assert run[0]("notes.csv", "b.csv", *OPTIONS, "--secret-file", "secret").exit_code == 0
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    message = error_line(run[0]("notes.csv", "c.csv", *OPTIONS, "--secret-file", "gone"))
    assert message.startswith("gone: the secret cannot be read") or "gone: the secret" in message


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
def test_a_vault_restores_the_texts_and_is_encrypted(run, tmp_path, monkeypatch, ending):
    rows = make_rows()
    write_table(tmp_path / f"notes{ending}", rows)
    (tmp_path / "key").write_bytes(Fernet.generate_key())
    options = ["--vault", "vault", "--vault-key-file", "key", "--keep", "ward"]
    result = run[0](f"notes{ending}", f"out{ending}", *OPTIONS, *options)
    assert result.exit_code == 0, result.output
    assert stat.S_IMODE((tmp_path / "vault").stat().st_mode) == 0o600
    assert b"Marta" not in (tmp_path / "vault").read_bytes()
    again = [f"out{ending}", "vault", f"back{ending}", "--text-column", "note"]
    result = run[1]("reidentify", *again, "--vault-key-file", "key")
    assert result.exit_code == 0, result.output
    assert [row["note"] for row in read_table(tmp_path / f"back{ending}")] == [
        row["note"] for row in rows
    ]
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", Fernet.generate_key().decode())
    assert "vault:1: cannot be decrypted" in error_line(run[1]("reidentify", *again))


def test_texts_that_are_not_those_of_the_vault_are_refused(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", Fernet.generate_key().decode())
    (tmp_path / "notes.txt").write_text("Marta Ochoa\nJuan Ruiz hoy\n")
    assert run[0]("notes.txt", "out.txt", "--vault", "vault").exit_code == 0
    (tmp_path / "out.txt").write_text("[NOMBRE] hoy\n[NOMBRE]\n")
    message = error_line(run[1]("reidentify", "out.txt", "vault", "back.txt"))
    assert message.startswith("out.txt:1: not the text that vault was written with")
    (tmp_path / "out.txt").write_text("[NOMBRE]\n")
    message = error_line(run[1]("reidentify", "out.txt", "vault", "back.txt"))
    assert "1 documents, and vault has 2" in message
    (tmp_path / "out.txt").write_text("[NOMBRE]\n[NOMBRE] hoy\n[NOMBRE]\n")
    message = error_line(run[1]("reidentify", "out.txt", "vault", "back.txt"))
    assert message.startswith("out.txt:3: not one of the 2 documents of vault")
    assert not (tmp_path / "back.txt").exists()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_rows_in_another_order_are_refused_where_a_kept_field_tells(
    run, tmp_path, monkeypatch, ending
):
    """Their texts are the same, and another patient's name would be restored."""
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", Fernet.generate_key().decode())
    rows = [{"n": number, "text": name} for number, name in enumerate(NAMES[:2])]
    write_table(tmp_path / f"notes.{ending}", rows)
    output = tmp_path / f"out.{ending}"
    options = ["--keep", "n", "--vault", "vault"]
    assert run[0](f"notes.{ending}", output, *options).exit_code == 0
    assert run[1]("reidentify", output, "vault", f"back.{ending}").exit_code == 0
    assert [row["text"] for row in read_table(tmp_path / f"back.{ending}")] == NAMES[:2]
    first, second = read_table(output)
    assert first["text"] == second["text"] == "[NOMBRE]"
    write_table(output, [second, first])
    message = error_line(run[1]("reidentify", output, "vault", f"other.{ending}"))
    assert "or not its other fields" in message
    assert not (tmp_path / f"other.{ending}").exists()


@pytest.mark.parametrize("place", ["notes.txt", "notes.jsonl", "notes"])
def test_a_vault_restores_the_texts_of_its_own_output_alone(run, tmp_path, monkeypatch, place):
    """Also where the de-identified texts of two patients are the same."""
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", Fernet.generate_key().decode())
    ending = place.removeprefix("notes")
    for number, name in enumerate(NAMES[:2], start=1):
        if ending == ".jsonl":
            (tmp_path / place).write_text(json.dumps({"text": name}) + "\n")
        elif ending:
            (tmp_path / place).write_text(f"{name}\n")
        else:
            (tmp_path / place).mkdir(exist_ok=True)
            (tmp_path / place / "1.txt").write_text(name)
        result = run[0](place, f"out{number}{ending}", "--vault", f"vault{number}")
        assert result.exit_code == 0, result.output
    back = f"back{ending}"
    message = error_line(run[1]("reidentify", f"out1{ending}", "vault2", back))
    assert message.startswith(f"vault2: the vault of another output than out1{ending}")
    assert not (tmp_path / back).exists()
    assert run[1]("reidentify", f"out1{ending}", "vault1", back).exit_code == 0
    restored = tmp_path / back if ending else tmp_path / back / "1.txt"
    assert NAMES[0] in restored.read_text() and NAMES[1] not in restored.read_text()
    # A new output without a vault, or with another, does not belong to the first vault.
    assert run[0](place, f"out1{ending}").exit_code == 0
    message = error_line(run[1]("reidentify", f"out1{ending}", "vault1", back))
    assert ".vault-id: cannot be read" in message


def test_a_vault_is_never_replaced(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", Fernet.generate_key().decode())
    (tmp_path / "notes.txt").write_text("Marta Ochoa\n")
    assert run[0]("notes.txt", "out.txt", "--vault", "vault").exit_code == 0
    before = (tmp_path / "vault").read_bytes()
    message = error_line(run[0]("notes.txt", "other.txt", "--vault", "vault"))
    assert message.startswith("vault: is there, and a vault is never replaced")
    assert (tmp_path / "vault").read_bytes() == before
    assert not (tmp_path / "other.txt").exists()
    (tmp_path / "other.txt.vault-id").write_text("my own notes")
    message = error_line(run[0]("notes.txt", "other.txt", "--vault", "new"))
    assert message.startswith("other.txt.vault-id: the identifier of a vault would be here")


def test_lines_of_another_vault_are_refused(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", Fernet.generate_key().decode())
    (tmp_path / "notes.txt").write_text("Marta Ochoa\nJuan Ruiz\n")
    for name in ("a", "b"):
        assert run[0]("notes.txt", f"{name}.txt", "--vault", f"{name}.vault").exit_code == 0
    first, second = (
        (tmp_path / f"{name}.vault").read_bytes().splitlines(keepends=True) for name in "ab"
    )
    (tmp_path / "mixed.vault").write_bytes(first[0] + second[1])
    message = error_line(run[1]("reidentify", "a.txt", "mixed.vault", "back.txt"))
    assert message.startswith("mixed.vault: the vault of another output")


def test_files_with_new_names_are_restored_whatever_their_order(run, tmp_path, monkeypatch):
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", Fernet.generate_key().decode())
    notes = {f"{number}.txt": f"{NAMES[number % 3]}, {number}" for number in range(9)}
    (tmp_path / "notes").mkdir()
    for name, text in notes.items():
        (tmp_path / "notes" / name).write_text(text)
    assert run[0]("notes", "out", "--rename", "--vault", "vault").exit_code == 0
    numbers = [file.read_text()[-1] for file in sorted((tmp_path / "out").glob("*.txt"))]
    assert numbers != sorted(numbers)
    assert run[1]("reidentify", "out", "vault", "back").exit_code == 0
    restored = sorted(file.read_text() for file in (tmp_path / "back").glob("*.txt"))
    assert restored == sorted(notes.values())


def test_a_vault_needs_a_key_and_a_place_of_its_own(run, tmp_path, monkeypatch):
    (tmp_path / "notes.txt").write_text("Marta Ochoa\n")
    message = error_line(run[0]("notes.txt", "out.txt", "--vault", "vault"))
    assert "set SPACY_BIOMED_VAULT_KEY" in message
    monkeypatch.setenv("SPACY_BIOMED_VAULT_KEY", "short")
    message = error_line(run[0]("notes.txt", "out.txt", "--vault", "vault"))
    assert "SPACY_BIOMED_VAULT_KEY: not the key of a vault" in message and "short" not in message
    message = error_line(run[0]("notes.txt", "out.txt", "--vault", "notes.txt"))
    assert "give it a place of its own" in message
    assert sorted(path.name for path in tmp_path.iterdir()) == ["notes.txt"]


def test_no_mention_that_was_found_is_left_in_generated_notes(finder):
    """Also not where it occurs again, in another place of the document."""
    nlp = spacy.load(finder)
    nlp.add_pipe("biomed_phi_patterns")
    nlp.add_pipe("biomed_deidentify", config={"mode": "tags"})
    generator = random.Random(0)
    pieces = [*NAMES, "NHC 7654321", "tel. 912 345 678", "el 12/03/2019", "ana@hospital.es"]
    pieces += ["TA 120/80", "dolor 5/10", "Calle Mayor, 3.", "7654321", "DNI 12345678Z", "asma"]
    replaced = 0
    for _ in range(200):
        doc = nlp(", ".join(generator.choices(pieces, k=generator.randint(1, 12))))
        for one in doc._.deidentified.replacements:
            assert doc.text[one.start : one.end] not in doc._.deidentified.text
            replaced += 1
    assert replaced > 500


def test_spaces_around_the_identifier_of_a_patient_do_not_count(run, tmp_path):
    rows = "patient,note\n7,Marta Ochoa vino\n 7 ,Marta Ochoa vino\n"
    (tmp_path / "notes.csv").write_text(rows, encoding="utf8")
    assert run[0]("notes.csv", "out.csv", *OPTIONS).exit_code == 0
    first, second = read_table(tmp_path / "out.csv")
    assert first == second


@pytest.mark.parametrize("empty", ['""', "null", '"  "'])
def test_a_row_of_nobody_says_which_column_is_empty(run, tmp_path, empty):
    deidentify, _ = run
    rows = f'{{"note": "Marta Ochoa", "patient": {empty}}}\n{{"note": "x", "patient": 1}}\n'
    (tmp_path / "notes.jsonl").write_text(rows, encoding="utf8")
    result = deidentify("notes.jsonl", "out.jsonl", *OPTIONS)
    assert result.exit_code == 1
    assert "notes.jsonl:1: no identifier in the column patient" in result.stderr
