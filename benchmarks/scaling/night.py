"""Calculate a night: documents and questions in; processor hours, GPU hours, bytes, tokens and dollars out.

    python -m benchmarks.scaling.night --out benchmarks/results/scaling/night.md
    python -m benchmarks.scaling.night --documents 50000 --new 200 --questions 2000 --gpu-tokens-per-s 900000

Unit costs come from costs.json and, for a night's shards, growth.json; tokens per question from
`benchmarks/results/reports.json` unless given; prices from `configs/prices.yaml`. Each line shows its calculation.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from okralong.pipelines.archive.files import shard_of
from okralong.pipelines.core.types import Usage
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.llm.prices import PriceTable

RESULTS: Final = Path(__file__).parents[1] / "results" / "scaling"
GPU_TOKENS_A_S: Final = 300_000.0
"""Tokens per second that an encoder of MiniLM's size embeds on a GPU. Assumed, not measured: its 10.6 million weights
outside the vocabulary are 21 MFLOP per token, so this is 6 TFLOP/s, a small share of a data-centre GPU.
"""

HOUR: Final = 3600.0
Line = tuple[str, str, str]


@dataclass(frozen=True)
class UnitCosts:
    """Unit costs; seconds are of one core's processor time.

    ``chunks_a_token`` is chunks per token by chunk size; ``bytes_a_chunk`` by folder of the archive, over all chunk
    sizes, and ``bytes_a_token`` of ``documents``. ``document_s`` is a retrieval in one document by both retrievers,
    ``flat_s_a_chunk`` and ``ivf_s_a_chunk`` what each chunk adds to one over the archive, ``shard_call_s`` a call to a
    shard's process on both sides, ``process_bytes`` that process's memory.
    """

    sizes: tuple[int, ...]
    chunks_a_token: dict[str, float]
    bytes_a_chunk: dict[str, float]
    bytes_a_token: float
    read_s_a_mb: float
    mb_a_token: float
    chunk_s: float
    embed_texts_a_s: float
    embed_tokens_a_s: float
    build_s: float
    document_s: float
    flat_s_a_chunk: float
    ivf_s_a_chunk: float
    ivf_build_s: float
    analysis_s: float
    query_vector_s: float
    question_s: float
    retrievals: float
    shard_call_s: float
    process_bytes: float

    @classmethod
    def load(cls, file: Path = RESULTS / "costs.json") -> UnitCosts:
        """Load the output of ``python -m benchmarks.scaling.costs``."""
        found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        flat = {name: value for section in found.values() for name, value in section.items()}
        return cls(**{name: flat[name] for name in cls.__annotations__} | {"sizes": tuple(flat["sizes"])})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--new", type=int, default=1_000)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--archive-wide", type=float, default=0.01, help="share of questions about everything")
    parser.add_argument("--tokens", type=float, default=24_000, help="of a document")
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--chunks-per-shard", type=int, default=100_000)
    parser.add_argument("--gpu-tokens-per-s", type=float, default=GPU_TOKENS_A_S)
    parser.add_argument("--prompt-tokens", type=float, help="of a question; default: as measured on real reports")
    parser.add_argument("--completion-tokens", type=float)
    parser.add_argument("--models", nargs="+", default=["gpt-4o", "gpt-4o-mini"])
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    reports = json.loads((RESULTS.parent / "reports.json").read_text())["summaries"]["okralong"]["all"]
    given.prompt_tokens = given.prompt_tokens or reports["prompt_tokens"]
    given.completion_tokens = given.completion_tokens or reports["completion_tokens"]
    growth = json.loads((RESULTS / "growth.json").read_text())
    copied = next(row["night"] for row in reversed(growth) if "night" in row)
    text = (
        f"# A night\n\n`python -m benchmarks.scaling.night`\n\n{given.documents:,} documents of {given.tokens:,.0f} "
        f"tokens, {given.new:,} of them new, {given.questions:,} questions, {given.archive_wide:.0%} of them about the "
        f"whole archive; {given.nodes} nodes, {given.chunks_per_shard:,} chunks a shard at most. Hours are of one "
        "core's processor time.\n\n"
    )
    costs = UnitCosts.load()
    for title, lines in (
        ("The new documents", _new(given, costs, copied)),
        ("The questions", _questions(given, costs)),
        ("The archive as it stands", _archive(given, costs)),
    ):
        text += f"**{title}**\n\n| what | how | comes to |\n|---|---|---|\n"
        text += "".join(f"| {what} | {how} | {result} |\n" for what, how, result in lines) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text, encoding="utf-8")


def _new(given: Any, costs: UnitCosts, copied: Any) -> list[Line]:
    a_document = given.tokens * sum(costs.chunks_a_token.values())
    chunks, megabytes = given.new * a_document, given.new * given.tokens * costs.mb_a_token
    embedded = chunks * costs.embed_tokens_a_s / costs.embed_texts_a_s
    shards, touched = _shards(given)
    rewritten = touched * given.documents * a_document
    of_shards = rewritten * costs.bytes_a_chunk["index"]
    fresh = chunks * (costs.bytes_a_chunk["chunks"] + costs.bytes_a_chunk["vectors"])
    fresh += given.new * given.tokens * costs.bytes_a_token
    copy_s = copied["stages_processor_s"]["build"] / copied["chunks"]
    known = copied["stages_processor_s"]["list"] + copied["stages_processor_s"]["publish"]
    a_known = known / (copied["chunks"] / CHUNKS_A_REPORT)
    cpu = chunks / costs.embed_texts_a_s
    return [
        ("new chunks, all sizes", f"{given.new:,} x {a_document:.0f}", f"{chunks:,.0f}"),
        ("read", f"{megabytes:,.0f} MB x {costs.read_s_a_mb:.3f} s", _hours(megabytes * costs.read_s_a_mb)),
        ("chunk", f"chunks x {1000 * costs.chunk_s:.2f} ms", _hours(chunks * costs.chunk_s)),
        ("embed on processors", f"chunks / {costs.embed_texts_a_s:.1f} a second", _hours(cpu)),
        (
            "embed on GPUs",
            f"{embedded / 1e6:,.0f}M tokens / {given.gpu_tokens_per_s:,.0f} a second (**assumed**)",
            f"{embedded / given.gpu_tokens_per_s / HOUR:.2g} GPU-hours",
        ),
        (
            "shards that get a new document",
            f"`shard_of` over {shards:,} shards",
            f"{touched:.0%}",
        ),
        (
            "put these together anew",
            f"{rewritten / 1e6:,.0f}M chunks x {1e6 * copy_s:.0f} µs",
            _hours(rewritten * copy_s),
        ),
        (
            "their bytes",
            f"x {costs.bytes_a_chunk['index']:,.0f}",
            f"{of_shards / 1e9:,.0f} GB written",
        ),
        (
            "all other bytes",
            "new vectors, chunks, documents",
            f"{fresh / 1e9:,.1f} GB written",
        ),
        (
            "known documents listed and catalogued",
            f"{given.documents:,} x {1e6 * a_known:.0f} µs",
            _hours(given.documents * a_known),
        ),
    ]


CHUNKS_A_REPORT: Final = 25
"""Chunks per report in ``growth``, the source of costs per document."""


def _questions(given: Any, costs: UnitCosts) -> list[Line]:
    wide = round(given.questions * given.archive_wide)
    chunks = given.documents * given.tokens * costs.chunks_a_token[str(min(costs.sizes))]
    shards, _ = _shards(given)
    calls = 3 * shards * costs.shard_call_s
    flat, ivf = chunks * costs.flat_s_a_chunk, chunks * costs.ivf_s_a_chunk
    looked = given.questions * costs.retrievals * costs.document_s
    lines = [
        (
            "questions, without the generator",
            f"{given.questions:,} x {costs.question_s:.2f} s (all processes)",
            _hours(given.questions * costs.question_s),
        ),
        (
            "of it analysis",
            f"{given.questions:,} x {1000 * costs.analysis_s:.1f} ms",
            _hours(given.questions * costs.analysis_s),
        ),
        (
            "of it looking into single documents",
            f"{given.questions:,} x {costs.retrievals:.1f} x {1000 * costs.document_s:.2f} ms",
            _hours(looked),
        ),
        (
            "one archive-wide look-up, flat",
            f"{chunks / 1e6:,.0f}M chunks x {1e9 * costs.flat_s_a_chunk:.0f} ns + 3 x {shards:,} calls x "
            f"{1000 * costs.shard_call_s:.2f} ms",
            f"{flat + calls:,.0f} s of processor",
        ),
        (
            "the same with `dense: ivf`",
            f"{1e9 * costs.ivf_s_a_chunk:.0f} ns a chunk and the calls",
            f"{ivf + calls:,.0f} s of processor",
        ),
        (
            f"{given.archive_wide:.0%} of the questions archive-wide",
            f"{wide:,} x {costs.retrievals:.1f} look-ups, flat or ivf",
            f"{_hours(wide * costs.retrievals * (flat + calls))} or {_hours(wide * costs.retrievals * (ivf + calls))}",
        ),
    ]
    table = PriceTable.load()
    prompt, completion = (round(given.questions * each) for each in (given.prompt_tokens, given.completion_tokens))
    lines.append(
        (
            "tokens of the generator",
            f"{given.questions:,} x ({given.prompt_tokens:,.0f} + {given.completion_tokens:,.0f})",
            f"{prompt / 1e6:,.1f}M + {completion / 1e6:,.2f}M",
        )
    )
    for model in given.models:
        price, usage = table.price(model), Usage(prompt, 0, completion)
        lines.append(
            (
                f"dollars, {model}",
                f"{price.input:g} and {price.output:g} a million; in a batch {1 - price.batch_discount:.0%}",
                f"${price.cost(usage):,.2f}; ${price.in_batch().cost(usage):,.2f}",
            )
        )
    return lines


def _archive(given: Any, costs: UnitCosts) -> list[Line]:
    chunks = given.documents * given.tokens * sum(costs.chunks_a_token.values())
    tokens = given.documents * given.tokens
    shards, _ = _shards(given)
    mapped = chunks * costs.bytes_a_chunk["index"] / given.nodes
    smallest = tokens * costs.chunks_a_token[str(min(costs.sizes))]
    lines = [
        (
            "chunks, all sizes",
            f"{tokens / 1e9:,.0f}G tokens x {sum(costs.chunks_a_token.values()):.4f}",
            f"{chunks / 1e6:,.0f}M",
        ),
    ]
    for folder in ("index", "vectors", "chunks"):
        each = costs.bytes_a_chunk[folder]
        lines.append((f"disk: {folder}", f"chunks x {each:,.0f}", f"{chunks * each / 1e12:,.2f} TB"))
    lines += [
        ("disk: documents", f"tokens x {costs.bytes_a_token:.2f}", f"{tokens * costs.bytes_a_token / 1e12:,.2f} TB"),
        ("mapped files a node", f"disk of index / {given.nodes}", f"{mapped / 2**30:,.1f} GiB"),
        (
            "of them the vectors of one size, all touched by an archive-wide question",
            f"{smallest / 1e6:,.0f}M x 384 x 4 / {given.nodes}",
            f"{smallest * 384 * 4 / given.nodes / 2**30:,.1f} GiB",
        ),
        (
            "processes of shards a node",
            f"{shards:,} / {given.nodes} x {costs.process_bytes / 2**20:.0f} MiB",
            f"{shards / given.nodes * costs.process_bytes / 2**30:,.1f} GiB",
        ),
        (
            "the first night, embedding on processors",
            f"chunks / {costs.embed_texts_a_s:.1f} a second",
            _hours(chunks / costs.embed_texts_a_s),
        ),
        (
            "the first night, embedding on GPUs",
            f"tokens x {len(costs.sizes)} sizes / {given.gpu_tokens_per_s:,.0f} a second (**assumed**)",
            f"{chunks * costs.embed_tokens_a_s / costs.embed_texts_a_s / given.gpu_tokens_per_s / HOUR:,.0f} GPU-hours",
        ),
        ("the first night, building shards", f"chunks x {1e6 * costs.build_s:.0f} µs", _hours(chunks * costs.build_s)),
    ]
    return lines


def _shards(given: Any) -> tuple[int, float]:
    """Return the number of shards, and the share of them that new documents affect."""
    tokens = int(given.documents * given.tokens)
    shards = IndexConfig(chunks_per_shard=given.chunks_per_shard).shard_count(tokens)
    new = range(given.documents, given.documents + given.new)
    names = (f"company-{number // 12:06d}/report-{number % 12:02d}" for number in new)
    return shards, len({shard_of(name, shards) for name in names}) / shards


def _hours(seconds: float) -> str:
    return f"{seconds / HOUR:,.0f} h" if seconds >= 100 * HOUR else f"{seconds / HOUR:.2g} h"


if __name__ == "__main__":
    main()
