"""Growth: what an archive costs to build, to keep, to open and to ask, over archives each ten times the one before.

    python -m benchmarks.scaling.growth --real 1 10 100 --synthetic 10 100 1000 10000

Made-up reports of 2,000 words (25 chunks of 150 tokens each), in shards of at most 10,000 chunks. ``--real``: the whole
`okralong index` with the packaged encoder, Ray included. ``--synthetic``: the same stages in one process, with vectors
drawn by a hash in the encoder's place (`archives.py`); on the largest of them, the night after: a hundredth of its
reports is new. Each archive is built by a process of its own and asked by another (`asking.py`). Rows are kept in
growth.json and replaced one by one, so that sizes may be run in turn; growth.md and growth.svg show all of them.
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
from benchmarks.scaling.growth_report import write_report
from benchmarks.scaling.meter import Meter
from benchmarks.watched import watched
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.indexing.config import IndexConfig

WORDS: Final = 2_000
NIGHT_SHARE: Final = 100
"""One report in so many is new in the night after."""
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


if __name__ == "__main__":
    main()
