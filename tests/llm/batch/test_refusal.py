from __future__ import annotations

import pytest

from okralong.pipelines.llm.batch_api import BatchError, read_refusal

WRONG = "model_not_found"


@pytest.mark.parametrize(
    ("errors", "requests", "reason", "lines"),
    [
        ([BatchError("token_limit_exceeded", "full")], 10, "full", set()),
        ([BatchError("too_many_tasks", "many")], 10, "large", set()),
        ([BatchError("too_many_tasks", "many")], 1, "all", set()),
        ([BatchError("invalid_json_line", "no", 3)], 10, "lines", {3}),
        ([BatchError(WRONG, "no", line) for line in range(1, 11)], 10, "all", set()),
        ([BatchError(WRONG, "no", line) for line in range(1, 101)], 5000, "all", set()),
        ([BatchError(WRONG, "no", 1)], 1, "lines", {1}),
        ([BatchError("anything", "no")], 10, "all", set()),
        ([], 10, "all", set()),
    ],
)
def test_what_a_refused_batch_means(errors: list[BatchError], requests: int, reason: str, lines: set[int]) -> None:
    refusal = read_refusal(errors, requests)
    assert (refusal.reason, set(refusal.lines)) == (reason, lines)
    assert refusal.message
