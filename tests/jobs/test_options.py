"""The options of commands: what a command, a submitted job, a session and the Python API are told alike."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

import okralong
from okralong.jobs.cli import app
from okralong.jobs.options import AskOptions, RowOptions, RunCommand, RunOptions, command_words, with_options
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ConfigError


class Given(Settings):
    much: Annotated[float | None, Field(gt=0), typer.Option(help="How much.")] = None
    kind: Annotated[Literal["a", "b"] | None, typer.Option("--sort", help="Which.")] = None
    names: Annotated[list[str], typer.Option(help="Any.")] = Field(default_factory=list)
    pairs: Annotated[dict[str, str], typer.Option("--pair", help="NAME=VALUE.")] = Field(default_factory=dict)
    loud: Annotated[bool, typer.Option("--loud", help="Or not.")] = False


def told(*words: str) -> tuple[str, Given, int]:
    """Return what a command with these options gets when it is called with these words."""
    got: list[tuple[str, Given, int]] = []

    def command(place: str, *, given: Given, last: int = 3) -> None:
        got.append((place, given, last))

    made = typer.Typer()
    made.command()(with_options(command))
    result = CliRunner().invoke(made, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return got[0]


def test_the_fields_of_a_model_are_options_and_back() -> None:
    assert told("here") == ("here", Given(), 3)
    words = ["--much", "2.5", "--sort", "b", "--names", "x", "--names", "y", "--pair", "n=v w", "--loud"]
    given = Given(much=2.5, kind="b", names=["x", "y"], pairs={"n": "v w"}, loud=True)
    assert told("here", *words, "--last", "4") == ("here", given, 4)
    assert command_words(given) == words
    assert command_words(given, without=("much", "names", "pairs")) == ["--sort", "b", "--loud"]
    assert command_words(Given()) == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--much", "-1"), "--much -1.0: Input should be greater than 0"),
        (("--sort", "c"), "--sort c: Input should be 'a' or 'b'"),
        (("--pair", "n"), "--pair takes NAME=VALUE"),
        (("--much", "-1", "--sort", "c"), "; --sort"),
    ],
)
def test_a_value_that_the_model_rejects_is_named_as_it_was_typed(words: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        told("here", *words)


@pytest.mark.parametrize("rows", [None, RowOptions(documents=["a*"], where="year = 2023")])
def test_a_command_comes_to_a_session_as_it_was_given(rows: RowOptions | None) -> None:
    options = AskOptions(tags={"team": "a"}, window=900, budget_usd=1.0)
    run_options = RunOptions(retry=["failed"], llm_mode="batch")
    sent = RunCommand(archive="a", questions="q", run="r", rows=rows, options=options, run_options=run_options, grace=2)
    assert RunCommand.model_validate(json.loads(json.dumps(sent.model_dump(mode="json")))) == sent


@pytest.mark.parametrize("function", [okralong.index, okralong.estimate, okralong.answer, okralong.matrix])
def test_the_python_api_has_the_commands_options_and_defaults(function: Callable[..., Any]) -> None:
    options = {each.name: each for each in typer.main.get_command(app).commands[function.__name__].params}  # type: ignore[attr-defined]
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is not inspect.Parameter.VAR_KEYWORD:
            default = None if parameter.default is inspect.Parameter.empty else parameter.default
            assert (options[name].default or None) == (default or None), name
