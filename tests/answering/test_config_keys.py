"""Every key of a run's config and of a policy stands in a shipped file, if only as a comment.

The section of a method may be left out of the shipped policies: its defaults stand in the method's file.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.core.config import shipped_config
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.run.config import RunConfig


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from models(part)


def keys(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield name
        for inner in models(field.annotation):
            yield from keys(inner)


def has_line(key: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){key}:\s", text) is not None


@pytest.mark.parametrize(
    ("model", "files"),
    [(RunConfig, ["answer.yaml", "prices.yaml", "serve.yaml"]), (Policy, ["policy/paper.yaml", "policy/default.yaml"])],
)
def test_every_key_has_a_line(model: type[BaseModel], files: list[str]) -> None:
    text = "".join(map(shipped_config, files))
    assert [key for key in keys(model) if not has_line(key, text)] == []


def test_a_method_s_section_is_shipped_whole_or_not_at_all() -> None:
    text = shipped_config("policy/paper.yaml") + shipped_config("policy/default.yaml")
    sections = set(FullPolicy.model_fields) - set(Policy.model_fields)
    shipped = [name for name in sections if has_line(name, text)]
    assert len(shipped) > 10
    for name in shipped:
        for model in models(FullPolicy.model_fields[name].annotation):
            assert [key for key in keys(model) if not has_line(key, text)] == [], name
