"""Answer metrics: token F1, exact match, numeric match and ROUGE-L, applied as each benchmark defines them.

An answer is compared with each gold answer; the best score counts.
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
_PUNCTUATION = str.maketrans("", "", string.punctuation + "。，、；：？！（）《》「」『』・")
_UNSPACED = re.compile("([\u0e00-\u0e7f\u3041-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff])")
"""Characters of Thai, Japanese and Chinese, which have no blanks between words."""


# --------
# Token F1 and exact match, as defined by SQuAD and adopted by LongBench and UDA.


def normalise(text: str) -> str:
    """Lower-case the text, remove ASCII and CJK punctuation, the articles "a", "an" and "the", and surplus blanks."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def token_f1(prediction: str, gold: str) -> float:
    """Return the harmonic mean of word precision and recall, 0 to 1. Repeated words count each time.

    In scripts without blanks, each character is a word, as the evaluation of CMRC 2018 has it for Chinese. If either
    text has no words, the score is 1 if both have none, else 0 (SQuAD 2.0).
    """
    found, wanted = (_UNSPACED.sub(r" \1 ", normalise(text)).split() for text in (prediction, gold))
    if not found or not wanted:
        return float(found == wanted)
    shared = (Counter(found) & Counter(wanted)).total()
    return 2 * shared / (len(found) + len(wanted))


def exact_match(prediction: str, gold: str) -> float:
    """Return 1 if the normalized texts are equal, else 0."""
    return float(normalise(prediction) == normalise(gold))


def best(metric: Callable[[str, str], float], prediction: str, golds: Iterable[str]) -> float:
    """Return the best score against any gold answer. Raises ValueError without gold answers."""
    return max(metric(prediction, gold) for gold in golds)


# --------
# Numeric match, in the style of FinQA: ignoring currency signs and separators, within 1 %.
#
# - A gold answer is a number only if it contains nothing but the number, a currency, a percent sign and a scale word
#   ("$ 93,662", "(461)", "17966 million"). A bare year ("2018") is not, because 2019 is within 1 % of it.
# - A prediction may contain other words but only one number. Bare years are ignored if another number remains.
# - Equal units are compared directly. A prediction in percent matches a plain gold answer as a fraction (12 % is 0.12).
#   A plain prediction matches a gold answer in percent as either (12 and 0.12 both match 12 %), because the question
#   may have named the unit.
# - Scale words multiply: "1.5 million" is "1,500,000". Signs count: "(461)" is -461.

TOLERANCE: Final = 0.01  # project default
"""The allowed difference, relative to the larger number. FinQA's evaluation rounds the numbers instead."""

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
    """A number in a text. ``value`` includes sign and scale; 12 % is 12 with ``percent``."""

    value: float
    percent: bool
    year_like: bool


def quantities(text: str) -> list[Quantity]:
    """Return the numbers of a text in order, ignoring digits inside words ("Q3", "10-K")."""
    return [_quantity(match) for match in _NUMBER.finditer(text)]


def gold_quantity(gold: str) -> Quantity | None:
    """Return the number that is the whole gold answer, or None for text or a bare year."""
    match = _NUMBER.fullmatch(gold.strip().rstrip("."))
    found = _quantity(match) if match else None
    return None if found is None or found.year_like else found


def committed_quantity(prediction: str) -> Quantity | None:
    """Return the only number in a prediction, or None if there are several or none."""
    found = quantities(prediction)
    found = [each for each in found if not each.year_like] or found
    return found[0] if len({(each.value, each.percent) for each in found}) == 1 else None


def numeric_match(prediction: str, golds: Iterable[str]) -> bool | None:
    """Return whether the prediction states one of the gold numbers; None if no gold answer is a number."""
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
# Plain words, used for ROUGE-L and to find duplicates.

_WORD: Final = re.compile(r"[^\W_]+")


def plain_words(text: str) -> list[str]:
    """Return the words of letters and digits in a text, NFKC-normalized and lower-cased."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).lower())


# --------
# ROUGE-L (Lin 2004, section 3): the longest common subsequence of words.
#
# Words are tokenized as in Google's ``rouge_score`` without stemming: runs of letters and digits, lower-cased. Each
# text is one sequence (Lin's sentence level), with equal weights of precision and recall, as LongBench (Bai et al.
# 2024) and QMSum report it. LongBench's package splits texts at full stops, so scores of long texts differ slightly.


def rouge_l(prediction: str, gold: str) -> float:
    """Return the harmonic mean of precision and recall of the longest common subsequence, 0 to 1.

    If either text has no words, the score is 1 if both have none, else 0.
    """
    said, wanted = plain_words(prediction), plain_words(gold)
    if not said or not wanted:
        return float(said == wanted)
    return 2 * common_subsequence(said, wanted) / (len(said) + len(wanted))


def common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest common subsequence of words."""
    above = [0] * (len(second) + 1)
    for word in first:
        row = [0]
        for at, other in enumerate(second):
            row.append(above[at] + 1 if word == other else max(above[at + 1], row[at]))
        above = row
    return above[-1]


# --------
# Scores of an answer by the rules of its benchmark.
#
# - LongBench (Bai et al. 2024) scores HotpotQA, 2WikiMultihopQA and MuSiQue by token F1 only.
# - UDA (Hui et al. 2024) scores papers as Qasper does: by token F1, where an answer that begins with yes or no is
#   reduced to that word if the gold answer is yes or no. It scores numbers of FinQA and TAT-QA by value: an answer that
#   is only a number has an F1 and EM of 1 or 0, regardless of rounding, and EM on FinQA extracts the number from a
#   sentence. Data sets of users are scored as TAT-QA.
#
# Differences from UDA's code: the tolerance is 1 % of the larger number and respects the sign (UDA: of the mean, so a
# negative mean makes any two numbers equal), a sentence must contain only one number (UDA takes the last), and repeated
# words count repeatedly (UDA's TAT-QA: once).

UNANSWERABLE: Final = "unanswerable"
"""The text of an answer with that status, which is the gold answer of some questions of Qasper and MuSiQue."""

BY_WORDS: Final = frozenset({"hotpotqa", "hotpotqa_pooled", "2wikimultihopqa", "musique", "longbench", "qmsum"})
"""Data sets that treat numbers as words (LongBench's metric; QMSum uses ROUGE)."""

PAPERS: Final = frozenset({"qasper", "qasper_annotations", "uda_paper_qa", "uda_bench_paper_qa"})
"""Data sets scored by Qasper's metric, which also treats numbers as words."""

NUMBERS_ALONE: Final = frozenset({"finqa", "uda_fin_qa", "uda_bench_fin_qa"})
"""Data sets whose exact match compares numbers (UDA)."""

YES_NO: Final = ("yes", "no")


@dataclass(frozen=True, slots=True)
class Marks:
    """Scores of 0 to 1, None without gold answers; ``numeric`` is None if no gold answer is a number."""

    f1: float | None = None
    em: float | None = None
    rouge_l: float | None = None
    numeric: float | None = None


@dataclass(frozen=True, slots=True)
class Typed:
    """The single value that a typed question asks for, and the value given, None if it does not fit the type."""

    kind: str
    value: TypedValue | None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Typed | None:
        """Read a row of ``answers``; None if the question asks for text, a list or an object."""
        wanted = AnswerType.of(row.get("answer_type") or "")
        if wanted.many or wanted.kind in ("text", SCHEMA):
            return None
        if row["value"] is None:
            return cls(wanted.kind, None)
        said = {name: row[name] or "" for name in ("value", "unit", "scale", "currency", "period")}
        return cls(wanted.kind, TypedValue(**said, number=row["number"]))


def answer_marks(dataset: str, status: str, answer: str, golds: Sequence[str], typed: Typed | None = None) -> Marks:
    """Return the best scores of an answer over its gold answers.

    A failed question scores 0; one that is over_budget has no score, because the method is not to blame. A ``typed``
    answer is right or wrong by value in every data set: "467460000" equals "$467,460 thousand", and all digits of the
    gold answer count.
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
    """Return F1 and EM, by value if the answer and a gold answer are bare numbers, else by words."""
    if right is None or gold_quantity(said) is None:
        return best(token_f1, said, golds), best(exact_match, said, golds)
    return float(right), float(right)


def _plain(dataset: str, said: str, gold: str) -> str:
    """Apply Qasper's rule for yes and no."""
    if dataset not in PAPERS or normalise(gold) not in YES_NO:
        return said
    return next((word for word in YES_NO if said.lower().startswith(word)), said)
