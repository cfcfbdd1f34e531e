"""Measure SARA's table 11, memory included: each method of the sweep runs alone, in processes of its own.

    python -m benchmarks.sara_memory --data DATA --work WORK --limit 5 --out benchmarks/results/sara/memory.md \
        -- --embedded --sets example_sets.yaml

What follows ``--`` is passed to ``okralong evaluate``. A first pass, which is not measured, indexes the documents, so
that the passes that are measured hold what answering holds. Memory is the peak of the proportional set size of all
processes together, Ray's included (shared pages count once); a GPU's is what ``nvidia-smi`` shows meanwhile.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import yaml

from benchmarks.watched import Watched, watched
from okralong.lab.sweeps.config import Sweep
from okralong.lab.sweeps.results import read_scores
from okralong.pipelines.core.child_process import module_command
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.tables import NONE, markdown_table

SWEEP = "sweeps/sara_table11.yaml"
COLUMNS = ("seconds_first_token", "seconds_total", "tokens_per_second")
HEAD = ["", "questions", "first token, s", "seconds", "tokens/s", "memory, MiB"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--limit", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("more", nargs="*", help="further options of okralong evaluate, after --")
    given = parser.parse_args()
    same = ["--data", given.data, "--work", given.work, "--limit", str(given.limit), "--yes", *given.more]
    sweep = load_config(Sweep, SWEEP)
    lines = []
    with tempfile.TemporaryDirectory() as place:
        for method, variant in sweep.systems():
            one = Path(place) / f"{method}-{variant}".replace(" ", "-")
            one.with_suffix(".yaml").write_text(yaml.safe_dump(_alone(sweep, method, variant)))
            command = module_command("okralong", "evaluate", str(one.with_suffix(".yaml")), *same)
            watched([*command, "--out", f"{one}-first"])
            lines.append(_line(f"{method} ({variant})", one, watched([*command, "--out", str(one)])))
    page = f"# SARA, table 11, with memory\n\n{markdown_table(HEAD, lines, range(1, len(HEAD)))}\n"
    print(page)
    if given.out:
        given.out.write_text(page)


def _alone(sweep: Sweep, method: str, variant: str) -> dict[str, object]:
    """Return the sweep's file with one method and one variant."""
    body: dict[str, object] = sweep.model_dump(mode="json")
    chosen = sweep.methods[method].model_dump(mode="json")
    kept = {variant: sweep.variants[variant].model_dump(mode="json")}
    return body | {"methods": {method: chosen | {"variants": [variant]}}, "variants": kept, "against": []}


def _line(name: str, run: Path, seen: Watched) -> Sequence[str]:
    rows = read_scores(Folder.of(run))
    means = []
    for column in COLUMNS:
        values = [row[column] for row in rows if row[column] is not None]
        means.append(f"{fmean(values):.2f}" if values else NONE)
    return [name, str(len(rows)), *means, f"{seen.peak:,.0f}"]


if __name__ == "__main__":
    main()
