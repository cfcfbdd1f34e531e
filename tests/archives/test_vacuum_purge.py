"""Taking away: old versions and leftovers by vacuum, a document for good by purge."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.vectors import VectorStore, key_bytes, text_keys
from okralong.pipelines.archive.versions import version_numbers
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, InputError
from okralong.pipelines.indexing.maintenance import purge, vacuum
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


def test_purge_leaves_no_word_no_vector_and_no_earlier_version(tmp_path: Path) -> None:
    nights = three_nights(tmp_path)
    mine = chunk_texts(nights[2], "secret")
    others = {doc_id: nights[2].document(doc_id).text for doc_id in nights[2].doc_ids() if doc_id != "secret"}
    assert "zebrafish" in words_in(tmp_path)
    done = purge(Folder.of(tmp_path), "secret")
    assert (done.version, version_numbers(Folder.of(tmp_path))) == (4, [4])
    assert "zebrafish" not in words_in(tmp_path)
    archive = Archive.open(tmp_path)
    assert {doc_id: archive.document(doc_id).text for doc_id in archive.doc_ids()} == others
    fresh = night(tmp_path.with_name("fresh"), others)
    assert contents(archive) == contents(fresh)
    store = VectorStore.of(Folder.of(tmp_path), archive.manifest["files"]["encoder"])
    held = {key for number in store.numbers() for key in key_bytes(store.keys(number))}
    assert not held & set(key_bytes(text_keys(mine)))
    assert archive.manifest["purged"] == ["secret"]
    assert purge(Folder.of(tmp_path), "secret").version == 4  # a second call finishes what a first one may have left
    seen: list[str] = []
    night(tmp_path, others | {"new": made_up("new")}, seen)
    assert seen
    assert not set(seen) & set(chunk_texts(fresh))


def test_a_document_that_is_not_there_or_the_only_one_is_not_purged(tmp_path: Path) -> None:
    night(tmp_path, {"a": made_up("a")})
    with pytest.raises(InputError, match=r"No version of .* has a document 'b'.*nothing was purged"):
        purge(Folder.of(tmp_path), "b")
    with pytest.raises(InputError, match="is the only document"):
        purge(Folder.of(tmp_path), "a")


def test_one_that_only_an_earlier_version_has_is_purged_with_it(tmp_path: Path) -> None:
    three_nights(tmp_path)
    assert made_up("b") in words_in(tmp_path)
    purge(Folder.of(tmp_path), "b")
    assert made_up("b") not in words_in(tmp_path)


def test_the_commands_say_what_there_is_and_what_went(tmp_path: Path) -> None:
    three_nights(tmp_path)
    place, run = str(tmp_path), CliRunner().invoke
    log = run(app, ["archive", "log", place]).stdout.splitlines()
    assert [line.split()[1] for line in log] == ["3", "2", "1"]
    diff = run(app, ["archive", "diff", place, "1"]).stdout.splitlines()
    assert diff == ["version 1 to 3: 0 added, 1 changed, 1 removed", "~ a", "- b"]
    assert "versions kept: 2, 3; would go: 1" in run(app, ["archive", "vacuum", place, "--dry-run"]).stdout
    assert "versions kept: 2, 3; gone: 1" in run(app, ["archive", "vacuum", place]).stdout
    gone = run(app, ["archive", "diff", place, "1"])
    assert isinstance(gone.exception, ArchiveError)
    assert gone.exception.exit_code == 2
    assert "secret is purged: version 4" in run(app, ["archive", "purge", place, "secret"]).stdout
    assert "purged so far: secret" in run(app, ["archive", "log", place]).stdout
    assert isinstance(run(app, ["archive", "log", str(tmp_path / "none")]).exception, ArchiveError)
    wrong = run(app, ["archive", "purge", place, "a", "--run", place])
    assert isinstance(wrong.exception, InputError)
