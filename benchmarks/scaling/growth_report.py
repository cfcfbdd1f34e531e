"""The tables and the picture of growth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.scaling.meter import slope

Row = dict[str, Any]


def write_report(rows: list[Row], out: Path) -> None:
    """Write growth.md and growth.svg of all rows."""
    sections = ["# Growth\n\n`python -m benchmarks.scaling.growth --real 1 10 100 --synthetic 10 100 1000 10000`\n"]
    for series, title in (("real", "Real embeddings"), ("synthetic", "Synthetic vectors")):
        mine = [row for row in rows if row["series"] == series]
        if mine:
            sections.append(f"## {title}\n\n{_table(mine, _lines(mine))}")
    sections += [f"## The night after\n\n{_night(row)}" for row in rows if "night" in row]
    text = "\n".join(sections)
    print(text)
    (out / "growth.md").write_text(text, encoding="utf-8")
    _picture(rows, out / "growth.svg")


def _lines(rows: list[Row]) -> dict[str, list[float]]:
    """What is shown of each size, by name."""
    lines: dict[str, list[float]] = {}

    def line(name: str, values: list[float]) -> None:
        lines[name] = values

    if "clock_s" in rows[0]:
        line("clock of the command, s", [row["clock_s"] for row in rows])
        line("processor of all its processes, s", [row["processor_s"] for row in rows])
        for stage in ("read", "embed", "build"):
            line(f"clock of {stage}, s", [row["stages_clock_s"][stage] for row in rows])
        for stage in rows[0]["stages_work_s"]:
            line(f"in the tasks of {stage}, s", [row["stages_work_s"][stage] for row in rows])
        line("peak memory of all processes, MiB", [row["peak_mib"]["all"] for row in rows])
        line("peak memory of the command, MiB", [row["peak_mib"]["command"] for row in rows])
    else:
        line("processor in all, s", [_seconds(row) for row in rows])
        for stage in ("read", "chunk", "vectors", "build", "list", "publish"):
            line(f"processor of {stage}, s", [row["stages_processor_s"][stage] for row in rows])
        peaks = [max(row["peak_mib"].values()) for row in rows]
        above = [peak - row["at_start_mib"] for peak, row in zip(peaks, rows, strict=True)]
        line("peak private memory, MiB", peaks)
        line("peak private memory above an idle process, MiB", above)
    line("files", [sum(each["files"] for each in row["kept"].values()) for row in rows])
    line("MB in all", [sum(each["bytes"] for each in row["kept"].values()) / 1e6 for row in rows])
    for folder in ("documents", "chunks", "vectors", "index"):
        line(f"MB of {folder}", [row["kept"][folder]["bytes"] / 1e6 for row in rows])
    for key, name in (
        ("open_ms", "open the archive, ms"),
        ("open_shards_ms", "open all shards, ms"),
        ("open_mib", "private memory when open, MiB"),
        ("document_ms", "question about one document, ms"),
        ("archive_ms", "question about the archive, ms"),
        ("archive_mib", "private memory after the questions, MiB"),
    ):
        line(name, [row["asked"][key] for row in rows])
    return lines


def _seconds(row: Row) -> float:
    """Processor seconds of all stages but the drawing of synthetic vectors."""
    return float(sum(spent for stage, spent in row["stages_processor_s"].items() if stage != "encode"))


def _table(rows: list[Row], lines: dict[str, list[float]]) -> str:
    chunks, shards = [row["chunks"] for row in rows], [row["shards"] for row in rows]
    heads = "".join(f" {row['reports']:,} |" for row in rows)
    text = f"| reports |{heads} slope | of the last step |\n|---|{'---|' * len(rows)}---|---|\n"
    text += f"| chunks |{''.join(f' {count:,} |' for count in chunks)} | |\n"
    text += f"| shards |{''.join(f' {count} |' for count in shards)} | |\n"
    for name, values in lines.items():
        shown = "".join(f" {_short(value)} |" for value in values)
        text += f"| {name} |{shown} {slope(chunks, values):.2f} | {slope(chunks[-2:], values[-2:]):.2f} |\n"
    return text


def _night(row: Row) -> str:
    night = row["night"]
    whole_s, night_s = _seconds(row), _seconds(night)
    whole_bytes = sum(each["bytes"] for each in row["kept"].values())
    new = night["chunks"] - row["chunks"]
    text = (
        f"{new:,} new chunks beside {row['chunks']:,} ({new / row['chunks']:.1%}); {night['texts_embedded']:,} texts "
        f"to embed; {night['shards_written']} of {night['shards']} shards written anew.\n\n"
        "| | whole | the night after | share |\n|---|---|---|---|\n"
        f"| processor in all, s | {_short(whole_s)} | {_short(night_s)} | {night_s / whole_s:.1%} |\n"
    )
    for stages in ("read",), ("chunk",), ("vectors",), ("build",), ("list", "publish"):
        spent, mine = (sum(each["stages_processor_s"][stage] for stage in stages) for each in (row, night))
        text += f"| processor of {' and '.join(stages)}, s | {_short(spent)} | {_short(mine)} | {mine / spent:.1%} |\n"
    index = row["kept"]["index"]["bytes"]
    pairs = [
        ("bytes written, MB", whole_bytes, night["bytes"]),
        ("of shards", index, night["bytes_index"]),
        ("of all else", whole_bytes - index, night["bytes"] - night["bytes_index"]),
    ]
    for name, whole, mine in pairs:
        text += f"| {name} | {_short(whole / 1e6)} | {_short(mine / 1e6)} | {mine / whole:.1%} |\n"
    return text


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _picture(rows: list[Row], file: Path) -> None:
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "okralong", "svg.fonttype": "none"})
    from matplotlib import pyplot

    mine = [row for row in rows if row["series"] == "synthetic"]
    if len(mine) < 2:
        return
    chunks = [row["chunks"] for row in mine]
    lines = _lines(mine)
    figure, panels = pyplot.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    shown = (
        (
            "seconds of processor",
            ("processor of read, s", "processor of chunk, s", "processor of vectors, s", "processor of build, s"),
        ),
        ("MB on disk", ("MB of documents", "MB of chunks", "MB of vectors", "MB of index")),
        (
            "a question (ms), memory (MiB)",
            ("question about one document, ms", "question about the archive, ms", "peak private memory, MiB"),
        ),
    )
    for panel, (title, names) in zip(panels, shown, strict=True):
        for name in names:
            short = name.removeprefix("processor of ").removeprefix("MB of ").removesuffix(", s")
            panel.loglog(chunks, lines[name], marker="o", label=short)
        panel.set(title=title, xlabel="chunks")
        panel.legend(fontsize=8)
        panel.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None})
