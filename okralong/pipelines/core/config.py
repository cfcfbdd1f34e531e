"""Read a YAML config into a typed model, and report unknown keys and invalid values before anything is spent.

A job's config lists only its differences from the shipped config: mappings are merged key by key, lists and values
replace the shipped ones. A file that sets every required key is complete and is read without the shipped config, as in
earlier releases.
"""

from __future__ import annotations

import difflib
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from okralong.pipelines.core.types import ConfigError

VARIABLE_NAME: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,63}")
"""Matches names of environment variables, and hardly any secret that was written in their place."""


class Settings(BaseModel):
    """Base of every config model: immutable, without unknown keys or implicit type conversion.

    ``SHIPPED`` names the shipped config that files of this model extend; None for models whose files are complete.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, protected_namespaces=())
    SHIPPED: ClassVar[str | None] = None


REMOVED_KEYS: Final[Mapping[str, str]] = {
    "context.table_tokens": "it is 600. Delete it",
    "contextual_types": "these are the abstractive questions. Delete it",
    "full_text": "its sizes are fixed. Delete it",
    "fusion.named.documents": "it is 16. Delete it",
    "fusion.named.near": "it is 0.8. Delete it",
    "fusion.surroundings.most_documents": "surroundings count for all scopes. Delete it",
    "boundaries": "chunks always end at sentences, lines and rows. Delete it",
    "dense.cells": "it is 4 times the square root of a shard's chunks. Delete it",
    "dense.index: hnsw": "ivf is faster. Set ivf",
    "dense.links": "there are no graphs any more. Delete it",
    "doubt": "it gained nothing. Delete it",
    "fusion.method": "reciprocal ranks lost. Delete it",
    "fusion.rank_constant": "reciprocal ranks lost. Delete it",
    "fusion.same_weight": "it is 1. Delete it",
    "line_items.count": "it gained nothing. Delete it",
    "line_items.types": "it gained nothing. Delete it",
    "llm.max_completion_tokens.sections": "the generator chooses no sections any more. Delete it",
    "sections": "ranking by sections gained nothing. Delete it",
    "selection": "choosing chunks one by one gained nothing. Delete it",
    "step.carry": "it gained nothing. Delete it",
}
"""Keys (``a.b``) and values (``a.b: value``) that earlier releases had, each with the reason and what to do."""

S = TypeVar("S", bound=Settings)


def shipped_config(name: str) -> str:
    """Return the text of a shipped config, e.g. ``policy/paper.yaml``.

    Raises:
        ConfigError: No shipped config has this name.
    """
    resource = resources.files("okralong.configs").joinpath(name)
    if not resource.is_file():
        raise ConfigError(f"There is no shipped config {name!r}. Give a path to a YAML file, or a name from configs/.")
    return resource.read_text(encoding="utf-8")


def read_config(source: str | Path) -> tuple[str, str]:
    """Return ``(where, text)`` of a config given by its path or by the name of a shipped one."""
    path = Path(source)
    if path.is_file():
        return str(path), path.read_text(encoding="utf-8")
    if path.is_absolute() or path.suffix == "" or len(path.parts) > 2:
        raise ConfigError(f"The config file {source} does not exist. Check the path, or leave it out for the default.")
    return f"configs/{source}", shipped_config(str(source))


def parse_config(model: type[S], text: str, where: str, overrides: dict[str, Any] | None = None) -> S:
    """Validate YAML ``text`` as ``model``, merged over the model's shipped config if it has one.

    ``overrides`` maps dotted keys to values that win over both.

    Raises:
        ConfigError: Lists every problem with its file (``where`` or the shipped one), key, value and remedy.
    """
    said, given = _mapping(text, where), overrides or {}
    layers = [(f"Overrides of {where}", _nested(given)), (where, said)]
    required = {name for name, field in model.model_fields.items() if field.is_required()}
    if model.SHIPPED is not None and not required <= {*said, *layers[0][1]}:
        shipped = f"configs/{model.SHIPPED}"
        layers.append((shipped, _mapping(shipped_config(model.SHIPPED), shipped)))
    data: dict[str, Any] = {}
    for _, layer in reversed(layers[1:]):
        data = _laid_over(data, layer)
    for dotted, value in given.items():
        _set(data, dotted.split("."), value)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems: dict[str, list[str]] = {}
        for problem in error.errors():
            holder = _holder(layers, problem["loc"]) or where
            problems.setdefault(holder, []).append(_explain(problem, model))
        told = ". ".join(f"{holder} cannot be used: {'; '.join(lines)}" for holder, lines in problems.items())
        raise ConfigError(f"{told}. Nothing was run.") from error
    except (
        ConfigError
    ) as error:  # raised by a validator that must not repeat the value; its message begins with the key
        found = re.match(r"[a-z_]+(\.[a-z_]+)*", str(error))
        named = _holder(layers, found[0].split(".") if found else ())
        raise ConfigError(f"{named} cannot be used: {error}" if named else str(error)) from error


def load_config(model: type[S], source: str | Path, overrides: dict[str, Any] | None = None) -> S:
    """Read and parse a config; see ``read_config`` and ``parse_config``."""
    where, text = read_config(source)
    return parse_config(model, text, where, overrides)


_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader in C where PyYAML has it: seven times as fast (``line_items.yaml`` in 0.07 s)."""


def _mapping(text: str, where: str) -> dict[str, Any]:
    try:
        try:
            data = yaml.load(text, Loader=_LOADER)
        except (yaml.YAMLError, UnicodeError):  # it refuses more, such as escaped surrogates
            data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where} is not valid YAML: {error}. Correct the file and run again.") from error
    data = {} if data is None else data
    if not isinstance(data, dict):
        raise ConfigError(
            f"{where} holds a {type(data).__name__}, not keys and values. Start from a file in configs/ of the same "
            "kind."
        )
    return {str(key): value for key, value in data.items()}


def _nested(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return values by dotted keys as nested mappings."""
    data: dict[str, Any] = {}
    for dotted, value in overrides.items():
        _set(data, dotted.split("."), value)
    return data


def _set(data: dict[str, Any], path: list[str], value: Any) -> None:
    for key in path[:-1]:
        below = data.get(key)
        data[key] = data = dict(below) if isinstance(below, dict) else {}
    data[path[-1]] = value


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = (key for key in above if isinstance(above[key], dict) and isinstance(below.get(key), dict))
    return {**below, **above, **{key: _laid_over(below[key], above[key]) for key in both}}


def _holder(layers: Sequence[tuple[str, Mapping[str, Any]]], path: Sequence[Any]) -> str | None:
    """Return the topmost of the (name, content) layers that holds most of the path, or None if none holds any."""
    depths = [(_depth(content, path), -number, name) for number, (name, content) in enumerate(layers)]
    deepest, _, name = max(depths)
    return name if deepest else None


def _depth(content: Any, path: Sequence[Any]) -> int:
    for depth, key in enumerate(path):
        try:
            content = content[key]
        except (KeyError, IndexError, TypeError):
            return depth
    return len(path)


def _explain(problem: Any, model: type[Settings]) -> str:
    key = ".".join(str(part) for part in problem["loc"]) or "the file"
    if remedy := _remedy(key, problem):
        return f"{key} was removed: {remedy}"
    if problem["type"] == "extra_forbidden":
        near = _nearest(problem["loc"], model)
        return f"{key} is not a known key" + (f" (did you mean {near}?)" if near else "")
    message = str(problem["msg"]).removeprefix("Value error, ")
    return f"{key} = {problem.get('input')!r}: {message}" if problem["type"] != "missing" else f"{key} is missing"


def _remedy(key: str, problem: Any) -> str | None:
    """Return what to do about a key or value of an earlier release, or None if it is none."""
    said = key if problem["type"] == "extra_forbidden" else f"{key}: {problem.get('input')}"
    known = [removed for removed in REMOVED_KEYS if f".{said}".endswith(f".{removed}")]
    return REMOVED_KEYS[max(known, key=len)] if known else None


def _nearest(path: Sequence[Any], model: type[Settings]) -> str | None:
    """Return the known keys that an unknown key may mean: a similar sibling, or the same key elsewhere."""
    key, place = str(path[-1]), ".".join(part for part in path[:-1] if isinstance(part, str))
    known = list(dict.fromkeys(_keys(model)))
    beside = {name.rpartition(".")[2]: name for name in known if name.rpartition(".")[0] == place}
    if alike := difflib.get_close_matches(key, beside, n=1, cutoff=0.6):
        return beside[alike[0]]
    return " or ".join([name for name in known if name.rpartition(".")[2] == key][:3]) or None


def _keys(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield the dotted keys of a model and its nested models, outer keys first."""
    names = [f"{before}{name}" for name in model.model_fields]
    yield from names
    for name, field in zip(names, model.model_fields.values(), strict=True):
        for inner in (field.annotation, *typing.get_args(field.annotation)):
            if isinstance(inner, type) and issubclass(inner, BaseModel):
                yield from _keys(inner, f"{name}.")


# The nodes that each part of a job runs on, by node labels and custom resources: planners off expensive nodes, parser
# processes on their own nodes, the ledger off spot nodes. GPUs are requested elsewhere (``gpus_per_replica``).

_KEY: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?")
_WORD: Final = r"[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?"
_SELECTOR: Final = re.compile(rf"(!?)({_WORD})|(!?)in\(({_WORD}(?:,{_WORD})*)\)")
"""Ray's syntax: ``gpu``, ``!gpu``, ``in(a,b)``, ``!in(a,b)``."""
_OWN: Final = {
    "CPU": "num_cpus",
    "GPU": "the keys for GPUs (gpus_per_actor, gpus_per_replica)",
    "memory": "memory_gib",
}


class Place(Settings):
    """The nodes for one part; empty means any.

    ``labels`` are label selectors that a node must all meet (a value, ``!value``, ``in(a,b)`` or ``!in(a,b)``);
    ``fallback`` has further such selectors, tried in order while no node that meets the former is free; ``resources``
    are custom resources that each process takes from its node.
    """

    labels: dict[str, str] = Field(default_factory=dict)
    fallback: list[dict[str, str]] = Field(default_factory=list)
    resources: dict[str, float] = Field(default_factory=dict)

    @field_validator("fallback")
    @classmethod
    def _each(cls, value: list[dict[str, str]]) -> list[dict[str, str]]:
        if not all(value):
            raise ValueError("each entry must have labels")
        return [cls._selectors(labels) for labels in value]

    @field_validator("labels")
    @classmethod
    def _selectors(cls, value: dict[str, str]) -> dict[str, str]:
        for key, selector in value.items():
            if not _KEY.fullmatch(key):
                raise ValueError(f"{key!r} is not a label name (such as okralong.io/group)")
            if not _SELECTOR.fullmatch(selector):
                raise ValueError(f"{selector!r} is not a selector: write value, !value, in(a,b) or !in(a,b)")
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
        """Return Ray's options for an actor or task of this part."""
        found: dict[str, Any] = {
            "label_selector": dict(self.labels),
            "fallback_strategy": [{"label_selector": dict(labels)} for labels in self.fallback],
            "resources": dict(self.resources),
        }
        return {name: value for name, value in found.items() if value}

    def takes(self, labels: Mapping[str, str], resources: Mapping[str, float]) -> bool:
        """Return whether a node with these labels and total resources can hold one process of the part."""
        fits = any(
            all(_meets(labels.get(key), selector) for key, selector in wanted.items())
            for wanted in (self.labels, *self.fallback)
        )
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
    """``readers`` are the tasks that parse and chunk documents, ``embedders`` those that embed the chunks."""

    readers: Place = Place()
    embedders: Place = Place()


class AnswerPlacement(Settings):
    """The parts of an answer run.

    ``planners`` process the questions, ``shards`` hold the index, and ``ledger`` is the run's single writer, in batch
    mode together with the batch scheduler. The others are models on Ray Serve; ``generator`` is SARA's.
    """

    planners: Place = Place()
    shards: Place = Place()
    embedder: Place = Place()
    analyzer: Place = Place()
    reranker: Place = Place()
    scorer: Place = Place()
    token_classifier: Place = Place()
    generator: Place = Place()
    ledger: Place = Place()


def unplaceable_parts(
    placement: Settings, nodes: Iterable[tuple[Mapping[str, str], Mapping[str, float]]]
) -> tuple[tuple[str, Place], ...]:
    """Return the parts that none of ``nodes``, given as (labels, resources), can hold now."""
    known = list(nodes)
    places = ((name, getattr(placement, name)) for name in type(placement).model_fields)
    return tuple((name, place) for name, place in places if not any(place.takes(*node) for node in known))


def check_interpreter() -> None:
    """Raise ConfigError if Python runs without docstrings, which Ray Data reads when it is imported."""
    if sys.flags.optimize > 1:
        raise ConfigError(
            "Python runs with -OO or PYTHONOPTIMIZE=2, which removes docstrings that Ray needs. Leave it out, or use "
            "-O or PYTHONOPTIMIZE=1."
        )
