"""Read what a unit line says: "(in thousands of US dollars, except share data)", "T€", "Rs. in lakhs", "2023 £m".

Such words also stand in row labels, column heads, titles, page tops and notes on presentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from okralong.pipelines.statements.amounts import BEFORE, SIGNS


@dataclass(frozen=True, slots=True)
class Stated:
    """What a text states about units.

    Attributes:
        scales: The scales of money, each with the currency beside it ("" if none): ("thousand", "USD").
        currencies: The currencies in order; "dollar" and "yuan/yen" signs are their usual currencies.
        plain_dollar: The only sign or name of USD is "$" or "dollars", which may mean another dollar.
        in_full: A currency is named as the unit in words ("in euros"), or amounts "in full", and no scale.
        only_currency: The text is a currency, at most with a year: "RMB", "2023 US$", "$/#"; it says nothing of scales.
        shares: The scale of share counts: "" if they are excepted, None if nothing is said.
        of_money: The scale is tied to money ("EUR million"), not to all amounts ("in millions").
        ends_in_currency: The last word is a currency without a scale, as in the head "Salary US$".
        cents: Amounts per share are in hundredths of the currency.
        excepted: What follows "except", in lower case.
    """

    scales: tuple[tuple[str, str], ...] = ()
    currencies: tuple[str, ...] = ()
    plain_dollar: bool = False
    in_full: bool = False
    only_currency: bool = False
    shares: str | None = None
    of_money: bool = False
    ends_in_currency: bool = False
    cents: bool = False
    excepted: str = ""

    @property
    def scale(self) -> str:
        """The only scale of money, or "" if the text states no scale or several."""
        words = {scale for scale, _ in self.scales}
        return words.pop() if len(words) == 1 else ""

    def __bool__(self) -> bool:
        """Return whether anything is stated."""
        return self != _NOTHING


_NOTHING: Final = Stated()

_WORDS: Final = {
    "ten thousand": r"ten[\s-]thousands?|\u4e07(?=\u5143)",
    "hundred million": r"(?:hundred|100)[\s-]millions?|[\u5104\u4ebf](?=[\u5143\u5186\uc6d0])",
    "trillion": r"trillions?|billionen",
    "billion": r"billions?|milliarden|milliards?|miliardi|miljard(?:er|en)?|milliarder|bilh[o\u00f5]es"
    r"|mil(?:es\sde)?\smillones",
    "million": r"millions?|millionen|millones|milioni|milh[o\u00f5]es|miljoen(?:en)?|miljoner|millioner"
    r"|\u767e\u4e07|\u767e\u842c|mkr",
    "thousand": r"thousands?|tausend|milliers|migliaia|milhares|miles(?=\sde\b)|(?<=en\s)miles|duizend(?:en)?"
    r"|tusen(?:tal)?|tusinder?|tkr|[\u5343\ucc9c](?=[\u5143\u5186\uc6d0])",
    "crore": r"crores?",
    "lakh": r"lakhs?",
    "hundred": r"hundreds",
}
"""Words for each scale, longer ones before those that they contain."""
_ALL_WORDS: Final = "|".join(f"(?P<w{place}>{pattern})" for place, pattern in enumerate(_WORDS.values()))
_SHORT: Final = {
    **dict.fromkeys(("thous", "thsd", "ths", "tsd", "th", "k", "t"), "thousand"),
    **dict.fromkeys(("mio", "mln", "mill", "mil", "mn", "mm", "m"), "million"),
    **dict.fromkeys(("bln", "mrd", "mld", "mdr", "md", "bn", "b"), "billion"),
    **dict.fromkeys(("trn", "tn"), "trillion"),
    **dict.fromkeys(("lacs", "lac"), "lakh"),
    **dict.fromkeys(("crs", "cr"), "crore"),
}
"""Abbreviations, which count only beside a currency, after "in", or alone."""
_CODES: Final = (
    "USD EUR GBP JPY CHF CNY RMB CAD AUD NZD HKD SGD TWD NTD KRW INR IDR MYR THB PHP VND BRL MXN CLP COP ARS ZAR NGN"
    " KES EGP AED SAR QAR KWD BHD OMR ILS NIS RUB UAH PLN CZK HUF RON BGN SEK NOK DKK ISK KZT PKR BDT LKR TRY"
)
_OTHER_CODES: Final = {"RMB": "CNY", "NTD": "TWD", "NIS": "ILS"}
_NAMES: Final = {
    r"(?:U\.?\s?S\.?A?\.?|United\sStates|American)\s?dollars?|US-?Dollar": "USD",
    r"Canadian\sdollars?": "CAD",
    r"Australian\sdollars?": "AUD",
    r"New\sZealand\sdollars?": "NZD",
    r"(?:Hong\sKong|HK)\sdollars?": "HKD",
    r"Singapore\sdollars?": "SGD",
    r"(?:New\s)?Taiwan\sdollars?": "TWD",
    r"dollars?": "$",
    r"euros?": "EUR",
    r"(?:British\s)?pounds?(?:\ssterling)?|sterling": "GBP",
    r"(?:Japanese\s)?yen": "JPY",
    r"renminbi|(?:Chinese\s)?yuan": "CNY",
    r"Swiss\sfrancs?|Schweizer\sFranken|francs\ssuisses": "CHF",
    r"(?:Indian\s)?rupees?": "INR",
    r"(?:Korean\s)?won": "KRW",
    r"Swedish\skron(?:or|a)|kronor|tkr|mkr": "SEK",
    r"Norwegian\skron(?:er|e)|norske\skroner": "NOK",
    r"Danish\skron(?:er|e)|danske\skroner": "DKK",
    r"(?:Brazilian\s)?reais": "BRL",
    r"(?:South\sAfrican\s)?rand": "ZAR",
    r"(?:Russian\s)?rou?bles?": "RUB",
    r"(?:Polish\s)?z[\u0142l]ot(?:y|ys|ych)": "PLN",
    r"(?:Mexican\s)pesos?": "MXN",
    r"(?:Israeli\s)?(?:new\s)?shekels?": "ILS",
}
_ALL_NAMES: Final = "|".join(f"(?P<n{place}>{pattern})" for place, pattern in enumerate(_NAMES))
_CODE: Final = rf"(?:{'|'.join(_CODES.split())})"
_MONEY: Final = re.compile(
    rf"(?P<sign>(?<![A-Za-z])(?:[TtKkMm]|MM)?(?:{BEFORE})|[\u20ac\u00a3\u00a5\u20b9\u5186\u5143\uc6d0])"
    rf"|(?<![A-Za-z])(?:Th|[TtKkMm]|MM)?(?P<code>{_CODE})(?=(?:[kmb]|mn|bn)?(?![A-Za-z]))"
    rf"|(?<![A-Za-z])(?P<name>(?i:{_ALL_NAMES}))(?![A-Za-z])"
)
_MORE_SIGNS: Final = {"\u5186": "JPY", "\u5143": "CNY", "\uc6d0": "KRW"}
_CUR: Final = rf"(?:(?:{BEFORE})|{_CODE}|kr\b)"
_LONG: Final = "|".join(sorted((each for each in _SHORT if len(each) > 1), key=len, reverse=True))
_ALONE: Final = "|".join(each for each in _LONG.split("|") if each not in ("th", "mm", "md", "mil", "cr", "ths"))
_SCALE: Final = re.compile(
    rf"""
    (?<![A-Za-z\d])(?:(?<!\d[\s-])|(?<=\b20\d\d\s)|(?<=\b19\d\d\s))(?i:{_ALL_WORDS})(?![A-Za-z])
    | (?<![\d.,])['\u2018\u2019`\u00b4]?(?P<zeros>000)['\u2018\u2019`\u00b4]?s?(?!\d|[.,-]\d)
    | ['\u2018\u2019`\u00b4](?P<lakhs>00,000)s?(?!\d)
    | (?<![A-Za-z\d])(?<!\d[\s-])(?P<pre>(?i:{_LONG})|[TtKkMm])\.?\s?(?={_CUR}(?![a-z]{{2}}))
    | (?<![A-Za-z]){_CUR}['\u2018\u2019]?\s?(?:in\s)?(?P<post>(?i:{_LONG})|[kKmMbB])(?![A-Za-z\d'])
    | \b(?i:in|en|em)\s(?P<lone>(?i:{_LONG})|[mk])(?![A-Za-z'])
    | (?:^|\b(?:19|20)\d\d\s|(?<!\w)\()\s?(?P<only>(?i:{_ALONE}))\.?\s?(?=$|\))
    | (?<=[a-z]\s)\((?P<metres>m)\)$
    """,
    re.VERBOSE,
)
_WHOLE: Final = re.compile(
    r"\W*(?:in\s)?(?:[A-Z]{3}|\S)?\s?1[.,'\s]?(?P<zeros>000(?:[.,'\s]?000)?)\s?(?:[A-Z]{3}|\S)?\W*"
)
"""A unit line that is a number: "in 1,000 EUR"."""


@lru_cache(maxsize=8192)
def stated(text: str) -> Stated:
    """Return what a unit line, head, label or title states; falsy if nothing."""
    if not text or len(text) > _LONGEST:
        return _NOTHING
    text = _OTHERWISE.sub(" ", text).replace(", which", " which")
    parted = _EXCEPT.search(text)
    main, excepted = (text, "") if parted is None else (text[: parted.start()], text[parted.end() :].lower())
    money = _currencies(text)
    found = list(_scales(main))
    of_money = [each for each in found if not each.of_shares or each.of_all]
    scales = tuple(dict.fromkeys((each.word, each.currency) for each in of_money))
    shares: str | None = next((each.word for each in found if each.of_shares), None)
    if excepted:
        told = [each for each in _scales(excepted) if each.of_shares]
        if told:
            shares = told[0].word
        elif _SHARES.search(_PER_SHARE.sub(" ", excepted)):
            shares = ""
    cents = CENTS.search(text) is not None
    only = not found and not cents and len(money) == 1 and _is_currency(text, money)
    in_full = not (found or cents or only) and (_IN_FULL.search(text) is not None or _names_unit(text, money))
    codes = tuple(dict.fromkeys("USD" if code == "$" else code for _, _, code in money))
    plain = "USD" in codes and all(code != "USD" for _, _, code in money)
    tied = bool(of_money) and all(each.currency for each in of_money)
    last = not found and not only and bool(money) and not re.search(r"\w", text[money[-1][1] :])
    return Stated(scales, codes, plain, in_full, only, shares, tied, last, cents, excepted)


_LONGEST: Final = 2000  # project default
_OTHERWISE: Final = re.compile(
    r"(?:except|unless)\s(?:where|as|if|when)?\s*(?:otherwise\s)?(?:stated|noted|indicated|specified|shown|mentioned)"
    r"(?:\sotherwise)?|(?:sofern|soweit)\snicht\sanders\sangegeben|sauf\s(?:mention|indication)\scontraire",
    re.IGNORECASE,
)
_EXCEPT: Final = re.compile(
    r"\b(?:except(?:ing|ions?)?|other\sthan|excluding|unless|apart\sfrom|sauf|au\u00dfer|ausgenommen|excepto|salvo)\b",
    re.IGNORECASE,
)
_SHARES: Final = re.compile(r"\b(?:shares?|aktien|actions|acciones|units)\b(?!\s?(?:prices?|based))", re.IGNORECASE)
_PER_SHARE: Final = re.compile(
    r"\b(?:per|je|par|por)[\s-](?:\w+[\s-]){0,2}?(?:shares?|units?|aktie|action|acci\u00f3n)\b", re.IGNORECASE
)
CENTS: Final = re.compile(r"(?<!per )\bcents?\b|\u00a2|\bpence\b|\(\s?[cp]\s?\)|\bUSc\b|\bGBp\b|\bGBX\b|\bpaise\b")
"""Names of hundredths of a currency."""
_IN_FULL: Final = re.compile(
    r"\b(?:whole|actual|full|absolute|single)\s(?:\S+\s)?(?:dollars|euros?|pounds|amounts?|figures|units|rupees|yen)"
    r"|\bin\sfull\b|\bnot\sin\s(?:thousands|millions)\b|\bin\sunits\sof\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class _Scale:
    """A scale in a statement, with the currency beside it, and whether it applies to shares, or to money too."""

    word: str
    currency: str
    of_shares: bool
    of_all: bool


def _scales(text: str) -> Iterator[_Scale]:
    """Yield the scales of a statement. "shares in millions" and "thousands of shares" are of shares."""
    if (whole := _WHOLE.fullmatch(text)) is not None:
        yield _Scale("thousand" if len(whole["zeros"]) == 3 else "million", "", False, False)
        return
    before = 0
    for match in _SCALE.finditer(text):
        behind = _OF.match(text, match.end())
        end = behind.end() if behind is not None else match.end()
        lead = _BREAK.split(text[before : match.start()])[-1]
        near = lead + " " + (behind[0] if behind is not None else "")
        of_shares = _SHARES.search(_PER_SHARE.sub(" ", near)) is not None
        money = _currencies(near + " " + match[0]) or _currencies(_BREAK.split(text[match.end() :])[0][:20])
        of_all = bool(money) or _AMOUNTS.search(near) is not None
        codes = {"USD" if code == "$" else code for _, _, code in money}
        word = _word(match, text[before : end + 8])
        yield _Scale(word, codes.pop() if len(codes) == 1 else "", of_shares, of_all)
        before = end


_OF: Final = re.compile(
    r"\s(?:of|de|d['\u2019]|von|af|av)\s?[^\s,;()]+(?:\s(?!and|und|et\b)[^\s,;()]+){0,2}", re.IGNORECASE
)
_BREAK: Final = re.compile(r"[;,()|]")
_AMOUNTS: Final = re.compile(r"\b(?:amounts?|figures|dollars|data|values?)\b", re.IGNORECASE)


def _word(match: re.Match[str], near: str) -> str:
    """Return the scale that a match of ``_SCALE`` names; "unknown" if the abbreviation means several."""
    if match["zeros"]:
        return "thousand"
    if match["lakhs"]:
        return "lakh"
    for place, word in enumerate(_WORDS):
        if match[f"w{place}"]:
            return word
    short = match["pre"] or match["post"] or match["lone"] or match["only"] or match["metres"]
    if match["pre"] == "M" and re.match(r"(?:US|U\.S\.|Ch)?\s?\$", match.string[match.end() :]):
        return "unknown"  # "MUS$" is thousands in Chile, and millions elsewhere
    if short.lower() == "mil" and not re.search(r"US\$|USD|\$\s?mil|GBP|\u00a3", near.replace("R$", "")):
        return "thousand" if "R$" in near or "reais" in near else "unknown"
    return _SHORT[short.lower()]


def _currencies(text: str) -> list[tuple[int, int, str]]:
    """Return the spans and codes of the currencies in a text; "$" is the code of a dollar without its country."""
    found = []
    for match in _MONEY.finditer(text):
        if match["sign"]:
            sign = match["sign"]
            sign = sign if sign in SIGNS or sign in _MORE_SIGNS else sign.lstrip("TtKkMm")
            code = "$" if sign == "$" else _MORE_SIGNS.get(sign, SIGNS.get(sign, ""))
        elif match["code"]:
            code = _OTHER_CODES.get(match["code"], match["code"])
        else:
            code = next(code for place, code in enumerate(_NAMES.values()) if match[f"n{place}"])
        if code:
            found.append((*match.span(), code))
    return found


def _is_currency(text: str, money: Sequence[tuple[int, int, str]]) -> bool:
    """Return whether a text is no more than a currency: "RMB", "(US$)", "2023 $", "$/#"."""
    ((start, end, _),) = money
    return re.sub(r"(?:19|20)\d\d|\W", "", text[:start] + " " + text[end:]) == ""


def _names_unit(text: str, money: Sequence[tuple[int, int, str]]) -> bool:
    """Return whether a currency is named as the unit: "(US$)", "in euros", "2023 RMB"."""
    for start, end, _ in money:
        before, after = text[:start].rstrip(), text[end:].strip()
        if _DENOMINATED.search(before):
            continue
        if re.search(r"\b(?:in|en)$", before, re.IGNORECASE) and (not after or after[0] in ");,.]"):
            return True
        if before.endswith(("(", "[", ",", ":")) and (not after or after[0] in ")],;"):
            return True
    return False


_DENOMINATED: Final = re.compile(r"(?:denominated|payable|settled|debt|loans?|notes|bonds)\s(?:in|en)$", re.IGNORECASE)


def currencies_in(text: str) -> set[str]:
    """Return the codes of all currencies that a text names; "$" and "dollars" alone name none."""
    return {code for _, _, code in _currencies(text)} - {"$"}


def stated_in(text: str) -> list[Stated]:
    """Return what the unit lines in running text state, in order: words in brackets, and lines that end with a unit."""
    found = []
    for line in text.split("\n"):
        inside = [
            told
            for match in _BRACKETS.finditer(line)
            if not _WHOLE.fullmatch(match[0])
            and ((told := stated(match[0])).scales or told.in_full or told.only_currency)
        ]
        found += inside or ([stated(line)] if _is_unit_line(line.strip()) else [])
    return found


_BRACKETS: Final = re.compile(r"\([^()]{1,200}\)")


def _is_unit_line(line: str) -> bool:
    """Return whether a line of running text is a unit line, or ends with one: "Balance sheet in EUR million"."""
    if not line or len(line) > _UNIT_LINE or _WHOLE.fullmatch(line) or (_VERB.search(line) and not _ALL.match(line)):
        return False
    line = _OTHERWISE.sub(" ", line)
    parted = _EXCEPT.search(line)
    main = line if parted is None else line[: parted.start()]
    scales, money = [match.end() for match in _SCALE.finditer(main)], [end for _, end, _ in _currencies(main)]
    if not scales and not (money and (_ALL.match(main) or len(main.split()) <= _WORDS_OF_CURRENCY)):
        return False
    end = max(scales + money)
    return re.search(r"[^\W\d_]", _FILLER.sub("", main[end:])) is None


_UNIT_LINE: Final = 120
"""Longest line of running text that may be a unit line. project default"""
_WORDS_OF_CURRENCY: Final = 3
"""Words of a line that only names a currency. project default"""
_VERB: Final = re.compile(
    r"\b(?:was|were|is|are|has|had|have|increased|decreased|rose|fell|we|our|worth)\b|\d[.,]\d", re.IGNORECASE
)
_ALL: Final = re.compile(
    r"\W*(?:all|amounts?|figures|tables?|expressed|stated|values|in|unless|unaudited)\b", re.IGNORECASE
)
_FILLER: Final = re.compile(
    r"\b(?:unaudited|audited|restated|and|notes?|december|june|march|september|fy)\b", re.IGNORECASE
)
