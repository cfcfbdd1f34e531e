"""Files of an archive as files of this machine, for as long as it takes to map them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyarrow import fs

from okralong.pipelines.core.storage import Folder


@contextmanager
def mapped_here(folder: Folder, *names: str) -> Iterator[Path]:
    """Where ``folder`` (of it only ``names``, if given) can be mapped: itself, or a copy where it is not on a disk.

    The copy's names are gone when the context ends, and its contents when the last mapping of it does. A process that
    holds a shard is killed when its run ends, so nothing that it could do later would take a copy away.
    """
    if folder.is_local:
        yield Path(folder.path)
        return
    with tempfile.TemporaryDirectory(prefix="okralong-shard-", ignore_cleanup_errors=True) as copied_to:
        if names:
            for name in names:
                folder.copy_out(name, Path(copied_to, name))
        else:
            fs.copy_files(folder.path, copied_to, source_filesystem=folder.filesystem)
        yield Path(copied_to)
