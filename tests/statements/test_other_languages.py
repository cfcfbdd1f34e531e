"""Numbers, times and typed values as other languages than English write them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from okralong.pipelines.answering.answer_types import AnswerType, context_of, typed_value
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.stated import Stated
from okralong.pipelines.core.types import Citation, Passage
from okralong.pipelines.statements.amounts import amounts
from okralong.pipelines.statements.locale_amounts import amounts_in
from okralong.pipelines.statements.locale_periods import dates_in, periods_in, years_in_text
from okralong.pipelines.statements.values import Context, read_value


@pytest.mark.parametrize(
    ("language", "text", "value", "currency"),
    [
        ("de", "1.234,5 Mio. €", "1234500000", "EUR"),
        ("de", "EUR 1.234,5 Mio.", "1234500000", "EUR"),
        ("de", "TEUR 1.234", "1234000", "EUR"),
        ("de", "3,2 Mrd. US-Dollar", "3200000000", "USD"),
        ("de", "2 Billionen Euro", "2000000000000", "EUR"),
        ("de", "2 billion euros", "2000000000", "EUR"),
        ("fr", "1\u202f234,5 millions d'euros", "1234500000", "EUR"),
        ("fr", "12,3 Md€", "12300000000", "EUR"),
        ("fr", "45 k€", "45000", "EUR"),
        ("es", "2,5 mil millones de dólares", "2500000000", "USD"),
        ("es", "1.234 miles de euros", "1234000", "EUR"),
        ("zh", "营业收入为1,234.5亿元", "123450000000", "CNY"),
        ("zh", "\uff11\uff0c\uff12\uff13\uff14万元", "12340000", "CNY"),
        ("zh", "人民币12.3百万元", "12300000", "CNY"),
        ("zh", "美元1,200万", "12000000", "USD"),
        ("ja", "1兆2,345億円", "1234500000000", "JPY"),
        ("ja", "▲1,234百万円", "-1234000000", "JPY"),
        ("ja", "12億ドル", "1200000000", "USD"),
        ("nl", "1.234,5 euro", "1234.5", "EUR"),  # of CLDR alone
    ],
)
def test_amounts(language: str, text: str, value: str, currency: str) -> None:
    (found,) = amounts_in(text, language)
    assert (found.digits * found.factor, found.currency) == (Decimal(value), currency)
    assert text.endswith(text[found.start : found.end])


@pytest.mark.parametrize(
    ("text", "german", "english"), [("1.234", 1234, "1.234"), ("1,234", "1.234", 1234), ("1.5", "1.5", "1.5")]
)
def test_the_language_decides_what_two_readings_fit(text: str, german: str, english: str) -> None:
    assert amounts_in(text, "de")[0].digits == Decimal(german)
    assert amounts_in(text, "en")[0].digits == amounts(text)[0].digits == Decimal(english)


@pytest.mark.parametrize(
    ("language", "text", "value"),
    [
        ("de", "zum 31. Dezember 2023", "2023-12-31"),
        ("de", "im Dez. 2023", "2023-12"),
        ("fr", "le 1er janvier 2023", "2023-01-01"),
        ("fr", "04/03/2023", "2023-03-04"),
        ("es", "31 de diciembre de 2023", "2023-12-31"),
        ("zh", "2023年12月31日", "2023-12-31"),
        ("ja", "令和5年12月31日", "2023-12-31"),
    ],
)
def test_dates(language: str, text: str, value: str) -> None:
    assert [day for _, day in dates_in(text, language)] == [value]


@pytest.mark.parametrize(
    ("language", "text", "value"),
    [
        ("de", "Geschäftsjahr 2023/24", "FY2024"),
        ("de", "im Geschäftsjahr, das am 30. Juni 2023 endete", "year to 2023-06-30"),
        ("de", "drittes Quartal 2023", "Q3 2023"),
        ("de", "die ersten neun Monate 2023", "9 months of 2023"),
        ("fr", "exercice clos le 31 décembre 2023", "year to 2023-12-31"),
        ("fr", "troisième trimestre de l'exercice 2023", "Q3 FY2023"),
        ("fr", "S1 2023", "H1 2023"),
        ("es", "ejercicio 2023", "FY2023"),
        ("es", "3T 2023", "Q3 2023"),
        ("zh", "2023年度", "FY2023"),
        ("zh", "2023年第三季度", "Q3 2023"),
        ("zh", "2023年上半年", "H1 2023"),
        ("zh", "截至2023年12月31日止年度", "year to 2023-12-31"),
        ("zh", "2023年1-9月", "9 months to 2023-09-30"),
        ("ja", "2024年3月期", "year to 2024-03-31"),
        ("ja", "2024年3月期第3四半期", "Q3 FY2024"),
    ],
)
def test_periods(language: str, text: str, value: str) -> None:
    assert [each for _, each in periods_in(text, language)] == [value]


def test_years_of_eras_and_in_numerals() -> None:
    assert [year for _, year in years_in_text("令和5年、平成元年", "ja")] == ["2023", "1989"]
    assert [year for _, year in years_in_text("二\u3007二三年", "zh")] == ["2023"]


GERMAN = """Umsatz nach Segmenten (in Tausend Euro)
                          2023      2022
Messgeräte             123.456   110.000
Alle Segmente          234.567   200.000

Mitarbeiter nach Werken am Jahresende (Köpfe)
                          2023      2022
Aldermünde               1.234     1.100

Der Auftragsbestand betrug am Ende des Jahres 1.234,5 Mio. €; ein Jahr zuvor waren es noch 980,2 Mio. €.
"""


def test_a_typed_value_gets_scale_and_currency_of_its_german_table() -> None:
    passage = Passage("bericht", 0, len(GERMAN), GERMAN, 90, 1.0)
    values = {}
    for kind, said in (("money", "123.456"), ("number", "1.234"), ("money", "1.234,5 Mio. €")):
        at = GERMAN.index(said)
        cited = [Citation("bericht", at, at + len(said), said)]
        context = context_of("Wie hoch war der Umsatz 2023?", said, cited, [passage])
        assert context.language == "de"
        values[said] = typed_value(AnswerType.of(kind), [(said, "", context)])
    assert (values["123.456"].value, values["123.456"].currency) == ("123456000", "EUR")
    assert (values["1.234"].value, values["1.234"].scale) == ("1234", "")
    assert (values["1.234,5 Mio. €"].value, values["1.234,5 Mio. €"].scale) == ("1234500000", "million")


def test_an_amount_must_stand_in_a_chinese_passage() -> None:
    text = "二\u3007二三年年末未交付订单金额为123.4百万元，上年同期为98.7百万元。公司的总部设在海滨镇，员工共有三百人。"
    stated = Stated([Passage("z", 0, len(text), text, 30, 1.0)])
    stated.require("money", "123.4百万元", "订单金额是多少？", [], False, "zh")
    with pytest.raises(ValueError, match="stands in no passage"):
        stated.require("money", "555.5百万元", "订单金额是多少？", [], False, "zh")


@pytest.mark.parametrize(("language", "said"), [("de", "Ja, im Mai."), ("fr", "Oui"), ("es", "Sí."), ("ja", "はい")])
def test_yes_in_the_language_of_the_answer(language: str, said: str) -> None:
    assert read_value("boolean", said, Context(language=language)).value == "yes"


def test_a_formula_of_german_figures() -> None:
    assert calculate("=(1.234,5 - 1.100,0) / 1.100,0 * 100 %", "de") == "12,23%"
    assert calculate("=1.234 + 5.678 Tausend Euro", "de") == "6.912 Tausend Euro"


def test_a_choice_is_found_in_a_text_without_blanks() -> None:
    assert read_value("choices", "销售额上升了", choices=["上升", "下降"]).value == "上升"
    assert read_value("choices", "it rose", choices=["rose", "fell"]).value == "rose"


def test_what_a_number_counts() -> None:
    assert read_value("number", "4.711 Mitarbeiter im Werk", Context(language="de")).unit == "Mitarbeiter"
    assert read_value("number", "员工3,456人", Context(language="zh")).value == "3456"
