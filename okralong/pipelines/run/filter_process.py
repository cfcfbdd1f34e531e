"""A process that evaluates filters over documents' metadata.

    python -m okralong.pipelines.run.filter_process SECONDS MEMORY PARENT

It reads requests from standard input and writes replies to standard output, both as frames (see
``core.confined_process``). The first request is the table of documents, every further one a filter. Filters are
untrusted, so the process limits its own memory and processor time, and checks the parsed filter before DuckDB evaluates
it. Only columns, constants, and the operators, functions and types listed here are allowed: none of these returns more
text than it gets, reads a file, or depends on the date or a random number.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.core.confined_process import (
    OUT_OF_MEMORY,
    FrameReader,
    Head,
    allow_seconds,
    confine,
    end_with_parent,
    silence,
    write_frame,
)
from okralong.pipelines.core.types import QuestionError
from okralong.pipelines.core.wording import counted

MOST_LITERAL_CHARS: Final = 1_000  # project default
"""Most characters of a constant in a filter: ten times the longest name of a document."""
MOST_DEPTH: Final = 50  # project default
"""Deepest nesting of expressions; DuckDB's own limit is 1,000, and people rarely exceed five."""
_MOST_PARTS: Final = 10_000  # project default
"""The most columns, constants and operators of a filter, enough for a list of thousands of ids."""

_LOCKED: Final = (
    "enable_external_access = false",
    "python_enable_replacements = false",  # otherwise Python variables could be queried as tables
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "memory_limit = '512MB'",
    "threads = 1",
    "lock_configuration = true",
)
_CLASSES: Final = ("CONJUNCTION", "COMPARISON", "OPERATOR", "BETWEEN", "FUNCTION", "CASE", "CAST", "TYPE", "COLLATE")
"""DuckDB's classes of expressions that a filter may contain, in addition to columns and constants."""
_FUNCTIONS: Final = (
    *("lower", "upper", "trim", "length", "left", "right", "substring", "split_part", "strip_accents", "nullif"),
    *("contains", "starts_with", "ends_with", "regexp_matches", "regexp_extract", "levenshtein"),
    *("abs", "ceil", "floor", "round", "greatest", "least"),
    *("year", "quarter", "month", "week", "day", "dayofweek", "date_part", "date_trunc", "make_date", "strptime"),
)
"""Functions that never return more text than they get. Others are excluded, because nested calls of replace, concat,
repeat or lpad could fill any memory."""
_SYMBOLS: Final = ("+", "-", "*", "/", "//", "%", "~~", "!~~", "~~*", "!~~*", "~~~", "like_escape", "ilike_escape")
"""Operators that DuckDB parses as functions: arithmetic, LIKE, ILIKE and GLOB. ``||`` is excluded, because it lengthens
text."""
_NEGATED: Final = ("not_like_escape", "not_ilike_escape")
_OPERATORS: Final = (
    *("OPERATOR_NOT", "OPERATOR_IS_NULL", "OPERATOR_IS_NOT_NULL", "OPERATOR_COALESCE", "OPERATOR_NULLIF"),
    *("COMPARE_IN", "COMPARE_NOT_IN"),
)
"""The allowed operators. The others build or take apart lists and structures."""
_TYPES: Final = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "VARCHAR"),
    *("DATE", "TIME", "TIMESTAMP", "INTERVAL"),
)
"""The types that a cast may name: those of fixed size, and text. Casts to others (BIT, BLOB, lists, arrays) can
multiply the size of their input."""
_TODAY: Final = ("current_date", "current_timestamp", "current_time", "now", "today")
_FIELDS: Final = {"type", "cte_map", "select_list", "from_table", "aggregate_handling"}
"""The fields that are not empty if DuckDB parsed a ``SELECT (...)`` of a single expression."""
_EQUAL: Final = {"COMPARE_EQUAL", "COMPARE_IN", "~~", "~~*"}
"""Comparisons for equality, LIKE and ILIKE, for which messages suggest the nearest values."""
_SHOWN: Final = 5
_COLUMNS_SHOWN: Final = 20
_MOST_COMPARED: Final = 5_000  # project default
"""The most values of a column that are searched for the nearest ones, which takes a tenth of a second."""
_LONGEST_COMPARED: Final = 200  # project default
"""Most characters of a value or name in that search: difflib takes quadratic time."""
_SHOWN_CHARS: Final = 200  # project default
"""The most characters of a filter that a message quotes."""
_KINDS: Final[Sequence[tuple[str, Any]]] = (
    ("number", lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind)),
    ("date", pa.types.is_temporal),
    ("true or false", pa.types.is_boolean),
)


def main() -> None:
    """Serve until the input ends. The arguments are seconds per filter, bytes of memory and the parent's process id."""
    seconds, memory_bytes, parent = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    end_with_parent(parent)
    with os.fdopen(os.dup(1), "wb") as out:
        silence()
        write_frame(out, {"kind": "ready"})
        requests = FrameReader(0, sys.maxsize)
        try:
            _, body = requests.read(time.monotonic() + _TABLE_S)
            evaluator = Evaluator(pa.ipc.open_stream(body).read_all())
            confine(memory_bytes)
            while True:
                head, _ = requests.read(time.monotonic() + _IDLE_S)
                allow_seconds(seconds)
                write_frame(out, *_reply(evaluator, head["where"]))
        except (EOFError, TimeoutError, BrokenPipeError):
            return
        except (MemoryError, duckdb.OutOfMemoryException):
            os._exit(OUT_OF_MEMORY)


_TABLE_S: Final = 300.0  # project default
"""Longest wait in seconds for the table of documents."""
_IDLE_S: Final = 600.0  # project default
"""Seconds without a filter after which the process ends; the next filter starts another."""


def _reply(evaluator: Evaluator, where: str) -> tuple[Head, bytes]:
    try:
        return {"kind": "matches"}, np.packbits(evaluator.matches(where)).tobytes()
    except QuestionError as error:
        return {"kind": "refused", "why": str(error)}, b""


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A comparison of a column with constants in a filter; ``how`` is DuckDB's name for its operator."""

    column: str
    how: str
    constants: tuple[str, ...]


class Evaluator:
    """Evaluates filters over the table ``documents``, which has a row per document and a column ``doc_id``."""

    def __init__(self, documents: pa.Table) -> None:
        self._documents = documents
        self._names = {name.lower(): name for name in documents.column_names}
        self._duckdb = duckdb.connect(":memory:")
        self._duckdb.register("documents", documents)
        for setting in _LOCKED:
            self._duckdb.execute(f"SET {setting}")

    def matches(self, where: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Return a mask over the rows that is true for those that the filter matches.

        Raises QuestionError, suggesting the nearest column or value, for a filter that is invalid or matches no row.
        """
        try:
            expression = self._parsed(where)
            self._check(where, expression)
            condition = f"(\n{where}\n)"  # on a separate line: the filter may end with a comment
            table: Any = self._duckdb.execute(f"SELECT {condition} FROM documents").to_arrow_table()
            found = table.column(0)
        except (MemoryError, duckdb.OutOfMemoryException):
            raise
        except (duckdb.Error, UnicodeError, RecursionError, pa.ArrowException) as error:
            raise QuestionError(f"{_named(where)} cannot be evaluated: {_words(error)}. {self._columns()}") from error
        if not pa.types.is_boolean(found.type):
            raise QuestionError(f"{_named(where)} is not a condition. {_LIKE}")
        mask: np.ndarray[Any, np.dtype[np.bool_]] = pc.fill_null(found, False).to_numpy()
        if not mask.any():
            raise QuestionError(self._nothing(where, list(islice(_comparisons(expression), _SHOWN))))
        return mask

    def _parsed(self, where: str) -> Mapping[str, Any]:
        """Return DuckDB's parse tree of a filter. Raises QuestionError if it is not a single expression."""
        (said,) = self._duckdb.execute("SELECT json_serialize_sql(?)", [f"SELECT (\n{where}\n)"]).fetchone() or ("{}",)
        try:
            tree = json.loads(said)
        except RecursionError:
            raise QuestionError(_too_deep(where)) from None
        if tree.get("error"):
            raise QuestionError(f"{_named(where)} cannot be read: {_cut(tree['error_message'])}. {_LIKE}")
        nodes = [statement["node"] for statement in tree["statements"]]
        if len(nodes) != 1:
            raise QuestionError(f"{_named(where)} is more than one condition. {_LIKE}")
        (node,) = nodes
        alone = {key for key, value in node.items() if value and key not in ("modifiers", "group_sets")} <= _FIELDS
        if not (alone and node["type"] == "SELECT_NODE" and not node["modifiers"] and len(node["select_list"]) == 1):
            raise QuestionError(f"{_named(where)} is more than one condition. {_LIKE}")
        expression: Mapping[str, Any] = node["select_list"][0]
        return expression

    def _check(self, where: str, expression: Mapping[str, Any]) -> None:
        """Raise QuestionError for an unknown column, a part that is not allowed, or too many parts."""
        for number, (part, depth) in enumerate(_parts(expression)):
            if depth > MOST_DEPTH:
                raise QuestionError(_too_deep(where))
            if number >= _MOST_PARTS:
                raise QuestionError(
                    f"{_named(where)} has more than {_MOST_PARTS:,} columns, constants and operators. Shorten it, or "
                    "name the documents in doc_ids."
                )
            self._check_part(where, part)

    def _check_part(self, where: str, part: Mapping[str, Any]) -> None:
        kind = part["class"]
        if kind == "COLUMN_REF":
            name = ".".join(part["column_names"])
            if name.lower() not in self._names:
                raise QuestionError(f"{_named(where)} {self._no_column(name, where)}")
        elif kind == "CONSTANT":
            if len(str(part["literal"].get("text", ""))) > MOST_LITERAL_CHARS:
                raise QuestionError(
                    f"{_named(where)} has a constant of more than {MOST_LITERAL_CHARS:,} characters. Shorten it."
                )
        elif kind == "FUNCTION":
            name = str(part["function_name"]).lower()
            if name not in (_SYMBOLS if part["is_operator"] else _FUNCTIONS) and name not in _NEGATED:
                self._refuse_function(where, name)
        elif kind == "TYPE":
            if str(part["type_name"]).upper() not in _TYPES:
                raise QuestionError(
                    f"{_named(where)} casts to {_cut(part['type_name'])}, which a filter cannot use. The types are "
                    f"{', '.join(_TYPES)}."
                )
        elif kind not in _CLASSES or (kind == "OPERATOR" and part["type"] not in _OPERATORS):
            told = part["type"] if kind == "OPERATOR" else kind
            raise QuestionError(
                f"{_named(where)} holds a {str(told).lower()}, which is not allowed in a filter. {_LIKE}"
            )

    def _refuse_function(self, where: str, name: str) -> None:
        if name.lower() in _TODAY:
            raise QuestionError(
                f"{_named(where)} depends on the day: write the day itself, as in date >= '2026-01-31'."
            )
        near = _alike(name, _FUNCTIONS, 1, 0.6)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise QuestionError(
            f"{_named(where)} calls {_cut(name)}, which is not an allowed function.{hint} They are "
            f"{', '.join(_FUNCTIONS)}."
        )

    def _no_column(self, name: str, where: str) -> str:
        near = _alike(name, self._names, 2, 0.6)
        if name.lower() in _TODAY:
            self._refuse_function(where, name)
        hint = f" Did you mean {' or '.join(self._names[each] for each in near)}?" if near else ""
        if f'"{name}"' in where or not near:
            hint += f" Put text in single quotes: '{_cut(name)}'."
        return f"names the column {_cut(name)}, which no document has.{hint} {self._columns()}"

    def _columns(self) -> str:
        fields = list(self._documents.schema)
        shown = ", ".join(f"{field.name} ({_kind(field.type)})" for field in fields[:_COLUMNS_SHOWN])
        more = f" and {len(fields) - _COLUMNS_SHOWN} more" if len(fields) > _COLUMNS_SHOWN else ""
        return f"The columns are {shown}{more}."

    def _nothing(self, where: str, compared: Sequence[_Comparison]) -> str:
        """Return the message for a filter that matches nothing, with the nearest values and the columns' ranges."""
        facts = dict.fromkeys(fact for each in compared for fact in self._facts(each))
        if any(not each.constants for each in compared):
            facts["nothing equals null; write is null instead"] = None
        told = f": {'; '.join(facts)}" if facts else ""
        count = self._documents.num_rows
        return f"{_named(where)} matches none of {counted(count, 'document')}{told}. Change the question's where."

    def _facts(self, compared: _Comparison) -> Iterator[str]:
        name = self._names[compared.column.lower()]
        column = self._documents[name]
        if not _is_text(column.type):
            ends = pc.min_max(column).as_py()
            yield (
                f"{name} is empty everywhere"
                if ends["min"] is None
                else f"{name} lies between {ends['min']} and {ends['max']}"
            )
        elif compared.how in _EQUAL and compared.constants:
            counts = {each["values"]: each["counts"] for each in pc.value_counts(column).to_pylist()}
            counts.pop(None, None)
            for constant in compared.constants[:_SHOWN]:
                if constant in counts:
                    yield f"{name} is {_cut(constant)!r} in {counts[constant]:,} of them"
                else:
                    yield f"{name} is {_cut(constant)!r} in none of them, {_nearest(constant.strip('%'), counts)}"


_LIKE: Final = "A filter reads like company = 'AMD' and year >= 2022, with text in single quotes."


def _named(where: str) -> str:
    return f"The filter {_cut(where)!r}"


def _too_deep(where: str) -> str:
    return f"{_named(where)} has more than {MOST_DEPTH} levels of expressions within expressions. Simplify it."


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _alike(wanted: str, known: Collection[str], count: int, cutoff: float) -> list[str]:
    """Return the strings in ``known`` (lower case) nearest to ``wanted``; very long or late ones are not compared."""
    if len(wanted) > _LONGEST_COMPARED:
        return []
    short = (each for each in known if len(each) <= _LONGEST_COMPARED)
    return difflib.get_close_matches(wanted.lower(), list(islice(short, _MOST_COMPARED)), n=count, cutoff=cutoff)


def _nearest(wanted: str, values: Collection[str]) -> str:
    """Return a phrase that names the values most similar to ``wanted``, or else the first ones."""
    spelled: dict[str, str] = {}
    for value in values:
        spelled.setdefault(value.lower(), value)
    within = [lower for lower in spelled if wanted and wanted.lower() in lower]
    alike = _alike(wanted, spelled, _SHOWN, 0.5)
    near = list(dict.fromkeys([*alike, *within]))[:_SHOWN]
    if near:
        return f"the nearest: {', '.join(repr(_cut(spelled[each])) for each in near)}"
    shown = ", ".join(repr(_cut(each)) for each in sorted(values)[:_SHOWN])
    return f"its values: {shown}{', ...' if len(values) > _SHOWN else ''}" if values else "it is empty everywhere"


def _kind(kind: pa.DataType) -> str:
    return next((name for name, holds in _KINDS if holds(kind)), "text")


def _is_text(kind: pa.DataType) -> bool:
    return _kind(kind) == "text"


def _words(error: Exception) -> str:
    """Return DuckDB's error message without its prefix (the kind of error) and its excerpt of the statement."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    return _cut(first.partition(": ")[2].rstrip(".! ") or first)


def _parts(tree: Any) -> Iterator[tuple[Mapping[str, Any], int]]:
    """Yield a parsed expression and all expressions in it, with their depths (from 1). Works without recursion."""
    waiting = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, Mapping):
            if "class" in node:
                yield node, depth
                depth += 1
            waiting.extend((below, depth) for below in reversed(list(node.values())))
        elif isinstance(node, list):
            waiting.extend((below, depth) for below in reversed(node))


def _comparisons(expression: Mapping[str, Any]) -> Iterator[_Comparison]:
    for part, _ in _parts(expression):
        kind = part["class"]
        how = str(part.get("function_name") if kind == "FUNCTION" else part["type"])
        if kind == "COMPARISON":
            sides = [part["left"], part["right"]]
        elif kind == "BETWEEN":
            sides = [part["input"], part["lower"], part["upper"]]
        elif kind == "OPERATOR" and how == "COMPARE_IN":
            sides = part["children"]
        elif kind == "FUNCTION" and how in _EQUAL:
            sides = [argument["expression"] for argument in part["arguments"]]
        else:
            continue
        columns = [".".join(side["column_names"]) for side in sides if side["class"] == "COLUMN_REF"]
        constants = tuple(
            str(each["literal"]["text"])
            for side in sides
            for each, _ in _parts(side)
            if each["class"] == "CONSTANT" and each["literal"].get("kind") != "NULL_LITERAL"
        )
        if columns:
            yield _Comparison(columns[0], how, constants)


if __name__ == "__main__":
    main()
