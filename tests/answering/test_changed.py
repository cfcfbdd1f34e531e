"""Which questions rest on a change of the archive."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.changed import rests_on_change
from okralong.pipelines.archives.diff import VersionDiff

DIFF = VersionDiff(added=("2024_AAPL",), changed=("notes",), removed=("2023_old",))


@pytest.mark.parametrize(
    ("scope", "doc_ids", "wanted"),
    [
        ((), (), True),
        (("notes",), ("notes",), True),
        (("other",), ("other",), False),
        (("2024_*",), ("2024_AAPL", "2024_MSFT"), True),
        (("2024_MSFT", "other"), ("2024_MSFT", "other"), False),
        (("2023_*",), ("2023_new",), True),
        (("2023_old",), (), True),
        (("2023_o?d", "other"), ("other",), True),
        (("never",), (), False),
    ],
)
def test_a_question_rests_on_its_documents(scope: tuple[str, ...], doc_ids: tuple[str, ...], wanted: bool) -> None:
    assert rests_on_change(scope, doc_ids, DIFF) is wanted


def test_nothing_changed_nothing_is_asked() -> None:
    assert not rests_on_change((), (), VersionDiff())
    assert not rests_on_change(("a",), ("a",), VersionDiff())
