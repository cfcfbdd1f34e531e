"""Without the extra ``lab`` the product works, a page is written without pictures beside it, and a message says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.reporting import made_run
from tests.reporting.made_sweep import write_sweep

pytestmark = pytest.mark.slow

BARE = """
import sys
sys.modules["matplotlib"] = sys.modules["sklearn"] = None
from okralong.jobs.cli import main
main()
"""
"""The command where neither package of the extra can be imported."""

MISSING = "The Python package matplotlib is not installed. It belongs to the extra 'lab' of okralong: pip install"


def okralong(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", BARE, *arguments], capture_output=True, text=True, check=False)


def said(result: subprocess.CompletedProcess[str]) -> str:
    return " ".join((result.stdout + result.stderr).split())


def test_help_and_a_runs_answers_need_no_extra(made: Path) -> None:
    assert "evaluate" in okralong("--help").stdout
    shown = okralong("show", str(made / "run"), made_run.query_id(3))
    assert shown.returncode == 0, said(shown)


def test_a_runs_page_is_written_without_pictures(made: Path, tmp_path: Path) -> None:
    result = okralong("report", str(made / "run"), "--out", str(tmp_path / "page.html"), "--details", "2")
    assert result.returncode == 0, said(result)
    assert MISSING in said(result)
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert [folder.name for folder in (tmp_path / "page").iterdir()] == ["tables"]


def test_a_sweep_says_what_its_pictures_lack(tmp_path: Path) -> None:
    folder = write_sweep(tmp_path / "sweep", 3)
    result = okralong("report", str(folder))
    assert (result.returncode, MISSING in said(result)) == (0, True), said(result)
    assert (folder / "report.html").is_file()
    assert not (folder / "report" / "pictures").exists()


def test_a_method_that_needs_it_is_refused_when_it_is_loaded() -> None:
    code = BARE.replace("from okralong.jobs.cli import main\nmain()", "") + (
        "from okralong.pipelines.core.types import ConfigError\n"
        "from okralong.pipelines.core.config import load_config\n"
        "from okralong.pipelines.methods.registry import FullPolicy, describe\n"
        "policy = load_config(FullPolicy, 'policy/default.yaml')\n"
        "try:\n    describe('raptor', policy)\nexcept ConfigError as error:\n    print(error)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "package sklearn is not installed" in result.stdout
    assert "pip install '.[lab]'" in result.stdout
