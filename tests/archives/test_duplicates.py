"""Who has an id, and what a run reads, however the files came: night by night the same as all at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.archive.versions import DocumentEntry, KnownSource, active, resolve_duplicates
from okralong.pipelines.indexing.documents import Source
from okralong.pipelines.indexing.ingest import failures_of, known_source, source_changes, unchanged_entries
from okralong.pipelines.indexing.parsers import parser_version

_NIGHT = st.dictionaries(
    st.sampled_from(["a.txt", "b.txt", "m.jsonl", "z.jsonl"]),
    st.lists(st.sampled_from("abcd"), max_size=3, unique=True),
)


def source(name: str, ids: list[str]) -> Source:
    return Source(name, name.split(".")[0], 1, sha256=f"{name}{ids}")


def entries_in(name: str, ids: list[str]) -> list[DocumentEntry]:
    return [DocumentEntry(i, f"{i} of {name}", 1, f"part {name}{ids}", name, name, name.split(".")[0]) for i in ids]


@given(nights=st.lists(_NIGHT, min_size=1, max_size=6))
def test_night_by_night_is_as_all_at_once(nights: list[dict[str, list[str]]]) -> None:
    known: dict[str, KnownSource] = {}
    entries: list[DocumentEntry] = []
    for night in nights:
        changes = source_changes([source(name, ids) for name, ids in night.items()], known, False)
        fresh = [entry for each in changes.to_read for entry in entries_in(each.uri, night[each.uri])]
        entries = resolve_duplicates([*unchanged_entries(entries, changes), *fresh])
        read = {each.uri: known_source(each, []) for each in changes.to_read}
        assert set(read) == {n for n, ids in night.items() if n not in known or known[n].sha256 != f"{n}{ids}"}
        known = changes.kept | read
        assert entries == resolve_duplicates(entry for name, ids in night.items() for entry in entries_in(name, ids))
        assert set(known) == set(night)
        assert sorted(active(entries)) == sorted({i for ids in night.values() for i in ids})


def test_the_first_file_keeps_the_id_and_the_other_is_told_why() -> None:
    resolved = resolve_duplicates([*entries_in("m.jsonl", ["a"]), *entries_in("a.txt", ["a"])])
    assert [(entry.source_uri, entry.shadowed) for entry in resolved] == [("a.txt", False), ("m.jsonl", True)]
    ((doc_id, message),) = failures_of(resolved, [], [])
    assert doc_id == "a"
    assert "a.txt is kept, m.jsonl is left out" in message
    assert resolve_duplicates(entry for entry in resolved if entry.source_uri != "a.txt")[0].shadowed is False


def test_failures_of_kept_files_stay_and_are_tried_again_under_other_limits() -> None:
    bad = KnownSource("a.txt", "a", "a.txt['a']", 1, 0, (("a", "a.txt is too large."),), parser_version("a.txt"))
    listed = [source("a.txt", ["a"])]
    assert source_changes(listed, {"a.txt": bad}, False).kept == {"a.txt": bad}
    assert source_changes(listed, {"a.txt": bad}, True).to_read == listed
    assert failures_of([], [bad], [("x", "x is a pipe.")]) == [("a", "a.txt is too large."), ("x", "x is a pipe.")]


def test_a_file_that_could_not_be_opened_is_read_again() -> None:
    unread = Source("a.txt", "a", 1)
    assert source_changes([unread], {"a.txt": KnownSource("a.txt", "a", "", 1, 0)}, False).to_read == [unread]
