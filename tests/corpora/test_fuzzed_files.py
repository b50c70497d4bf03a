"""Whatever is done to a file, a reader gives documents or says in one line what is wrong.

A tenth of the damaged files is tried; with SPACY_BIOMED_CAMPAIGNS=1 in the environment, all.
"""

import time
import warnings
import zlib
from pathlib import Path
from random import Random

import pytest
import srsly
from damaged_corpora import SOUND, damage
from fault_injection import choose_tries
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_biomed.corpora.convert import create_pipeline
from spacy_biomed.corpora.gold import annotate, create_doc
from spacy_biomed.errors import BiomedError
from spacy_biomed.formats.registry import read_documents
from spacy_biomed.formats.repairs import keeping_log
from spacy_biomed.formats.spacy_docs import read_docs

INPUTS = 300
SECONDS = 2


@pytest.fixture(scope="module")
def nlp():
    return create_pipeline("en")


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """Write a corpus, and return what its reader reads."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder if len(files) > 1 else folder / next(iter(files))


def check(error: BiomedError, folder: Path, seed: int) -> None:
    message = str(error).replace(str(folder), "")
    assert message.isprintable(), (seed, message[:1000])
    assert len(message) < 500, (seed, message[:1000])


@pytest.mark.parametrize("format", SOUND)
def test_sound_files_are_read(tmp_path, nlp, format):
    path = write(tmp_path, {name: text.encode() for name, text in SOUND[format].items()})
    with keeping_log("stop") as log:
        documents = list(read_documents(format.split()[0], [path]))
    assert documents and not log.changes
    for document in documents:
        annotate(create_doc(nlp, document), document)


@pytest.mark.parametrize("format", SOUND)
def test_damaged_files_give_documents_or_one_line(tmp_path, nlp, format):
    errors = 0
    seeds = choose_tries(range(INPUTS), format)
    for seed in seeds:
        files = damage(SOUND[format], Random(f"{format} {seed}"))
        path = write(tmp_path, files)
        begin = time.process_time()
        try:
            with keeping_log("skip" if seed % 2 else "stop") as log:
                for document in read_documents(format.split()[0], [path]):
                    annotate(create_doc(nlp, document), document)
            for change in log.changes:
                check(BiomedError(change.what), tmp_path, seed)
        except BiomedError as error:
            errors += 1
            check(error, tmp_path, seed)
        except Exception as error:
            pytest.fail(f"{format} {seed}: {type(error).__name__}: {str(error)[:200]}")
        assert time.process_time() - begin < SECONDS, seed
    assert 0 < errors < len(seeds)  # errors never or always would test little


def test_damaged_corpora_of_spacy_give_documents_or_one_line(tmp_path, nlp):
    sound = {**SOUND["brat"]}
    path = write(tmp_path, {name: text.encode() for name, text in sound.items()})
    packed = DocBin(store_user_data=True)
    for document in read_documents("brat", [path]):
        doc = create_doc(nlp, document)
        annotate(doc, document, "layer")
        packed.add(doc)
    whole = packed.to_bytes()
    file = tmp_path / "train.spacy"
    for seed in choose_tries(range(INPUTS), "spacy"):
        file.write_bytes(damage_corpus(whole, Random(seed)))
        begin = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for doc in read_docs(file, Vocab()):
                    str(doc)
        except BiomedError as error:
            check(error, tmp_path, seed)
        except Exception as error:
            pytest.fail(f"{seed}: {type(error).__name__}: {str(error)[:200]}")
        assert time.process_time() - begin < SECONDS, seed


def damage_corpus(whole: bytes, random: Random) -> bytes:
    """Damage a file of spaCy's, or what is packed in it."""
    if random.random() < 0.2:
        return damage_bytes(whole, random)
    if random.random() < 0.4:
        return zlib.compress(damage_bytes(zlib.decompress(whole), random))
    message = srsly.msgpack_loads(zlib.decompress(whole))
    key = random.choice(sorted(message))
    values = [None, 5, -1, b"", b"\xff" * 8, "x", [], {}, [5], [None], {"a": 1}, [b"\xc1"], 2**63]
    if random.random() < 0.3:
        del message[key]
    elif isinstance(message[key], bytes) and random.random() < 0.7:
        message[key] = damage_bytes(message[key], random)
    else:
        message[key] = random.choice(values)
    return zlib.compress(srsly.msgpack_dumps(message))


def damage_bytes(content: bytes, random: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(random.randint(1, 4)):
        changed[random.randrange(len(changed))] = random.randrange(256)
    place = random.randrange(len(changed))
    return bytes(random.choice((changed, changed[:place], changed + changed[place:])))
