"""Compare a table's amounts with facts that their filer has tagged in XBRL.

Facts come from a document's own inline XBRL, or from the SEC's company-facts files (``CIK0000320193.json`` of
companyfacts.zip, or of https://data.sec.gov/api/xbrl/companyfacts/). An amount is compared with the facts of its
concepts and its period; one without a period, with those of the period of its document. Values are never changed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Literal

from okralong.pipelines.core.types import Fact
from okralong.pipelines.statements.periods import forms_of

Result = Literal["agrees", "differs", "no fact"]

MONTHS: Final[Mapping[int, range]] = {12: range(350, 381), 9: range(259, 288), 6: range(166, 197), 3: range(80, 101)}
"""The lengths of periods in days, by months: fiscal years have 52 or 53 weeks, quarters 12 to 14. project default"""
_OUTFLOW: Final = re.compile(r"^(?:Payments|Repayments)|Cost|Expense|Paid|Repurchase|Dividend|Provision|TaxBenefit")
"""Concepts whose amounts are tagged as positive and printed with either sign. project default"""
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")


_LARGEST_EXPONENT: Final = 30  # project default
"""Of a number; arithmetic with far larger ones overflows."""
_NAME_CHARS: Final = 200  # project default
"""Maximum length of a company's name."""


class FactsError(ValueError):
    """A company-facts file that cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class TaggedFact:
    """A tagged amount.

    ``number`` is in full; ``unit`` is "USD", "USD/shares", "shares" or "pure". ``start`` is "" for an instant, and both
    ends are ISO dates. ``rounding`` is half a unit of the last digit that is exact. ``source`` says where the fact is
    from, ``accession`` in which filing.
    """

    concept: str
    number: Decimal
    unit: str
    start: str
    end: str
    rounding: Decimal = Decimal(0)
    source: str = ""
    accession: str = ""

    @property
    def shown(self) -> str:
        """The amount, its unit and its period as a reader sees them."""
        figure = f"{self.number:,f}"
        figure = figure.rstrip("0").rstrip(".") if "." in figure else figure
        unit = "" if self.unit == "pure" else f" {self.unit.replace('/shares', ' per share')}"
        return f"{figure}{unit} ({f'{self.start} to ' if self.start else ''}{self.end})"


@dataclass(frozen=True, slots=True)
class Reported:
    """Metadata of an amount's document: the end of its period, its fiscal year and quarter, its accession."""

    period_end: str = ""
    fiscal_year: str = ""
    fiscal_quarter: str = ""
    accession: str = ""


@dataclass(frozen=True, slots=True)
class Amount:
    """The amount of a cell: its number in full (percentages as shares), rounding, currency and period."""

    number: Decimal
    rounding: Decimal
    currency: str = ""
    period: str = ""


def compared(amount: Amount, facts: Iterable[TaggedFact], of: Reported) -> tuple[Result, TaggedFact | None]:
    """Compare an amount with facts of its concepts, the preferred ones first.

    It agrees if one of them has its period and its value within the rounding of both. Otherwise it differs from the
    first; facts of its own filing go before later ones.
    """
    wanted = forms_of(amount.period) if amount.period else set()
    known = [
        fact
        for fact in facts
        if (not amount.currency or fact.unit.partition("/")[0] in (amount.currency, "shares", "pure"))
        and (wanted & _forms(fact, of) if wanted else _is_of(fact, of))
    ]
    for fact in known:
        if _same(amount, fact):
            return "agrees", fact
    if not known:
        return "no fact", None
    return "differs", next((fact for fact in known if fact.accession and fact.accession == of.accession), known[0])


def _same(amount: Amount, fact: TaggedFact) -> bool:
    slack = amount.rounding + fact.rounding
    if abs(amount.number - fact.number) <= slack:
        return True
    _, _, name = fact.concept.rpartition(":")
    return bool(_OUTFLOW.search(name)) and abs(abs(amount.number) - abs(fact.number)) <= slack


def _forms(fact: TaggedFact, of: Reported) -> set[str]:
    """Return the canonical names of a fact's period."""
    months = _months(fact)
    forms = {fact.end}
    if fact.start and months is None:
        return {f"{fact.start} to {fact.end}"}
    if months == 12:
        forms |= {f"FY{fact.end[:4]}", *forms_of(f"year to {fact.end}")}
    elif months:
        forms |= forms_of(f"{months} months to {fact.end}")
    elif fact.end[5:] == "12-31":
        forms |= {fact.end[:4], f"FY{fact.end[:4]}"}
    if fact.end == of.period_end and of.fiscal_year:
        if of.fiscal_quarter and months in (None, 3):
            forms.add(f"{of.fiscal_quarter} {of.fiscal_year}")
        if not of.fiscal_quarter and months in (None, 12):
            forms |= {of.fiscal_year, f"FY{of.fiscal_year}"}
    return {form for each in forms for form in forms_of(each)}


def _is_of(fact: TaggedFact, of: Reported) -> bool:
    """Return whether a fact is of the period that its document reports."""
    return bool(of.period_end) and fact.end == of.period_end and _months(fact) in (None, 3 if of.fiscal_quarter else 12)


def _months(fact: TaggedFact) -> int | None:
    """Return how many months a fact's period has, None for an instant or another length."""
    if not fact.start:
        return None
    try:
        days = (date.fromisoformat(fact.end) - date.fromisoformat(fact.start)).days + 1
    except ValueError:
        return None
    return next((months for months, lengths in MONTHS.items() if days in lengths), None)


def inline_facts(facts: Iterable[Fact], concepts: Sequence[str], doc_id: str) -> list[TaggedFact]:
    """Return a document's own facts of some concepts, in their order; facts of a segment or scenario are left out."""
    found = [
        TaggedFact(
            fact.concept,
            Decimal(fact.value),
            fact.unit,
            fact.period_start,
            fact.period_end,
            _rounding(fact.decimals),
            f"tagged in {doc_id}",
        )
        for fact in facts
        if fact.concept in concepts and fact.value and fact.unit and not fact.dimensions
    ]
    return sorted(found, key=lambda fact: concepts.index(fact.concept))


def _rounding(decimals: str) -> Decimal:
    """Return half a unit of the last exact digit; "-6" are millions, "INF" or "" is exact (XBRL 2.1, 4.6.4)."""
    return Decimal(1).scaleb(-int(decimals)) / 2 if re.fullmatch(r"-?\d{1,2}", decimals) else Decimal(0)


@dataclass(frozen=True)
class CompanyFacts:
    """The facts of one company by taxonomy and concept, as the SEC publishes them."""

    name: str
    facts: Mapping[str, Mapping[str, Any]]

    @classmethod
    def read(cls, content: bytes) -> CompanyFacts:
        """Read a company-facts file. Raises FactsError."""
        try:
            read = json.loads(content, parse_float=Decimal)
        except ValueError as error:
            raise FactsError(f"it is no JSON ({error})") from None
        except RecursionError:
            raise FactsError("it is nested too deeply") from None
        facts = read.get("facts") if isinstance(read, dict) else None
        if not isinstance(facts, dict) or not all(isinstance(each, dict) for each in facts.values()):
            raise FactsError('it has no "facts" by taxonomy, as the SEC\'s company-facts files have')
        return cls(str(read.get("entityName") or "")[:_NAME_CHARS], facts)

    def only(self, concepts: Collection[str]) -> CompanyFacts:
        """Return the facts of these concepts alone, a small part of a file."""
        kept: dict[str, dict[str, Any]] = {}
        for concept in concepts:
            taxonomy, _, name = concept.partition(":")
            if (held := self.facts.get(taxonomy, {}).get(name)) is not None:
                kept.setdefault(taxonomy, {})[name] = held
        return CompanyFacts(self.name, kept)

    def of(self, concepts: Sequence[str]) -> list[TaggedFact]:
        """Return the facts of some concepts in their order, later filings first; rows that are no fact are left out."""
        found: list[TaggedFact] = []
        for concept in concepts:
            taxonomy, _, name = concept.partition(":")
            rows = list(self._rows(taxonomy, name))
            found += [fact for _, fact in sorted(rows, key=lambda row: row[0], reverse=True)]
        return found

    def _rows(self, taxonomy: str, name: str) -> Iterator[tuple[str, TaggedFact]]:
        held = self.facts.get(taxonomy, {}).get(name)
        units = held.get("units") if isinstance(held, dict) else None
        for unit, rows in (units if isinstance(units, dict) else {}).items():
            for row in rows if isinstance(rows, list) else ():
                fact = self._fact(f"{taxonomy}:{name}", unit, row)
                if fact is not None:
                    yield str(row.get("filed") or ""), fact

    def _fact(self, concept: str, unit: str, row: Any) -> TaggedFact | None:
        try:
            number = Decimal(str(row["val"]))
            start, end = str(row.get("start") or ""), str(row["end"])
        except (KeyError, TypeError, AttributeError, InvalidOperation):
            return None
        if not number.is_finite() or abs(number.adjusted()) > _LARGEST_EXPONENT:
            return None
        if not _DAY.fullmatch(end) or (start and not _DAY.fullmatch(start)):
            return None
        accession = str(row.get("accn") or "")
        words = (row.get("form"), accession, f"filed {row['filed']}" if row.get("filed") else "")
        source = " ".join(str(each) for each in words if each)
        return TaggedFact(concept, number, unit, start, end, Decimal(0), f"{self.name}: {source}", accession)


def plain_cik(cik: str) -> str:
    """Return a company's CIK in the ten digits of a file's name, "" if ``cik`` is invalid."""
    digits = re.sub(r"(?i)^cik", "", cik.strip())
    return digits.zfill(10) if re.fullmatch(r"\d{1,10}", digits) else ""
