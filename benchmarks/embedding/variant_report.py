"""The figures of `variants.py` as Markdown."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from benchmarks.embedding.variant_recall import PLAIN, SEED, Recall
from okralong.lab.evidence.bench import Bench
from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.reporting.tables import estimate_words


@dataclass(frozen=True, slots=True)
class SetSize:
    """How much a set asks, and about how much text; tokens are o200k."""

    name: str
    questions: int
    sources: int
    documents: int
    tokens: int

    @classmethod
    def of(cls, bench: Bench) -> SetSize:
        """Of a bench."""
        questions = bench.pooled.questions
        return cls(
            bench.name,
            len(questions),
            len({source for each in questions for source in each.item.documents or each.doc_ids}),
            len(bench.pooled.documents),
            sum(tokens for _, tokens in bench.retrievals.archive.document_tokens(())),
        )


@dataclass(frozen=True, slots=True)
class Measured:
    """``recall`` by method and way; ``seconds`` of the processor by way, one for each timed document."""

    sets: Sequence[SetSize]
    recall: Mapping[str, Mapping[str, Recall]]
    seconds: Mapping[str, Sequence[float]]
    timed_chunks: int


def report(measured: Measured) -> str:
    """All of it."""
    tables = "\n".join(_recall(name, ways) for name, ways in measured.recall.items())
    return (
        "# Other ways to embed\n\n`python -m benchmarks.embedding.variants --data DATA --out "
        "benchmarks/results/embedding_variants.md`\n\n"
        "Against the plain way, each chunk by itself in float32: evidence recall in the evidence bench, tune side of "
        "the split. A difference is recall at the plain way's tokens, less its recall: the mean over the sets, with a "
        "95 % interval from a paired bootstrap over source documents. The default policy has the sets' own labels and "
        f"queries. TAT-QA's and QMSum's questions are drawn (seed {SEED}). "
        f"PyTorch {torch.__version__}, {torch.get_num_threads()} of {os.cpu_count()} cores.\n\n"
        f"{_sizes(measured.sets)}\n{tables}\n{_speed(measured)}"
    )


def _sizes(sets: Sequence[SetSize]) -> str:
    rows = "".join(
        f"| {each.name} | {each.questions} | {each.sources} | {each.documents} | {each.tokens:,} |\n" for each in sets
    )
    return f"| set | questions | source documents | documents | tokens |\n|---|---|---|---|---|\n{rows}"


def _recall(name: str, ways: Mapping[str, Recall]) -> str:
    sets = list(ways[PLAIN].by_set)
    rows = "".join(
        f"| {way} | {each.tokens:.0f} | {each.recall:.3f} | {estimate_words(each.difference, '+.3f')} | "
        f"{' | '.join(_value(each.by_set[set_name]) for set_name in sets)} |\n"
        for way, each in ways.items()
    )
    return (
        f"## {name[0].upper()}{name[1:]}\n\n"
        f"| way | tokens | recall | at the plain way's tokens | {' | '.join(sets)} |\n"
        f"|---|---|---|---|{'---|' * len(sets)}\n{rows}"
    )


def _speed(measured: Measured) -> str:
    plain = measured.seconds[PLAIN]
    rows = "".join(
        f"| {way} | {sum(spent):.1f} | {statistics.median(a / b for a, b in zip(plain, spent, strict=True)):.2f} | "
        f"{', '.join(f'{a / b:.2f}' for a, b in zip(plain, spent, strict=True))} |\n"
        for way, spent in measured.seconds.items()
    )
    return (
        f"## Speed\n\n{len(plain)} whole documents with {measured.timed_chunks} chunks of the four sizes, one after "
        "the other, the ways in turn on each; processor time.\n\n"
        "| way | seconds | throughput, of the plain way's: median | by document |\n|---|---|---|---|\n"
        f"{rows}"
    )


def _value(difference: Estimate | None) -> str:
    return "-" if difference is None or difference.value is None else f"{difference.value:+.3f}"
