"""The ``where`` of a question: what it matches, and what each kind of mistake is told."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import date

import pyarrow as pa
import pytest

from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.run.metadata_filter import MOST_FILTER_CHARS, MetadataFilter

pytestmark = pytest.mark.slow

DOCUMENTS = pa.table(
    {
        "doc_id": ["amd22", "amd23", "intel22", "memo"],
        "date": [date(2023, 2, 27), date(2024, 1, 31), date(2023, 1, 27), None],
        "Cost Centre": ["A-1", "A-1", "B-7", None],
        "audited": [True, True, None, False],
        "company": ["AMD", "AMD", "Intel", None],
        "year": [2022, 2023, 2022, None],
    }
)


@pytest.fixture(scope="module")
def documents() -> Iterator[MetadataFilter]:
    with MetadataFilter(DOCUMENTS) as filters:
        yield filters


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("company = 'AMD' and year >= 2023", {"amd23"}),
        ("COMPANY in ('AMD', 'Intel') and not year = 2023", {"amd22", "intel22"}),
        ("\"cost centre\" like 'B-%' or company is null", {"intel22", "memo"}),
        ("date between '2023-02-01' and date '2024-12-31' -- of the last years", {"amd22", "amd23"}),
        ("year(date) = 2023 and lower(company) = 'intel'", {"intel22"}),
        ("case when audited then true else company = 'Intel' end", {"amd22", "amd23", "intel22"}),
        ("regexp_matches(doc_id, '^m') or year % 2 = 1", {"amd23", "memo"}),
        ("true", {"amd22", "amd23", "intel22", "memo"}),
    ],
)
def test_a_filter_matches(documents: MetadataFilter, where: str, wanted: set[str]) -> None:
    assert documents.doc_ids(where) == wanted


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (
            "company = 'AMDD' and year > 2030",
            "is 'AMDD' in none of them, the nearest: 'AMD'; year lies between",
        ),
        ("company = 'amd'", "the nearest: 'AMD'"),
        ("company = 'Nvidia'", "its values: 'AMD', 'Intel'"),
        ("company = 'Intel' and year = 2023", "none of 4 documents: company is 'Intel' in 1 of them; year lies"),
        ("date > '2030-01-01'", "date lies between 2023-01-27 and 2024-01-31"),
        ("company = null", "write is null instead"),
        ("compny = 'AMD'", r"names the column compny, .* Did you mean company\? The columns are doc_id \(text\), date"),
        ('company = "AMD"', "Put text in single quotes: 'AMD'"),
        ("company = ", "cannot be read: syntax error"),
        ("year", "is not a condition. A filter reads like company = 'AMD'"),
        ("year >= 'last'", r"cannot be evaluated: Could not convert string 'last' .* year \(number\)"),
        ("date > current_date - 90", "depends on the day"),
        ("date > now()", "depends on the day"),
        ("lowercase(company) = 'amd'", r"not an allowed function. Did you mean lower\?"),
    ],
)
def test_a_mistake_is_told_what_is_nearest(documents: MetadataFilter, where: str, says: str) -> None:
    for _ in range(2):  # what is kept of the first time says the same
        with pytest.raises(QuestionError, match=says):
            documents.doc_ids(where)


@pytest.mark.parametrize(
    "where",
    [
        "true) union select doc_id from documents where (true",
        "true); drop table documents; select (true",
        "true), (true",
        "true) limit (1",
        "true) where (true",
        "exists (select * from read_text('/etc/passwd'))",
        "company in (select content from read_text('/etc/passwd'))",
        "read_text('/etc/passwd') is null",
        "year = (select count(*) from DOCUMENTS)",
        "count(*) > 0",
        "row_number() over () = 1",
        "columns(*) = 1",
        "year = $1",
        "#1 = 'amd22'",
        "random() > 0.5",
        "pg_sleep(5) is null",
        "getvariable('x') is null",
        "current_setting('threads') = '1'",
        "list_filter([1], x -> x > 0) = [1]",
        "repeat(company, 1000000000) = 'x'",
        "lpad(company, 1000000000, 'x') = 'x'",
        "printf('%1000000000s', company) = 'x'",
        "string_agg(company, company) = 'x'",
        "regexp_replace(company, '.', company, 'g') = 'x'",
        "list_sum(range(1000000000)) = 1",
        "concat(company, company) = 'x'",
        "company || company = 'x'",
        "translate(company, 'a', 'b') = 'x'",
        "[company, company] = ['x']",
        "{'a': company}.a = 'x'",
        "company::varchar[1000000] is null",
        "company::bit is null",
        "2 ** 1000000 = year",
        "1000000 ! = year",
        "",
    ],
)
def test_nothing_but_a_condition_is_evaluated(documents: MetadataFilter, where: str) -> None:
    with pytest.raises(QuestionError, match=r"The filter .* (cannot be read|more than one|holds a|calls|has|casts to)"):
        documents.doc_ids(where)


def nested(name: str, times: int) -> str:
    text = "company"
    for _ in range(times):
        text = f"{name}({text}, 'a', 'aaaaaaaaaa')"
    return f"{text} = 'x'"


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (nested("replace", 11), "calls replace, which is not an allowed function"),
        (f"company = '{'x' * 1001}'", "has a constant of more than 1,000 characters"),
        (f"company = '{'x' * MOST_FILTER_CHARS}'", "has 50,012 characters, more than the 50,000"),
        (f"{'lower(' * 60}company{')' * 60} = 'x'", "has more than 50 levels of expressions"),
        (f"{'not ' * 500}audited", "has more than 50 levels of expressions"),
        (f"{'(' * 20_000}true{')' * 20_000}", "cannot be read"),
        (f"{'- ' * 20_000}1 = year", "cannot be read"),
        ("year = 1" + " or year = 1" * 4000, "has more than 10,000 columns"),
    ],
)
def test_a_filter_is_bounded_before_it_is_evaluated(documents: MetadataFilter, where: str, says: str) -> None:
    with pytest.raises(QuestionError, match=says) as told:
        documents.doc_ids(where)
    assert len(str(told.value)) < 1000


def test_long_lists_and_flat_conditions_are_no_attack(documents: MetadataFilter) -> None:
    ids = ", ".join(f"'report-{number}'" for number in range(2000))
    assert documents.doc_ids(f"doc_id in ({ids}, 'memo')") == {"memo"}
    assert documents.doc_ids("year = 2023" + " or year = 1" * 1000) == {"amd23"}
    assert documents.doc_ids("(" * 100 + "year = 2023" + ")" * 100) == {"amd23"}


LONG = pa.table({"doc_id": ["a", "b"], "text": ["x" * 400_000, "y" * 400_000], "year": [2022, 2023]})


def test_a_filter_that_takes_too_long_or_too_much_fails_alone() -> None:
    """The process is replaced after each of them, and a filter is told the same when it comes again."""
    began = time.monotonic()
    with MetadataFilter(LONG, seconds=1.0, memory_bytes=128 << 20) as filters:
        assert filters.doc_ids("year > 2022") == {"b"}
        for _ in range(2):
            with pytest.raises(QuestionError, match=r"'levenshtein.*took more than 1 s of processor time"):
                filters.doc_ids("levenshtein(text, upper(text)) < 3")
        assert filters.doc_ids("year < 2023") == {"a"}
        many = ", ".join(f"upper(left(text, {400_000 - number}))" for number in range(300))
        with pytest.raises(QuestionError, match=r"0.125 GiB of memory"):
            filters.doc_ids(f"greatest({many}) = 'x'")
        assert filters.doc_ids("year = 2022") == {"a"}
    assert time.monotonic() - began < 60


def test_a_process_that_is_killed_between_filters_is_replaced() -> None:
    with MetadataFilter(DOCUMENTS) as filters:
        assert filters.doc_ids("year = 2023") == {"amd23"}
        assert filters.pid is not None
        os.kill(filters.pid, 9)
        assert filters.doc_ids("year is null") == {"memo"}


def test_thousands_of_filters_share_one_process() -> None:
    with MetadataFilter(DOCUMENTS) as filters:
        filters.doc_ids("true")
        first = filters.pid
        for number in range(1000):
            assert filters.doc_ids(f"year = 2023 and doc_id <> 'report-{number}'") == {"amd23"}
        assert filters.pid == first
        assert first is not None
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
