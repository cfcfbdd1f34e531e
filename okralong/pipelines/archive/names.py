"""Find the documents that a query means: by their company first, then by period and form, else by words of their names.

Chunks rarely name their company or year, so a search over a whole archive finds the same table row in every filing. The
names of documents tell the filings apart: the id, title, file name and metadata, and the company, tickers, form and
period on the cover (``archive.cover``).

Names are compared without blanks, case, accents, punctuation and legal forms, so that "Activision Blizzard, Inc." is
ACTIVISIONBLIZZARD. A query means a company if it has the whole name, the first words of the name ("Wheeler" for Wheeler
Real Estate Investment Trust), a ticker or the initials; a different word right beside a shortened name ("General
Dynamics" for General Mills) means another company. Years, quarters and forms only decide among the documents of a
company, or if all documents are of one company.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from bm25s.stopwords import STOPWORDS_EN

from okralong.pipelines.archive.cover import ANNUAL, COVER_COLUMNS, CURRENT, EARLY_END, QUARTERLY, Cover
from okralong.pipelines.archive.metadata import DocumentFacts
from okralong.pipelines.archive.name_words import (
    CONNECTORS,
    LEGAL_FORMS,
    PIECE,
    UNSPACED,
    company_key,
    name_words,
    pieces_of,
    plain,
    undotted,
    unspaced_names,
    with_umlauts_spelled,
)
from okralong.pipelines.archive.terms import analyze_query
from okralong.pipelines.statements.periods import dates

LONGEST_VALUE: Final = 80
"""Most characters of a metadata value that can be part of a name; longer ones are descriptions. project default"""


# Words of names.

_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=(?:19|20)\d\d)|(?<=(?:19|20)\d\d)(?=[A-Z])")
_REPORT_WORDS: Final = frozenset(
    [
        "annual",
        "report",
        "reports",
        "quarterly",
        "interim",
        "half",
        "year",
        "form",
        "filing",
        "filings",
        "financial",
        "statement",
        "statements",
        "results",
        "document",
        "final",
        "pdf",
        "htm",
        "html",
        "txt",
        "docx",
        "doc",
        "earnings",
        "release",
        "dated",
        "fy",
        "fiscal",
        "first",
        "second",
        "third",
        "fourth",
        "quarter",
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
        "accounts",
    ]
)
"""Words of titles and file names that say what a document is, not whose."""
_PERIODS: Final = re.compile(
    r"[\s_.,()\d-]+|公司|集团|会社|企业|年度?|财务|財務|报告|報告書?|季度|半年|有価証券|決算短信|사업보고서"
)
"""Numbers and kinds of reports in Chinese, Japanese and Korean names of files."""
_PERIOD_PIECE: Final = re.compile(
    r"(?:fy|q[1-4]|h[12]|[1-4]q)?(?:19|20)\d\d(?:q[1-4]|h[12]|fy)?|(?:19|20)\d{6}|fy\d\d|q[1-4]|h[12]|[1-4]q"
    r"|f?10[kq]|8k|20f|40f|6k|\d{1,2}|[kqf]|0*\d{6,}|[\da-f]{24,}"
)


def _words_of_file(name: str) -> tuple[str, ...]:
    """Return the words of a file name or title that can name a company: no periods, forms and numbers."""
    words = [word for word in name_words(_CAMEL.sub(" ", name)) if word not in _REPORT_WORDS]
    return tuple(word for word in words if not _PERIOD_PIECE.fullmatch(word))


# Times of documents, and times that a query asks for.

_YEAR: Final = re.compile(r"(?<![\d.,$])(?:19|20)\d\d(?![\d]|[.,]\d)")
_SHORT_YEAR: Final = re.compile(r"\b(?:FY|fiscal(?:\syear)?)[\s'\u2019-]{0,2}(\d\d)(?!\d)", re.IGNORECASE)
_ORDINALS: Final = ("first", "second", "third", "fourth")
_QUARTER: Final = re.compile(
    rf"(?<![a-z])Q([1-4])(?!\d)|(?<!\d)([1-4])Q(?![a-z])|\b({'|'.join(_ORDINALS)})[\s-]+(?:fiscal\s+)?quarter\b",
    re.IGNORECASE,
)
_FORMS: Final = {
    "annual": re.compile(r"(?<![a-z\d])(?:10-?K|20-?F|40-?F)(?![a-z])|\bannual\s*report", re.IGNORECASE),
    "quarterly": re.compile(r"(?<![a-z\d])10-?Q(?![a-z])|\bquarterly\s*report", re.IGNORECASE),
    "current": re.compile(r"(?<![a-z\d])(?:8-?K|6-?K)(?![a-z])|\bcurrent\s*report", re.IGNORECASE),
}
_DAY: Final = re.compile(r"(?<!\d)((?:19|20)\d\d)-?(0[1-9]|1[0-2])-?([0-3]\d)(?!\d)")


@dataclass(frozen=True, slots=True)
class Times:
    """The years, quarters, kinds of reports and days that a text names."""

    years: frozenset[int] = frozenset()
    quarters: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    days: frozenset[str] = frozenset()

    @classmethod
    def in_text(cls, text: str) -> Times:
        """Return the times that a query, file name or title names."""
        days = {"-".join(match.groups()) for match in _DAY.finditer(text)}
        days |= {day for _, day in dates(text)}
        years = {int(match[0]) for match in _YEAR.finditer(text)} | {int(day[:4]) for day in days}
        years |= {2000 + int(match[1]) for match in _SHORT_YEAR.finditer(text)}
        quarters = {
            int(match[1] or match[2] or _ORDINALS.index(match[3].lower()) + 1) for match in _QUARTER.finditer(text)
        }
        kinds = {kind for kind, pattern in _FORMS.items() if pattern.search(text)}
        return cls(frozenset(years), frozenset(quarters), frozenset(kinds), frozenset(days))

    def __bool__(self) -> bool:
        return bool(self.years or self.quarters or self.kinds or self.days)


# How well a document's time fits the time that is asked for. project defaults
_LATEST, _AMONG, _YEAR_BEFORE, _OTHER_LABEL, _UNKNOWN = 1.0, 0.8, 0.5, 0.9, 0.4
_OTHER_QUARTER, _WHOLE_YEAR, _PART_OF_YEAR, _CURRENT_REPORT, _OTHER_KIND = 0.2, 0.6, 0.6, 0.5, 0.4


def time_fit(document: Times, period_end: str, asked: Times) -> float:
    """Return from 0 to 1 how well a document's time fits ``asked``; 1 if nothing is asked.

    A report of the last of the years asked for fits best; the report of the year after still shows the year.
    """
    fit = 1.0
    if asked.years:
        last = max(asked.years)
        if last in document.years:
            fit = _LATEST
        elif period_end[:4] == str(last):
            fit = _OTHER_LABEL
        elif document.years & asked.years:
            fit = _AMONG
        elif last + 1 in document.years:
            fit = _YEAR_BEFORE
        else:
            fit = 0.0 if document.years else _UNKNOWN
    if asked.quarters:
        if document.quarters:
            fit *= 1.0 if document.quarters & asked.quarters else _OTHER_QUARTER
        else:
            fit *= _WHOLE_YEAR
    elif asked.years and document.quarters and not asked.kinds & {"quarterly"}:
        fit *= _PART_OF_YEAR if document.quarters != {4} else _OTHER_LABEL
    if asked.kinds:
        if document.kinds:
            fit *= 1.0 if document.kinds & asked.kinds else _OTHER_KIND
    elif asked.years and document.kinds == {"current"}:
        fit *= _CURRENT_REPORT
    full = {day for day in asked.days if len(day) == len("2024-01-31")}
    if full & (document.days | ({period_end} if period_end else set())):
        fit = max(fit, _LATEST)
    elif full and "current" in document.kinds and asked.kinds & {"current"}:
        fit *= _OTHER_KIND
    return fit


# What a document is called.


@dataclass(frozen=True, slots=True)
class Called:
    """What tells a document apart: names of its company, its file, other names, its tickers and its time."""

    companies: tuple[str, ...] = ()
    file: str = ""
    others: tuple[str, ...] = ()
    tickers: tuple[str, ...] = ()
    times: Times = Times()
    period_end: str = ""


# How surely a query means a company. project defaults
_WHOLE_NAME, _WITHIN_LONGER, _TICKER, _SPELLED_TICKER, _FIRST_WORDS, _BEGINNING, _INITIALS = (
    1.0,
    0.8,
    0.9,
    0.85,
    0.85,
    0.8,
    0.8,
)
_MOST_WORDS: Final = 10
"""The most words of a query that are compared with one name. project default"""
_LEAST_BEGINNING: Final = 4
"""Fewest letters of a joined name ("ACTIVISIONBLIZZARD") that mean it. project default"""
_NOT_TICKERS: Final = frozenset(
    [
        "US",
        "USA",
        "UK",
        "EU",
        "USD",
        "EUR",
        "GBP",
        "AUD",
        "CEO",
        "CFO",
        "COO",
        "CTO",
        "EPS",
        "ROA",
        "ROE",
        "ROI",
        "ROIC",
        "ESG",
        "GAAP",
        "IFRS",
        "EBIT",
        "EBITDA",
        "SEC",
        "IT",
        "HR",
        "AI",
        "FY",
        "CAPEX",
        "COGS",
        "DPO",
        "DSO",
        "DIO",
        "PPE",
        "SGA",
        "OCF",
        "FCF",
        "NA",
        "TTM",
        "YOY",
        "QOQ",
        "CAGR",
        "IPO",
        "RD",
        "MD",
        "PE",
        "PC",
        "TV",
    ]
)
"""Abbreviations of questions that are no tickers or initials of a company. project default"""


@dataclass(slots=True)
class _Piece:
    """A word of a query: plain and as written, whether it can be a name, and whether the previous one is adjacent."""

    plain: str
    written: str
    named: bool
    adjacent: bool


@dataclass(slots=True)
class _Matches:
    """The companies that each stretch of a query's words means, with their scores."""

    found: dict[tuple[int, int], dict[int, float]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, span: tuple[int, int], companies: Iterable[int], score: float) -> None:
        for company in companies:
            self.found[span][company] = max(score, self.found[span].get(company, 0.0))

    def apart(self) -> list[dict[int, float]]:
        """Return the matches of stretches that do not overlap, the surest and longest first."""
        ranked = sorted(self.found.items(), key=lambda item: (-max(item[1].values()), item[0][0] - item[0][1], item[0]))
        taken: set[int] = set()
        kept = []
        for (first, last), companies in ranked:
            if taken.isdisjoint(range(first, last)):
                taken.update(range(first, last))
                most = max(companies.values())
                kept.append({company: score for company, score in companies.items() if score == most})
        return kept


class DocumentNames:
    """An index of what documents are called."""

    def __init__(self, names: Mapping[str, str | Called]) -> None:
        called = {
            doc_id: name if isinstance(name, Called) else Called(file=name, times=Times.in_text(name))
            for doc_id, name in names.items()
        }
        self._called = called
        self._documents: list[list[str]] = []
        """The documents of each company."""
        self._keys: dict[str, set[int]] = defaultdict(set)
        self._beginnings: dict[str, set[int]] = defaultdict(set)
        self._words: list[set[str]] = []
        self._tickers: dict[str, set[int]] = defaultdict(set)
        self._initials: dict[str, set[int]] = defaultdict(set)
        self._unspaced: dict[str, set[int]] = defaultdict(set)
        """The companies of each name in a script without blanks, which is a part of a longer run in a query."""
        self._holding: dict[str, set[str]] = defaultdict(set)
        """The documents with each stemmed word in a name that is not their company's."""
        for number, doc_ids in enumerate(_companies(called)):
            self._documents.append(doc_ids)
            self._words.append(set())
            for name in {name for doc_id in doc_ids for name in _names(called[doc_id])}:
                self._add(number, name)
            for unspaced in {name for doc_id in doc_ids for name in _unspaced(called[doc_id])}:
                self._unspaced[unspaced].add(number)
            for ticker in {ticker for doc_id in doc_ids for ticker in called[doc_id].tickers}:
                self._tickers[ticker].add(number)
            for doc_id in doc_ids:
                for term in _terms(called[doc_id], self._words[number] if called[doc_id].companies else set()):
                    self._holding[term].add(doc_id)
        self._sorted = sorted(self._keys)

    def _add(self, company: int, words: tuple[str, ...]) -> None:
        self._keys["".join(words)].add(company)
        self._words[company].update(words)
        for count in range(1, len(words)):
            self._beginnings["".join(words[:count])].add(company)
        if len(words) > 2:
            self._initials["".join(word[0] for word in words)].add(company)

    @classmethod
    def of(cls, facts: Iterable[DocumentFacts]) -> DocumentNames:
        """Index the names in the documents' metadata."""
        return cls({each.doc_id: called(each) for each in facts})

    def named(self, query: str, doc_ids: Sequence[str] = ()) -> dict[str, float]:
        """Return the documents of the scope (default: all) that the query means, weighted 0 to 1.

        The documents of a company that the query names have its score, from 0.8 for the beginning of a name to 1 for
        a whole name, times how well their time fits. If no document's company is named, these are the documents whose
        other names share words with the query, by rarity. The result is empty if the query names all documents alike.
        """
        scope = frozenset(doc_ids) if doc_ids else self._called.keys()
        if len(scope) < 2:
            return {}
        asked = Times.in_text(query)
        found: dict[str, float] = {}
        for companies in self._meant(query, scope).apart():
            there = {doc_id: score for number, score in companies.items() for doc_id in self._documents[number]}
            for doc_id, share in self._by_time(
                {each: score for each, score in there.items() if each in scope}, asked
            ).items():
                found[doc_id] = max(share, found.get(doc_id, 0.0))
        if not found:
            found = self._by_words(query, scope) or (
                self._by_time(dict.fromkeys(scope, 1.0), asked) if self._alike(scope) else {}
            )
        return {} if len(found) == len(scope) and len(set(found.values())) == 1 else found

    def _by_time(self, shares: Mapping[str, float], asked: Times) -> dict[str, float]:
        """Multiply shares by how well each document's time fits, relative to the best; 0.4 if it does not."""
        fits = {
            doc_id: time_fit(self._called[doc_id].times, self._called[doc_id].period_end, asked) for doc_id in shares
        }
        best = max(fits.values(), default=0.0) or 1.0
        return {doc_id: share * (_NO_FIT + (1 - _NO_FIT) * fits[doc_id] / best) for doc_id, share in shares.items()}

    def _alike(self, scope: Iterable[str]) -> bool:
        """Return whether all documents of the scope are of one known company."""
        here = set(scope)
        return any(here.issubset(doc_ids) for doc_ids in self._documents if len(doc_ids) >= len(here))

    def _meant(self, query: str, scope: Iterable[str]) -> _Matches:
        pieces = _query_pieces(query)
        matches = _Matches()
        for first, piece in enumerate(pieces):
            if piece.plain in CONNECTORS:
                continue
            self._by_letters(pieces, first, matches)
            key = ""
            for last in range(first, min(first + _MOST_WORDS, len(pieces))):
                if pieces[last].plain in CONNECTORS:
                    continue
                key += pieces[last].plain
                self._by_name(pieces, (first, last + 1), key, matches)
        self._within_runs(query, len(pieces), matches)
        for span, companies in list(matches.found.items()):
            for company in [each for each in companies if set(self._documents[each]).isdisjoint(scope)]:
                del companies[company]
            if not companies:
                del matches.found[span]
        return matches

    def _within_runs(self, query: str, after: int, matches: _Matches) -> None:
        """Add the companies with a name in a script without blanks that is part of the query; the longest names win."""
        if not self._unspaced or not UNSPACED.search(query):
            return
        run = plain("".join(PIECE.findall(query)))
        there = [name for name in self._unspaced if name in run]
        for number, name in enumerate(there):
            if not any(name != other and name in other for other in there):
                # Each name has a span of its own, after the query's words.
                matches.add((after + number, after + number + 1), self._unspaced[name], _WHOLE_NAME)

    def _by_name(self, pieces: Sequence[_Piece], span: tuple[int, int], key: str, matches: _Matches) -> None:
        """Add the companies whose whole name or beginning of the name is ``key``, the joined words of the span."""
        first, last = span
        words = [piece for piece in pieces[first:last] if piece.plain not in CONNECTORS]
        if not (words[0].named or len(words) > 1) or all(piece.plain in _STOP_WORDS for piece in words):
            return
        if key in self._keys:
            for company in self._keys[key]:
                alone = not self._goes_on(pieces, span, company)
                matches.add(span, [company], _WHOLE_NAME if alone else _WITHIN_LONGER)
        sure = all(piece.named and not piece.written[0].islower() for piece in words)
        if not sure or (len(words) == 1 and first == 0) or pieces[first].plain in _STOP_WORDS:
            return
        for companies, score in ((self._beginnings.get(key, set()), _FIRST_WORDS), (self._joined(key), _BEGINNING)):
            likely = [company for company in companies if not self._goes_on(pieces, span, company)]
            if 0 < len(companies) <= _MOST_ALIKE:
                matches.add(span, likely, score)

    def _joined(self, key: str) -> set[int]:
        """Return the companies of which a name without blanks begins with ``key``."""
        if len(key) < _LEAST_BEGINNING:
            return set()
        found: set[int] = set()
        for at in range(bisect_left(self._sorted, key), len(self._sorted)):
            if not self._sorted[at].startswith(key) or len(found) > _MOST_ALIKE:
                break
            found |= {company for company in self._keys[self._sorted[at]] if self._sorted[at] in self._words[company]}
        return found

    def _goes_on(self, pieces: Sequence[_Piece], span: tuple[int, int], company: int) -> bool:
        """Return whether the name in the query goes on with a word that the company's names lack."""
        first, last = span
        beside = [pieces[last]] if last < len(pieces) and pieces[last].adjacent else []
        beside += [pieces[first - 1]] if first > 1 and pieces[first].adjacent else []
        return any(
            piece.named and piece.plain not in self._words[company] and not _says_no_name(piece.plain)
            for piece in beside
        )

    def _by_letters(self, pieces: Sequence[_Piece], at: int, matches: _Matches) -> None:
        """Add the companies whose ticker, or unambiguous initials, the word is."""
        written = pieces[at].written
        upper = written.upper()
        capitals = sum(char.isupper() for char in written)
        if len(written) < 2 or capitals < 2 or not pieces[at].named or upper in _NOT_TICKERS:
            return
        if upper in self._tickers:
            matches.add((at, at + 1), self._tickers[upper], _TICKER if written == upper else _SPELLED_TICKER)
        initials = self._initials.get(pieces[at].plain, set())
        if len(written) > 2 and written == upper and len(initials) == 1:
            matches.add((at, at + 1), initials, _INITIALS)

    def _by_words(self, query: str, scope: Iterable[str]) -> dict[str, float]:
        """Return the documents that share words of their other names with the query, by the rarity of the words.

        The weight of a word is ln(documents / documents with the word), scaled to 1 for a word that only one document
        has; a document's weight is the sum over its words, divided by the largest sum if that exceeds 1.
        """
        here_all = set(scope)
        size = len(here_all)
        found: dict[str, float] = {}
        for term in set(_stems(" ".join(_words_of_query(query)))):
            here = self._holding.get(term, set()) & here_all
            if here and len(here) < size:
                for doc_id in here:
                    found[doc_id] = found.get(doc_id, 0.0) + math.log(size / len(here)) / math.log(size)
        most = max(found.values(), default=0.0)
        return {doc_id: share / max(1.0, most) for doc_id, share in found.items()}


_QUESTION_WORDS: Final = (
    "what which who whose when where why how did does do is are was were has have had according list name give return "
    "compare between please based"
)
_STOP_WORDS: Final = frozenset(STOPWORDS_EN) | frozenset(_QUESTION_WORDS.split())
_NO_FIT: Final = 0.4
"""Share of a document of the company whose time does not fit. project default"""
_MOST_ALIKE: Final = 3
"""Most companies whose names begin alike; a beginning that more of them share means none. project default"""
_COMPANY_COLUMNS_TEXT: Final = "company entity issuer registrant organization organisation"
_COMPANY_COLUMNS: Final = frozenset(_COMPANY_COLUMNS_TEXT.split())
_TIME_COLUMNS_TEXT: Final = "year fiscal_year period quarter fiscal_quarter form type"
_TIME_COLUMNS: Final = frozenset(_TIME_COLUMNS_TEXT.split())
_BRIEF: Final = 20
"""Most characters of a metadata value that names a time."""


def called(facts: DocumentFacts) -> Called:
    """Return what a document is called in its metadata and on its cover."""
    values = {
        key.lower(): value for known in (facts.cover or {}, facts.own, facts.given) for key, value in known.items()
    }
    cover = Cover.of_metadata(values)
    short = {key: value for key, value in values.items() if len(value) <= LONGEST_VALUE}
    companies = [value for key, value in short.items() if key in _COMPANY_COLUMNS and name_words(value)]
    title = values.get("title", facts.title)
    others = [value for key, value in short.items() if key not in _COMPANY_COLUMNS.union(COVER_COLUMNS, {"title"})]
    others = [title, *others] if len(title) <= 2 * LONGEST_VALUE else others
    file = (
        facts.doc_id
        if not facts.source_name or facts.source_name == facts.doc_id
        else f"{facts.doc_id} {facts.source_name}"
    )
    told = [value for key, value in short.items() if key in _TIME_COLUMNS and len(value) <= _BRIEF]
    times = _times_of(Times.in_text(_CAMEL.sub(" ", " ".join([file, *told])).replace("_", " ")), cover)
    return Called(
        tuple(dict.fromkeys(companies)),
        file,
        tuple(dict.fromkeys(filter(None, others))),
        cover.tickers,
        times,
        cover.period_end,
    )


def _times_of(file: Times, cover: Cover) -> Times:
    """Join the times in a file's name and on its cover.

    The cover's fiscal year replaces the years in the name, which may be that of the filing. A fiscal year that ends
    early in a calendar year may be named after either year, so there the name decides.
    """
    kind = {
        form: kind
        for kind, forms in (("annual", ANNUAL), ("quarterly", QUARTERLY), ("current", CURRENT))
        for form in forms
    }
    kinds = frozenset({kind[cover.form]}) if cover.form in kind else file.kinds
    years, year = file.years, cover.fiscal_year
    if year:
        ends_early = cover.period_end and not cover.quarter and int(cover.period_end[5:7]) <= EARLY_END
        near = years & ({year, year + 1, year - 1} if ends_early else {year})
        years = near or frozenset({year})
    elif cover.period_end:
        years = years | {int(cover.period_end[:4])}
    return Times(years, frozenset({cover.quarter}) if cover.quarter else file.quarters, kinds, file.days)


def _names(called: Called) -> list[tuple[str, ...]]:
    """Return the words of each name of a document that can name its company."""
    found = [name_words(name) for name in called.companies]
    found += [tuple(pieces_of(name)) for name in called.companies]  # "Pepsi Co" is PEPSICO
    names = [each for part in called.file.split() for each in _file_names(part)] if called.file else []
    names += [_words_of_file(other) for other in called.others] if not called.companies else []
    found += [name_words(spelled) for name in called.companies if (spelled := with_umlauts_spelled(name)) != name]
    return [words for words in dict.fromkeys([*found, *names]) if len("".join(words)) > 1]


def _unspaced(called: Called) -> set[str]:
    """Return the names of a document's company in scripts without blanks, else words of its file and titles."""
    if called.companies:
        return {short for name in called.companies for short in unspaced_names(name)}
    words = (word for name in (called.file.rpartition("/")[2], *called.others) for word in _PERIODS.split(name))
    return {short for word in words for short in unspaced_names(word)}


def _file_names(path: str) -> list[tuple[str, ...]]:
    return [_words_of_file(re.sub(r"\.[a-z]{2,5}$", "", path.rpartition("/")[2]))]


def _companies(called: Mapping[str, Called]) -> list[list[str]]:
    """Return the documents by company: of one name on the cover, or with one name in the file's name."""
    groups: dict[str, list[str]] = defaultdict(list)
    of_file: dict[str, set[str]] = defaultdict(set)
    keys = {}
    for doc_id, names in called.items():
        company = next((company_key(name) for name in names.companies), "")
        file = "".join(next(iter(_file_names(names.file)), ()))
        keys[doc_id] = company, file
        if company and file:
            of_file[file].add(company)
    for doc_id, (company, file) in keys.items():
        if not company and len(of_file[file]) == 1:
            company = next(iter(of_file[file]))
        groups[f"company {company}" if company else f"file {file or doc_id}"].append(doc_id)
    return list(groups.values())


def _terms(called: Called, company: set[str]) -> set[str]:
    """Return the stemmed words of a document's names that are neither its company's nor a time or kind of report."""
    words = [word for name in (called.file, *called.others) for word in _words_of_file(name)]
    return set(_stems(" ".join(word for word in words if word not in company)))


def _stems(text: str) -> list[str]:
    """Return the stems of words of names, whose language is unknown; pairs of characters in scripts without blanks."""
    return analyze_query(text, ("en", "zh") if UNSPACED.search(text) else ("en",))


def _query_pieces(query: str) -> list[_Piece]:
    """Return the words of a query; all can be names if it has no capitals but those of its first word and of times."""
    text = undotted(query)
    found = [match for match in PIECE.finditer(text) if not _is_possessive(text, match)]
    cased = any(
        any(map(str.isupper, match[0])) and not _says_no_name(plain(match[0])) and match[0].upper() not in _NOT_TICKERS
        for match in found[1:]
    )
    pieces = []
    for number, match in enumerate(found):
        written = match[0]
        named = not written.isdecimal() and (not cased or not written.islower() or written[0].isdigit())
        between = text[found[number - 1].end() : match.start()] if number else "."
        pieces.append(_Piece(plain(written), written, named, re.fullmatch(r"[\s&/-]*", between) is not None))
    return pieces


def _is_possessive(text: str, match: re.Match[str]) -> bool:
    return match[0] in ("s", "S") and text[match.start() - 1 : match.start()] in ("'", "\u2019")


def _words_of_query(query: str) -> list[str]:
    return [piece for piece in pieces_of(_CAMEL.sub(" ", query)) if not _says_no_name(piece)]


def _says_no_name(word: str) -> bool:
    """Return whether a word beside a name cannot belong to it: stop words, legal forms, times and kinds of reports."""
    return (
        word in _STOP_WORDS or word in LEGAL_FORMS or word in _REPORT_WORDS or _PERIOD_PIECE.fullmatch(word) is not None
    )
