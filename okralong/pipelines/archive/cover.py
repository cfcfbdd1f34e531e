"""Read the cover of a report: its company, tickers, form and period.

Questions name a company and a year; the file may be called ``f10k.pdf``. The cover tells both, so it is read when a
document is indexed and stored with its metadata, where filters, listings and ``DocumentNames`` use it. A filing states
them in fixed words. The company of another report is the one with a legal form ("Kelly Partners Group Holdings
Limited") that its text names most often. Each fact is left out unless the text states it clearly.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from okralong.pipelines.archive.name_words import company_key
from okralong.pipelines.core.types import Fact
from okralong.pipelines.statements.periods import dates

COVER_CHARS: Final = 8_000
"""Characters at the beginning of a document that contain its cover. project default"""
TEXT_CHARS: Final = 200_000
"""Characters in which a company's name is counted. project default"""
_COVER_WITHIN: Final = 60_000
_ABOVE_NAME: Final = 2_500
"""A glossy annual report may have a filing's cover behind other pages: where the name of the registrant is
looked for, and the characters of the cover before it. project default"""
_TITLE_CHARS: Final = 1_500
"""Characters at the beginning that contain the title of a report without a form. project default"""
_TITLE_LINE: Final = 100
"""Most characters of a line that is a title. project default"""
_LEAST_NAMED: Final = 3
_CLEARLY: Final = 1.5
"""The company is the one that is named at least this often, and this many times as often as another one. project
default"""
_LONGEST_NAME: Final = 90
"""Most characters of a company's name. project default"""


@dataclass(frozen=True, slots=True)
class Cover:
    """What a cover states; an empty value is unknown.

    ``period_end`` is the last day of the period in ISO 8601, or the day of an event for a current report (8-K).
    ``quarter`` is 1 to 4 for a quarterly report, 0 for others.
    """

    company: str = ""
    tickers: tuple[str, ...] = ()
    form: str = ""
    period_end: str = ""
    fiscal_year: int = 0
    quarter: int = 0

    def metadata(self) -> dict[str, str]:
        """Return the known facts as columns of the documents' metadata."""
        columns = {
            "company": self.company,
            "ticker": " ".join(self.tickers),
            "form": self.form,
            "period_end": self.period_end,
            "fiscal_year": str(self.fiscal_year or ""),
            "fiscal_quarter": f"Q{self.quarter}" if self.quarter else "",
        }
        return {name: value for name, value in columns.items() if value}

    @classmethod
    def of_metadata(cls, columns: Mapping[str, str]) -> Cover:
        """Return the cover of which ``columns`` are the metadata; values of another kind are ignored."""
        year, quarter = columns.get("fiscal_year", ""), columns.get("fiscal_quarter", "").upper().removeprefix("Q")
        day = columns.get("period_end", "")
        return cls(
            columns.get("company", ""),
            tuple(columns.get("ticker", "").split()),
            columns.get("form", ""),
            day if _DAY.fullmatch(day) else "",
            int(year) if _YEAR.fullmatch(year) else 0,
            int(quarter) if quarter in ("1", "2", "3", "4") else 0,
        )


COVER_COLUMNS: Final = ("company", "ticker", "form", "period_end", "fiscal_year", "fiscal_quarter")
_DAY: Final = re.compile(r"(?:19|20)\d\d-\d\d-\d\d")
_YEAR: Final = re.compile(r"(?:19|20)\d\d")


def read_cover(text: str, title: str = "", facts: Iterable[Fact] = ()) -> Cover:
    """Return what the cover of a document states; ``title`` is from its file, ``facts`` are its XBRL tags."""
    named = _REGISTRANT.search(text, 0, _COVER_WITHIN)
    first = max(0, named.start() - _ABOVE_NAME) if named is not None else 0
    head = _GLUED.sub(r"\1 ", text[first : first + COVER_CHARS])
    tagged = _tagged(text, facts)
    form = _form(tagged.get("DocumentType", ""), head, title)
    company = tagged.get("EntityRegistrantName") or _registrant(head) or _most_named(text[:TEXT_CHARS], title)
    tickers = _tickers(head, tagged.get("TradingSymbol", ""))
    end = _period_end(tagged.get("DocumentPeriodEndDate", ""), head, form)
    if form in CURRENT:
        return Cover(company, tickers, form, end)
    quarter = _quarter(tagged.get("DocumentFiscalPeriodFocus", ""), text[:TEXT_CHARS], end, form)
    year = _fiscal_year(tagged.get("DocumentFiscalYearFocus", ""), text[:TEXT_CHARS], title, end, quarter, form)
    return Cover(company, tickers, form, end, year, quarter)


_TAGGED: Final = frozenset(
    {
        *("DocumentType", "EntityRegistrantName", "TradingSymbol", "DocumentPeriodEndDate"),
        *("DocumentFiscalPeriodFocus", "DocumentFiscalYearFocus"),
    }
)


def _tagged(text: str, facts: Iterable[Fact]) -> dict[str, str]:
    """Return the texts tagged with the concepts of a cover, the first of each."""
    found: dict[str, str] = {}
    for fact in facts:
        prefix, _, concept = fact.concept.partition(":")
        wanted = prefix == "dei" and concept in _TAGGED and concept not in found
        if wanted and fact.part == 0 and not fact.dimensions:
            end = min(fact.end_char, fact.start_char + _TITLE_CHARS)
            found[concept] = " ".join(text[fact.start_char : end].split())
    name = found.get("EntityRegistrantName", "")
    if not _is_name(name):
        found.pop("EntityRegistrantName", None)
    return found


# The form of a report.

_FORM: Final = re.compile(
    r"(?:^|commission\b.{0,40}?\s)[^\w\n]*form\s+(10-?KT?|10-?QT?|8-?K|20-?F|40-?F|6-?K)(?:/A)?[^\w\n]*$",
    re.IGNORECASE | re.MULTILINE,
)
_FORM_OF_TITLE: Final = re.compile(r"(?<![\w-])(10-K|10-Q|8-K|20-F|40-F|6-K)(?![\w-])", re.IGNORECASE)
_KIND: Final = re.compile(
    r"\b(?:(annual|interim|half[\s-]?yearly?|quarterly)\s+(?:financial\s+)?(?:report|accounts|results)"
    r"|(?:report\s+and\s+(accounts)))\b",
    re.IGNORECASE,
)
ANNUAL: Final = ("10-K", "20-F", "40-F", "annual report")
QUARTERLY: Final = ("10-Q", "quarterly report")
CURRENT: Final = ("8-K", "6-K")


def _form(tagged: str, head: str, title: str) -> str:
    for pattern, said in ((_FORM, f"form {tagged}"), (_FORM, head), (_FORM_OF_TITLE, title)):
        if (match := pattern.search(said)) is not None:
            form = match[1].upper().replace("-", "").rstrip("T")
            return f"{form[:-1]}-{form[-1]}"
    titles = f"{title}\n{head[:_TITLE_CHARS]}"
    kind = next((match for match in _KIND.finditer(titles) if _in_title_line(titles, match)), None)
    if kind is None:
        return ""
    word = (kind[1] or "annual").lower()
    return "half-year report" if word.startswith(("half", "interim")) else f"{word} report"


def _in_title_line(text: str, match: re.Match[str]) -> bool:
    """Return whether a match is in a line that is short enough for a title."""
    first = text.rfind("\n", 0, match.start()) + 1
    last = text.find("\n", match.end())
    return (last if last >= 0 else len(text)) - first <= _TITLE_LINE


# The company.

_REGISTRANT: Final = re.compile(
    r"(?:exact\s+|full\s+)?name\s+of\s+(?:the\s+)?(?:(?:small|business|registrant|issuer|company|corporation)\S*\s+){1,3}"
    r"(?:as\s+)?(?:in|specified|of\s+registrant)",
    re.IGNORECASE,
)
_NOT_NAMED: Final = re.compile(
    r"commission|file\s+n|transition|_{3}|-{3}|={3}|\bform\b|\bact\s+of\b|\b(?:19|20)\d\d\b|pursuant|mark\s+one",
    re.IGNORECASE,
)
_FORMS_OF_COMPANIES: Final = (
    r"(?:Inc(?:orporated)?|Corp(?:oration)?|Company|Co|Ltd|Limited|L\.?L\.?C|P\.?L\.?C|[Pp]lc|L\.?P|AG|S\.?A|SE|N\.?V|AB"
    r"|ASA|A/S|Oyj|GmbH|KGaA|S\.?p\.?A|Berhad|Bhd)"
)
_LEGAL_FORM: Final = re.compile(
    rf"[ \t\xa0](?:{_FORMS_OF_COMPANIES}|{_FORMS_OF_COMPANIES.upper()})(?![\w&'\u2019])"
    r"(?:[ \t](?i:ltd|limited|llc|plc)\b)?"
)
_BEFORE_FORM: Final = re.compile(
    r"(?<![\w&.'\u2019-])(?:(?:[A-Z\d][\w.'\u2019&/-]*|&),?[ \t\xa0]+(?:(?:of|and|the|de|for)[ \t\xa0]+)?){0,7}"
    r"(?:[A-Z\d][\w.'\u2019&/-]*|&),?$"
)
_NO_COMPANY_TEXT: Final = "company group companies parent trust fund issuer registrant"
_NO_COMPANY: Final = frozenset(_NO_COMPANY_TEXT.split())


def _registrant(head: str) -> str:
    """Return the name above "(Exact name of registrant as specified in its charter)", or ""."""
    found = _REGISTRANT.search(head)
    if found is None:
        return ""
    lines = [" ".join(line.split()) for line in head[: found.start()].rstrip("( \n\t\r\f\v\xa0").split("\n")]
    name = ""
    for line in [line.strip(" |*") for line in lines if line.strip(" |*")][:-4:-1]:
        if _NOT_NAMED.search(line) or not re.search(r"[^\W\d_]", line):
            break
        name = f"{line} {name}".strip()
        if not re.match(rf"(?:&|and\b|of\b|{_FORMS_OF_COMPANIES}\.?$|[a-z])", name, re.IGNORECASE):
            break
    return name if _is_name(name) else ""


def _is_name(name: str) -> bool:
    return (
        1 < len(name) <= _LONGEST_NAME
        and company_key(name) not in _NO_COMPANY
        and bool(re.search(r"[^\W_]", name))
        and len(name.split()) <= 12
    )


def _most_named(text: str, title: str) -> str:
    """Return the company with a legal form that the text names most often and its beginning names, or ""."""
    spellings: dict[str, Counter[str]] = {}
    begins: dict[str, int] = {}
    for form in _LEGAL_FORM.finditer(text):
        before = _BEFORE_FORM.search(text[max(0, form.start() - _LONGEST_NAME) : form.start()])
        name = " ".join(f"{before[0] if before else ''}{form[0]}".split())
        key = company_key(name)
        if before is None or len(key) < 2 or key in _NO_COMPANY or len(name) > _LONGEST_NAME:
            continue
        spellings.setdefault(key, Counter())[name] += 1
        begins.setdefault(key, form.start())
    counts = {key: same.total() for key, same in spellings.items()}
    for name in _lines_of_names(text):
        if (key := company_key(name)) in counts:
            short = re.sub(rf",?\s+{_FORMS_OF_COMPANIES}\.?$", "", name)
            counts[key] = max(counts[key], text.count(short) + (0 if short.isupper() else text.count(short.upper())))
            spellings[key][name] += 1
    early = {key: counts[key] for key, start in begins.items() if start < 2 * COVER_CHARS}
    titled = company_key(title)
    for key in sorted(early, key=lambda key: (-len(key), key)):
        if len(key) > 3 and key in titled:
            return spellings[key].most_common(1)[0][0]
    if not early:
        return ""
    best = max(early, key=lambda key: (early[key], -begins[key]))
    others = [count for key, count in counts.items() if key not in best and best not in key]
    if early[best] < _LEAST_NAMED or early[best] < _CLEARLY * max(others, default=0):
        return ""
    return spellings[best].most_common(1)[0][0]


def _lines_of_names(text: str) -> Iterator[str]:
    """Yield the lines of the title page; a line that continues the one before, as a name in the text does, with it."""
    before = ""
    for line in text[:_TITLE_CHARS].split("\n"):
        line = " ".join(line.split())
        if before and text.count(f"{before} {line}"):
            yield f"{before} {line}"
        elif line:
            yield line
        before = line or before


# The tickers.

_EXCHANGE: Final = (
    r"(?:The\s+)?(?:New\s+York\s+Stock|NYSE|Nasdaq|Chicago\s+Stock|Cboe|Toronto\s+Stock|London\s+Stock|OTC\w*|ASX|TSXV?"
    r"|LSE|AIM|Euronext|Australian\s+Securities\s+Exchange)"
)
_TICKER_ROW: Final = re.compile(rf"(?<![\w.$-])([A-Z]{{1,5}}(?:[.-][A-Z])?)[\"\u201d)|\s]+(?i:{_EXCHANGE})")
_TICKER_OF: Final = re.compile(
    r"\b(?:NYSE(?:\s+American)?|N(?:asdaq|ASDAQ)\w*|ASX|LSE|TSXV?|AIM|OTCQ[BX]|Euronext)\)?\s*(?:(?i:code|ticker|symbol))?"
    r"\s*:\s*([A-Z][A-Z\d]{1,4}(?:\.[A-Z])?)(?![\w])"
)
_NO_TICKER_TEXT: Final = "NONE THE N A NA SHARE STOCK PAR VALUE CLASS UNIT US USD INC ON OF NYSE ASX NEW WS"
_NO_TICKER: Final = frozenset(_NO_TICKER_TEXT.split())
_MOST_TICKERS: Final = 4


def _tickers(head: str, tagged: str) -> tuple[str, ...]:
    table = re.search(r"trading\s+symbol|ticker\s+symbol|symbol\(s\)", head, re.IGNORECASE)
    rows = _TICKER_ROW.findall(head[table.end() : table.end() + 1_500]) if table is not None else []
    found = [tagged, *rows, *_TICKER_OF.findall(head[: 2 * _TITLE_CHARS])[:1]]
    known = dict.fromkeys(
        ticker for ticker in found if ticker not in _NO_TICKER and re.fullmatch(r"[A-Z][\w.-]{0,6}", ticker)
    )
    return tuple(known)[:_MOST_TICKERS]


# The period.

_GLUED: Final = re.compile(r"\b(ended|ending)(?=[A-Z\d])")
_ENDED: Final = re.compile(
    r"\bfor\s+the\s+(?:\w+\s+)?(?:(?:fiscal|financial)\s+)?(?:years?|quarter(?:ly)?(?:\s+period)?|period|half[\s-]year|"
    r"(?:three|six|nine|twelve|\d\d)\s+(?:months|weeks))\s*(?:ended|ending)\s*:?",
    re.IGNORECASE,
)
_ENDED_OR_AT: Final = re.compile(
    r"\b(?:years?|quarter|period|half[\s-]year|months|weeks)\s+(?:ended|ending|to)\s|\breport\b[^\w\n]*\n?",
    re.IGNORECASE,
)
_EVENT: Final = re.compile(r"date\s+of\s+(?:earliest\s+event|report)", re.IGNORECASE)
_NEAR: Final = 40
"""Most characters between the words for a period and its day. project default"""


def _period_end(tagged: str, head: str, form: str) -> str:
    """Return the last day of the period, or the day of the event, in ISO 8601, or ""."""
    if tagged and (known := [day for _, day in dates(tagged) if _DAY.fullmatch(day)]):
        return known[0]
    days = [(span, day) for span, day in dates(head) if _DAY.fullmatch(day)]
    if form in CURRENT:
        told = _EVENT.search(head)
        near = [day for (start, end), day in days if told and abs(start - told.start()) < 160]
        return near[0] if near else ""
    if not form:
        return ""
    if form.endswith(("K", "Q", "F")):
        places = list(_ENDED.finditer(head))
    else:
        titles = head[: 2 * _TITLE_CHARS]
        places = [match for match in _ENDED_OR_AT.finditer(titles) if _in_title_line(titles, match)]
    for place in places:
        for (start, _), day in days:
            if 0 <= start - place.end() <= _NEAR:
                return day
    return ""


def _quarter(tagged: str, text: str, end: str, form: str) -> int:
    if (known := re.fullmatch(r"Q([1-4])", tagged.upper())) is not None:
        return int(known[1])
    if form not in QUARTERLY or not end:
        return 0
    lengths = {
        length for length in _LENGTHS if re.search(rf"\b{length}\s+(?:months|weeks)\s+ended", text, re.IGNORECASE)
    }
    return max((_LENGTHS[length] for length in lengths), default=0)


_LENGTHS: Final = {
    "three": 1,
    "six": 2,
    "nine": 3,
    "thirteen": 1,
    "twenty-six": 2,
    "thirty-nine": 3,
    "12": 1,
    "13": 1,
    "24": 2,
    "26": 2,
    "36": 3,
    "39": 3,
}
_FISCAL: Final = re.compile(r"\b(?:fiscal(?:\s+year)?|FY)\s?((?:19|20)\d\d)\b", re.IGNORECASE)
_TITLE_YEAR: Final = re.compile(
    r"\b(?:annual|financial|integrated)\s+(?:financial\s+)?(?:report|accounts|statements)[^\w\n]*\n?[^\w]*"
    r"(?:(?:for|of)\s+)?(?:fy\s?)?((?:19|20)\d\d)(?![\d/-])"
    r"|(?<![\d/-])((?:19|20)\d\d)\s+(?:\w+\s+)?annual\s+report\b",
    re.IGNORECASE,
)
EARLY_END: Final = 5
"""A fiscal year that ends in this month or before may be named after the year in which it began. project default"""


def _fiscal_year(tagged: str, text: str, title: str, end: str, quarter: int, form: str) -> int:
    """Return the fiscal year as the company counts, or 0."""
    if _YEAR.fullmatch(tagged):
        return int(tagged)
    if end:
        months = 12 * int(end[:4]) + int(end[5:7]) - 1 + (3 * (4 - quarter) if quarter else 0)
        year, month = divmod(months, 12)
        if form in QUARTERLY and not quarter:
            return 0
        if month + 1 > EARLY_END:
            return year
        named = Counter(int(match[1]) for match in _FISCAL.finditer(text))
        return year - 1 if named[year - 1] > 2 * named[year] else year
    found = _TITLE_YEAR.search(f"{title}\n{text[:_TITLE_CHARS]}")
    return int(found[1] or found[2]) if found is not None else 0
