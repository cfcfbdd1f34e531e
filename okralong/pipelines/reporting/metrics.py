"""The marks of an answer: token F1 and exact match, numeric match, ROUGE-L, and which of them a benchmark takes.

An answer is held against each gold answer and keeps its best mark.
"""

from __future__ import annotations

import math
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from okralong.pipelines.answering.answer_types import AMOUNTS, SCHEMA, AnswerType
from okralong.pipelines.core.types import TypedValue
from okralong.pipelines.statements.values import agrees

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


# --------
# Token F1 and exact match, as SQuAD defined them and LongBench and UDA took them over.


def normalise(text: str) -> str:
    """The text as the two metrics see it: lower-cased, without its ASCII punctuation and then without the articles "a",
    "an" and "the", words with one space between them.
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(prediction: str, gold: str) -> float:
    """Harmonic mean of the precision and recall of words, each counted as often as it stands there; 0 to 1.

    Where one of the two has no word left, it is 1 if both have none and else 0 (the rule of SQuAD 2.0).
    """
    found, wanted = normalise(prediction).split(), normalise(gold).split()
    if not found or not wanted:
        return float(found == wanted)
    shared = (Counter(found) & Counter(wanted)).total()
    return 2 * shared / (len(found) + len(wanted))


def exact_match(prediction: str, gold: str) -> float:
    """1 when the normalised texts are the same, else 0."""
    return float(normalise(prediction) == normalise(gold))


def best(metric: Callable[[str, str], float], prediction: str, golds: Iterable[str]) -> float:
    """The best mark of a prediction against any of the gold answers. Raises ValueError when there is none."""
    return max(metric(prediction, gold) for gold in golds)


# --------
# Does an answer give the gold number? In the way of FinQA: signs of currency and separators aside, within 1 %.
#
# What is compared with what:
#
# - A gold answer counts as a number only when nothing else stands in it but currency, percent sign and a word of scale
# ("$ 93,662", "(461)", "17966 million"). A bare year ("2018") does not: 2019 lies within 1 % of it. - A prediction may
# have words around its number, but must commit itself to one: bare years are left aside where another number remains,
# and of two different numbers neither counts. - Percent against percent and plain against plain are compared as they
# stand. A prediction in percent meets a plain gold as a fraction (12 % is 0.12, never 12). A plain prediction meets a
# gold in percent as either, since the unit may have been in the question: 12 and 0.12 both meet 12 %. - Words of scale
# multiply: "1.5 million" is "1,500,000". Signs count: "(461)" is -461 and not 461.

TOLERANCE: Final = 0.01
"""Relative to the larger of the two numbers. Ours; the FinQA evaluation rounds instead."""

_SCALES: Final = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}
_NUMBER: Final = re.compile(
    r"(?<![\w.,])(?P<open>\()?\s*(?P<sign>[-\u2212\u2013])?(?P<currency>[$€£]\s*)?(?P<inner>[-\u2212\u2013])?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)(?![\w]|[.,]\d|-[a-z])"
    r"\s*(?P<close>\))?\s*(?P<percent>%|per\s?cent\b)?\s*(?P<late>\))?"
    r"(?:\s*(?P<scale>thousand|million|billion|trillion)s?\b)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number as it was written. ``value`` has its sign and scale; 12 % is 12 with ``percent``."""

    value: float
    percent: bool
    year_like: bool


def quantities(text: str) -> list[Quantity]:
    """The numbers of a text in their order. Digits inside words ("Q3", "10-K") are none."""
    return [_quantity(match) for match in _NUMBER.finditer(text)]


def gold_quantity(gold: str) -> Quantity | None:
    """The number that a gold answer is, or None when it is a text or a bare year."""
    match = _NUMBER.fullmatch(gold.strip().rstrip("."))
    found = _quantity(match) if match else None
    return None if found is None or found.year_like else found


def committed_quantity(prediction: str) -> Quantity | None:
    """The one number to which a prediction commits itself, or None."""
    found = quantities(prediction)
    found = [each for each in found if not each.year_like] or found
    return found[0] if len({(each.value, each.percent) for each in found}) == 1 else None


def numeric_match(prediction: str, golds: Iterable[str]) -> bool | None:
    """Whether the prediction gives one of the gold numbers; None when no gold answer is a number."""
    numbers = [number for gold in golds if (number := gold_quantity(gold)) is not None]
    if not numbers:
        return None
    said = committed_quantity(prediction)
    return said is not None and any(_agree(said, number) for number in numbers)


def _agree(said: Quantity, gold: Quantity) -> bool:
    if said.percent == gold.percent:
        return _close(said.value, gold.value)
    if said.percent:
        return _close(said.value / 100, gold.value)
    return _close(said.value, gold.value) or _close(said.value, gold.value / 100)


def _close(first: float, second: float) -> bool:
    return math.isclose(first, second, rel_tol=TOLERANCE)


def _quantity(match: re.Match[str]) -> Quantity:
    digits = match["digits"]
    bracketed = match["open"] and (match["close"] or match["late"])
    negative = bool(bracketed) != bool(match["sign"] or match["inner"])
    value = float(digits.replace(",", "")) * _SCALES.get((match["scale"] or "").lower(), 1.0)
    plain = len(digits) == 4 and digits.isdigit() and not (match["percent"] or match["scale"] or match["currency"])
    return Quantity(-value if negative else value, bool(match["percent"]), plain and 1900 <= value <= 2100)


# --------
# The words of a text as duplicates are found by: lower-cased, without punctuation.

_WORD: Final = re.compile(r"[^\W_]+")


def plain_words(text: str) -> list[str]:
    """The letters-and-digits words of a text, lower-cased, compatibility characters made plain."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


# --------
# ROUGE-L of Lin (2004), section 3: how much of two texts is a common subsequence of words.
#
# Words are those of Google's ``rouge_score`` without its stemmer: runs of letters and digits, lower-cased. Each text
# is one sequence (Lin's sentence level), and precision and recall weigh alike, as LongBench (Bai et al. 2024) and
# QMSum report it. LongBench's package cuts texts at full stops and takes the union over them, so long texts differ a
# little.


def rouge_l(prediction: str, gold: str) -> float:
    """The harmonic mean of precision and recall of the longest common subsequence, 0 to 1.

    Where one of the texts has no word it is 1 if neither has and else 0, as for ``token_f1``.
    """
    said, wanted = plain_words(prediction), plain_words(gold)
    if not said or not wanted:
        return float(said == wanted)
    return 2 * common_subsequence(said, wanted) / (len(said) + len(wanted))


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest sequence of words that stands in both, in order, with or without gaps."""
    above = [0] * (len(second) + 1)
    for word in first:
        row = [0]
        for at, other in enumerate(second):
            row.append(above[at] + 1 if word == other else max(above[at + 1], row[at]))
        above = row
    return above[-1]


# --------
# The marks of an answer against its gold answers, each as the benchmark that the question comes from defines it.
#
# - LongBench (Bai et al. 2024) marks HotpotQA, 2WikiMultihopQA and MuSiQue by the F1 of words alone. - UDA (Hui et al.
# 2024) marks papers as Qasper does: by the F1 of words, where an answer that begins with yes or no is that word if the
# gold answer is one of the two. It marks numbers of FinQA and TAT-QA by value: an answer that is nothing but a number
# has F1 and EM 1 or 0, however it was rounded, and EM on FinQA takes the number out of a sentence. Sets of one's own
# are marked as TAT-QA.
#
# What differs from UDA's own code: the tolerance is 1 % of the larger number and keeps the sign (UDA: of the mean,
# where a negative mean makes any two numbers equal), a sentence must commit itself to one number (UDA takes the last),
# and words are counted as often as they stand there (UDA's TAT-QA: once each).

UNANSWERABLE: Final = "unanswerable"
"""What an answer of that status says; a set whose gold answer it is (Qasper, MuSiQue) takes it for right."""

BY_WORDS: Final = frozenset({"hotpotqa", "hotpotqa_pooled", "2wikimultihopqa", "musique", "longbench", "qmsum"})
"""Sets whose numbers are words like any other (LongBench's own metric; QMSum's is ROUGE)."""

PAPERS: Final = frozenset({"qasper", "qasper_annotations", "uda_paper_qa", "uda_bench_paper_qa"})
"""Sets that Qasper's metric marks; numbers are words there too."""

NUMBERS_ALONE: Final = frozenset({"finqa", "uda_fin_qa", "uda_bench_fin_qa"})
"""Sets whose exact match is that of numbers (UDA)."""

YES_NO: Final = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Marks:
    """0 to 1 each; None where not defined: all without gold answers, ``numeric`` where no gold answer is a number."""

    f1: float | None = None
    em: float | None = None
    rouge_l: float | None = None
    numeric: float | None = None


@dataclass(frozen=True, slots=True)
class Typed:
    """What a question's ``answer_type`` asks for, a single value, and which was given; None: none that fits."""

    kind: str
    value: TypedValue | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Typed | None:
        """Of a row of ``answers``; None where the question asks for words, a list or an object."""
        wanted = AnswerType.of(row.get("answer_type") or "")
        if wanted.many or wanted.kind in ("text", SCHEMA):
            return None
        if row["value"] is None:
            return cls(wanted.kind, None)
        said = {name: row[name] or "" for name in ("value", "unit", "scale", "currency", "period")}
        return cls(wanted.kind, TypedValue(**said, number=row["number"]))


def answer_marks(dataset: str, status: str, answer: str, golds: Sequence[str], typed: Typed | None = None) -> Marks:
    """The marks of an answer of ``status`` to a question of ``dataset``, the best over its gold answers.

    A question that failed has marks of 0; one that the budget did not reach has none, since the method is not to blame.
    The value of a ``typed`` question is right or wrong as a value, whatever set it is of: "467460000" and "$467,460
    thousand" are the same, and all digits count that the gold answer gives.
    """
    if not golds or status == "over_budget":
        return Marks()
    if typed is not None and status in ("answered", "invalid_output"):
        mark = float(typed.value is not None and any(agrees(typed.kind, typed.value, gold) for gold in golds))
        return Marks(mark, mark, best(rouge_l, answer, golds), mark if typed.kind in AMOUNTS else None)
    said = {"answered": answer, "unanswerable": UNANSWERABLE}.get(status, "")
    right = numeric_match(said, golds)
    numeric = None if right is None else float(right)
    if dataset in BY_WORDS or dataset in PAPERS:
        f1 = max(token_f1(_plain(dataset, said, gold), gold) for gold in golds)
        em = max(exact_match(_plain(dataset, said, gold), gold) for gold in golds)
    else:
        f1, em = _by_value(said, golds, right)
        em = numeric if dataset in NUMBERS_ALONE and numeric is not None else em
    return Marks(f1, em, best(rouge_l, said, golds), numeric)


def _by_value(said: str, golds: Sequence[str], right: bool | None) -> tuple[float, float]:
    """F1 and EM where a bare number is right or wrong by its value, and all else is words."""
    if right is None or gold_quantity(said) is None:
        return best(token_f1, said, golds), best(exact_match, said, golds)
    return float(right), float(right)


def _plain(dataset: str, said: str, gold: str) -> str:
    """Qasper's rule for yes and no; any other answer as it is."""
    if dataset not in PAPERS or normalise(gold) not in YES_NO:
        return said
    return next((word for word in YES_NO if said.lower().startswith(word)), said)
