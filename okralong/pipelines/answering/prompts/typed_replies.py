"""Parse replies to the typed prompt: JSON objects, and the lines of the other contracts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import Any, Final

from okralong.pipelines.answering.answer_types import SCHEMA, AnswerType
from okralong.pipelines.answering.prompt_text import (
    JSON_BEGUN,
    MOST_CLAIMS,
    REFERENCES,
    Evidence,
    first_json,
    parse_evidence,
    strip_thought,
)
from okralong.pipelines.answering.prompts.answer import clean, parse_answer, says_unanswerable
from okralong.pipelines.core.types import ReplyError


@dataclass(frozen=True, slots=True)
class SaidValue:
    """One value of a reply: its text (JSON for a schema), the text of its period, and its sources."""

    said: str
    period: str = ""
    evidence: tuple[Evidence, ...] = ()

    @property
    def only_number(self) -> bool:
        """True if the value is only the number of a passage, such as "[2]"."""
        return REFERENCES.fullmatch(self.said) is not None


def read_typed(reply: str, wanted: AnswerType, question: str = "") -> list[SaidValue]:
    """Return the values in a reply to a typed prompt; none if the passages do not contain the answer.

    The reply may be the requested JSON object, with any text around it, or, for all types but a schema, whatever
    ``parse_answer`` accepts.

    Raises:
        ReplyError: The reply has no readable value, or too many.
    """
    text = strip_thought(reply)
    arrays = wanted.kind == SCHEMA and json.loads(wanted.schema).get("type") == "array"
    found = first_json(text, "{[" if arrays else "{")
    enveloped = isinstance(found, Mapping) and (wanted.kind != SCHEMA or found.keys() <= _ENVELOPE)
    if isinstance(found, Mapping) and enveloped and found.keys() & _VALUE:
        items = _items(found, wanted.kind == SCHEMA)
        if len(items) > MOST_VALUES:
            raise ReplyError(f"The reply lists {len(items):,} values, more than {MOST_VALUES}.")
        return [one for each in items if (one := _said(each, wanted)) is not None]
    if wanted.kind == SCHEMA and found is not None:
        return [SaidValue(json.dumps(found, ensure_ascii=False))]
    if wanted.kind == SCHEMA or (found is None and JSON_BEGUN.search(text)):
        if says_unanswerable(clean(text)) or _answers_nothing(reply, question):
            return []
        raise ReplyError("The reply holds no whole JSON object, and one was asked for.")
    parsed = parse_answer(reply, question)
    if parsed.unanswerable:
        return []
    parts = [part.strip() for part in re.split(r"[;\n\uff1b]", parsed.answer)] if wanted.many else [parsed.answer]
    if len(parts) > MOST_VALUES:
        raise ReplyError(f"The reply lists {len(parts):,} values, more than {MOST_VALUES}.")
    return [SaidValue(part, evidence=parsed.evidence) for part in parts if part]


MOST_VALUES: Final = 200  # project default: each is searched in all passages; a grammar allows 20
"""Most values of a list."""

_VALUE: Final = frozenset(("value", "values", "answer", "answers"))
_ENVELOPE: Final = _VALUE | {"evidence", "period"}


def _answers_nothing(reply: str, question: str) -> bool:
    try:
        return parse_answer(reply, question).unanswerable
    except ReplyError:
        return False


def _items(found: Mapping[str, Any], whole: bool) -> list[Mapping[str, Any]]:
    """Return an object per value, with the evidence of the object around it. ``whole`` keeps a list as one value."""
    listed = found.get("values", found.get("answers"))
    if not isinstance(listed, list):
        single = found.get("value", found.get("answer", listed))
        listed = single if isinstance(single, list) and not whole else [single]
    shared = {key: found[key] for key in ("evidence", "period") if key in found}
    return [
        each if isinstance(each, Mapping) and each.keys() & _VALUE else {"value": each, **shared} for each in listed
    ]


def _said(item: Mapping[str, Any], wanted: AnswerType) -> SaidValue | None:
    value = item.get("value", item.get("answer"))
    if value is None:
        return None
    if wanted.kind == SCHEMA:
        said = json.dumps(value, ensure_ascii=False)
    else:
        said = _plain_words(value)
        if not said or says_unanswerable(said):
            return None
    period = item.get("period")
    evidence = tuple(islice(dict.fromkeys(_claims(item.get("evidence"))), MOST_CLAIMS))
    return SaidValue(said, period.strip() if isinstance(period, str) else "", evidence)


def _plain_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{Decimal(repr(value)):f}"
    return str(value).strip() if isinstance(value, str | int) else json.dumps(value, ensure_ascii=False)


def _claims(said: Any) -> Iterator[Evidence]:
    """Yield the sources of a value: objects with passage and quote, numbers of passages, or evidence lines."""
    if isinstance(said, str):
        yield from parse_evidence(said)
    elif isinstance(said, int) and not isinstance(said, bool):
        yield Evidence(said, "")
    elif isinstance(said, Mapping):
        number = re.search(r"\d{1,4}", str(said.get("passage", said.get("id", ""))))
        quote = next((said[key] for key in ("quote", "words", "text") if isinstance(said.get(key), str)), "").strip()
        if number or quote:
            yield Evidence(int(number[0]) if number else 0, quote)
    elif isinstance(said, Sequence):
        for each in said:
            if isinstance(each, str | int | Mapping):  # a list within the list is not a source
                yield from _claims(each)
