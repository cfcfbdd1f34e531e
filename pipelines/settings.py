"""Reading a YAML config into a typed model, refusing what is unknown or impossible before anything is spent."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from okralong.pipelines.errors import ConfigError


class Settings(BaseModel):
    """Base of every config model: immutable, no unknown keys, no silent conversion of types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())


S = TypeVar("S", bound=Settings)


def shipped_config(name: str) -> str:
    """Text of a config that comes with the package, e.g. ``policy/paper.yaml``.

    Raises ConfigError when there is none of that name.
    """
    resource = resources.files("okralong.configs").joinpath(name)
    if not resource.is_file():
        raise ConfigError(f"There is no shipped config {name!r}. Give a path to a YAML file, or a name from configs/.")
    return resource.read_text(encoding="utf-8")


def read_config(source: str | Path) -> tuple[str, str]:
    """``(where, text)`` of a config named by a path, or by the name of a shipped one."""
    path = Path(source)
    if path.is_file():
        return str(path), path.read_text(encoding="utf-8")
    if path.is_absolute() or path.suffix == "" or len(path.parts) > 2:
        raise ConfigError(f"The config file {source} does not exist. Check the path, or leave it out for the default.")
    return f"configs/{source}", shipped_config(str(source))


def parse_config(model: type[S], text: str, where: str, overrides: dict[str, Any] | None = None) -> S:
    """Validate YAML ``text`` as ``model``; ``overrides`` maps dotted keys to values that win over the file.

    Raises ConfigError naming ``where``, the key's path, the value and the remedy, for each thing wrong.
    """
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not valid YAML: {error}. Mend the file and run again.") from error
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError(
            f"{where} holds a {type(data).__name__}, not keys and values. Start from configs/answer.yaml."
        )
    for dotted, value in (overrides or {}).items():
        _set(data, dotted.split("."), value)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        lines = "; ".join(_explain(problem) for problem in error.errors())
        raise ConfigError(f"{where} cannot be used: {lines}. Nothing was run.") from error


def load_config(model: type[S], source: str | Path, overrides: dict[str, Any] | None = None) -> S:
    """``read_config`` and ``parse_config`` in one."""
    where, text = read_config(source)
    return parse_config(model, text, where, overrides)


def _set(data: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        below = data.setdefault(key, {})
        if not isinstance(below, dict):
            data[key] = below = {}
        data = below
    data[path[-1]] = value


def _explain(problem: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    if problem["type"] == "extra_forbidden":
        return f"{key} is not a known key"
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{key} = {problem.get('input')!r}: {message}" if problem["type"] != "missing" else f"{key} is missing"
