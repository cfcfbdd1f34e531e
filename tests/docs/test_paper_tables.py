"""Every row and column of the papers' tables has its strategy or data set in docs/methods.md, or a reason."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from okralong.lab.datasets.catalog import load_catalog
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.methods.registry import BUILT_IN

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "methods.md").read_text(encoding="utf-8")
START, BEYOND = "## Where to find what the papers compare", "Beyond both papers: "

CATALOGS = ("datasets.yaml", "paper_datasets.yaml")

BASELINES = {"Std-RAG", "LC", "LongLLMLingua", "CompAct", "Ada-RAG", "FLARE", "OkraLong"}
SETS = {"TAT-DQA", "FinQA", "Qasper", "M-FieldQA", "HotpotQA", "2WikiMQA"}
SHARED = {"RAG", "Raptor", "GraphRAG", "xRAG", "InstructRAG"}
ROWS = {
    "OkraLong 1": BASELINES | {"w/ Precise Mode"},
    "OkraLong 2": BASELINES,
    "OkraLong 3": {
        "Std-RAG",
        "OkraLong",
        "w/o workflow orchestration",
        "w/o retrieval adjustment",
        "w/o aggregated retrieval",
    },
    "OkraLong 4": {"Analyzer", "w/o fine-tuning"},
    "SARA 1": SHARED | {"SARA-CSI", "SARA-EMB"},
    "SARA 2": {"SFR", "Linq", "GTE", "Stella"},
    "SARA 3": SHARED | {"ICAE", "LLMLingua", "LongLLMLingua", "SARA"},
    "SARA 4": {"SFR", "BGE", "BM25"},
    "SARA 5": {"0/10", "2/8", "5/5"},
    "SARA 6": {"Mistral7B", "RAG", "SARA"},
    "SARA 11": {"RAG (BM25)", "RAG (SFR)", "SARA (k=1)", "SARA (k=5)", "CompAct"},
}
"""As the tables of arXiv 2503.02603 and of SARA print them, copied from the papers."""
COLUMNS = {
    "OkraLong 1": SETS,
    "OkraLong 2": SETS,
    "OkraLong 3": {"TAT-DQA"},
    "OkraLong 4": {"Query", "Information", "Evidence"},
    "SARA 1": {"QASPER", "NarrativeQA", "TriviaQA", "QuALITY", "HotpotQA"},
    "SARA 2": {"Size"},
    "SARA 3": {"SQuAD-v2"},
    "SARA 4": {"QASPER", "NarrativeQA", "TriviaQA"},
    "SARA 5": {"NER question"},
    "SARA 6": {"QMSum", "MultifieldQA-en", "2WikiMultiHopQA"},
    "SARA 11": {"TTFT", "Latency", "Tokens/s", "Memory (MB)", "GPU Mem. (MB)"},
}


def table(head: str) -> list[tuple[list[str], list[str], list[str], str]]:
    """``(the papers' tables, what stands there, what it is here, how or why not)`` of each line below a head."""
    lines = PAGE.partition(START)[2].partition(f"| paper, table | {head} |")[2].splitlines()[2:]
    found = []
    for line in lines:
        if not line.startswith("|"):
            break
        place, named, here, how = (cell.strip() for cell in line.strip("|").split("|"))
        paper, _, numbers = place.partition(" ")
        tables = [f"{paper} {number.strip()}" for number in numbers.split(",")]
        found.append((tables, [each.strip() for each in named.split(",")], re.findall(r"`([^`]+)`", here), how))
    return found


def placed(head: str) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for tables, named, _, _ in table(head):
        for each in tables:
            names.setdefault(each, []).extend(named)
    return names


def test_every_row_and_column_of_the_papers_tables_stands_there_once() -> None:
    for head, wanted in (("row", ROWS), ("column", COLUMNS)):
        assert {name: sorted(found) for name, found in placed(head).items()} == {
            name: sorted(each) for name, each in wanted.items()
        }


def test_what_it_names_is_there_and_what_is_missing_has_its_reason() -> None:
    sets = {source.name for name in CATALOGS for source in load_catalog(name).sources}
    for head, known in (("row", set(BUILT_IN)), ("column", sets)):
        for _, named, here, how in table(head):
            assert set(here) <= known, f"{named} names {set(here) - known}"
            assert how, f"{named} says neither how nor why not"


def test_every_strategy_stands_in_the_tables_and_in_the_smoke_sweep() -> None:
    methods = set(yaml.safe_load(shipped_config("sweeps/smoke.yaml"))["methods"])
    compared = {name for _, _, here, _ in table("row") for name in here}
    beyond = set(re.findall(r"`([^`]+)`", PAGE.partition(BEYOND)[2].partition("\n\n")[0]))
    assert compared <= methods
    assert compared | beyond == set(BUILT_IN)
    described = set(re.findall(r"^\| `(\w+)` \|", PAGE.partition(START)[0], re.MULTILINE))
    assert described == set(BUILT_IN)
