"""Read the tables of one page from the positions of its words and rules."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.indexing.formats.page_lines import PageTable, Rule, Word


def page_tables(words: Sequence[Word], rules: Sequence[Rule]) -> list[PageTable]:
    """Return the tables of a page in reading order.

    A column without a head is left out with its cells, unless no column of the table has one: such a table may continue
    the one of the page before.

    Args:
        words: The words of the page, in any order.
        rules: Its horizontal lines.
    """
    return []
