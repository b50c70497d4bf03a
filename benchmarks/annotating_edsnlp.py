"""EDS-NLP's part of `annotating.py`, which runs this file in EDS-NLP's environment.

Arguments: encoder directory, notes in Parquet, number of workers. Prints JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import edsnlp
import edsnlp.pipes as eds
import pyarrow.parquet as pq

LABELS = ["CELL_LINE", "CHEMICAL", "DISEASE", "GENE", "SPECIES", "VARIANT"]


def main() -> None:
    encoder, notes, workers = sys.argv[1:]
    positions = json.loads(Path(encoder, "config.json").read_text())["max_position_embeddings"]
    nlp = edsnlp.blank("eds")
    nlp.add_pipe(
        eds.ner_crf(
            # Windows as its documentation has them, in an encoder with positions for them.
            embedding=eds.transformer(model=encoder, window=min(128, positions - 2), stride=96),
            mode="joint",
            labels=LABELS,
            target_span_getter={"ents": True},
            span_setter={"ents": True},
        ),
        name="ner",
    )
    nlp.post_init([])
    texts = pq.read_table(notes)["text"].to_pylist()
    stream = edsnlp.data.from_iterable(texts).map_pipeline(nlp)
    stream = stream.map(count_entities).set_processing(
        backend="multiprocessing", num_cpu_workers=int(workers)
    )
    entities = documents = 0
    start = 0.0
    for found in stream:
        if not start:
            start = time.perf_counter()
        else:
            documents += 1
        entities += found
    result = {"seconds": time.perf_counter() - start, "documents": documents, "entities": entities}
    print(json.dumps(result))


def count_entities(doc) -> int:
    return len(doc.ents)


if __name__ == "__main__":
    main()
