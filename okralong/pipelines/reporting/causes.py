"""Why an answer differs between two runs, found by replaying both journals without a call.

The calls of a question are compared in the order of the journal, and the first one that differs decides: by the
passages of its request, by its other words, by its model, or only by its reply. If no call differs, the recorded
retrievals and plans decide, so that answers which rules read off a document have a cause too.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.answering.policy import with_former_keys
from okralong.pipelines.archive.versions import active, read_catalogue
from okralong.pipelines.core.schemas import KNOWN_DOCUMENTS, ORIGINS
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.journal import FragmentedTable, read_settled
from okralong.pipelines.llm.request import content_shown
from okralong.pipelines.reporting.cited import archive_of
from okralong.pipelines.run.rows import BEGUN, DOCUMENTS_FOLDER, ORIGINS_FOLDER

CAUSES: Final[Mapping[str, str]] = {
    "document": "changed document",
    "retrieval": "other passages",
    "config": "other config, prompt or question",
    "model": "other model or reply",
    "correction": "correction by a person",
    "failure": "failed call or used-up budget",
    "question": "question added or removed",
    "unknown": "cause unknown",
}
"""The causes of a difference, in the order in which they are counted."""

_UNASKED: Final = ("failed", "over_budget")
"""Statuses of questions that were not asked to the end."""
_DECIDING: Final = ("strategy", "policy", "analyzer", "llm", "reranker", "scorer", "token_classifier", "sara")
"""The parts of a run's config that determine answers."""
_OF_MODEL: Final = ("model", "base_url", "api_version", "others")
"""The fields of a request that name who is asked."""
_PASSAGE: Final = re.compile(r'<passage id="\d{1,5}"(?: doc="([^"]*)")?>\n(.*?)\n</passage>', re.DOTALL)
_HASH_CHARS: Final = 16
"""Characters of a document's hash at the beginning of the ids of its chunks."""
_NAMED: Final = 3  # project default
"""Maximum number of documents named in a reason."""


def counted_causes(counts: Mapping[str, int]) -> str:
    """Return the causes with their numbers of differences on one line."""
    return ", ".join(f"{words} ({counts[name]:,})" for name, words in CAUSES.items() if counts.get(name))


class Cause(NamedTuple):
    """A name of ``CAUSES``, and what differs, in words."""

    name: str
    because: str


@dataclass(frozen=True, slots=True)
class _Call:
    """A call: the hash of its request, the reply, and the parts of the request (None if it was not recorded)."""

    request_hash: str = ""
    reply: str | None = None
    request: _Request | None = None


@dataclass(frozen=True, slots=True)
class _Request:
    """The passages of a request as (doc_id, hash of the text), a hash of its other words, and its other fields."""

    passages: tuple[tuple[str, str], ...]
    words: str
    fields: Mapping[str, Any]


@dataclass(slots=True)
class Trace:
    """How a question was answered.

    Attributes:
        calls: The calls by path and sample, in the order in which they were recorded.
        retrievals: By path: what was searched for, and the places found as (doc_id, start, end).
        steps: Hashes of the other recorded steps, by path and kind.
        documents: The beginning of the hash of each document found, by doc_id.
    """

    calls: dict[tuple[str, int], _Call] = field(default_factory=dict)
    retrievals: dict[str, tuple[str, tuple[tuple[str, int, int], ...]]] = field(default_factory=dict)
    steps: dict[tuple[str, str], str] = field(default_factory=dict)
    documents: dict[str, str] = field(default_factory=dict)

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row of the journal, which replaces earlier rows of the same step."""
        body, key = json.loads(row["body"]), (row["path"], row["sample"])
        known = self.calls.get(key, _Call())
        asked = known.request if known.request_hash == row["request_hash"] else None
        if row["kind"] == "request":
            if body["request"].get("messages"):  # further attempts are recorded without
                asked = _request(body["request"])
            self.calls[key] = _Call(row["request_hash"], None, asked)
        elif row["kind"] == "reply":
            said = json.dumps([body["reply"].get("text"), body.get("refusal")])
            self.calls[key] = _Call(row["request_hash"], said, asked)
        elif row["kind"] == "retrieval":
            hits = [hit for side in ("exact", "semantic") for hit in body[side]]
            found = tuple((hit[1], hit[4], hit[5]) for hit in hits)
            self.retrievals[row["path"]] = (json.dumps(body["wanted"], sort_keys=True), found)
            self.documents |= {hit[1]: str(hit[0])[:_HASH_CHARS] for hit in hits}
        else:
            if isinstance(body, dict):  # a field that another release does not have equals one without a value
                body = {name: value for name, value in body.items() if value is not None}
            self.steps[row["path"], row["kind"]] = _digest(json.dumps(body))


def _request(body: Mapping[str, Any]) -> _Request:
    passages: list[tuple[str, str]] = []

    def taken(match: re.Match[str]) -> str:
        passages.append((match[1] or "", _digest(match[2])))
        return "<passage>"

    words = [[each.get("role"), _PASSAGE.sub(taken, _content(each))] for each in body.get("messages", ())]
    shown = re.sub(r"<passage>(?:\\n<passage>)+", "<passage>", json.dumps(words))
    return _Request(tuple(passages), _digest(shown), {name: body[name] for name in body if name != "messages"})


def _content(message: Mapping[str, Any]) -> str:
    """Return a message's text; hashes stand for vectors."""
    content = message.get("content")
    if not isinstance(content, list):
        return content_shown(content)
    return "".join(str(part.get("text") or part.get("sha256")) for part in content)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]


class Replayed:
    """A run folder, or a nightly's ``current``, whose journal tells how its questions were answered."""

    def __init__(self, run: Folder, setup: str = "") -> None:
        """Take the folder; of a night's run also the hash of its config (``nightly.setup_of``), as in ``current``."""
        self.run, self._setup = run, setup

    def traces(self, query_ids: Collection[str]) -> dict[str, Trace]:
        """Return how each of these questions was answered."""
        wanted = pa.array(sorted(query_ids), pa.string())

        def read(journal: FragmentedTable) -> dict[str, Trace]:
            found: dict[str, Trace] = {}
            for part in journal.read_fragments(["query_id", "path", "sample", "kind", "request_hash", "body"]):
                for batch in part.filter(pc.is_in(part["query_id"], value_set=wanted)).to_batches(256):
                    for row in batch.to_pylist():
                        found.setdefault(row["query_id"], Trace()).add(row)
            return found

        return read_settled(self.run, "journal", read) if len(wanted) else {}

    @cached_property
    def documents(self) -> Mapping[str, str]:
        """The hashes of the documents by doc_id; empty if the run's archive is gone."""
        known = self.run.at(DOCUMENTS_FOLDER).read_tables(KNOWN_DOCUMENTS)
        if known.num_rows:
            return dict(zip(known["doc_id"].to_pylist(), known["sha256"].to_pylist(), strict=True))
        archive, _ = archive_of(self._begun)
        if archive is None:
            return {}
        entries = active(read_catalogue(archive.folder, archive.manifest["files"]["catalogue"]))
        return {doc_id: entry.sha256 for doc_id, entry in entries.items()}

    def setup(self, query_id: str) -> str:
        """Return a hash of the config that the question was answered with. It starts with the way it was made."""
        if setup := self._setup or self._origins.get(query_id, ""):
            return f"night {setup}"
        config, policy = self._begun.get("config") or {}, (self.run.read_manifest() or {}).get("policy")
        if not policy:
            return ""
        said = [{name: config.get(name) for name in _DECIDING}, with_former_keys(policy)]
        return f"run {_digest(json.dumps(said, sort_keys=True))}"

    @cached_property
    def _begun(self) -> Mapping[str, Any]:
        known: Mapping[str, Any] = self.run.read_json(BEGUN) if self.run.exists(BEGUN) else {}
        return known

    @cached_property
    def _origins(self) -> Mapping[str, str]:
        rows = self.run.at(ORIGINS_FOLDER).read_tables(ORIGINS).to_pylist()
        return {row["query_id"]: row["setup"] for row in rows}


@dataclass(frozen=True)
class AnswerSide:
    """An answer on one side of a comparison: its row of the flat table, and the hashes of the documents it cites."""

    row: Mapping[str, Any]
    cites: Mapping[str, str | None]

    @property
    def documents(self) -> set[str]:
        """The documents that the answer rests on, or that were asked."""
        return {*self.cites, *(self.row["scope"].split("; ") if self.row["scope"] else ())}


def causes(
    pairs: Mapping[str, tuple[AnswerSide | None, AnswerSide | None]], before: Replayed | None, after: Replayed | None
) -> dict[str, Cause]:
    """Return the cause of each difference, by query_id. ``pairs`` has the answers before and after."""
    found = {query_id: cause for query_id, pair in pairs.items() if (cause := _without_journal(*pair)) is not None}
    rest = [query_id for query_id in pairs if query_id not in found]
    if before is None or after is None:
        return found | dict.fromkeys(rest, Cause("unknown", "the journals were not given"))
    old, new = before.traces(rest), after.traces(rest)
    for query_id in rest:
        sides = pairs[query_id]
        assert sides[0] is not None
        assert sides[1] is not None
        runs = (before, after)
        found[query_id] = _Walk(query_id, (sides[0], sides[1]), runs, _both(old, new, query_id)).cause()
    return found


def _both(old: Mapping[str, Trace], new: Mapping[str, Trace], query_id: str) -> tuple[Trace, Trace]:
    return old.get(query_id, Trace()), new.get(query_id, Trace())


def _without_journal(old: AnswerSide | None, new: AnswerSide | None) -> Cause | None:
    """Return the cause if the two answers alone tell it."""
    if old is None or new is None:
        return Cause("question", "it was not asked before" if old is None else "it is no longer asked")
    if old.row["question"] != new.row["question"]:
        return Cause("config", "the question has other words")
    kinds = [side.row["answer_type"] or "text" for side in (old, new)]
    if kinds[0] != kinds[1]:
        return Cause("config", f"the answer type: {' → '.join(kinds)}")
    for when, side in (("after", new), ("before", old)):
        if side.row["status"] in _UNASKED:
            return Cause("failure", f"{side.row['status']} {when}")
    return None


@dataclass(frozen=True)
class _Walk:
    """Compares how one question was answered in two runs."""

    query_id: str
    sides: tuple[AnswerSide, AnswerSide]
    runs: tuple[Replayed, Replayed]
    traces: tuple[Trace, Trace]

    def cause(self) -> Cause:
        before, after = self.sides
        same = before.row["answer"] == after.row["answer"]
        if same and (changed := self._changed({*before.cites} & {*after.cites})):
            return changed  # only the evidence moved, with the text around it
        old, new = (trace.calls for trace in self.traces)
        for key in dict.fromkeys((*old, *new)):
            first, second = old.get(key), new.get(key)
            if first is None or second is None:  # another way of answering, which an earlier step decided
                break
            if first.request_hash != second.request_hash:
                return self._of_requests(first.request, second.request)
            if first.reply != second.reply:
                return Cause("model", f"another reply to the same request ({key[0]})")
        return self._of_steps()

    def _of_requests(self, old: _Request | None, new: _Request | None) -> Cause:
        if old is None or new is None:  # a reply of another run, in a journal of an earlier release
            return self._of_steps()
        if old.passages != new.passages:
            differing = {*old.passages} ^ {*new.passages}
            if changed := self._changed({doc_id for doc_id, _ in differing}):
                return changed
            gained, lost = (
                {doc_id for doc_id, _ in {*some} - {*others} if doc_id}
                for some, others in ((new.passages, old.passages), (old.passages, new.passages))
            )
            if moved := self._of_retrievals(gained, lost):
                return moved
            if not any(trace.retrievals for trace in self.traces) and self._same_setup():  # whole documents are read
                return _passages(gained, lost)
            return self._of_fields(old, new, "the plan chose other passages")
        if old.words != new.words:
            same = self._same_setup()
            if same is not False and (changed := self._changed(self._documents())):
                return changed
            if same and (moved := self._of_retrievals()):
                return moved
            return Cause("config", "the prompt has other words")
        return self._of_fields(old, new, "the request")

    def _of_fields(self, old: _Request, new: _Request, otherwise: str) -> Cause:
        names = [name for name in {**old.fields, **new.fields} if old.fields.get(name) != new.fields.get(name)]
        asked = [f"{name}: {old.fields.get(name)} → {new.fields.get(name)}" for name in _OF_MODEL[:2] if name in names]
        if any(name in _OF_MODEL for name in names):
            return Cause("model", ", ".join(asked) or "the endpoints")
        return Cause("config", ", ".join(names) or otherwise)

    def _of_steps(self) -> Cause:
        """Return the cause if no call tells it."""
        if changed := self._changed(self._documents()):
            return changed
        if moved := self._of_retrievals():
            return moved
        old, new = (trace.steps for trace in self.traces)
        if old and new and (other := [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key)]):
            named = f"{other[0][1]} ({other[0][0]})"
            return Cause("unknown", f"another {named}") if self._same_setup() else Cause("config", f"another {named}")
        if self._same_setup() is False:
            return Cause("config", "the answer config")
        return Cause("unknown", "nothing that is recorded differs")

    def _of_retrievals(self, gained: Collection[str] = (), lost: Collection[str] = ()) -> Cause | None:
        """Return the cause if other passages were found: by other searches the config, else the archive."""
        old, new = (trace.retrievals for trace in self.traces)
        for path in (path for path in old if path in new):
            (wanted, found), (wanted_now, found_now) = old[path], new[path]
            if wanted != wanted_now:
                return Cause("config", f"another search ({path})")
            if found != found_now:
                return _passages(gained, lost)
        return None

    def _documents(self) -> set[str]:
        """Return the documents that the answers rest on, or those found if they cite none."""
        cited = self.sides[0].documents | self.sides[1].documents
        return cited or {*self.traces[0].documents, *self.traces[1].documents}

    def _changed(self, doc_ids: Iterable[str]) -> Cause | None:
        """Return the cause "document" if the text of one of these documents changed."""
        changed = []
        for doc_id in sorted(doc_ids):
            old, new = (
                (trace.documents.get(doc_id) or side.cites.get(doc_id) or run.documents.get(doc_id, ""))[:_HASH_CHARS]
                for trace, side, run in zip(self.traces, self.sides, self.runs, strict=True)
            )
            if old and new and old != new:
                changed.append(doc_id)
        return Cause("document", f"the text of {_listed(changed)} changed") if changed else None

    def _same_setup(self) -> bool | None:
        """Return whether both were answered with the same config, or None if this is not known."""
        old, new = (run.setup(self.query_id) for run in self.runs)
        known = bool(old and new) and old.split()[0] == new.split()[0]
        return old == new if known else None


def _passages(gained: Collection[str], lost: Collection[str]) -> Cause:
    parts = [f"{when} from {_listed(docs)}" for when, docs in (("now", gained), ("before", lost)) if docs]
    return Cause("retrieval", f"other passages: {', '.join(parts)}" if parts else "other passages")


def _listed(doc_ids: Collection[str]) -> str:
    names: Sequence[str] = sorted(doc_ids)
    more = f" and {counted(len(names) - _NAMED, 'more', 'more')}" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
