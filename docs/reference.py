"""Generate the reference pages from the code: commands, configuration keys, tables, the Python API.

Each function returns one page as Markdown. The text comes from commands, models and schemas, so a page cannot differ
from the code. ``hooks.py`` adds the pages to the site, and ``tests/docs`` checks them.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import importlib
import importlib.util
import inspect
import itertools
import json
import pkgutil
import re
import types
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import typer
from pydantic import BaseModel

import okralong
from okralong.jobs.cli import app
from okralong.pipelines.answering.tools import Retriever, Tools
from okralong.pipelines.core import schemas
from okralong.pipelines.core import types as values
from okralong.pipelines.core.config import Settings

TABLES: Final = (
    "okralong.pipelines.core.schemas",
    "okralong.lab.sweeps.schemas",
    "okralong.lab.training.rows.schemas",
    "okralong.lab.datasets.split",
)
"""The modules that define schemas."""

CONFIGS: Final[Mapping[str, Mapping[str, str]]] = {
    "config.md": {
        "index.yaml": "okralong.pipelines.indexing:IndexConfig",
        "answer.yaml": "okralong.pipelines.run:RunConfig",
        "nightly.yaml": "okralong.pipelines.run:NightlyConfig",
        "columns.yaml": "okralong.pipelines.run:Columns",
        "policy/default.yaml": "okralong.pipelines.methods:FullPolicy",
        "submit/answer.yaml": "okralong.jobs:Submission",
        "prices.yaml": "okralong.pipelines.llm:PriceTable",
        "estimate.yaml": "okralong.pipelines.run:Priors",
    },
    "config_lab.md": {
        "sweeps/sample.yaml": "okralong.lab.sweeps:Sweep",
        "tune.yaml": "okralong.lab.sweeps:Tune",
        "outline.yaml": "okralong.lab.sweeps:Sizes",
        "evidence/test.yaml": "okralong.lab.evidence:Sweep",
        "datasets.yaml": "okralong.lab.datasets:Catalog",
        "training/rows.yaml": "okralong.lab.training.rows:RowsConfig",
        "training/heads.yaml": "okralong.lab.training:Recipe",
        "training/report.yaml": "okralong.lab.training:ReportConfig",
        "training/reading.yaml": "okralong.lab.training.rows:ReadingConfig",
        "training/reader_report.yaml": "okralong.lab.training:ReaderReportConfig",
        "training/keep.yaml": "okralong.lab.training.rows:KeepConfig",
        "training/sara.yaml": "okralong.lab.training.sara:SaraConfig",
    },
}
"""By page: the shipped file of each kind of configuration, and the package and class of the model that reads it."""

UNITS: Final = (
    ("_s", "seconds"),
    ("_gib", "GiB (2^30 bytes)"),
    ("_megabytes", "10^6 bytes"),
    ("_usd", "US dollars"),
    ("_per_minute", "a minute"),
    ("tokens", "tokens"),
    ("granularity", "tokens"),
    ("granularities", "tokens"),
    ("window", "tokens"),
)
"""Units of keys by their ending."""

UNITS_OF_MODELS: Final = {
    "CompletionLimits": "tokens",
    "Price": "US dollars per million tokens",
    "ListedPrice": "US dollars per million tokens",
}

EXIT_CODES: Final = (
    "OK",
    "FAILURES",
    "USAGE",
    "OVER_BUDGET",
    "ENDPOINT",
    "LOCKED",
    "BROKEN",
    "CHANGED",
    "CANARIES",
    "STOPPED",
)


def pages() -> dict[str, str]:
    """Return all reference pages by file name."""
    configs = {name: config_page(files, lab="lab" in name) for name, files in CONFIGS.items()}
    return {"commands.md": commands_page(), **configs, "tables.md": tables_page(), "python.md": python_page()}


# Commands


def commands() -> Iterator[tuple[str, Any]]:
    """Yield each command with its full name ("okralong archive log"), in the order of the help."""

    def below(group: Any, words: str) -> Iterator[tuple[str, Any]]:
        context = typer.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if hasattr(command, "commands"):
                yield from below(command, f"{words} {name}")
            else:
                yield f"{words} {name}", command

    yield from below(typer.main.get_command(app), "okralong")


def commands_page() -> str:
    """Return the page with every command, its arguments and options, and the exit codes."""
    lines = ["# Commands", "", "Generated from the command line; `okralong COMMAND --help` prints the same.", ""]
    for words, command in commands():
        shown = [parameter for parameter in command.params if parameter.name != "help"]
        places = [_usage(each) for each in shown if each.param_type_name == "argument" or each.required]
        lines += [f"## {words}", "", _plain(command.help or ""), "", "```text", " ".join([words, *places, "..."])]
        lines += ["```", "", "| argument or option | meaning | default |", "|---|---|---|"]
        lines += [_parameter_row(each) for each in shown] + [""]
    lines += ["## Exit codes", "", "| code | meaning |", "|---|---|"]
    said = _attribute_docs(values)
    for name in EXIT_CODES:
        meaning = said.get(f"EXIT_{name}", "All done.")
        lines.append(f"| {getattr(values, f'EXIT_{name}')} | {_cell(meaning)} |")
    return "\n".join([*lines, ""])


def _usage(parameter: Any) -> str:
    name = _metavar(parameter)
    if parameter.param_type_name == "argument":
        return name if parameter.required else f"[{name}]"
    return f"{parameter.opts[0]} {name}"


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.replace("_", "-")).upper()


def _parameter_row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{_metavar(parameter)}`"
    else:
        options = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
        kind = parameter.type_descriptor.annotation
        choices = list(kind) if isinstance(kind, type) and issubclass(kind, enum.Enum) else []
        value = " or ".join(map(_choice, choices)) if choices else _metavar(parameter)
        name = options if parameter.is_flag else f"{options} {value}"
    default = parameter.default
    if parameter.required:
        shown = "required"
    elif default in (None, (), [], False) or callable(default):
        shown = ""
    else:
        shown = f"`{_choice(default)}`"
    return f"| {name} | {_cell(parameter.help or '')} | {shown} |"


def _choice(value: Any) -> str:
    return str(getattr(value, "value", value))


# Configuration


@functools.cache
def model_of(place: str) -> type[Settings]:
    """Return the model that ``CONFIGS`` names as "package:Class", from the module of the package that defines it."""
    package, _, name = place.partition(":")
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__, f"{package}."):
        spec = importlib.util.find_spec(info.name)
        source = Path(str(spec and spec.origin))
        defined = rf"^(class {name}\(|{name}: Final\b)"
        if source.suffix == ".py" and re.search(defined, source.read_text(encoding="utf-8"), re.MULTILINE):
            found: type[Settings] = getattr(importlib.import_module(info.name), name)
            return found
    raise LookupError(f"No module of {package} defines {name}.")


def config_page(files: Mapping[str, str], lab: bool) -> str:
    """Return the page with the keys of these files: types, bounds, defaults and units."""
    title = "Configuration of the lab" if lab else "Configuration"
    lines = [f"# {title}", ""]
    lines += [
        "Generated from the models that read these files. Unknown keys and values out of bounds are refused before "
        "anything is spent. Keys with a default are optional.",
        "",
    ]
    for name, place in files.items():
        shipped = Path(okralong.__file__).parent / "configs" / name
        lines += [f"## {name}", ""]
        lines += (
            [f"The shipped file: [configs/{name}](../../okralong/configs/{name}).", ""] if shipped.is_file() else []
        )
        if name == model_of(place).SHIPPED:
            lines += [
                "A file of your own is laid over the shipped one: what neither says has the default here "
                "([more](../models.md)).",
                "",
            ]
        schema = model_of(place).model_json_schema()
        known = schema.get("$defs", {})
        for called, model in models_of(place).items():
            known.get(called, schema)["description"] = explained(model)
        lines += _model(schema, known, "", set())
    return "\n".join(lines)


def models_of(place: str) -> dict[str, type[BaseModel]]:
    """Return the model at ``place`` and all nested models, by their names in its JSON schema."""
    found: list[type[BaseModel]] = []

    def look(annotation: Any) -> None:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in found:
            found.append(annotation)
            for field in annotation.model_fields.values():
                look(field.annotation)
        for inner in getattr(annotation, "__args__", ()):
            look(inner)

    look(model_of(place))
    shared = Counter(model.__name__ for model in found)  # each method's section is called Section
    return {
        model.__name__
        if shared[model.__name__] == 1
        else f"{model.__module__}.{model.__qualname__}".replace(".", "__"): model
        for model in found
    }


def explained(model: type[BaseModel]) -> str:
    """Return a model's docstring, after those of the models that it extends."""
    above = [each for each in reversed(model.__mro__) if issubclass(each, Settings) and each is not Settings]
    return "\n\n".join(inspect.cleandoc(each.__doc__ or "") for each in above)


def _model(schema: Mapping[str, Any], known: Mapping[str, Any], path: str, done: set[str]) -> list[str]:
    if path:
        lines = [f"### `{path}`", "", _plain(schema.get("description", "")), ""]
    else:
        lines = [_plain(schema.get("description", "")), ""]
    lines += ["| key | value | default | unit |", "|---|---|---|---|"]
    below: list[tuple[str, str]] = []
    for key, value in schema.get("properties", {}).items():
        needed = key in schema.get("required", ())
        default = "required" if needed else f"`{_default(value.get('default'))}`"
        if "default" not in value and not needed:
            default = "empty"
        if isinstance(value.get("default"), dict) and _references(value):
            default = "its keys' defaults"
        lines.append(f"| `{key}` | {_kind(value, known)} | {default} | {_unit(schema.get('title', ''), key, value)} |")
        below += [(f"{path}.{key}" if path else key, name) for name in _references(value)]
    lines.append("")
    for where, name in below:
        if name in done:
            continue
        done.add(name)
        lines += _model({"title": name, **known[name]}, known, where, done)
    return lines


def _references(value: Any) -> list[str]:
    """Return the names of the models nested in a key's value."""
    if isinstance(value, dict):
        own = [str(value["$ref"]).rsplit("/", 1)[-1]] if "$ref" in value else []
        held = (each for key, each in value.items() if key not in ("default", "discriminator"))
        inner = [name for each in held for name in _references(each)]
        return [*own, *inner]
    return [name for each in value for name in _references(each)] if isinstance(value, list) else []


def _kind(value: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = str(value["$ref"]).rsplit("/", 1)[-1]
        return _kind(known[name], known) if "enum" in known[name] else "keys below"
    if "enum" in value or "const" in value:
        return ", ".join(f"`{each}`" for each in value.get("enum", [value.get("const")]))
    options = value.get("anyOf") or value.get("oneOf")
    if options:
        return " or ".join(dict.fromkeys(_kind(each, known) for each in options))
    kind = value.get("type", "anything")
    if kind == "array":
        return f"list of {_kind(value['items'], known)}".replace("number", "numbers", 1) if "items" in value else "list"
    if kind == "object":
        inner = value.get("additionalProperties")
        return f"mapping to {_kind(inner, known)}" if isinstance(inner, dict) and inner else "mapping"
    return _plain_kind(str(kind)) + _bounds(value)


def _plain_kind(kind: str) -> str:
    return {"string": "text", "integer": "whole number", "boolean": "true or false", "null": "null"}.get(kind, kind)


def _bounds(value: Mapping[str, Any]) -> str:
    least, most = value.get("minimum"), value.get("maximum")
    above, under = value.get("exclusiveMinimum"), value.get("exclusiveMaximum")
    words = []
    if least is not None and most is not None:
        return f" from {least:,} to {most:,}"
    words += [f"from {least:,}"] if least is not None else []
    words += [f"more than {above:,}"] if above is not None else []
    words += [f"at most {most:,}"] if most is not None else []
    words += [f"less than {under:,}"] if under is not None else []
    return f" {', '.join(words)}" if words else ""


def _default(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value)


def _unit(model: str, key: str, value: Mapping[str, Any]) -> str:
    numbers = json.dumps(value)
    if '"integer"' not in numbers and '"number"' not in numbers:
        return ""
    if model in UNITS_OF_MODELS and key != "batch_discount":
        return UNITS_OF_MODELS[model]
    return next((unit for ending, unit in UNITS if key.endswith(ending)), "")


# Tables


def tables() -> Iterator[tuple[str, pa.Schema]]:
    """Yield each table's description and schema; schemas with a parameter use the usual value."""
    for place in TABLES:
        module = importlib.import_module(place)
        said = _attribute_docs(module)
        for name, value in vars(module).items():
            if isinstance(value, pa.Schema):
                yield said.get(name, ""), value
    for function, width in ((schemas.vectors, 384), (schemas.compressed, 576)):
        yield inspect.getdoc(function) or "", function(width)


def tables_page() -> str:
    """Return the page with the columns of every table."""
    lines = [
        "# Tables",
        "",
        "Generated from the schemas. Tables are folders of Parquet files (zstd), readable by any Parquet reader, also "
        "during a run. A newer schema version has columns that older files lack.",
    ]
    for about, schema in tables():
        metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
        lines += ["", f"## {metadata['okralong.table']}", "", _plain(about)]
        lines += ["", f"Schema version {metadata['okralong.schema_version']}.", ""]
        if any(field.metadata for field in schema):
            lines += ["| column | type | meaning |", "|---|---|---|"]
            lines += [
                f"| `{each.name}` | {_arrow(each.type)} | {_cell(each.metadata[b'about'].decode())} |"
                for each in schema
            ]
        else:
            lines += ["| column | type |", "|---|---|"]
            lines += [f"| `{field.name}` | {_arrow(field.type)} |" for field in schema]
    return "\n".join([*lines, ""])


def _arrow(kind: pa.DataType) -> str:
    if pa.types.is_struct(kind):
        return "{" + ", ".join(f"{field.name}: {_arrow(field.type)}" for field in kind) + "}"
    if pa.types.is_fixed_size_list(kind):
        return f"{kind.list_size} of {_arrow(kind.value_type)}"
    if pa.types.is_list(kind):
        return f"list of {_arrow(kind.value_type)}"
    if pa.types.is_map(kind):
        return f"mapping of {_arrow(kind.key_type)} to {_arrow(kind.item_type)}"
    return str(kind)


# Python


def python_page() -> str:
    """Return the page with the package's functions, results and errors, and the tools of a method."""
    from okralong.jobs.estimate import EstimateResult
    from okralong.jobs.run_folder import RunResult
    from okralong.pipelines.indexing.job import IndexResult

    lines = ["# Python", "", "Generated from signatures and docstrings.", "", "## Functions", ""]
    for name in ("index", "estimate", "answer", "stream", "export", "diff"):
        lines += _function(f"okralong.{name}", getattr(okralong, name), "###")
    lines += ["## Results", ""]
    for result in (IndexResult, EstimateResult, RunResult):
        lines += [
            f"### {result.__name__}",
            "",
            _plain(inspect.getdoc(result) or ""),
            "",
            "| field | type |",
            "|---|---|",
        ]
        lines += [f"| `{field.name}` | `{_cell(str(field.type))}` |" for field in dataclasses.fields(result)] + [""]
        for name, member in vars(result).items():
            if name.startswith("_"):
                continue
            if isinstance(member, types.FunctionType):
                lines += _function(f"{result.__name__}.{name}", member, "####")
            elif isinstance(member, property):
                lines += [f"#### `{result.__name__}.{name}`", "", _plain(inspect.getdoc(member) or ""), ""]
    lines += ["## Errors", "", "| error | meaning | exit code |", "|---|---|---|"]
    for error in (values.OkraError, *values.OkraError.__subclasses__()):
        lines.append(f"| `{error.__name__}` | {_cell(inspect.getdoc(error) or '')} | {error.exit_code} |")
    lines += [
        "",
        "## Tools of a method",
        "",
        "What `answer(question, tools)` may call ([example](../methods.md#a-method-of-your-own)).",
    ]
    lines.append("")
    for name, member in {**vars(Retriever), **vars(Tools)}.items():
        if isinstance(member, types.FunctionType) and not name.startswith("_"):
            lines += _function(f"tools.{name}", member, "###")
        elif isinstance(member, property):
            lines += [f"### tools.{name}", "", _plain(inspect.getdoc(member) or ""), ""]
    return "\n".join(lines)


def _function(name: str, function: Any, heading: str) -> list[str]:
    signature = inspect.signature(function)
    shown, marked = [], False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not marked:
            marked = True
            shown.append("*")
        stars = "**" if each.kind is each.VAR_KEYWORD else ""
        default = "" if each.default is each.empty else f" = {each.default!r}"
        if each.name != "self":
            shown.append(f"{stars}{each.name}: {each.annotation}{default}")
    start = "async " if inspect.iscoroutinefunction(function) else ""
    code = f"{start}{name}({', '.join(shown)}) -> {signature.return_annotation}"
    if len(code) > 100:
        inner = ",\n    ".join(shown)
        code = f"{start}{name}(\n    {inner},\n) -> {signature.return_annotation}"
    return [f"{heading} {name}", "", "```python", code, "```", "", _plain(inspect.getdoc(function) or ""), ""]


# Words


SECTION: Final = re.compile(r"(Args|Attributes|Returns|Yields|Raises|Note|Example):")


def _plain(text: str) -> str:
    """Return a docstring in Google style as Markdown, its sections as lists."""
    lines: list[str] = []
    section = ""
    for line in re.sub(r"``([^`]+)``", r"`\1`", inspect.cleandoc(text)).splitlines():
        if heading := SECTION.fullmatch(line):
            section = heading[1]
            lines += ["", f"**{section}:**", ""]
        elif section and line.startswith("    ") and not line.startswith("     "):
            name, colon, about = line.strip().partition(": ")
            entry = colon and re.fullmatch(r"\*{0,2}[\w.]+( \([^)]*\))?", name)
            lines.append(f"- `{name}`: {about}" if entry else line.strip())
        elif section and line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            section = section if not line else ""
            lines.append(line)
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(_plain(text).split()).replace("|", "\\|")


def _attribute_docs(module: types.ModuleType) -> dict[str, str]:
    """Return the string below each assignment at the top of a module, by the assigned name."""
    body = ast.parse(inspect.getsource(module)).body
    found = {}
    for node, after in itertools.pairwise(body):
        targets = node.targets if isinstance(node, ast.Assign) else []
        target = node.target if isinstance(node, ast.AnnAssign) else next(iter(targets), None)
        said = after.value if isinstance(after, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(said, ast.Constant) and isinstance(said.value, str):
            found[target.id] = said.value
    return found
