"""Tables on terminals of any width, and the wording of counts. Nothing here starts Ray."""

from __future__ import annotations

import io
import random
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from okralong.jobs.grid import Grid, Heading, Kind, shortened
from okralong.pipelines.core.wording import agreeing, counted

HEADINGS = [Heading("question"), Heading("type", "short"), Heading("answer"), Heading("tokens", "number")]
LONG = "On which date was the annual meeting of the shareholders of Stonecrop Measurement held in the valley?"
ROWS = [
    (f"q1  {LONG}", "multi-bridge", "(unanswerable)", "1,184"),
    ("q2  Who founded it?", "extractive", "Ambrose Chevalier, stonecrop-measurement-2022", "12,345,678"),
]


def printed(grid: Grid, width: int) -> list[str]:
    out = io.StringIO()
    grid.print(Console(file=out, width=width))
    return out.getvalue().splitlines()


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 160, 200])
def test_no_word_or_number_is_broken_at_any_width(width: int) -> None:
    grid = Grid(HEADINGS)
    for row in ROWS:
        grid.add(*row)
    lines = printed(grid, width)
    assert all(len(line) <= width for line in lines)
    known = {word for row in ROWS for cell in row for word in cell.split()} | {heading.title for heading in HEADINGS}
    for line in lines:
        for word in re.sub("[┃│━─┏┓┗┛┡┩┳┻╇╈└┘┴┬├┤┼]", " ", line).split():
            whole = word.rstrip(":;")
            assert whole in known or any(one.startswith(word.removesuffix("…")) for one in known if "…" in word), word
    said = " ".join(lines)
    if width >= 40:
        assert "12,345,678" in said
        assert "stonecrop-measurement-2022" in said
        assert "multi-bridge" in said


def test_a_table_that_does_not_fit_is_printed_as_records() -> None:
    grid = Grid(HEADINGS, "2 questions")
    for row in ROWS:
        grid.add(*row)
    assert any("┃" in line for line in printed(grid, 120))
    assert [line.rstrip() for line in printed(grid, 44)[-4:]] == [
        "q2  Who founded it?",
        "  answer: Ambrose Chevalier,",
        "  stonecrop-measurement-2022",
        "  type extractive; tokens 12,345,678",
    ]


def test_tables_of_random_content_fit_their_terminal() -> None:
    random.seed(7)
    kinds: list[Kind] = ["text", "short", "number"]
    for _ in range(100):
        grid = Grid([Heading(f"c{at}", random.choice(kinds)) for at in range(random.randint(1, 9))])
        for _ in range(random.randint(0, 4)):
            words = [random.choice("語x") * random.randint(1, 25) for _ in range(random.randint(0, 5))]
            grid.add(*(" ".join(random.sample(words, len(words))) for _ in grid.headings))
        width = random.randint(60, 200)
        lines = printed(grid, width)
        assert all(cell_len(line) <= width for line in lines)


def test_untrusted_cells_are_printed_literally() -> None:
    grid = Grid(HEADINGS)
    grid.add("[bold]q1[/] :smile:", "\x1b[31mred", "", "1")
    said = " ".join(printed(grid, 100))
    assert "[bold]q1[/] :smile:" in said
    assert "\x1b" not in said


def test_long_text_is_cut_between_words() -> None:
    assert shortened("short  enough\nwords", 40) == "short enough words"
    assert shortened(LONG, 40) == "On which date was the annual meeting of…"
    assert shortened("x" * 50, 10) == "x" * 9 + "…"


@pytest.mark.parametrize(
    ("number", "noun", "said"),
    [
        (1, "document", "1 document"),
        (0, "reply", "0 replies"),
        (2000, "batch", "2,000 batches"),
        (2, "day", "2 days"),
        (1, "more question", "1 more question"),
        (3, "more question", "3 more questions"),
    ],
)
def test_a_count_agrees_with_its_noun(number: int, noun: str, said: str) -> None:
    assert counted(number, noun) == said


def test_an_irregular_plural_is_given() -> None:
    assert counted(2, "summary or graph", "summaries or graphs") == "2 summaries or graphs"
    assert counted(1, "summary or graph", "summaries or graphs") == "1 summary or graph"


@pytest.mark.parametrize(
    ("verb", "plural"),
    [("is", "are"), ("has", "have"), ("was", "were"), ("exceeds", "exceed"), ("matches", "match"), ("its", "their")],
)
def test_a_verb_agrees_with_its_count(verb: str, plural: str) -> None:
    assert (agreeing(1, verb), agreeing(2, verb), agreeing(0, verb)) == (verb, plural, plural)
