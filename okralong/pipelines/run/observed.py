"""Read the observed use of a generator: the calls of each answered question in a run's folder."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.answering.tools import ESCALATED
from okralong.pipelines.core.codec import decode
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import Message, Usage
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import USED
from okralong.pipelines.llm.request import prompt_tokens

_KINDS: Final = ("prompt", "cached", "completion")
_COLUMNS: Final = ["call_id", "query_id", "path", "role", "status", "cost_usd", *(f"{kind}_tokens" for kind in _KINDS)]


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """A call that returned a reply.

    ``counted`` is our own token count of its prompt, 0 if the reply was reused from another run. ``again`` is true for
    a call of an escalation.
    """

    role: str
    usage: Usage
    counted: int = 0
    again: bool = False


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A finished question, with its calls and their cost in US dollars."""

    query_id: str
    calls: tuple[ObservedCall, ...]
    billed_usd: float

    def usage(self, *, full_text: bool) -> Usage:
        """Return the tokens of the first answer's calls: only those that read the full text, or only the others."""
        first = [each for each in self.calls if not each.again]
        return sum((each.usage for each in first if (each.role == "full_text") is full_text), Usage())

    def usage_again(self) -> Usage:
        """Return the tokens of the calls made for an escalation."""
        return sum((each.usage for each in self.calls if each.again), Usage())


def asked_in(run: Folder, count: CountTokens) -> dict[str, AskedQuestion]:
    """Return the finished questions of a run by query_id; empty if the run does not exist.

    Questions stopped by the budget are left out, because they will be resumed.
    """
    answers = read_run_table(run, "answers", ["query_id", "status"]).to_pylist()
    ended = {row["query_id"] for row in answers if row["status"] != "over_budget"}
    counted = _counted(run, count)
    calls: dict[str, list[ObservedCall]] = defaultdict(list)
    billed: dict[str, float] = defaultdict(float)
    ledger = read_run_table(run, "ledger", _COLUMNS)
    for row in ledger.filter(pc.is_in(ledger["status"], pa.array(USED))).to_pylist():
        usage = Usage(*(row[f"{kind}_tokens"] for kind in _KINDS))
        again = row["path"].startswith(f"{ESCALATED}/")
        calls[row["query_id"]].append(ObservedCall(row["role"], usage, counted.get(row["call_id"], 0), again))
        billed[row["query_id"]] += row["cost_usd"]
    return {query_id: AskedQuestion(query_id, tuple(calls[query_id]), billed[query_id]) for query_id in sorted(ended)}


def _counted(run: Folder, count: CountTokens) -> Mapping[str, int]:
    """Return our own token count of each prompt that was sent, by call_id."""
    journal = read_run_table(run, "journal", ["kind", "body"])
    sizes: dict[str, int] = {}
    for row in journal.filter(pc.equal(journal["kind"], "request")).to_pylist():
        body = json.loads(row["body"])
        messages = [decode(Message, json.dumps(each)) for each in body["request"].get("messages", ())]
        if messages:
            sizes[body["call"]["call_id"]] = prompt_tokens(messages, count)
    return sizes
