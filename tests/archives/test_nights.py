"""Night after night: the archive is that of one run over all documents, and the cost is that of what is new."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import diff_versions, read_version
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing import chunking
from okralong.pipelines.indexing.chunking import chunk_document
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument, make_document
from okralong.pipelines.indexing.maintenance import purge, vacuum
from tests.archives.nights import CONFIG, contents, made_up, night


def texts_of(documents: dict[str, str]) -> set[str]:
    made = [make_document(RawDocument(doc_id, text, "")) for doc_id, text in documents.items()]
    return {chunk.text for each in made for size in CONFIG.granularities for chunk in chunk_document(each, size)}


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2))])
def test_night_by_night_is_as_all_at_once(tmp_path: Path, seed: int) -> None:
    generator = np.random.default_rng(seed)
    documents: dict[str, str] = {}
    seen: list[str] = []
    versions = []
    for number in range(6):
        for doc_id in generator.choice(list("abcdefghij"), size=4, replace=False).tolist():
            if doc_id in documents and len(documents) > 1 and generator.random() < 0.4:
                del documents[doc_id]
            else:
                documents[doc_id] = made_up(f"{doc_id}{generator.integers(3)}")
        versions.append((night(tmp_path / "grown", documents, seen), dict(documents)))
        fresh = night(tmp_path / f"fresh-{number}", documents)
        assert contents(versions[-1][0]) == contents(fresh)
        assert versions[-1][0].manifest["fingerprint"] == fresh.manifest["fingerprint"]
        assert versions[-1][0].manifest["chunks_over_encoder_limit"] == fresh.manifest["chunks_over_encoder_limit"]
    assert len(seen) == len(set(seen))  # each distinct text once over the life of the archive
    for archive, held in versions:
        again = Archive.open(archive.location)
        assert {doc_id: again.document(doc_id).text for doc_id in again.doc_ids()} == held


def test_only_what_changed_is_embedded_and_written(tmp_path: Path) -> None:
    documents = {f"doc-{number}": made_up(str(number)) for number in range(12)}
    before = night(tmp_path, documents)
    files = {path for path in tmp_path.rglob("*.parquet") if path.parent.name == "documents"}
    seen: list[str] = []
    after = night(tmp_path, documents | {"doc-3": documents["doc-3"] + " A tail."}, seen)
    assert set(seen) == texts_of({"doc-3": documents["doc-3"] + " A tail."}) - texts_of(documents)
    assert len(files) == 1
    for size in ("16", "32"):
        old, new = (set(archive.manifest["files"]["index"][size]) for archive in (before, after))
        assert len(new - old) == 1
    catalogues = [set(archive.manifest["files"]["catalogue"]) for archive in (before, after)]
    # index_here writes all documents as one part, so catalogues name another part; the diff looks at hashes.
    assert len(catalogues[0]) == len(catalogues[1]) == 3
    found = diff_versions(Folder.of(tmp_path), before.manifest, after.manifest)
    assert (found.added, found.changed, found.removed) == ((), ("doc-3",), ())


def test_vectors_of_int8_stand_apart(tmp_path: Path) -> None:
    """float32 and bfloat16 are near enough to share an archive's vectors; int8 is not."""
    documents = {"a": made_up("a"), "b": made_up("b")}
    versions = []
    for precision in ("auto", "bfloat16", "float32", "int8", "int8"):
        seen: list[str] = []
        embedding = CONFIG.embedding.model_copy(update={"precision": precision})
        archive = night(tmp_path, documents, seen, CONFIG.model_copy(update={"embedding": embedding}))
        versions.append((precision, archive.version, archive.manifest["files"]["encoder"], set(seen)))
    encoders = [encoder for _, _, encoder, _ in versions]
    assert encoders == [encoders[0]] * 3 + [encoders[3]] * 2
    assert encoders[0] != encoders[3]
    assert [seen for *_, seen in versions] == [texts_of(documents), set(), set(), texts_of(documents), set()]


def test_what_an_earlier_chunker_cut_is_cut_again_and_its_versions_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "\n\n".join(f"Part {n}\nThe {made_up(str(n), 14)}." for n in range(8))
    with monkeypatch.context() as earlier:
        earlier.setattr(chunking, "CHUNKER", 1)
        earlier.setattr(chunking, "_headings", lambda doc: iter(()))
        before = night(tmp_path / "grown", {"a": text})
        cut_before = contents(before)
        assert night(tmp_path / "grown", {"a": text}).version == before.version
        night(tmp_path / "purged", {"a": text, "b": made_up("b")})
    purge(Folder.of(tmp_path / "purged"), "b")
    assert contents(Archive.open(str(tmp_path / "purged"))) == cut_before
    seen: list[str] = []
    after = night(tmp_path / "grown", {"a": text}, seen)
    assert after.version == before.version + 1
    assert contents(after) == contents(night(tmp_path / "fresh", {"a": text})) != cut_before
    assert set(seen) < texts_of({"a": text})  # what is cut as before is not embedded again
    assert contents(Archive.open(f"{tmp_path / 'grown'}@{before.version}")) == cut_before
    folders = {folder.name for folder in (tmp_path / "grown" / "chunks").iterdir()}
    vacuum(Folder.of(tmp_path / "grown"), keep=1)
    kept = {folder.name for folder in (tmp_path / "grown" / "chunks").iterdir()}
    assert kept == {f"granularity={size}-{chunking.cut_name()}" for size in CONFIG.granularities}
    assert len(folders) == 2 * len(kept)
    assert contents(Archive.open(str(tmp_path / "grown"))) == contents(after)


def test_the_diff_names_what_came_and_went_also_between_shard_counts(tmp_path: Path) -> None:
    night(tmp_path, {"a": made_up("a"), "b": made_up("b")})
    night(tmp_path, {"b": made_up("b2"), "c": made_up("c")}, config=IndexConfig(granularities=[16], shards=2))
    folder = Folder.of(tmp_path)
    found = diff_versions(folder, read_version(folder, 1), read_version(folder, 2))
    assert (found.added, found.changed, found.removed, found.none) == (("c",), ("b",), ("a",), False)
    assert diff_versions(folder, read_version(folder, 2), read_version(folder, 2)).none


def test_shards_double_and_never_shrink() -> None:
    config = IndexConfig(granularities=[100, 200], chunks_per_shard=10)
    assert [config.shard_count(tokens) for tokens in (1, 1000, 1001, 2001, 4001)] == [1, 1, 2, 4, 8]
    assert config.shard_count(1, before=4) == 4
    assert config.shard_count(1, before=3) == 1
    assert IndexConfig(shards=5).shard_count(10**12, before=2) == 5


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 4), (2, 6), (3, 4), (4, 2)])
def test_shards_are_dealt_anew_whether_the_old_number_divides_the_new_one_or_not(
    tmp_path: Path, before: int, after: int
) -> None:
    texts = {name: made_up(name) for name in "abcdefgh"}
    night(tmp_path / "grown", texts, config=CONFIG.model_copy(update={"shards": before}))
    more = CONFIG.model_copy(update={"shards": after})
    grown = night(tmp_path / "grown", texts | {"i": made_up("i")}, config=more)
    assert contents(grown) == contents(night(tmp_path / "fresh", texts | {"i": made_up("i")}, config=more))
