"""Answer multi-bridge questions without a generator, by rules that find what must be looked up first.

"Where was the director of the film X born?" asks for two things, one after the other: who the director of X is, and
where that person was born. Rules find the innermost description in such a question, ask for it, and replace it by the
answer, until only the final question is left. The cross-encoder reads each answer from the passages. If no rule matches
or an answer is not found, the step-wise reasoner takes over (paper section 3.3). Not in the paper.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from okralong.pipelines.answering.answer_kinds import kind_asked
from okralong.pipelines.answering.ask import Ask, Finds
from okralong.pipelines.answering.context import passage_of
from okralong.pipelines.answering.prompts import same_words
from okralong.pipelines.answering.readers.reader import Reader, cross_encoder_reads
from okralong.pipelines.answering.readers.spans import probability, span_answer
from okralong.pipelines.answering.retrieve import assembled_retrieval
from okralong.pipelines.core.types import Answer, Passage, Reading

MOST_LOOK_UPS: Final = 4  # project default: the most that a question of MuSiQue needs
"""The most look-ups of one question, including the last."""
LONGEST: Final = 1000  # project default
"""The most characters of a question that rules are applied to."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """A look-up that a longer question needs first.

    Attributes:
        question: Asks for the thing that the longer question only describes.
        before: The longer question up to the description.
        after: The longer question after the description.
    """

    question: str
    before: str
    after: str

    def then(self, answer: str) -> str:
        """Return the longer question with ``answer`` for the description; a word repeated at the seam is kept once."""
        before = self.before
        last = before.rsplit(maxsplit=1)[-1] if before.strip() else ""
        if last and answer.casefold().endswith(f" {last.casefold()}"):
            before = before[: before.rindex(last)]
        return f"{before}{answer}{self.after}"


def first_look_up(question: str) -> LookUp | None:
    """Return the look-up that ``question`` needs first, or None if it needs none."""
    text = _by_parents(" ".join(question.split()).rstrip("? ")) + "?"
    if len(text) > LONGEST:
        return None
    found = [
        description
        for pattern, describe in DESCRIPTIONS
        for match in pattern.finditer(text)
        if (description := describe(match)) is not None
    ]
    # Descriptions nest to the right, so the last one contains no others.
    for start, stop, sub_question, head in sorted(found, key=lambda each: each[:2], reverse=True):
        before, after = text[:start], text[stop:]
        more = not (_ASKS_ONLY.fullmatch(before) and after == "?")
        if more and _ASKS.search(before + after):
            return LookUp(sub_question, before + head, after)
    return None


class Bridge(Reader):
    """Answers questions by several look-ups in the order that the question implies, in the workflow "step"."""

    way = "bridge"
    workflows = ("step",)

    def fits(self, ask: Ask) -> bool:
        """Return whether the cross-encoder may answer."""
        return cross_encoder_reads(ask)

    async def read(self, ask: Ask, finds: Finds) -> Answer | None:
        """Return the answer with the sources of all look-ups.

        Return None if nothing must be looked up first, or if an answer is less probable than the policy's
        ``read.threshold``. Steps: ``bridge/1/retrieve``, ``bridge/1/read``, ``bridge/2/retrieve`` and so on.
        """
        question, tools = ask.question, ask.tools
        look_up = first_look_up(question)
        if look_up is None:
            return None
        read: list[Answer] = []
        while len(read) < MOST_LOOK_UPS:
            asked = question if look_up is None else look_up.question
            hits = await assembled_retrieval(tools, f"bridge/{len(read) + 1}/retrieve", asked, ask.plan)
            shown = [passage_of(hit) for hit in hits]
            readings = await tools.read(f"bridge/{len(read) + 1}/read", asked, [each.text for each in shown])
            found = newly_said(asked, shown, readings)
            if found is None or found.signals["span_probability"] < tools.policy.read.threshold:
                return None
            read.append(found)
            if look_up is None:
                sure = [answer.signals["span_probability"] for answer in read]
                return replace(
                    found,
                    citations=tuple(dict.fromkeys(each for answer in read for each in answer.citations)),
                    context=tuple(dict.fromkeys(passage for answer in read for passage in answer.context)),
                    signals={"look_ups": len(read), "look_up_product": math.prod(sure)},
                )
            question = look_up.then(name_in(found.answer))
            look_up = first_look_up(question)
        return None


def newly_said(question: str, shown: Sequence[Passage], readings: Sequence[Reading]) -> Answer | None:
    """Return the most probable span that has words which the question lacks, or None.

    Its signal ``span_probability`` is the probability that its passage contains the answer.
    """
    known = set(same_words(question).split())
    kind = kind_asked(question)
    for passage, reading in sorted(zip(shown, readings, strict=True), key=lambda pair: -probability(pair[1])):
        found = span_answer([passage], [reading], kind)
        if found.status == "answered" and set(same_words(found.answer).split()) - known:
            return replace(found, context=tuple(shown), signals={"span_probability": reading.answerable or 0.0})
    return None


def name_in(answer: str) -> str:
    """Return the part of an answer to insert in the next question: its first line, up to where another fact begins."""
    line = next((each for each in answer.splitlines() if each.strip()), answer).strip()
    return _ANOTHER_FACT.split(line, maxsplit=1)[0].removesuffix("'s").removesuffix("\u2019s")


_ANOTHER_FACT: Final = re.compile(r",? (?:and|who|which) (?=[a-z])")


_Description = tuple[int, int, str, str]
"""A description: its start and end in the question, the question to look up, and the words to keep before the
answer."""

_PERSONS: Final = (
    "director|composer|performer|singer|author|writer|screenwriter|founder|co-founder|creator|inventor|designer|"
    "architect|producer|publisher|editor|leader|head|manager|coach|captain|owner|chairman|chairwoman|chair|president|"
    "chief executive|ceo|cfo|governor|mayor|minister|king|queen|husband|wife|spouse|father|mother|parent|son|daughter|"
    "child|brother|sister|stepfather|stepmother|discoverer|painter|sculptor|narrator|lyricist|cinematographer|"
    "predecessor|successor|treasurer|secretary|chief engineer|lead singer"
)
_THINGS: Final = (
    "parent company|subsidiary|auditor|manufacturer|maker|developer|distributor|supplier|operator|record label|label|"
    "birthplace|place of birth|place of death|country of origin|capital|headquarters|seat|successor company"
)
_NO_ADJECTIVE: Final = (
    "the|a|an|both|of|by|in|at|on|for|from|to|as|with|and|or|is|was|are|were|did|does|do|has|had|have|be|been|it|its|who|"
    "which|that|where|when|what|whom|whose"
)
_RELATION: Final = rf"(?:(?!(?:{_NO_ADJECTIVE}) )[a-z\d-]+ ){{0,2}}?(?:{_PERSONS}|{_THINGS})"
_OF: Final = re.compile(rf"\b(?:[Tt]he )?(?P<relation>{_RELATION}) of (?=\S)")
_POSSESSIVE: Final = re.compile(rf"['\u2019]s (?P<relation>{_RELATION})\b(?! of\b)")
_PERSON: Final = re.compile(rf"(?i:.*\b(?:{_PERSONS}))")
_ASKS_ONLY: Final = re.compile(r"(?i:(?:(?:who|what|which|where|when) (?:is|was|are|were) )?(?:the name of )?)")
"""What remains of a question that is itself the look-up, if the description is removed."""

_ASKS: Final = re.compile(r"(?i:\b(?:who|what|which|when|where|how|why|whose|whom)\b)")

_PARENTS: Final = {
    "paternal grandfather": ("father", "father"),
    "paternal grandmother": ("mother", "father"),
    "maternal grandfather": ("father", "mother"),
    "maternal grandmother": ("mother", "mother"),
    "father-in-law": ("father", "spouse"),
    "mother-in-law": ("mother", "spouse"),
}
"""Relations that texts state as two relations, one after the other."""
_IN_TWO: Final = re.compile(rf"(?i:\bthe (?P<of>{'|'.join(_PARENTS)}) of |['\u2019]s (?P<s>{'|'.join(_PARENTS)})\b)")


def _by_parents(text: str) -> str:
    def in_two(match: re.Match[str]) -> str:
        first, second = _PARENTS[(match["of"] or match["s"]).lower()]
        return f"the {first} of the {second} of " if match["of"] else f"'s {second}'s {first}"

    return _IN_TWO.sub(in_two, text)


_LINKS: Final = re.compile(
    r"of|the|and|in|an?|to|for|de|du|la|le|von|van|on|with|at|by|y|e|&|-|et|une?|der", re.IGNORECASE
)
"""Lower-case words that occur within names and titles."""


def _named(word: str) -> bool:
    if word in ("'s", "\u2019s"):
        return False
    return word[:1].isupper() or word[:1].isdigit() or word[:1] in "\"'(\u201c\u2018&"


def _end_of_name(text: str, start: int) -> int | None:
    """Return where the name that begins at ``start`` ends, or None if there is no name.

    Up to three words before the name may say what it is ("the film"). ``text`` ends with a question mark.
    """
    end, named, links = None, False, 0
    for match in re.finditer(r"\S+", text[start:]):
        word = match[0]
        if _named(word):
            end, named, links = start + match.end(), True, 0
        elif named and not _LINKS.fullmatch(word):
            break
        else:
            links += 1
            if links > (2 if named else 3):
                break
    if end is None or text[:end].endswith(("'s", "\u2019s")):
        return None  # the name is a possessive, which ``_possessive`` handles
    return end - (text[end - 1] in ",;" or end == len(text))


def _relation(match: re.Match[str]) -> _Description | None:
    """Return the description "the director of the film X", or None."""
    end = _end_of_name(match.string, match.end())
    if end is None:
        return None
    name = match.string[match.end() : end].rstrip("?")
    return match.start(), end, f"{_who(match)} is the {match['relation']} of {name}?", ""


def _possessive(match: re.Match[str]) -> _Description | None:
    """Return the description "X's wife", or None."""
    text, start = match.string, match.start()
    for word in reversed(list(re.finditer(r"\S+", text[:start]))):
        if not _named(word[0]) and not _LINKS.fullmatch(word[0]):
            break
        if _named(word[0]) and word.start() > 0:
            start = word.start()
    if start == match.start():
        return None
    return start, match.end(), f"{_who(match)} is {text[start : match.end()]}?", ""


def _who(match: re.Match[str]) -> str:
    return "Who" if _PERSON.fullmatch(match["relation"]) else "What"


_CLAUSE: Final = re.compile(
    r"\b(?:the|a|an) (?P<noun>(?:(?!(?:the|a|an|that|which|who|whom|where)\b)[\w'\u2019&.-]+ ){1,6}?)"
    r"(?:(?P<by>\w+ed|made|built|led|held|written|sung|won|run|taken|bought|sold|drawn|driven|chosen) by |"
    r"(?:(?P<preposition>in|at|on|of|for|from|by|to|with|under) )?(?P<marker>which|that|who|whom|where) )"
    r"(?P<clause>[^,?]+(?:, [A-Z][^,?]+)?)"
)
_AUXILIARY: Final = re.compile(r"(?P<subject>.+?) (?P<verb>is|was|are|were|has|had|can|will) (?P<rest>.+)")
_NOT_ALONE: Final = re.compile(r"\b(?:did|does|do|is|are|will|become|became|or)\b")
"""Words that show a second verb, which belongs to the outer question, or a choice ("or")."""
_STATE: Final = re.compile(r" (?:is|was|are|were) (?:an? )?\w+(?: of(?! [A-Z]))?")
"""The end of a clause after a name, as in "the country where X is located"."""
_PLACES: Final = re.compile("country|city|state|county|town|village|continent|province|region|year|month|island")
"""Nouns that are dropped when the answer is inserted: "in Austria", not "in the country Austria". Others are kept: "the
segment Optics"."""
_OPENS: Final = re.compile(r"(?i:(?:when|where|why|how) (?:was|were|is|are|did|does|do|has|had) )$")
"""The beginning of a question in which a verb follows the description: "When was the pianist who recorded X born?"."""


def _clause(match: re.Match[str]) -> _Description | None:
    """Return a description with a clause, as in "the segment that X leads" or "the segment led by X", or None."""
    text, noun, clause, stop = match.string, match["noun"].strip(), match["clause"], match.end()
    if _OPENS.search(text[: match.start()]):
        name = _end_of_name(text, match.start("clause"))
        if name is None or name >= stop:
            return None
        verb = None if match["marker"] == "who" else _STATE.match(text, name)
        stop = name if verb is None else verb.end()
        clause = text[match.start("clause") : stop]
    order = _AUXILIARY.fullmatch(clause)
    if _ASKS.search(clause) or " " not in clause or _NOT_ALONE.search(clause if order is None else order["rest"]):
        return None
    if match["by"]:
        asked = f"Which {noun} is {match['by']} by {clause}"
    elif match["marker"] == "who":
        asked = f"Who {clause}"
    elif match["marker"] == "where" or match["preposition"]:
        preposition = (match["preposition"] or "in").capitalize()
        said = clause if order is None else f"{order['verb']} {order['subject']} {order['rest']}"
        asked = f"{preposition} which {noun} {said}"
    else:
        asked = f"Which {noun} {clause}"
    head = noun.partition(" of ")[0]
    alone = match["marker"] == "who" or _PLACES.fullmatch(head) is not None
    return match.start(), stop, f"{asked}?", "" if alone else f"the {head} "


DESCRIPTIONS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], _Description | None]], ...]] = (
    (_OF, _relation),
    (_POSSESSIVE, _possessive),
    (_CLAUSE, _clause),
)
"""Patterns of descriptions, each with the function that makes a look-up from a match."""
