"""What a method had the generator write about a document (RAPTOR's trees, GraphRAG's graphs), kept with the archive.

A row is a file ``artifacts/DOCUMENT/KEY.parquet``. ``DOCUMENT`` is the beginning of the hash of the document's id and
text, so that a changed document has none of its old ones, and vacuum and purge know whose a file is. ``KEY`` covers all
else that can change what was written: the method, its version and its values of the policy, the generator with its
settings, the chunks and the encoder. A file is written under a name of its own and then given its name in one step: no
lock is taken, of two runs that write the same the first one's stays, and who is killed leaves nothing half-written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.versions import digest, latest_version
from okralong.pipelines.core.codec import encode
from okralong.pipelines.core.schemas import ARTIFACTS as SCHEMA
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import OkraError, Usage

if TYPE_CHECKING:
    from okralong.pipelines.archive.archive import Archive

ARTIFACTS: Final = "artifacts"
"""The folder of an archive that holds them."""
PURGED: Final = "its document was purged"
"""Why one is not kept."""


def artifacts_of(archive: Folder, document_sha256: str) -> Folder:
    """Where those of a document of this content are."""
    return archive.at(ARTIFACTS, document_sha256[:16])


@dataclass(frozen=True, slots=True)
class Expense:
    """What an artifact cost when it was made: calls that brought a reply, tokens (the generator's own), US dollars."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    @classmethod
    def of(cls, calls: int, usage: Usage, cost_usd: float) -> Expense:
        """That of some calls together."""
        return cls(calls, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, cost_usd)


@dataclass(frozen=True, slots=True)
class Artifact:
    """``made`` is a value of JSON."""

    made: Any
    expense: Expense


@dataclass(frozen=True, slots=True)
class ArtifactPlace:
    """The place of one artifact in an archive. ``about`` is what its key is made of, values of JSON."""

    archive: Folder
    doc_id: str
    document_sha256: str
    about: Mapping[str, Any]

    @classmethod
    def of(
        cls, archive: Archive, doc_id: str, method: str, version: int, policy: Mapping[str, Any], by: Mapping[str, Any]
    ) -> ArtifactPlace:
        """That of what the ``version`` of a method makes of a document with values of the ``policy`` and a generator
        with the settings ``by``. Raises QuestionError for a document that the archive has not.
        """
        manifest = archive.manifest
        about = {
            "method": method,
            "version": version,
            "policy": dict(policy),
            "generator": dict(by),
            "chunks": manifest["config"]["boundaries"],
            "encoder": [manifest["files"]["encoder"], manifest["embedding"].get("of")],
        }
        return cls(archive.folder, doc_id, archive.document(doc_id).sha256, json.loads(encode(about)))

    @property
    def key(self) -> str:
        """Of the document's artifacts this one: 16 hex digits."""
        return digest((self.document_sha256, encode(self.about)))

    @property
    def _file(self) -> str:
        return f"{self.key}.parquet"

    @property
    def _folder(self) -> Folder:
        return artifacts_of(self.archive, self.document_sha256)

    def read(self) -> Artifact | None:
        """What is kept here; None where nothing is, or nothing that can be read."""
        try:
            (row,) = self._folder.read_table(self._file).to_pylist()
            if (row["doc_id"], row["document_sha256"]) != (self.doc_id, self.document_sha256):
                return None
            expense = Expense(**{name: row[name] for name in Expense.__slots__})
            return Artifact(json.loads(row["made"]), expense)
        except (OSError, ValueError, KeyError, TypeError, OkraError, pa.ArrowException):
            return None

    def write(self, artifact: Artifact) -> str:
        """Keep it, unless it is kept already or its document was purged meanwhile. "" where it is kept now, else why it
        is not: an archive may be read-only, or its disk full, and the run that made it has it all the same.
        """
        try:
            if self._folder.exists(self._file):
                return ""
            if self._is_purged():
                return PURGED
            row = {
                "doc_id": self.doc_id,
                "document_sha256": self.document_sha256,
                "method": self.about["method"],
                "version": self.about["version"],
                "model": str(self.about["generator"].get("model", "")),
                "about": encode(self.about),
                "made": encode(artifact.made),
                **{name: getattr(artifact.expense, name) for name in Expense.__slots__},
                "written_at": datetime.now(UTC),
            }
            buffer = BytesIO()
            pq.write_table(pa.Table.from_pylist([row], schema=SCHEMA), buffer, compression="zstd")
            self._folder.create_bytes(self._file, buffer.getvalue())
            if self._is_purged():  # a purge since then has looked for files before this one was there
                self._folder.remove(self._file)
                return PURGED
        except FileExistsError:  # another run was faster
            return ""
        except Exception as error:  # whatever a store raises: what was paid for must not be lost over it
            said = str(error).strip().splitlines()
            return f"{type(error).__name__}: {said[0][:200] if said else ''}"
        return ""

    def _is_purged(self) -> bool:
        newest = latest_version(self.archive)
        return newest is None or self.doc_id in newest.get("purged", ())
