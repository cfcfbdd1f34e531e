"""The journal's rows of a question as its page shows them: what was looked up, decided, asked and replied.

Prompts are shortened where they quote documents: the passages of a prompt are spans of the archive, and what matters of
them is shown as sources. Retrieved chunks are places and scores.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from okralong.pipelines.llm.request import content_shown
from okralong.pipelines.reporting.inert import bounded

MESSAGE_CHARS: Final = 6_000
"""Of one message of a prompt, its passages shortened, and of a reply. Ours."""
PASSAGE_CHARS: Final = 160
"""Of each passage in a prompt. Ours."""
HITS_SHOWN: Final = 3
"""Chunks of each retriever. Ours."""

Step = list[Any]
"""``[path, kind, head, parts]``: the head is one line, the parts are pairs of a title and a text."""

_PASSAGE: Final = re.compile(r'<passage id="(\d{1,5})" doc="([^"]*)">\n(.*?)\n</passage>', re.DOTALL)


def step_of(path: str, kind: str, body: str) -> Step | None:
    """What to show of a journal row; None for one that says nothing more (the plan is shown by itself)."""
    maker = _MAKERS.get(kind)
    if maker is None:
        return None
    head, parts = maker(json.loads(body))
    return [bounded(path, 200), kind, head, parts]


def shortened(prompt: str) -> str:
    """A prompt's message with each passage cut to its first characters, and the whole within ``MESSAGE_CHARS``."""
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
        parts.append((f"{side}: best {len(rows)} of {len(body[side])}", places or "nothing"))
    return f"top {wanted['k']} of {wanted['granularity']}-token chunks for each retriever", parts


def _selection(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    pool = body["wanted"]["pool"]
    ranks = ", ".join(str(pool.index(chunk) + 1) for chunk in body["chosen"] if chunk in pool)
    return f"{len(body['chosen'])} chunks chosen one by one from the {len(pool)} best", [("ranks", ranks)]


def _request(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    request = body["request"]
    parts = [(str(m.get("role")), shortened(content_shown(m.get("content")))) for m in request.get("messages", [])]
    return f"asked {bounded(request.get('model', ''), 80)}", parts


def _reply(body: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    reply, call = body["reply"], body["call"]
    head = (
        f"replied: {call['prompt_tokens']:,} + {call['completion_tokens']:,} tokens, ${call['cost_usd']:.6f}, "
        f"{call['latency_s']:.1f} s"
    )
    parts = [("reply", bounded(reply.get("text", ""), MESSAGE_CHARS))]
    if body.get("refusal"):
        parts.append(("refusal", bounded(body["refusal"], MESSAGE_CHARS)))
    return head, parts


_MAKERS: Final[Mapping[str, Callable[[Mapping[str, Any]], tuple[str, list[tuple[str, str]]]]]] = {
    "retrieval": _retrieval,
    "selection": _selection,
    "request": _request,
    "reply": _reply,
}
