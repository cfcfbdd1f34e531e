"""Score runs over the ``reports`` questions.

    python -m benchmarks.reports.score runs/reports/gold.jsonl archives/reports runs/std_rag runs/okralong

Words: *F1*, *EM* = of words after SQuAD's normalisation, against the best gold wording; *numeric* = the gold number
within 1 %, where the gold is a number; *recall* = the share of what is needed (the gold answer, each item of a list,
each operand of a calculation) that stands in the passages of the last prompt, n/a where nothing can be looked for;
*context tokens* = those passages in o200k_base; prompt, completion and weighted (input + 4 x output) tokens are the
endpoint's own count, all calls of a question together. Whatever is not "answered" has F1, EM and numeric 0. Intervals
are bootstraps over documents. A short number may stand in a context by chance.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.reports.gold_file import read_gold
from benchmarks.reports.provenance import begun_with, shown_path
from benchmarks.reports.scoring import Sheet, score_run
from benchmarks.reports.summary import groups, summarise
from benchmarks.reports.tables import cost_table, mix_table, quality_table, stage_table
from okralong.lab.datasets.filings import read_reports
from okralong.lab.datasets.gold import Gold
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import OkraError


def gold_questions(source: Path) -> list[Gold]:
    """The gold of a ``gold.jsonl``, or of a data folder that holds reports/."""
    return read_reports(source) if source.is_dir() else read_gold(source)


def label_runs(runs: Sequence[str], sheets: Sequence[Sequence[Sheet]]) -> list[str]:
    """The strategy of each run; with the folder's name where two runs share one."""
    names = [scored[0].strategy for scored in sheets]
    return [
        name if names.count(name) == 1 else f"{name} ({Path(run).name})" for name, run in zip(names, runs, strict=True)
    ]


def score(source: Path, archive: str, runs: Sequence[str]) -> dict[str, Any]:
    """Everything that the report says, as JSON. Raises OkraError when something cannot be read."""
    golds = gold_questions(source)
    opened = Archive.open(archive)
    text = cache(lambda doc_id: opened.document(doc_id).text)
    sheets = [score_run(Folder.of(run), golds, text) for run in runs]
    labels = label_runs(runs, sheets)
    return {
        "command": " ".join(
            ["python -m benchmarks.reports.score", *(shown_path(path) for path in (str(source), archive, *runs))]
        ),
        "gold_questions": len(golds),
        "archive_fingerprint": opened.manifest.get("fingerprint"),
        "embedding": opened.manifest["embedding"],
        "runs": {label: begun_with(Folder.of(run)) for label, run in zip(labels, runs, strict=True)},
        "summaries": {
            label: {group: summarise(members) for group, members in groups(scored).items()}
            for label, scored in zip(labels, sheets, strict=True)
        },
    }


def report(scored: dict[str, Any]) -> str:
    """The markdown page of what ``score`` found."""
    summaries = scored["summaries"]
    runs = [f"- {label}: `{run['command']}` {json.dumps(run['config'])}" for label, run in scored["runs"].items()]
    words = (__doc__ or "").split("Words: ")[1].strip()
    parts = [
        "# Questions over real reports and papers",
        f"`{scored['command']}`\n\n{scored['gold_questions']} gold questions. The runs:\n\n" + "\n".join(runs),
        words,
        "## Answers\n\n" + quality_table(summaries),
        "## Tokens and calls, a question\n\n" + cost_table(summaries),
        "## Seconds by stage\n\nWall time with waiting; questions run beside each other.\n\n" + stage_table(summaries),
        "## What the analyzer said\n\n" + mix_table(summaries),
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gold", type=Path, help="gold.jsonl, or the data folder that holds reports/")
    parser.add_argument("archive", help="the archive that the runs asked")
    parser.add_argument("runs", nargs="+", metavar="run", help="run folders of okralong answer")
    parser.add_argument("--out", type=Path, help="markdown file to write; a .json is written beside it")
    options = parser.parse_args(argv)
    try:
        scored = score(options.gold, options.archive, options.runs)
    except OkraError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    page = report(scored)
    print(page)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page, encoding="utf-8")
        options.out.with_suffix(".json").write_text(json.dumps(scored, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
