"""Reading a YAML config into a typed model, refusing what is unknown or impossible before anything is spent."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Final, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from okralong.pipelines.core.types import ConfigError


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


# Which nodes the parts of a job run on: by labels that the nodes were started with, and by custom resources. GPUs are
# asked for where a part is configured (``gpus_per_replica`` and the like); a place says what a GPU cannot: that
# planners stay off the dear nodes, readers of untrusted files by themselves, and the ledger off spot nodes.

_KEY: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?")
_WORD: Final = r"[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?"
_SELECTOR: Final = re.compile(rf"(!?)({_WORD})|(!?)in\(({_WORD}(?:,{_WORD})*)\)")
"""Ray's own forms: ``gpu``, ``!gpu``, ``in(a,b)``, ``!in(a,b)``."""
_OWN: Final = {
    "CPU": "num_cpus",
    "GPU": "the keys for GPUs (gpus_per_actor, gpus_per_replica)",
    "memory": "memory_gib",
}


class Place(Settings):
    """Nodes for one part; empty: any. ``labels`` are selectors by label, all of which a node must meet (a value, or
    ``!value``, ``in(a,b)``, ``!in(a,b)``); ``resources`` are custom resources that each process takes from its node.
    """

    labels: dict[str, str] = Field(default_factory=dict)
    resources: dict[str, float] = Field(default_factory=dict)

    @field_validator("labels")
    @classmethod
    def _selectors(cls, value: dict[str, str]) -> dict[str, str]:
        for key, selector in value.items():
            if not _KEY.fullmatch(key):
                raise ValueError(f"{key!r} is no name of a label (such as okralong.io/group)")
            if not _SELECTOR.fullmatch(selector):
                raise ValueError(f"{selector!r} is no selector: write value, !value, in(a,b) or !in(a,b)")
        return value

    @field_validator("resources")
    @classmethod
    def _custom(cls, value: dict[str, float]) -> dict[str, float]:
        for name, amount in value.items():
            if name in _OWN:
                raise ValueError(f"{name} is Ray's own resource: set {_OWN[name]} instead")
            if amount <= 0:
                raise ValueError(f"{name} must be more than 0")
        return value

    def options(self) -> dict[str, Any]:
        """Ray's options for an actor or task of this part."""
        found: dict[str, Any] = {"label_selector": dict(self.labels), "resources": dict(self.resources)}
        return {name: value for name, value in found.items() if value}

    def takes(self, labels: Mapping[str, str], resources: Mapping[str, float]) -> bool:
        """Whether a node with these labels and resources in all could hold one process of the part."""
        fits = all(_meets(labels.get(key), selector) for key, selector in self.labels.items())
        return fits and all(resources.get(name, 0.0) >= amount for name, amount in self.resources.items())


ANYWHERE: Final = Place()


def _meets(label: str | None, selector: str) -> bool:
    found = _SELECTOR.fullmatch(selector)
    assert found is not None  # checked when the config was read
    one = found[2]
    wanted = [one] if one else found[4].split(",")
    unwanted = found[1] if one else found[3]
    return (label in wanted) != bool(unwanted)


class IndexPlacement(Settings):
    """``readers`` read and chunk documents, ``embedders`` embed the chunks."""

    readers: Place = Place()
    embedders: Place = Place()


class AnswerPlacement(Settings):
    """``planners`` carry the questions; ``shards`` hold the index; ``embedder``, ``analyzer``, ``scorer`` and SARA's
    ``generator`` are the models on Ray Serve; ``ledger`` is the one writer of the run, in batch mode with the batch
    scheduler beside it.
    """

    planners: Place = Place()
    shards: Place = Place()
    embedder: Place = Place()
    analyzer: Place = Place()
    scorer: Place = Place()
    generator: Place = Place()
    ledger: Place = Place()


def homeless(
    placement: Settings, nodes: Iterable[tuple[Mapping[str, str], Mapping[str, float]]]
) -> tuple[tuple[str, Place], ...]:
    """The parts for which none of the ``nodes`` (labels, resources) is right now; an autoscaler may still bring one."""
    known = list(nodes)
    places = ((name, getattr(placement, name)) for name in type(placement).model_fields)
    return tuple((name, place) for name, place in places if not any(place.takes(*node) for node in known))
