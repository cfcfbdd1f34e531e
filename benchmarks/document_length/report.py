"""The figures by document length as Markdown: each beside its ratio to the shortest documents' of the same run."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.document_length.figures import Shown, together, typical
from benchmarks.document_length.sets import SEED
from benchmarks.document_length.stages import REPEATS, STAGES
from okralong.pipelines.reporting.tables import estimate_words, markdown_table

COMMAND = "python -m benchmarks.document_length --data DATA --sets {} --out benchmarks/results/document_length.md"


@dataclass(frozen=True, slots=True)
class Size:
    """A set: its questions and their source documents; by length how many documents, and the mean of their tokens."""

    name: str
    questions: int
    sources: int
    documents: Mapping[int, tuple[int, float]]


@dataclass(frozen=True)
class Measured:
    """All of it. ``shown`` by set, method and length, under "" the mean over the sets; ``seconds`` by set, length and
    stage, one a question; ``reading`` by set and length, one a document; ``embedding`` is a question's.
    """

    sizes: Sequence[Size]
    shown: Mapping[str, Mapping[str, Mapping[int, Shown]]]
    seconds: Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]]
    reading: Mapping[str, Mapping[int, Sequence[float]]]
    embedding: float


def report(measured: Measured) -> str:
    """All of it; the mean over the sets only where there are several."""
    names = [size.name for size in measured.sizes]
    timed = sum(len(next(iter(each.values()))["analysis"]) for each in measured.seconds.values())
    parts = [
        "# Cost, recall and latency by document length",
        f"`{COMMAND.format(' '.join(name.split()[0] for name in names))}`",
        "The same questions, test side of the split, over ever longer documents: the shortest are pooled of the "
        "contexts of a few questions, a longer one is several of those joined, filled up with documents of other "
        "questions, so that the text around the evidence stays as it is. Nothing was chosen on them, no generator was "
        "asked. `ours` is the default policy under the shipped analyzer, given the sets' own queries for splitting and "
        "stepping, which no user has; `ours linear` looks up "
        f"nothing but the question; `std-rag` is 5 chunks of 512, dense. Drawn with seed {SEED}; intervals: 95 %, "
        f"bootstrap over source documents, paired. {len(os.sched_getaffinity(0))} of {os.cpu_count()} cores.",
        _sizes(measured.sizes),
        "## What is shown",
        "Evidence recall is the share of the gold characters shown; `change` is recall less that at the shortest "
        "length; `of the document` is the context's share of the document's tokens, which is what long context costs.",
    ]
    if len(names) > 1:
        parts += [f"### Mean over {', '.join(names)}", _shown(measured.shown[""])]
    for name in names:
        parts += [f"### {name}", _shown(measured.shown[name])]
    parts += [
        "## Milliseconds of the processor a question",
        f"{timed} questions, each {REPEATS} times at each length in turn, the best of them counts; medians over "
        "questions, and in brackets the ratio to the shortest documents' median. In one process, without Ray, the "
        "journal or the network. Retrieval is the primary and the planned one together, four look-ups or three, "
        f"without embedding the question ({1000 * measured.embedding:.1f} ms, whatever it is asked of); analysis is "
        "the shipped heads; context is merging, widening and table recovery, the document being in memory; `first "
        "reading` is what the first passage that needs its whole document costs beside, once for each document (best "
        "of as many).",
    ]
    if len(names) > 1:
        joined = _joined(measured.seconds, names), _read_together(measured.reading, names)
        parts += [f"### All questions on {', '.join(names)}", _milliseconds(*joined)]
    for name in names:
        parts += [f"### {name}: milliseconds", _milliseconds(measured.seconds[name], measured.reading[name])]
    return "\n\n".join(parts) + "\n"


def _sizes(sizes: Sequence[Size]) -> str:
    lengths = list(dict.fromkeys(length for size in sizes for length in size.documents))
    rows = []
    for size in sizes:
        cells = [
            f"{count} of {tokens:,.0f}" if (count, tokens) != (0, 0.0) else "-"
            for count, tokens in (size.documents.get(length, (0, 0.0)) for length in lengths)
        ]
        rows.append([size.name, str(size.questions), str(size.sources), *cells])
    return markdown_table(["set", "questions", "sources", *(f"documents at {length:,}" for length in lengths)], rows)


def _shown(methods: Mapping[str, Mapping[int, Shown]]) -> str:
    rows = []
    for name, by_length in methods.items():
        first = next(iter(by_length.values()))
        for length, each in by_length.items():
            rows.append(
                [
                    name,
                    f"{length:,}",
                    f"{each.tokens:,.0f} ({each.tokens / first.tokens:.2f})",
                    f"{each.prompts:,.0f} ({each.prompts / first.prompts:.2f})",
                    f"{100 * each.tokens / each.document:.1f} %",
                    estimate_words(each.recall),
                    "-" if each is first else estimate_words(each.change, "+.3f"),
                    f"{each.all_evidence:.3f}",
                ]
            )
    head = ["method", "length", "context tokens (ratio)", "all prompts (ratio)", "of the document"]
    return markdown_table([*head, "recall", "change", "all evidence"], rows)


def _milliseconds(seconds: Mapping[int, Mapping[str, Sequence[float]]], reading: Mapping[int, Sequence[float]]) -> str:
    read = {length: statistics.median(each) for length, each in reading.items()}
    found = {length: typical(each) for length, each in seconds.items()}
    first = next(iter(found))
    rows = [
        [
            f"{length:,}",
            *(_timed(each[stage], found[first][stage]) for stage in (*STAGES, "all")),
            _timed(read[length], read[first]),
        ]
        for length, each in found.items()
    ]
    return markdown_table(["length", *STAGES, "all three", "first reading"], rows)


def _joined(
    seconds: Mapping[str, Mapping[int, Mapping[str, Sequence[float]]]], names: Sequence[str]
) -> dict[int, dict[str, list[float]]]:
    return {length: together([seconds[name][length] for name in names]) for length in seconds[names[0]]}


def _read_together(
    reading: Mapping[str, Mapping[int, Sequence[float]]], names: Sequence[str]
) -> dict[int, list[float]]:
    return {length: [value for name in names for value in reading[name][length]] for length in reading[names[0]]}


def _timed(value: float, first: float) -> str:
    return f"{1000 * value:.2f} ({value / first:.2f})"
