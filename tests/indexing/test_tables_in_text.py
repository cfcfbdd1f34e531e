from __future__ import annotations

import json
import time
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.indexing.tables import find_tables
from tests.indexing.growth import LINEAR, TIMES, growth
from tests.indexing.table_samples import AFTER, BEFORE, CELL_PER_LINE, MARKDOWN, TABLES, embedded

MARKS = Path(__file__).parents[2] / "benchmarks" / "marks" / "cut_tables.jsonl"

PROSE = {
    "no figures": BEFORE + AFTER,
    "figures in sentences": (
        "Revenue for the year was $12.4 million against $11.9 million a year ago, an increase of 4.2% that "
        "came from 3 mills.\n"
        "Cash rose from $1,204 to $1,310, and 89 million shares (2018: 92 million) were outstanding on "
        "December 31, 2019 and\n"
        "2018. Of these, 1,402 were held by the 12 directors, who were paid $60,000, $75,000 and $82,500 "
        "in the three years.\n"
    )
    * 4,
    "numbered list": "1.\nGrow more wheat.\n2.\nSell more bread.\n3.\nPay the millers well.\n4.\nMend the wheel.\n",
    "section numbers": "4.1\nResults\n" + BEFORE + "4.2\nDiscussion\n" + AFTER + "4.3\nOutlook\n" + BEFORE,
    "two columns": (
        "of 82.9% in the first round, while the other\nteam had 14,460 notes, of which 8840 were used\n"
        "for training and 4400 for tests. The third team\nhad fewer notes and therefore did not take part\n"
        "in the second round, which began in 2019 and had\n860 notes more than the first round had had in\n"
        "2018 and in the years before that.\n"
    )
    * 3,
    "bullets": "•\nborrow money;\n•\ncreate liens;\n•\npay dividends on stock;\n•\nsell assets.\n" * 3,
    "page numbers": (BEFORE + "12\n\f" + AFTER + "13\n\f") * 4,
    "empty": "",
    "blank": "\n \n\t\n\f\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_between_prose_is_found_with_its_title_and_all_rows(name: str) -> None:
    text, start, end = embedded(TABLES[name])
    found = find_tables(text, "doc")
    assert [(table.start_char, table.end_char) for table in found] == [(start, end)]
    assert found[0].table_id == "doc:t0"


@pytest.mark.parametrize("name", PROSE)
def test_prose_is_not_a_table(name: str) -> None:
    assert find_tables(PROSE[name], "doc") == ()


def test_a_new_set_of_column_heads_begins_a_new_table() -> None:
    other = CELL_PER_LINE.replace("by segment", "by mill")
    text = f"{BEFORE}{CELL_PER_LINE}\n{other}\n{AFTER}"
    found = find_tables(text, "doc")
    assert [text[table.start_char : table.end_char] for table in found] == [CELL_PER_LINE, other]
    assert [table.table_id for table in found] == ["doc:t0", "doc:t1"]


def test_captions_above_belong_to_the_table_below_them() -> None:
    body = "Model\ndev\ntest\nSieve\n89.48\n70.38\nStone\n85.16\n65.07"
    tables = [f"TABLE {number}: Results on the grain set\n{body}" for number in ("I", "II", "III")]
    text = BEFORE + "\n".join(tables) + "\n" + AFTER
    assert [text[table.start_char : table.end_char] for table in find_tables(text, "doc")] == tables


def test_page_numbers_and_running_heads_stay_outside() -> None:
    table = "Flour\n4,210\n3,980\nBread\n1,115\n1,020\nCakes\n1,300\n1,250"
    text = f"{BEFORE}26\n" + f"\fHARROW MILLS\n{table}\n27\n\fHARROW MILLS\n{AFTER}" * 2 + "\fHARROW MILLS\n"
    assert [text[found.start_char : found.end_char] for found in find_tables(text, "doc")] == [table, table]


def test_windows_line_breaks() -> None:
    text, _, _ = embedded(MARKDOWN)
    windows = text.replace("\n", "\r\n")
    (found,) = find_tables(windows, "doc")
    assert windows[found.start_char : found.end_char].strip() == MARKDOWN.replace("\n", "\r\n")


@given(st.text(alphabet="ab 1,.$|\t\n\f()%:-", max_size=300))
def test_spans_are_sorted_disjoint_whole_lines(text: str) -> None:
    last = -1
    for table in find_tables(text, "doc"):
        assert last < table.start_char < table.end_char <= len(text)
        assert table.start_char == 0 or text[table.start_char - 1] == "\n"
        assert table.end_char == len(text) or text[table.end_char] == "\n"
        last = table.end_char


@pytest.mark.slow
@pytest.mark.parametrize(
    "unit",
    [
        "1,234 ",
        "a" * 9 + " ",
        "| ",
        " ",
        "\t",
        ". ",
        "$(",
        "1,234\n",
        "label\n",
        "\n",
        "\f\n",
        "Table 1: x\n",
        "as of\n",
        "1,2 :\n",
    ],
)
def test_time_is_linear_also_for_one_line_of_megabytes(unit: str) -> None:
    texts = {size: unit * (size // len(unit)) for size in (50_000, 50_000 * TIMES)}
    assert growth(lambda size: find_tables(texts[size], "doc"), 50_000) < LINEAR


def test_a_table_beside_a_line_of_megabytes_is_found() -> None:
    text = "1,234 flour " * 500_000 + f"\n{CELL_PER_LINE}\n" + "| " * 2_000_000
    begun = time.process_time()
    (found,) = find_tables(text, "doc")
    assert text[found.start_char : found.end_char] == CELL_PER_LINE
    assert time.process_time() - begun < 4


def test_the_marks_are_well_formed() -> None:
    rows = [json.loads(line) for line in MARKS.read_text(encoding="utf-8").splitlines()]
    assert len(rows) >= 30
    assert len({row["file"] for row in rows}) >= 12
    assert {row["side"] for row in rows} == {"tune", "test"}
    for row in rows:
        assert 0 <= row["start_char"] <= row["head_char"] < row["cut_char"] < row["rows_end_char"] <= row["end_char"]
        assert len(row["sha256"]) == 64
        assert not Path(row["file"]).is_absolute()
        assert set(row) == {
            "file", "sha256", "start_char", "head_char", "rows_end_char", "end_char", "cut_char", "side",
        }  # fmt: skip
    ranges = sorted((row["file"], row["start_char"], row["end_char"]) for row in rows)
    for (file, _, end), (other, start, _) in pairwise(ranges):
        assert file != other or end < start
