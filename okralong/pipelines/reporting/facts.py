"""Compare the cells of a matrix with tagged facts of their documents and of company-facts files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from okralong.pipelines.core.filesystems import located, open_file
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import OkraError
from okralong.pipelines.statements.checks import Failure, Row, Rule, Value
from okralong.pipelines.statements.tagged import (
    Amount,
    CompanyFacts,
    FactsError,
    Reported,
    Result,
    TaggedFact,
    compared,
    inline_facts,
    plain_cik,
)

if TYPE_CHECKING:
    from okralong.pipelines.archive.archive import Archive

MOST_BYTES: Final = 200_000_000  # project default
"""Of a company-facts file; those of the largest filers have about 10 MB."""


@dataclass(frozen=True, slots=True)
class TaggedCell:
    """A cell that was compared: its value, the result, and the fact that agrees or differs."""

    doc_id: str
    column: str
    result: Result
    value: Value
    fact: TaggedFact | None

    @property
    def failure(self) -> Failure:
        """The failed check of a cell that differs from its fact."""
        assert self.fact is not None
        place = f" ({self.value.place})" if self.value.place else ""
        says = f"{self.value.shown}{place}, where {self.fact.shown} is tagged; {self.fact.source}"
        return Failure(f"{self.column} tagged {self.fact.concept}", ((self.doc_id, self.column),), says)


@dataclass
class FactsReader:
    """Reads facts of an ``archive`` and of folders, each file once; ``groups`` as in ``failures_of``.

    ``notes`` say why files could not be read, by path.
    """

    archive: Archive | None
    groups: Callable[[str], Mapping[str, str]]
    notes: dict[str, str] = field(default_factory=dict)
    _companies: dict[str, CompanyFacts | None] = field(default_factory=dict)

    def compared(self, rules: Sequence[Rule], rows: Mapping[str, Row]) -> Iterator[TaggedCell]:
        """Compare the values of ``rows``, by doc_id, as the tagged rules among ``rules`` say.

        Documents without any facts are left out.
        """
        tagged = [rule for rule in rules if rule.kind == "tagged"]
        if self.archive is None or not tagged:
            return
        concepts = {concept for rule in tagged for concept in rule.concepts}
        metadata = {name: self.groups(name) for name in ("period_end", "fiscal_year", "fiscal_quarter", "accession")}
        for doc_id, row in rows.items():
            mine = [rule for rule in tagged if rule.columns[0] in row]
            if not mine:
                continue
            of = Reported(**{name: held.get(doc_id, "") for name, held in metadata.items()})
            inline = self.archive.tagged_facts(doc_id) if doc_id in self.archive.entries() else []
            for rule in mine:
                value = row[rule.columns[0]]
                company = self._company(rule, doc_id, concepts)
                if not inline and company is None:
                    continue
                facts = inline_facts(inline, rule.concepts, doc_id)
                facts += company.of(rule.concepts) if company is not None else []
                amount = Amount(value.amount, value.rounding, value.currency, value.period)
                result, fact = compared(amount, facts, of)
                yield TaggedCell(doc_id, rule.columns[0], result, value, fact)

    def _company(self, rule: Rule, doc_id: str, concepts: Collection[str]) -> CompanyFacts | None:
        """Return the company-facts file of a document's company, None without one."""
        cik = plain_cik(self.groups(rule.by).get(doc_id, "")) if rule.folder else ""
        if not cik:
            return None
        folder = rule.folder.rstrip("/")
        path = f"{folder}/CIK{cik}.json"
        if path not in self._companies:
            self._companies[path] = self._read(folder, path, concepts)
        return self._companies[path]

    def _read(self, folder: str, path: str, concepts: Collection[str]) -> CompanyFacts | None:
        try:
            filesystem, inside = located(path)
            info = filesystem.get_file_info(inside)
            if not info.is_file:
                if not Folder.of(folder).is_there:
                    self.notes[folder] = f"There is no folder {folder} with company facts. Correct company_facts."
                return None
            if info.size > MOST_BYTES:
                raise FactsError(f"it has {info.size:,} bytes, more than {MOST_BYTES:,}")
            with open_file(filesystem, inside) as file:
                return CompanyFacts.read(bytes(file.read())).only(concepts)
        except (FactsError, OSError, OkraError) as error:
            self.notes[path] = f"{path} is not used: {error}. Download it again, or delete it."
            return None
