"""Files in the public formats, written by the tests with invented words."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from okralong.lab.datasets.base import DataSet, Item


def json_file(path: Path, content: object) -> Path:
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def jsonl_file(path: Path, rows: Iterable[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def shown(data: DataSet, item: Item) -> list[str]:
    """The item's evidence in words."""
    return [data.texts[each.text_id].text[each.start_char : each.end_char] for each in item.evidence]
