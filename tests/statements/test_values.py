"""Values as people and filings write them, and what their line and their table's head add."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from okralong.pipelines.core.types import TypedValue
from okralong.pipelines.statements.amounts import UNKNOWN, amounts
from okralong.pipelines.statements.values import Context, agrees, read_value, same_period


@pytest.mark.parametrize(
    ("kind", "said", "value", "rest"),
    [
        ("money", "$(234,495)", "-234495", {"currency": "USD"}),
        ("money", "10,135 in thousands", "10135000", {"scale": "thousand"}),
        ("money", "$10.5 million", "10500000", {"scale": "million", "currency": "USD"}),
        ("money", "a loss of US$1,204.5m", "1204500000", {"scale": "million", "currency": "USD"}),
        ("money", "USD 5bn", "5000000000", {"scale": "billion", "currency": "USD"}),
        ("money", "12 Swedish kronor", "12", {"currency": "SEK"}),
        ("money", "Rs. 12,34,567", "1234567", {"currency": "INR"}),
        ("money", "$ -6.2 ( 6.2 )", "-6.2", {"currency": "USD"}),
        ("money", "$ \u2014", "0", {}),
        (
            "money",
            "Revenue was $10.5 million in 2019",
            "10500000",
            {"period": "2019", "scale": "million", "currency": "USD"},
        ),
        ("money", "It paid twelve thousand dollars ($12,000)", "12000", {"currency": "USD"}),
        ("percent", "12.5%", "12.5", {"unit": "%"}),
        ("percent", "50 basis points", "0.5", {"unit": "%"}),
        ("percent", "(3.2)%", "-3.2", {"unit": "%"}),
        ("percent", "12.5", "12.5", {"unit": "%"}),
        ("number", "1,204 employees", "1204", {"unit": "employees"}),
        ("number", "two", "2", {}),
        ("number", "1.234.567,8", "1234567.8", {}),
        ("number", "12,5", "12.5", {}),
        ("date", "on 30 June 2023", "2023-06-30", {}),
        ("date", "06/30/2023", "2023-06-30", {}),
        ("date", "30.06.2023", "2023-06-30", {}),
        ("date", "in June 2023", "2023-06", {}),
        ("date", "2019", "2019", {}),
        ("period", "the fiscal year ended June 30, 2023", "year to 2023-06-30", {}),
        ("period", "three months ended September 30, 2024", "3 months to 2024-09-30", {}),
        ("period", "third quarter of fiscal 2024", "Q3 FY2024", {}),
        ("period", "3Q24", "Q3 2024", {}),
        ("period", "FY 2022-23", "FY2023", {}),
        ("period", "first half of 2024", "H1 2024", {}),
        ("boolean", "No, it did not.", "no", {}),
    ],
)
def test_what_an_answer_writes(kind: str, said: str, value: str, rest: dict[str, str]) -> None:
    found = read_value(kind, said)
    assert found.value == value
    assert {
        name: getattr(found, name) for name in ("unit", "scale", "currency", "period") if getattr(found, name)
    } == rest
    assert found.number == (float(value) if kind in ("money", "number", "percent") else None)


@pytest.mark.parametrize(
    ("kind", "said", "says"),
    [
        ("money", "the company did not say", "there is none in it"),
        ("money", "$9 million in 2018 and $10 million in 2019", "it has several: $9 million, $10 million"),
        ("date", "soon", "one date was asked for"),
        ("period", "2018, 2020", "several"),
        ("boolean", "It rose.", "yes or no"),
        ("percent", "$5", "there is none"),
    ],
)
def test_what_does_not_fit_says_why(kind: str, said: str, says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("$", r"\$")):
        read_value(kind, said)


def test_choices() -> None:
    choices = ("high", "very high", "low")
    assert read_value("choices", "Very high.", choices=choices).value == "very high"
    assert read_value("choices", "The risk is low", choices=choices).value == "low"
    for said in ("high or low", "medium"):
        with pytest.raises(ValueError, match="one of high, very high, low"):
            read_value("choices", said, choices=choices)


TABLE = """\
The following table shows our results (in thousands, except per share data):
|  | Years ended June 30, |  |
|  | 2023 | 2022 |
| Net revenue | $ 10,135 | $ 9,870 |
| Net loss | (234,495) | (12) |
| Loss per share | $ (1.20) | $ (0.01) |
| Margin | 12.5% | 11% |
"""


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        ("money", "$10,135", TypedValue("10135000", 10135000.0, "", "thousand", "USD", "2023")),
        ("money", "9,870", TypedValue("9870000", 9870000.0, "", "thousand", "USD", "2022")),
        ("money", "$(1.20)", TypedValue("-1.2", -1.2, "", "", "USD", "2023")),
        ("percent", "12.5", TypedValue("12.5", 12.5, "%", "", "", "2023")),
    ],
)
def test_what_a_table_adds(kind: str, said: str, expected: TypedValue) -> None:
    assert read_value(kind, said, Context(TABLE)) == expected


def test_read_words_take_their_brackets_and_their_line_with_them() -> None:
    at = TABLE.index("234,495")
    found = read_value("money", "", Context(TABLE, at, at + 7, verbatim=True))
    assert (found.value, found.scale, found.currency) == ("-234495000", "thousand", "USD")
    text = "The year's revenue was $12.5 million, up 3%."
    at = text.index("12.5")
    assert read_value("money", "", Context(text, at, at + 4, verbatim=True)).value == "12500000"
    at = text.index("revenue")
    assert read_value("money", "", Context(text, at, at + 7, verbatim=True)).value == "12500000"


def test_a_sentence_has_its_own_scale() -> None:
    text = f"{TABLE}\nWe paid a fee of $10,200 to the two members of the board who left in the year."
    assert read_value("money", "$10,200", Context(text)).value == "10200"


def test_heads_of_columns() -> None:
    text = "|  | Volume ( billions ) | Cards ( millions ) |\n| Visa | $ 2457 | 1592 |\n"
    assert read_value("money", "$ 2457", Context(text)).value == "2457000000000"
    assert read_value("number", "1592", Context(text)).value == "1592000000"


def test_an_amount_of_unknown_scale_agrees_only_as_printed() -> None:
    unscaled = TypedValue("9500", 9500.0, "", UNKNOWN, "USD")
    assert agrees("money", unscaled, "9,500")
    assert not agrees("money", unscaled, "$9.5 thousand")
    assert agrees("money", TypedValue("9500", 9500.0, "", "thousand", "USD"), "$9.5 thousand")


STYLES = ("{0}", "${0}", "US$ {0}", "{0} dollars", "\u20ac{0}", "{0} euros", "CHF {0}")
SCALED = {"": 1, " thousand": 1000, " million": 10**6, " billion": 10**9}


@settings(deadline=None)
@given(
    st.integers(0, 10**9),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(STYLES),
    st.sampled_from(list(SCALED)),
    st.sampled_from(["-{0}", "\u2212{0}", "({0})"]),
)
def test_every_way_to_write_an_amount_is_read(
    digits: int, places: int, below: bool, style: str, scale: str, minus: str
) -> None:
    exact = Decimal(digits).scaleb(-places)
    written = style.format(f"{exact:,.{places}f}{scale}")
    found = read_value("money", minus.format(written) if below else written)
    assert Decimal(found.value) == (-exact if below else exact) * SCALED[scale]
    assert found.scale == scale.strip()


@given(
    st.dates(date(1950, 1, 1), date(2090, 12, 31)), st.sampled_from(["%B %d, %Y", "%d %B %Y", "%Y-%m-%d", "%b. %d, %Y"])
)
def test_every_way_to_write_a_day_is_read(day: date, style: str) -> None:
    written = day.strftime(style)
    assert read_value("date", f"on {written}.").value == day.isoformat()
    assert read_value(
        "period", f"the year ended {written}" if style != "%b. %d, %Y" else f"year ended {written}"
    ).value == (f"year to {day.isoformat()}")


@given(
    st.sampled_from(["number", "money", "percent", "date", "period", "boolean"]),
    st.text(max_size=80),
    st.text(max_size=200),
)
def test_any_text_has_a_value_or_says_why_not(kind: str, said: str, passage: str) -> None:
    try:
        found = read_value(kind, said, Context(passage))
    except ValueError:
        return
    assert found.value


@given(st.text("0123456789.,()$% -mk\n|", max_size=120))
def test_amounts_lie_in_their_text(text: str) -> None:
    for each in amounts(text):
        assert 0 <= each.start < each.end <= len(text)


@pytest.mark.parametrize(
    ("kind", "said", "gold", "right"),
    [
        ("money", "$10,135 thousand", "10.1 million", True),
        ("money", "$10,135 thousand", "10,135", True),
        ("money", "$10,135", "10,135 thousand", False),
        ("money", "$10.1 million", "\u20ac10.1 million", False),
        ("percent", "12.54%", "12.5%", True),
        ("percent", "12.54%", "12.50%", False),
        ("number", "-5", "5", False),
        ("date", "June 30, 2023", "2023-06-30", True),
        ("period", "fiscal year ended June 30, 2023", "fiscal 2023", True),
        ("boolean", "Yes", "true", True),
        ("choices", "low", "Low", True),
    ],
)
def test_values_are_compared_as_values(kind: str, said: str, gold: str, right: bool) -> None:
    assert agrees(kind, read_value(kind, said, choices=("low", "high")), gold) is right


def test_a_table_with_heads_of_its_own_has_no_period_of_the_table_above() -> None:
    above = "Branches\n\n|  | 2022 | 2023 |\n| Ashcombe | 120 | 131 |\n\n"
    rates = f"{above}Rates\n\n| Product | Rate | Note |\n| Mortgage | 3.75% | fixed |"
    assert read_value("percent", "3.75%", Context(rates)).period == ""
    continued = f"{above}| Belford |  |  |\n| Loans | 88.5 | 90.5 |"
    assert read_value("number", "88.5", Context(continued)).period == "2022"


def test_periods_of_several_names() -> None:
    assert same_period("Q3 2024", "three months ended September 30, 2024")
    assert same_period("FY2023", "2023")
    assert not same_period("Q3 2024", "Q2 2024")
    assert not same_period("FY2022", "year ended June 30, 2023")
