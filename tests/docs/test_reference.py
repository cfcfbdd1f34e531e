"""The reference pages name every command, key and table, and each key is explained."""

from __future__ import annotations

import inspect
from typing import Any, get_args

import pytest
import yaml

from okralong.jobs.submission import AnswerJob, EstimateJob, IndexJob, MatrixJob
from okralong.pipelines.core.config import shipped_config
from tests.docs import reference


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    made: dict[str, str] = reference.pages()
    return made


def test_every_command_and_option_is_there(pages: dict[str, str]) -> None:
    commands = dict(reference.commands())
    assert {"okralong index", "okralong answer", "okralong archive purge", "okralong compare"} <= set(commands)
    for words, command in commands.items():
        assert f"## {words}\n" in pages["commands.md"]
        for parameter in command.params:
            assert all(f"`{option}`" in pages["commands.md"] for option in parameter.opts if option.startswith("--"))


def test_every_key_of_the_shipped_files_is_there(pages: dict[str, str]) -> None:
    for page, files in reference.CONFIGS.items():
        for name in files:
            if name in ("tune.yaml", "columns.yaml"):  # none is shipped
                continue
            for key in yaml.safe_load(shipped_config(name)):
                assert f"| `{key}` |" in pages[page], f"{name}: {key}"


def test_defaults_bounds_and_units_are_those_of_the_models(pages: dict[str, str]) -> None:
    assert "| `max_file_megabytes` | number more than 0 | `200.0` | 10^6 bytes |" in pages["config.md"]
    assert "| `concurrency` | whole number from 1 to 4,096 | `64` |  |" in pages["config.md"]
    assert "| `timeout_s` | number more than 0, at most 3,600 | `120.0` | seconds |" in pages["config.md"]


def _mentioned(annotation: Any) -> set[Any]:
    """The types that an annotation is made of."""
    return {annotation}.union(*map(_mentioned, get_args(annotation)))


def test_every_key_that_a_user_writes_is_explained() -> None:
    """By name, in the docstring of its model; a key that holds a model of its own is explained there."""
    open_ones = []
    for place in reference.CONFIGS["config.md"].values():
        models = reference.models_of(place)
        for name, model in models.items():
            if model in (IndexJob, AnswerJob, EstimateJob, MatrixJob):  # their keys are the options of the commands
                continue
            for key, field in model.model_fields.items():
                below = any(model in _mentioned(field.annotation) for model in models.values())
                if not below and f"``{key}``" not in reference.explained(model):
                    open_ones.append(f"{name}.{key}")
    assert open_ones == []


def test_every_table_and_column_is_there(pages: dict[str, str]) -> None:
    names = [schema.metadata[b"okralong.table"].decode() for _, schema in reference.tables()]
    assert {"answers", "ledger", "journal", "documents", "vectors", "scores"} <= set(names)
    assert len(names) == len(set(names))
    for (_, schema), name in zip(reference.tables(), names, strict=True):
        section = pages["tables.md"].partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        assert [f"| `{column}` |" in section for column in schema.names] == [True] * len(schema.names)


def test_the_python_page_has_the_real_signatures(pages: dict[str, str]) -> None:
    import okralong

    for function in (okralong.index, okralong.estimate, okralong.answer):
        section = pages["python.md"].partition(f"### okralong.{function.__name__}\n")[2].partition("\n### ")[0]
        assert all(name in section for name in inspect.signature(function).parameters)
        assert (inspect.getdoc(function) or "").splitlines()[0].replace("``", "`") in section
