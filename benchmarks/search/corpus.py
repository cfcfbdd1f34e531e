"""Generate a large archive without documents: chunks of Zipf-distributed words, clustered vectors, and questions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from okralong.pipelines.archive import files as layout
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.archive.shard_builder import write_shard
from okralong.pipelines.archive.versions import LAYOUT, publish, version_numbers
from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import Folder

MODEL: Final = "synthetic"
GRANULARITY: Final = 150
DIMENSION: Final = 384
VOCABULARY: Final = 60_000
"""Distinct words; word r occurs in proportion to 1 / r ** 1.07, approximately as in English."""
WORDS_A_CHUNK: Final = (60, 120)
CHUNKS_A_DOCUMENT: Final = 500
PART: Final = 20_000
TOPICS: Final = 400
DOCUMENTS_ASKED: Final = 40
QUESTION_WORDS: Final = 6
"""Search terms of a question: one of twelve words has about that many that are not stop words."""

Vectors = NDArray[np.float32]


@dataclass(frozen=True)
class Asked:
    """A question: its words, its vector, and its document."""

    query: str
    vector: Vectors
    doc_id: str


def open_archive(work: Path, chunks: int, shards: int) -> Archive:
    """Open the archive of that many chunks and shards below ``work``, and create it first if necessary.

    It has shards and a manifest, but no documents.
    """
    folder = work / f"{chunks}-{shards}"
    archive = Folder.of(folder)
    if not version_numbers(archive):
        rows, vectors = synthetic_chunks(chunks)
        owners = np.array([shard_of(doc_id, shards) for doc_id in rows["doc_id"].to_pylist()])
        place, names = layout.granularity_folder(archive, GRANULARITY), [f"shard-{n:05d}" for n in range(shards)]
        for number, name in enumerate(names):
            mine = rows.filter(pa.array(owners == number)).combine_chunks()
            write_shard(place.at(name), GRANULARITY, mine, vectors[owners == number])
        manifest = {"version": 1, "layout": LAYOUT, "schema_version": SCHEMA_VERSION, "granularities": [GRANULARITY]}
        files = {"catalogue": [], "index": {str(GRANULARITY): names}}
        named = {"name": MODEL, "dimension": DIMENSION}
        publish(archive, manifest | {"embedding": named, "shards": shards, "files": files})
    return Archive.open(folder)


def synthetic_chunks(chunks: int, seed: int = 3) -> tuple[pa.Table, Vectors]:
    """Yield chunks with the columns of ``layout.ROWS_SCHEMA``, by document, and their vectors.

    Equal seeds give equal chunks.
    """
    draw = np.random.default_rng(seed)
    words, topics = _words(), unit(draw.standard_normal((TOPICS, DIMENSION)))
    tables, matrices = [], []
    for first in range(0, chunks, PART):
        numbers = np.arange(first, min(first + PART, chunks))
        lengths = draw.integers(*WORDS_A_CHUNK, size=len(numbers))
        said = words[_zipf(draw, int(lengths.sum()))].tolist()
        ends = np.cumsum(lengths)
        texts = [" ".join(said[end - length : end]) for end, length in zip(ends, lengths, strict=True)]
        matrices.append(clustered(draw, topics, numbers // CHUNKS_A_DOCUMENT))
        rows = {
            "chunk_id": [f"{number:08d}-{GRANULARITY}" for number in numbers.tolist()],
            "doc_id": [_doc_id(number) for number in numbers.tolist()],
            "ordinal": numbers % CHUNKS_A_DOCUMENT,
            "start_char": numbers % CHUNKS_A_DOCUMENT * 1000,
            "end_char": numbers % CHUNKS_A_DOCUMENT * 1000 + 900,
            "n_tokens": lengths,
            "text": texts,
            "table_id": pa.nulls(len(texts)),
        }
        tables.append(pa.table(rows).cast(layout.ROWS_SCHEMA))
    return pa.concat_tables(tables), np.concatenate(matrices)


def questions(texts: list[str], vectors: Vectors, count: int, seed: int = 4) -> list[Asked]:
    """Return questions about chunks: words of the chunk, and a vector with a cosine of 0.6 to its own."""
    draw = np.random.default_rng(seed)
    asked = []
    documents = draw.integers(len(texts) // CHUNKS_A_DOCUMENT, size=DOCUMENTS_ASKED)
    for number in draw.choice(documents, count) * CHUNKS_A_DOCUMENT + draw.integers(CHUNKS_A_DOCUMENT, size=count):
        words = draw.choice(texts[number].split(), size=QUESTION_WORDS, replace=False)
        away = unit(draw.standard_normal((1, DIMENSION)))[0]
        vector = unit((0.6 * vectors[number] + 0.8 * away)[np.newaxis])[0]
        asked.append(Asked(" ".join(words), vector, _doc_id(int(number))))
    return asked


def _doc_id(number: int) -> str:
    return f"document-{number // CHUNKS_A_DOCUMENT:05d}"


def _words() -> NDArray[np.str_]:
    """Return artificial words that no stemmer changes and that are not stop words."""
    letters = np.array([*"bdfgklmnprtvz"])
    vowels = np.array([*"aiou"])
    digits = np.arange(VOCABULARY)
    words = np.full(VOCABULARY, "", dtype="U12")
    for _ in range(4):
        words = np.char.add(words, np.char.add(letters[digits % 13], vowels[digits // 13 % 4]))
        digits = digits // 52
    return np.char.add(words, "k")


def _zipf(draw: np.random.Generator, count: int) -> NDArray[np.int64]:
    share = 1.0 / np.arange(1, VOCABULARY + 1) ** 1.07
    numbers: NDArray[np.int64] = np.searchsorted(np.cumsum(share / share.sum()), draw.random(count))
    return np.minimum(numbers, VOCABULARY - 1)


def clustered(draw: np.random.Generator, topics: Vectors, documents: NDArray[np.int64]) -> Vectors:
    """Return unit vectors: each document has a direction, and its chunks lean to one of its three topics."""
    own = np.stack([_of_document(int(number)) for number in np.unique(documents)])
    place = np.searchsorted(np.unique(documents), documents)
    topic = topics[(documents * 7 + draw.integers(3, size=len(documents)) * 131) % TOPICS]
    away = unit(draw.standard_normal((len(documents), DIMENSION)))
    return unit(0.5 * own[place] + 0.5 * topic + 0.7 * away)


def _of_document(number: int) -> Vectors:
    return unit(np.random.default_rng(number).standard_normal((1, DIMENSION)))[0]


def unit(vectors: NDArray[np.floating]) -> Vectors:
    """Return rows of length 1."""
    found: Vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    return found
