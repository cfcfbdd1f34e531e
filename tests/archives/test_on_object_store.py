"""Night after night on an S3 server that errs: what a reader sees is what it would see on a disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import publish, version_numbers
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import LockedError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.maintenance import purge, vacuum
from tests.archives.nights import contents, made_up, night
from tests.fakes.object_store import BUCKET, Fault, ObjectStore

CONFIG = IndexConfig(granularities=[32], shards=2)
"""Few files: the server and its errors cost a tenth of a second a request."""


def test_nights_vacuum_and_purge_are_the_same_there(tmp_path: Path, store: ObjectStore) -> None:
    place = f"s3://{BUCKET}/archive"
    store.faults = (Fault("error", "GET", 11), Fault("error", "PUT", 11))
    texts = {name: made_up(name) for name in "abcde"}
    for now in (texts, texts | {"a": made_up("a2"), "f": made_up("f")}):
        seen: dict[str, list[str]] = {"there": [], "here": []}
        there, here = (night(at, now, seen[name], CONFIG) for at, name in ((place, "there"), (tmp_path, "here")))
        assert seen["there"] == seen["here"] != []
        assert contents(there) == contents(here)
    assert store.met["error"] > 5
    with pytest.raises(LockedError, match="published by another process"):
        publish(Folder.of(place), {"version": 2})
    done = purge(Folder.of(place), "c"), purge(Folder.of(tmp_path), "c")
    assert done[0].rewritten == done[1].rewritten
    assert done[0].rewritten
    assert contents(Archive.open(place)) == contents(Archive.open(tmp_path))
    night(place, texts, config=CONFIG)
    assert vacuum(Folder.of(place), 1).kept == (4,)
    assert version_numbers(Folder.of(place)) == [4]
    assert Archive.open(place).doc_ids() == list("abde")
