"""Purge, where parts still hold what a document was before: parts are shared, and keep documents that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.vectors import VectorStore, key_bytes, text_keys
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.maintenance import purge, vacuum
from tests.archives.later import later
from tests.archives.nights import chunk_texts, contents, made_up, night, words_in

SECRET = "The zebrafish of Quillon weighs 31 stone."


@pytest.mark.parametrize("then", ["changed", "gone"])
def test_the_text_that_a_document_had_before_goes_from_a_part_that_others_need(tmp_path: Path, then: str) -> None:
    place = tmp_path / "archive"
    others = {name: made_up(name) for name in "abc"}
    first = night(place, others | {"secret": f"{SECRET} {made_up('s')}"})
    mine = set(chunk_texts(first, "secret"))
    if then == "changed":
        later(place, {"secret": made_up("harmless"), "d": made_up("d")})
    else:
        later(place, {"d": made_up("d")}, gone=["secret"])
    purge(Folder.of(place), "secret")
    assert "zebrafish" not in words_in(place)
    archive = Archive.open(place)
    assert archive.doc_ids() == ["a", "b", "c", "d"]
    assert contents(archive) == contents(night(tmp_path / "fresh", others | {"d": made_up("d")}))
    store = VectorStore.of(Folder.of(place), archive.manifest["files"]["encoder"])
    held = {key for number in store.numbers() for key in key_bytes(store.keys(number))}
    assert not held & set(key_bytes(text_keys(sorted(mine))))


def test_one_that_only_a_part_still_holds_is_purged_from_it(tmp_path: Path) -> None:
    night(tmp_path, {name: made_up(name) for name in "ab"} | {"secret": SECRET})
    later(tmp_path, {"d": made_up("d")}, gone=["secret"])
    vacuum(Folder.of(tmp_path), 1)  # no version names it, the part of a and b has it
    assert "zebrafish" in words_in(tmp_path)
    assert purge(Folder.of(tmp_path), "secret").version == 3
    assert "zebrafish" not in words_in(tmp_path)
    assert purge(Folder.of(tmp_path), "secret").version == 3
