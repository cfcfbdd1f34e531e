"""Reports are reproducible, as long as asked, varied, full of distractors, and their tables add up."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from okralong.pipelines.samples.blocks import FORMATS, Table, cell, render
from okralong.pipelines.samples.questions import Sample, generate
from okralong.pipelines.samples.report import Report


def tables(report: Report) -> list[Table]:
    return [block for block in report.blocks if isinstance(block, Table)]


def figure(text: str) -> int:
    return int(re.sub(r"[^\d]", "", text)) * (-1 if text.startswith("(") else 1)


def test_same_arguments_same_sample() -> None:
    one, other = (generate(reports=4, questions=40, seed=3, words=2_000) for _ in range(2))
    assert one.documents == other.documents
    assert one.questions == other.questions
    assert one.documents != generate(reports=4, questions=40, seed=4, words=2_000).documents


def test_a_company_is_the_same_in_both_of_its_reports(short: Sample) -> None:
    earlier, later = short.reports[:2]
    assert (earlier.company, earlier.year + 1) == (later.company, later.year)
    for before, after in zip(tables(earlier), tables(later), strict=True):
        assert [row.values[0] for row in before.rows] == [row.values[1] for row in after.rows]


def test_a_company_is_the_same_in_samples_of_all_sizes() -> None:
    small, large = (generate(reports=size, questions=0, words=1_500).reports[0].company for size in (1, 30))
    assert (small.name, small.sites, small.accounts, small.figures) == (
        large.name,
        large.sites,
        large.accounts,
        large.figures,
    )


@pytest.mark.parametrize("words", [1_500, 15_000, 40_000])
def test_reports_have_the_length_asked_for(words: int) -> None:
    (document,) = generate(reports=1, questions=0, words=words).documents
    assert words * 0.98 <= len(document.text.split()) <= words * 1.02 + 120


def test_default_lengths(default: Sample) -> None:
    assert all(15_000 <= len(document.text.split()) <= 40_000 for document in default.documents)


def test_paragraphs_do_not_repeat(default: Sample) -> None:
    for document in default.documents:
        paragraphs = [each for each in document.text.split("\n\n") if len(each) > 80]
        assert len(paragraphs) > 200
        assert max(Counter(paragraphs).values()) == 1


@pytest.mark.parametrize("form", ["txt", "md"])
def test_rendered_tables_add_up(short: Sample, form: str) -> None:
    for report in short.reports:
        page = render(report.blocks, "txt" if form == "txt" else "md")
        for table in tables(report):
            for column in table.columns:
                shown = {}
                for row in table.rows:
                    start, end = page.spans[cell(table.table_id, row.label, column)]
                    shown[row.label] = figure(page.text[start:end])
                sums = [row for row in table.rows if row.total_of]
                assert sums
                for row in sums:
                    assert shown[row.label] == sum(shown[part] for part in row.total_of), (table.title, row.label)


def test_accounts_agree_with_each_other(short: Sample) -> None:
    for report in short.reports:
        last = {table.table_id: {row.label: row.values for row in table.rows} for table in tables(report)}
        revenue = last["income"]["Revenue"]
        assert last["segments"]["Total revenue"] == last["quarters"]["Full year"] == revenue
        assert last["regions"]["All regions"] == revenue
        assert last["balance"]["Total assets"] == last["balance"]["Total liabilities and equity"]
        assert last["cash"]["Closing cash"] == last["balance"]["Cash"]
        assert last["cash"]["Net income"] == last["income"]["Net income"]
        assert min(last["balance"]["Equity"]) > 0


def test_table_spans_hold_title_header_and_all_rows(short: Sample) -> None:
    for report, document in zip(short.reports, short.documents, strict=True):
        for table, span in zip(tables(report), document.table_spans, strict=True):
            text = document.text[span.start_char : span.end_char]
            assert text.startswith(f"Table: {table.title}")
            assert text.count("\n") == len(table.rows) + 1
            assert len({len(line) for line in text.splitlines()[1:]}) == 1


def test_facts_are_marked_once(short: Sample) -> None:
    for report in short.reports:
        page = render(report.blocks, "txt")
        assert "\ue000" not in page.text
        assert all(start < end for start, end in page.spans.values())
        assert len(set(page.spans.values())) == len(page.spans)


def test_distractors_exist(default: Sample) -> None:
    names = {report.company.name for report in default.reports}
    for report, document in zip(default.reports, default.documents, strict=True):
        company, text = report.company, document.text
        for metric in company.disclosed:  # last year's figure stands beside this year's
            assert company.words.show(metric, company.figures[metric.key, report.year - 1]) in text
        assert all(text.count(person.name) >= 3 for person in company.officers)
        assert all(text.count(product.name) >= 3 for product in company.products)
        assert any(name in text for name in names - {company.name})


def test_html_has_real_tables(short: Sample) -> None:
    page = render(short.reports[0].blocks, "html")
    assert page.text.count("<table>") == len(tables(short.reports[0]))
    assert FORMATS == ("txt", "md", "html")


def test_two_hundred_reports_have_ids_of_their_own() -> None:
    sample = generate(reports=200, questions=400, seed=1, words=1_500)
    assert len({document.doc_id for document in sample.documents}) == 200
    assert len({question.query_id for question in sample.questions}) == 400
    assert len({doc_id for question in sample.questions for doc_id in question.doc_ids}) > 60
