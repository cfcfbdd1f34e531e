"""Files that were uploaded or made by a batch, held in memory."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import Any

from tests.fakes.endpoint.problems import not_found


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file and its content. ``created_at`` is in seconds since the epoch, as everywhere in the API."""

    id: str
    filename: str
    purpose: str
    content: bytes
    created_at: int

    def public(self) -> dict[str, Any]:
        """The File object as the API shows it."""
        return {
            "id": self.id,
            "object": "file",
            "bytes": len(self.content),
            "created_at": self.created_at,
            "expires_at": None,
            "filename": self.filename,
            "purpose": self.purpose,
            "status": "processed",
            "status_details": None,
        }


class FileStore:
    """All files, by id."""

    def __init__(self) -> None:
        self._files: dict[str, StoredFile] = {}

    def add(self, filename: str, purpose: str, content: bytes) -> StoredFile:
        """Keep a file under a new id."""
        file = StoredFile(f"file-{uuid.uuid4().hex[:22]}", filename, purpose, content, int(time.time()))
        self._files[file.id] = file
        return file

    def put(self, file_id: str, content: bytes) -> None:
        """Keep ``content`` under an id, in place of what was there."""
        self._files[file_id] = StoredFile(file_id, "results.jsonl", "batch", content, int(time.time()))

    def get(self, file_id: str) -> StoredFile:
        """The file. Raises Problem when there is none of that id."""
        if file_id not in self._files:
            raise not_found("File", file_id)
        return self._files[file_id]

    def delete(self, file_id: str) -> None:
        """Forget a file. Raises Problem when there is none of that id."""
        self.get(file_id)
        del self._files[file_id]

    def all(self) -> list[StoredFile]:
        """Every file, the newest first."""
        return list(reversed(self._files.values()))
