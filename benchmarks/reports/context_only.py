"""What would the generator be shown? The real strategies, with a generator that is never asked.

    python -m benchmarks.reports.context_only archives/reports runs/reports/gold.jsonl --window 8192

Standard RAG and long context show a context that does not depend on any reply, so retrieval, window and prompt run as
in an answer run (no LLM, no Ray) and the reply is always "unanswerable". Answer recall and tokens of that context are
reported by gold type. What ``long_context`` shows is also, passage by passage, what ``okralong_precise`` shows a
question whose retrieved passages did not hold the answer: its escalation reads the same full text, or the same best
chunks of it. *Prompt tokens* are counted with ``--tokenizer``, message overhead included; *context tokens* are
o200k_base.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.reports.provenance import shown_path
from benchmarks.reports.score import gold_questions
from benchmarks.reports.scoring import Sheet, Spent, mark
from benchmarks.reports.summary import Summary, groups, summarise
from okralong.lab.datasets.gold import Gold
from okralong.lab.evidence.bench import reader_of
from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.context import MESSAGE_OVERHEAD
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.question_tools import Ports, QuestionTools
from okralong.pipelines.answering.tools import Branch
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import Analysis, Message, OkraError, Plan, Reply, Usage
from okralong.pipelines.methods.registry import load_strategy
from okralong.pipelines.models.weights import resolve_embedding_model
from okralong.pipelines.reporting.tables import markdown_table

STRATEGIES = ("std_rag", "long_context")
"""Those whose one prompt is settled before anything is asked, and which ask no analyzer."""

Vectors = npt.NDArray[np.float32]


@dataclass
class SilentGenerator:
    """Counts the prompts that it is sent, and answers nothing. Also every other port that these strategies pass by."""

    count: Any
    prompt_tokens: dict[str, int] = field(default_factory=dict)

    async def complete(
        self,
        query_id: str,
        path: str,
        role: str,
        messages: Sequence[Message],
        *,
        logprobs: bool = False,
        answer_type: str = "",
        longer: bool = False,
    ) -> Reply:
        """Note the prompt's size; "unanswerable"."""
        self.prompt_tokens[query_id] = sum(self.count(message.content) + MESSAGE_OVERHEAD for message in messages)
        return Reply("Answer: unanswerable", "none", Usage(), "stop", 0.0)

    async def admit(self, query_id: str, plan: Plan) -> None:
        """Nothing is paid, so every plan may go ahead."""

    async def analyze(self, asked: AnalysisInput) -> Analysis:
        """Raises RuntimeError: a strategy that asks an analyzer cannot be measured here."""
        raise RuntimeError(f"context_only runs {', '.join(STRATEGIES)}, which ask no analyzer")

    async def fan_out(self, branch: Branch, path: str) -> tuple[Any, Mapping[str, float]]:
        """Raises RuntimeError: a branch's context depends on replies."""
        raise RuntimeError(f"context_only runs {', '.join(STRATEGIES)}, which have no branches ({path})")


class NoLog:
    """A journal that keeps nothing: each question is carried once."""

    def recorded(self, path: str, kind: str) -> str | None:
        """Nothing was."""
        return None

    async def record(self, path: str, kind: str, body: str) -> None:
        """Nothing is."""


def make_ports(
    archive: Archive,
    policy: Policy,
    vectors: Mapping[str, Vectors],
    generator: SilentGenerator,
    window: int,
    reply: int,
) -> Ports:
    """The ports of a run without an LLM. ``vectors`` holds the unit vector of each question's text."""

    async def embed(texts: list[str]) -> Vectors:
        return np.stack([vectors[text] for text in texts])

    reader = reader_of(policy)
    return Ports(
        archive=archive,
        shards=archive.clients,
        embed=embed,
        analyze=generator.analyze,
        complete=generator.complete,
        admit=generator.admit,
        policy=policy,
        window=window,
        count=generator.count,
        completion_limit=lambda role: reply,
        read=None if reader is None else reader.port,
    )


async def show(strategy: str, golds: Sequence[Gold], ports: Ports, generator: SilentGenerator) -> list[Sheet]:
    """The sheets of one strategy: recall and context, with the counted prompt as what was spent."""
    answer = load_strategy(strategy)
    sheets = []
    for gold in golds:
        scope = ports.archive.resolve(gold.question.doc_ids)
        tools = QuestionTools(ports, gold.question, scope, NoLog(), generator.fan_out)
        result = await answer(gold.question, tools)
        shown = [passage.text for passage in result.context]
        tokens = sum(passage.n_tokens for passage in result.context)
        sheet = mark(gold, strategy, result.status, "", shown, tokens)
        spent = Spent(prompt_tokens=generator.prompt_tokens.get(gold.question.query_id, 0))
        whole = any(passage.origin == "full" for passage in result.context)
        sheets.append(replace(sheet, spent=spent, workflow="whole scope" if whole else "top chunks"))
    return sheets


def table(summaries: Mapping[str, Mapping[str, Summary]]) -> str:
    """Recall and tokens by strategy and group."""
    rows = []
    for strategy, by_group in summaries.items():
        for group, each in by_group.items():
            interval = each["recall_interval"]
            bounds = f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else ""
            recall = "n/a" if each["recall"] is None else f"{each['recall']:.3f}{bounds}"
            counted = f"{each['recall_defined']}; {each['recall_not_applicable']}"
            whole = str(each["workflows"].get("whole scope", 0))
            sizes = [f"{each['context_tokens']:,.0f}", f"{each['prompt_tokens']:,.0f}"]
            rows.append([strategy, group, str(each["questions"]), f"{recall} ({counted})", *sizes, whole])
    head = ["strategy", "questions", "n", "recall [95 %] (n; n/a)", "context tokens", "prompt tokens", "whole scope"]
    return markdown_table(head, rows) + "\n"


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Everything that the report says, as JSON. Raises OkraError when something cannot be read."""
    from okralong.pipelines.indexing.embedding import SentenceEmbedder  # brings torch, which takes seconds to load

    golds = gold_questions(options.questions)
    archive = Archive.open(options.archive)
    embedder = SentenceEmbedder(resolve_embedding_model(options.embedding).path)
    texts = list(dict.fromkeys(gold.question.question for gold in golds))
    vectors = dict(zip(texts, embedder.encode_queries(texts), strict=True))
    policy = load_config(Policy, options.policy)
    summaries = {}
    for strategy in options.strategies:
        generator = SilentGenerator(token_counter(options.tokenizer))
        ports = make_ports(archive, policy, vectors, generator, options.window, options.reply)
        sheets = asyncio.run(show(strategy, golds, ports, generator))
        summaries[strategy] = {group: summarise(members) for group, members in groups(sheets).items()}
    return {
        "command": f"python -m benchmarks.reports.context_only {shown_path(options.archive)} "
        f"{shown_path(str(options.questions))} --window {options.window} --reply {options.reply} "
        f"--tokenizer {Path(options.tokenizer).name} --strategies {' '.join(options.strategies)}",
        "gold_questions": len(golds),
        "archive_fingerprint": archive.manifest.get("fingerprint"),
        "summaries": summaries,
    }


def page(found: Mapping[str, Any]) -> str:
    """The report of what was found, in markdown."""
    title = "# The context that would be shown, without any LLM"
    words = (__doc__ or "").split("\n\n")[2].strip()
    return f"{title}\n\n`{found['command']}`\n\n{words}\n\n{table(found['summaries'])}"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("archive", help="an archive with chunks of 512 tokens")
    parser.add_argument("questions", type=Path, help="gold.jsonl, or the data folder that holds reports/")
    parser.add_argument("--strategies", nargs="+", choices=STRATEGIES, default=list(STRATEGIES))
    parser.add_argument("--window", type=int, default=8192, help="prompt and reply together, in tokens")
    parser.add_argument("--reply", type=int, default=96, help="most tokens of a reply (max_completion_tokens)")
    parser.add_argument("--tokenizer", default="o200k_base", help="o200k_base, or a folder with a tokenizer.json")
    parser.add_argument("--embedding", default="embedded", help="the dense model that the archive was made with")
    parser.add_argument("--policy", default="policy/paper.yaml")
    parser.add_argument("--out", type=Path, help="markdown file to write; a .json is written beside it")
    options = parser.parse_args(argv)
    try:
        found = measure(options)
    except OkraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    text = page(found)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")
        options.out.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
