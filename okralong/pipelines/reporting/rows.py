"""One question of one run or cell as a report sees it, the means over such rows, and texts that may stand in a page."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import numpy as np

from okralong.pipelines.answering.prompt_text import HIDDEN
from okralong.pipelines.core.types import Question
from okralong.pipelines.reporting.metrics import Typed, answer_marks
from okralong.pipelines.reporting.statistics import DRAWS, Estimate, estimate, mean, mean_over_sets, resample

ACCURACY: Final[Mapping[str, str]] = {
    "f1": "F1",
    "em": "Exact match",
    "rouge_l": "ROUGE-L",
    "numeric": "Numeric match",
    "judge": "Judge",
    "judge_relevance": "Judge: relevance",
    "judge_correctness": "Judge: correctness",
    "judge_similarity": "Judge: similarity",
    "judge_faithfulness": "Judge: faithfulness",
    "answer_recall": "Answer recall",
    "evidence_recall": "Evidence recall",
    "citation_precision": "Citation precision",
}
"""Measures of 0 to 1 where more is better, by their column in a sweep's ``scores``."""

COST: Final[Mapping[str, str]] = {
    "weighted_tokens": "Tokens (input + 4 x output)",
    "alone_usd": "US dollars, alone",
    "billed_usd": "US dollars, billed",
    "seconds_total": "Seconds",
}
"""Measures where less is better."""

STAGES: Final[Mapping[str, str]] = {
    "seconds_analysis": "analysis",
    "seconds_retrieval": "retrieval",
    "seconds_generation": "generation",
}
"""What a sweep knows of a question's time, beside its total."""

MEASURES: Final[Mapping[str, str]] = {**ACCURACY, "confidence": "Confidence", **COST}

OPEN: Final = "over_budget"
"""The status of a question that the budget did not reach."""


@dataclass(frozen=True, slots=True)
class Row:
    """``method`` and ``dataset`` are "" in a run, which has one of each. ``type`` is gold, ``analysed`` the analyzer's
    word; either may be "". ``measures`` has those of ``ACCURACY`` and ``COST`` that are known. ``stages`` is wall time
    in seconds by stage. ``cluster`` names what the bootstrap draws together: the documents asked about.
    """

    query_id: str
    question: str = ""
    status: str = ""
    answer: str = ""
    type: str = ""
    analysed: str = ""
    workflow: str = ""
    cluster: str = ""
    method: str = ""
    dataset: str = ""
    cell: str = ""
    cited: bool = False
    measures: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)


def run_row(
    answer: Mapping[str, Any],
    gold: Question | None,
    alone_usd: float | None,
    evidence_recall: float | None,
    cluster: str,
) -> Row:
    """The row of an ``answers`` row. Without ``gold`` its accuracy is not known; a failed question scores 0, and of one
    that the budget did not reach nothing is known.

    ``alone_usd`` is what its calls would have cost without other runs' replies; None where there are no such replies.
    """
    asked = answer["status"] != OPEN
    seconds = dict(answer["seconds"] or ())
    measures = {
        "weighted_tokens": float(answer["weighted_tokens"] or 0),
        "billed_usd": float(answer["cost_usd"] or 0.0),
    }
    if alone_usd is not None:
        measures["alone_usd"] = alone_usd
    if "total" in seconds:
        measures["seconds_total"] = float(seconds["total"])
    if answer["confidence"] is not None:
        measures["confidence"] = float(answer["confidence"])
    if gold is not None:
        said_there = answer["status"] or "", answer["answer"] or ""
        marks = answer_marks("", *said_there, gold.answers, Typed.of(answer))
        known = {"f1": marks.f1, "em": marks.em, "numeric": marks.numeric}
        measures |= {name: mark for name, mark in known.items() if mark is not None}
    if evidence_recall is not None:
        measures["evidence_recall"] = evidence_recall
    return Row(
        query_id=answer["query_id"],
        question=answer["question"] or "",
        status=answer["status"] or "",
        answer=answer["answer"] or "",
        type="" if gold is None else gold.type,
        analysed=said(answer["analysis"], "type"),
        workflow=said(answer["plan"], "workflow"),
        cluster=cluster,
        cited=bool(answer["cited"]),
        measures=measures if asked else {},
        stages={stage: float(spent) for stage, spent in seconds.items() if asked and stage != "total"},
    )


def said(body: str | None, key: str) -> str:
    """The word under a key of an answer's analysis or plan, which are JSON; "" where there is none."""
    return str(json.loads(body).get(key) or "") if body else ""


def replied_by(answers: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Who gave the answers of a run, each with the number of rows that name it; the most first."""
    named = Counter(str(row["replied_by"]) for row in answers if row["replied_by"])
    return sorted(named.items(), key=lambda each: (-each[1], each[0]))


def in_order(held: Iterable[str], order: Iterable[str]) -> list[str]:
    """The names, each once: first the known ones in their ``order``, then the others by the alphabet."""
    names = set(held)
    known = [name for name in order if name in names]
    return known + sorted(names - set(known))


def known_measures(several: Iterable[Container[str]], measures: Iterable[str]) -> list[str]:
    """Those of the ``measures`` that any of several rows' or points' measures have."""
    held = list(several)
    return [measure for measure in measures if any(measure in each for each in held)]


# --------
# Means over rows with their 95 % intervals, documents drawn and not questions.

WEIGHTS: Final = 8_000_000
"""Draws times documents that are held at once, about 64 MB each; of more documents fewer draws are made. Ours."""


def figures(rows: Sequence[Row], measures: Sequence[str]) -> dict[str, Estimate]:
    """The mean of each measure over the rows that have it; measures that no row has are left out.

    All measures share their draws.
    """
    if not rows:
        return {}
    clusters = len({row.cluster for row in rows})
    drawn = resample([row.cluster for row in rows], draws=max(200, min(DRAWS, WEIGHTS // max(clusters, 1))))
    found = {}
    for measure in measures:
        values = np.array([row.measures.get(measure, np.nan) for row in rows], dtype=np.float64)
        if count := int((~np.isnan(values)).sum()):
            found[measure] = estimate(*mean(values, drawn), count)
    return found


def mean_over(groups: Mapping[str, Sequence[Row]], measure: str) -> Estimate | None:
    """The plain mean of the groups' means (of a method over its sets), each group redrawn by itself.

    None when a group has no row with the measure: a mean over fewer sets would be another figure.
    """
    held = [[row for row in rows if measure in row.measures] for rows in groups.values()]
    if not held or not all(held):
        return None
    means = [
        mean(np.array([row.measures[measure] for row in rows]), resample([row.cluster for row in rows], seed))
        for seed, rows in enumerate(held, start=8)
    ]
    return estimate(*mean_over_sets(means), sum(map(len, held)))


# --------
# Texts of documents, models and files as a page may hold them: bounded, and without characters that act unseen.

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def plain(text: object) -> str:
    """``text`` of the same length; control and bidirectional characters are blanks, halves of characters "�".

    Tags stay as they are: the page writes all text as text nodes, never as markup.
    """
    return _SURROGATE.sub("\ufffd", HIDDEN.sub(" ", str(text)))


_SHOWS_NOTHING: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and symbols that print a blank: Hangul fillers and the empty Braille pattern."""
_FORMULA: Final = ("=", "+", "-", "@")
"""First characters by which a spreadsheet takes a text for a formula (OWASP, CSV injection)."""


def as_seen(text: str) -> str:
    """The text as a lenient reader takes it: compatibility forms (full-width ones among them) as the plain characters,
    and no character that prints nothing.
    """
    return "".join(each for each in unicodedata.normalize("NFKC", text) if not _unseen(each))


def is_formula(text: str) -> bool:
    """Whether a spreadsheet may take a text for a formula, whatever unseen characters come before it."""
    forms = (unicodedata.normalize("NFKC", each) for each in text)
    seen = (each for form in forms for each in form if not (each.isspace() or _unseen(each)))
    return next(seen, "") in _FORMULA and next(seen, "") != ""


def _unseen(character: str) -> bool:
    """Whether a character prints nothing: controls but those that are blanks, formats, and variation selectors."""
    if character.isspace():
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Mn", "Me") or character in _SHOWS_NOTHING


def plained(value: Any) -> Any:
    """JSON values with all their texts ``plain``: what every piece of data passes on its way into a page."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key): plained(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plained(each) for each in value]
    return value


def bounded(text: object, limit: int) -> str:
    """The text's first ``limit`` characters, and after a cut how many more there were."""
    whole = str(text)
    return whole if len(whole) <= limit else f"{whole[:limit]} … [{len(whole) - limit:,} more characters]"


def public(value: Any) -> Any:
    """Return JSON values with absolute paths cut to their last part: a page travels further than a folder."""
    if isinstance(value, Mapping):
        return {key: public(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [public(each) for each in value]
    if isinstance(value, str):
        return PurePosixPath(value).name if value.startswith(("/", "~")) else value
    return value
