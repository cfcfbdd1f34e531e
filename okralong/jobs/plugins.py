"""Commands and reports that packages, including this project's lab, add by entry point.

The group ``okralong.commands`` maps a command's name to a function that typer can read. The group ``okralong.reports``
maps a name to a ``ReportMaker``. A plug-in is imported only when its command is called or listed in the help, or when
``okralong report`` gets a folder that is not a run.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import typer
from typer.core import TyperGroup

import okralong
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, OkraError

if TYPE_CHECKING:
    from okralong.pipelines.reporting.page import Report

COMMANDS: Final = "okralong.commands"
REPORTS: Final = "okralong.reports"


class ReportMaker(Protocol):
    """A module or object that makes the report of folders of its kind."""

    def recognizes(self, folder: Folder) -> bool:
        """Return whether the folder is of this kind."""
        ...

    def make_report(self, folder: Folder, details: int) -> Report:
        """Make the report; ``details`` bounds the answers that can be opened."""
        ...


def offered(group: str) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name, sorted.

    A checkout's own ``pyproject.toml`` counts too, as a checkout may lack metadata or have that of an older install.
    """
    found = {entry.name: entry for entry in (*entry_points(group=group), *_declared_beside(group))}
    return dict(sorted(found.items()))


def _declared_beside(group: str) -> Iterator[EntryPoint]:
    file = Path(okralong.__file__).parents[1] / "pyproject.toml"
    project = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {}) if file.is_file() else {}
    if project.get("name") == okralong.__name__:
        for name, value in project.get("entry-points", {}).get(group, {}).items():
            yield EntryPoint(name, value, group)


def load(name: str, entry: EntryPoint) -> Any:
    """Load a plug-in. Raises ConfigError when it, or a package that it needs, cannot be imported."""
    try:
        return entry.load()
    except OkraError:
        raise
    except Exception as error:  # third-party code: importing it may raise anything
        raise ConfigError(
            f"The plug-in {name!r} ({entry.value}) cannot be loaded: {type(error).__name__}: {error}. Install its "
            f"package again, or correct its entry point in the group {entry.group}."
        ) from error


def report_maker_for(folder: Folder) -> ReportMaker | None:
    """Return the plug-in that makes the report of this folder, or None."""
    makers = (load(name, entry) for name, entry in offered(REPORTS).items())
    return next((maker for maker in makers if maker.recognizes(folder)), None)


class CommandGroup(TyperGroup):
    """A typer group that also holds the commands of plug-ins. A built-in name cannot be taken by a plug-in."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the built-in commands, then those of plug-ins."""
        own = super().list_commands(ctx)
        return [*own, *(name for name in offered(COMMANDS) if name not in own)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; one of a plug-in is loaded now."""
        own = super().get_command(ctx, cmd_name)
        entry = None if own is not None else offered(COMMANDS).get(cmd_name)
        return own if entry is None else _command(cmd_name, entry)


def _command(name: str, entry: EntryPoint) -> Any:
    function: Callable[..., Any]
    try:
        function = load(name, entry)
    except OkraError as error:  # help still lists the other commands
        function = _failing(error)
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(name)(function)
    return typer.main.get_command(app)


def _failing(error: OkraError) -> Callable[[], None]:
    def fail() -> None:
        raise error

    fail.__doc__ = str(error)
    return fail
