"""Taking away: old versions and leftovers by vacuum, a document for good by purge."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.vectors import VectorStore, key_bytes, text_keys
from okralong.pipelines.archive.versions import diff_versions, read_version, replace_version, version_numbers
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, InputError
from okralong.pipelines.indexing import maintenance
from okralong.pipelines.indexing.maintenance import plan_purge, purge, purges, vacuum
from okralong.pipelines.reporting.cited import archive_of
from tests.archives.nights import chunk_texts, contents, made_up, night, words_in

SECRET = "The zebrafish of Quillon weighs 31 stone."
KILLED = "0123456789abcdef"


def three_nights(place: Path) -> list[Archive]:
    first = {name: made_up(name) for name in "abcd"} | {"secret": f"{SECRET} {made_up('s')}"}
    second = first | {"a": made_up("a2")}
    third = {name: text for name, text in second.items() if name != "b"}
    return [night(place, texts) for texts in (first, second, third)]


def test_vacuum_keeps_the_newest_and_all_that_they_need(tmp_path: Path) -> None:
    nights = three_nights(tmp_path)
    before = contents(nights[1]), contents(nights[2])
    folder = Folder.of(tmp_path)
    folder.at("outcomes").write_bytes(f"{KILLED}.parquet", b"left by a killed job")
    folder.at("documents").write_bytes(f"{KILLED}-00.parquet", b"left by a killed job")
    (tmp_path / "notes.txt").write_text("mine")
    every = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    dry = vacuum(folder, 2, dry_run=True)
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == every
    done = vacuum(folder, 2)
    assert dry == done
    assert (done.kept, done.versions) == ((2, 3), (1,))
    assert done.files > 3
    assert done.bytes > 0
    assert (contents(Archive.open(f"{tmp_path}@2")), contents(Archive.open(tmp_path))) == before
    with pytest.raises(ArchiveError, match=r"no version 1; it has 2, 3"):
        Archive.open(nights[0].location)
    assert not list(tmp_path.rglob(f"{KILLED}*"))
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert vacuum(folder, 2).files == 0
    vacuum(folder, 1)
    assert contents(Archive.open(tmp_path)) == before[1]
    seen: list[str] = []
    night(tmp_path, {"a": made_up("a2"), "c": made_up("c")}, seen)
    assert seen == []


def test_purge_leaves_no_word_and_no_vector_and_every_other_document_in_every_version(tmp_path: Path) -> None:
    nights = three_nights(tmp_path)
    mine = chunk_texts(nights[2], "secret")
    others = [{key: each.document(key).text for key in each.doc_ids() if key != "secret"} for each in nights]
    metadata = nights[0].metadata().filter(pc.field("doc_id") != "secret")
    assert "zebrafish" in words_in(tmp_path)
    done = purge(Folder.of(tmp_path), "secret", by="anna")
    assert (done.version, done.rewritten, done.dropped) == (4, (1, 2, 3), ())
    assert version_numbers(Folder.of(tmp_path)) == [1, 2, 3, 4]
    assert "zebrafish" not in words_in(tmp_path)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"zebrafish" in path.read_bytes()]
    for number, texts in enumerate([*others, others[2]], start=1):
        archive = Archive.open(f"{tmp_path}@{number}")
        assert {key: archive.document(key).text for key in archive.doc_ids()} == texts
        assert contents(archive) == contents(night(tmp_path.with_name(f"fresh{number}"), texts))
        assert archive.manifest["purged"] == ["secret"]
        assert archive.manifest["documents"] == len(texts)
    assert Archive.open(f"{tmp_path}@1").metadata() == metadata
    store = VectorStore.of(Folder.of(tmp_path), archive.manifest["files"]["encoder"])
    held = {key for number in store.numbers() for key in key_bytes(store.keys(number))}
    assert not held & set(key_bytes(text_keys(mine)))
    assert purge(Folder.of(tmp_path), "secret").version == 4  # a second call finishes what a first one may have left
    [told] = purges(Folder.of(tmp_path))
    assert (told["by"], told["doc_id"], told["version"], told["rewritten"]) == ("anna", "secret", 4, [1, 2, 3])
    seen: list[str] = []
    night(tmp_path, others[2] | {"new": made_up("new")}, seen)
    assert seen
    assert not set(seen) & set(chunk_texts(archive))


def test_a_purged_document_counts_as_removed_since_the_versions_that_showed_it(tmp_path: Path) -> None:
    """Or else ``--changed-since`` would not ask again what rests on it."""
    night(tmp_path, {name: made_up(name) for name in "ab"})
    night(tmp_path, {name: made_up(name) for name in "abc"})
    before = {number: read_version(Folder.of(tmp_path), number)["fingerprint"] for number in (1, 2)}
    purge(Folder.of(tmp_path), "c")
    one, two, three = (read_version(Folder.of(tmp_path), number) for number in (1, 2, 3))
    assert diff_versions(Folder.of(tmp_path), two, three).removed == ("c",)
    assert diff_versions(Folder.of(tmp_path), one, two).none
    assert diff_versions(Folder.of(tmp_path), one, three).none
    assert one["fingerprint"] == before[1]  # it never held it, and is as it was
    assert two["fingerprint"] != before[2]
    begun = {"archive": f"{tmp_path}@2", "archive_fingerprint": before[2]}
    assert archive_of(begun)[1] == ""  # so the words of the other documents can still be shown


def test_a_purge_that_was_killed_is_finished_by_the_same_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three_nights(tmp_path)
    calls = []

    def killed(archive: Folder, manifest: Mapping[str, Any]) -> None:
        calls.append(manifest["version"])
        if len(calls) == 2:
            raise KeyboardInterrupt
        replace_version(archive, manifest)

    with monkeypatch.context() as patched:
        patched.setattr(maintenance, "replace_version", killed)
        with pytest.raises(KeyboardInterrupt):
            purge(Folder.of(tmp_path), "secret")
    assert "zebrafish" in words_in(tmp_path)
    done = purge(Folder.of(tmp_path), "secret")
    assert (done.version, done.rewritten) == (4, (2, 3))
    assert "zebrafish" not in words_in(tmp_path)
    assert version_numbers(Folder.of(tmp_path)) == [1, 2, 3, 4]


def test_a_version_that_showed_nothing_else_goes(tmp_path: Path) -> None:
    night(tmp_path, {"secret": SECRET})
    night(tmp_path, {"secret": SECRET, "a": made_up("a")})
    plan = plan_purge(Folder.of(tmp_path), "secret")
    assert (plan.versions, plan.alone) == ((1, 2), (1,))
    done = purge(Folder.of(tmp_path), "secret")
    assert (done.rewritten, done.dropped, version_numbers(Folder.of(tmp_path))) == ((2,), (1,), [2, 3])
    assert "zebrafish" not in words_in(tmp_path)


def test_a_document_that_is_not_there_or_the_only_one_is_not_purged(tmp_path: Path) -> None:
    night(tmp_path, {"a": made_up("a")})
    with pytest.raises(InputError, match=r"No version of .* has a document 'b'.*nothing was purged"):
        purge(Folder.of(tmp_path), "b")
    with pytest.raises(InputError, match="is the only document"):
        purge(Folder.of(tmp_path), "a")


def test_one_that_only_an_earlier_version_has_is_purged_with_it(tmp_path: Path) -> None:
    three_nights(tmp_path)
    assert made_up("b") in words_in(tmp_path)
    assert purge(Folder.of(tmp_path), "b").rewritten == (1, 2)
    assert made_up("b") not in words_in(tmp_path)
    assert Archive.open(f"{tmp_path}@1").doc_ids() == ["a", "c", "d", "secret"]


def test_the_commands_say_what_there_is_and_what_went(tmp_path: Path) -> None:
    three_nights(tmp_path)
    place, run = str(tmp_path), CliRunner().invoke
    log = run(app, ["archive", "log", place]).stdout.splitlines()
    assert [line.split()[1] for line in log] == ["3", "2", "1"]
    diff = run(app, ["archive", "diff", place, "1"]).stdout.splitlines()
    assert diff == ["version 1 to 3: 0 added, 1 changed, 1 removed", "~ a", "- b"]
    assert "versions kept: 2, 3; would remove: 1" in run(app, ["archive", "vacuum", place, "--dry-run"]).stdout
    assert "versions kept: 2, 3; removed: 1" in run(app, ["archive", "vacuum", place]).stdout
    gone = run(app, ["archive", "diff", place, "1"])
    assert isinstance(gone.exception, ArchiveError)
    assert gone.exception.exit_code == 2
    refused = run(app, ["archive", "purge", place, "secret"])
    assert isinstance(refused.exception, InputError)
    assert "there is no terminal to confirm at. Nothing was done. Add --yes" in str(refused.exception)
    assert "will be removed from versions 2, 3; other documents are kept" in refused.stdout
    assert Archive.open(place).version == 3
    purged = run(app, ["archive", "purge", place, "secret", "--yes"]).stdout
    assert "secret is purged; the newest version is 4" in purged
    log = run(app, ["archive", "log", place]).stdout
    assert re.search(r"purged \S+ by \S+: secret from versions 2, 3; published version 4", log)
    assert isinstance(run(app, ["archive", "log", str(tmp_path / "none")]).exception, ArchiveError)
    wrong = run(app, ["archive", "purge", place, "a", "--run", place])
    assert isinstance(wrong.exception, InputError)
