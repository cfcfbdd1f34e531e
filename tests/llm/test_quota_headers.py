from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.llm.rate_limit import LimitHeaders, duration, read_headers, read_limit


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6ms", 0.006),
        ("1s", 1.0),
        ("1m2.3s", 62.3),
        ("1h0m2s", 3602.0),
        ("7m12s", 432.0),
        ("500µs", 0.0005),
        (" 20 ", 20.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("", None),
        ("-1", None),
        ("-6ms", None),
        ("soon", None),
        ("1m 2s", None),
        ("nan", None),
        ("inf", None),
        ("1e3", None),
        ("2026-01-01T00:00:00Z", None),
    ],
)
def test_a_duration_is_read_in_all_its_forms(text: str, seconds: float | None) -> None:
    read = duration(text)
    assert (read is None) == (seconds is None)
    assert read == pytest.approx(seconds)


def said(limit: str | None, remaining: str | None, reset: str | None = None) -> LimitHeaders:
    named = {"limit": limit, "remaining": remaining, "reset": reset}
    headers = {f"x-ratelimit-{name}-tokens": value for name, value in named.items() if value is not None}
    return read_limit(headers, "tokens")


@pytest.mark.parametrize(
    ("limit", "remaining", "believed"),
    [
        ("30000", "29000", LimitHeaders(30_000, 29_000)),
        ("30000", "0", LimitHeaders(30_000, 0)),
        ("30000", "-1", LimitHeaders(30_000)),
        ("30000", "many", LimitHeaders(30_000)),
        ("30000", "30001", LimitHeaders(30_000)),
        ("30000", None, LimitHeaders(30_000)),
        ("0", "0", LimitHeaders()),
        ("-1", "5", LimitHeaders()),
        ("1e4", "5", LimitHeaders()),
        (None, "5", LimitHeaders(None, 5)),
        (None, None, LimitHeaders()),
    ],
)
def test_each_field_is_believed_only_where_it_can_be_true(
    limit: str | None, remaining: str | None, believed: LimitHeaders
) -> None:
    assert said(limit, remaining) == believed


def test_requests_and_tokens_are_told_apart() -> None:
    headers = {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "-1",
    }
    headers = read_headers(headers, taken=True)
    assert headers.requests == LimitHeaders(500, 499, 0.12)
    assert headers.tokens == LimitHeaders()


@given(st.text(), st.text(), st.text())
def test_no_header_can_break_the_reading(limit: str, remaining: str, reset: str) -> None:
    read = said(limit, remaining, reset)
    assert read.limit is None or read.limit > 0
    assert read.remaining is None or read.remaining >= 0
    assert read.reset_s is None or read.reset_s >= 0
