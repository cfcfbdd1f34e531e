"""An invented town in HotpotQA's format: mills and the people who built them, hills and how high they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

MILLS = [("Alder Mill", "Oddny"), ("Wend Mill", "Tom Birch"), ("Carrow Mill", "B. Traven")]
BORN = {"Oddny": "Fellmere", "Tom Birch": "Port Ellery", "B. Traven": "Marrow Bay"}
HILLS = [("Hagg Hill", 310), ("Skerry Hill", 288), ("Lorn Hill", 402)]

_IDLE = [
    " The parish keeps a book of its repairs, and the book has been rebound twice since the great flood.",
    " Visitors come in May, when the lower meadows are dry and the ferryman has painted his boat.",
    " A painter from the coast made nine studies of it, of which four hang in the town hall.",
    " In dry summers the stream is led round it by a ditch that the school children clean for a penny.",
    " An old map in the museum shows it with a red flag, and nobody can say who drew the flag or why.",
]


def paragraphs() -> dict[str, list[str]]:
    """Title to sentences. A mill's second sentence names its builder, a person's second the birthplace."""
    found: dict[str, list[str]] = {}
    for mill, builder in MILLS:
        found[mill] = [f"{mill} grinds corn below the old bridge.", f" {mill} was built by {builder}.", *_IDLE]
        found[builder] = [f"{builder} was a wright.", f" {builder} was born in {BORN[builder]}.", *_IDLE]
    for hill, height in HILLS:
        found[hill] = [f"{hill} is {height} metres high.", f" Sheep graze on {hill} all year.", *_IDLE]
    return found


def rows() -> list[dict[str, Any]]:
    """Three bridge questions over a mill and its builder, three comparisons of two hills; two distractors each."""
    text = paragraphs()
    found = []
    for number, (mill, builder) in enumerate(MILLS):
        context = [mill, builder, HILLS[number][0], MILLS[number - 1][0]]
        found.append(
            {
                "_id": f"bridge{number}",
                "question": f"Where was the builder of {mill} born?",
                "answer": BORN[builder],
                "type": "bridge",
                "supporting_facts": [[mill, 1], [builder, 1]],
                "context": [[title, text[title]] for title in context],
            }
        )
        one, other = HILLS[number], HILLS[number - 1]
        found.append(
            {
                "_id": f"comparison{number}",
                "question": f"Which is higher, {one[0]} or {other[0]}?",
                "answer": max(one, other, key=lambda hill: hill[1])[0],
                "type": "comparison",
                "supporting_facts": [[one[0], 0], [other[0], 0]],
                "context": [[title, text[title]] for title in (one[0], other[0], mill, builder)],
            }
        )
    return found


def write_town(folder: Path) -> Path:
    """``town/questions.json`` below ``folder``, and a catalog and split rules for it; returns ``folder``."""
    (folder / "town").mkdir(parents=True)
    (folder / "town" / "questions.json").write_text(json.dumps(rows()), encoding="utf-8")
    (folder / "catalog.yaml").write_text(
        "sources:\n  - {name: town, part: all, format: hotpotqa, path: town/questions.json}\n", encoding="utf-8"
    )
    (folder / "rules.yaml").write_text(
        "seed: 1\nrules:\n  - {sources: [town], shares: {test: 1.0}, why: invented}\n", encoding="utf-8"
    )
    return folder
