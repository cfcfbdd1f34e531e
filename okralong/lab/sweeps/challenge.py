"""The marks of the Enterprise RAG Challenge: is the value right, and are the right pages cited?

The challenge calls them G and R. Its repository (trustbit/enterprise-rag-challenge, ``rank.py``) has the code of the
first only. There, a number that is off by more than 1 % and less than 10 % has half a mark, and here none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from okralong.lab.datasets.pooling import Span
from okralong.pipelines.reporting.metrics import UNANSWERABLE

TOLERANCE: Final = 0.01
"""The allowed difference of a number, relative to the gold one (``rank.py``)."""


def value_mark(kind: str, row: Mapping[str, Any], golds: Sequence[str]) -> float:
    """Return the mark, 0 to 1, of a row of ``answers``, the best over the gold answers.

    A number is right within ``TOLERANCE``. A truth value ("yes", "no"), a name and "unanswerable", which is the
    challenge's N/A, are right if they are equal. Names have the share that both lists have in common. A failed question
    and one without a valid reply have 0.
    """
    if row["status"] not in ("answered", "unanswerable"):
        return 0.0
    return max((_mark(kind, said_in(row, kind), gold) for gold in golds), default=0.0)


def said_in(row: Mapping[str, Any], kind: str) -> str:
    """Return what an answer says: a number in full, "yes" or "no", words, or "unanswerable"."""
    if row["status"] != "answered":
        return UNANSWERABLE
    said = row["value"] if kind in ("number", "boolean") else row["answer"]
    return str(said or "") or UNANSWERABLE


def _mark(kind: str, said: str, gold: str) -> float:
    one, other = _plain(said), _plain(gold)
    if UNANSWERABLE in (one, other):
        return float(one == other)
    if kind == "number":
        try:
            mine, true = (float(each.replace(",", "").replace("\u2212", "-").rstrip("%")) for each in (said, gold))
        except ValueError:
            return float(said.strip() == gold.strip())
        return float(abs(mine - true) <= TOLERANCE * abs(true))
    if one == other:
        return 1.0
    if kind == "names":
        mine_, true_ = ({_plain(name) for name in re.split(r"[;,\n]", text)} for text in (said, gold))
        return len(mine_ & true_) / len(mine_ | true_)
    return 0.0


def _plain(text: str) -> str:
    return " ".join(re.findall(r"[\w/.]+", text.casefold()))


def page_mark(citations: Sequence[Span], pools: Sequence[Sequence[Span]]) -> float | None:
    """Return the share of ``pools`` of pages of which a page is cited; None for a question without gold pages."""
    if not pools:
        return None
    return sum(any(_touches(cited, page) for cited in citations for page in pool) for pool in pools) / len(pools)


def _touches(cited: Span, page: Span) -> bool:
    return cited.doc_id == page.doc_id and cited.start_char < page.end_char and page.start_char < cited.end_char
