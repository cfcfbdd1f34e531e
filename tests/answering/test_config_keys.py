"""Every key of a run's config and of a policy stands in a shipped file, if only as a comment."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

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


@pytest.mark.parametrize(
    ("model", "files"),
    [(RunConfig, ["answer.yaml", "prices.yaml"]), (FullPolicy, ["policy/paper.yaml", "policy/default.yaml"])],
)
def test_every_key_has_a_line(model: type[BaseModel], files: list[str]) -> None:
    text = "".join(map(shipped_config, files))
    assert [key for key in keys(model) if not re.search(rf"(?<![\w-]){key}:\s", text)] == []
