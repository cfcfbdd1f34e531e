"""Commands and reports by entry point: listed, loaded only when asked for, and refused with a sentence."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from okralong.jobs import plugins
from okralong.jobs.cli import app
from okralong.pipelines.core.types import ConfigError

LABORATORY = {"split", "train-data", "train", "train-sara", "evidence", "evaluate", "tune", "compare", "calibrate"}


def offer(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    points = [EntryPoint(name, value, plugins.COMMANDS) for name, value in entries.items()]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if group == plugins.COMMANDS else [])


def hello(name: str) -> None:
    """Greet somebody."""
    print(f"hello {name}")


def test_the_laboratory_declares_its_commands_also_without_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch)
    assert set(plugins.offered(plugins.COMMANDS)) == LABORATORY
    assert set(plugins.offered(plugins.REPORTS)) == {"sweep"}


def test_a_package_adds_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, hello=f"{__name__}:hello")
    assert "Greet somebody." in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["hello", "you"]).output == "hello you\n"


def test_a_built_in_name_cannot_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, doctor=f"{__name__}:hello")
    assert "Greet" not in CliRunner().invoke(app, ["doctor", "--help"]).output


def test_a_command_that_cannot_be_loaded_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, gone="no_such_package:gone")
    listed = CliRunner().invoke(app, ["--help"])
    assert (listed.exit_code, "doctor" in listed.output) == (0, True)
    called = CliRunner().invoke(app, ["gone"])
    assert isinstance(called.exception, ConfigError)
    assert "'gone' (no_such_package:gone) cannot be loaded" in str(called.exception)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "prefix"),
    [(["doctor", "--help"], "okralong.lab"), (["--help"], "okralong.lab.datasets"), (["--help"], "torch")],
)
def test_nothing_more_is_imported_than_what_is_shown(arguments: list[str], prefix: str) -> None:
    code = (
        "import sys\nfrom okralong.jobs.cli import app\n"
        f"try:\n    app({arguments!r})\nexcept SystemExit:\n    pass\n"
        f"print('imported:', [name for name in sys.modules if name.startswith({prefix!r})])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "imported: []"
