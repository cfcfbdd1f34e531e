"""Where vectors are found again: by key, over many files and merges, and which part embeds what."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.archive.vectors import TEXTS, TextIndex, VectorStore, key_bytes, owned_texts, text_keys
from okralong.pipelines.core.storage import Folder


def vector_of(text: str) -> list[float]:
    return [float(len(text)), float(sum(map(ord, text)))]


def write(store: VectorStore, number: int, texts: list[str]) -> None:
    values = np.array([vector_of(text) for text in texts], dtype=np.float32)
    store.write(number, key_bytes(text_keys(texts)), values, [len(text) > 8 for text in texts])


def check(index: TextIndex, texts: list[str]) -> None:
    files, rows = index.find(text_keys(texts))
    assert (files > 0).all()
    values, over = index.store.gather(files, rows)
    assert values.tolist() == [vector_of(text) for text in texts]
    assert over.tolist() == [len(text) > 8 for text in texts]


@pytest.fixture
def store(tmp_path: Path) -> VectorStore:
    return VectorStore.of(Folder.of(tmp_path), "tiny-1")


def test_what_was_written_is_found_and_nothing_else(store: VectorStore) -> None:
    index = TextIndex.open(store)
    assert index.find(text_keys(["a"]))[0].tolist() == [-1]
    assert (index.reserve(0), store.about()) == (1, None)
    for number in range(1, 41):
        write(store, number, [f"text {number}-{row}" for row in range(number % 7 + 1)])
        index.take_in([number])
    everything = [f"text {number}-{row}" for number in range(1, 41) for row in range(number % 7 + 1)]
    check(index, everything[::-1])
    assert index.find(text_keys(["text 1-9", "", "text 41-0"]))[0].tolist() == [-1, -1, -1]
    assert store.about() == (2, "float32")
    assert sum(column.itemsize for column in (index.keys, index.files, index.rows)) == 24  # bytes a text
    again = TextIndex.open(store)
    check(again, everything)
    assert (again.reserve(0), again.reserve(5), again.reserve(0)) == (41, 41, 46)
    assert TextIndex.open(store).reserve(1) == 46


def test_files_of_a_killed_job_are_taken_in(store: VectorStore) -> None:
    write(store, 1, ["one"])
    TextIndex.open(store)
    write(store, 4, ["four"])
    write(store, 3, ["three"])
    index = TextIndex.open(store)
    check(index, ["one", "three", "four"])
    assert index.reserve(0) == 5


def test_a_worker_of_a_killed_job_that_was_late_does_no_harm(store: VectorStore) -> None:
    many = [f"text {number}" for number in range(9)]
    write(store, 1, many)
    TextIndex.open(store)
    write(store, 4, ["four"])
    TextIndex.open(store)
    write(store, 2, ["two", "four"])
    check(TextIndex.open(store), [*many, "two", "four"])
    check(TextIndex.open(store), [*many, "two", "four"])


def test_a_copy_that_says_too_little_or_too_much_is_put_right(store: VectorStore) -> None:
    write(store, 1, ["one", "uno"])
    write(store, 2, ["two"])
    TextIndex.open(store)
    older = store.folder.read_bytes(TEXTS)
    write(store, 3, ["three"])
    TextIndex.open(store)
    store.folder.write_bytes(TEXTS, older)  # the job was killed before it wrote it
    store.folder.remove("00000002.parquet")  # a vacuum was killed after it removed this
    index = TextIndex.open(store)
    check(index, ["one", "uno", "three"])
    assert index.find(text_keys(["two"]))[0].tolist() == [-1]
    store.folder.remove(TEXTS)
    check(TextIndex.open(store), ["one", "uno", "three"])


def test_a_text_that_has_two_vectors_is_found_once(store: VectorStore) -> None:
    write(store, 1, ["one", "two"])
    write(store, 2, ["two", "three"])
    index = TextIndex.open(store)
    check(index, ["one", "two", "three"])
    assert (len(index.keys), index.files.max()) == (3, 2)


@settings(max_examples=25, deadline=None)
@given(
    parts=st.lists(st.lists(st.integers(0, 60), max_size=30), max_size=6),
    known=st.sets(st.integers(0, 60), max_size=30),
)
def test_each_text_is_embedded_by_the_first_part_that_has_it(
    parts: list[list[int]], known: set[int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("plan")
    store = VectorStore.of(Folder.of(folder), "tiny-1")
    if known:
        write(store, 1, [f"text {number}" for number in sorted(known)])
    keys = {f"part-{at}": np.unique(text_keys(f"text {number}" for number in part)) for at, part in enumerate(parts)}
    owned = owned_texts(keys, TextIndex.open(store))
    seen = set(known)
    for at, part in enumerate(parts):
        mine = sorted(set(part) - seen)
        seen |= set(part)
        assert (f"part-{at}" in owned) == bool(mine)
        if mine:
            wanted = np.sort(text_keys(f"text {number}" for number in mine))
            assert owned[f"part-{at}"].tolist() == wanted.tolist()
