"""Notifications of ``okralong nightly``: the rules of ``notify``, the cells that match them, and the messages.

``jobs/notify.py`` sends them. URLs with a key, token or password come from the environment only; a rule names the
variable.
"""

from __future__ import annotations

import html
import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import AfterValidator, Field, field_validator

from okralong.pipelines.core.config import VARIABLE_NAME, Settings
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.core.wording import counted, shortened

MOST_CELLS: Final = 20  # project default
"""Maximum number of cells in a message; the table of differences has all."""
VALUE_CHARS: Final = 300  # project default
"""Maximum length of a value, source or finding in a message."""

_NUMBER: Final = r"([-+]?\d[\d,_]*(?:\.\d+)?(?:[eE][-+]?\d+)?)"
_WORDS: Final = {
    "changed": "its answer changed",
    "new": "asked for the first time, or in other words",
    "vanished": "no longer answered",
    "disclosed": "newly answered",
    "check failed": "check failed",
    "corrected": "corrected by a person, or its correction reopened",
}
"""Conditions on cells that are single words, and how a message says them."""
OF_NIGHTS: Final = ("night failed", "over budget", "canaries failed")
_WITH_NUMBER: Final = {
    "moved": re.compile(rf"moved\s+(?:by\s+)?(?:more\s+than\s+)?{_NUMBER}\s*%"),
    "above": re.compile(rf"above\s+{_NUMBER}\s*(%?)"),
    "below": re.compile(rf"below\s+{_NUMBER}\s*(%?)"),
}


def _condition(text: str) -> str:
    """Return the condition in its normal form. Raises ValueError."""
    plain = " ".join(text.replace("_", " ").casefold().split())
    if plain in (*_WORDS, *OF_NIGHTS):
        return plain
    text = " ".join(text.casefold().split())
    for kind, pattern in _WITH_NUMBER.items():
        if found := pattern.fullmatch(text):
            number = float(re.sub("[,_]", "", found[1]))
            if not math.isfinite(number) or (kind == "moved" and number <= 0):
                raise ValueError("its number is out of range: write moved more than 5 %, above 1000 or below 0")
            return f"moved more than {number:.15g} %" if kind == "moved" else f"{kind} {number:.15g}{found[2] and ' %'}"
    near = get_close_matches(plain, (*_WORDS, *OF_NIGHTS), n=1)
    raise ValueError(
        f"it is no condition{f' (did you mean {near[0]}?)' if near else ''}. Write "
        f"{', '.join((*_WORDS, *OF_NIGHTS))}, moved more than N %, above N or below N"
    )


# --------
# Targets. A message about an invalid one must not repeat it, because it may hold a key.

_PLAIN: Final = ("json", "jsons", "xml", "xmls", "form", "forms", "mailto", "mailtos")
"""Schemes whose URLs need no key; the others carry it in their path."""
_QUERY: Final = frozenset(("to", "from", "cc", "bcc", "reply", "smtp", "mode", "name", "format", "method"))
_QUERY_OF_ALL: Final = frozenset(("rto", "cto", "overflow", "verify", "retry", "wait"))
_TOKEN: Final = re.compile(r"(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[\w-]{16,}|[\w-]{32,}")
"""A part of a path that looks like a token."""
_USE_ENV: Final = "Put the whole URL into an environment variable and write its name: to: [{env: OKRALONG_NOTIFY_URL}]"


class FromEnvironment(Settings):
    """``env`` is the environment variable that contains the URL."""

    env: str


Target = str | FromEnvironment


def label_of(target: Target) -> str:
    """Return a target's name for people: a variable, or a URL without a secret."""
    return f"${target.env}" if isinstance(target, FromEnvironment) else target


def _check_target(value: Any, key: str) -> None:
    if isinstance(value, Mapping):
        name = value.get("env")
        if set(value) != {"env"}:
            raise ConfigError(f"{key} must have the key env alone. {_USE_ENV}.")
        if not isinstance(name, str) or not VARIABLE_NAME.fullmatch(name):
            raise ConfigError(
                f"{key}.env must be the name of an environment variable in capitals, such as OKRALONG_NOTIFY_URL; the "
                f"value looks like a URL or a key, or is not such a name. {_USE_ENV}."
            )
        return
    if not isinstance(value, str) or "://" not in value:
        raise ConfigError(f"{key} is neither a URL nor a variable. {_USE_ENV}.")
    if (why := _secret_in(value)) is not None:
        raise ConfigError(f"{key} {why}, and a config must not hold a key, token or password. {_USE_ENV}.")


def _secret_in(url: str) -> str | None:
    """Return what a URL holds that may be a secret, or None. Without certainty it does."""
    try:
        parts = urlsplit(url)
        user, password = parts.username, parts.password
    except ValueError:
        return "is a URL that cannot be read"
    scheme = parts.scheme.lower()
    if scheme not in _PLAIN:
        return "is a URL of a service that takes its key from the URL, or of an unknown kind"
    if password is not None or (user is not None and not scheme.startswith("mailto")):
        return "holds a user with a password or key"
    allowed = _QUERY | _QUERY_OF_ALL if scheme.startswith("mailto") else _QUERY_OF_ALL | {"method", "format"}
    if parts.fragment or any(name.lower() not in allowed for name, _ in parse_qsl(parts.query, True)):
        return "has a parameter that may hold a key"
    if any(_TOKEN.fullmatch(part) for part in re.split(r"[^\w-]+", unquote(parts.path))):
        return "has what looks like a token in its path"
    return None


class Rule(Settings):
    """A rule of ``notify``.

    - ``when``: conditions, of which one suffices: changed, new (asked for the first time, or in other words), moved
      more than N %, above N, below N, vanished, disclosed (newly answered), check failed, corrected, night failed, over
      budget, canaries failed.
    - ``questions``: ids or patterns of questions; of a matrix, names of columns. All by default.
    - ``documents``: ids or patterns of documents. All by default.
    - ``to``: URLs as apprise takes them; one with a key or password is given by the variable that contains it,
      ``{env: NAME}``.
    """

    when: list[Annotated[str, AfterValidator(_condition)]] = Field(min_length=1)
    questions: list[str] = Field(default_factory=lambda: ["*"], min_length=1)
    documents: list[str] = Field(default_factory=lambda: ["*"], min_length=1)
    to: list[Target] = Field(min_length=1)

    @field_validator("when", "questions", "documents", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @property
    def key(self) -> str:
        """The rule without its targets, as text."""
        return json.dumps([self.when, self.questions, self.documents])


def check_targets(rules: Any) -> Any:
    """Return the raw value of ``notify`` with lists of targets. Raises ConfigError without repeating a target."""
    if not isinstance(rules, list) or not all(isinstance(rule, Mapping) for rule in rules):
        raise ConfigError("notify must be a list of rules, each with when and to.")
    checked = []
    for number, rule in enumerate(rules):
        targets = rule.get("to", [])
        targets = targets if isinstance(targets, list) else [targets]
        for at, target in enumerate(targets):
            _check_target(target, f"notify.{number}.to.{at}")
        checked.append({**rule, "to": targets} if "to" in rule else rule)
    return checked


def unknown_questions(rules: Sequence[Rule], known: Collection[str]) -> list[str]:
    """Return a message for each id or pattern of ``questions`` that matches no known question or column."""
    found = []
    for number, rule in enumerate(rules):
        for at, pattern in enumerate(rule.questions):
            if pattern != "*" and not any(fnmatchcase(each, pattern) for each in known):
                near = get_close_matches(pattern, known, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                found.append(f"notify.{number}.questions.{at} = {pattern!r} matches no question or column{hint}")
    return found


# --------
# The cells that match.


@dataclass(frozen=True)
class Value:
    """A cell's value on one night: its ``status``, its words, and the number with its unit, if it has one."""

    status: str = ""
    shown: str = ""
    number: float | None = None
    unit: str = ""


@dataclass(frozen=True)
class News:
    """What is new about a cell, or about a question without a table.

    Attributes:
        names: The query_id and, of a cell, its column.
        documents: The documents asked.
        change: The kind of change in the table of differences; "" if it is not in it.
        source, link: The source of the value after, or before if there is none after.
        cause: The cause of the change, if known.
        checks: Checks that failed newly: the rule, and what it found.
    """

    names: tuple[str, ...]
    question: str
    documents: tuple[str, ...]
    change: str = ""
    before: Value = Value()
    after: Value = Value()
    source: str = ""
    link: str = ""
    cause: str = ""
    checks: tuple[tuple[str, str], ...] = ()
    corrected: bool = False

    def _holds(self, condition: str) -> bool:
        kind, _, rest = condition.partition(" ")
        before, after = self.before, self.after
        if condition == "changed":
            return self.change in ("changed", "newly_answered", "newly_unanswerable", "failed")
        if condition == "new":
            return self.change == "new_question"
        if condition == "vanished":
            return before.status == "answered" and after.status == "unanswerable"
        if condition == "disclosed":
            return before.status == "unanswerable" and after.status == "answered"
        if condition == "check failed":
            return bool(self.checks)
        if condition == "corrected":
            return self.corrected
        if kind == "moved":
            return _moved(before, after, float(rest.split()[-2]))
        if kind in ("above", "below"):
            bound, _, percent = rest.partition(" ")
            return _beyond(after, kind, float(bound), percent) and not _beyond(before, kind, float(bound), percent)
        return False  # of a night, not of a cell

    def reasons(self, rule: Rule) -> list[str]:
        """Return the conditions of ``rule`` that hold for this cell."""
        if not any(fnmatchcase(name, pattern) for name in self.names for pattern in rule.questions):
            return []
        documents = self.documents or ("",)
        if not any(fnmatchcase(name, pattern) for name in documents for pattern in rule.documents):
            return []
        return [condition for condition in rule.when if self._holds(condition)]


def _moved(before: Value, after: Value, percent: float) -> bool:
    """Return whether a number moved by more than ``percent``; another unit or currency counts as a move."""
    if before.number is None or after.number is None:
        return False
    if before.unit and after.unit and before.unit != after.unit:
        return True
    return abs(after.number - before.number) * 100 > percent * abs(before.number) * (1 + 1e-12)


def _beyond(value: Value, kind: str, bound: float, percent: str) -> bool:
    if value.number is None or (percent and value.unit != "%"):
        return False
    return value.number > bound if kind == "above" else value.number < bound


@dataclass(frozen=True)
class Found:
    """A cell in a message."""

    name: str
    question: str
    documents: str
    why: tuple[str, ...]
    before: str = ""
    after: str = ""
    source: str = ""
    link: str = ""
    cause: str = ""
    checks: tuple[str, ...] = ()


def matching(rule: Rule, news: Iterable[News]) -> list[Found]:
    """Return the cells that match a rule.

    A check that compares a changed value with unchanged ones is reported at the changed value.
    """
    matched = [(each, why) for each in news if (why := each.reasons(rule))]
    told = {check for each, _ in matched if each.change for check in each.checks}
    return [
        Found(
            each.names[-1],
            _short(each.question),
            _short("; ".join(each.documents)),
            tuple(why),
            _shown(each.before),
            _shown(each.after),
            _short(each.source),
            each.link,
            _short(each.cause),
            tuple(_short(f"{check}: {says}") for check, says in each.checks),
        )
        for each, why in matched
        if each.change or why != ["check failed"] or not told.issuperset(each.checks)
    ]


def _shown(value: Value) -> str:
    return _short(value.shown) if value.status == "answered" else f"({value.status})" if value.status else ""


def _short(text: str) -> str:
    text = " ".join(_printable(text).split())
    return shortened(text, VALUE_CHARS)


def stored(rules: Sequence[Rule], news: Sequence[News]) -> bytes:
    """Return the cells of each rule, without targets, as JSON."""
    return json.dumps({rule.key: [asdict(each) for each in matching(rule, news)] for rule in rules}).encode()


def restored(content: bytes) -> dict[str, list[Found]]:
    """Read what ``stored`` returned: cells by ``Rule.key``."""
    found = json.loads(content)
    for cells in found.values():
        for cell in cells:
            cell |= {"why": tuple(cell["why"]), "checks": tuple(cell["checks"])}
    return {key: [Found(**cell) for cell in cells] for key, cells in found.items()}


# --------
# Messages.

Kind = Literal["info", "warning", "failure"]


@dataclass(frozen=True)
class Message:
    """A message as plain text and as HTML."""

    title: str
    text: str
    html: str
    kind: Kind = "info"


@dataclass(frozen=True)
class Report:
    """What a night has to tell.

    Attributes:
        night: Its name.
        cells: The matching cells by ``Rule.key``.
        failed: Why the night ended early, or "".
        over_budget: What its budget did not allow, or "".
        canaries: Why the endpoint was not trusted, or "".
        table: The place of the table of differences, or "".
    """

    night: str
    cells: Mapping[str, Sequence[Found]] = field(default_factory=dict)
    failed: str = ""
    over_budget: str = ""
    canaries: str = ""
    table: str = ""

    def messages(self, rules: Sequence[Rule]) -> dict[str, tuple[Target, Message]]:
        """Return a message for each target that has something to hear, with the target, by its label."""
        heard: dict[str, tuple[Target, list[Rule]]] = {}
        for rule in rules:
            for target in rule.to:
                heard.setdefault(label_of(target), (target, []))[1].append(rule)
        found = {label: (target, self._message(mine)) for label, (target, mine) in heard.items()}
        return {label: (target, message) for label, (target, message) in found.items() if message is not None}

    def _message(self, rules: Sequence[Rule]) -> Message | None:
        said = {condition for rule in rules for condition in rule.when}
        heads = [("night failed", self.failed), ("over budget", self.over_budget)]
        heads.append(("canaries failed", self.canaries))
        heads = [(condition, words) for condition, words in heads if words and condition in said]
        cells: dict[tuple[str, str], Found] = {}
        for rule in rules:
            for each in self.cells.get(rule.key, ()):
                known = cells.setdefault((each.name, each.documents), each)
                why = tuple(dict.fromkeys((*known.why, *each.why)))
                cells[each.name, each.documents] = Found(**{**known.__dict__, "why": why})
        if not heads and not cells:
            return None
        kind: Kind = "failure" if heads else "info"
        if not heads and any("check failed" in each.why for each in cells.values()):
            kind = "warning"
        about = [condition for condition, _ in heads] + ([counted(len(cells), "cell")] if cells else [])
        title = f"okralong, night {self.night}: {', '.join(about)}"
        page = _Page.of(list(dict.fromkeys(words for _, words in heads)), list(cells.values()), self.table)
        return Message(title, page.text, page.html, kind)


@dataclass(frozen=True)
class _Page:
    text: str
    html: str

    @classmethod
    def of(cls, heads: Sequence[str], cells: Sequence[Found], table: str) -> Self:
        text, marked = [*heads], [f"<p><b>{_safe(words)}</b></p>" for words in heads]
        for each in cells[:MOST_CELLS]:
            head = f"{each.name}, {each.documents}" if each.documents else each.name
            why = ", ".join(_WORDS.get(condition, condition) for condition in each.why)
            rows = [("question", each.question), ("before", each.before), ("after", each.after)]
            rows += [("cause", each.cause), *(("check failed", check) for check in each.checks)]
            lines = [f"  {name}: {words}" for name, words in rows if words]
            cellmarks = [f"<li>{name}: {_safe(words)}</li>" for name, words in rows if words]
            if each.source:
                lines.append(f"  source: {each.source}{f' {each.link}' if each.link else ''}")
                cellmarks.append(f"<li>source: {_linked(each.source, each.link)}</li>")
            text.append("\n".join([f"{head}: {why}", *lines]))
            marked.append(f"<p><b>{_safe(head)}</b>: {_safe(why)}</p><ul>{''.join(cellmarks)}</ul>")
        more = len(cells) - MOST_CELLS
        last = [f"and {more:,} more in the table of differences"] if more > 0 else []
        last += [f"all differences: {table}"] if table and cells else []
        text += last
        marked += [f"<p>{_safe(words)}</p>" for words in last]
        return cls("\n\n".join(text), "\n".join(marked))


def _linked(source: str, link: str) -> str:
    if not link.startswith(("http://", "https://", "file://")):
        return _safe(source)
    return f'<a href="{_safe(link)}">{_safe(source)}</a>'


def _safe(text: str) -> str:
    return html.escape(_printable(text))


def _printable(text: str) -> str:
    """Replace control characters and marks of direction by blanks."""
    return "".join(each if each.isprintable() else " " for each in text)


SAMPLE: Final = Found(
    "revenue",
    "What is the revenue?",
    "example-report",
    ("changed", "moved more than 5 %"),
    "100,000 USD",
    "112,000 USD",
    "example-report, page 12",
)
"""The invented cell of a test message."""


def sample(rules: Sequence[Rule]) -> dict[str, tuple[Target, Message]]:
    """Return a test message for every target, which lists its conditions."""
    found: dict[str, tuple[Target, Message]] = {}
    heard: dict[str, list[str]] = {}
    for rule in rules:
        asked = "; ".join(rule.questions) if rule.questions != ["*"] else "all questions"
        of = f" of {'; '.join(rule.documents)}" if rule.documents != ["*"] else ""
        for target in rule.to:
            heard.setdefault(label_of(target), []).append(f"{', '.join(rule.when)} ({asked}{of})")
            found[label_of(target)] = (target, Message("", "", ""))
    for label, (target, _) in found.items():
        head = f"This is a test of okralong nightly; the cell below is invented. Rules: {'. '.join(heard[label])}."
        page = _Page.of([head], [SAMPLE], "")
        found[label] = (target, Message("okralong nightly: test message", page.text, page.html))
    return found
