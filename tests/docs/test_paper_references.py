"""References to a section, appendix, table or figure of the papers: it exists and is about what the text says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HEADINGS = yaml.safe_load((Path(__file__).parent / "paper_headings.yaml").read_text(encoding="utf-8"))
AROUND = 260
"""Characters on both sides of a reference that say which paper it means, and what it is about."""
_NUMBER = r"(?:[A-C]\.)?\d+(?:\.\d+)?"
_REFERENCE = re.compile(
    rf"\b(?P<kind>sections?|appendix|appendices|tables?|figures?)\s(?P<all>{_NUMBER}(?:(?:,|\sand|\sto|\s/)\s{_NUMBER})*)\b"
    r"|(?<![\w.\"-])(?P<bare>[ABC]\.[1-9])(?![\w-])",
    re.IGNORECASE,
)
_PAPER = re.compile(
    r"(?P<sara>\bSARA\b|Jin et al)|(?P<okralong>OkraLong|\b2503\.02603)|(?P<default>\bpaper\b)"
    r"|(?P<other>[A-Z]\w+ et al|\bICAE\b|\bRAPTOR\b|\bLin 2004\b|their section)"
)
LAWS = ("statements",)
"""Folders that refer to sections of laws."""
OWN = {"methods": ("okralong", "long_context", "std_rag", "over_documents", "sara", "budget_rag")}
"""The files of ``methods`` whose paper is one of ours; the others follow papers of their own."""


class Reference(NamedTuple):
    place: str
    paper: str
    name: str
    around: str


def references() -> Iterator[Reference]:
    files = [ROOT / "README.md", *sorted(each for each in (ROOT / "docs").glob("*.md") if each.stem != "results")]
    files += [*sorted((ROOT / "okralong").rglob("*.py")), *sorted((ROOT / "okralong").rglob("*.yaml"))]
    for file in files:
        if file.parent.name in LAWS or (file.parent.name in OWN and file.stem not in OWN[file.parent.name]):
            continue
        text = file.read_text(encoding="utf-8")
        for match in _REFERENCE.finditer(text):
            before = text[max(0, match.start() - AROUND) : match.start()]
            around = before + text[match.start() : match.end() + AROUND]
            named = ["default", *(each.lastgroup or "" for each in _PAPER.finditer(before))][-1]
            if named == "other":
                continue
            if named == "default":
                named = "sara" if "sara" in file.stem or file.parent.name == "sara" else "okralong"
            word = (match["kind"] or "").lower().rstrip("s")
            kind = f"{word} " if word in ("table", "figure") else ""
            place = f"{file.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}"
            for number in re.findall(_NUMBER, match["all"] or match["bare"]):
                paper = "acl" if number[0] == "C" else "okralong" if number in ("B.2", "B.3") else named
                yield Reference(place, paper, kind + number, around)


@pytest.mark.parametrize("found", sorted(set(references())), ids=lambda each: f"{each.place} {each.name}")
def test_the_paper_has_the_place_and_it_is_about_that(found: Reference) -> None:
    known = HEADINGS[found.paper]
    assert found.name in known, f"{found.place}: {found.paper} has no {found.name}"
    words = "|".join(map(str, known[found.name]["words"]))
    assert re.search(words, found.around, re.IGNORECASE), f"{found.name} is {known[found.name]['title']}"
