"""Read the tables of one page from the positions of its words and rules."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.core.tables import Table
from okralong.pipelines.indexing.formats.page_lines import Rule, Word


def page_tables(words: Sequence[Word], rules: Sequence[Rule]) -> list[Table]:
    """Return the tables of a page in reading order, with offsets into the page's text.

    Args:
        words: The words of the page, in any order.
        rules: Its horizontal lines.
    """
    return []
