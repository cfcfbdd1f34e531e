"""Measure what the nightly review catches: errors planted in a night over 20 filings, kind by kind.

    python -m benchmarks.review --out benchmarks/results/review.md

Ten made-up companies file two annual reports each. Nine columns are asked of them in three nights of
``okralong nightly`` at a scripted endpoint, which reads the figure from the passages that it is shown, so that every
request, journal and table is real. Errors are planted in the filings or in the endpoint's replies:

- first night: a wrong unit line ("scale"), a dropped minus ("sign"), the column of the previous year ("period"), and a
  filing with the text of another company ("wrong document");
- second night: a changed figure ("changed document"), and a filing that restates last year's ("restatement");
- third night: the model of another name that reads some cells wrongly ("swapped model").

An error is caught if the rule for it names its cell. A false alarm is a cell that a check or a tagged fact names, or
that is said to differ from the night before, without an error that reaches it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import yaml

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.reporting.export import Exported
from okralong.pipelines.run.nightly import nights
from tests.fakes.openai_server import FakeOpenAI, Messages

SEED: Final = 7
MODELS: Final = ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20")
YEARS: Final = (2022, 2023)
COMPANIES: Final = (
    "Alder Orchards", "Birch Lamps", "Cormorant Shipping", "Dunlin Optics", "Elmfield Mills",
    "Fulmar Cables", "Gannet Foods", "Hawthorn Steel", "Ibis Ceramics", "Juniper Toys",
)  # fmt: skip
CIKS: Final = {name: 1_000_000 + number for number, name in enumerate(COMPANIES)}
ITEMS: Final = {
    "revenue": ("Total revenue", "us-gaap:Revenues"),
    "cost_of_revenue": ("Cost of revenue", "us-gaap:CostOfRevenue"),
    "gross_profit": ("Gross profit", "us-gaap:GrossProfit"),
    "operating_income": ("Operating income (loss)", "us-gaap:OperatingIncomeLoss"),
    "net_income": ("Net income (loss)", "us-gaap:NetIncomeLoss"),
    "total_assets": ("Total assets", "us-gaap:Assets"),
    "total_liabilities": ("Total liabilities", "us-gaap:Liabilities"),
    "total_equity": ("Total equity", "us-gaap:StockholdersEquity"),
}
BALANCE: Final = ("total_assets", "total_liabilities", "total_equity")
PRIOR: Final = "prior_revenue"
KINDS: Final = {
    "scale": 1,
    "sign": 1,
    "period": 1,
    "wrong document": 1,
    "changed document": 2,
    "restatement": 2,
    "swapped model": 3,
}
"""The night in which each kind is planted."""

Cell = tuple[str, str]
"""A document and a column."""


@dataclass
class Filing:
    """A report of a company: its figures of the year and of the one before, in millions."""

    company: str
    year: int
    figures: dict[str, tuple[int, int]]
    unit: str = "millions"

    @property
    def doc_id(self) -> str:
        """Its file's name."""
        return f"{self.company.split()[0].lower()}-{self.year}"

    def text(self) -> str:
        """Return a cover, some prose, and two statements."""
        end = f"December 31, {self.year}"
        head = f"| | {self.year} | {self.year - 1} |"
        rows = {
            name: f"| {ITEMS[name][0]} | {' | '.join(map(_printed, pair))} |" for name, pair in self.figures.items()
        }
        income = "\n".join(row for name, row in rows.items() if name not in BALANCE)
        balance = "\n".join(rows[name] for name in BALANCE)
        return (
            f"FORM 10-K\nANNUAL REPORT\nFor the fiscal year ended {end}\n{self.company} Inc.\n"
            f"(Exact name of registrant as specified in its charter)\n\n"
            f"{self.company} Inc. sells what it makes. Its markets were calm, and its plants ran without a stop.\n\n"
            f"Consolidated Statements of Operations of {self.company} (in {self.unit} of U.S. dollars)\n\n"
            f"{head}\n{income}\n\nConsolidated Balance Sheets of {self.company} (in {self.unit} of U.S. dollars)\n\n"
            f"{head}\n{balance}\n"
        )


def _printed(number: int) -> str:
    return f"$ ({-number:,})" if number < 0 else f"$ {number:,}"


def filings(draw: random.Random) -> list[Filing]:
    """Return two filings of each company, whose statements add up and whose years join."""
    found = []
    for number, company in enumerate(COMPANIES):
        years = []
        sales = draw.randint(2_000, 40_000)
        for _ in range(len(YEARS) + 1):
            cost = round(sales * draw.uniform(0.4, 0.7))
            operating = round(sales * draw.uniform(0.05, 0.2)) * (-1 if number % 5 == 0 else 1)
            assets = round(sales * draw.uniform(0.8, 2.0))
            liabilities = round(assets * draw.uniform(0.3, 0.7))
            years.append([
                sales, cost, sales - cost, operating, round(operating * 0.8), assets, liabilities, assets - liabilities
            ])  # fmt: skip
            sales = round(sales * draw.uniform(0.95, 1.25))
        for at, year in enumerate(YEARS, start=1):
            figures = {name: (years[at][row], years[at - 1][row]) for row, name in enumerate(ITEMS)}
            found.append(Filing(company, year, figures))
    return found


@dataclass
class Reader:
    """The scripted model: it reads the asked line item from the passages, or ``misread``s a cell.

    ``misread`` has "sign" or "period" by document and column.
    """

    misread: dict[Cell, str] = field(default_factory=dict)

    def reply(self, messages: Messages) -> str:
        """Return the typed reply to a prompt."""
        shown = next(message["content"] for message in messages if "Question: " in message["content"])
        passages, _, asked = shown.rpartition("\n\nQuestion: ")
        column = next(name for name in (PRIOR, *ITEMS) if _question(name) in asked)
        label = ITEMS["revenue" if column == PRIOR else column][0]
        for passage in re.finditer(r'<passage id="(\d+)" doc="([^"]+)">(.*?)</passage>', passages, re.DOTALL):
            found = re.search(rf"^{re.escape(label)}\|(\$ [\d,()]+)\|(\$ [\d,()]+)$", passage[3], re.MULTILINE)
            head = re.search(r"\(in (\w+)s of U.S. dollars\)\]\s+\|(\d{4})\|(\d{4})", passage[3])
            if found and head:
                break
        else:
            return json.dumps({"evidence": [], "value": None, "period": ""})
        error = self.misread.get((passage[2], column))
        at = 2 if column == PRIOR else 1
        value = found[3 - at if error == "period" else at]
        if error == "sign":
            value = value.replace("(", "").replace(")", "")
        quote = {"passage": int(passage[1]), "quote": found[0]}
        return json.dumps({"evidence": [quote], "value": f"{value} {head[1]}", "period": head[1 + at]})


def _question(column: str) -> str:
    if column == PRIOR:
        return "What was the total revenue of the year before?"
    words = ITEMS[column][0].replace(" (loss)", "").lower()
    return f"What {'were' if words.endswith('s') else 'was'} the {words} of the fiscal year?"


# --------
# The nights.


@dataclass
class Work:
    """A folder with the filings, the facts, the columns and the nightly; ``planted`` has the errors by kind."""

    folder: Path
    reports: list[Filing]
    planted: dict[str, list[list[Cell]]] = field(default_factory=lambda: defaultdict(list))

    def write(self, server: FakeOpenAI, model: str) -> None:
        """Write everything that a user of the night would have."""
        (self.folder / "reports").mkdir(exist_ok=True)
        for each in self.reports:
            self.write_report(each)
        rows = [f"{each.doc_id},{each.company},{CIKS[each.company]}" for each in self.reports]
        (self.folder / "about.csv").write_text("\n".join(["doc_id,company,cik", *rows]) + "\n", encoding="utf-8")
        columns = [{"name": name, "question": _question(name), "answer_type": "money"} for name in (*ITEMS, PRIOR)]
        checks = [f"revenue, {PRIOR} agree by company"]
        file = {"columns": columns, "checks": checks, "company_facts": "facts"}
        (self.folder / "columns.yaml").write_text(yaml.safe_dump(file), encoding="utf-8")
        self._write_facts()
        self.write_config(server, model)

    def write_report(self, filing: Filing, text: str = "") -> None:
        """Write a filing, or another text in its place."""
        (self.folder / "reports" / f"{filing.doc_id}.txt").write_text(text or filing.text(), encoding="utf-8")

    def write_config(self, server: FakeOpenAI, model: str) -> None:
        """Write the config of the nights with this model."""
        llm = {"base_url": server.base_url, "model": model, "window": 128_000}
        config = {
            "folder": "nightly",
            "archive": "archive",
            "sources": ["reports"],
            "questions": "columns.yaml",
            "index": {"metadata": "about.csv"},
            "answer": {"llm": llm},
            "export": ["current.xlsx"],
        }
        (self.folder / "nightly.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")

    def _write_facts(self) -> None:
        (self.folder / "facts").mkdir(exist_ok=True)
        for company, cik in CIKS.items():
            facts: dict[str, Any] = {}
            for each in self.reports:
                for name, (number, _) in each.figures.items() if each.company == company else ():
                    fact = {"end": f"{each.year}-12-31", "val": number * 10**6, "form": "10-K"}
                    if name not in BALANCE:
                        fact["start"] = f"{each.year}-01-01"
                    concept = ITEMS[name][1].removeprefix("us-gaap:")
                    facts.setdefault(concept, {"units": {"USD": []}})["units"]["USD"].append(fact)
            content = {"cik": cik, "entityName": company, "facts": {"us-gaap": facts}}
            (self.folder / "facts" / f"CIK{cik:010d}.json").write_text(json.dumps(content), encoding="utf-8")

    def night(self) -> None:
        """Run a night as a command."""
        command = [sys.executable, "-m", "okralong", "nightly", str(self.folder / "nightly.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 7):
            raise SystemExit(f"a night ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")

    def alarms(self, tagged: bool = True) -> dict[frozenset[Cell], set[str]]:
        """Return the cells that failed checks name together, with the kinds of rules."""
        matrix = Exported.of(Folder.of(self.folder / "nightly" / "current")).matrix
        assert matrix is not None
        found: dict[frozenset[Cell], set[str]] = defaultdict(set)
        for each in matrix.failures:
            kind = _kind_of(each.rule)
            if tagged or kind != "tagged fact":
                found[frozenset(each.cells)].add(kind)
        return found

    def differences(self) -> dict[Cell, str]:
        """Return the cause of each difference of the last night that matters, by cell."""
        last = nights(Folder.of(self.folder / "nightly"))[-1].name
        rows = pq.read_table(self.folder / "nightly" / "nights" / last / "differences.parquet").to_pylist()
        cells = {row["query_id"]: row for row in rows if row["matters"]}
        found = {}
        for query_id, row in cells.items():
            column, _, doc_id = query_id.partition("@")
            found[(doc_id, column)] = str(row.get("cause") or "unknown")
        return found


def _kind_of(rule: str) -> str:
    for word, kind in (
        (" tagged ", "tagged fact"),
        (" steady ", "steady"),
        (" agree ", "agree"),
        ("currency", "currency"),
    ):
        if word in rule:
            return kind
    return "bound" if re.search(r"[<>]", rule) else "identity"


def run(folder: Path, server: FakeOpenAI) -> Iterator[tuple[str, ...]]:
    """Run three nights, and yield a row of the table for each kind of error, then one of false alarms."""
    draw = random.Random(SEED)
    work = Work(folder, filings(draw))
    reader = Reader()
    server.rules = [(lambda _: True, reader.reply)]
    by_id = {each.doc_id: each for each in work.reports}
    columns = (*ITEMS, PRIOR)

    work.write(server, MODELS[0])
    for doc_id in ("birch-2023", "dunlin-2022"):
        by_id[doc_id].unit = "thousands"
        work.planted["scale"].append([(doc_id, column) for column in columns])
        work.write_report(by_id[doc_id])
    for cell in (("alder-2022", "operating_income"), ("fulmar-2023", "net_income")):
        reader.misread[cell] = "sign"
        work.planted["sign"].append([cell])
    for cell in (("elmfield-2023", "total_assets"), ("gannet-2022", "revenue"), ("hawthorn-2023", "net_income")):
        reader.misread[cell] = "period"
        work.planted["period"].append([cell])
    work.write_report(by_id["ibis-2022"], by_id["juniper-2022"].text())
    work.planted["wrong document"].append([("ibis-2022", column) for column in columns])
    work.night()
    yield from _rows(work, 1)

    for doc_id in ("cormorant-2023", "dunlin-2023"):
        filing = by_id[doc_id]
        old = filing.figures["total_assets"], filing.figures["total_liabilities"]
        filing.figures["total_assets"], filing.figures["total_liabilities"] = ((a + 17, b) for a, b in old)
        work.planted["changed document"].append([(doc_id, "total_assets"), (doc_id, "total_liabilities")])
        work.write_report(filing)
    for doc_id in ("gannet-2023", "juniper-2023"):
        filing = by_id[doc_id]
        now, before = filing.figures["revenue"]
        filing.figures["revenue"] = (now, before - 41)
        work.planted["restatement"].append([(doc_id, PRIOR)])
        work.write_report(filing)
    work.night()
    yield from _rows(work, 2)

    for cell in (
        ("cormorant-2022", "cost_of_revenue"),
        ("hawthorn-2022", "total_equity"),
        ("juniper-2022", "net_income"),
    ):
        reader.misread[cell] = "period"
        work.planted["swapped model"].append([cell])
    work.write_config(server, MODELS[1])
    work.night()
    yield from _rows(work, 3)


def _rows(work: Work, night: int) -> Iterator[tuple[str, ...]]:
    planted = {kind: found for kind, found in work.planted.items() if KINDS[kind] == night}
    with_facts, without = work.alarms(), work.alarms(tagged=False)
    differences = work.differences() if night > 1 else {}
    for kind, errors in planted.items():
        by: set[str] = set()
        caught = {"all": 0, "without": 0, "cause": 0}
        for cells in errors:
            found = {rule for named, rules in with_facts.items() if named & set(cells) for rule in rules}
            by |= found
            caught["all"] += bool(found)
            caught["without"] += any(named & set(cells) for named in without)
            caught["cause"] += all(differences.get(cell) == CAUSES.get(kind) for cell in cells)
        cause = f"{caught['cause']} ({CAUSES[kind]})" if kind in CAUSES else "-"
        yield kind, str(len(errors)), str(caught["all"]), str(caught["without"]), ", ".join(sorted(by)), cause
    known = {cell for errors in work.planted.values() for cells in errors for cell in cells}
    alone = {cell for named in with_facts if not named & known for cell in named}
    others = {
        cell
        for cell in differences
        if cell not in {each for found in planted.values() for cells in found for each in cells}
    }
    count = len(work.reports) * (len(ITEMS) + 1)
    share = 100 * len(alone | others) / count
    yield (
        f"false alarms, night {night}",
        "-",
        f"{len(alone)} checks",
        "-",
        f"{len(others)} differences",
        f"{share:.1f} % of {count} cells",
    )


CAUSES: Final = {"changed document": "document", "restatement": "document", "swapped model": "model"}
HEAD: Final = """# Planted errors

What the review of a night names, of errors planted in nine money columns over 20 made-up filings
(`benchmarks/review.py` says how). An error counts as caught if a failed check names its cell; "without facts" leaves
out the comparison with company-facts files. The last column counts the errors whose difference from the night before
has the right cause. These filings are regular, so few false alarms are to be expected of them.

    {command}

| kind | planted | caught | without facts | by | right cause |
|---|---|---|---|---|---|
"""


def main() -> None:
    """Run the benchmark and write its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", help="the table's file; by default it is printed")
    parser.add_argument("--keep", help="a folder for the nights, which is kept")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="review-") as made, FakeOpenAI(models=MODELS) as server:
        folder = Path(given.keep or made).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        rows = list(run(folder, server))
    command = "python -m benchmarks.review" + (f" --out {given.out}" if given.out else "")
    text = HEAD.format(command=command) + "".join(f"| {' | '.join(row)} |\n" for row in rows)
    if given.out:
        Path(given.out).write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
