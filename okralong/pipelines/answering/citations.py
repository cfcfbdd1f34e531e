"""Check the sources that a reply claims, and request structured replies, with one repair attempt.

A claim is a quotation or a bare passage number. A quotation is valid if its words are in a passage of the prompt;
differences in spacing, quote marks, dashes and case are ignored. Invalid claims are dropped. A source must contain the
answer. If no claim does, the sentence or table row that contains it is cited; if there is none, the answer has no
citations, since a wrong source is worse than none.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

from okralong.pipelines.answering.context import prompt_fits
from okralong.pipelines.answering.prompt_text import HIDDEN, STAND_INS, Evidence, neutralise
from okralong.pipelines.answering.support import Sought, best_unit, stems, units
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.languages import has_no_blanks
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Citation, CutShort, Message, NobodyAsked, Passage, Reply, ReplyError

_TELLING = 20  # project default
"""A quotation of at least this many characters cannot match by chance.

It may therefore begin or end inside a word (a reply may be cut short), and may be in another passage than the one
named."""

_DOUBLE = "\u201c\u201d\u201e\u00ab\u00bb\u201f\u2033\u300c\u300d\u300e\u300f"
_SINGLE = "\u2018\u2019\u201a`\u00b4\u2032"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"
_ALIKE = (
    {stand_in: char for char, stand_in in STAND_INS.items()}
    | dict.fromkeys(_DOUBLE, '"')
    | dict.fromkeys(_SINGLE, "'")
    | dict.fromkeys(_DASHES, "-")
)

_MOST_PLACES: Final = 1_000  # project default: bounds the search for "a" in "aaaa"
"""The most occurrences of a quotation that are tried; those inside a word do not count as found."""

Span = tuple[int, int]


def find_citations(evidence: Iterable[Evidence], passages: Sequence[Passage]) -> tuple[Citation, ...]:
    """Return the valid claims as citations, in the order of the reply, without duplicates.

    Args:
        evidence: The claims; number n refers to ``passages[n - 1]``. A number without a quotation cites the whole
            passage.
        passages: The passages of the prompt, in the order shown.
    """
    return tuple(dict.fromkeys(place.cite(span) for _, place, span in _valid(evidence, passages)))


def sources_of(evidence: Iterable[Evidence], passages: Sequence[Passage], sought: Sought) -> tuple[Citation, ...]:
    """Return the sources of an answer, those that contain it first; () if there is none or no claim is valid.

    A quotation that contains the answer is a source; if it has no other word, it is extended to its sentence or table
    row. The source for a bare passage number is the best sentence or row of that passage. If no claim contains the
    answer, the source is the best sentence or row of the claimed passages, else of all passages. Then follow the
    quotations without the answer that are about the question, such as those for earlier steps of a reasoning.

    Args:
        evidence: The claims; number n refers to ``passages[n - 1]``.
        passages: The passages of the prompt, in the order shown.
        sought: What a source must contain.
    """
    named: list[Passage] = []
    sources: list[Citation] = []
    others: list[Citation] = []
    for claim, place, span in _valid(evidence, passages):
        named.append(place.passage)
        text, doc_id = place.passage.text, place.passage.doc_id
        if not claim.quote:
            best = best_unit(sought, [place.passage], claimed=True)
            sources += [] if best is None else [place.cite(best[1])]
        elif sought.is_held_in(text[slice(*span)], doc_id):
            sources.append(place.cite(_with_its_words(sought, text, span)))
        elif sought.is_topic_of(text[slice(*span)], doc_id):
            others.append(place.cite(span))
    if not sources and named:
        best = best_unit(sought, named, claimed=True) or best_unit(sought, passages)
        sources = [] if best is None else [_Shown(best[0]).cite(best[1])]
    others = [each for each in others if sources and not any(_within(each, source) for source in sources)]
    return tuple(dict.fromkeys([*sources, *others]))


def _within(one: Citation, other: Citation) -> bool:
    return one.doc_id == other.doc_id and other.start_char <= one.start_char and one.end_char <= other.end_char


def _with_its_words(sought: Sought, text: str, span: Span) -> Span:
    """Return ``span``, extended to its sentence or table row if it has no word besides the answer."""
    if stems(text[slice(*span)]) - sought.words:
        return span
    return next((unit for unit, _ in units(text) if unit[0] <= span[0] and span[1] <= unit[1]), span)


class _Shown:
    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self._text = _Searched(passage.text)
        self._compact = _Searched(_without_bars(passage.shown_text)) if passage.shown else None

    def cite(self, span: Span) -> Citation:
        start, end = span
        passage = self.passage
        return Citation(passage.doc_id, passage.start_char + start, passage.start_char + end, passage.text[start:end])

    def find(self, quote: str) -> Span | None:
        """Return the place of a quotation in the passage's text; one from a compact table cites its rows."""
        written = self._text.find(quote)
        if self._compact is None or (written is not None and self._is_shown(written)):
            return written
        shown = self._compact.find(_without_bars(quote))
        return None if shown is None else self.passage.span_of(*shown)

    def _is_shown(self, span: Span) -> bool:
        start, end = self.passage.start_char + span[0], self.passage.start_char + span[1]
        return any(first < end and last > start for first, last in self.passage.places)


def _without_bars(text: str) -> str:
    """Return a text with a blank for each bar: models add blanks around the bars of a compact table."""
    return text.replace("|", " ")


class _Searched:
    """A text in which quotations are searched; it is normalized at most once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._normalised: tuple[str, list[int]] | None = None

    def find(self, quote: str) -> Span | None:
        exact = _find_words(self._text, quote)
        if exact is not None:
            return exact
        words = _normalise(quote)[0].strip(" '\".…")
        if not any(char.isalnum() for char in words):
            return None
        if self._normalised is None:
            self._normalised = _normalise(self._text)
        text, origin = self._normalised
        span = _find_words(text, words)
        if span is None:
            return None
        end = origin[span[1] - 1] + 1
        while end < len(self._text) and unicodedata.combining(self._text[end]):
            end += 1
        return origin[span[0]], end


def _valid(evidence: Iterable[Evidence], passages: Sequence[Passage]) -> Iterator[tuple[Evidence, _Shown, Span]]:
    """Yield each valid claim with its passage and its span there; for a bare number, the span of the whole passage."""
    shown = [_Shown(passage) for passage in passages]
    for claim in evidence:
        named = shown[claim.passage - 1] if 1 <= claim.passage <= len(shown) else None
        if not claim.quote:
            if named is not None and named.passage.text:
                yield claim, named, (0, len(named.passage.text))
            continue
        places = [] if named is None else [named]
        if claim.passage == 0 or len(claim.quote) >= _TELLING:
            places += [place for place in shown if place is not named]
        found = ((place, span) for place in places if (span := place.find(claim.quote)) is not None)
        if (first := next(found, None)) is not None:
            yield claim, *first


def _find_words(text: str, words: str) -> Span | None:
    """Return the first occurrence of ``words`` at word boundaries, or if ``words`` is long, the first anywhere."""
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
    return (
        0 < place < len(text)
        and text[place - 1].isalnum()
        and text[place].isalnum()
        and not (has_no_blanks(text[place - 1]) or has_no_blanks(text[place]))
    )


def _normalise(text: str) -> tuple[str, list[int]]:
    """Normalize spacing, quote marks, dashes, case and composition; also return each character's original offset."""
    out: list[str] = []
    origin: list[int] = []
    for index, char in enumerate(text):
        if char.isspace() or HIDDEN.match(char):
            # Blanks beside Chinese or Japanese characters are layout.
            if out and out[-1] != " " and not has_no_blanks(out[-1]):
                out.append(" ")
                origin.append(index)
            continue
        if out and unicodedata.combining(char) and len(joined := unicodedata.normalize("NFC", out[-1] + char)) == 1:
            out[-1] = joined
            continue
        alike = _ALIKE.get(char) or unicodedata.normalize("NFKC", char).casefold()
        if out and out[-1] == " " and has_no_blanks(alike[:1]):
            out.pop()
            origin.pop()
        for one in alike:
            out.append(one)
            origin.append(index)
    return "".join(out), origin


# Structured replies: an analysis, sub-questions, a step. If a model breaks their form, the question does not fail,
# because each caller has a fallback.

T = TypeVar("T")
Otherwise = TypeVar("Otherwise")

REPAIR: Final = "repair"
"""The last part of the second call's step path."""
NOTHING: Final = "(nothing)"
"""Replaces an empty reply in the repair prompt, since some servers reject empty messages."""

CallStep = Callable[[str, Sequence[Message]], Awaitable[Reply]]
"""Makes the call of a step. Raises ReplyError for an empty reply."""


def always(messages: Sequence[Message]) -> bool:
    """Return True: any prompt fits the window."""
    return True


async def ask_for(tools: Tools, role: str, step: str, messages: Sequence[Message], read: Callable[[str], T]) -> T:
    """Call the generator in ``role`` and return its reply as parsed by ``read``; see ``ask_and_read``."""
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
    """Call ``ask_for``, but return ``otherwise`` if no reply is usable. Raises NobodyAsked if there is no generator."""
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
    """Return the parsed and the raw reply; if the first is unusable, make a second call.

    The second call shows the model its reply and the error. Like any other call, it is reserved in the budget, recorded
    in journal and ledger, and replayed by a rerun. Steps: ``step``, ``step/repair``.

    Args:
        ask: Makes the call.
        step: Step path of the first call.
        messages: The prompt.
        read: Parses a reply; raises ReplyError for an unusable one.
        fits: Returns whether a prompt fits the window; if the repair prompt does not, there is no second call.
        chars: Number of characters that ``read`` processes in addition to the reply.

    Raises:
        ReplyError: No reply is usable; the error has the raw text of both.
        CutShort: A reply reached its token limit; a second one would, too.
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
    """Return ``messages``, followed by the unusable reply and what was wrong with it."""
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
