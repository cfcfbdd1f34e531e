"""The frontier, means with intervals, and how figures are written into tables and files."""

from __future__ import annotations

import csv
import io
import re

import pyarrow.parquet as pq
import pytest
from markdown_it import MarkdownIt

from okralong.lab.evidence.figures import clustered_mean
from okralong.pipelines.reporting.charts import pareto_frontier
from okralong.pipelines.reporting.rows import Row, figures, mean_over
from okralong.pipelines.reporting.statistics import Estimate
from okralong.pipelines.reporting.tables import (
    Cell,
    Column,
    Kind,
    Table,
    best_rows,
    csv_file,
    for_page,
    markdown,
    measure_column,
    number,
    table_files,
    written,
)


def test_the_frontier_is_what_nothing_beats_in_both() -> None:
    points = {"cheap": (1.0, 0.2), "good": (3.0, 0.6), "dear": (5.0, 0.6), "worse": (2.0, 0.1), "best": (9.0, 0.9)}
    assert pareto_frontier(points) == ["cheap", "good", "best"]
    assert pareto_frontier({"a": (1.0, 0.5), "b": (1.0, 0.5), "c": (float("nan"), 1.0)}) == ["a", "b"]
    assert pareto_frontier({}) == []


def test_means_are_of_known_values_and_drawn_by_documents() -> None:
    values, clusters = [0.0, 1.0, 0.5, 1.0, 0.0, 0.25], ["a", "a", "b", "c", "d", "d"]
    rows = [Row(f"q{n}", cluster=c, measures={"f1": v}) for n, (v, c) in enumerate(zip(values, clusters, strict=True))]
    found = figures([*rows, Row("unknown", cluster="a")], ["f1", "em"])
    assert set(found) == {"f1"}
    assert found["f1"].value == pytest.approx(sum(values) / 6)
    assert found["f1"].n == 6
    interval = clustered_mean(values, clusters).interval
    assert interval is not None
    alone = figures(rows, ["f1"])["f1"]
    assert (alone.low, alone.high) == pytest.approx(interval, abs=0.03)
    assert figures([rows[0]], ["f1"])["f1"] == Estimate(0.0, None, None, 1)


def test_a_mean_over_sets_weighs_sets_alike_and_wants_all_of_them() -> None:
    one = [Row("a", cluster="x", measures={"f1": 1.0}), Row("b", cluster="y", measures={"f1": 0.0})]
    two = [Row("c", cluster="z", measures={"f1": 1.0}), Row("d", cluster="w", measures={"f1": 1.0})]
    found = mean_over({"one": one, "two": two}, "f1")
    assert found is not None
    assert (found.value, found.n) == (0.75, 4)
    assert found.low is not None
    assert found.high == 1.0
    assert mean_over({"one": one, "two": [Row("c")]}, "f1") is None


TABLE = Table(
    "main",
    "Accuracy",
    "Of two methods.",
    [Column("method", "Method"), Column("f1", "F1", "share", "more"), Column("usd", "Cost", "usd", "less")],
    [
        ["=HYPERLINK(1)|<b>", Estimate(0.5, 0.4, 0.6, 20), 0.01],
        ["plain", Estimate(0.25, None, None, 20), 0.002],
        ["none", None, None],
    ],
)


def test_the_best_of_a_column_is_marked() -> None:
    assert [best_rows(TABLE, at) for at in range(3)] == [set(), {0}, {1}]
    shown = for_page(TABLE)
    assert shown["rows"][0][1] == ["0.500", "0.400 to 0.600", 1]
    assert shown["rows"][2][1] == ["-", "", 0]


def test_files_hold_values_and_intervals_and_no_formula() -> None:
    files = table_files(TABLE)
    table = pq.read_table(io.BytesIO(files["main.parquet"])).to_pydict()
    assert table["f1"] == [0.5, 0.25, None]
    assert table["f1_low"] == [0.4, None, None]
    lines = list(csv.DictReader(io.StringIO(files["main.csv"].decode())))
    assert lines[0]["method"] == "'=HYPERLINK(1)|<b>"
    assert lines[1] == {"method": "plain", "f1": "0.25", "f1_low": "", "f1_high": "", "usd": "0.002"}
    assert "| '=HYPERLINK(1)\\|&lt;b> | 0.500 [0.400 to 0.600] | $0.0100 |" in markdown(TABLE)


UNSEEN = (
    "",
    "\u200b",
    "\ufeff",
    "\u00ad",
    "\u202e",
    "\u2066",
    "\t",
    "\r\n",
    "\n",
    "\u00a0",
    "\u3000",
    "\u034f",
    "\u3164",
    " ",
)
SIGNS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66", "\u207c")


@pytest.mark.parametrize("sign", SIGNS)
def test_a_formula_behind_unseen_or_wide_characters_is_text(sign: str) -> None:
    texts = [
        f"{one}{other}{sign}{between}cmd|' /C calc'!A0"
        for one in UNSEEN
        for other in UNSEEN
        for between in ("", "\u200b")
    ]
    (_, *told) = csv.reader(io.StringIO(csv_file({"text": texts, sign + "A1": texts}).decode()))
    assert {cell[0] for line in told for cell in line} == {"'"}
    page = markdown(Table("t", "T", "", [Column("text", "Text")], [[text] for text in texts]))
    assert {line.lstrip("| `")[0] for line in page.splitlines()[4:]} == {"'"}


def test_numbers_stay_numbers() -> None:
    figures: dict[str, list[Cell]] = {"f": ["-5.2 %", "+3", "-1,544", "- $5", "-", -5, -0.25, None, "5-3", "a@b"]}
    told = csv_file(figures).decode().splitlines()
    assert told == ["f", "-5.2 %", "+3", '"-1,544"', "- $5", "-", "-5", "-0.25", '""', "5-3", "a@b"]


LINKS = (
    "https://evil.example/x", "HTTPS://EVIL.EXAMPLE", "www.evil.example", "me@evil.example", "javascript:alert(1)",
    "mailto:me", "[click](http://evil.example)", "[click][1]", "![x](http://evil.example/p.png)", "ftp://evil",
    "<http://evil.example>", "<a href='//evil.example'>", "evil.com", "[a]\u200b(//evil)", "a\\|www.evil.com",
    "\uff48\uff54\uff54\uff50\uff53\uff1a\uff0f\uff0fevil", "h\u200btt\u00adps://evil", "`https://evil`",
    "``x` www.evil.com|`", "www.\nevil.com\r\u2028x",
)  # fmt: skip


@pytest.mark.parametrize("link", LINKS)
def test_no_text_is_a_link_in_markdown(link: str) -> None:
    rows: list[list[Cell]] = [[f"see {link} now"], ["&#104;ttps&colon;//host"], ["a [b] \\| `c` ![d]"]]
    page = markdown(Table("t", "T", "", [Column("text", "Text")], rows))
    found = MarkdownIt("commonmark").enable("table").parse(page)
    assert sum(token.type == "td_open" for token in found) == len(rows)
    inline = [child for token in found if token.type == "inline" for child in token.children or ()]
    assert {child.type for child in inline} <= {"text", "code_inline"}
    bare = "".join(child.content for child in inline if child.type == "text")
    assert bare == "TText&#104;ttps&colon;//hosta [b] \\| `c` ![d]"
    assert not re.search(r"://|www\.|evil|javascript:|mailto:", bare)


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        ("usd", 0.0, "$0.00"),
        ("usd", 0.00123, "$0.0012"),
        ("usd", 1234.5, "$1,234.50"),
        ("tokens", 1234.6, "1,235"),
        ("seconds", 12.34, "12.3"),
        ("share", 0.5, "0.500"),
        ("count", None, "-"),
    ],
)
def test_figures_are_written_for_people(kind: Kind, value: float | None, words: str) -> None:
    assert number(kind, value) == words


def test_a_confidence_is_a_share() -> None:
    """As a count it would be 0 or 1."""
    assert written(measure_column("confidence"), 0.704)[0] == "0.704"
