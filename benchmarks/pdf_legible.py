"""How many pages of PDFs are wrongly called unreadable, and how many unreadable ones are recognised?

    python -m benchmarks.pdf_legible DATA [--messages FOLDER] [--out FILE]

DATA is searched for PDFs, which are reported in two halves. FOLDER holds gettext files (``.po``) of many languages,
such as those of Django's wheel.
"""

from __future__ import annotations

import argparse
import io
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pypdf
import pypdfium2
from pypdf.generic import DictionaryObject

from okralong.pipelines.indexing.formats.legible import is_legible
from okralong.pipelines.indexing.formats.pdf_page import Form, Page, read_page, tidy
from okralong.pipelines.indexing.formats.tables_of_pages import TableReader

PAGES_WITHOUT_MAP = range(5, 15)
"""Pages of each file whose maps are removed."""
LEAST_LETTERS = 100
"""A page with fewer letters has too few words to be judged by them."""
ABOUT = """# Pages of PDFs without readable text

    python -m benchmarks.pdf_legible DATA --messages FOLDER

DATA had 52 PDFs (annual reports and papers, 6,321 pages), FOLDER the messages of Django 5.2 in 92 languages. "Maps
removed" are ten pages a file whose fonts lost /ToUnicode; they count by the share of words that PDFium then still
gives (under 0.5: garbled, over 0.99: right), and are called unreadable as a whole or in part. The ways above them
change the text of a page as a wrong map would, without any sign of PDFium's that a map is missing. The text of
dozens of the pages called unreadable in the files as they are was looked at, from all three files: their fonts have no
map, and it is gibberish. The limits of
`legible.py` were set on pages of both halves, so neither is unseen: exchanged letters gave at most 2.13 characters per
token on 99 % of the pages and real ones at least 2.99; the limit of 2.15 is that low for the languages, of which only
the two Sorbian ones ("dsb", "hsb") have texts below 2.4."""
ALPHABET = "abcdefghijklmnopqrstuvwxyz"


def by_one(text: str) -> str:
    return "".join(char if char.isspace() else chr(ord(char) + 1) for char in text)


def as_glyphs(text: str) -> str:
    return "".join(char if char.isspace() else chr(max(1, ord(char) - 29)) for char in text)


def exchanged(text: str) -> str:
    mixed = "".join(random.Random(len(text)).sample(ALPHABET, len(ALPHABET)))
    return text.translate(str.maketrans(ALPHABET + ALPHABET.upper(), mixed + mixed.upper()))


def as_cp1252(text: str) -> str:
    return text.encode().decode("cp1252", "replace")


WAYS: dict[str, Callable[[str], str]] = {
    "each character the next one": by_one,
    "each character 29 before (glyph numbers)": as_glyphs,
    "letters exchanged at random": exchanged,
}


def pages_of(data: bytes, numbers: range | None = None) -> Iterator[tuple[Page, str]]:
    """Yield each page and the text that PDFium gives for it."""
    pdf = pypdfium2.PdfDocument(data)
    form = Form(pdf)
    for number in range(len(pdf)) if numbers is None else numbers:
        if number < len(pdf):
            page = read_page(pdf, number, form, TableReader())
            yield page, tidy(pdf[number].get_textpage().get_text_bounded())
    form.close()


def without_maps(data: bytes) -> bytes:
    """Return some pages of a file, their fonts without ToUnicode."""
    reader = pypdf.PdfReader(io.BytesIO(data))
    writer = pypdf.PdfWriter()
    for number in PAGES_WITHOUT_MAP:
        if number < len(reader.pages):
            writer.add_page(reader.pages[number])
    for each in writer._objects:  # pypdf has no public list of a writer's objects
        if isinstance(each, DictionaryObject) and each.get("/Type") == "/Font":
            each.pop("/ToUnicode", None)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def same_words(before: str, after: str) -> float:
    """Return the share of words of ``before`` that ``after`` has."""
    words, left = before.split(), Counter(after.split())
    return sum((Counter(words) & left).values()) / max(1, len(words))


def languages(folder: Path) -> dict[str, str]:
    """Return the translated texts by language, without placeholders."""
    found: dict[str, dict[str, None]] = defaultdict(dict)
    for file in sorted(folder.rglob("*.po")):
        for match in re.finditer(r'^msgstr(?:\[\d\])? ((?:"(?:[^"\\]|\\.)*"\n)+)', file.read_text("utf-8"), re.M):
            said = "".join(line[1:-1] for line in match[1].strip().split("\n")).replace("\\n", "\n").replace('\\"', '"')
            if "POT-Creation" not in said:
                found[file.parts[-3]][re.sub(r"%\(\w+\)\w|%[sd]|\{\w*\}", "", said).strip()] = None
    return {name: text for name, parts in found.items() if len(text := "\n".join(parts)) > 4_000}


def of_half(files: Sequence[Path]) -> Iterator[str]:
    """Yield the lines of a table about one half of the files."""
    rates: dict[str, list[bool]] = defaultdict(list)
    unreadable: Counter[str] = Counter()
    for file in files:
        data = file.read_bytes()
        shown = list(pages_of(data))
        unreadable[file.stem[:8]] += sum(page.state in ("illegible", "partly") for page, _ in shown)
        legible = [text for page, text in shown if page.state == "text"]
        long = [text for text in legible if sum(map(str.isalpha, text)) >= LEAST_LETTERS]
        for name, garble in WAYS.items():
            rates[name] += [not is_legible(garble(text)) for text in long[::10]]
        before = pages_of(data, PAGES_WITHOUT_MAP)
        for (page, after), (whole, text) in zip(pages_of(without_maps(data)), before, strict=True):
            if sum(map(str.isalpha, text)) >= LEAST_LETTERS and whole.state == "text":
                share = same_words(text, after)
                kind = "garbled" if share < 0.5 else "still right" if share > 0.99 else "in part"
                rates[f"maps removed, text {kind}"].append(page.state in ("illegible", "partly"))
    named = ", ".join(f"{name} {count}" for name, count in unreadable.items() if count)
    yield f"| pages called unreadable in the files as they are | {unreadable.total():,} ({named or 'none'}) |"
    for name, hits in sorted(rates.items()):
        yield f"| {name} | {sum(hits):,} of {len(hits):,} ({sum(hits) / len(hits):.3f}) |"


def of_languages(folder: Path) -> Iterator[str]:
    """Yield the lines of a table about texts of 1,500 characters."""
    rows: dict[str, list[bool]] = defaultdict(list)
    wrong: Counter[str] = Counter()
    for name, text in languages(folder).items():
        for at in range(0, len(text) - 1_500, 1_500):
            part = text[at : at + 1_500]
            latin = sum(char < "\u0250" for char in part if char.isalpha()) > 0.7 * sum(map(str.isalpha, part))
            rows["as they are"].append(not is_legible(part))
            wrong[name] += rows["as they are"][-1]
            if latin:
                rows["letters exchanged at random (Latin)"].append(not is_legible(exchanged(part)))
            else:
                rows["UTF-8 read as cp1252 (not Latin)"].append(not is_legible(as_cp1252(part)))
    for kind, hits in rows.items():
        named = ", ".join(f"{name} {count}" for name, count in wrong.items() if count) if kind == "as they are" else ""
        yield f"| {kind} | {sum(hits):,} of {len(hits):,} ({sum(hits) / len(hits):.3f}) | {named} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--messages", type=Path)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    files = sorted(args.data.rglob("*.pdf"))
    lines = ABOUT.split("\n")
    for head, half in (
        ("first half, by name in turn", files[::2]),
        ("second half", files[1::2]),
    ):
        lines += ["", f"## {len(half)} files: {head}", "", "| | called unreadable |", "|---|---|", *of_half(half)]
    if args.messages:
        head = ["", "## Texts of many languages", "", "| | called unreadable | which |", "|---|---|---|"]
        lines += [*head, *of_languages(args.messages)]
    print("\n".join(lines))
    if args.out:
        args.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
