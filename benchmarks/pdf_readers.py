"""Which PDF library keeps the gold answers? Run: ``python benchmarks/pdf_readers.py DATA_DIR``.

DATA_DIR holds ``pdf/*.pdf``, ``docs/*.txt`` (the publisher's own text of the same documents) and ``questions.jsonl``. A
gold answer survives when it stands in the extracted text, both in lower case, without thousands commas, currency signs,
and white space made one. A computed answer stands nowhere, so the publisher's text bounds what any reader can reach.
"""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Extract = Callable[[Path], str]


def by_pypdfium2(path: Path) -> str:
    import pypdfium2

    with pypdfium2.PdfDocument(path) as pdf:
        return "\n\n".join(page.get_textpage().get_text_bounded() for page in pdf)


def by_pypdf(path: Path) -> str:
    import pypdf

    logging.getLogger("pypdf").setLevel(logging.ERROR)

    return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)


def by_pdfplumber(path: Path) -> str:
    import pdfplumber

    with pdfplumber.open(path) as pdf:
        return "\n\n".join(page.extract_text() or "" for page in pdf.pages)


READERS: dict[str, tuple[str, Extract]] = {
    "pypdfium2": ("Apache-2.0 / BSD-3-Clause", by_pypdfium2),
    "pypdf": ("BSD-3-Clause", by_pypdf),
    "pdfplumber": ("MIT", by_pdfplumber),
}


def normal(text: str) -> str:
    """``text`` in the form in which answers are looked up."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", text.lower())
    text = re.sub(r"[$€£]\s*", "", text.replace("\u2019", "'").replace("\u00a0", " "))
    return re.sub(r"\s+", " ", text).strip()


def gold_answers(row: dict[str, Any]) -> list[list[str]]:
    """Ways to be right, each a list of strings that must all stand in the text."""
    if isinstance(row.get("answers"), list):
        return [[str(answer)] for answer in row["answers"]]
    answer = str(row.get("answer", ""))
    try:
        parsed = ast.literal_eval(answer)
    except (ValueError, SyntaxError):
        parsed = answer
    return [[str(part) for part in parsed] if isinstance(parsed, list) else [str(parsed)]]


def holds(text: str, answer: str) -> bool:
    """Whether ``answer`` stands in ``text`` (both normal), not as a part of a longer number or word."""
    before = r"(?<![\w.])" if answer[:1].isalnum() else ""
    after = r"(?![\w])" if answer[-1:].isalnum() else ""
    return bool(answer) and re.search(before + re.escape(answer) + after, text) is not None


def survivors(text: str, rows: list[dict[str, Any]]) -> int:
    text = normal(text)
    return sum(any(all(holds(text, normal(part)) for part in way) for way in gold_answers(row)) for row in rows)


def main(data: Path) -> None:
    pdfs = sorted((data / "pdf").glob("*.pdf"))
    questions = [json.loads(line) for line in (data / "questions.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = {pdf.stem: [row for row in questions if row["doc"] == pdf.stem] for pdf in pdfs}
    texts: dict[str, dict[str, str]] = {
        "publisher's text": {pdf.stem: (data / "docs" / f"{pdf.stem}.txt").read_text(encoding="utf-8") for pdf in pdfs}
    }
    notes = {"publisher's text": ("-", "-")}
    for name, (licence, extract) in READERS.items():
        started = time.perf_counter()
        try:
            texts[name] = {pdf.stem: extract(pdf) for pdf in pdfs}
        except ImportError:
            print(f"{name}: not installed", file=sys.stderr)
            continue
        notes[name] = (licence, f"{time.perf_counter() - started:.1f}")
    print("| reader | licence | " + " | ".join(asked) + " | all | of the bound | seconds |")
    print("|---" * (len(asked) + 5) + "|")
    bound = sum(survivors(texts["publisher's text"][stem], rows) for stem, rows in asked.items())
    for name, by_document in texts.items():
        counts = [survivors(by_document[stem], rows) for stem, rows in asked.items()]
        licence, seconds = notes[name]
        cells = [f"{count}/{len(rows)}" for count, rows in zip(counts, asked.values(), strict=True)]
        share = f"{sum(counts) / bound:.2f}"
        print(f"| {name} | {licence} | {' | '.join(cells)} | {sum(counts)} | {share} | {seconds} |")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
