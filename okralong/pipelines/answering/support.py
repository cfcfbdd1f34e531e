"""Compare answers with text: numbers and dates by value, other words by stem.

This decides what an answer cites, and which amounts are refused since no passage states them.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from math import ceil
from typing import Final

import Stemmer

from okralong.pipelines.answering.analyzers.words import STOP_WORDS
from okralong.pipelines.answering.languages import language_of_text
from okralong.pipelines.core.sentences import boundaries, lines_of
from okralong.pipelines.core.types import Passage
from okralong.pipelines.statements.amounts import LETTERS, SCALES, WORD_SCALE, Amount, in_words
from okralong.pipelines.statements.locale_amounts import amounts_in
from okralong.pipelines.statements.locale_periods import dates_in, periods_in, years_in_text
from okralong.pipelines.statements.periods import Span, apart

_SCALE_NAMED: Final = re.compile(
    rf"\b(?P<word>{WORD_SCALE})s?\b|(?:[$€£¥]\s?|\(|\bin\s)(?P<letter>mn|mm|bn|tn|m|b)\b|['\u2019]?(?<![\d,.])(?P<zeros>000)s?\b",
    re.IGNORECASE,
)
"""The name of a scale in a sentence or in a table's head: "in thousands", "$m", "$000s"."""
_ROUNDS_FROM: Final = 3  # project default: two digits agree with many amounts by chance
"""An amount with fewer significant digits does not count as the rounded form of another."""


class Figures:
    """The amounts of some texts.

    An amount without a scale may be in any scale that the texts name. If the texts are only a ``part`` of a longer one,
    whose head may name the scale, it may be in any scale.
    """

    def __init__(self, texts: Iterable[str], part: bool = False, language: str | None = None) -> None:
        found: list[Amount] = []
        numbering: set[int] = set()
        factors = {Decimal(1), *(SCALES[word] for word in WORD_SCALE.split("|") if part)}
        zero = False
        for text in texts:
            here = amounts_in(text, language or language_of_text(text))
            starts = {match.start("number") for match in _NUMBERING.finditer(text)}
            numbering |= {id(each) for each in here if each.start in starts and not (each.currency or each.scale)}
            found += here
            found += in_words(text)
            factors |= {_factor(match) for match in _SCALE_NAMED.finditer(text)}
            zero = zero or _NOTHING.search(text) is not None
        self._zero = zero
        # An amount with "%" is never money, and one with a currency or scale never a percentage. A bare number, such as
        # a table's cell, may be either.
        self._shares = _Values([each for each in found if not (each.currency or each.scale)], {Decimal(1)})
        money = [each for each in found if each.unit != "%" and id(each) not in numbering]
        self._money = _Values(money, factors)
        self._all = _Values(found, factors)

    def have(self, said: Amount) -> bool:
        """Return whether one of the amounts equals ``said``, whatever its sign.

        The text may give the scale beside the amount, in the head of its table, or not at all. If ``said`` has at least
        three significant digits, it may be a rounded amount.
        """
        if not said.digits and self._zero:
            return True
        if said.unit == "%":
            return self._shares.have(said)
        return (self._money if said.currency or said.scale else self._all).have(said)

    def have_operand(self, digits: Decimal) -> bool:
        """Return whether a number of a formula is an amount in any scale, or a percentage written as a fraction."""
        forms = {digits * factor for factor in (Decimal(1), Decimal(100), *_THOUSANDS)}
        return any(self._all.equals(each) for each in forms | {digits / factor for factor in _THOUSANDS})


_NUMBERING: Final = re.compile(r"^[ \t]*+(?P<number>\d{1,2}(?:\.\d{1,2})?)[.)]?[ \t]++[^\W\d_]{2}", re.MULTILINE)
"""The number of a heading or list item, such as "2 Price": it is no amount of money."""


_NOTHING: Final = re.compile(r"(?<!\S)[-\u2013\u2014]{1,3}(?!\S)|\b(?:no|none|nil|not)\b", re.IGNORECASE)
"""How a text says zero: a dash that stands alone, or a word such as "none"."""
_THOUSANDS: Final = (Decimal(1000), Decimal(1_000_000), Decimal(1_000_000_000))


def _factor(named: re.Match[str]) -> Decimal:
    if named["zeros"]:
        return SCALES["thousand"]
    return SCALES[named["word"].lower() if named["word"] else LETTERS[named["letter"].lower()]]


class _Values:
    def __init__(self, found: Sequence[Amount], factors: Iterable[Decimal]) -> None:
        bare = {abs(each.digits) for each in found if not each.scale}
        scaled = [each for each in found if each.scale]
        self._bare = bare
        self._printed = bare | {abs(each.digits) for each in scaled}
        full = {abs(each.digits) * each.factor for each in scaled}
        self._full = full | {each * factor for each in bare for factor in factors}
        self._sorted: dict[bool, list[Decimal]] = {}

    def equals(self, digits: Decimal) -> bool:
        return digits in self._printed or digits in self._full

    def have(self, said: Amount) -> bool:
        digits = abs(said.digits)
        full = digits * said.factor
        if full in self._full or digits in (self._bare if said.scale else self._printed):
            return True
        if len(digits.normalize().as_tuple().digits) < _ROUNDS_FROM or not (said.scale or said.places):
            return False
        half = Decimal(5).scaleb(-said.places - 1) * said.factor
        if bool(said.scale) not in self._sorted:
            self._sorted[bool(said.scale)] = sorted(self._full if said.scale else self._printed)
        there = self._sorted[bool(said.scale)]
        at = bisect_left(there, full - half)
        return at < len(there) and there[at] <= full + half


# --------
# The sentence or row that supports an answer.

_WORD: Final = re.compile(r"[^\W\d_]+(?:['\u2019][^\W\d_]+)*")
_LETTER: Final = re.compile(r"['\u2019]s?\b")
_UNSAID: Final = STOP_WORDS | {"yes", "true", "false"}
"""Words of an answer or a question that its source need not contain."""


def stems(text: str) -> frozenset[str]:
    """Return the stems of a text's content words, without accents. A script without blanks gives long stems."""
    plain = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
    kept = {_LETTER.sub("", word) for word in _WORD.findall(plain.casefold())}
    kept = {word for word in kept if word not in _UNSAID and (len(word) > 1 or not word.isascii())}
    return frozenset(Stemmer.Stemmer("english").stemWords(sorted(kept)))


@dataclass(frozen=True)
class Sought:
    """What a text must contain to support an answer.

    Attributes:
        numbers: The answer's amounts.
        days: The answer's dates and years.
        words: The stems of the answer's content words.
        topic: The stems of the question's content words.
        language: The language of the passages, by which numbers and dates are read.
    """

    numbers: tuple[Amount, ...]
    days: tuple[str, ...]
    words: frozenset[str]
    topic: frozenset[str]
    language: str = "en"

    @classmethod
    def of(cls, answer: str, question: str, language: str = "en") -> Sought:
        """Return what a text must contain for ``answer``; for one such as "yes", only the question's topic."""
        answer = answer[:_LONGEST_ANSWER]
        written = _days(answer, language)
        taken = [span for span, _ in [*written, *periods_in(answer, language)]]
        there = [each for each in amounts_in(answer, language) if not each.year]
        numbers = apart(there, taken, lambda each: each.place)
        days = tuple(dict.fromkeys(day for _, day in written))
        return cls(tuple(numbers), days, stems(answer), stems(question), language)

    @property
    def is_open(self) -> bool:
        """True if the answer has no number, date or content word that a text could contain."""
        return not (self.numbers or self.days or self.words)

    @property
    def is_rare(self) -> bool:
        """True if a text can hardly contain the answer by chance: a long number, a whole date, or several words."""
        long = any(len(each.digits.normalize().as_tuple().digits) >= _LONG_NUMBER for each in self.numbers)
        return long or any(len(each) == _WHOLE_DATE for each in self.days) or len(self.words) > 1

    def share_in(self, text: str) -> float:
        """Return the share of the answer's numbers that a text contains; if it has none, of its dates, else its words.

        If the answer is a sentence with numbers, the share of its words counts if it is greater.
        """
        words = self._held(self.words, text) / len(self.words) if self.words else 0.0
        if self.numbers:
            there = Figures([text], part=True, language=self.language)
            numbers = sum(there.have(each) for each in self.numbers) / len(self.numbers)
            return max(numbers, words) if self._is_sentence else numbers
        if self.days:
            days = [day for _, day in _days(text, self.language)]
            found = sum(any(day.startswith(each) for day in days) for each in self.days)
            return found / len(self.days) if words or not self.words - _MONTHS else 0.0
        return words

    @property
    def _is_sentence(self) -> bool:
        return len(self.words) >= _SENTENCE_WORDS and self.numbers[0].start > _NUMBER_FIRST

    def is_held_in(self, text: str, doc_id: str = "", least: float = 0.0) -> bool:
        """Return whether a text supports the answer, or if the answer is open, whether it is about the question.

        The text must contain one of the answer's numbers or dates, or a third of its words if there are many, and at
        least the share ``least`` of the answer.
        """
        if self.is_open:
            return self.is_topic_of(text, doc_id, least=2 if least else 1) and len(stems(text)) > 1
        share = self.share_in(text)
        if share < least:
            return False
        if self.numbers or self.days:
            return share > (1 / 3 if self.numbers and self._is_sentence else 0)
        count, there = len(self.words), round(share * len(self.words))
        if count == 2 and there == 1:  # "Birch, for it is smaller"
            return self._held(self.topic - self.words, text) > 0
        return there >= (count if count < 3 else max(2, ceil(count / 3)))

    def is_topic_of(self, text: str, doc_id: str = "", least: int = 2) -> bool:
        """Return whether a text has ``least`` content words of the question, not counting the document's name."""
        topic = self.topic - stems(doc_id.replace("_", " ")) or self.topic
        return self._held(topic, text) >= min(least, len(topic)) > 0

    @staticmethod
    def _held(wanted: frozenset[str], text: str) -> int:
        if not wanted:
            return 0
        there = stems(text)
        whole = text.casefold() if any(not each.isascii() for each in wanted) else ""
        return sum(each in there or (not each.isascii() and each in whole) for each in wanted)


def _days(text: str, language: str) -> list[tuple[Span, str]]:
    """Return the dates of a text, and its years that are not part of a date."""
    found = dates_in(text, language)
    years = years_in_text(text, language, old=True)
    return found + apart(years, [span for span, _ in found], lambda each: each[0])


_MONTHS: Final = stems(
    "january february march april may june july august september october november december jan feb mar apr jun jul "
    "aug sep sept oct nov dec"
)

_LONGEST_ANSWER: Final = 4000  # project default
"""The most characters of an answer that are looked for."""
_LONG_NUMBER: Final = 4  # project default
"""A number with this many significant digits or more can hardly be in a text by chance."""
_WHOLE_DATE: Final = len("2023-06-30")
_SENTENCE_WORDS: Final = 4  # project default
"""An answer with this many content words or more may be a sentence."""
_NUMBER_FIRST: Final = 4  # project default
"""If an amount begins within this many characters of an answer's beginning, it is the answer, and the rest explains
it."""

LONGEST_UNIT: Final = 400  # project default
"""The most characters of a sentence that is cited as a whole; of a longer one, only a line is cited."""
_LINE: Final = re.compile(
    r"\S(?:[^\n]*?\S)??(?=[.!?][\"'\u201d)\]]*\s|[\u3002\uff01\uff1f]|\s*(?:\n|\Z))"
    r"[.!?\u3002\uff01\uff1f]?[\"'\u201d)\]]*"
)
"""A sentence, or its first line, such as a table's row, whichever ends first."""
_OF_ANSWER: Final = 3.0  # project default
"""The weight of a word of the answer; a word of the question has the weight 1."""


@lru_cache(maxsize=16)  # the values of a list search the same passages
def units(text: str) -> tuple[tuple[Span, frozenset[str]], ...]:
    """Return the spans of a text's sentences and table rows, in order, with their stems; a sentence may span lines."""
    cuts = {0, len(text), *boundaries(text, (), language_of_text(text))}
    at = 0
    for line in lines_of(text):
        if _ENDS_IN_FIGURES.search(line[-_ROW_END:]):
            cuts |= {at, at + len(line)}
        at += len(line) + 1
    spans: list[Span] = []
    for start, end in pairwise(sorted(cuts)):
        part = text[start:end]
        if len(part) > LONGEST_UNIT:
            spans += [(start + match.start(), start + match.end()) for match in _LINE.finditer(part)]
        elif part.strip():
            spans.append((start + len(part) - len(part.lstrip()), start + len(part.rstrip())))
    return tuple((span, stems(text[slice(*span)])) for span in spans)


_ENDS_IN_FIGURES: Final = re.compile(
    r"(?:[ \t|][$\u20ac\u00a3\u00a5(]{0,2} ?(?:\d[\d.,]*(?<=\d)|[\u2014\u2013-])\)? ?%?){2,}[ |]*\Z"
)
"""The end of a table row: two or more figures."""
_ROW_END: Final = 80  # project default
"""The last two figures of a table row are within this many characters of its end."""


def best_unit(sought: Sought, passages: Sequence[Passage], *, claimed: bool = False) -> tuple[Passage, Span] | None:
    """Return the sentence or row of the passages that supports the answer best, or None if none does.

    A word of the answer or the question counts more, the fewer sentences contain it. Of equals, the first is returned.

    Args:
        sought: What the sentence or row must contain.
        passages: The passages to search.
        claimed: Whether the reply names these passages. If not, the sentence of a common answer, such as a small
            number, must share a word with the question.
    """
    every = [(passage, *unit) for passage in passages for unit in units(passage.text)]
    held = Counter(word for _, _, words in every for word in words)
    anywhere = claimed or sought.is_rare
    best, score = None, -1.0
    for passage, span, words in every:
        weight = sum(1.0 / held[word] for word in words & sought.topic)
        weight += sum(_OF_ANSWER / held[word] for word in words & sought.words)
        if weight <= score or not (anywhere or weight):
            continue
        if sought.is_held_in(passage.text[slice(*span)], passage.doc_id, least=_HALF):
            best, score = (passage, span), weight
    return best


def best_line(text: str, question: str) -> Span:
    """Return the line of ``text`` that shares most words with ``question`` (rare ones count more), else all of it."""
    spans = [match.span() for match in _LINE.finditer(text)]
    words = [_plain_words(text[start:end]) for start, end in spans]
    held = Counter(word for line in words for word in line)
    scores = [sum(1.0 / held[word] for word in line & _plain_words(question)) for line in words]
    best = max(scores, default=0.0)
    return spans[scores.index(best)] if best else (0, len(text))


def _plain_words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.casefold()))


_HALF: Final = 0.5
"""The least share of an answer that its best sentence must contain."""
