"""Each line about a format in ``docs/documents.md`` is proved by a test on a file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECTION = re.compile(r"^### .*\((.*)\)$")
ROW = re.compile(r"^\| (?P<content>[^|]+) \| [^|]+ \|")


def documented() -> set[tuple[str, str]]:
    """Return (suffix, content) of each line of the tables; a section of several suffixes counts for its first."""
    found: set[tuple[str, str]] = set()
    suffix = ""
    for line in (ROOT / "docs/documents.md").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            section = SECTION.match(line)
            suffix = section[1].split("`")[1] if section and "`" in section[1] else ""
        elif suffix and (row := ROW.match(line)) and row["content"].strip() not in ("content", "---"):
            found.add((suffix, row["content"].strip()))
    return found


def proved() -> Iterator[tuple[str, str]]:
    """Yield (suffix, content) of each ``documented`` marker in the tests of parsers."""
    for path in (ROOT / "tests/indexing").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "documented":
                suffix, content = (ast.literal_eval(arg) for arg in node.args)
                yield suffix, content


def test_each_line_about_a_format_has_a_test_and_each_such_test_its_line() -> None:
    lines, tests = documented(), set(proved())
    assert sorted(lines - tests) == []
    assert sorted(tests - lines) == []
