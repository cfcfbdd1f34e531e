"""Reading single documents out of the ``documents`` table, without holding the table."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from okralong.pipelines.core.schemas import DOCUMENTS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, Document, QuestionError, TableSpan

CACHED_DOCUMENTS: Final = 8
"""Documents kept in memory; the passages of one question come from few (ours, not in the papers)."""

_ROWS_AT_A_TIME: Final = 16


@dataclass(frozen=True, slots=True)
class _Place:
    file: str
    n_tokens: int


@dataclass
class DocumentStore:
    """The documents of an archive. Only ids, sizes and files are kept; texts are read when asked for.

    May be used from many threads.
    """

    folder: Folder
    _places: dict[str, _Place] = field(default_factory=dict)
    _cache: OrderedDict[str, Document] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(cls, folder: Folder, documents: Iterable[tuple[str, str, int]]) -> DocumentStore:
        """The documents of a version: (doc_id, file, tokens) of each."""
        return cls(folder, {doc_id: _Place(file, n_tokens) for doc_id, file, n_tokens in sorted(documents)})

    @classmethod
    def open(cls, folder: Folder) -> DocumentStore:
        """Read where each document of an archive of the layout before versions stands.

        Raises ArchiveError when a doc_id stands twice or a file cannot be read.
        """
        store = cls(folder)
        for name in folder.names(".parquet"):
            if not name.startswith("part-"):  # of a version that was made since
                continue
            try:
                store._note(name)
            except (OSError, ValueError) as error:
                raise ArchiveError(
                    f"{folder.at(name).path} cannot be read: {error}. Run okralong index on the archive again."
                ) from error
        store._places = dict(sorted(store._places.items()))
        return store

    def _note(self, name: str) -> None:
        with self.folder.filesystem.open_input_file(self.folder.at(name).path) as file:
            parquet = pq.ParquetFile(file)
            columns = parquet.read(["doc_id", "n_tokens"]).to_pydict()
            for doc_id, n_tokens in zip(columns["doc_id"], columns["n_tokens"], strict=True):
                if doc_id in self._places:
                    raise ArchiveError(
                        f"The document {doc_id} stands twice in {self.folder.path}: in {self._places[doc_id].file} "
                        f"and in {name}. Delete the folder and run okralong index again."
                    )
                self._places[doc_id] = _Place(name, n_tokens)

    def doc_ids(self) -> list[str]:
        """All doc_ids, sorted."""
        return list(self._places)

    def __contains__(self, doc_id: str) -> bool:
        return doc_id in self._places

    def n_tokens(self, doc_id: str) -> int:
        """Length of a document in o200k_base tokens. Raises QuestionError for an unknown doc_id."""
        return self._place(doc_id).n_tokens

    def document(self, doc_id: str) -> Document:
        """A document with its text. Raises QuestionError for an unknown doc_id."""
        with self._lock:
            if doc_id in self._cache:
                self._cache.move_to_end(doc_id)
                return self._cache[doc_id]
        document = _document(self._read(doc_id, self._place(doc_id).file))
        with self._lock:
            self._cache[doc_id] = document
            while len(self._cache) > CACHED_DOCUMENTS:
                self._cache.popitem(last=False)
        return document

    def _place(self, doc_id: str) -> _Place:
        if doc_id not in self._places:
            raise QuestionError(
                f"The archive has no document {doc_id!r} in {self.folder.path}. Check the doc_ids of the question."
            )
        return self._places[doc_id]

    def _read(self, doc_id: str, name: str) -> dict[str, Any]:
        # First the ids alone, then batches, which keep the memory at a few documents, however many share a file.
        with self.folder.filesystem.open_input_file(self.folder.at(name).path) as file:
            parquet = pq.ParquetFile(file)
            for group in range(parquet.num_row_groups):
                left = pc.index(parquet.read_row_group(group, ["doc_id"])["doc_id"], doc_id).as_py()
                if left < 0:
                    continue
                for batch in parquet.iter_batches(_ROWS_AT_A_TIME, row_groups=[group], columns=DOCUMENTS.names):
                    if left < len(batch):
                        return dict(batch.slice(left, 1).to_pylist()[0])
                    left -= len(batch)
        raise ArchiveError(
            f"{self.folder.at(name).path} has changed since the archive was opened. Open the archive again."
        )


def _document(row: dict[str, Any]) -> Document:
    return Document(
        doc_id=row["doc_id"],
        text=row["text"],
        title=row["title"] or "",
        source_uri=row["source_uri"] or "",
        sha256=row["sha256"] or "",
        n_tokens=row["n_tokens"],
        tables=tuple(TableSpan(**span) for span in row["tables"] or ()),
        metadata=dict(row["metadata"] or ()),
    )
