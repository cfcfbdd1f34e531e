"""Taking an old archive away before another is built in its place."""

from __future__ import annotations

from typing import Final

from okralong.pipelines.storage import MANIFEST, Folder

TABLES: Final = ("documents", "chunks", "embeddings", "index", "failures")
"""What an archive may hold beside its manifest."""


def clear_archive(folder: Folder) -> None:
    """Delete the archive in ``folder``, manifest first, so that a half-built one is never taken for whole."""
    folder.remove(MANIFEST)
    for name in TABLES:
        if folder.exists(name):
            folder.filesystem.delete_dir(folder.at(name).path)
