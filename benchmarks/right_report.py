"""Measure how often the right report is among the documents that a question means.

Archives: the filings of Loong (183, one or more a company), once with their files' names, once with ids as FinanceBench
has them (COMPANYNAME_YEAR_FORM) and no text, once with numbers for ids so that only the cover tells; earnings documents
with ids as "Coca-Cola_Q2_2024"; and the reports of an indexed archive of the Enterprise RAG Challenge. Questions: those
of the sets that name companies, and templates for each report's company. Questions without a company, and about
companies without a report, must mean no document.

    python -m benchmarks.right_report DATA [--archive ARCHIVE] [--side dev|test]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.cover import read_cover
from okralong.pipelines.archive.metadata import DocumentFacts, facts_of_documents
from okralong.pipelines.archive.name_words import company_key, name_words
from okralong.pipelines.archive.names import DocumentNames
from okralong.pipelines.archive.terms import analyze_query

NEAR, MOST = 0.8, 16  # fusion.named of configs/policy/default.yaml

TEMPLATES = (
    "What is the {year} total revenue (in USD millions) for {name}?",
    "What was {possessive} net income in {year}?",
    "Does {name} have an improving operating margin profile as of {year}?",
    "Who is the auditor of {name}?",
    "For {name}, how much was spent on capital expenditures? If data is not available, return 'N/A'.",
)
WITHOUT = (
    "What was the total revenue?",
    "Which company has the lowest Earnings per Share (EPS)?",
    "What were the Capital Expenditures in 2022 according to the annual report?",
    "How did the first quarter compare with the second quarter?",
    "What is the Net Profit Margin of Oesterreichische Kontrollbank in June 30, 2023?",
    "What is the FY2019 inventory turnover of General Dynamics?",
    "How many employees did American Airlines have at the end of 2022?",
)


@dataclass(frozen=True)
class Asked:
    """A question and its right reports, none if no report of the archive is right."""

    question: str
    right: frozenset[str]


def main() -> None:
    """Print a row for each archive and kind of question."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--archive", default="", help="an indexed archive of the challenge's PDFs")
    parser.add_argument("--side", choices=("dev", "test"), default="dev")
    parser.add_argument("--misses", action="store_true", help="print the questions that miss")
    options = parser.parse_args()
    print("| archive | questions | n | right is first | right is meant | wrong focus | no focus | documents meant |")
    print("|---|---|---|---|---|---|---|---|")
    for archive, names, kinds in sets(options.data, options.archive, options.side):
        for kind, asked in kinds.items():
            row(f"{archive} ({len(names)})", kind, DocumentNames.of(names), asked, options.misses)
    many = [facts(f"COMPANY{n}WORKS_{2010 + n % 10}_10K") for n in range(10_000)]
    index = DocumentNames.of(many)
    texts = [
        f"What is the FY2018 capital expenditure amount (in USD millions) for Company{n} Works?" for n in range(100)
    ]
    started = time.perf_counter()
    for text in texts:
        index.named(text)
    took = time.perf_counter() - started
    started = time.perf_counter()
    for text in texts:
        analyze_query(text)
    print(f"\nOver 10,000 documents: {took / (time.perf_counter() - started):.0f} times as long as stemming the query.")


def row(archive: str, kind: str, names: DocumentNames, asked: Iterable[Asked], misses: bool) -> None:
    """Print the shares of one archive and kind of question."""
    first = among = wrong = none = meant_in_all = count = 0
    for each in asked:
        count += 1
        shares = names.named(each.question)
        best = max(shares.values(), default=0.0)
        meant = {doc_id for doc_id, share in shares.items() if share >= NEAR * best}
        meant = meant if len(meant) <= MOST else set()
        top = {doc_id for doc_id in meant if shares[doc_id] == best}
        first += bool(top & each.right) if each.right else not meant
        good = bool(meant & each.right) if each.right else not meant
        among += good
        wrong += bool(meant) and not meant & each.right
        none += not meant
        meant_in_all += len(meant)
        if misses and not good:
            print("   MISS", each.question, sorted(each.right)[:3], "meant", sorted(meant)[:4])
    shares_of = [f"{value / max(1, count):.3f}" for value in (first, among, wrong, none)]
    print(f"| {archive} | {kind} | {count} | {' | '.join(shares_of)} | {meant_in_all / max(1, count):.1f} |")


def sets(data: Path, archive: str, side: str) -> Iterator[tuple[str, list[DocumentFacts], dict[str, list[Asked]]]]:
    """Yield each archive's name, documents and questions."""
    yield from loong(data / "loong_finance", side)
    if side == "dev":
        yield filings(data / "filings")
        if archive:
            yield challenge(data / "enterprise_rag_challenge", archive)


def facts(doc_id: str, text: str = "", title: str = "") -> DocumentFacts:
    """Return the metadata of a document as indexing gives it."""
    return DocumentFacts(doc_id, "", title, cover=read_cover(text, title).metadata())


def loong(folder: Path, side: str) -> Iterator[tuple[str, list[DocumentFacts], dict[str, list[Asked]]]]:
    """Yield the filings with three kinds of ids; the questions are about the companies of one side."""
    questions = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    company: dict[str, str] = {}
    for each in questions:
        for document in each["documents"]:
            if " " in document["name"] or "-" not in document["name"]:
                company[document["doc_id"]] = document["name"]
    texts = {path.stem: path.read_text(errors="replace") for path in sorted((folder / "documents").glob("*.txt"))}
    covers = {doc_id: read_cover(text) for doc_id, text in texts.items()}
    of_key: dict[str, set[str]] = defaultdict(set)
    for doc_id in texts:
        name = company.get(doc_id) or covers[doc_id].company
        if name:
            company[doc_id] = name
            of_key[company_key(name)].add(doc_id)
    here = {doc_id for doc_id, name in company.items() if doc_id in texts and side_of(name) == side}
    joined = {}
    for doc_id in texts:
        name = "".join(re.findall(r"\w", company.get(doc_id, doc_id))).upper()
        year = covers[doc_id].fiscal_year or doc_id[:4]
        quarter = f"Q{covers[doc_id].quarter}" if covers[doc_id].quarter else ""
        joined[doc_id] = f"{name}_{year}{quarter}_{covers[doc_id].form.replace('-', '')}"
    own = []
    for each in questions:
        named = [d for d in each["documents"] if d["doc_id"] in here and d["name"] in each["question"]]
        own += [Asked(each["question"], frozenset(of_key[company_key(d["name"])])) for d in named]
    templates = [
        asked
        for doc_id in sorted(here)
        for asked in about(company[doc_id], covers[doc_id].fiscal_year, {doc_id}, of_key[company_key(company[doc_id])])
    ]
    kinds = {
        "of the set": own,
        "templates": templates,
        "without a report": [Asked(text, frozenset()) for text in WITHOUT],
    }
    numbers = {doc_id: hashlib.sha256(doc_id.encode()).hexdigest() for doc_id in texts}
    for label, ids in (
        ("Loong", {doc_id: doc_id for doc_id in texts}),
        ("Loong, joined ids only", joined),
        ("Loong, numbers", numbers),
    ):
        with_text = label != "Loong, joined ids only"
        known = [facts(ids[doc_id], text if with_text else "") for doc_id, text in texts.items()]
        yield label, known, {kind: [renamed(each, ids) for each in asked] for kind, asked in kinds.items()}


def renamed(asked: Asked, ids: Mapping[str, str]) -> Asked:
    """Return a question with other ids of its right reports."""
    return Asked(asked.question, frozenset(ids[doc_id] for doc_id in asked.right))


def side_of(company: str) -> str:
    """Return dev or test, by the company's name."""
    return "dev" if int(hashlib.sha256(company_key(company).encode()).hexdigest(), 16) % 2 else "test"


def about(name: str, year: int, of_year: set[str], of_company: set[str]) -> Iterator[Asked]:
    """Yield simple questions about a company's report of a year."""
    short = re.sub(r"[\\/].*|\(.*\)", "", name).split()
    while len(short) > 1 and (not name_words(short[-1]) or company_key(" ".join(short[:-1])) == company_key(name)):
        short.pop()
    for number, template in enumerate(TEMPLATES):
        for called in dict.fromkeys(filter(None, [name, " ".join(short).rstrip(",")])):
            possessive = called + ("'" if called.endswith("s") else "'s")
            when = f"FY{year}" if number % 2 == 0 else f"fiscal {year}"
            text = template.format(name=called, possessive=possessive, year=when if year else "the last year")
            yield Asked(text, frozenset(of_year if "{year}" in template and year else of_company))


def filings(folder: Path) -> tuple[str, list[DocumentFacts], dict[str, list[Asked]]]:
    """Return the earnings documents, with questions for a quarter of a year."""
    known = [facts(path.stem, path.read_text(errors="replace")) for path in sorted(folder.glob("*.txt"))]
    spelled = {
        "AT_T": "AT&T",
        "S_P_Global": "S&P Global",
        "JP_Morgan": "JPMorgan",
        "McDonald": "McDonald's",
        "Pepsico": "PepsiCo",
    }
    asked: list[Asked] = []
    for each in known:
        name, quarter, year = re.fullmatch(r"(.*)_Q(\d)_(\d+)", each.doc_id).groups()  # type: ignore[union-attr]
        name = spelled.get(name, name.replace("_", " "))
        ordinal = ("first", "second", "third", "fourth")[int(quarter) - 1]
        texts = (
            f"What was {name}'s revenue in Q{quarter} {year}?",
            f"How did {name} do in the {ordinal} quarter of {year}?",
        )
        asked += [Asked(text, frozenset([each.doc_id])) for text in texts]
    return "filings", known, {"templates": asked, "without a report": [Asked(text, frozenset()) for text in WITHOUT]}


def challenge(folder: Path, location: str) -> tuple[str, list[DocumentFacts], dict[str, list[Asked]]]:
    """Return the annual reports of an archive, with the questions about companies of the development side."""
    archive = Archive.open(location)
    known = facts_of_documents(archive.folder, archive.entries().values(), {})
    companies = json.loads((folder / "companies.json").read_text())
    of_company = {}
    for each in known:
        stem = Path(each.doc_id).stem
        if stem in companies and stem[0] in "01234cdef":
            of_company[companies[stem]["company"]] = each.doc_id
    rows = [json.loads(line) for line in (folder / "round2_questions.jsonl").read_text().splitlines()]
    own = [
        Asked(each["question"], frozenset(of_company[name] for name in each["companies"] if name in of_company))
        for each in rows
        if set(each["companies"]) <= of_company.keys()
    ]
    templates = [
        asked for name, doc_id in sorted(of_company.items()) for asked in about(name, 2022, {doc_id}, {doc_id})
    ]
    without = [Asked(text, frozenset()) for text in WITHOUT]
    return "challenge", known, {"of the set": own, "templates": templates, "without a report": without}


if __name__ == "__main__":
    main()
