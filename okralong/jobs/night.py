"""One night of ``okralong nightly``, phase by phase."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import typer
from rich.console import Console

from okralong.actors.index_streams import index_archive
from okralong.jobs.answer import Starting, answer_prepared
from okralong.jobs.canaries import canary_config, judged
from okralong.jobs.diff import print_diff
from okralong.jobs.estimate import Asking, estimate_prepared
from okralong.jobs.nightly_files import Places, copied, copy_name
from okralong.jobs.notify import SENT, news_of, tell, tell_stop
from okralong.jobs.terminal import IndexPanel, say_line
from okralong.pipelines.archive.versions import Location, version_numbers
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.telemetry import started
from okralong.pipelines.core.types import (
    EXIT_CANARIES,
    EXIT_CHANGED,
    EXIT_FAILURES,
    EXIT_OK,
    EXIT_OVER_BUDGET,
    CanariesFailed,
    OverBudget,
)
from okralong.pipelines.core.wording import counted
from okralong.pipelines.indexing.maintenance import vacuum
from okralong.pipelines.methods.registry import describe
from okralong.pipelines.reporting.causes import Replayed
from okralong.pipelines.reporting.diff import RunDiff, diff_page, diff_runs
from okralong.pipelines.reporting.export import Exported, export_run, write_tables
from okralong.pipelines.reporting.history import HISTORY, History, history_page
from okralong.pipelines.run.canaries import Verdict
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.corrections import (
    REOPENED,
    Entry,
    append_entries,
    corrections_of,
    read_entries,
    reopened_by,
    standing,
    write_gold,
)
from okralong.pipelines.run.nightly import (
    CANARIES,
    CURRENT,
    DIFFERENCES,
    NIGHT,
    NIGHTS,
    NOTIFICATIONS,
    RUN,
    Current,
    Merged,
    Night,
    Phase,
    due,
    expired,
    known_documents,
    merged,
    nights,
    only,
    rehash_due,
    setup_of,
    write_current,
)
from okralong.pipelines.run.notify import Report, restored, stored
from okralong.pipelines.run.prepare import Prepared, prepare
from okralong.pipelines.run.question_sources import read_checks
from okralong.pipelines.run.rows import write_order
from okralong.pipelines.statements.checks import Failure

MOST_CHECKS: Final = 10  # project default
"""Newly failed checks that a night's summary names."""

TABLES: Final = ("xlsx", "csv", "parquet")
"""Formats of the table of differences; ``on_change`` gets the first."""

LEAST_USD: Final = 1e-9
"""The budget of a run for which nothing is left: it ends with its questions over_budget."""


class NightStopped(typer.Exit):
    """A night that cannot go on, for a reason that was printed."""

    def __init__(self, code: int, why: str) -> None:
        super().__init__(code)
        self.why = why


def _check_lines(failed: Sequence[Failure]) -> list[str]:
    """Return a line for each of the first failed checks, and one for the others."""
    lines = [f"check failed: {each.rule}: {each.says}" for each in failed[:MOST_CHECKS]]
    more = len(failed) - MOST_CHECKS
    return [*lines, f"{counted(more, 'more check')} failed; current has all"] if more > 0 else lines


def worst(codes: list[int]) -> int:
    """Return the exit code that tells most of several."""
    order = (EXIT_OVER_BUDGET, EXIT_FAILURES, EXIT_CHANGED, EXIT_OK)
    return next(code for code in order if code in codes)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class NightJob:
    """One night; ``carry`` runs its remaining phases."""

    def __init__(self, places: Places, folder: Folder, night: Night, console: Console) -> None:
        self.places, self.config, self.folder, self.console = places, places.config, folder, console
        self.night = night
        self.place = folder.at(NIGHTS, night.name)
        self.run = self.place.at(RUN)
        self.current_folder = folder.at(CURRENT)
        self.archive = places.of(places.config.archive)

    def carry(self) -> int:
        """Run the remaining phases and return the night's exit code."""
        steps: Mapping[str, Callable[[], None]] = {
            "index": self._index,
            "estimate": self._estimate,
            "canaries": self._canaries,
            "answer": self._answer,
            "diff": self._diff,
            "merge": self._merge,
            "tell": self._tell,
            "keep": self._keep,
        }
        about = {"okralong.night": self.night.name}
        with started(self.places.telemetry, self._location(self.folder), "okralong night", about) as telemetry:
            while (phase := self.night.phase) != "done":
                with nullcontext() if telemetry is None else telemetry.phase(phase):
                    steps[phase]()
        return self.night.exit_code

    def _done(self, phase: Phase, **news: Any) -> None:
        self.night = self.night.after(phase, **news)
        self.night.write(self.place)

    def _say(self, line: str, style: str = "") -> None:
        say_line(self.console, line, style=style)

    def _at_least(self, code: int) -> int:
        return worst([self.night.exit_code, code])

    # The phases.

    def _index(self) -> None:
        self.night.write(self.place)
        self._say(f"night {self.night.name}")
        sources = [self.places.of(each) for each in self.config.sources]
        days = [str(each.notes.get("rehashed") or "") for each in nights(self.folder)]
        last = next(filter(None, reversed(days)), "")  # each night notes it, since older ones are removed
        rehash = rehash_due(self.config.rehash, last, self.night.day)
        with IndexPanel(self.console) as panel:
            result = index_archive(self.archive, sources, self.places.index, progress=panel.update, rehash=rehash)
        changes = ", ".join(f"{count:,} {what}" for what, count in result.changes.items() if count)
        self._say(f"archive: version {result.version}, {counted(result.documents, 'document')} ({changes})")
        if result.failures:
            self._say(
                f"{counted(result.failures, 'document')} could not be read; see: okralong failures {self.archive}",
                "yellow",
            )
        code = EXIT_FAILURES if result.failures else EXIT_OK
        rehashed = self.night.day.isoformat() if rehash else last
        notes = {"documents": result.changes, "not_read": result.failures, "rehashed": rehashed}
        self._done("index", archive_version=result.version, exit_code=self._at_least(code), notes=notes)

    def _estimate(self) -> None:
        """Select the questions to ask, and stop if they would exceed the budget."""
        self.night = replace(self.night, questions=copied(self.places.of(self.config.questions), self.place))
        if self.config.canaries is not None:
            copied(self.places.of(self.config.canaries.questions), self.place.at(CANARIES))
        prepared = self._prepared()
        why = due(prepared, self.current, known_documents(prepared.archive), self.config.retry)
        counts = Counter(why.values())
        reasons = f" ({', '.join(f'{count:,} {reason}' for reason, count in counts.items())})" if why else ""
        asked = len(prepared.questions) + len(prepared.unscoped)
        self._say(f"questions: {asked:,}, to ask: {len(why):,}{reasons}")
        for row in prepared.bad[:10]:
            self._say(f"cannot be asked: {row.message}", "yellow")
        code = EXIT_FAILURES if prepared.bad else EXIT_OK
        tonight = only(prepared, why)
        first = self._canaries_prepared(self.places.answer) if self.config.canaries is not None else None
        usd = self._within_budget(tonight, first) if tonight.questions or first is not None else 0.0
        notes = {"estimate_usd": usd, "unusable_rows": len(prepared.bad)}
        self._done("estimate", due=tuple(why), why=dict(counts), exit_code=self._at_least(code), notes=notes)

    def _within_budget(self, tonight: Prepared, canaries: Prepared | None) -> float | None:
        """Return the expected dollars, or None if unknown. Raises OverBudget if they exceed the budget."""
        budget = tonight.config.budget_usd
        if budget is None:
            return None
        if (why := describe(tonight.config.strategy, tonight.policy).needs.unforeseen) is not None:
            self._say(f"no estimate: {why}; budget_usd still limits the run", "yellow")
            return None
        parts = [each for each in (canaries, tonight) if each is not None and each.questions]
        if not parts:
            return 0.0
        expected, low, high = (sum(each) for each in zip(*map(self._usd_of, parts), strict=True))
        self._say(f"estimate: ${expected:.4f} [{low:.4f}, {high:.4f}]; budget: ${budget:g}")
        if expected > budget:
            count = sum(len(each.questions) for each in parts)
            raise OverBudget(
                f"The night {self.night.name} would ask {counted(count, 'question')} for about "
                f"${expected:.4f} ({low:.4f} to {high:.4f}), but its budget_usd is {budget:g} "
                f"({self.places.where}). Nothing was spent. Raise budget_usd or ask fewer questions, then run the same "
                "command again."
            )
        if high > budget:
            self._say("the cost may exceed the budget; questions not reached are asked the next night", "yellow")
        return float(expected)

    def _usd_of(self, prepared: Prepared) -> tuple[float, float, float]:
        """Estimate the dollars of some questions: expected, low and high."""
        found = estimate_prepared(prepared, Asking(), console=self.console)
        figures = found.strategies[prepared.config.strategy].total
        batch = figures.batch_usd if prepared.config.llm.mode == "batch" else None
        usd = batch or figures.usd
        return float(usd.expected), float(usd.low), float(usd.high)

    def _canaries(self) -> None:
        """Ask the canaries; if too few are right, switch to the second endpoint or end the night.

        A night that ends here is done, so that the next one asks them anew. It tells before it is marked as done: a
        kill in between makes it tell again, from the same answers.
        """
        canaries = self.config.canaries
        if canaries is None:
            self._done("canaries")
            return
        share = canaries.min_right
        found = self._ask_canaries(self.places.answer, self.place.at(CANARIES, RUN), self.places.answer.budget_usd)
        note = {**found.note(), "min_right": share, "outcome": "passed"}
        code = EXIT_FAILURES if found.left_out else EXIT_OK
        trusted, why = found, ""
        if not found.passes(share):
            why = self._why_not(found, "the endpoint")
            if self.places.second is not None:
                self._say(f"{why} Asking the second endpoint.", "yellow")
                budget = self.places.answer.budget_usd
                left = None if budget is None else max(budget - found.usd, LEAST_USD)
                trusted = self._ask_canaries(self.places.second, self.place.at(CANARIES, "second"), left)
                note |= {"outcome": "second", "second": trusted.note(), "usd": found.usd + trusted.usd}
                code = EXIT_FAILURES
        if trusted.passes(share):
            self._done("canaries", exit_code=self._at_least(code), notes={"canaries": note, "untrusted": why})
            return
        if trusted is not found:
            why = f"{why} {self._why_not(trusted, 'the second endpoint')}"
        why = (
            f"{why} Nothing else was asked, and the answers of earlier nights stay. Check the models that the endpoint "
            f"serves and the gold answers in {canaries.questions}, then run the same command again."
        )
        tell_stop(self.console, self.config.notify, Report(self.night.name, failed=why, canaries=why))
        notes = {"canaries": note | {"outcome": "stopped"}, "finished_at": _now()}
        notes = {**self.night.notes, **notes}
        self.night = replace(self.night, phase="done", exit_code=EXIT_CANARIES, notes=notes)
        self.night.write(self.place)
        self._write_history()
        raise CanariesFailed(why)

    def _why_not(self, found: Verdict, endpoint: str) -> str:
        assert self.config.canaries is not None
        return (
            f"Of the canaries of the night {self.night.name}, {endpoint} got {found.words()}; min_right is "
            f"{self.config.canaries.min_right:g}. Wrong: {found.first_wrong()}."
        )

    def _ask_canaries(self, config: RunConfig, run: Folder, budget_usd: float | None) -> Verdict:
        prepared = self._canaries_prepared(config, budget_usd)
        result = answer_prepared(prepared, self._location(run), Starting(console=self.console))
        if result.exit_code == EXIT_OVER_BUDGET:
            raise OverBudget(f"The canaries of the night {self.night.name} could not all be asked: {result.stopped}")
        if result.stopped:
            self._say(f"stopped: {result.stopped}", "red")
            raise NightStopped(result.exit_code, result.stopped)
        found = judged(prepared, run)
        self._say(f"canaries: {found.words()}")
        if found.left_out:
            left_out = counted(found.left_out, "canary", "canaries")
            self._say(f"{left_out} not judged: without a document, or answered without the generator", "yellow")
        return found

    def _canaries_prepared(self, config: RunConfig, budget_usd: float | None = None) -> Prepared:
        assert self.config.canaries is not None
        place, source = self.place.at(CANARIES), self.places.of(self.config.canaries.questions)
        copy = copy_name(source)
        if not place.exists(copy):  # the config named none when the night began
            copied(source, place)
        archive = f"{self.archive}@{self.night.archive_version}"
        return prepare(archive, f"{self._location(place)}/{copy}", canary_config(config, budget_usd))

    def _answer(self) -> None:
        if not self.night.due:
            self._done("answer")
            return
        tonight = only(self._prepared(), self.night.due)
        if (budget := tonight.config.budget_usd) is not None and (canaries := self.night.notes.get("canaries")):
            left = max(budget - float(canaries["usd"]), LEAST_USD)
            tonight = replace(tonight, config=tonight.config.model_copy(update={"budget_usd": left}))
        result = answer_prepared(tonight, self._location(self.run), Starting(console=self.console))
        if result.stopped and result.exit_code != EXIT_OVER_BUDGET:
            self._say(f"stopped: {result.stopped}", "red")
            raise NightStopped(result.exit_code, result.stopped)
        ended = ", ".join(f"{count:,} {status}" for status, count in sorted(result.statuses.items()))
        self._say(f"asked: {ended}")
        if result.stopped:
            self._say(f"{result.stopped} Questions that are over_budget are asked the next night.", "yellow")
        self._done("answer", exit_code=self._at_least(result.exit_code), notes={"statuses": result.statuses})

    def _diff(self) -> None:
        before, new = self.current, self._merged()
        entries, reopened = read_entries(self.current_folder), self._reopened(new)
        corrected = standing(self._known(entries))
        old = Exported.made(before.begun, self._rows(before), before.origins, corrected) if before.begun else None
        origins = {row["query_id"]: row for row in new.origins}
        journals = Replayed(self.current_folder), Replayed(self.run, setup_of(self._prepared()))
        tonight = Exported.made(new.begun, new.answers, origins, standing([*entries, *reopened]))
        found = diff_runs(old, tonight, journals)
        if rules := self.config.notify:
            self.place.write_bytes(NOTIFICATIONS, stored(rules, news_of(found, old, tonight)))
        place = self._location(self.place)
        for kind in TABLES:
            write_tables({DIFFERENCES: found.table}, f"{place}/{DIFFERENCES}.{kind}", kind)
        title = f"Night {self.night.name}"
        against = f"compared with the night {before.begun['night']}" if before.begun else "the first night"
        facts = [f"{against}; version {self.night.archive_version} of the archive", *self._facts()]
        failed = [] if tonight.matrix is None else tonight.matrix.new_failures(None if old is None else old.matrix)
        for line in _check_lines(failed):
            facts.append(line)
            self._say(line, "yellow")
        if reopened:
            named = ", ".join(f"{each.query_id} ({each.reason})" for each in reopened)
            facts.append(f"corrections reopened, to be looked at again: {named}")
            self._say(facts[-1], "yellow")
        self.place.write_bytes(f"{DIFFERENCES}.html", diff_page(found, title, facts))
        self._print(found)
        matters = found.matters and bool(before.begun or found.table.num_rows)
        notes = {"changes": dict(found.counts), "causes": dict(found.causes), "matters": matters}
        notes["checks"] = {"failed": len(tonight.matrix.failures) if tonight.matrix else 0, "new": len(failed)}
        notes |= {"reopened": [each.query_id for each in reopened], "corrections": len(entries)}
        code = EXIT_CHANGED if matters and self.config.exit_on_change else EXIT_OK
        self._done("diff", exit_code=self._at_least(code), notes=notes)

    def _rows(self, current: Current) -> list[Mapping[str, Any]]:
        return [current.answers[query_id] for query_id in sorted(current.answers)]

    def _facts(self) -> list[str]:
        said = {name: count for name, count in self.night.notes.get("documents", {}).items() if count}
        documents = ", ".join(f"{count:,} {name}" for name, count in said.items()) or "none"
        asked = ", ".join(f"{count:,} {reason}" for reason, count in self.night.why.items()) or "none"
        return [f"documents: {documents}; questions asked: {asked}"]

    def _print(self, found: RunDiff) -> None:
        print_diff(self.console, found)
        place = self._location(self.place)
        self._say(f"differences: {place}/{DIFFERENCES}.html, also as .{', .'.join(TABLES)}")

    def _merge(self) -> None:
        new, run = self._merged(), self._own_run()
        if run is not None or not new.is_in(self.current):
            documents = known_documents(self._prepared().archive)
            write_current(self.current_folder, new, run, documents, self._manifest(new))
        append_entries(self.current_folder, self._reopened(new))
        if read_entries(self.current_folder):
            write_gold(self.current_folder)  # whoever recorded a correction may have been killed before
        write_order(self.current_folder, new.order, keep=False)
        for file in self.config.export:
            for path in export_run(self.current_folder, self.places.of(file))[0]:
                self._say(f"written: {path}")
        self._done("merge")

    def _tell(self) -> None:
        """Send notifications and call ``on_change``. Neither can stop the night."""
        code = self._at_least(EXIT_OK if self._notified() else EXIT_FAILURES)
        self._done("tell", exit_code=worst([code, self._call_on_change()]))

    def _notified(self) -> bool:
        """Send what matches the rules of ``notify``, and return whether all targets accepted it.

        ``night.json`` records each one at once, so that a killed night does not send it again.
        """
        cells = restored(self.place.read_bytes(NOTIFICATIONS)) if self.place.exists(NOTIFICATIONS) else {}
        left = int((self.night.notes.get("statuses") or {}).get("over_budget") or 0)
        over = f"The night's budget did not suffice for {counted(left, 'question')}, to be asked the next night."
        table = f"{self._location(self.place)}/{DIFFERENCES}.html"
        untrusted = str(self.night.notes.get("untrusted") or "")
        report = Report(self.night.name, cells, "", over if left else "", untrusted, table)
        known = dict(self.night.notes.get("notified") or {})
        for label, outcome in tell(self.console, self.config.notify, report, known):
            known[label] = outcome
            self.night = replace(self.night, notes={**self.night.notes, "notified": dict(known)})
            self.night.write(self.place)
        return all(outcome == SENT for outcome in known.values())

    def _call_on_change(self) -> int:
        """Call ``on_change``, without a shell, if a change matters; return ``EXIT_FAILURES`` if it fails."""
        if not self.config.on_change or not self.night.notes.get("matters"):
            return EXIT_OK
        words = [*self.config.on_change, f"{self._location(self.place)}/{DIFFERENCES}.{TABLES[0]}"]
        try:
            ended = subprocess.run(words, cwd=self.places.beside, check=False).returncode
            trouble = f"exit code {ended}" if ended else ""
        except OSError as error:
            trouble = f"it cannot be started ({error.strerror or error})"
        if not trouble:
            return EXIT_OK
        self._say(f"on_change {words[0]} failed: {trouble}. The table is {words[-1]}.", "red")
        return EXIT_FAILURES

    def _keep(self) -> None:
        """Delete versions and nights that ``keep`` does not retain."""
        archive = Folder.of(self.archive)
        resting = Location.of(str(self.current.begun.get("archive") or "")).version or 0
        numbers = version_numbers(archive)
        keep = max(self.config.keep.versions, sum(number >= resting for number in numbers))
        if len(numbers) > keep:
            with archive.locked("okralong nightly"):
                gone = vacuum(archive, keep)
            self._say(f"deleted versions: {', '.join(map(str, gone.versions))} ({gone.bytes / 1e6:,.1f} MB)")
        known = nights(self.folder)
        old = expired(known, self.config.keep, datetime.now(UTC))
        there = {night.name for night in known}
        left = [name for name in self.folder.at(NIGHTS).names() if name not in there]
        for name in (*old, *left):
            place = self.folder.at(NIGHTS, name)
            place.remove(NIGHT)  # first: a folder without it is deleted the next night
            place.filesystem.delete_dir(place.path)
        if old:
            self._say(f"deleted nights: {', '.join(old)}")
        self._write_history()
        self._done("keep", notes={"finished_at": _now()})

    def _write_history(self) -> None:
        try:
            self.folder.write_bytes(HISTORY, history_page(History.of(self.folder)))
        except Exception as error:
            self._say(f"history: it could not be written: {error}. okralong report writes it again.", "yellow")
            return
        self._say(f"history: {self._location(self.folder)}/{HISTORY}")

    # Used by several phases.

    @property
    def current(self) -> Current:
        """The content of ``current`` now."""
        return Current.read(self.current_folder)

    def _prepared(self) -> Prepared:
        config = self.places.answer
        if (self.night.notes.get("canaries") or {}).get("outcome") == "second" and self.places.second is not None:
            config = self.places.second
        if self.current.begun:  # identical requests of earlier nights are free
            shared = [*config.replies_from, self._location(self.current_folder)]
            config = config.model_copy(update={"replies_from": shared})
        copy = self.night.questions
        given = self.places.of(self.config.questions)
        questions = f"{self._location(self.place)}/{copy}" if copy else given
        prepared = prepare(f"{self.archive}@{self.night.archive_version}", questions, config)
        return replace(prepared, checks=read_checks(questions, beside=given))

    def _own_run(self) -> Folder | None:
        return self.run if self.night.due else None

    def _merged(self) -> Merged:
        return merged(self._prepared(), self.current, self._own_run(), self.night)

    def _known(self, entries: Sequence[Entry]) -> list[Entry]:
        """Return the entries of corrections that the last night has named."""
        others = [night for night in nights(self.folder) if night.name != self.night.name]
        last = next((night for night in reversed(others) if "corrections" in night.notes), None)
        if last is None:
            return []
        count = last.notes["corrections"]
        return [
            entry
            for at, entry in enumerate(entries)
            if at < count or (entry.event == REOPENED and entry.night == last.name)
        ]

    def _reopened(self, new: Merged) -> list[Entry]:
        """Return the entries that reopen corrections whose page or question has changed."""
        known = corrections_of(self.current_folder)
        if not known:
            return []
        archive = self._prepared().archive
        asked = {row["query_id"]: (row["question"], row["answer_type"] or "") for row in new.answers}
        return reopened_by(known, archive, known_documents(archive), asked, self.night.name)

    def _manifest(self, new: Merged) -> dict[str, Any]:
        """Return the manifest of ``current``: the set-up of the newest run, and totals over all answers."""
        run = self._own_run()
        known = (run.read_manifest() if run else None) or self.current_folder.read_manifest() or {}
        rows = new.answers
        totals: dict[str, Any] = {
            name: sum(row[name] or 0 for row in rows)
            for name in ("calls", "prompt_tokens", "cached_tokens", "completion_tokens", "weighted_tokens", "cost_usd")
        }
        totals["statuses"] = dict(Counter(row["status"] for row in rows))
        bad = int(self.night.notes.get("unusable_rows") or 0)
        archive = {"location": new.begun["archive"], "version": self.night.archive_version}
        archive["fingerprint"] = new.begun["archive_fingerprint"]
        own = {"archive": archive, "questions": len(rows), "bad_rows": bad, "totals": totals, "night": self.night.name}
        return {**known, **own}

    def _location(self, place: Folder) -> str:
        """Return the location of a nightly's folder as a path or URI."""
        given = self.places.of(self.config.folder)
        if "://" not in given:
            return place.path
        return given.rstrip("/") + place.path[len(self.folder.path.rstrip("/")) :]
