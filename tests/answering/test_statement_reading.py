"""Values off statements: the row that is asked for, its column and scale; sentences; the period of a report."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.readers.cover import cover_shares, report_period
from okralong.pipelines.answering.readers.sentences import stated, stated_in
from okralong.pipelines.answering.readers.statement import read_line_item, read_statement
from okralong.pipelines.core.types import Answer, Citation, Document, Question, TypedValue
from okralong.pipelines.methods.registry import load_strategy
from okralong.pipelines.samples.questions import generate
from okralong.pipelines.statements.asked import line_item_of
from okralong.pipelines.statements.choice import Blank, Choice, choose, with_unit
from tests.fakes.tools import ScriptedTools, analysis, ask_of

TEXT = """Alder's year. Revenue was a word that the board used often in 2023.

Table: Income statement (in thousands of dollars)
                                  2023        2022
Revenue                        462,539     421,196
Revenue of other firms           1,000       2,000
Net loss                       (6,003)      81,499
Basic loss per common share      (0.04)       0.60

Cash and cash equivalents at beginning of period    $   9,284   $  14,373
"""
DOCUMENT = Document("alder", TEXT)
PIECE = TEXT.index("Revenue   ")
"""The passage begins below the head, as a cut table does."""


def chosen(question: str, document: Document, kind: str = "money", within: int | None = None) -> Choice | None:
    spans = [] if within is None else [(within, len(document.text))]
    found = choose(question, kind, document, spans)
    assert found is None or isinstance(found, Choice | Blank)
    return None if isinstance(found, Blank) else found


@pytest.mark.parametrize(
    ("question", "value", "line"),
    [
        ("What was the revenue in 2023?", "462539000", "Revenue  "),
        ("What was the revenue in 2022?", "421196000", "Revenue  "),
        ("What is the Net Profit?", "-6003000", "Net loss"),
        ("What are the Basic Earnings Per Share?", "-0.04", "Basic loss"),
        ("What is the Beginning Balance of Cash and Cash Equivalents?", "9284000", "Cash and cash"),
    ],
)
def test_the_row_and_the_column_that_are_asked_for(question: str, value: str, line: str) -> None:
    found = chosen(question, DOCUMENT, within=PIECE)
    assert found is not None
    assert (found.value.value, found.value.currency) == (value, "USD")
    assert TEXT[found.row.start : found.row.end].startswith(line)


@pytest.mark.parametrize("question", ["What was the revenue in 2021?", "What is the goodwill?", "Who leads Alder?"])
def test_no_row_is_better_than_another_ones(question: str) -> None:
    assert chosen(question, DOCUMENT, within=PIECE) is None


def test_what_stands_above_the_piece_that_was_shown_is_said_of_its_values() -> None:
    at = TEXT.index("421,196")
    cited = Citation("alder", PIECE, TEXT.index("\n", at), TEXT[PIECE : TEXT.index("\n", at)])
    bare = Answer("answered", "421,196", (cited,), value=TypedValue("421196", 421196.0, period="2022"))
    found = with_unit(bare, DOCUMENT)
    assert found.value is not None
    assert (found.value.value, found.value.scale, found.value.currency) == ("421196000", "thousand", "USD")
    assert with_unit(Answer("answered", "421,196"), DOCUMENT).value is None


REVENUE = "What was total revenue?"
INCOME = "What was the net income or net loss of the quarter?"
CASH = "How much net cash was provided by operating activities?"


@pytest.mark.parametrize(
    "question",
    [
        REVENUE,
        "What were the company's total net sales in fiscal 2024?",
        "What was the total revenue (total net sales) of the quarter?",
        "What is the operating income for the first quarter of 2023?",
        "How much cash came from operations in 2023?",
        INCOME,
        CASH,
    ],
)
def test_a_question_for_one_line_item_of_the_company(question: str) -> None:
    assert line_item_of(question) is not None


@pytest.mark.parametrize(
    "question",
    [
        "By how much did revenue increase?",
        "What was the advertising revenue?",
        "What was the revenue of the Data Center segment?",
        "What was the revenue in China?",
        "What was the cost of revenue as a share of net income?",
        "What was the net profit margin?",
        "What were revenue and net income?",
        "Who leads Alder?",
    ],
)
def test_a_question_for_more_or_for_a_part_is_for_no_line_item(question: str) -> None:
    assert line_item_of(question) is None


@pytest.mark.parametrize(
    ("question", "text", "value", "period"),
    [
        (REVENUE, "Our total revenue for the first quarter of 2024 was $28.65 billion.", "28650000000", "Q1 2024"),
        (REVENUE, "Advertising revenue was $9 million. Revenues were $12 million, up 4 %.", "12000000", ""),
        (REVENUE, "Net sales in 2023 rose 4% to $22.7 billion from $21.8 billion in 2022.", "22700000000", "2023"),
        (
            REVENUE,
            "During the three and nine months ended September 30, 2024, we recognized total revenues of $25.18 billion "
            "and $71.98 billion, respectively.",
            "25180000000",
            "3 months to 2024-09-30",
        ),
        (INCOME, "In 2023 our net income attributable to common shareholders was $2.70 billion.", "2700000000", "2023"),
        (INCOME, "We had a net loss of $(3.5) million in 2024.", "-3500000", "2024"),
        (
            CASH,
            "Cash Flows from Operating ActivitiesNet cash provided by operating activities decreased by $2 million to "
            "$242 million during the three months ended March 31, 2024 from $244 million before.",
            "242000000",
            "3 months to 2024-03-31",
        ),
        (
            CASH,
            "Cash provided by (used in) operating activities was $(2.8) billion and $4.8 billion for Q1 2022 and "
            "Q1 2023.",
            "4800000000",
            "Q1 2023",
        ),
        (CASH, "It was due to $9 million of cash generated from operations and $3 million of loans.", "9000000", ""),
        (CASH, "The fall was offset by $38.6 billion of cash generated from operations.", "38600000000", ""),
        (
            "What was total revenue in 2022?",
            "Net revenue for 2023 was $5 million. Net revenue for 2022 was $4 million.",
            "4000000",
            "2022",
        ),
    ],
)
def test_a_sentence_gives_the_amount_of_its_subject(question: str, text: str, value: str, period: str) -> None:
    item = line_item_of(question)
    assert item is not None
    found = stated(question, "money", item, Document("alder", text))
    assert found is not None
    assert found.value is not None
    assert (found.value.value, found.value.currency, found.value.period) == (value, "USD", period)
    (source,) = found.citations
    assert text[source.start_char : source.end_char] == source.quote
    assert found.answer in source.quote
    assert found.context[0].start_char <= source.start_char < source.end_char <= found.context[0].end_char


@pytest.mark.parametrize(
    ("question", "text"),
    [
        (REVENUE, "Total deferred revenue was $1,312 million. Revenue recognized from it was $281 million."),
        (REVENUE, "Cloud net revenue was $9 billion. U.S. revenues were $3 billion. Cost of revenue was $2 billion."),
        (REVENUE, "Net sales are expected to be between $127.0 billion and $133.0 billion."),
        (REVENUE, "International segment net sales increased by $88 million in comparison with 2022."),
        (REVENUE, "Our net revenue increased by $88 million."),
        (REVENUE, "The net revenue from these customers was $5.6 billion."),
        (INCOME, "Other income (expense), net included net income of $219 million related to pension costs."),
        (INCOME, "The company recognized a net loss of $104 million on equity securities."),
        (
            INCOME,
            "We recorded equity in net income of affiliates of $1,666 million. Interest income, net, was $6 million.",
        ),
        (INCOME, "Net income, as Note 15 tells, was a word that the board liked."),
        (
            CASH,
            "Cash provided by operating activities mostly consisted of net income and $7.11 billion of pay.",
        ),
        ("What was total revenue in 2021?", "Net revenue for 2023 was $5 million."),
        (REVENUE, "The merger brought $3.8 billion of revenue and $659 million of profit."),
        (REVENUE, "Loans. Net revenue was $9 million. Cards. Net revenue was $4 million."),
    ],
)
def test_a_part_a_change_a_plan_or_another_item_is_no_answer(question: str, text: str) -> None:
    item = line_item_of(question)
    assert item is not None
    assert stated(question, "money", item, Document("alder", text)) is None


def test_the_whole_companys_amount_goes_before_those_of_its_parts() -> None:
    text = "Net revenue was $9 million. Alder reported total net revenue of $30 million. Net revenue was $4 million."
    item = line_item_of(REVENUE)
    assert item is not None
    found = stated(REVENUE, "money", item, Document("alder", text))
    assert found is not None
    assert found.answer == "$30 million"


def test_bare_amounts_of_a_report_in_millions_are_in_millions() -> None:
    text = "Dollars in millions except per share amounts.\nIn 2023, cash provided by operating activities was $38,314."
    item = line_item_of(CASH)
    assert item is not None
    found = stated(CASH, "money", item, Document("alder", text))
    assert found is not None
    assert found.value is not None
    assert (found.value.value, found.value.scale, found.value.period) == ("38314000000", "million", "2023")
    mixed = Document("alder", f"{text} We paid $2 million.")
    left = stated(CASH, "money", item, mixed)
    assert left is not None
    assert left.value is not None
    assert left.value.value == "38314"


def test_the_amount_of_a_sentence_alone() -> None:
    gives = stated_in(REVENUE, "money")
    assert gives is not None
    sentence = "Our revenue was $12 million."
    place = gives(sentence)
    assert place is not None
    assert sentence[slice(*place)] == "$12 million"
    assert gives("Deferred revenue was $12 million.") is None
    assert stated_in("What was the wage?", "money") is None
    assert stated_in(REVENUE, "percent") is None


BARS = """Alder's figures (in thousands)

|  | Total | 2022 | 2023 |
| --- | --- | --- | --- |
| Advertising revenue | 9 | 3 | 6 |
| Total revenues (1) | $ 30 | $ 10 | $ 20 |
| Operating leases (see Note 16) | 19 | 4 | 15 |
"""


@pytest.mark.parametrize(
    ("question", "value", "period"),
    [("What was total revenue?", "20000", "2023"), ("What was total revenue in 2022?", "10000", "2022")],
)
def test_a_row_by_another_name_in_the_column_under_its_year(question: str, value: str, period: str) -> None:
    found = chosen(question, Document("alder", BARS))
    assert found is not None
    assert (found.value.value, found.value.scale, found.value.period) == (value, "thousand", period)


def test_numbers_of_a_label_are_no_cells() -> None:
    found = chosen("What were operating leases (see note) in 2022?", Document("alder", BARS), "number")
    assert found is not None
    assert found.cell.text == "4"


COVER = "FORM 10-Q\nFor the quarterly period ended June 30, 2024\n"
BODY = (
    "As told in our Annual Report on Form 10-K for the year ended December 31, 2023, risks remain. Sales of the three "
    "and six months ended June 30, 2024 and 2023 rose. Costs of the three months ended June 30, 2024 fell."
)


@pytest.mark.parametrize(
    ("text", "period", "said"),
    [
        (COVER + BODY, "3 months to 2024-06-30", "quarterly period ended June 30, 2024"),
        ("ALDER\n\nANNUAL REPORT 2023\n\nIn the year ended June 30, 2022 we fell.", "2023", "ANNUAL REPORT 2023"),
        (BODY, "3 months to 2024-06-30", "three and six months ended June 30, 2024"),
        (
            "Results of the year ended June 30, 2023 and 2022. In the year ended June 30, 2023 we grew. In the three "
            "months ended June 30, 2023 as well.",
            "year to 2023-06-30",
            "year ended June 30, 2023",
        ),
        (
            "Sales of the 12 weeks ended March 25, 2023. In the 12 weeks ended March 25, 2023, costs fell.",
            "12 weeks to 2023-03-25",
            "12 weeks ended March 25, 2023",
        ),
    ],
)
def test_the_period_that_a_report_covers(text: str, period: str, said: str) -> None:
    found = report_period(Document("alder", text))
    assert found is not None
    assert found.value is not None
    assert (found.value.value, found.answer) == (period, said)
    assert found.answer in found.citations[0].quote


def test_a_document_without_periods_covers_none() -> None:
    assert report_period(Document("alder", "Alder was founded in 1999, on March 3, 1999.")) is None


async def test_a_cell_is_read_off_the_whole_document_without_a_call() -> None:
    filler = " ".join(f"The bakery keeps oven {number} and bakes at night." for number in range(400))
    text = f"{filler} Our revenue for 2023 was $12 million. {filler}"
    tools = ScriptedTools(
        [Document("alder", text)], {}, analysis=analysis("arithmetic"), reads_answers=True, answer_type="money"
    )
    found = await load_strategy("okralong")(Question("q", REVENUE, answer_type="money"), tools)
    assert (found.status, found.answer) == ("answered", "$12 million")
    assert found.value is not None
    assert found.value.period == "2023"
    assert not [call for call in tools.calls if call.tool == "complete"]


LABELS = """|  | FY19 | FY18 |
| --- | --- | --- |
| Net receivables | 31 | 30 |
| Provision for taxes | 21 | 20 |
"""


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What were net receivables as at December 31, 2018?", "30"),
        ("How much was the provision for taxes for the year ended 31 December 2019?", "21"),
        ("What is the total provision for taxes in FY18?", "20"),
        ("What was the 2018 provision for taxes?", "20"),
    ],
)
def test_times_in_any_words_choose_the_column_and_belong_to_no_label(question: str, value: str) -> None:
    found = chosen(question, Document("alder", LABELS), "number")
    assert found is not None
    assert found.cell.text == value


@pytest.mark.parametrize(
    "question", ["What were receivables in 2017?", "What was the provision for warranties in 2018?"]
)
def test_another_years_or_another_label_is_no_answer(question: str) -> None:
    assert chosen(question, Document("alder", LABELS), "number", within=0) is None


@pytest.mark.parametrize(
    ("question", "label"),
    [
        ("What was the total revenue of the year?", "Revenue"),
        ("What was the net income or net loss of the year?", "Net income"),
        ("How much cash came from operations?", "Cash from operations"),
        ("What was the gross profit?", "Gross profit"),
        ("What were total assets at the end of the year?", "Total assets"),
    ],
)
def test_the_line_items_of_made_up_reports(question: str, label: str) -> None:
    for document in generate(reports=3, questions=0, seed=11, words=1_500).documents:
        row = next(line for line in document.text.splitlines() if line.startswith(f"{label}  "))
        thousands = int(row[len(label) :].split()[0].replace(",", ""))
        found = chosen(question, document)
        assert found is not None
        assert (found.value.number, found.value.currency) == (thousands * 1000, "USD")
        assert found.value.period.startswith(document.doc_id[-4:])


STATEMENTS = """ALDER INC

Balance sheets (in thousands, except per share amounts)
                                                             March 31, 2024   December 31, 2023
Cash and cash equivalents                                    $      18,544    $      17,835
Accounts receivable, net of allowance of $792 and $463, respectively    28,160    26,604
Other current assets                                                 1,261           2,011
Total current assets                                                57,770          65,213
\u00a0\u00a0Accounts payable and accrued expenses                      $  \u00a0\u00a0142,225   $ \u00a0\u00a0122,400
Total liabilities and stockholders\u2019 equity                          160,971         163,295

Statements of operations (in thousands, except per share amounts)
                                                                   2024            2023
General and administrative                                       $    3,129      $    3,604
Other income                                                               \u2014              12
Net loss per common share:
  Basic and diluted                                              $    (0.54)     $    (0.51)
Weighted average shares:
  Basic                                                               7,236           7,425

Cash, cash equivalents and restricted cash, beginning of period      17,900          11,364
Net (decrease) increase in cash and cash equivalents                 (6,900)          2,754
Cash, cash equivalents and restricted cash at end of period          19,001          14,118
"""


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What are the current assets?", "57770000"),
        ("What is the cash and cash equivalents balance?", "18544000"),
        ("What is the Beginning Balance of Cash and Cash Equivalents?", "17900000"),
        ("What were cash and cash equivalents at the end of the period?", "18544000"),
        ("What is the Net Increase in Cash and Cash Equivalents?", "-6900000"),
        ("What is the Basic Earnings Per Share?", "-0.54"),
        ("What is the Earnings per Share (EPS)?", "-0.54"),
        ("What is the diluted loss per share?", "-0.54"),
    ],
)
def test_a_row_with_the_very_words_of_the_question_wherever_it_stands(question: str, value: str) -> None:
    found = chosen(question, Document("alder", STATEMENTS))
    assert found is not None
    assert found.value.value == value


@pytest.mark.parametrize(
    "question",
    ["What is the goodwill?", "What is the total?", "What was the other income in 2024?"],
)
def test_no_row_has_other_words_or_the_cell_is_a_dash(question: str) -> None:
    assert chosen(question, Document("alder", STATEMENTS)) is None


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the accounts receivable?", "28160000"),
        ("What is the Accounts Payable?", "142225000"),
        ("What are the administrative expenses?", "3129000"),
        ("What is the total liabilities and equity?", "160971000"),
        ("What are the total assets?", "160971000"),
    ],
)
def test_line_items_behind_blanks_less_an_allowance_and_by_other_names(question: str, value: str) -> None:
    found = chosen(question, Document("alder", STATEMENTS))
    assert found is not None
    assert found.value.value == value


@pytest.mark.parametrize(
    ("cover", "value"),
    [
        (
            "As of May 20, 2024, the issuer had outstanding 1,135,194 shares of common stock, par value $0.001.",
            "1135194",
        ),
        (
            "The aggregate market value of the 43,685,796 shares of common stock held by non-affiliates was $234.2 "
            "million. At March 9, 2022, the registrant had 71,025,738 shares of common stock outstanding.",
            "71025738",
        ),
        (
            "State the number of shares outstanding of each class.\n\n  Class          Outstanding March 31, 2024\n"
            "  Voting Common Stock, par value $100     1,700 Shares\n",
            "1700",
        ),
    ],
)
def test_the_shares_that_a_cover_counts(cover: str, value: str) -> None:
    found = cover_shares(Document("alder", f"FORM 10-Q\nAlder Inc.\n{cover}\nOur revenue was $12."))
    assert found is not None
    assert found.value is not None
    assert found.value.value == value


def test_several_classes_of_shares_are_not_one_number() -> None:
    cover = "There were 139,621,085 shares of Class A and 39,747,447 shares of Class B common stock outstanding."
    assert cover_shares(Document("alder", cover)) is None
    assert cover_shares(Document("alder", "Alder bakes.")) is None


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("What is the accounts payable of Alder Inc.?", "142225000"),
        ("What was Alder Inc.'s current assets?", "57770000"),
        ("What is the accounts payable of Birch Company?", "9000"),
    ],
)
async def test_of_several_documents_the_one_that_is_named_is_read(question: str, value: str) -> None:
    birch = Document(
        "Birch_Company_2024",
        "BIRCH COMPANY\nIn dollars        2024    2023\nAccounts payable        $  9,000    $ 8,000\n",
    )
    documents = [Document("Alder_Inc_2024", STATEMENTS), birch]
    tools = ScriptedTools(documents, {}, analysis=analysis("extractive"), reads_answers=True, answer_type="money")
    found = await load_strategy("okralong")(Question("q", question, answer_type="money"), tools)
    assert found.value is not None
    assert (found.status, found.value.value) == ("answered", value)
    assert not [call for call in tools.calls if call.tool == "complete"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What were the current assets of Alder Inc. in 2024?", "57,770 thousand"),
        ("How much cash and cash equivalents did Alder Inc. have at March 31, 2024?", "$ 18,544 thousand"),
        ("What was the change in the current assets of Alder Inc. in 2024?", None),
        ("What were the current assets of Alder Inc. in fiscal 2023 and 2024, respectively?", None),
        ("What drove the current assets of Alder Inc. in 2024?", None),
        ("What were the main current assets of Alder Inc. in 2024?", None),
        ("How much were the current assets of the North America segment of Alder Inc. in 2024?", None),
    ],
)
async def test_a_question_without_a_type_for_nothing_but_a_line_item(question: str, answer: str | None) -> None:
    documents = [Document("Alder_Inc_2024", STATEMENTS), Document("Birch_Inc_2024", "BIRCH INC.\nCurrent assets: 1\n")]
    found = await read_line_item(ask_of(question, ScriptedTools(documents, {}, reads_answers=True)))
    assert (found and found.answer) == answer
    if found is not None:
        assert found.value is None
        assert found.answer.split(" ")[-2] in found.citations[0].quote


async def test_a_part_of_a_company_is_not_the_document_that_its_year_names() -> None:
    documents = [Document("Alder_Inc_2023", STATEMENTS), Document("Alder_Inc_2024", STATEMENTS)]
    tools = ScriptedTools(documents, {}, answer_type="money")
    asked = "What were the current assets of North America in 2024?"
    assert await read_statement(ask_of(asked, tools)) is None
    found = await read_statement(ask_of("What were the current assets of Alder Inc. in 2024?", tools))
    assert found is not None
    assert found.citations[0].doc_id == "Alder_Inc_2024"
