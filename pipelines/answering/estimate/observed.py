"""What a run's folder tells of its generator: the calls of each question that has an answers row."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.answering.estimate.silent import prompt_tokens
from okralong.pipelines.core.codec import decode
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.tokens import CountTokens
from okralong.pipelines.core.types import Message, Usage
from okralong.pipelines.llm.journal import read_run_table
from okralong.pipelines.llm.records import USED

_KINDS: Final = ("prompt", "cached", "completion")
_COLUMNS: Final = ["call_id", "query_id", "role", "status", "cost_usd", *(f"{kind}_tokens" for kind in _KINDS)]


@dataclass(frozen=True, slots=True)
class Heard:
    """A call that brought a reply. ``counted`` are our tokens of its prompt, 0 where it was taken from another run."""

    role: str
    usage: Usage
    counted: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that has been asked, and what it was billed in US dollars."""

    query_id: str
    calls: tuple[Heard, ...]
    billed_usd: float

    def usage(self, *, full_text: bool) -> Usage:
        """The sum over its calls that read the full text, or over the others."""
        return sum((each.usage for each in self.calls if (each.role == "full_text") is full_text), Usage())


def asked_in(run: Folder, count: CountTokens) -> dict[str, Asked]:
    """By query_id, the questions of a run that were asked to their end, whatever that was.

    One that the budget kept from its end is left out: it will go on. A run that does not exist has none.
    """
    answers = read_run_table(run, "answers", ["query_id", "status"]).to_pylist()
    ended = {row["query_id"] for row in answers if row["status"] != "over_budget"}
    counted = _counted(run, count)
    calls: dict[str, list[Heard]] = defaultdict(list)
    billed: dict[str, float] = defaultdict(float)
    ledger = read_run_table(run, "ledger", _COLUMNS)
    for row in ledger.filter(pc.is_in(ledger["status"], pa.array(USED))).to_pylist():
        usage = Usage(*(row[f"{kind}_tokens"] for kind in _KINDS))
        calls[row["query_id"]].append(Heard(row["role"], usage, counted.get(row["call_id"], 0)))
        billed[row["query_id"]] += row["cost_usd"]
    return {query_id: Asked(query_id, tuple(calls[query_id]), billed[query_id]) for query_id in sorted(ended)}


def _counted(run: Folder, count: CountTokens) -> Mapping[str, int]:
    """By call_id, the tokens of each prompt that went out, by our count."""
    journal = read_run_table(run, "journal", ["kind", "body"])
    sizes: dict[str, int] = {}
    for row in journal.filter(pc.equal(journal["kind"], "request")).to_pylist():
        body = json.loads(row["body"])
        messages = [decode(Message, json.dumps(each)) for each in body["request"].get("messages", ())]
        if messages:
            sizes[body["call"]["call_id"]] = prompt_tokens(messages, count)
    return sizes
