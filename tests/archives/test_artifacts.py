"""What methods had written about documents, kept with the archive: found by content, taken away with its document."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import BaseError

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.artifacts import ARTIFACTS, PURGED, Artifact, ArtifactPlace, Expense
from okralong.pipelines.core.schemas import ARTIFACTS as SCHEMA
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import QuestionError, Usage
from okralong.pipelines.indexing import chunking
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.maintenance import purge, vacuum
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.models import serving
from okralong.pipelines.models.serving import choose
from okralong.pipelines.models.weights import EMBEDDED
from tests.archives.nights import made_up, night, words_in
from tests.fakes.object_store import BUCKET, Fault, ObjectStore

POLICY = {"granularity": 150, "layers": 5}
SECRET = "zebrafish of Quillon"
MADE = {"entities": [["Quillon", "place", f"The {SECRET}.", [0], "AAAA"]], "weight": 0.1 + 0.2}
EXPENSE = Expense.of(7, Usage(1000, 200, 300), 1.25)


def settings(**changed: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"base_url": "http://localhost:1/v1", "model": "gpt-4o-2024-08-06"}
    weights = changed.pop("weights", "")
    return LlmConfig(**config | changed).reply_settings(("report", "extract"), weights)


def place(
    archive: Archive, doc_id: str = "a", method: str = "graphrag", version: int = 1, **changed: Any
) -> ArtifactPlace:
    return ArtifactPlace.of(archive, doc_id, method, version, POLICY | {"doc_id": doc_id}, settings(**changed))


def files(at: Path) -> list[Path]:
    return sorted(path for path in (at / ARTIFACTS).rglob("*") if path.is_file())


def test_a_model_that_is_served_here_is_its_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = night(tmp_path / "archive", {name: made_up(name) for name in "ab"})
    model, tokenizer = tmp_path / "model.gguf", tmp_path / "tokenizer"
    model.write_text("{}")
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text("{}")
    monkeypatch.setattr(serving, "gguf_tokenizer", lambda gguf: tokenizer)

    def mine() -> str:
        served = choose(str(model), "auto", parallel=1, window=512)
        given = {"base_url": EMBEDDED, "model": served.name, "tokenizer": served.tokenizer}
        return place(archive, **given, weights=served.identity).key

    before = mine()
    assert mine() == before
    os.utime(model, (1, 1))  # trained anew in place: weights of the same size
    assert mine() != before
    shipped = {"base_url": EMBEDDED, "model": "SmolLM2-135M-Instruct-reader-Q8_0"}
    assert len({place(archive, **shipped, weights=f"llama.cpp:0+{reader}").key for reader in "abb"}) == 2


def test_it_is_found_by_content_method_values_and_generator(tmp_path: Path) -> None:
    archive = night(tmp_path, {name: made_up(name) for name in "ab"})
    tokenizer = tmp_path / "tokenizer"
    tokenizer.mkdir()
    (tokenizer / "tokenizer.json").write_text("{}")
    mine = place(archive)
    assert mine.read() is None
    assert mine.write(Artifact(MADE, EXPENSE)) == ""
    kept = place(Archive.open(tmp_path)).read()
    assert kept == Artifact(MADE, EXPENSE)
    (file,) = files(tmp_path)
    assert Folder.of(file.parent).read_tables(SCHEMA).to_pylist()[0]["model"] == "gpt-4o-2024-08-06"
    others = [
        place(archive, "b"),
        place(archive, method="raptor"),
        place(archive, version=2),
        place(archive, model="gpt-4o-mini-2024-07-18"),
        place(archive, seed=8),
        place(archive, max_completion_tokens={"extract": 128}),
        place(archive, base_url="http://localhost:2/v1"),  # which may be a mock
        place(archive, api_version="2024-10-21"),
        place(archive, tokenizer=str(tokenizer)),
        ArtifactPlace.of(archive, "a", "graphrag", 1, POLICY | {"doc_id": "a", "layers": 4}, settings()),
    ]
    assert [each.read() for each in others] == [None] * 10
    assert len({each.key for each in (mine, *others)}) == 11
    # Limits of roles that it does not use change nothing, nor does the account.
    same = [place(archive, max_completion_tokens={"generate": 20}), place(archive, api_key_env="OTHER_KEY")]
    assert [each.read() for each in same] == [kept, kept]
    # A tokenizer is its content, wherever it lies.
    copied = Path(shutil.copytree(tokenizer, tmp_path / "copied"))
    assert place(archive, tokenizer=str(copied)).key == place(archive, tokenizer=str(tokenizer)).key
    (copied / "tokenizer.json").write_text("{} ")
    assert place(archive, tokenizer=str(copied)).key != place(archive, tokenizer=str(tokenizer)).key
    with pytest.raises(QuestionError, match="no document 'z'"):
        place(archive, "z")


def test_other_chunks_or_another_encoder_are_another_artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {name: made_up(name) for name in "ab"}
    config = IndexConfig(granularities=[32], shards=1)
    today = night(tmp_path / "today", texts, config=config)
    monkeypatch.setattr(chunking, "CHUNKER", 1)
    assert place(today).key != place(night(tmp_path / "earlier", texts, config=config)).key


def test_a_changed_document_does_not_find_it_and_vacuum_takes_it_away(tmp_path: Path) -> None:
    texts = {name: made_up(name) for name in "ab"}
    first = night(tmp_path, texts)
    for doc_id in "ab":
        assert place(first, doc_id).write(Artifact(MADE, EXPENSE)) == ""
    second = night(tmp_path, texts | {"a": made_up("a2")})
    assert place(second).read() is None
    assert place(second, "b").read() is not None
    assert place(Archive.open(first.location)).read() is not None, "who reads the first version has its document"
    (tmp_path / ARTIFACTS / "notes.txt").write_text("mine")
    vacuum(Folder.of(tmp_path), 2)
    assert len(files(tmp_path)) == 3
    dry = vacuum(Folder.of(tmp_path), 1, dry_run=True)
    assert len(files(tmp_path)) == 3
    assert vacuum(Folder.of(tmp_path), 1) == dry
    assert place(second, "b").read() is not None
    assert len(files(tmp_path)) == 2
    assert (tmp_path / ARTIFACTS / "notes.txt").read_text() == "mine"


def test_purge_leaves_no_word_of_it_also_of_what_the_document_was(tmp_path: Path) -> None:
    texts = {name: made_up(name) for name in "ab"}
    before = night(tmp_path, texts)
    assert place(before).write(Artifact(MADE, EXPENSE)) == ""
    now = night(tmp_path, texts | {"a": made_up("a2")})
    mine = place(now)
    assert mine.write(Artifact(MADE, EXPENSE)) == ""
    assert place(now, "b").write(Artifact({"entities": []}, EXPENSE)) == ""
    assert len(files(tmp_path)) == 3
    purge(Folder.of(tmp_path), "a")
    assert len(files(tmp_path)) == 1
    assert "zebrafish" not in words_in(tmp_path)
    assert place(Archive.open(tmp_path), "b").read() is not None
    # A run that began before the purge writes nothing back.
    assert mine.write(Artifact(MADE, EXPENSE)) == "its document was purged"
    assert len(files(tmp_path)) == 1


def test_a_purge_while_it_is_being_written_takes_it_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = night(tmp_path, {name: made_up(name) for name in "ab"})
    create = Folder.create_bytes

    def purged_before(folder: Folder, name: str, data: bytes) -> None:
        monkeypatch.undo()
        purge(Folder.of(tmp_path), "a")  # it looks for files of the document before this one is there
        create(folder, name, data)

    monkeypatch.setattr(Folder, "create_bytes", purged_before)
    assert place(archive).write(Artifact(MADE, EXPENSE)) == PURGED
    assert files(tmp_path) == []
    assert "zebrafish" not in words_in(tmp_path)


def test_whatever_a_store_raises_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = night(tmp_path, {name: made_up(name) for name in "ab"})

    def refused(folder: Folder, name: str, data: bytes) -> None:
        raise BaseError("no such option\nand more")  # as obstore has it where it cannot be set up

    monkeypatch.setattr(Folder, "create_bytes", refused)
    assert place(archive).write(Artifact(MADE, EXPENSE)) == "BaseError: no such option"


def test_an_archive_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    archive = night(tmp_path, {"a": made_up("a"), "b": made_up("b")})
    (tmp_path / ARTIFACTS).write_text("no folder")  # what a read-only mount does, also for root
    why = place(archive).write(Artifact(MADE, EXPENSE))
    assert "Error: " in why
    assert place(archive).read() is None


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_archive_says_so(tmp_path: Path) -> None:
    archive = night(tmp_path, {"a": made_up("a"), "b": made_up("b")})
    tmp_path.chmod(0o500)
    try:
        assert place(archive).write(Artifact(MADE, EXPENSE)).startswith("PermissionError: ")
    finally:
        tmp_path.chmod(0o700)


def test_what_cannot_be_read_is_not_there(tmp_path: Path) -> None:
    archive = night(tmp_path, {"a": made_up("a"), "b": made_up("b")})
    assert place(archive).write(Artifact(MADE, EXPENSE)) == ""
    (file,) = files(tmp_path)
    whole = pq.read_table(file)
    nothing = pa.nulls(1, pa.string())
    pq.write_table(whole.set_column(whole.schema.get_field_index("made"), "made", nothing), file)
    assert place(archive).read() is None
    file.write_bytes(file.read_bytes()[:100])
    assert place(archive).read() is None


WRITER = """
import sys
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.artifacts import Artifact, Expense
from tests.archives.test_artifacts import place
archive = Archive.open(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    mine = place(archive, version=number + 1)
    assert mine.write(Artifact({"by": sys.argv[2], "words": sys.argv[2] * 50_000}, Expense(1))) == ""
    found = mine.read()
    assert found is not None and set(found.made["words"]) == {found.made["by"]}, found
"""


def test_processes_that_write_the_same_at_once_leave_whole_files(tmp_path: Path) -> None:
    night(tmp_path, {"a": made_up("a"), "b": made_up("b")})
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), by], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for by in "xyz"
    ]
    for each in writers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in writers:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    assert [each.wait(60) for each in writers] == [0, 0, 0]
    assert len(files(tmp_path)) == 20
    assert all(file.suffix == ".parquet" for file in files(tmp_path))


def test_it_is_the_same_on_an_object_store(tmp_path: Path, store: ObjectStore) -> None:
    store.faults = (Fault("error", "GET", 11), Fault("error", "PUT", 11))
    at = f"s3://{BUCKET}/archive"
    archive = night(at, {name: made_up(name) for name in "ab"}, config=IndexConfig(granularities=[32], shards=1))
    mine = place(archive)
    assert mine.write(Artifact(MADE, EXPENSE)) == ""
    assert mine.write(Artifact({"another": "run"}, EXPENSE)) == "", "the first one's stays"
    assert place(Archive.open(at)).read() == Artifact(MADE, EXPENSE)
    purge(Folder.of(at), "a")
    assert mine.read() is None
    assert mine.write(Artifact(MADE, EXPENSE)) == "its document was purged"
    assert Folder.of(at).at(ARTIFACTS, mine.document_sha256[:16]).names() == []
