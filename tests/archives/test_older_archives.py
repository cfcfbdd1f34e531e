"""Archives of earlier releases whose files hold what is no longer written."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.schemas import DOCUMENTS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.chunking import cut_name
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import index_here
from okralong.pipelines.indexing.maintenance import purge
from tests.archives.nights import CONFIG, encoder, made_up


def test_an_archive_with_trees_of_sections_is_read_indexed_and_purged(tmp_path: Path) -> None:
    raw = [RawDocument(name, made_up(name), f"{name}.txt") for name in "abc"]
    index_here(str(tmp_path), raw[:2], CONFIG, encoder())
    node = {"title": "PART I", "level": 1, "role": "body", "start": 0, "end": 9, "page": ""}
    for path in (tmp_path / "documents").iterdir():
        table = pq.read_table(path)
        trees = pa.array([[node]] * len(table))
        table = table.add_column(DOCUMENTS.names.index("cover"), "outline", trees)
        pq.write_table(table.replace_schema_metadata(DOCUMENTS.metadata), path, compression="zstd")
    assert Archive.open(tmp_path).document("a").text == raw[0].text
    archive = index_here(str(tmp_path), raw, CONFIG, encoder())
    assert archive.doc_ids() == ["a", "b", "c"]
    purge(Folder.of(tmp_path), "a")
    assert [Archive.open(tmp_path).document(name).text for name in "bc"] == [each.text for each in raw[1:]]


def test_an_archive_with_graphs_of_vectors_is_purged_and_indexed(tmp_path: Path) -> None:
    raw = [RawDocument(name, made_up(name), f"{name}.txt") for name in "abc"]
    index_here(str(tmp_path), raw[:2], CONFIG, encoder())
    (path,) = (tmp_path / "versions").glob("0*.json")
    manifest = json.loads(path.read_text())
    manifest["config"]["dense"] |= {"index": "hnsw", "above": 1, "links": 16}
    path.write_text(json.dumps(manifest))
    purge(Folder.of(tmp_path), "a")
    assert Archive.open(tmp_path).doc_ids() == ["b"]
    assert index_here(str(tmp_path), raw[1:], CONFIG, encoder()).doc_ids() == ["b", "c"]


def test_names_of_shards_are_those_of_earlier_releases() -> None:
    dense = {"index": "flat", "above": 40_000, "recall": 0.99, "cells": "auto", "links": 32}
    assert list(IndexConfig().content()["dense"].items()) == list(dense.items())


def test_an_archive_whose_chunks_end_at_words_is_purged_and_cut_again(tmp_path: Path) -> None:
    raw = [RawDocument(name, made_up(name), f"{name}.txt") for name in "abc"]
    index_here(str(tmp_path), raw[:2], CONFIG, encoder())
    for folder in (tmp_path / "chunks").iterdir():
        folder.rename(folder.with_name(folder.name.replace(cut_name(), "words")))
    (path,) = (tmp_path / "versions").glob("0*.json")
    path.write_text(path.read_text().replace(cut_name(), "words"))
    purge(Folder.of(tmp_path), "a")
    assert Archive.open(tmp_path).doc_ids() == ["b"]
    after = index_here(str(tmp_path), raw[1:], CONFIG, encoder())
    assert (after.doc_ids(), after.manifest["config"]["boundaries"]) == (["b", "c"], cut_name())
