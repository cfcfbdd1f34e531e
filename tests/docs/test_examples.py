"""What README and docs tell a reader to type is what the commands and the configuration models accept."""

from __future__ import annotations

import ast
import fnmatch
import functools
import importlib
import importlib.util
import re
import shlex
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from pydantic import BaseModel

from okralong.jobs.cli import app
from okralong.jobs.submission import Submission
from okralong.lab.datasets.catalog import Catalog
from okralong.pipelines.core.config import Settings, parse_config, shipped_config
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.run.matrix import Columns
from okralong.pipelines.run.nightly import NightlyConfig
from okralong.pipelines.serving.tokens import TokenFile
from tests.docs import reference

ROOT = Path(__file__).resolve().parents[2]
HISTORY = "CHANGELOG.md"
"""Tells of commands and keys as they once were."""
PAGES = sorted(page for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")) if page.name != HISTORY)
Sweep = reference.model_of("okralong.lab.sweeps:Sweep")
Tune = reference.model_of("okralong.lab.sweeps:Tune")
EvidenceSweep = reference.model_of("okralong.lab.evidence:Sweep")
MODELS: dict[str, tuple[type[Settings], str | None]] = {
    "index.yaml": (IndexConfig, None),
    "answer.yaml": (RunConfig, None),
    "mine.yaml": (RunConfig, None),
    "policy.yaml": (FullPolicy, "policy/default.yaml"),
    "nightly.yaml": (NightlyConfig, None),
    "columns.yaml": (Columns, None),
    "serve.yaml": (RunConfig, None),
    "tokens.yaml": (TokenFile, None),
    "submit.yaml": (Submission, None),
    "sweep.yaml": (Sweep, None),
    "sweep.yaml (in part)": (Sweep, "sweeps/sample.yaml"),
    "tune.yaml": (Tune, None),
    "evidence.yaml (in part)": (EvidenceSweep, "evidence/test.yaml"),
    "catalog.yaml": (Catalog, None),
}
"""By the title of a YAML block: the model that reads such a file, and the shipped file that the block changes."""
KEYS = (RunConfig, IndexConfig, FullPolicy, Sweep, Tune, EvidenceSweep, Submission, NightlyConfig)
"""Models whose keys the text names."""
FENCE = re.compile(
    r"^(?P<indent>[ ]*)```(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=indent)```[ ]*$", re.DOTALL | re.MULTILINE
)
TITLE = re.compile(r'title="([^"]*)"')
FILES = (
    ".md",
    ".yaml",
    ".py",
    ".json",
    ".jsonl",
    ".parquet",
    ".csv",
    ".html",
    ".lock",
    ".txt",
    ".safetensors",
    ".xlsx",
)


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, what it says of itself, its text."""

    page: str
    info: str
    body: str


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for found in FENCE.finditer(page.read_text(encoding="utf-8")):
            yield Block(str(page.relative_to(ROOT)), found["info"].strip(), textwrap.dedent(found["body"]))


def inline() -> Iterator[tuple[str, str]]:
    """``(page, code)`` of the code between single back quotes."""
    for page in PAGES:
        text = FENCE.sub("", page.read_text(encoding="utf-8"))
        for code in re.findall(r"(?<!`)`([^`]+)`(?!`)", text):
            yield str(page.relative_to(ROOT)), " ".join(code.split())


def shell_lines() -> list[tuple[str, str]]:
    found = []
    for block in blocks():
        if block.info.split(" ")[0] in ("sh", "bash", "console", "shell"):
            joined = block.body.replace("\\\n", " ")
            found += [(block.page, line.strip()) for line in joined.splitlines() if line.strip()]
    return found


def commands(line: str) -> Iterator[list[str]]:
    """The words of each command of a line; comments are left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="&|;")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if set(word) <= set("&|;"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


@functools.cache
def command_line() -> Any:
    return typer.main.get_command(app)


def check_okralong(words: list[str], complete: bool) -> None:
    """Parse as the command line does. Where the line is not ``complete`` ("..."), only what is there is looked at."""
    command = command_line()
    while hasattr(command, "commands"):
        assert words, "a group of commands without a command"
        name, *words = words
        command = command.get_command(None, name)
        assert command, f"there is no command {name}"
    try:
        command.make_context(command.name, list(words))
    except Exception as error:  # typer's own classes of errors are private
        unfinished = type(error).__name__ == "MissingParameter" or "requires an argument" in str(error)
        if complete or not unfinished:
            raise
    for word in words:
        if re.fullmatch(r"(sweeps|evidence|training|policy)/\w+\.yaml", word):
            assert shipped_config(word)


def check_line(line: str) -> None:
    for words in commands(line):
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
            words = words[1:]
        if not words:
            continue
        program, *rest = words
        if program in ("okralong", ".venv/bin/okralong"):
            check_okralong([word for word in rest if word != "..."], "..." not in rest)
        elif program == "make":
            targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
            wanted = [word for word in rest if "=" not in word and word != "..."]
            assert set(wanted) <= set(targets), f"the Makefile has no {wanted}"
        elif program == "python" and rest[:1] == ["-m"] and rest[1].split(".")[0] in ("benchmarks", "okralong"):
            found = importlib.util.find_spec(rest[1])
            assert found, f"there is no module {rest[1]}"
            if found.submodule_search_locations:
                assert importlib.util.find_spec(f"{rest[1]}.__main__"), f"{rest[1]} is a package that does not run"


@pytest.mark.parametrize(("page", "line"), shell_lines())
def test_a_shell_line_is_one_that_the_commands_take(page: str, line: str) -> None:
    check_line(line)


@pytest.mark.parametrize(
    "line",
    [
        "okralong indx archive --from reports/",
        "okralong index archive --sources reports/",
        "okralong index archive",
        "okralong answer archive --questions questions.jsonl --run",
        "cd archive && okralong archive vacuum archive --keep none",
        "okralong evaluate sweeps/nowhere.yaml --data data --out out",
        "make everything",
        "python -m benchmarks.nowhere",
    ],
)
def test_a_line_that_nothing_takes_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r".") as found:
        check_line(line)
    assert type(found.value).__name__ not in ("AttributeError", "TypeError", "NameError")


def test_commands_that_the_text_names_are_there() -> None:
    wrong = []
    for page, code in inline():
        words = code.split(" ")
        if words[0] not in ("okralong", "make", "python") or len(words) == 1 or words[1] == "COMMAND":
            continue
        try:
            stood_for = re.sub(r"\b[A-Z]+\b", "1", re.sub(r"[\[\]]", "", code))  # a number fits everywhere
            check_line(stood_for + (" ..." if words[0] == "okralong" else ""))
        except Exception as error:
            wrong.append(f"{page}: {code}: {error}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("block", [block for block in blocks() if block.info.split(" ")[0] in ("yaml", "yml")])
def test_a_yaml_example_is_one_that_the_models_take(block: Block) -> None:
    title = TITLE.search(block.info)
    known = title is not None and title[1] in MODELS
    assert known, f"{block.page}: give the block a title of {', '.join(MODELS)}:\n{block.body}"
    assert title is not None
    model, shipped = MODELS[title[1]]
    data = yaml.safe_load(block.body)
    if shipped is not None:
        data = merged(yaml.safe_load(shipped_config(shipped)), data)
    parse_config(model, yaml.safe_dump(data), block.page)


@pytest.mark.parametrize("block", [block for block in blocks() if block.info.split(" ")[0] == "python"])
def test_a_python_example_imports_what_is_there(block: Block) -> None:
    for node in ast.walk(ast.parse(block.body)):
        if isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []


def merged(below: Any, above: Any) -> Any:
    """``above`` over ``below``, key by key."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: merged(below.get(key), value) for key, value in above.items()}


def test_keys_that_the_text_names_are_there() -> None:
    starts = {key for model in KEYS for key in model.model_fields}
    wrong = []
    for page, code in inline():
        dotted = re.fullmatch(r"([a-z_]+)((?:\.[\w*-]+)+)", code)
        if dotted and dotted[1] in starts and not code.endswith(FILES):
            wrong += [] if any(resolves(model, code.split(".")) for model in KEYS) else [f"{page}: {code}"]
    assert wrong == []


def test_a_key_that_no_model_has_is_found() -> None:
    assert resolves(RunConfig, ["llm", "batch", "deadline"])
    assert not resolves(RunConfig, ["llm", "batch", "dead_line"])
    assert not resolves(FullPolicy, ["factoid", "granularitys"])


def resolves(model: Any, path: list[str]) -> bool:
    if not path:
        return True
    key, *rest = path
    for each in models_in(model):
        for name in fnmatch.filter(each.model_fields, key):
            return resolves(each.model_fields[name].annotation, rest)
    return "dict" in str(model)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in getattr(annotation, "__args__", ()):
        yield from models_in(inner)


def test_links_of_the_pages_at_the_top_lead_somewhere() -> None:
    """Those below ``docs`` are checked when the site is built."""
    wrong = []
    for page in ROOT.glob("*.md"):
        targets = re.findall(r"\]\(([^()\s]+)\)", FENCE.sub("", page.read_text(encoding="utf-8")))
        places = [(target, page.parent / target.partition("#")[0]) for target in targets if ":" not in target]
        wrong += [f"{page.name}: {target}" for target, place in places if not place.exists()]
    assert wrong == []


def test_pages_that_the_code_names_are_there() -> None:
    wrong = []
    for folder in ("okralong", "deploy", "benchmarks", "tests"):
        for file in (ROOT / folder).rglob("*"):
            if file.suffix in (".py", ".yaml", ".md"):
                named = re.findall(r"docs/\w+\.md", file.read_text(encoding="utf-8"))
                wrong += [f"{file.relative_to(ROOT)}: {name}" for name in named if not (ROOT / name).is_file()]
    assert wrong == []


def test_the_readme_is_short() -> None:
    assert (ROOT / "README.md").read_text(encoding="utf-8").count("\n") <= 120


def pip_lines() -> list[tuple[str, list[str]]]:
    """The words of every ``pip install`` of README and docs, and of the product's messages, by their place."""
    found = [(page, line) for page, line in (*shell_lines(), *inline()) if "pip install" in line]
    for file in sorted((ROOT / "okralong").rglob("*")):
        if file.suffix in (".py", ".yaml"):
            joined = re.sub(r"\"\n\s*f?\"", "", file.read_text(encoding="utf-8"))
            found += [(str(file.relative_to(ROOT)), line) for line in re.findall(r"pip install '[^']*'", joined)]
    parts = [(place, words) for place, line in found for words in commands(line.partition("#")[0])]
    return [(place, words[2:]) for place, words in parts if words[:2] == ["pip", "install"] and len(words) > 2]


def test_what_pip_shall_install_is_there() -> None:
    """Nothing of okralong is published: its extras come from the checkout, everything else from the lock."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()}
    lines = pip_lines()
    assert len({place for place, _ in lines}) > 5
    for place, words in lines:
        while words and words[0].startswith("-"):
            option, *words = words
            if option in ("-c", "--constraint"):
                assert (ROOT / words.pop(0)).is_file(), place
            else:
                assert option in ("--no-deps", "--force-reinstall"), (place, option)
        assert words, place
        for word in words:
            name, _, extras = word.rstrip("]").partition("[")
            if name == ".":
                named = [each for each in extras.split(",") if "{" not in each]
                assert not set(named) - set(project["optional-dependencies"]), (place, word)
            else:
                assert name in pins or "{" in name, f"{place}: {word} is neither the checkout nor in the lock"


def test_a_link_to_a_generated_page_says_what_makes_it() -> None:
    links = 0
    for page in PAGES:
        for paragraph in re.split(r"\n\s*\n|\n(?=\|)", page.read_text(encoding="utf-8")):
            for found in re.finditer(r"\]\(([^()\s#]+)(?:#[^()\s]*)?\)", paragraph):
                target = (page.parent / found[1]).resolve()
                if "://" in found[1] or found[1].startswith("mailto:") or target.exists():
                    continue
                links += 1
                assert found[1].startswith("reference/"), (page.name, found[1])
                assert "make docs" in " ".join(paragraph[found.end() :].split())[:40], (page.name, found[1])
    assert links > 0
