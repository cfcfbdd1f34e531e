"""Write a report as a Markdown page and a JSON file with its values, for the evidence bench and all trainings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from okralong.pipelines.core.storage_errors import writing
from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.reporting.tables import NONE


def estimate_words(each: Estimate | None, form: str = ".3f") -> str:
    """Format an estimate as "0.412 [0.380, 0.447]". ``form`` is the format of each number; an unknown number is "-"."""
    if each is None or each.value is None:
        return NONE
    if each.low is None and each.high is None:
        return format(each.value, form)
    low, high = (NONE if end is None else format(end, form) for end in (each.low, each.high))
    return f"{each.value:{form}} [{low}, {high}]"


def write_markdown_report(folder: Path, name: str, sections: Sequence[str], values: Any) -> list[Path]:
    """Write ``sections`` to NAME.md and ``values``, which may be dataclasses, to NAME.json; return both paths."""
    page, data = folder / f"{name}.md", folder / f"{name}.json"
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        page.write_text("\n\n".join(sections) + "\n", encoding="utf-8")
        data.write_text(json.dumps(values, indent=1, ensure_ascii=False, default=asdict) + "\n", encoding="utf-8")
    return [page, data]
