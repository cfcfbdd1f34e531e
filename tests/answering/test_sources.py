"""The sources of an answer: they contain its words or its number, else there are none."""

from __future__ import annotations

import pytest

from okralong.pipelines.answering.citations import sources_of
from okralong.pipelines.answering.prompt_text import Evidence
from okralong.pipelines.answering.stated import sought_for
from okralong.pipelines.answering.support import Figures, Sought, units
from okralong.pipelines.core.types import Passage
from okralong.pipelines.statements.amounts import amounts

REPORT = """Human Capital Resources
At year end we employed 301 full-time equivalent employees, all located in New
Jersey and New York. They are not represented by a union.
Total assets grew by $578.7 million, or 19.5 percent, to $3.546 billion.
(in thousands) 2022 2021
Total interest income 148,372 118,270
Total assets 3,546,193 2,967,528
Dividends declared - - -
"""
OTHER = "Marrow Bay opened on 3 March 2016 in Voilà. The Board may declare dividends from time to time. Its 301 is old."
SHOWN = [Passage("harrow", 100, 100 + len(REPORT), REPORT, 9, 1.0), Passage("marrow-bay", 0, len(OTHER), OTHER, 9, 1.0)]


def cited(answer: str, question: str, *claims: tuple[int, str], kind: str = "text") -> list[tuple[str, str]]:
    found = sources_of([Evidence(*each) for each in claims], SHOWN, sought_for(answer, question, answer, kind))
    for each in found:
        text, start = (REPORT, 100) if each.doc_id == "harrow" else (OTHER, 0)
        assert text[each.start_char - start : each.end_char - start] == each.quote
    return [(each.doc_id, " ".join(each.quote.split())) for each in found]


EMPLOYEES = "How many full-time employees are there?"
EMPLOYED = (
    "harrow",
    "At year end we employed 301 full-time equivalent employees, all located in New Jersey and New York.",
)


@pytest.mark.parametrize("junk", ["not", "Jersey and", "2022 2021", "are not represented by a union"])
@pytest.mark.parametrize("kind", ["number", "text"])
def test_a_quotation_without_the_answer_is_replaced_by_the_sentence_that_has_it(junk: str, kind: str) -> None:
    assert cited("301 employees", EMPLOYEES, (1, junk), kind=kind) == [EMPLOYED]


def test_a_claim_for_the_wrong_passage_is_corrected() -> None:
    assert cited("$3.546 billion", "What were total assets?", (2, "from time to time"), kind="money")[0][1].endswith(
        "$3.546 billion."
    )
    assert cited("March 3, 2016", "When did Marrow Bay open?", (1, ""), kind="date") == [
        ("marrow-bay", "Marrow Bay opened on 3 March 2016 in Voilà.")
    ]


def test_without_a_sentence_that_has_the_answer_there_is_no_citation() -> None:
    for answer, kind in (("302", "number"), ("Oslo", "text"), ("2017", "date"), ("$7 million", "money")):
        assert cited(answer, EMPLOYEES, (1, "we employed 301"), (2, ""), kind=kind) == []
    assert cited("301", EMPLOYEES, (7, "words of no passage"), kind="number") == [], "no valid claim"
    assert cited("301", EMPLOYEES, kind="number") == [], "no claim"


def test_an_amount_is_found_in_any_notation() -> None:
    row = ("harrow", "Total assets 3,546,193 2,967,528")
    for said in ("$3,546,193 thousand", "3546193000 USD", "$3,546.193 million"):
        assert cited(said, "What were total assets?", (1, ""), kind="money") == [row]
    assert cited("(2,967,528)", "What were total assets in 2021?", (1, "2,967,528"), kind="money") == [row]


def test_a_number_alone_is_quoted_with_its_sentence() -> None:
    assert cited("301", EMPLOYEES, (1, "301"), kind="number") == [EMPLOYED]
    assert cited("301", EMPLOYEES, (1, "employed 301"), kind="number") == [("harrow", "employed 301")]


def test_yes_and_no_cite_what_the_question_is_about() -> None:
    asked = "Did Harrow declare dividends?"
    assert cited("no", asked, (1, "not"), kind="boolean") == [("harrow", "Dividends declared - - -")]
    assert cited("no", "Was there a fire?", (1, "not"), kind="boolean") == []


def test_further_evidence_about_the_question_comes_last() -> None:
    asked = "Where did the bay that declares dividends open?"
    claims = [(2, "The Board may declare dividends"), (2, "Its 301 is"), (2, "opened on 3 March 2016 in Voilà")]
    assert cited("Voila", asked, *claims) == [
        ("marrow-bay", "opened on 3 March 2016 in Voilà"),
        ("marrow-bay", "The Board may declare dividends"),
    ]


def test_a_name_in_a_script_without_blanks_is_found() -> None:
    text = "当社の本社は東京にあります。"
    found = sources_of(
        [Evidence(1, "")], [Passage("d", 0, len(text), text, 9, 1.0)], Sought.of("東京", "本社はどこですか")
    )
    assert [each.quote for each in found] == [text]


def test_a_wrapped_sentence_is_one_unit_and_each_row_is_its_own() -> None:
    assert [" ".join(REPORT[slice(*span)].split()) for span, _ in units(REPORT)] == [
        "Human Capital Resources",
        EMPLOYED[1],
        "They are not represented by a union.",
        "Total assets grew by $578.7 million, or 19.5 percent, to $3.546 billion.",
        "(in thousands) 2022 2021",
        "Total interest income 148,372 118,270",
        "Total assets 3,546,193 2,967,528",
        "Dividends declared - - -",
    ]


@pytest.mark.parametrize(
    ("text", "said", "stands"),
    [
        ("2 Price\n\nThe price is EUR 640.", "2 EUR", False),
        ("3.1 Payment terms\nThe rent is due.", "3.1 EUR", False),
        ("7) Fees", "$7", False),
        ("2 Price\n\nThe price is EUR 640.", "640 EUR", True),
        ("2 million euros were paid.", "2 million EUR", True),
        ("| Rent | 2 |", "2 EUR", True),
        ("Rent\n2\n", "2 EUR", True),
    ],
)
def test_the_number_of_a_heading_is_no_money(text: str, said: str, stands: bool) -> None:
    (amount,) = amounts(said)
    assert Figures([text]).have(amount) == stands
