"""Store artifacts that methods derive from a document with the generator (RAPTOR's trees, GraphRAG's graphs).

Each is a file ``artifacts/DOCUMENT/KEY.parquet`` of the archive. ``DOCUMENT`` is the beginning of the hash of the
document's id and text, so a changed document has no artifacts at first, and vacuum and purge know to which document a
file belongs. ``KEY`` covers everything else that affects the result: the method, its version and policy values, the
generator and its settings, the chunks and the encoder. Files are created atomically and without a lock: of two runs
that write the same artifact, the first wins.
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
"""The folder of an archive that has its artifacts."""
PURGED: Final = "its document was purged"
"""Reason for not storing an artifact."""


def artifacts_of(archive: Folder, document_sha256: str) -> Folder:
    """Return the folder for the artifacts of the document with this hash."""
    return archive.at(ARTIFACTS, document_sha256[:16])


@dataclass(frozen=True, slots=True)
class Expense:
    """The cost of making an artifact: calls that returned a reply, tokens as the generator counts them, US dollars."""

    calls: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    @classmethod
    def of(cls, calls: int, usage: Usage, cost_usd: float) -> Expense:
        """Return the total expense of several calls."""
        return cls(calls, usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens, cost_usd)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A finished artifact: ``made``, which is JSON-serializable, and its cost."""

    made: Any
    expense: Expense


@dataclass(frozen=True, slots=True)
class ArtifactPlace:
    """The place of an artifact in an archive. Its key is a hash of ``about``, which is JSON-serializable."""

    archive: Folder
    doc_id: str
    document_sha256: str
    about: Mapping[str, Any]

    @classmethod
    def of(
        cls, archive: Archive, doc_id: str, method: str, version: int, policy: Mapping[str, Any], by: Mapping[str, Any]
    ) -> ArtifactPlace:
        """Return the place of a method's artifact for a document. Raises QuestionError for an unknown document.

        ``policy`` has the policy values and ``by`` the generator's settings that affect the result.
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
        """The artifact's key among those of the document: 16 hex digits."""
        return digest((self.document_sha256, encode(self.about)))

    @property
    def _file(self) -> str:
        return f"{self.key}.parquet"

    @property
    def _folder(self) -> Folder:
        return artifacts_of(self.archive, self.document_sha256)

    def read(self) -> Artifact | None:
        """Return the stored artifact, or None if it is missing or unreadable."""
        try:
            (row,) = self._folder.read_table(self._file).to_pylist()
            if (row["doc_id"], row["document_sha256"]) != (self.doc_id, self.document_sha256):
                return None
            expense = Expense(**{name: row[name] for name in Expense.__slots__})
            return Artifact(json.loads(row["made"]), expense)
        except (OSError, ValueError, KeyError, TypeError, OkraError, pa.ArrowException):
            return None

    def write(self, artifact: Artifact) -> str:
        """Store the artifact unless it exists already; return "", or the reason why it was not stored.

        It is not stored if its document was purged, the archive is read-only or the disk full. The run can still use
        it.
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
            if self._is_purged():  # a concurrent purge may have listed the files before this one existed
                self._folder.remove(self._file)
                return PURGED
        except FileExistsError:  # another run wrote it first
            return ""
        except Exception as error:  # a failure to store must not lose a paid result
            said = str(error).strip().splitlines()
            return f"{type(error).__name__}: {said[0][:200] if said else ''}"
        return ""

    def _is_purged(self) -> bool:
        newest = latest_version(self.archive)
        return newest is None or self.doc_id in newest.get("purged", ())
