"""Collect what is new in a night, and send messages through apprise. No URL is ever printed, logged or stored."""

from __future__ import annotations

import logging
import os
import queue
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.core.wording import counted
from okralong.pipelines.reporting.causes import CAUSES
from okralong.pipelines.reporting.diff import RunDiff
from okralong.pipelines.reporting.export import Exported
from okralong.pipelines.reporting.matrix import Matrix, unit_of, words_of
from okralong.pipelines.run.notify import FromEnvironment, Message, News, Report, Rule, Target, Value, sample

LONGEST_S: Final = 30.0  # project default
"""Maximum time that a night spends on sending its messages; all are sent at once."""
_SOCKET_S: Final = 15.0  # project default
"""Time limit for connecting, and for each part of a reply."""
MOST_ERROR_CHARS: Final = 2_000  # project default
"""Maximum length of an error in a message."""
SENT: Final = "sent"


def news_of(diff: RunDiff, old: Exported | None, new: Exported) -> list[News]:
    """Return what is new in a night: its differences, and cells of checks that failed newly."""
    before, after = ({} if run is None else {r["query_id"]: r for r in run.answers.to_pylist()} for run in (old, new))
    changes = {row["query_id"]: row for row in diff.table.to_pylist()}
    failed = _newly_failed(None if old is None else old.matrix, new.matrix)
    return [
        _news(changes.get(query_id), before.get(query_id), after.get(query_id), failed.get(query_id, ()))
        for query_id in dict.fromkeys((*changes, *failed))
    ]


def _newly_failed(old: Matrix | None, new: Matrix | None) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    if new is not None:
        for each in new.new_failures(old):
            for cell in each.cells:
                found.setdefault(new.cells[cell]["query_id"], []).append((each.rule, each.says))
    return found


def _news(
    change: Mapping[str, Any] | None,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    checks: Sequence[tuple[str, str]],
) -> News:
    row = after or before
    assert row is not None
    cited = row if row.get("doc_id") else before or row
    place = ", ".join(filter(None, (cited.get("doc_id"), cited.get("section"))))
    return News(
        tuple(dict.fromkeys(filter(None, (row["query_id"], row["asked_id"])))),
        row["question"],
        tuple(filter(None, (row["scope"] or "").split("; "))),
        change["change"] if change else "",
        _value(before),
        _value(after),
        place,
        cited.get("link") or "",
        f"{CAUSES[change['cause']]} ({change['because']})" if change else "",
        tuple(checks),
        change is not None and "correction" in change["what"].split(", "),
    )


def _value(row: Mapping[str, Any] | None) -> Value:
    if row is None:
        return Value()
    number = row["number"] if row["status"] == "answered" else None
    return Value(row["status"], words_of(row), number, unit_of(row))


def tell(
    console: Console, rules: Sequence[Rule], report: Report, known: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Send what ``report`` has for the targets, except those to which ``known`` has "sent"; say what failed.

    Yields each target's label with "sent" or the reason, as soon as it is known.
    """
    messages = {label: each for label, each in report.messages(rules).items() if known.get(label) != SENT}
    for label, trouble in send(messages):
        if trouble:
            say_line(console, f"notify: {label} was not notified: {trouble}", style="yellow")
        else:
            say_line(console, f"notified: {label}")
        yield label, trouble or SENT


def tell_stop(console: Console, rules: Sequence[Rule], report: Report) -> None:
    """Send that a night ended early; whatever goes wrong is only said, as the night's own error follows."""
    # The words of an error may quote a reply, and a chat is no place for pages of it.
    for _ in tell(console, rules, replace(report, failed=report.failed[:MOST_ERROR_CHARS]), {}):
        pass


def try_targets(console: Console, rules: Sequence[Rule]) -> bool:
    """Send a test message to every target, say which accepted it, and return whether all did."""
    told = list(send(sample(rules)))
    for label, trouble in sorted(told):
        say_line(console, f"{label}: {trouble or 'accepted'}", style="red" if trouble else "")
    refused = sum(bool(trouble) for _, trouble in told)
    say_line(console, f"{counted(len(told) - refused, 'target')} accepted the test message, {refused:,} did not")
    return not refused


# --------
# Sending.


def send(messages: Mapping[str, tuple[Target, Message]]) -> Iterator[tuple[str, str]]:
    """Send all messages at once, and yield each target's label with "", or why it failed.

    A target that does not reply within ``LONGEST_S`` counts as failed. Its daemon thread does not delay the exit.
    """
    if not messages:
        return
    results: queue.Queue[tuple[str, str]] = queue.Queue()
    waiting = set(messages)

    def work(label: str, target: Target, message: Message) -> None:
        try:
            trouble = _send(target, message)
        except Exception as error:  # plugins raise all kinds of exceptions, whose words may hold the URL
            trouble = f"the message could not be sent ({type(error).__name__})"
        results.put((label, trouble))

    _quiet_apprise()
    deadline = time.monotonic() + LONGEST_S
    for label, (target, message) in messages.items():
        threading.Thread(target=work, args=(label, target, message), daemon=True).start()
    while waiting:
        try:
            label, trouble = results.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            break
        waiting.discard(label)
        yield label, trouble
    for label in sorted(waiting):
        yield label, f"no reply within {LONGEST_S:g} s"


def _send(target: Target, message: Message) -> str:
    """Send a message, and return why it failed, or ""."""
    from apprise import Apprise, AppriseAsset, NotifyFormat, NotifyType

    if isinstance(target, FromEnvironment):
        url = os.environ.get(target.env, "").strip()
        if not url:
            return f"the environment variable {target.env} is not set. Set it to a URL of apprise"
    else:
        url = target
    # The limit of a service would move the call to a thread that is joined at exit; LONGEST_S bounds it here.
    asset = AppriseAsset(
        app_id="okralong",
        app_desc="okralong nightly",
        app_url="",
        image_url_mask="",
        async_mode=False,
        service_timeout=0,
        http_redirects=False,  # the other address would read the message
    )
    plugin = Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if plugin is None:
        return "the URL cannot be used. Write it as apprise documents it for the service"
    if "rto=" not in url:
        plugin.socket_read_timeout = _SOCKET_S
    if "cto=" not in url:
        plugin.socket_connect_timeout = _SOCKET_S
    sender = Apprise(asset=asset)
    sender.add(plugin)
    as_html = plugin.resolve_format() == NotifyFormat.HTML
    sent = sender.notify(
        body=message.html if as_html else message.text,
        title=message.title,
        notify_type=NotifyType(message.kind),
        body_format=NotifyFormat.HTML if as_html else NotifyFormat.TEXT,
    )
    return "" if sent else _REASONS.reason()


class _Reasons(logging.Handler):
    """Keeps what apprise logs in a thread as words of our own, because its lines may hold the URL."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._by_thread: dict[int, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        words = record.getMessage()
        if found := re.search(r"\berror=([1-5]\d\d)\b", words):
            is_moved = found[1].startswith("3")
            more = (
                " and would pass the message on to another address. Write that one, if it is right" if is_moved else ""
            )
            self._by_thread[threading.get_ident()] = f"it answered with the HTTP status {found[1]}{more}"
        elif "onnection error" in words:
            self._by_thread.setdefault(
                threading.get_ident(), "no connection, no reply in time, or the login was refused"
            )

    def reason(self) -> str:
        return self._by_thread.pop(threading.get_ident(), "the service did not accept the message")


_REASONS: Final = _Reasons()


def _quiet_apprise() -> None:
    """Keep apprise's log lines from every other handler, also those of calls that outlast ``LONGEST_S``."""
    logger = logging.getLogger("apprise")
    logger.propagate = False
    if _REASONS not in logger.handlers:
        logger.addHandler(_REASONS)
