"""Walk through the review of two nights over 20 real filings, and leave what an analyst would open.

    python -m benchmarks.review_filings FILINGS FOLDER

``FILINGS`` holds texts named ``Company_Q1_2023.txt``. Eight typed columns are asked at a scripted endpoint, which
returns the first amount of a sentence about the item, or null. After the first night a cell is corrected in the
exported Excel file. Before the second night a figure of one filing is changed, the unit of another is misprinted (a
scale error), and the model is replaced by one that reads two cells differently. ``FOLDER`` then has the nightly, the
Excel file, the page, the history, and the mail as text; the causes are printed.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import openpyxl
import pyarrow.parquet as pq
import yaml

from okralong.pipelines.core.storage import Folder
from okralong.pipelines.run.nightly import nights
from tests.fakes.notify_servers import mail_server, words_of
from tests.fakes.openai_server import FakeOpenAI, Messages

CHOSEN: Final = ("Coca-Cola", "Google", "Meta")
MOST: Final = 20
MODELS: Final = ("gpt-4o-2024-08-06", "gpt-4o-2024-11-20")
_AMOUNT: Final = r"(?:US)?\$\s?\d[\d,]*(?:\.\d+)?\s?(?:million|billion|thousand)"
COLUMNS: Final[dict[str, tuple[str, str, str]]] = {
    "revenue": (
        "money",
        "What was the total revenue of the period?",
        r"(?:[Rr]evenues?|[Nn]et operating revenues) (?:was|were)",
    ),
    "operating_income": (
        "money",
        "What was the income from operations of the period?",
        r"[Oo]perating income was|[Ii]ncome from operations[^.;]* was",
    ),
    "net_income": ("money", "What was the net income of the period?", r"[Nn]et income was"),
    "operating_cash_flow": ("money", "How much cash did operating activities provide?", r"operating activities"),
    "capital_expenditures": ("money", "How large were the capital expenditures?", r"[Cc]apital expenditures"),
    "share_repurchases": ("money", "How much was paid to repurchase shares?", r"[Rr]epurchase"),
    "effective_tax_rate": ("percent", "What was the effective tax rate?", r"[Ee]ffective (?:income )?tax rate"),
    "research_and_development": (
        "money",
        "How much was spent on research and development?",
        r"(?i:research and development)",
    ),
}
"""By column: the answer type, the question, and what a sentence with its amount says."""


class Reader:
    """The scripted model; of the cells in ``otherwise`` it returns the sentence's last amount."""

    def __init__(self) -> None:
        self.otherwise: set[tuple[str, str]] = set()

    def reply(self, messages: Messages) -> str:
        """Return the typed reply to a prompt."""
        shown = next(message["content"] for message in messages if "Question: " in message["content"])
        passages, _, asked = shown.rpartition("\n\nQuestion: ")
        column = next(name for name, (_, question, _) in COLUMNS.items() if question in asked)
        kind, _, says = COLUMNS[column]
        amount = r"\d+(?:\.\d+)?\s?%" if kind == "percent" else _AMOUNT
        for passage in re.finditer(r'<passage id="(\d+)" doc="([^"]+)">(.*?)</passage>', passages, re.DOTALL):
            found = [
                (sentence, each[0])
                for sentence in re.split(r"(?<=[.;])\s", passage[3])
                if (at := re.search(says, sentence))
                for each in re.finditer(amount, sentence[at.start() :])
            ]
            if not found:
                continue
            sentence, value = found[-1 if (passage[2], column) in self.otherwise else 0]
            quarter = re.search(r"_(Q\d)_(\d{4})", passage[2])
            period = f"{quarter[1]} {quarter[2]}" if quarter else ""
            quote = {"passage": int(passage[1]), "quote": sentence.strip()}
            return json.dumps({"evidence": [quote], "value": value, "period": period})
        return json.dumps({"evidence": [], "value": None, "period": ""})


def write(folder: Path, sources: list[Path], server: FakeOpenAI, model: str, mail: int) -> None:
    """Write the configs."""
    columns = [
        {"name": name, "question": question, "answer_type": kind} for name, (kind, question, _) in COLUMNS.items()
    ]
    checks = [f"{name} steady by company" for name, (kind, _, _) in COLUMNS.items() if kind == "money"]
    file = {"columns": columns, "checks": [*checks, "net_income <= revenue", "operating_income <= revenue"]}
    (folder / "columns.yaml").write_text(yaml.safe_dump(file, sort_keys=False), encoding="utf-8")
    rows = [f"{each.stem},{each.stem.split('_')[0]}" for each in sources]
    (folder / "about.csv").write_text("\n".join(["doc_id,company", *rows]) + "\n", encoding="utf-8")
    config: dict[str, Any] = {
        "folder": "nightly",
        "archive": "archive",
        "sources": ["reports"],
        "questions": "columns.yaml",
        "index": {"metadata": "about.csv"},
        "answer": {"llm": {"base_url": server.base_url, "model": model, "window": 128_000}},
        "export": ["current.xlsx"],
        "notify": [
            {
                "when": ["changed", "vanished", "disclosed", "check failed"],
                "to": [f"mailto://127.0.0.1:{mail}?from=okralong@desk.example&to=desk@desk.example"],
            }
        ],
    }
    (folder / "nightly.yaml").write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")


def okralong(*arguments: object) -> None:
    """Run a command and show what it prints; a change is no error."""
    print(f"\n$ okralong {' '.join(map(str, arguments))}", flush=True)
    done = subprocess.run([sys.executable, "-m", "okralong", *map(str, arguments)], check=False)
    if done.returncode not in (0, 1, 7):
        raise SystemExit(f"it ended with {done.returncode}")


def answered(folder: Path) -> list[dict[str, Any]]:
    """Return the answered cells of ``current`` with an amount."""
    rows = pq.read_table(folder / "nightly" / "current" / "answers").to_pylist()
    return [row for row in rows if row["status"] == "answered" and row["number"]]


def main() -> None:
    """Run the two nights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filings", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    folder: Path = given.folder.resolve()
    (folder / "reports").mkdir(parents=True)
    sources = [each for each in sorted(given.filings.glob("*.txt")) if each.name.startswith(CHOSEN)][:MOST]
    for each in sources:
        shutil.copy(each, folder / "reports")
    reader = Reader()
    with FakeOpenAI([(lambda _: True, reader.reply)], models=MODELS) as server, mail_server() as mail:
        write(folder, sources, server, MODELS[0], mail.port)
        okralong("nightly", folder / "nightly.yaml")
        cells = {row["query_id"]: row for row in answered(folder)}
        print(f"{len(cells)} of {len(sources) * len(COLUMNS)} cells have an amount")

        names = [each for each in cells if each.startswith("revenue@Coca")]
        changed, scaled, corrected = names[0], names[3], names[-1]
        _correct(folder, corrected)
        okralong("corrections", folder / "nightly", folder / "current.xlsx")
        _replace(folder, cells[changed], r"(\d[\d,.]*)", lambda found: f"9,{found[0].replace(',', '')[-3:]}")
        _replace(folder, cells[scaled], "million", lambda _: "thousand")
        swapped = [each for each in cells if each.startswith(("share_repurchases@Google", "net_income@Meta"))][:4]
        reader.otherwise = {(cells[each]["doc_ids"][0], cells[each]["asked_id"]) for each in swapped}
        write(folder, sources, server, MODELS[1], mail.port)
        mail.taken.clear()
        okralong("nightly", folder / "nightly.yaml")
        okralong("report", folder / "nightly" / "current", "--out", folder / "report.html")
        print(f"\nplanted: changed {changed}, scale {scaled}, corrected {corrected}, may be read otherwise {swapped}")
        for message in mail.taken:
            (folder / "mail.txt").write_text(words_of(message)[0], encoding="utf-8")
    last = nights(Folder.of(folder / "nightly"))[-1].name
    for row in pq.read_table(folder / "nightly" / "nights" / last / "differences.parquet").to_pylist():
        print(row["query_id"], row["change"], row["before_answer"], "->", row["after_answer"], "|", row["cause"])


def _correct(folder: Path, query_id: str) -> None:
    book = openpyxl.load_workbook(folder / "current.xlsx")
    sheet = book["answers"]
    heads = {cell.value: cell.column for cell in sheet[1]}
    for row in range(2, sheet.max_row + 1):
        if sheet.cell(row, heads["query_id"]).value == query_id:
            sheet.cell(row, heads["corrected"]).value = "$11,111 million"
            sheet.cell(row, heads["note"]).value = "as restated"
    book.save(folder / "current.xlsx")


def _replace(folder: Path, cell: dict[str, Any], pattern: str, by: Any) -> None:
    """Change the text that an amount rests on, in its filing."""
    (span, *_) = cell["citations"]
    file = folder / "reports" / f"{span['doc_id']}.txt"
    text = file.read_text(encoding="utf-8")
    quote = text[span["start_char"] : span["end_char"]]
    at = text.index(quote) + quote.index("$")
    after = re.sub(pattern, by, text[at:], count=1)
    file.write_text(text[:at] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
