"""The answer call: build the prompt, call the generator, parse the reply into an answer with citations.

Also answer from the long context, that is, from whole documents.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from okralong.pipelines.answering.answer_types import (
    AMOUNTS,
    SCHEMA,
    TEXT,
    AnswerType,
    context_of,
    leaves,
    misfit,
    typed_value,
)
from okralong.pipelines.answering.calculator import calculate
from okralong.pipelines.answering.citations import ask_and_read, find_citations, sources_of
from okralong.pipelines.answering.context import (
    BuildPrompt,
    fit_passages,
    merge,
    most_that_fits,
    passage_of,
    prompt_fits,
)
from okralong.pipelines.answering.languages import language_of_passages
from okralong.pipelines.answering.policy import FALLBACK_COUNT, FALLBACK_GRANULARITY
from okralong.pipelines.answering.prompt_text import Evidence, repeats_itself, repeats_prompt
from okralong.pipelines.answering.prompts import (
    UNANSWERABLE,
    SaidValue,
    answer_prompt,
    ends_within_answer,
    parse_answer,
    read_typed,
)
from okralong.pipelines.answering.stated import YEAR_DIGITS, Stated, sought_for
from okralong.pipelines.answering.support import best_line
from okralong.pipelines.answering.tools import Tools
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import (
    Answer,
    Citation,
    CutShort,
    Document,
    Hit,
    Message,
    NobodyAsked,
    Passage,
    Reply,
    ReplyError,
    Way,
)
from okralong.pipelines.statements.values import Context

LONGER: Final = "longer"
"""The last part of the step path of a second call, with more room for the reply."""


async def generate(
    tools: Tools,
    step: str,
    question: str,
    passages: Sequence[Passage],
    hits: Sequence[Hit] = (),
    *,
    role: str = "generate",
    cite_in: Callable[[Sequence[Passage]], Sequence[Passage]] | None = None,
) -> Answer:
    """Answer ``question`` from as many ``passages`` as fit the window.

    If the token limit cut the reply within the answer, a second call has more room (``whole_reply``). If the reply does
    not fit the answer type, a second call asks for a repair (``step/repair``); if its reply does not fit either, the
    answer is ``invalid_output`` with the raw text of both replies.

    Args:
        tools: The tools of the question.
        step: Step of the call.
        question: The question.
        passages: The passages to show. If empty, no call is made and the answer is "unanswerable".
        hits: The chunks of the passages, most important first. If not all fit, the last ones are dropped.
        role: Key of ``llm.max_completion_tokens``.
        cite_in: Maps each shown passage to the passage in which its quotations are sought, which is empty if nothing
            may be cited. The default is the shown passage itself.

    Raises:
        QuestionError: The question leaves no room for a passage.
    """
    wanted = AnswerType.of(tools.answer_type)
    build = answer_prompt_of(tools, question)
    shown = fit_passages(passages, hits, build, role, tools)
    if not shown:
        return Answer("unanswerable", UNANSWERABLE)
    way: Way = "full_text" if role == ROLE else "generated"
    if wanted != TEXT:
        sources = shown if cite_in is None else cite_in(shown)
        typed = await _generate_typed(tools, step, question, build(shown), shown, sources, role, wanted)
        return replace(typed, way=way)
    reply = await whole_reply(tools, step, build(shown), role=role)
    sources = shown if cite_in is None else cite_in(shown)
    answer = await answer_of_reply(tools, question, reply.text, shown, sources)
    return replace(answer, replied_by=(reply.model,), way=way)


def answer_prompt_of(tools: Tools, question: str) -> BuildPrompt:
    """Return the function that makes the answer prompt of a question from the passages to show."""
    return partial(
        answer_prompt,
        question,
        calculator=tools.calculator,
        short=tools.short_contract,
        wanted=AnswerType.of(tools.answer_type),
        language=tools.language,
    )


async def answer_of_reply(
    tools: Tools, question: str, reply: str, shown: Sequence[Passage], sources: Sequence[Passage]
) -> Answer:
    """Parse a reply into an answer.

    Args:
        tools: The tools of the question.
        question: The question.
        reply: The generator's reply.
        shown: The passages of the prompt.
        sources: The passages that may be cited, in the order of the shown ones.

    Raises:
        ReplyError: The reply has no content.
    """
    read = partial(_answer, tools, question, reply, shown, sources)
    return await off_loop(len(reply) + _length(sources), read)


def _length(passages: Sequence[Passage]) -> int:
    return sum(len(passage.text) for passage in passages)


def _answer(tools: Tools, question: str, reply: str, shown: Sequence[Passage], sources: Sequence[Passage]) -> Answer:
    parsed = parse_answer(reply, question)
    if parsed.unanswerable:
        return Answer("unanswerable", UNANSWERABLE, context=tuple(shown))
    if parsed.only_number and (line := _line_of(parsed.evidence, sources, question)) is not None:
        return Answer("answered", line.quote, (line,), context=tuple(shown))
    language = language_claimed(parsed.evidence, sources)
    said = calculate(parsed.answer, language) if tools.calculator else parsed.answer
    citations = sources_of(parsed.evidence, sources, sought_for(parsed.answer, question, said, language=language))
    return Answer("answered", said, citations, context=tuple(shown))


def language_claimed(evidence: Sequence[Evidence], sources: Sequence[Passage]) -> str:
    """Return the language of the passages that a reply names as its evidence, or of all."""
    named = [sources[each.passage - 1] for each in evidence if 1 <= each.passage <= len(sources)]
    return language_of_passages(named or sources)


def _line_of(evidence: Sequence[Evidence], sources: Sequence[Passage], question: str) -> Citation | None:
    """Return the answer of a reply that is only "[2]": the line of that passage that fits the question best."""
    for each in evidence:
        if 1 <= each.passage <= len(sources) and (passage := sources[each.passage - 1]).text:
            start, end = best_line(passage.text, question)
            at = passage.start_char
            return Citation(passage.doc_id, at + start, at + end, passage.text[start:end])
    return None


async def whole_reply(
    tools: Tools, step: str, messages: Sequence[Message], *, role: str, answer_type: str = ""
) -> Reply:
    """Return the reply; if its token limit cut it within its answer, that of a second call with more room.

    A truncated number would be a wrong number. Steps: ``step``, ``step/longer``. A reply that repeats itself is not
    requested again: more room would not end it.

    Raises:
        Endless: A reply repeats itself until its limit.
        CutShort: The second reply was cut as well.
    """
    ask = partial(tools.complete, messages=messages, role=role, answer_type=answer_type)
    reply = None
    with suppress(CutShort):
        reply = await ask(step)
    if reply is None or _is_cut(reply, tools):
        longer = await ask(f"{step}/{LONGER}", longer=True)
    else:
        return reply
    if _is_cut(longer, tools):
        raise CutShort(
            "The reply was cut off within its answer, and so was the one that was asked for with more room. Raise "
            f"llm.max_completion_tokens.{role}.",
            longer.text,
        )
    return longer


class Endless(CutShort):
    """The reply of ``model`` repeats itself until its limit."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(
            "The reply repeats itself until its limit. Ask a narrower question, or name a larger model.", reply.text
        )
        self.model = reply.model


def _is_cut(reply: Reply, tools: Tools) -> bool:
    """Return whether the reply's limit cut it within its answer. Raises Endless if it then repeats itself."""
    if reply.finish_reason != "length" or not ends_within_answer(reply.text, short=tools.short_contract):
        return False
    if repeats_itself(reply.text):
        raise Endless(reply)
    return True


async def _generate_typed(
    tools: Tools,
    step: str,
    question: str,
    messages: Sequence[Message],
    shown: Sequence[Passage],
    sources: Sequence[Passage],
    role: str,
    wanted: AnswerType,
) -> Answer:
    misfits: list[str] = []
    replied: list[str] = []

    async def ask(at: str, asked: Sequence[Message]) -> Reply:
        reply = await whole_reply(tools, at, asked, role=role, answer_type=tools.answer_type)
        replied.append(reply.model)
        return reply

    def read(reply: str) -> Answer:
        said = read_typed(reply, wanted, question)
        if not said:
            return Answer("unanswerable", UNANSWERABLE, context=tuple(shown))
        try:
            if wanted.kind in AMOUNTS and any(repeats_prompt(each.said, messages) for each in said):
                raise ValueError("it repeats the prompt")
            return _typed_answer(tools, question, said, shown, sources, wanted)
        except ValueError as error:
            misfits.append(str(error))
            raise ReplyError(f"It does not fit the answer_type {wanted}: {error}.", reply) from None

    try:
        fits = partial(prompt_fits, role=role, tools=tools)
        answer, _ = await ask_and_read(ask, step, messages, read, fits, _length(sources))
    except NobodyAsked:
        raise
    except ReplyError as error:
        if isinstance(error, Endless):
            misfits.append(str(error))
            replied.append(error.model)
        if not misfits:  # a refusal, or an empty, truncated or unreadable reply
            raise
        answer = misfit(wanted, Answer("invalid_output", "", context=tuple(shown)), misfits[-1], error.raw)
    return replace(answer, replied_by=(replied[-1],))


def _typed_answer(
    tools: Tools,
    question: str,
    said: Sequence[SaidValue],
    shown: Sequence[Passage],
    sources: Sequence[Passage],
    wanted: AnswerType,
) -> Answer:
    """Return the answer with these values, each with its own citations.

    Raises:
        ValueError: A value does not fit the type, or no passage states it.
    """
    words: list[str] = []
    read: list[tuple[str, str, Context]] = []
    citations: list[Citation] = []
    stated = Stated([*shown, *sources])
    for each in said:
        language = language_claimed(each.evidence, sources)
        value = calculate(each.said, language) if tools.calculator and wanted.kind in AMOUNTS else each.said
        line = _line_of(each.evidence, sources, question) if each.only_number else None
        if line is not None:
            value, own = line.quote, [line]
        else:
            quotes = [found.quote for found in find_citations([e for e in each.evidence if e.quote], sources)]
            stated.require(wanted.kind, each.said, question, quotes, tools.calculator, language)
            own = _sources_of_value(each, value, question, sources, wanted.kind, language)
        words.append(value)
        period = each.period if all(map(stated.has_year, YEAR_DIGITS.findall(each.period))) else ""
        read.append((value, period, context_of(question, value, own, sources)))
        citations += own
    typed = typed_value(wanted, read)
    cited = tuple(dict.fromkeys(citations))
    return Answer("answered", "; ".join(words), cited, context=tuple(shown), value=typed)


def _sources_of_value(
    said: SaidValue, value: str, question: str, sources: Sequence[Passage], kind: str, language: str
) -> list[Citation]:
    """Return the sources of one value. Those of yes, no, or a choice that no passage names are about the question."""
    if kind == SCHEMA:
        value = " ".join(map(str, leaves(json.loads(value))))
    sought = sought_for(said.said, question, value, kind, language)
    found = sources_of(said.evidence, sources, sought)
    if not found and kind == "choices":
        found = sources_of(said.evidence, sources, sought_for("yes", question, "yes", "boolean", language))
    return list(found)


# The long context: all documents of the scope if they fit the window, else the best chunks that fit.
#
# The strategy ``long_context`` and precise mode use it. The best chunks are those of the dense retriever, as in the
# paper (appendix B.2: 200 chunks for a window of 128k tokens).

ROLE = "full_text"

_SURELY_TOO_LONG = 2  # project default; vocabularies differ, but none in use needs half as many tokens as o200k
"""A scope with more o200k tokens than this many windows is too long, so that its texts are not fetched and counted."""


async def answer_from_full_text(tools: Tools, question: str, step: str = ROLE) -> Answer:
    """Answer from the whole scope, or from the best chunks that fit.

    Steps: ``step/generate``, and ``step/retrieve`` if the scope does not fit.

    Raises:
        QuestionError: The question leaves no room in the window.
    """
    passages = await whole_scope(tools, question)
    if passages is None:
        passages = await best_chunks(tools, question, f"{step}/retrieve")
    return await generate(tools, f"{step}/generate", question, passages, role=ROLE)


async def whole_scope(tools: Tools, question: str) -> list[Passage] | None:
    """Return all documents of the scope in order of doc_id, or None if they do not fit the window."""
    sizes = await tools.documents()
    if sum(tokens for _, tokens in sizes) > _SURELY_TOO_LONG * tools.window:
        return None
    passages: list[Passage] = []
    used = 0
    for doc_id, _ in sizes:
        passages.append(_whole(await tools.full_text(doc_id)))
        used += tools.count(passages[-1].text)
        if used > tools.window:
            return None
    return passages if prompt_fits(answer_prompt_of(tools, question)(passages), ROLE, tools) else None


async def best_chunks(tools: Tools, question: str, step: str) -> list[Passage]:
    """Return as many of the best chunks as fit the window, in reading order, adjacent ones merged.

    Chunks are ranked by dense vectors, or by BM25 if the archive has no vectors. Step: ``step``.
    """
    found = await tools.retrieve(step, question, granularity=FALLBACK_GRANULARITY, k=FALLBACK_COUNT)
    hits = list((found.semantic or found.exact)[:FALLBACK_COUNT])
    build = answer_prompt_of(tools, question)
    fitting = most_that_fits(len(hits), lambda count: prompt_fits(build(_passages(hits[:count])), ROLE, tools))
    # If not even one chunk fits, ``fit_passages`` cuts the first.
    return _passages(hits[: max(fitting, 1)])


def _passages(hits: list[Hit]) -> list[Passage]:
    return merge(map(passage_of, hits))


def _whole(document: Document) -> Passage:
    return Passage(document.doc_id, 0, len(document.text), document.text, document.n_tokens, score=1.0, origin="full")
