"""The ``where`` of a question: what it matches, and what each kind of mistake is told."""

from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest

from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.run.metadata_filter import MetadataFilter

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
def documents() -> MetadataFilter:
    return MetadataFilter(DOCUMENTS)


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
        ("company = null", "asked for by is null"),
        ("compny = 'AMD'", r"names the column compny, .* Did you mean company\? The columns are doc_id \(text\), date"),
        ('company = "AMD"', "Text stands in single quotes: 'AMD'"),
        ("company = ", "cannot be read: syntax error"),
        ("year", "is no condition. A filter reads like company = 'AMD'"),
        ("year >= 'last'", r"cannot be evaluated: Could not convert string 'last' .* year \(number\)"),
        ("date > current_date - 90", "depends on the day"),
        ("date > now()", "depends on the day"),
        ("lowercase(company) = 'amd'", r"none of the functions of a filter. Did you mean lower\?"),
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
        "",
    ],
)
def test_nothing_but_a_condition_is_evaluated(documents: MetadataFilter, where: str) -> None:
    with pytest.raises(QuestionError, match=r"The filter .* (cannot be read|more than one|holds a|calls|has)"):
        documents.doc_ids(where)
