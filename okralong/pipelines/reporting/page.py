"""Rendering of a report as one self-contained page, and its files.

The Content-Security-Policy allows only the page's own style and script (by their hashes) and embedded pictures (data:
URIs): the page sends no request, attributes cannot run code, and text cannot become markup (Trusted Types).
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Final, Literal

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.charts import Panel
from okralong.pipelines.reporting.page_pictures import Drawn
from okralong.pipelines.reporting.rows import ACCURACY, COST, MEASURES, Row, bounded, known_measures, plain, plained
from okralong.pipelines.reporting.tables import Table, for_page, table_files

Bars = Mapping[str, Any]
"""Names of ``parts``, and ``bars`` with ``label``, ``n`` and a number per part."""


@dataclass(frozen=True, slots=True)
class Tile:
    """A figure at the top of the page, with a ``note`` such as its interval."""

    label: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """The content of a report.

    Attributes:
        details: JSON texts, one per row for the first rows.
        drawn: Pictures of the pages that the details cite.
        files_only: Tables that are written as files but not shown on the page.
        notes: Sentences shown at the top.
        matrix: JSON of the matrix (``Matrix.for_page``), or None.
    """

    kind: Literal["run", "sweep"]
    title: str
    facts: Sequence[tuple[str, str]]
    tiles: Sequence[Tile]
    panels: Sequence[Panel]
    tables: Sequence[Table]
    latency: Bars
    mix: Bars
    confusions: Sequence[Mapping[str, Any]]
    rows: Sequence[Row]
    details: Sequence[str]
    drawn: Drawn = field(default_factory=Drawn)
    files_only: Sequence[Table] = ()
    notes: Sequence[str] = ()
    setup: Mapping[str, Any] = field(default_factory=dict)
    matrix: Mapping[str, Any] | None = None

    def overview(self, block: int) -> dict[str, Any]:
        """Return the JSON for the page's script, without questions and details, which are packed by ``block``."""
        panels = [panel.for_page() for panel in self.panels]
        held = [figures for panel in self.panels for figures in panel.points.values()]
        return {
            "kind": self.kind,
            "title": self.title,
            "facts": [[name, value] for name, value in self.facts],
            "tiles": [[tile.label, tile.value, tile.note] for tile in self.tiles],
            "notes": list(self.notes),
            "accuracy": [[measure, ACCURACY[measure]] for measure in known_measures(held, ACCURACY)],
            "cost": [[measure, COST[measure]] for measure in known_measures(held, COST)],
            "measures": MEASURES,
            "panels": panels,
            "tables": [for_page(table) for table in self.tables],
            "latency": self.latency,
            "mix": self.mix,
            "confusions": list(self.confusions),
            "questions": len(self.rows),
            "detailed": len(self.details),
            "block": block,
            "setup": self.setup,
        }


def write_report(folder: Folder, name: str, report: Report, pictures: Mapping[str, bytes]) -> list[str]:
    """Write the page ``name`` (report.html) and its files (report/tables, report/pictures); return the paths."""
    folder.write_bytes(name, render(report))
    beside = folder.at(name.rpartition(".")[0] or f"{name}_files")
    tables = {file: body for each in (*report.tables, *report.files_only) for file, body in table_files(each).items()}
    written = [folder.at(name).path]
    for place, files in ((beside.at("tables"), tables), (beside.at("pictures"), pictures)):
        for file, body in files.items():
            place.write_bytes(file, body)
            written.append(place.at(file).path)
    return written


SCRIPTS: Final = (
    "dom.js",
    "data.js",
    "charts.js",
    "overview.js",
    "filters.js",
    "questions.js",
    "matrix.js",
    "detail.js",
    "start.js",
)
"""Parts of the page's script in order."""

_PLACE: Final = re.compile(r"\{\{(\w+)\}\}")


def render(report: Report) -> bytes:
    """Render the page in UTF-8. Equal reports give equal bytes."""
    style, script = _asset("page.css"), page_script()
    parts = {
        "policy": content_policy(style, script),
        "title": html.escape(plain(report.title)),
        "style": style,
        "overview": embedded_json(report.overview(BLOCK)),
        "index": packed(compact(question_index(report.rows) | {"matrix": report.matrix})),
        "details": "\n".join(
            f'<script type="text/plain" id="details-{number}">{block}</script>'
            for number, block in enumerate(blocks(report.details))
        ),
        "marks": packed(compact([mark and [mark.picture, mark.page, mark.boxes] for mark in report.drawn.marks])),
        "pictures": "\n".join(
            f'<script type="text/plain" id="picture-{number}" data-kind="{picture.kind}">'
            f"{base64.b64encode(picture.data).decode('ascii')}</script>"
            for number, picture in enumerate(report.drawn.pictures)
        ),
        "script": script,
    }
    return _PLACE.sub(lambda match: parts[match[1]], _asset("page.html")).encode()


def page_script() -> str:
    """Join the parts of the page's script in one function in strict mode."""
    body = "\n".join(_asset(name) for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{body}\n}})();\n'


def content_policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy of a page with this inline style and script."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(script)}",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return (resources.files("okralong.pipelines.reporting") / "page" / name).read_text(encoding="utf-8")


# --------
# Data in the page: compact JSON, deflated, in base64, which cannot end a script element.

BLOCK: Final = 64  # project default
"""Number of questions whose details are packed together."""
QUESTION_CHARS, ANSWER_CHARS = 400, 240  # project default
"""Maximum lengths in the table of questions; the details have more."""


def compact(value: Any) -> str:
    """Serialize to ASCII JSON without spaces, after ``plained``. All data of a page passes through here."""
    return json.dumps(plained(value), separators=(",", ":"), ensure_ascii=True)


def packed(text: str) -> str:
    """Compress JSON with zlib ("deflate" in browsers) and encode it in base64."""
    return base64.b64encode(zlib.compress(text.encode("ascii"), 9)).decode("ascii")


def unpacked(text: str) -> Any:
    """Reverse ``packed``."""
    return json.loads(zlib.decompress(base64.b64decode(text)))


def embedded_json(value: Any) -> str:
    """Serialize to JSON for a script element, escaping ``<``, ``>`` and ``&``."""
    return compact(value).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def blocks(details: Sequence[str]) -> Iterator[str]:
    """Pack the details in blocks of ``BLOCK``."""
    for start in range(0, len(details), BLOCK):
        yield packed(f"[{','.join(details[start : start + BLOCK])}]")


def question_index(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the rows by column for the page's table; repeated texts are stored once and numbered."""
    measures = known_measures((row.measures for row in rows), MEASURES)
    texts = _numbered(bounded(row.question, QUESTION_CHARS) for row in rows)
    words = {
        name: _numbered(getattr(row, name) for row in rows)
        for name in ("type", "analysed", "workflow", "status", "method", "dataset", "cell", "replied_by", "correction")
    }
    return {
        "id": [row.query_id for row in rows],
        "question": texts,
        "answer": [bounded(row.answer, ANSWER_CHARS) for row in rows],
        "cited": [int(row.cited) for row in rows],
        "words": words,
        "measures": {name: [_short(row.measures.get(name)) for row in rows] for name in measures},
    }


def _numbered(texts: Iterable[str]) -> dict[str, list[Any]]:
    known: dict[str, int] = {}
    numbers = [known.setdefault(text, len(known)) for text in texts]
    return {"names": list(known), "at": numbers}


def _short(value: float | None) -> float | int | None:
    if value is None:
        return None
    return int(value) if value == int(value) else float(f"{value:.5g}")
