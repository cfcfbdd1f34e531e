"""Parse and write answer types, and parse typed values from the words of replies.

The written form of a type is, for example, "money", "list of date", ``choices ["rose", "fell"]`` or a JSON schema; ""
stands for plain text. ``Question.answer_type``, the answers table and requests use this form.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from typing import Any, Final, get_args

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from pydantic import BaseModel
from referencing import Registry

from okralong.pipelines.answering.languages import language_of_passages, language_of_text
from okralong.pipelines.core.loops import off_loop
from okralong.pipelines.core.types import Answer, Citation, Passage, QuestionError, TypedValue
from okralong.pipelines.statements.values import Context, read_value

KINDS: Final = ("text", "number", "money", "percent", "date", "period", "boolean", "choices")
"""The kinds of single values."""
AMOUNTS: Final = ("number", "money", "percent")
"""The kinds whose values are numbers."""
SCHEMA: Final = "schema"

_OTHER_NAMES: Final = {
    "": "text",
    "string": "text",
    "str": "text",
    "int": "number",
    "integer": "number",
    "float": "number",
    "decimal": "number",
    "amount": "money",
    "currency": "money",
    "percentage": "percent",
    "%": "percent",
    "datetime": "date",
    "fiscal period": "period",
    "bool": "boolean",
    "yes/no": "boolean",
    "choice": "choices",
    "enum": "choices",
}
"""Other names for the kinds that users may write."""
_LIST: Final = re.compile(r"list(?:\s+of\s+(?P<of>.+)|\s*\[(?P<within>.*)\]|)", re.IGNORECASE | re.DOTALL)
_CHOICES: Final = re.compile(r"choices?\s*:?\s*(?P<named>\[.*\])", re.IGNORECASE | re.DOTALL)
_SAYS: Final = frozenset(("type", "properties", "items", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"))
"""A JSON schema with none of these keywords at its top level allows every value and is refused."""


@dataclass(frozen=True, slots=True)
class AnswerType:
    """The type of an answer.

    Attributes:
        kind: One of ``KINDS`` or "schema".
        many: True for a list.
        choices: The choices of the kind "choices".
        schema: The JSON schema of the kind "schema".
    """

    kind: str = "text"
    many: bool = False
    choices: tuple[str, ...] = ()
    schema: str = ""

    def __str__(self) -> str:
        """Return the written form, which ``AnswerType.of`` parses."""
        if self.kind == SCHEMA:
            return self.schema
        choices = f" {json.dumps(list(self.choices), ensure_ascii=False)}" if self.choices else ""
        if self.kind == "text" and not self.many:
            return ""
        return f"{'list of ' if self.many else ''}{self.kind}{choices}"

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, written: str) -> AnswerType:
        """Parse the written form of a type, as in a questions file, except the name of a schema file.

        Raises:
            QuestionError: ``written`` is not a type; the message says what is wrong.
        """
        return _read(written.strip(), ())


TEXT: Final = AnswerType()


def read_answer_type(cell: Any, choices: Sequence[str], load: Callable[[str], str]) -> AnswerType:
    """Return the answer type that a row of a questions file asks for.

    Args:
        cell: Text, a JSON schema (as text, as an object, or the name of a ``.json`` file), a list of choices, a Python
            type or a pydantic model; None and "" are text.
        choices: The choices in the row's separate column for them, if it has one.
        load: Returns the content of a schema file, given its name.

    Raises:
        QuestionError: The type is invalid; the message says what to write instead.
    """
    if cell is None or cell == "":
        return _read("choices" if choices else "text", choices)
    if isinstance(cell, type):
        if issubclass(cell, BaseModel):
            return _schema(cell.model_json_schema())
        return _read(cell.__name__, choices)
    if isinstance(cell, Mapping):
        return _schema(cell)
    if isinstance(cell, (list, tuple)):
        return _read("choices", [str(each) for each in cell])
    if (item := get_args(cell)) and len(item) == 1 and isinstance(item[0], type):  # list[float]
        one = read_answer_type(item[0], choices, load)
        return AnswerType(one.kind, True, one.choices) if one.kind != SCHEMA else _list_of(one)
    written = str(cell).strip()
    if names_schema_file(written):
        return _schema_text(load(written), f"The file {written}")
    return _read(written, choices)


def names_schema_file(written: str) -> bool:
    """Return whether the text of a cell is the name of a JSON schema file."""
    return written.lower().endswith(".json") and not written.startswith("{")


def _read(written: str, choices: Sequence[str]) -> AnswerType:
    if written.startswith("{"):
        return _schema_text(written, "answer_type")
    many = False
    if (listed := _LIST.fullmatch(written)) is not None:
        many, written = True, (listed["of"] or listed["within"] or "text").strip()
    if (named := _CHOICES.fullmatch(written)) is not None:
        try:
            choices = [str(each) for each in json.loads(named["named"])]
        except (ValueError, TypeError) as error:
            raise QuestionError(
                f'The choices {named["named"]} are not a JSON list: {error}. Write ["one", "other"], or name them in a '
                "column choices, parted by ;."
            ) from None
        written = "choices"
    kind = " ".join(written.lower().split())
    kind = _OTHER_NAMES.get(kind, kind)
    if kind not in KINDS:
        near = difflib.get_close_matches(kind, (*KINDS, *_OTHER_NAMES), n=1, cutoff=0.6)
        meant = f" Did you mean {_OTHER_NAMES.get(near[0], near[0])}?" if near else ""
        raise QuestionError(
            f"The answer_type {written!r} is not known.{meant} It may be {', '.join(KINDS)}, a list of one of these "
            "(list of money), or a JSON schema (inline or the name of a .json file)."
        )
    given = tuple(dict.fromkeys(each.strip() for each in choices if each.strip()))
    if kind == "choices" and len(given) < 2:
        raise QuestionError(
            f"The answer_type is choices, and {len(given) or 'none'} is given. Name at least two of them in the column "
            "choices, parted by ;, or choose another answer_type."
        )
    if given and kind != "choices":
        raise QuestionError(
            f"The row has choices and the answer_type {kind}. Leave out one of the two, or set answer_type to choices."
        )
    return AnswerType(kind, many, given)


def _schema_text(text: str, name: str) -> AnswerType:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise QuestionError(f"{name} is no JSON schema, since it is not JSON: {error}. Correct it.") from None
    return _schema(found)


def _schema(found: Any) -> AnswerType:
    """Return the type of a JSON schema (draft 2020-12).

    Raises:
        QuestionError: ``found`` is not a JSON schema, or allows every value.
    """
    try:
        Draft202012Validator.check_schema(found)
    except SchemaError as error:
        place = "/".join(map(str, error.absolute_path)) or "its top"
        raise QuestionError(
            f"The answer_type is no JSON schema: {error.message} (at {place}). Correct it, or name one of the types "
            f"{', '.join(KINDS)}."
        ) from None
    if not isinstance(found, Mapping) or not _SAYS.intersection(found):
        raise QuestionError(
            "The answer_type is no JSON schema that asks for anything: it has none of the keywords "
            f"{', '.join(sorted(_SAYS))}. Name the properties that are asked for, as in "
            '{"type": "object", "properties": {"name": {"type": "string"}}}.'
        )
    for each in _mappings(found):
        for name in ("$ref", "$dynamicRef"):
            if isinstance(each.get(name), str) and not each[name].startswith("#"):
                # A validator would fetch it, also from a file.
                raise QuestionError(
                    f"The answer_type is a JSON schema with the {name} {each[name]!r} to another document. Copy that "
                    "one into $defs and write #/$defs/NAME."
                )
    return AnswerType(SCHEMA, schema=json.dumps(found, ensure_ascii=False))


def _mappings(found: Any) -> Iterator[Mapping[str, Any]]:
    """Yield all objects in a JSON value."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            yield one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


MOST_PARTS: Final = 10_000
"""Most parts of a stranger's schema once its references are replaced by what they name. # project default"""
_SLOW: Final = ("pattern", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor")
_SLOW_PARTS: Final = ("patternProperties", "unevaluatedProperties", "unevaluatedItems")


def slow_schema_reason(written: str) -> str:
    """Return why checking a value against a type could take very long, or "".

    For types from people who are not trusted: regular expressions, references that repeat themselves or multiply, and
    ``unevaluated...``, whose time doubles with each level, could stop a process.
    """
    if not written.lstrip().startswith("{"):
        return ""
    root = json.loads(written)
    sizes: dict[str, int] = {}

    def size(part: Any, within: tuple[str, ...]) -> int:
        if isinstance(part, list):
            return 1 + sum(size(each, within) for each in part)
        if not isinstance(part, Mapping):
            return 1
        slow = [name for name in _SLOW if isinstance(part.get(name), str)]
        slow += [name for name in _SLOW_PARTS if isinstance(part.get(name), Mapping | bool)]
        if slow:
            raise ValueError(f"it has the keyword {slow[0]}")
        total = 1 + sum(size(each, within) for name, each in part.items() if name != "$defs")
        if isinstance(name := part.get("$ref"), str):
            if name in within:
                raise ValueError(f"{name} refers to itself")
            if name not in sizes:
                sizes[name] = size(_named_part(root, name), (*within, name))
            total += sizes[name]
        if total > MOST_PARTS:
            raise ValueError(f"its references multiply to more than {MOST_PARTS:,} parts")
        return total

    try:
        size(root, ("#",))
    except ValueError as error:
        return str(error)
    return ""


def _named_part(root: Any, name: str) -> Any:
    part = root
    for key in name.removeprefix("#/").split("/"):
        if not isinstance(part, Mapping) or key not in part:
            raise ValueError(f"{name} names none of its parts, as #/$defs/NAME does")
        part = part[key]
    return part


def _list_of(one: AnswerType) -> AnswerType:
    schema = json.loads(one.schema)
    definitions = {"$defs": schema.pop("$defs")} if "$defs" in schema else {}
    return _schema({"type": "array", "items": schema, **definitions})


def with_value(question: str, wanted: AnswerType, answer: Answer) -> Answer:
    """Add a value of the wanted type to ``answer``, parsed from its words, unless it has one.

    If the words do not fit the type, the answer gets the status ``invalid_output``, an empty text, and an error that
    says why.
    """
    if answer.status != "answered" or wanted == TEXT or answer.value is not None:
        return answer
    try:
        parts = [answer.answer]
        if wanted.many:
            parts = [part.strip() for part in re.split(r"[;\n\uff1b]", answer.answer) if part.strip()]
        said = [(each, "", context_of(question, each, answer.citations, answer.context)) for each in parts]
        return replace(answer, value=typed_value(wanted, said))
    except ValueError as error:
        return misfit(wanted, answer, str(error), answer.answer)


async def value_read(question: str, wanted: AnswerType, answer: Answer) -> Answer:
    """Call ``with_value``, in a thread if the answer or its context is long."""
    chars = len(answer.answer) + sum(len(passage.text) for passage in answer.context)
    return await off_loop(chars, partial(with_value, question, wanted, answer))


def misfit(wanted: AnswerType, answer: Answer, why: str, raw: str) -> Answer:
    """Return ``answer`` as ``invalid_output``, with the reason ``why`` and the raw reply."""
    error = f"The reply does not fit the answer_type {wanted}: {why.rstrip('.')}. The raw reply: {raw}"
    return replace(answer, status="invalid_output", answer="", error=error)


def typed_value(wanted: AnswerType, said: Sequence[tuple[str, str, Context]]) -> TypedValue:
    """Parse the value of a type from the words of a reply.

    Args:
        wanted: The type.
        said: For each value: its words (JSON for a schema), the words of its period or "", and its context. There is
            only one value unless the type is a list. A period in the passage is preferred to one in the reply.

    Raises:
        ValueError: The words do not fit the type; the message says why.
    """
    if wanted.kind == SCHEMA:
        try:
            found = json.loads(said[0][0])
            # The registry is empty, so that no reference is fetched.
            Draft202012Validator(json.loads(wanted.schema), registry=Registry()).validate(found)
        except ValidationError as error:
            raise ValueError(error.message) from None
        return TypedValue(json.dumps(found, ensure_ascii=False))
    values = [
        _with_period(read_value(wanted.kind, words, context, wanted.choices), period, context.language)
        if wanted.kind in AMOUNTS
        else read_value(wanted.kind, words, context, wanted.choices)
        for words, period, context in said
    ]
    if wanted.many:
        listed = [{name: each for name, each in asdict(one).items() if each not in ("", None)} for one in values]
        return TypedValue(json.dumps(listed, ensure_ascii=False))
    if len(values) != 1:
        raise ValueError(f"one {wanted.kind} was asked for, and it has {len(values)}: {'; '.join(s[0] for s in said)}")
    return values[0]


def _with_period(value: TypedValue, period: str, language: str) -> TypedValue:
    if value.period or not period:
        return value
    try:
        return replace(value, period=read_value("period", period, Context(language=language)).value)
    except ValueError:
        return value


def context_of(question: str, said: str, citations: Sequence[Citation], passages: Sequence[Passage]) -> Context:
    """Return the context of a value: passage and words of the citation that contains it, else of the first one."""
    holding = [each for each in citations if said and said.casefold() in each.quote.casefold()]
    for each in (holding or list(citations))[:1]:
        language = language_of_passages(passages, [each]) if passages else language_of_text(each.quote)
        for passage in passages:
            if passage.doc_id == each.doc_id and passage.start_char <= each.start_char < passage.end_char:
                at = each.start_char - passage.start_char
                return Context(passage.text, at, at + len(each.quote), question, language=language)
        return Context(each.quote, 0, len(each.quote), question, language=language)
    return Context(question=question, language=language_of_passages(passages))


def leaves(found: Any) -> Iterator[str | int | float]:
    """Yield the texts and numbers in a JSON value."""
    waiting = [found]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            waiting += list(one.values())[::-1]
        elif isinstance(one, list):
            waiting += one[::-1]
        elif isinstance(one, str | int | float) and not isinstance(one, bool):
            yield one
