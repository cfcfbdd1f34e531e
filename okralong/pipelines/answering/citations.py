"""Check the sources that a reply claims. Also structured replies, with one repair attempt.

A claim is valid if its words are in a passage of the prompt, ignoring spacing, quote marks, dashes and case. A bare
passage number cites the whole passage, or under the short contract, which asks for no more, the sentence or line that
shares most with answer and question. Other claims are dropped, even if the answer is left without citations: a wrong
source is worse than none.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Final, TypeVar

from okralong.pipelines.answering.context import prompt_fits
from okralong.pipelines.answering.prompt_text import HIDDEN, STAND_INS, Evidence, neutralise
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Citation, CutShort, Message, NobodyAsked, Passage, Reply, ReplyError

_TELLING = 20  # project default
"""Length in characters from which a quotation cannot match by chance.

Such a quotation may begin or end inside a word (a reply may be cut short) and be in a passage other than the one named.
"""

_DOUBLE = "\u201c\u201d\u201e\u00ab\u00bb\u201f\u2033"
_SINGLE = "\u2018\u2019\u201a`\u00b4\u2032"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_ALIKE = (
    {stand_in: char for char, stand_in in STAND_INS.items()}
    | dict.fromkeys(_DOUBLE, '"')
    | dict.fromkeys(_SINGLE, "'")
    | dict.fromkeys(_DASHES, "-")
)

_MOST_PLACES: Final = 1_000  # project default: bounds "a" in "aaaa"
"""The most positions inside words at which a quotation is tried."""

Span = tuple[int, int]


def find_citations(
    evidence: Iterable[Evidence], passages: Sequence[Passage], about: tuple[str, str] | None = None
) -> tuple[Citation, ...]:
    """Return the valid claims in the order of the reply, without duplicate spans.

    Args:
        evidence: The claims; number n refers to ``passages[n - 1]``.
        passages: The passages of the prompt, in the order shown.
        about: The answer and its question. If given, a bare number cites the passage's ``best_line`` instead of the
            whole passage.
    """
    shown = [_Shown(passage) for passage in passages]
    found = (citation for claim in evidence if (citation := _check(claim, shown, about)) is not None)
    return tuple(dict.fromkeys(found))


_LINE: Final = re.compile(r"\S(?:[^\n]*?\S)??(?=[.!?][\"'\u201d)\]]*\s|\s*(?:\n|\Z))[.!?]?[\"'\u201d)\]]*")
"""A sentence, or a line if that ends first, such as a table's row."""
_WORD: Final = re.compile(r"\d(?:[\d.,]*\d)?|[^\W\d_]+")
_OF_ANSWER: Final = 3.0  # project default
"""The weight of a word of the answer; one of the question has weight 1."""


def best_line(text: str, answer: str, question: str) -> Span:
    """Return the sentence or line of ``text`` that shares most with ``answer`` and ``question``.

    A shared word or number counts more the fewer lines contain it, and three times if it is in the answer. Ties go to
    the first line; if no line shares anything, all of ``text`` is returned.
    """
    spans = [match.span() for match in _LINE.finditer(text)]
    words = [_words(text[start:end]) for start, end in spans]
    held = Counter(word for line in words for word in line)
    weights = dict.fromkeys(_words(question), 1.0) | dict.fromkeys(_words(answer), _OF_ANSWER)
    scores = [sum(weights[word] / held[word] for word in line & weights.keys()) for line in words]
    best = max(scores, default=0.0)
    return spans[scores.index(best)] if best else (0, len(text))


def _words(text: str) -> frozenset[str]:
    return frozenset(word.replace(",", "").casefold() for word in _WORD.findall(_normalise(text)[0]))


class _Shown:
    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self._normalised: tuple[str, list[int]] | None = None

    def cite(self, span: Span) -> Citation:
        start, end = span
        passage = self.passage
        return Citation(passage.doc_id, passage.start_char + start, passage.start_char + end, passage.text[start:end])

    def find(self, quote: str) -> Span | None:
        exact = _find_words(self.passage.text, quote)
        if exact is not None:
            return exact
        words = _normalise(quote)[0].strip(" '\".…")
        if not any(char.isalnum() for char in words):
            return None
        if self._normalised is None:
            self._normalised = _normalise(self.passage.text)
        text, origin = self._normalised
        span = _find_words(text, words)
        return None if span is None else (origin[span[0]], origin[span[1] - 1] + 1)


def _check(claim: Evidence, shown: Sequence[_Shown], about: tuple[str, str] | None) -> Citation | None:
    named = shown[claim.passage - 1] if 1 <= claim.passage <= len(shown) else None
    if not claim.quote:
        if named is None:
            return None
        text = named.passage.text
        return named.cite((0, len(text)) if about is None else best_line(text, *about))
    places = [] if named is None else [named]
    if claim.passage == 0 or len(claim.quote) >= _TELLING:
        places += [place for place in shown if place is not named]
    for place in places:
        span = place.find(claim.quote)
        if span is not None:
            return place.cite(span)
    return None


def _find_words(text: str, words: str) -> Span | None:
    """Return the first occurrence of ``words`` between words of ``text``; long ones may also end inside a word."""
    if not any(char.isalnum() for char in words):
        return None
    start = text.find(words)
    first = start
    for _ in range(_MOST_PLACES):
        if start < 0:
            break
        end = start + len(words)
        if not _inside_word(text, start) and not _inside_word(text, end):
            return start, end
        start = text.find(words, start + 1)
    return (first, first + len(words)) if first >= 0 and len(words) >= _TELLING else None


def _inside_word(text: str, place: int) -> bool:
    return 0 < place < len(text) and text[place - 1].isalnum() and text[place].isalnum()


def _normalise(text: str) -> tuple[str, list[int]]:
    """Normalise spacing, quote marks, dashes and case; also return each character's original offset."""
    out: list[str] = []
    origin: list[int] = []
    for index, char in enumerate(text):
        if char.isspace() or HIDDEN.match(char):
            if out and out[-1] != " ":
                out.append(" ")
                origin.append(index)
            continue
        alike = _ALIKE.get(char) or unicodedata.normalize("NFKC", char).casefold()
        for one in alike:
            out.append(one)
            origin.append(index)
    return "".join(out), origin


# Structured replies: an analysis, sub-questions, a step. A question does not fail if a model breaks their form, because
# each caller has a fallback.

T = TypeVar("T")
Otherwise = TypeVar("Otherwise")

REPAIR: Final = "repair"
"""The last part of the step path of the second call."""
NOTHING: Final = "(nothing)"
"""Stands for an empty reply in the repair prompt: some servers reject empty messages."""

CallStep = Callable[[str, Sequence[Message]], Awaitable[Reply]]
"""Makes a step's call. Raises ReplyError for an empty reply."""


def always(messages: Sequence[Message]) -> bool:
    """Return True, as if any prompt fits."""
    return True


async def ask_for(tools: Tools, role: str, step: str, messages: Sequence[Message], read: Callable[[str], T]) -> T:
    """Call the generator in ``role`` and parse its reply with ``read``; see ``ask_and_read``."""
    fits = partial(prompt_fits, role=role, tools=tools)
    found, _ = await ask_and_read(partial(tools.complete, role=role), step, messages, read, fits)
    return found


async def ask_or(
    tools: Tools,
    role: str,
    step: str,
    messages: Sequence[Message],
    read: Callable[[str], T],
    otherwise: Otherwise,
) -> T | Otherwise:
    """Call ``ask_for``, but return ``otherwise`` if no reply is usable. Raises NobodyAsked."""
    try:
        return await ask_for(tools, role, step, messages, read)
    except NobodyAsked:
        raise
    except ReplyError:
        return otherwise


async def ask_and_read(
    ask: CallStep,
    step: str,
    messages: Sequence[Message],
    read: Callable[[str], T],
    fits: Callable[[Sequence[Message]], bool] = always,
    chars: int = 0,
) -> tuple[T, Reply]:
    """Return the parsed and the raw reply; request an unusable one once more.

    The second call shows the model its reply and the error. Like any other call, it is reserved, recorded in journal
    and ledger, and replayed by a rerun. Steps: ``step``, ``step/repair``.

    Args:
        ask: Makes the call.
        step: Step of the call.
        messages: The prompt.
        read: Parses a reply; raises ReplyError for an unusable one.
        fits: Returns whether a prompt fits the window; without room there is no second call.
        chars: Length of the text that ``read`` processes in addition to the reply.

    Raises:
        ReplyError: Neither reply is usable; the error has the raw text of both.
        CutShort: A reply reached its limit, as would another.
    """
    try:
        return await _read(ask, step, messages, read, chars)
    except (NobodyAsked, CutShort):
        raise
    except ReplyError as error:
        first = error
    further = repair_prompt(messages, first)
    if not fits(further):
        raise ReplyError(f"{first} There is no room in the window to show the model its error.", first.raw)
    try:
        return await _read(ask, f"{step}/{REPAIR}", further, read, chars)
    except NobodyAsked:
        raise
    except ReplyError as second:
        raise ReplyError(
            f"{second} It was asked for once more with the error shown. --retry failed asks anew; the raw text is in "
            "failures.",
            f"{first.raw or NOTHING}\n--- asked once more ---\n{second.raw or NOTHING}",
        ) from None


def repair_prompt(messages: Sequence[Message], error: ReplyError) -> list[Message]:
    """Return the messages, the unusable reply, and the error."""
    said = neutralise(error.raw).strip() or NOTHING
    complaint = f"This reply cannot be used: {neutralise(str(error))} Reply again, in the form that was asked for."
    return [*messages, Message("assistant", said), Message("user", complaint)]


async def _read(
    ask: CallStep, step: str, messages: Sequence[Message], read: Callable[[str], T], chars: int
) -> tuple[T, Reply]:
    reply = await ask(step, messages)
    try:
        return await off_loop(len(reply.text) + chars, partial(read, reply.text)), reply
    except ReplyError as error:
        raise ReplyError(str(error), reply.text) from error
