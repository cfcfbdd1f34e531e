"""Line items: what a metric that no statement prints is worked out from, and their rows."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.named import MOST_NAMED, line_item_rows
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Document, Question, QuestionType
from okralong.pipelines.methods.registry import FullPolicy, load_strategy
from okralong.pipelines.statements.line_items import items_needed, items_of_label, line_items
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
        ("What was deferred revenue in 2024?", []),
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
        ("Deferred revenue", []),
        ("Revenue (% change)", []),
    ],
)
def test_a_label_names_an_item_as_a_whole(label: str, items: list[str]) -> None:
    assert [item.id for item in items_of_label(label)] == items


def statement(name: str, current_assets: str, filler: int = 30) -> Document:
    """A report whose statement has its rows far apart."""
    lines = [f"Note {n}: nothing of the balance sheet is said here by {name}, only words." for n in range(filler)]
    body = [
        *lines,
        "                          2024      2023",
        f"Total current assets     {current_assets}       200",
        *lines,
        "Total current liabilities   90        80",
        *lines,
        "Deferred revenue          77        70",
        "Total revenue            900       800",
    ]
    return Document(f"{name}_2024", "\n".join(body), sha256=name * 8, n_tokens=2000)


@pytest.mark.parametrize(
    ("question", "rows"),
    [
        ("What was the working capital of Alder in 2024?", ["Alder 310", "Alder 90"]),
        (
            "Whose working capital was larger in 2024, Alder's or Birch's?",
            ["Alder 310", "Alder 90", "Birch 440", "Birch 90"],
        ),
        ("What was total revenue of Birch?", ["Birch 900"]),
        ("What was the working capital in 2024?", []),  # of which of four?
        ("Who leads Alder?", []),
    ],
)
async def test_rows_of_the_documents_that_a_question_names(question: str, rows: list[str]) -> None:
    documents = [statement("Alder", "310"), statement("Birch", "440"), statement("Cedar", "5"), statement("Elm", "6")]
    policy = load_config(FullPolicy, "policy/default.yaml")
    found = await line_item_rows(ask_of(question, ScriptedTools(documents, policy=policy)))
    assert len(documents) > MOST_NAMED
    assert len(found) == len(rows)
    for passage, row in zip(sorted(found, key=lambda each: (each.doc_id, each.start_char)), rows, strict=True):
        name, amount = row.split()
        source = next(each for each in documents if each.doc_id == passage.doc_id)
        assert passage.doc_id == f"{name}_2024"
        assert passage.text == source.text[passage.start_char : passage.end_char]
        assert f" {amount} " in passage.text
        assert len(passage.text) < 900
        assert "Note 12:" not in passage.text


async def test_rows_never_outgrow_what_a_plan_reserves() -> None:
    """No more passages than chunks were found, and none where the plan shows no whole tables."""
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
        assert sum(len(passage.chunk_ids) for passage in answer.context) == answer.plan.count


@pytest.mark.parametrize(("type_", "shown"), [("arithmetic", True), ("abstractive", False)])
async def test_rows_stand_in_the_place_of_chunks(type_: QuestionType, shown: bool) -> None:
    """Of the only document of the scope, whatever is asked; an answer in words does not need them."""
    policy = load_config(FullPolicy, "policy/default.yaml")
    tools = ScriptedTools(
        [statement("Alder", "310", filler=120)], {"generate": ["Answer: 220"]}, analysis=analysis(type_), policy=policy
    )
    answer = await load_strategy("okralong")(Question("q", "What was the working capital in 2024?"), tools)
    text = " ".join(passage.text for passage in answer.context)
    if shown:
        assert "Total current assets     310" in text
        assert "Total current liabilities   90" in text
    assert answer.plan is not None
    chunks = {chunk for passage in answer.context for chunk in passage.chunk_ids}
    assert len(chunks) == (answer.plan.count - 2 if shown else answer.plan.count)
