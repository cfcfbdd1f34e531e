"""Small fictional reports for tests of the answering side: long enough for several chunks at every granularity."""

from __future__ import annotations

from okralong.pipelines.core.types import Document

_FILLER = (
    "The board met {n} times and looked at the plans of the plant in the valley. "
    "Deliveries of the season went out on time, and the harbour crew number {n} was praised. "
    "Nothing else of note happened in week {n} of the year, says the keeper of the log.\n"
)


def report(name: str, facts: dict[int, str], weeks: int = 60) -> Document:
    """A document whose week n also holds ``facts[n]`` as a line of its own."""
    lines = [f"Annual report of {name}.\n"]
    for week in range(1, weeks + 1):
        lines.append(_FILLER.format(n=week))
        if week in facts:
            lines.append(facts[week] + "\n")
    return Document(doc_id=f"{name.lower()}.txt", text="".join(lines), sha256=name.lower())


ALDER = report("Alder", {20: "Alder spent 41 million crowns on research.", 45: "The chair of Alder is Ida Moss."})
BIRCH = report("Birch", {30: "Birch spent 38 million crowns on research.", 50: "Ida Moss grew up in Tarn."})
