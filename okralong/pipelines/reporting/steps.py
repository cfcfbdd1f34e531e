"""The steps of a question as the report shows them: retrieval, selection, requests and replies.

Passages in prompts are shortened, because the report shows them as sources. The journal is processed row by row,
because that of a long run does not fit into memory.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.core.wording import counted
from okralong.pipelines.llm.journal import FragmentedTable
from okralong.pipelines.llm.records import NAME_CHARS
from okralong.pipelines.llm.request import content_shown
from okralong.pipelines.reporting.page import compact
from okralong.pipelines.reporting.rows import bounded, public

READ_TRIES: Final = 50
_ROWS_AT_A_TIME: Final = 256
_COLUMNS: Final = ["seq", "query_id", "path", "kind", "body"]


def journal_steps(run: Folder, wanted: frozenset[str]) -> dict[str, str]:
    """Return the steps of each ``wanted`` question as a JSON array, in the order of the journal.

    Retries if a running job merges the files meanwhile.

    Raises:
        ArchiveError: The files were replaced in every attempt.
    """
    for _ in range(READ_TRIES):
        try:
            return _read(run, wanted)
        except FileNotFoundError:
            continue
    raise ArchiveError(f"The files of {run.path}/journal were replaced while they were being read. Try again.")


def _read(run: Folder, wanted: frozenset[str]) -> dict[str, str]:
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for part in FragmentedTable(run, "journal", writer=False).read_fragments(_COLUMNS):
        for batch in part.to_batches(max_chunksize=_ROWS_AT_A_TIME):
            for row in batch.to_pylist():
                if row["query_id"] in wanted:
                    step = step_of(row["path"], row["kind"], row["body"])
                    if step is not None:
                        found[row["query_id"]][row["seq"]] = compact(step)
    return {query_id: f"[{','.join(steps[seq] for seq in sorted(steps))}]" for query_id, steps in found.items()}


MESSAGE_CHARS: Final = 6_000  # project default
"""Maximum length of a message of a prompt, with shortened passages, and of a reply."""
PASSAGE_CHARS: Final = 160  # project default
"""Maximum length of each passage in a prompt."""
HITS_SHOWN: Final = 3  # project default
"""Number of chunks shown per retriever."""

Step = list[Any]
"""``[path, kind, head, parts]``: one line, and pairs of a title and a text."""

_PASSAGE: Final = re.compile(r'<passage id="(\d{1,5})" doc="([^"]*)">\n(.*?)\n</passage>', re.DOTALL)


def step_of(path: str, kind: str, body: str) -> Step | None:
    """Convert a journal row; None for kinds that are shown elsewhere, such as the plan."""
    maker = _MAKERS.get(kind)
    if maker is None:
        return None
    head, parts = maker(json.loads(body))
    return [bounded(path, 200), kind, head, parts]


def shortened(prompt: str) -> str:
    """Truncate each passage of a prompt's message to ``PASSAGE_CHARS``, and the message to ``MESSAGE_CHARS``."""
    return bounded(_PASSAGE.sub(_short_passage, prompt), MESSAGE_CHARS)


def _short_passage(match: re.Match[str]) -> str:
    number, doc_id, text = match.groups()
    if len(text) > PASSAGE_CHARS:
        text = f"{text[:PASSAGE_CHARS].rstrip()} … [{len(text) - PASSAGE_CHARS:,} more characters]"
    return f"[passage {number} of {doc_id}]\n{text}\n"


def _retrieval(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    wanted = body["wanted"]
    parts = [("query", bounded(wanted["query"], MESSAGE_CHARS))]
    for side in ("exact", "semantic"):
        rows = body[side][:HITS_SHOWN]
        places = "\n".join(f"{row[8]:9.3f}  {bounded(row[1], 120)}:{row[4]}-{row[5]}" for row in rows)
        parts.append((f"{side}: best {len(rows)} of {len(body[side])}", places or "none"))
    return f"top {wanted['k']} of {wanted['granularity']}-token chunks for each retriever", parts


def _selection(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    pool = body["wanted"]["pool"]
    ranks = ", ".join(str(pool.index(chunk) + 1) for chunk in body["chosen"] if chunk in pool)
    return f"{counted(len(body['chosen']), 'chunk')} selected one by one from the best {len(pool)}", [("ranks", ranks)]


def _request(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    request = body["request"]
    parts = [(str(m.get("role")), shortened(content_shown(m.get("content")))) for m in request.get("messages", [])]
    return f"to {bounded(request.get('model', ''), 80)}", parts


def _reply(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    reply, call = body["reply"], body["call"]
    by = bounded(public(reply.get("model") or "a model"), NAME_CHARS)
    head = (
        f"{by} replied: {call['prompt_tokens']:,} + {call['completion_tokens']:,} tokens, ${call['cost_usd']:.6f}, "
        f"{call['latency_s']:.1f} s"
    )
    parts = [("reply", bounded(reply.get("text", ""), MESSAGE_CHARS))]
    if body.get("refusal"):
        parts.append(("refusal", bounded(body["refusal"], MESSAGE_CHARS)))
    return head, parts


def _readings(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    sure = [f"{reading[1]:.2f}" for reading in body["readings"] if reading[1] is not None]
    held = [("probability of holding the answer, in reading order", ", ".join(sure))] if sure else []
    return f"{counted(len(body['readings']), 'passage')} read by the cross-encoder", [
        ("query", body["wanted"]["query"]),
        *held,
    ]


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], tuple[str, list[tuple[str, str]]]]]] = {
    "retrieval": _retrieval,
    "selection": _selection,
    "readings": _readings,
    "request": _request,
    "reply": _reply,
}
