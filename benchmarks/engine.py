"""Compare the engines of the embedded generator on one core: prompt and reply tokens a second, and what they reply.

    python -m benchmarks.engine --out benchmarks/results/engine.md

The prompts are those of `okralong answer` for questions of a generated sample, over the gold passages and passages
that surround them. Each prompt is sent three times: for one token, which gives the prompt's speed; for one token again,
which takes what an engine that caches prompts still computes; and for the whole reply.
Speeds are in tokens a second of the server's processor time, so that other load on the machine matters less; all
servers are confined to one core. Exits with 1 if the engine that `auto` chooses reads prompts slower than another.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.answering.prompts import answer_prompt
from okralong.pipelines.core.types import Document, Message, Passage, Question
from okralong.pipelines.models.serving import EmbeddedServer, EngineChoice, choose
from okralong.pipelines.models.weights import cpu_precision, has_amx, multiplies_bfloat16
from okralong.pipelines.samples.questions import generate

REPLY_TOKENS: Final = 24
WINDOW: Final = 4096
SHOWN: Final = 4000
"""Characters shown around the evidence of a question: about 1,000 tokens."""
ENGINES: Final[tuple[EngineChoice, ...]] = ("llama.cpp", "openvino")


@dataclass(frozen=True)
class Measured:
    """An engine's median speeds, in tokens a second of processor time, and its replies."""

    engine: str
    identity: str
    prompt: float
    reply: float
    replies: tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    asked = _prompts(options.questions)
    chosen = choose("embedded", "auto", parallel=1, window=WINDOW).engine
    found = [_measure(engine, [prompt for _, prompt in asked]) for engine in ENGINES]
    page = _page(found, [question for question, _ in asked], chosen)
    print(page)
    if options.out:
        options.out.write_text(page, encoding="utf-8")
    if max(found, key=lambda one: one.prompt).engine != chosen:
        sys.exit(f"auto chooses {chosen}, which does not read prompts fastest here")


def _prompts(wanted: int) -> list[tuple[Question, list[Message]]]:
    sample = generate(reports=2, questions=wanted, seed=11, words=6000)
    documents = {document.doc_id: document for document in sample.documents}
    return [
        (question, answer_prompt(question.question, _passages(question, documents))) for question in sample.questions
    ]


def _passages(question: Question, documents: dict[str, Document]) -> list[Passage]:
    doc_id, at, _ = question.evidence[0].rsplit(":", 2) if question.evidence else (next(iter(documents)), "0", "")
    start = max(0, int(at) - SHOWN // 2)
    text = documents[doc_id].text[start : start + SHOWN]
    return [Passage(doc_id, start, start + len(text), text, 0, 0.0)]


def _measure(engine: EngineChoice, prompts: Sequence[Sequence[Message]]) -> Measured:
    with EmbeddedServer.start(engine=engine, parallel=1, window=WINDOW) as server:
        _ask(server, [Message("user", "Warm up.")], 8)
        prompt_speeds, reply_speeds, replies = [], [], []
        for prompt in prompts:
            usage, _, first = _ask(server, prompt, 1)
            prompt_speeds.append(usage["prompt_tokens"] / first)
            _, _, again = _ask(server, prompt, 1)
            usage, text, whole = _ask(server, prompt, REPLY_TOKENS)
            if usage["completion_tokens"] > REPLY_TOKENS // 2 and whole > again:
                reply_speeds.append((usage["completion_tokens"] - 1) / (whole - again))
            replies.append(text)
        speed = statistics.median(reply_speeds) if reply_speeds else float("nan")
        return Measured(server.engine, server.identity, statistics.median(prompt_speeds), speed, tuple(replies))


def _ask(server: EmbeddedServer, prompt: Sequence[Message], most: int) -> tuple[dict[str, Any], str, float]:
    """Return the usage and text of a reply, and the processor seconds that it took."""
    messages = [{"role": message.role, "content": message.content} for message in prompt]
    body = {"model": server.model, "messages": messages, "temperature": 0, "max_tokens": most}
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    before = _processor_seconds(server.pid)
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=600) as response:
        reply = json.load(response)
    return reply["usage"], reply["choices"][0]["message"]["content"], _processor_seconds(server.pid) - before


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _page(found: Sequence[Measured], questions: Sequence[Question], chosen: str) -> str:
    kind = "AMX" if has_amx() else "AVX-512 BF16" if multiplies_bfloat16() else "neither AMX nor AVX-512 BF16"
    first = found[0]
    rows = []
    for one in found:
        same = sum(mine == theirs for mine, theirs in zip(one.replies, first.replies, strict=True))
        right = sum(
            any(gold.lower() in reply.lower() for gold in question.answers)
            for question, reply in zip(questions, one.replies, strict=True)
        )
        ratios = f"{one.prompt / first.prompt:.2f} | {one.reply / first.reply:.2f}"
        speeds = f"{one.prompt:.0f} | {one.reply:.1f}"
        rows.append(f"| {one.engine} | `{one.identity}` | {ratios} | {speeds} | {same} | {right} |")
    return "\n".join(
        [
            "# Engines of the embedded generator",
            "",
            f"`python -m benchmarks.engine --questions {len(questions)}`, one core with {kind} (precision "
            f"{cpu_precision()}); `auto` is {chosen} here.",
            "",
            "| engine | identity | prompt ratio | reply ratio | prompt tokens/s | reply tokens/s | same reply | "
            "contains a gold answer |",
            "|---|---|---|---|---|---|---|---|",
            *rows,
            "",
            "Ratios are to llama.cpp; tokens are per second of one core's processor time, medians over prompts.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
