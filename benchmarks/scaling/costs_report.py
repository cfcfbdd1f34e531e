"""The table of unit costs."""

from __future__ import annotations

from typing import Any


def report(found: dict[str, dict[str, Any]]) -> str:
    """costs.md: a row for each unit cost, as far as its section was measured."""
    machine = found.get("machine", {})
    text = (
        f"# Unit costs\n\n`python -m benchmarks.scaling.costs`, {machine.get('processor', '')}, "
        f"{machine.get('cores', '?')} core\n\n| what | cost |\n|---|---|\n"
    )
    rows: list[tuple[str, str]] = []
    if "index" in found:
        rows += _index(found["index"])
    if "search" in found:
        rows += _search(found["search"])
    if "question" in found:
        rows += _question(found["question"])
    if "shards" in found:
        one = found["shards"]
        rows.append(
            ("a call to the process of a shard, both sides, without its work", f"{1000 * one['shard_call_s']:.2f} ms")
        )
        rows.append(("of it the caller's", f"{1000 * one['shard_call_caller_s']:.2f} ms"))
        rows.append(("private memory of the process of a small shard", f"{one['process_bytes'] / 2**20:.0f} MiB"))
    rows.append(("embedding on a GPU: chunks/s and utilisation", "not measured: no GPU was at hand"))
    return text + "".join(f"| {what} | {cost} |\n" for what, cost in rows)


def _index(one: dict[str, Any]) -> list[tuple[str, str]]:
    sizes = ", ".join(map(str, one["sizes"]))
    per = one["bytes_a_chunk"]
    return [
        (
            f"measured on: {one['reports']} made-up reports, plain text, {one['text_mb']:.2f} MB, {one['tokens']:,} "
            f"tokens, {one['chunks']:,} chunks of {sizes} tokens; stages but embedding on "
            f"{one['more_reports']} reports, {one['more_chunks']:,} chunks",
            "",
        ),
        ("reading plain text, tables and tokens found", f"{one['read_s_a_mb']:.3f} s/MB"),
        ("chunking", f"{1000 * one['chunk_s']:.3f} s per 1,000 chunks"),
        (
            f"embedding, {one['precision']}",
            f"{one['embed_texts_a_s']:.1f} texts/s, {one['embed_tokens_a_s']:,.0f} o200k tokens/s",
        ),
        ("which texts to embed, vector files, their index", f"{1000 * one['vectors_s']:.3f} s per 1,000 chunks"),
        ("building flat shards", f"{1000 * one['build_s']:.3f} s per 1,000 chunks"),
        ("disk: vectors", f"{per['vectors']:,.0f} bytes a chunk"),
        ("disk: shards", f"{per['index']:,.0f} bytes a chunk"),
        ("disk: table of chunks", f"{per['chunks']:,.0f} bytes a chunk"),
        ("disk: documents", f"{one['bytes_a_token']:.2f} bytes a token"),
        ("chunks of all sizes", f"{1000 * sum(one['chunks_a_token'].values()):.1f} per 1,000 tokens"),
    ]


def _search(one: dict[str, Any]) -> list[tuple[str, str]]:
    recall = one["ivf_recall_in_build"]
    ivf = f"recall {recall:.3f} in its build, {one['ivf_cells_visited']} cells visited" if recall else "stayed flat"
    return [
        (
            f"both retrievers in one document of {one['document_chunks']} chunks, warm",
            f"{1000 * one['document_s']:.3f} ms",
        ),
        (
            f"both in everything, flat ({one['shard_chunks']:,} chunks in a shard)",
            f"{1e8 * one['flat_s_a_chunk']:.2f} ms per 100,000 chunks",
        ),
        (f"the same, `dense: ivf` ({ivf})", f"{1e8 * one['ivf_s_a_chunk']:.2f} ms per 100,000 chunks"),
        (
            "building the inverted file, beside the flat shard",
            f"{1000 * one['ivf_build_s']:.2f} s per 1,000 chunks, {one['ivf_bytes']:,.0f} bytes a chunk",
        ),
    ]


def _question(one: dict[str, Any]) -> list[tuple[str, str]]:
    clock = one["stages_clock_s"]
    return [
        ("the question's vector, alone", f"{1000 * one['query_vector_s']:.1f} ms"),
        (
            "analysis (heads), alone; in a batch",
            f"{1000 * one['analysis_s']:.1f} ms; {1000 * one['analysis_in_batches_s']:.1f} ms",
        ),
        (
            f"a question of `okralong answer`, all processes, {one['retrievals']:.1f} retrievals and "
            f"{one['calls']:.2f} calls of the generator (its own time not counted)",
            f"{one['question_s']:.2f} s of processor",
        ),
        (
            "by the clock, one at a time, medians: retrieve (vectors, Serve and Ray included), analyze, generator, "
            "rest (plan, context, prompt, records)",
            ", ".join(f"{1000 * clock[name]:.0f}" for name in ("retrieve", "analyze", "generator", "rest")) + " ms",
        ),
    ]
