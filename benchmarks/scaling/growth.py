"""Measure what archives cost to build, store, open and query, each ten times as large as the last.

    python -m benchmarks.scaling.growth --real 1 10 100 --synthetic 10 100 1000 10000

Generated reports of 2,000 words (25 chunks of 150 tokens each), in shards of at most 10,000 chunks. ``--real``: the
complete `okralong index` with the packaged encoder, Ray included. ``--synthetic``: the same stages in one process, with
vectors drawn by a hash instead of the encoder (`archives.py`); on the largest one also the next night, with a hundredth
of new reports. Each archive is built by one process and queried by another (`asking.py`). growth.json stores one row
per size, so sizes may be run separately; growth.md and growth.svg show all.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from benchmarks.scaling.archives import build_version, reports, weigh
from benchmarks.scaling.meter import Meter, slope
from benchmarks.watched import watched
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.indexing.config import IndexConfig

WORDS: Final = 2_000
NIGHT_SHARE: Final = 100
"""One in this many reports is new in the next night."""
CONFIG: Final = {"granularities": [150], "chunks_per_shard": 10_000}
RESULTS: Final = Path("benchmarks/results/scaling")

Row = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--real", type=int, nargs="*", default=[], help="numbers of reports")
    parser.add_argument("--synthetic", type=int, nargs="*", default=[], help="numbers of reports")
    parser.add_argument("--work", type=Path, help="keeps synthetic archives; one that was stopped is gone on with")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--child", nargs=3, metavar=("FOLDER", "FIRST", "COUNT"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        folder, first, count = given.child
        print(json.dumps(_build(Path(folder), int(first), int(count))))
        return
    given.out.mkdir(parents=True, exist_ok=True)
    kept = given.out / "growth.json"
    rows: list[Row] = json.loads(kept.read_text()) if kept.exists() else []
    for series, sizes in (("real", given.real), ("synthetic", given.synthetic)):
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="okralong-growth-") as name:
                work = Path(name)
                if given.work and series == "synthetic":
                    work = given.work / str(size)
                    work.mkdir(parents=True, exist_ok=True)
                new = _real(work, size) if series == "real" else _synthetic(work, size, given.synthetic)
            rows = [row for row in rows if (row["series"], row["reports"]) != (series, size)] + [new]
            rows.sort(key=lambda row: (row["series"], row["reports"]))
            kept.write_text(json.dumps(rows, indent=1) + "\n")
            print(json.dumps(new), flush=True)
    write_report(rows, given.out)


def _synthetic(work: Path, size: int, sizes: list[int]) -> Row:
    folder = work / "archive"
    row = _child(folder, 0, size)
    row |= {"series": "synthetic", "reports": size, "kept": weigh(folder), "asked": _ask(folder)}
    if size == max(sizes) and size >= NIGHT_SHARE:
        before = {file for file in folder.rglob("*") if file.is_file()}
        row["night"] = _child(folder, size, size // NIGHT_SHARE)
        new = [file for file in folder.rglob("*") if file.is_file() and file not in before]
        row["night"]["bytes"] = sum(file.stat().st_size for file in new)
        row["night"]["bytes_index"] = sum(file.stat().st_size for file in new if "index" in file.parts)
    return row


def _real(work: Path, size: int) -> Row:
    sources, folder, config = work / "sources", work / "archive", work / "index.yaml"
    sources.mkdir()
    for part in reports(0, size, WORDS):
        for one in part:
            (sources / f"{one.doc_id}.txt").write_text(one.text, encoding="utf-8")
    config.write_text(yaml.safe_dump(CONFIG))
    command = [sys.executable, "-m", "okralong.jobs.cli", "index", str(folder)]
    seen = watched([*command, "--from", str(sources), "--config", str(config)])
    manifest = Archive.open(folder).manifest
    return _counts(manifest) | {
        "series": "real",
        "reports": size,
        "clock_s": seen.seconds,
        "processor_s": seen.processor_s,
        "stages_clock_s": manifest["seconds"],
        "stages_work_s": manifest["work_seconds"],
        "peak_mib": {"all": seen.peak, "command": seen.own},
        "kept": weigh(folder),
        "asked": _ask(folder),
    }


def _build(folder: Path, first: int, count: int) -> Row:
    with (
        tempfile.TemporaryDirectory() as warm
    ):  # what is imported and loaded for the first report is not a report's cost
        build_version(Path(warm), partial(reports, first, 1, WORDS), _config(), Meter())
    meter, done = Meter(), folder.parent / f"done-{first}"
    manifest = build_version(folder, partial(reports, first, count, WORDS), _config(), meter, done=done)
    return _counts(manifest) | {
        "stages_processor_s": dict(meter.seconds),
        "peak_mib": dict(meter.peaks),
        "at_start_mib": meter.at_start,
    }


def _config() -> IndexConfig:
    return IndexConfig.model_validate(CONFIG)


def _counts(manifest: Any) -> Row:
    return {
        "chunks": sum(manifest["chunks"].values()),
        "tokens": manifest["document_tokens"],
        "shards": manifest["shards"],
        "texts_embedded": manifest["work"]["texts_embedded"],
        "shards_written": manifest["work"]["shards_written"],
    }


def _child(folder: Path, first: int, count: int) -> Row:
    return _json([sys.executable, "-m", "benchmarks.scaling.growth", "--child", str(folder), str(first), str(count)])


def _ask(folder: Path) -> Row:
    return _json([sys.executable, "-m", "benchmarks.scaling.asking", str(folder)])


def _json(command: list[str]) -> Row:
    found: Row = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.splitlines()[-1])
    return found


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
    """Return the lines of the table by name."""
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
    """Return processor seconds of all stages except drawing synthetic vectors."""
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


if __name__ == "__main__":
    main()
