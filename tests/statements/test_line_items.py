"""Line items: what a metric that no statement prints is worked out from, and their rows."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.answering.readers.named import MOST_NAMED, needed_rows
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.tables import Table, TableCell, TableRow
from okralong.pipelines.core.tokens import count_tokens
from okralong.pipelines.core.types import Document, Question, QuestionType
from okralong.pipelines.methods.registry import FullPolicy, load_strategy
from okralong.pipelines.statements.line_items import items_needed, items_of_label, line_items, named_in
from tests.fakes.tools import ScriptedTools, analysis, ask_of


def test_no_name_of_a_metric_stands_for_two() -> None:
    metrics = [item for item in line_items().values() if item.formulas]
    names = [name.casefold() for metric in metrics for name in metric.names]
    assert len(set(names)) == len(names) > 60


@pytest.mark.parametrize(
    ("question", "items"),
    [
        ("What was Alder's operating margin in 2024?", ["operating_income", "revenue"]),
        ("Working capital of Alder?", ["current_assets", "current_liabilities"]),
        ("What was the gross margin?", ["gross_profit", "revenue", "cost_of_revenue"]),
        ("How much of Alder's total assets was financed by total liabilities?", ["total_assets", "total_liabilities"]),
        ("Alder and Birch: whose revenue shrank more?", ["revenue"]),
        ("What was the cost of sales?", ["cost_of_revenue"]),
        ("What was deferred revenue in 2024?", ["deferred_revenue"]),
        ("What was unbilled revenue of the sales office?", ["contract_assets"]),
        ("Who leads the Optics segment?", []),
    ],
)
def test_the_line_items_that_a_question_needs(question: str, items: list[str]) -> None:
    assert [item.id for item in items_needed(question)] == items


@pytest.mark.parametrize(
    ("label", "items"),
    [
        ("Net (loss) income (Note 5)", ["net_income"]),
        ("Total consolidated revenues", ["revenue"]),
        ("Net cash provided by (used in) operating activities", ["operating_cash_flow"]),
        ("Property, plant and equipment, net of accumulated depreciation", ["property_plant_and_equipment"]),
        ("Accounts receivable, net of allowance of $792 and $463, respectively", ["accounts_receivable"]),
        ("Total liabilities and stockholders\u2019 equity", ["liabilities_and_equity"]),
        ("Cost of sales", ["cost_of_revenue"]),
        ("Deferred revenue", ["deferred_revenue"]),
        ("Revenue (% change)", []),
    ],
)
def test_a_label_names_an_item_as_a_whole(label: str, items: list[str]) -> None:
    assert [item.id for item in items_of_label(label)] == items


@pytest.mark.parametrize(
    ("label", "sections", "items"),
    [
        ("Basic", ["Net loss per common share:"], ["eps_basic"]),
        ("Basic and diluted", ["Earnings per share"], ["eps"]),
        ("Accounts receivable", ["Changes in operating assets and liabilities:"], ["change_in_receivables"]),
        ("Accounts receivable", ["Current assets:"], ["accounts_receivable"]),
        ("Net income attributable to Alder Inc.", [], ["net_income_to_parent"]),
        ("Net loss attributable to noncontrolling interests", [], ["net_income_to_noncontrolling_interests"]),
        ("Net loss attributable to Alder Inc. per share", [], []),
        ("Total Alder Inc. shareholders\u2019 equity", [], ["stockholders_equity"]),
        ("Treasury stock, at cost, 1,177 shares", [], ["treasury_stock"]),
        ("Other income (expense), net", [], ["other_income_net"]),
        ("Gains (losses) on investments", [], ["gain_on_investments"]),
        ("Profit/(loss) for the period", [], ["net_income"]),
        ("Revenue, excluding fuel", [], []),
        ("Other current assets", [], ["other_current_assets"]),
        ("Sales tax", [], []),
    ],
)
def test_a_label_with_its_section_and_qualifiers(label: str, sections: list[str], items: list[str]) -> None:
    assert [item.id for item in items_of_label(label, sections)] == items


@pytest.mark.parametrize(
    ("question", "items"),
    [
        ("What is the FY2018 capital expenditure amount for Alder?", ["capital_expenditures"]),
        ("What is the year end FY2018 net PPNE for Alder?", ["property_plant_and_equipment"]),
        ("What is the 3 year average of capex as a % of revenue?", ["capital_expenditures", "revenue"]),
        ("What is tangible book value?", ["stockholders_equity", "goodwill", "intangible_assets"]),
        ("Who has the higher free cash flow?", ["operating_cash_flow", "capital_expenditures"]),
        ("What was net income of affiliates?", ["equity_method_income"]),
        ("What were total liabilities and equity?", ["liabilities_and_equity"]),
        ("What was income before income taxes?", ["pretax_income"]),
        ("What was the turnover of 2021?", ["revenue"]),
        ("Where is the sales office?", []),
    ],
)
def test_the_wordings_of_analysts(question: str, items: list[str]) -> None:
    assert [item.id for item in items_needed(question)] == items


def test_elements_are_written_as_in_the_taxonomies() -> None:
    elements = {each for item in line_items().values() for each in item.elements}
    assert len(elements) > 400
    assert all(re.fullmatch(r"(?:us-gaap|ifrs-full|dei):[A-Z][A-Za-z\d]+", each) for each in elements)


def test_the_first_name_of_an_item_is_found_under_it() -> None:
    assert [item.id for item in line_items().values() if item not in items_of_label(item.names[0])] == []


@given(st.text(alphabet="net icom(los)\n,-'& 12Aa", max_size=400))
def test_any_text_is_searched(text: str) -> None:
    items_of_label(text)
    assert all(text[start:end].strip() for (start, end), _ in named_in(text))


@pytest.mark.parametrize(
    "piece", ["net income (loss) ", "net ", "(loss", "income and ", " ", "cash, ", "attributable to "]
)
def test_time_grows_with_the_text(piece: str) -> None:
    def seconds(copies: int) -> float:
        start = time.process_time()
        list(named_in(piece * copies))
        items_of_label(piece * copies)
        return time.process_time() - start

    seconds(1)
    assert min(seconds(16_000) for _ in range(2)) < 40 * max(seconds(2_000), 0.002)


def statement(name: str, current_assets: str, filler: int = 30) -> Document:
    """A report whose balance sheet has its rows far apart, and a statement of operations."""
    lines = [f"Note {n}: nothing of the balance sheet is said here by {name}, only words." for n in range(filler)]
    rows = {
        "Total current assets": (current_assets, "200"),
        "Total current liabilities": ("90", "80"),
        "Deferred revenue": ("77", "70"),
        "Total revenue": ("900", "800"),
    }
    text = ""
    found: list[TableRow] = []
    for label, values in rows.items():
        text += "\n".join([*lines, ""])
        start = len(text)
        text += "  ".join([label, *values])
        places = [text.index(value, start + len(label)) for value in values]
        cells = [
            TableCell(n, value, at, at + len(value)) for n, (value, at) in enumerate(zip(values, places, strict=True))
        ]
        found.append(TableRow(label, start, len(text), tuple(cells)))
        text += "\n"
    years = (("2024",), ("2023",))
    tables = [
        Table(own[0].start, own[-1].end, years, tuple(own), title=title)
        for title, own in (("Balance sheets", found[:3]), ("Statements of operations", found[3:]))
    ]
    return Document(f"{name}_2024", text, sha256=name * 8, n_tokens=2000, tables=tuple(tables))


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("What was the working capital of Alder in 2024?", {"Alder": ["310", "90"]}),
        (
            "Whose working capital was larger in 2024, Alder's or Birch's?",
            {"Alder": ["310", "90"], "Birch": ["440", "90"]},
        ),
        ("What was total revenue of Birch?", {"Birch": ["900"]}),
        ("What was the deferred revenue of Birch?", {"Birch": ["77"]}),
        ("What was the working capital in 2024?", {}),  # of which of four?
        ("Who leads Alder?", {}),
    ],
)
async def test_rows_of_the_documents_that_a_question_names(question: str, rows: dict[str, list[str]]) -> None:
    documents = [statement("Alder", "310"), statement("Birch", "440"), statement("Cedar", "5"), statement("Elm", "6")]
    policy = load_config(FullPolicy, "policy/default.yaml")
    found = await needed_rows(ask_of(question, ScriptedTools(documents, policy=policy)), 300)
    assert len(documents) > MOST_NAMED
    assert {passage.doc_id for passage in found} == {f"{name}_2024" for name in rows}
    for passage in found:
        source = next(each for each in documents if each.doc_id == passage.doc_id)
        assert passage.text == source.text[passage.start_char : passage.end_char]
        assert "Note 12:" not in passage.shown_text
    for name, amounts in rows.items():
        shown = "".join(passage.shown_text for passage in found if passage.doc_id == f"{name}_2024")
        assert all(f"|{amount}|" in shown for amount in amounts)
        assert "|2024|2023\n" in shown


async def test_rows_have_at_most_the_tokens_given() -> None:
    ask = ask_of("What was the working capital of Alder?", ScriptedTools([statement("Alder", "310")]))
    for tokens in range(0, 60, 4):
        found = await needed_rows(ask, tokens)
        assert sum(passage.n_tokens for passage in found) <= tokens
        assert all(passage.n_tokens == count_tokens(passage.shown_text) for passage in found)
    assert found


async def test_rows_never_outgrow_what_a_plan_reserves() -> None:
    """They need no more tokens than the chunks that they replace; none where the plan shows no whole tables."""
    default = load_config(FullPolicy, "policy/default.yaml")
    plain = default.model_copy(update={"context": default.context.model_copy(update={"recover_tables": False})})
    one = default.model_copy(update={"factoid": default.factoid.model_copy(update={"count": 1})})
    for policy in (plain, one):
        tools = ScriptedTools(
            [statement("Alder", "310", filler=120)],
            {"generate": ["Answer: 220"]},
            analysis=analysis("arithmetic"),
            policy=policy,
        )
        answer = await load_strategy("okralong")(Question("q", "What was the working capital in 2024?"), tools)
        assert answer.plan is not None
        assert sum(passage.n_tokens for passage in answer.context) <= 160 * answer.plan.count


@pytest.mark.parametrize(("type_", "shown"), [("arithmetic", True), ("abstractive", False)])
async def test_rows_stand_in_the_place_of_chunks(type_: QuestionType, shown: bool) -> None:
    """Of the only document of the scope, whatever is asked; an answer in words does not need them."""
    policy = load_config(FullPolicy, "policy/default.yaml")
    tools = ScriptedTools(
        [statement("Alder", "310", filler=120)], {"generate": ["Answer: 220"]}, analysis=analysis(type_), policy=policy
    )
    answer = await load_strategy("okralong")(Question("q", "What was the working capital in 2024?"), tools)
    rows = [passage for passage in answer.context if passage.origin == "rows"]
    assert answer.plan is not None
    chunks = {chunk for passage in answer.context for chunk in passage.chunk_ids}
    if shown:
        (passage,) = rows
        assert passage.shown_text.splitlines() == [
            "[Balance sheets]",
            "|2024|2023",
            "Total current assets|310|200",
            "Total current liabilities|90|80",
            "Deferred revenue|77|70",  # another line item of the statement, as there is room
        ]
    else:
        assert not rows
    assert len(chunks) == answer.plan.count - shown
