"""Which documents a query names, and what that is worth in retrieval."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from okralong.pipelines.answering import retrieve
from okralong.pipelines.answering.organizer import organize
from okralong.pipelines.answering.policy import NamedPolicy, Policy
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.archive.metadata import DocumentFacts
from okralong.pipelines.archive.name_words import LEGAL_FORMS, company_key
from okralong.pipelines.archive.names import DocumentNames, _words_of_file
from okralong.pipelines.core.types import Document
from tests.fakes.tools import ScriptedTools, analysis, paper_policy

FILINGS = DocumentNames(
    {
        name: name.removesuffix(".txt")
        for name in (
            "Amazon_Q1_2024.txt",
            "Amazon_Q2_2024.txt",
            "Coca-Cola_Q2_2024.txt",
            "CocaCola_annualReport2023.txt",
        )
    }
)


def best(query: str, scope: tuple[str, ...] = ()) -> list[str]:
    shares = FILINGS.named(query, scope)
    return sorted(doc_id for doc_id, share in shares.items() if share == max(shares.values()))


@pytest.mark.parametrize(
    ("query", "documents"),
    [
        ("What was Amazon's net income in the second quarter of 2024?", ["Amazon_Q2_2024.txt"]),
        ("Coca-Cola's net revenues, Q2 2024", ["Coca-Cola_Q2_2024.txt"]),
        ("What did Coca Cola say in its annual report for 2023?", ["CocaCola_annualReport2023.txt"]),
        ("amazon's deliveries", ["Amazon_Q1_2024.txt", "Amazon_Q2_2024.txt"]),
        ("Why did margins fall?", []),
    ],
)
def test_the_document_is_found_by_the_words_of_its_name(query: str, documents: list[str]) -> None:
    assert (best(query) if documents else FILINGS.named(query)) == (documents or {})


def test_a_period_decides_among_the_documents_of_one_company() -> None:
    scope = ("Amazon_Q1_2024.txt", "Amazon_Q2_2024.txt")
    assert FILINGS.named("Amazon in 2024", scope) == {}  # both have both
    assert best("Amazon in Q2", scope) == best("the second quarter", scope) == ["Amazon_Q2_2024.txt"]
    assert FILINGS.named("Amazon in Q2", scope[:1]) == {}  # one document cannot be told from others
    assert FILINGS.named("the annual report of 2023") == {}  # no company, so no document


def test_without_a_company_documents_are_found_by_the_words_of_title_and_metadata() -> None:
    facts = DocumentFacts("d17", "p", title="Pump manual", given={"plant": "Hollis Marine", "abstract": "word " * 50})
    names = DocumentNames.of([facts, DocumentFacts("d18", "p", title="Winch manual")])
    assert names.named("how to service a pump") == {"d17": 1.0}
    assert names.named("Hollis Marine's winch").keys() == {"d17"}
    assert names.named("a word of the manual") == {}


REPORTS = DocumentNames.of(
    DocumentFacts(doc_id, "p", cover=cover)
    for doc_id, cover in (
        ("PEPSICO_2021_10K", {}),
        ("PEPSICO_2022_10K", {}),
        ("ACTIVISIONBLIZZARD_2019_10K", {}),
        ("CVSHEALTH_2018_10K", {}),
        ("CVSHEALTH_2019_10K", {}),
        ("3M_2018_10K", {}),
        ("3M_2019_10K", {}),
        ("JPMORGAN_2022_10K", {}),
        ("JPMORGAN_2023Q2_10Q", {}),
        ("AMCOR_2022_8K_dated-2022-07-01", {}),
        ("AMCOR_2022_10K", {}),
        ("JOHNSON_JOHNSON_2022_10K", {"company": "JOHNSON & JOHNSON", "ticker": "JNJ"}),
        ("GENERALMILLS_2019_10K", {"company": "General Mills, Inc.", "ticker": "GIS"}),
        ("0a1b2c", {"company": "Wheeler Real Estate Investment Trust, Inc.", "ticker": "WHLR", "fiscal_year": "2022"}),
        ("0a1b2d", {"company": "Soci\u00e9t\u00e9 du Nord S.A.", "fiscal_year": "2022"}),
        (
            "f10k2023",
            {"company": "Best Buy Co., Inc.", "fiscal_year": "2022", "period_end": "2023-01-28", "form": "10-K"},
        ),
    )
)


@pytest.mark.parametrize(
    ("query", "documents"),
    [
        ("What is the FY2018 capital expenditure amount (in USD millions) for 3M?", {"3M_2018_10K"}),
        ("What drove 3M's margin in FY19?", {"3M_2019_10K"}),
        ("Does Activision Blizzard have a high working capital?", {"ACTIVISIONBLIZZARD_2019_10K"}),
        ("Is Activision growing?", {"ACTIVISIONBLIZZARD_2019_10K"}),
        ("Which brands did PepsiCo acquire in fiscal 2022?", {"PEPSICO_2022_10K"}),
        ("How did Pepsi Co, Inc. do between 2021 and 2022?", {"PEPSICO_2021_10K", "PEPSICO_2022_10K"}),
        ("CVS Health's capital intensity for the year ended December 31, 2018?", {"CVSHEALTH_2018_10K"}),
        ("cvs health's inventory in fy2019", {"CVSHEALTH_2019_10K"}),
        ("In Q2 2023, which segment of JPMorgan had the most revenue?", {"JPMORGAN_2023Q2_10Q"}),
        ("What is the agenda of Amcor's 8-K dated 1st July 2022?", {"AMCOR_2022_8K_dated-2022-07-01"}),
        ("What was Amcor's revenue in FY2022?", {"AMCOR_2022_10K"}),
        ("Are JnJ's FY2022 financials healthy?", {"JOHNSON_JOHNSON_2022_10K"}),
        ("How many sites does Johnson & Johnson run?", {"JOHNSON_JOHNSON_2022_10K"}),
        ("Did Wheeler Real Estate Investment Trust, Inc. buy back shares?", {"0a1b2c"}),
        ("What is the net income of Wheeler?", {"0a1b2c"}),
        ("Who audits WHLR?", {"0a1b2c"}),
        ("Who audits SOCIETE DU NORD?", {"0a1b2d"}),
        ("Best Buy's revenue in FY2022", {"f10k2023"}),
        ("Whose revenue was larger in 2019, General Mills' or Activision Blizzard's?", None),
        ("What is the FY2019 revenue of General Dynamics?", set()),  # another company, of which there is no report
        ("In general, what does the report say about pepper and blizzards in 2019?", set()),
        ("What were the Capital Expenditures in 2018 according to the annual report?", set()),
        ("What was the EPS in FY2022?", set()),
    ],
)
def test_the_report_of_the_company_and_then_of_the_year(query: str, documents: set[str] | None) -> None:
    shares = REPORTS.named(query)
    meant = {doc_id for doc_id, share in shares.items() if share >= 0.8 * max(shares.values())}
    assert meant == ({"GENERALMILLS_2019_10K", "ACTIVISIONBLIZZARD_2019_10K"} if documents is None else documents)


def test_the_report_of_the_next_year_is_second() -> None:
    names = DocumentNames.of(DocumentFacts(f"3M_{year}_10K", "p") for year in (2015, 2018, 2019))
    padded = DocumentNames.of(
        [*(DocumentFacts(f"3M_{year}_10K", "p") for year in (2015, 2018, 2019)), DocumentFacts("AES_2018_10K", "p")]
    )
    for index in (names, padded):
        shares = index.named("3M's revenue in FY2018")
        assert sorted(shares, key=lambda doc_id: -shares[doc_id]) == ["3M_2018_10K", "3M_2019_10K", "3M_2015_10K"]


@given(
    st.lists(st.from_regex(r"[A-Z][a-z]{3,8}", fullmatch=True), min_size=1, max_size=4, unique=True),
    st.sampled_from(["", " Inc.", ", Ltd", " plc"]),
)
def test_a_name_is_found_joined_or_split_with_or_without_its_legal_form(words: list[str], form: str) -> None:
    assume(not any(word.lower() in LEGAL_FORMS or len(_words_of_file(word)) == 0 for word in words))
    joined = f"{''.join(words).upper()}_2020_10K"
    names = DocumentNames.of([DocumentFacts(joined, "p"), DocumentFacts("ZZZZ_2020_10K", "p")])
    assert company_key(" ".join(words) + form) == "".join(words).lower()
    assert names.named(f"What was the revenue of {' '.join(words)}{form} in 2020?").keys() == {joined}


def policy(named: NamedPolicy | None) -> Policy:
    base = paper_policy()
    return base.model_copy(update={"fusion": base.fusion.model_copy(update={"named": named})})


def found(query: str, named: NamedPolicy | None) -> tuple[list[str], ScriptedTools]:
    line = "Sales were {} crowns in the year, which is more than the year before, and costs rose as well. "
    documents = [
        Document(f"{firm}_2024", line.format(number) * 3, sha256=f"{number}" * 64, n_tokens=60)
        for number, firm in enumerate(["alder", "birch", "cedar"])
    ]
    tools = ScriptedTools(documents, analysis=analysis("extractive"), policy=policy(named))
    plan = organize(analysis("extractive"), tools.policy, precise=False)
    hits = asyncio.run(assembled_retrieval(tools, "retrieve", query, plan))
    return [hit.chunk.doc_id for hit in hits], tools


def test_chunks_of_the_named_document_come_first() -> None:
    query = "What were the sales of Cedar in the year?"
    with_it, tools = found(query, NamedPolicy(weight=1.0))
    assert with_it[0] == "cedar_2024"
    assert found(query, None)[0][0] == "alder_2024"  # the same words everywhere: the first by its id
    asked = [call for call in tools.calls if call.tool == "retrieve"]
    assert [(call.step, call.details.get("doc_ids")) for call in asked] == [
        ("retrieve", None),
        ("retrieve/named", ["cedar_2024"]),
    ]


def test_nothing_is_looked_up_again_where_no_document_or_too_many_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrieve, "MOST_NAMED", 1)
    for query in ("What were the sales?", "What were the sales of Alder and Birch?"):
        _, tools = found(query, NamedPolicy(weight=1.0))
        assert [call.step for call in tools.calls if call.tool == "retrieve"] == ["retrieve"]
