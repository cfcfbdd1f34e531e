"""Folders that are not to be trusted: links, loops, pipes, and names that are no text."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from okralong.pipelines.core.types import InputError
from okralong.pipelines.indexing.listing import Listing, list_sources, with_hashes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sources"
    folder.mkdir()
    (folder / "good.txt").write_text("good", encoding="utf-8")
    return folder


def listed(folder: Path) -> Listing:
    listing = list_sources([str(folder)])
    for bad in listing.bad:
        assert str(folder) in bad.message
        assert "\n" not in bad.message
        assert bad.message.isprintable()
    return listing


def only_bad(folder: Path) -> tuple[str, str]:
    listing = listed(folder)
    assert [source.doc_id for source in listing.sources] == ["good"]
    (bad,) = listing.bad
    return bad.doc_id, bad.message


def test_a_link_out_of_the_folder_is_not_read(folder: Path) -> None:
    (folder.parent / "secret.txt").write_text("a key of another user", encoding="utf-8")
    (folder / "report.txt").symlink_to("../secret.txt")
    assert only_bad(folder) == (
        "report",
        f"{folder}/report.txt is a link that leads out of its folder. Put a copy there, or give --from the original.",
    )


def test_neither_is_a_folder_by_such_a_link(folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret.txt").write_text("a key of another user", encoding="utf-8")
    (folder / "more").symlink_to(elsewhere)
    assert "leads out of its folder" in only_bad(folder)[1]
    assert [source.doc_id for source in list_sources([str(folder / "more")]).sources] == ["secret"]


def test_folders_that_lead_into_themselves_are_read_once(folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "last.txt").write_text("last", encoding="utf-8")
    (folder / "latest.txt").symlink_to("deep/last.txt")
    for name in ("one", "two", "deep/three"):
        (folder / name).symlink_to(folder)  # followed, these would be 3 ** 40 folders
    listing = listed(folder)
    assert [source.doc_id for source in listing.sources] == ["deep/last", "good", "latest"]
    assert not listing.bad


def test_a_link_that_leads_nowhere_is_told(folder: Path) -> None:
    (folder / "report.txt").symlink_to("report.txt")
    assert "is a broken link (Too many levels of symbolic links)" in only_bad(folder)[1]
    (folder / "report.txt").unlink()
    (folder / "report.txt").symlink_to("gone.txt")
    assert "is a broken link (No such file or directory)" in only_bad(folder)[1]


def test_a_link_to_a_hidden_folder_is_told(folder: Path) -> None:
    (folder / ".kept").mkdir()
    (folder / "kept").symlink_to(".kept")
    assert "is a link to a hidden folder" in only_bad(folder)[1]


def test_what_never_ends_is_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe.txt")
    os.mkfifo(folder / "pipe.of-no-kind-that-is-read")
    with socket.socket(socket.AF_UNIX) as open_socket:
        open_socket.bind(str(folder / "socket.md"))
        listing = listed(folder)
    assert [source.sha256[:4] for source in with_hashes(listing.sources)] == ["770e"]
    assert [bad.doc_id for bad in listing.bad] == ["pipe", "socket"]
    assert all("is a pipe, socket or device" in bad.message for bad in listing.bad)
    with pytest.raises(InputError, match=r"pipe.txt is neither file nor folder"):
        list_sources([str(folder / "pipe.txt")])


@pytest.mark.parametrize("name", [b"a\nb.txt", b"a\x1b[31mb.txt", b"caf\xe9.txt", "a\u2028b.txt".encode()])
def test_a_name_that_is_no_line_of_text_is_a_failure(folder: Path, name: bytes) -> None:
    path = os.path.join(os.fsencode(folder), name)
    with open(path, "wb") as file:
        file.write(b"text")
    assert "control characters, or bytes that are not UTF-8" in only_bad(folder)[1]


def test_a_folder_deeper_than_a_path_may_be_long_is_a_failure(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("d" * 200, dir_fd=here)
        below = os.open("d" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert "cannot be listed (File name too long)" in only_bad(folder)[1]


def test_a_file_that_grows_is_hashed_as_it_was_listed(folder: Path) -> None:
    listing = listed(folder)
    with (folder / "good.txt").open("a", encoding="utf-8") as file:
        file.write(" and more")
    (hashed,) = with_hashes(listing.sources)
    assert hashed.sha256.startswith("770e607624d689265ca6")


def test_a_folder_of_nothing_but_failures_says_the_first(folder: Path) -> None:
    (folder / "good.txt").unlink()
    (folder / "report.txt").symlink_to("gone.txt")
    with pytest.raises(InputError, match=r"report.txt is a broken link"):
        list_sources([str(folder)])


def test_files_of_the_system_are_left_out(folder: Path) -> None:
    for name in ("Thumbs.db", "desktop.ini", ".DS_Store", "~$good.docx"):
        (folder / name).write_bytes(b"x")
    listing = listed(folder)
    assert ([source.doc_id for source in listing.sources], listing.bad, listing.skipped) == (["good"], (), ())
