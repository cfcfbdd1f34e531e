"""The ``where`` of a question: a condition over the documents' metadata, in SQL, such as
``company = 'AMD' and year >= 2022``.

DuckDB evaluates it over a table in memory, with no access to files or network and its configuration locked. A filter is
one condition over the columns: it is parsed first, and anything else than columns, constants, operators and the
functions named here is refused. None of them depends on the day or on chance, so that a run that goes on tomorrow asks
the same documents.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from okralong.pipelines.core.types import QuestionError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_LOCKED: Final = (
    "enable_external_access = false",
    "python_enable_replacements = false",  # else the names of this program's variables would be tables
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "memory_limit = '512MB'",
    "threads = 1",
    "lock_configuration = true",
)
_PARTS: Final = {"CONJUNCTION", "COMPARISON", "OPERATOR", "BETWEEN", "FUNCTION", "CASE", "CAST", "TYPE", "COLLATE"}
"""DuckDB's classes of expressions that a filter may hold, beside columns and constants."""
_FUNCTIONS: Final = (
    *("lower", "upper", "trim", "length", "left", "right", "substring", "replace", "split_part", "strip_accents"),
    *("concat", "contains", "starts_with", "ends_with", "regexp_matches", "regexp_extract", "levenshtein"),
    *("abs", "ceil", "floor", "round", "greatest", "least"),
    *("year", "quarter", "month", "week", "day", "dayofweek", "date_part", "date_trunc", "make_date", "strptime"),
)
_TODAY: Final = ("current_date", "current_timestamp", "current_time", "now", "today")
_FIELDS: Final = {"type", "cte_map", "select_list", "from_table", "aggregate_handling"}
"""What is set in a parsed ``SELECT (...)`` of one expression and nothing else."""
_EQUAL: Final = {"COMPARE_EQUAL", "COMPARE_IN", "~~", "~~*"}
"""Comparisons for equality, with LIKE and ILIKE, after which the nearest values are a help."""
_SHOWN: Final = 5
_COLUMNS_SHOWN: Final = 20
_KINDS: Final[Sequence[tuple[str, Any]]] = (
    ("number", lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind)),
    ("date", pa.types.is_temporal),
    ("true or false", pa.types.is_boolean),
)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A column that a filter compares with constants, and how, in DuckDB's words."""

    column: str
    how: str
    constants: tuple[str, ...]


class MetadataFilter:
    """Evaluates filters over one table, ``documents``: a row a document, with ``doc_id``, each distinct one once."""

    def __init__(self, documents: pa.Table) -> None:
        self._documents = documents
        self._names = {name.lower(): name for name in documents.column_names}
        self._found: dict[str, frozenset[str] | QuestionError] = {}
        self._connection: DuckDBPyConnection | None = None

    def doc_ids(self, where: str) -> frozenset[str]:
        """The documents that the filter matches, at least one.

        Raises QuestionError that names the nearest column or value: for what is no filter, or matches nothing.
        """
        if where not in self._found:
            try:
                self._found[where] = self._evaluated(where)
            except QuestionError as error:
                self._found[where] = error
        found = self._found[where]
        if isinstance(found, QuestionError):
            raise QuestionError(*found.args)
        return found

    def _evaluated(self, where: str) -> frozenset[str]:
        import duckdb

        expression = self._parsed(where)
        self._check(where, expression)
        sql = f"FROM documents WHERE (\n{where}\n)"  # on a line of its own: it may end with a comment
        try:
            (kind,) = self._duckdb.execute(f"SELECT any_value(typeof((\n{where}\n))) FROM documents").fetchone() or (
                None,
            )
            if kind not in ("BOOLEAN", None):
                raise QuestionError(f"{_named(where)} is no condition. {_LIKE}")
            found = frozenset(doc_id for (doc_id,) in self._duckdb.execute(f"SELECT doc_id {sql}").fetchall())
        except duckdb.Error as error:
            raise QuestionError(f"{_named(where)} cannot be evaluated: {_words(error)}. {self._columns()}") from error
        if not found:
            raise QuestionError(self._nothing(where, list(_comparisons(expression))))
        return found

    @property
    def _duckdb(self) -> DuckDBPyConnection:
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect(":memory:")
            self._connection.register("documents", self._documents)
            for setting in _LOCKED:
                self._connection.execute(f"SET {setting}")
        return self._connection

    def _parsed(self, where: str) -> Mapping[str, Any]:
        """DuckDB's tree of the expression. Raises QuestionError for what is not one expression."""
        (said,) = self._duckdb.execute("SELECT json_serialize_sql(?)", [f"SELECT (\n{where}\n)"]).fetchone() or ("{}",)
        tree = json.loads(said)
        if tree.get("error"):
            raise QuestionError(f"{_named(where)} cannot be read: {tree['error_message']}. {_LIKE}")
        (node,) = [statement["node"] for statement in tree["statements"]]
        alone = {key for key, value in node.items() if value and key not in ("modifiers", "group_sets")} <= _FIELDS
        if not (alone and node["type"] == "SELECT_NODE" and not node["modifiers"] and len(node["select_list"]) == 1):
            raise QuestionError(f"{_named(where)} is more than one condition. {_LIKE}")
        expression: Mapping[str, Any] = node["select_list"][0]
        return expression

    def _check(self, where: str, expression: Mapping[str, Any]) -> None:
        """Raises QuestionError for a column that is not there, and for what is no part of a condition."""
        for part in _parts(expression):
            kind = part["class"]
            if kind == "COLUMN_REF":
                name = ".".join(part["column_names"])
                if name.lower() not in self._names:
                    raise QuestionError(f"{_named(where)} {self._no_column(name, where)}")
            elif kind == "FUNCTION" and not part["is_operator"] and part["function_name"].lower() not in _FUNCTIONS:
                self._refuse_function(where, str(part["function_name"]))
            elif kind not in ("CONSTANT", *_PARTS):
                raise QuestionError(f"{_named(where)} holds a {kind.lower()}, which no condition needs. {_LIKE}")

    def _refuse_function(self, where: str, name: str) -> None:
        if name.lower() in _TODAY:
            raise QuestionError(
                f"{_named(where)} depends on the day: write the day itself, as in date >= '2026-01-31'."
            )
        near = difflib.get_close_matches(name.lower(), _FUNCTIONS, n=1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise QuestionError(
            f"{_named(where)} calls {name}, which is none of the functions of a filter.{hint} They are "
            f"{', '.join(_FUNCTIONS)}."
        )

    def _no_column(self, name: str, where: str) -> str:
        near = difflib.get_close_matches(name.lower(), self._names, n=2, cutoff=0.6)
        if name.lower() in _TODAY:
            self._refuse_function(where, name)
        hint = f" Did you mean {' or '.join(self._names[each] for each in near)}?" if near else ""
        if f'"{name}"' in where or not near:
            hint += f" Text stands in single quotes: '{name}'."
        return f"names the column {name}, which no document has.{hint} {self._columns()}"

    def _columns(self) -> str:
        fields = list(self._documents.schema)
        shown = ", ".join(f"{field.name} ({_kind(field.type)})" for field in fields[:_COLUMNS_SHOWN])
        more = f" and {len(fields) - _COLUMNS_SHOWN} more" if len(fields) > _COLUMNS_SHOWN else ""
        return f"The columns are {shown}{more}."

    def _nothing(self, where: str, compared: Sequence[_Comparison]) -> str:
        """Why a filter may match nothing: the values that are nearest, the ranges that there are."""
        facts = dict.fromkeys(fact for each in compared for fact in self._facts(each))
        if any(not each.constants for each in compared):
            facts["nothing equals null, which is asked for by is null"] = None
        told = f": {'; '.join(facts)}" if facts else ""
        count = self._documents.num_rows
        return f"{_named(where)} matches none of {count:,} documents{told}. Change the question's where."

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
            for constant in compared.constants:
                if constant in counts:
                    yield f"{name} is {constant!r} in {counts[constant]:,} of them"
                else:
                    yield f"{name} is {constant!r} in none of them, {_nearest(constant.strip('%'), counts)}"


_LIKE: Final = "A filter reads like company = 'AMD' and year >= 2022, with text in single quotes."


def _named(where: str) -> str:
    return f"The filter {where!r}"


def _nearest(wanted: str, values: Collection[str]) -> str:
    """In words, the values that are most like the one wanted; else the first ones."""
    spelled: dict[str, str] = {}
    for value in values:
        spelled.setdefault(value.lower(), value)
    within = [lower for lower in spelled if wanted and wanted.lower() in lower]
    alike = difflib.get_close_matches(wanted.lower(), spelled, n=_SHOWN, cutoff=0.5)
    near = list(dict.fromkeys([*alike, *within]))[:_SHOWN]
    if near:
        return f"the nearest: {', '.join(repr(spelled[each]) for each in near)}"
    shown = ", ".join(map(repr, sorted(values)[:_SHOWN]))
    return f"its values: {shown}{', ...' if len(values) > _SHOWN else ''}" if values else "it is empty everywhere"


def _kind(kind: pa.DataType) -> str:
    return next((name for name, holds in _KINDS if holds(kind)), "text")


def _is_text(kind: pa.DataType) -> bool:
    return _kind(kind) == "text"


def _words(error: Exception) -> str:
    """DuckDB's message without its kind and its picture of the statement."""
    first = str(error).strip().splitlines()[0]
    return first.partition(": ")[2].rstrip(".! ") or first


def _parts(tree: Any) -> Iterator[Mapping[str, Any]]:
    """All expressions within a parsed one, itself first."""
    if isinstance(tree, Mapping):
        if "class" in tree:
            yield tree
        for below in tree.values():
            yield from _parts(below)
    elif isinstance(tree, list):
        for below in tree:
            yield from _parts(below)


def _comparisons(expression: Mapping[str, Any]) -> Iterator[_Comparison]:
    for part in _parts(expression):
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
            for each in _parts(side)
            if each["class"] == "CONSTANT" and each["literal"].get("kind") != "NULL_LITERAL"
        )
        if columns:
            yield _Comparison(columns[0], how, constants)
