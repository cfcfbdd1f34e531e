"""The questions of a report as rows, means over rows, and the sanitizing of untrusted text."""

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
"""Measures from 0 to 1 where more is better, by their column in a sweep's ``scores``."""

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
"""Stages of a question's time in a sweep, by column."""

MEASURES: Final[Mapping[str, str]] = {**ACCURACY, "confidence": "Confidence", **COST}

OPEN: Final = "over_budget"
"""The status of a question that was not asked for lack of budget."""


@dataclass(frozen=True, slots=True)
class Row:
    """One question of a run or of a sweep's cell.

    Attributes:
        type: The gold type, or "".
        analysed: The type found by the analyzer, or "".
        cluster: Name of the documents asked about; the bootstrap draws whole clusters.
        method: "" in a run.
        dataset: "" in a run.
        replied_by: What gave the answer (see ``answers.replied_by``), or "".
        correction: The state of its correction, or "".
        measures: Known values of ``ACCURACY`` and ``COST``.
        stages: Wall time in seconds by stage.
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
    replied_by: str = ""
    correction: str = ""
    cited: bool = False
    measures: Mapping[str, float] = field(default_factory=dict)
    stages: Mapping[str, float] = field(default_factory=dict)


def run_row(
    answer: Mapping[str, Any],
    gold: Question | None,
    alone_usd: float | None,
    evidence_recall: float | None,
    cluster: str,
    correction: str = "",
) -> Row:
    """Convert a row of ``answers``. A failed question scores 0; one that is over_budget has no measures.

    ``gold`` is the question with gold answers, if known. ``alone_usd`` is the cost without replies from other runs,
    None if there are none. ``correction`` is the state of the answer's correction.
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
        replied_by=public(answer["replied_by"] or ""),
        correction=correction,
        cited=bool(answer["cited"]),
        measures=measures if asked else {},
        stages={stage: float(spent) for stage, spent in seconds.items() if asked and stage != "total"},
    )


def said(body: str | None, key: str) -> str:
    """Return the value of a key of a JSON text, an analysis or a plan, or ""."""
    return str(json.loads(body).get(key) or "") if body else ""


def replied_by(answers: Iterable[Mapping[str, Any]]) -> list[tuple[str, int]]:
    """Count the answers by replying model, most frequent first."""
    named = Counter(str(row["replied_by"]) for row in answers if row["replied_by"])
    return sorted(named.items(), key=lambda each: (-each[1], each[0]))


def in_order(held: Iterable[str], order: Iterable[str]) -> list[str]:
    """Return the distinct names: those in ``order`` first, then the others alphabetically."""
    names = set(held)
    known = [name for name in order if name in names]
    return known + sorted(names - set(known))


def known_measures(several: Iterable[Container[str]], measures: Iterable[str]) -> list[str]:
    """Return the ``measures`` that any of ``several`` contains."""
    held = list(several)
    return [measure for measure in measures if any(measure in each for each in held)]


# --------
# Means over rows with 95 % intervals from a bootstrap over documents.

WEIGHTS: Final = 8_000_000  # project default
"""Maximum of draws times documents in memory (64 MB); with more documents there are fewer draws."""


def figures(rows: Sequence[Row], measures: Sequence[str]) -> dict[str, Estimate]:
    """Return the mean of each measure over the rows that have it, all with the same draws."""
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
    """Return the unweighted mean of the groups' means, each group drawn separately.

    None if a group has no row with the measure, because a mean over fewer groups would not be comparable.
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
# Sanitizing of text from documents, models and files: bounded, and without invisible control characters.

_SURROGATE = re.compile(r"[\ud800-\udfff]")


def plain(text: object) -> str:
    """Replace control and bidirectional characters with blanks and lone surrogates with "�", keeping the length.

    Tags are kept, because the page writes all text as text nodes.
    """
    return _SURROGATE.sub("\ufffd", HIDDEN.sub(" ", str(text)))


_SHOWS_NOTHING: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Characters that look blank: Hangul fillers and the empty Braille pattern."""
_FORMULA: Final = ("=", "+", "-", "@")
"""First characters that make a text a formula in spreadsheets (OWASP, CSV injection)."""


def as_seen(text: str) -> str:
    """Normalize compatibility forms (such as full-width letters) and remove invisible characters."""
    return "".join(each for each in unicodedata.normalize("NFKC", text) if not _unseen(each))


def is_formula(text: str) -> bool:
    """Return whether a spreadsheet may take the text for a formula, ignoring leading invisible characters."""
    forms = (unicodedata.normalize("NFKC", each) for each in text)
    seen = (each for form in forms for each in form if not (each.isspace() or _unseen(each)))
    return next(seen, "") in _FORMULA and next(seen, "") != ""


def _unseen(character: str) -> bool:
    """Return whether a character is invisible: controls, formats and variation selectors, but not blanks."""
    if character.isspace():
        return False
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Mn", "Me") or character in _SHOWS_NOTHING


def plained(value: Any) -> Any:
    """Apply ``plain`` to all texts of a JSON value. All data of a page passes through here."""
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, Mapping):
        return {plain(key): plained(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plained(each) for each in value]
    return value


def bounded(text: object, limit: int) -> str:
    """Truncate the text to ``limit`` characters, followed by the number of omitted ones."""
    whole = str(text)
    return whole if len(whole) <= limit else f"{whole[:limit]} … [{len(whole) - limit:,} more characters]"


def public(value: Any) -> Any:
    """Shorten absolute paths in a JSON value to their last part, because pages are shared with others."""
    if isinstance(value, Mapping):
        return {key: public(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [public(each) for each in value]
    if isinstance(value, str):
        return PurePosixPath(value).name if value.startswith(("/", "~")) else value
    return value
