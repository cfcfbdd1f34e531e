"""The options that commands, submitted jobs and warm sessions share, each declared once as a model field.

``with_options`` turns the fields of a model into options of a typer command. ``command_words`` turns an instance back
into the words of a command line.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args, get_origin

import typer
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from typer.models import OptionInfo

from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ConfigError

if TYPE_CHECKING:
    from okralong.pipelines.indexing.config import IndexConfig
    from okralong.pipelines.run.config import RunConfig

Retriable = Literal["failed", "unanswerable", "invalid_output", "over_budget"]
"""Statuses of questions that can be retried."""

S = TypeVar("S", bound=Settings)

Address = Annotated[str | None, typer.Option(help="The address of a Ray cluster; without it, this machine is used.")]


class IndexOptions(Settings):
    """Options of ``okralong index``."""

    config: Annotated[str, typer.Option(help="A YAML config; see configs/index.yaml.")] = "index.yaml"
    metadata: Annotated[
        str | None,
        typer.Option(help="Columns of the documents, by doc_id or file name: a csv, tsv, xlsx, jsonl or parquet file."),
    ] = None
    exclude: Annotated[
        list[str], typer.Option(help="Files to skip: '*.png', or 'drafts/*' below the folder; may be repeated.")
    ] = Field(default_factory=list)
    embed: Annotated[
        Literal["smallest", "each", "none"] | None,
        typer.Option(help="Which chunks get a vector (embedding.of): smallest, each, or none."),
    ] = None
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Hash every file, even if its size and modification time are unchanged.")
    ] = False

    def settings(self) -> IndexConfig:
        """Load the config and apply these options. Raises ConfigError."""
        from okralong.pipelines.core.config import load_config
        from okralong.pipelines.indexing.config import IndexConfig

        given = {"metadata": self.metadata, "exclude": self.exclude or None, "embedding.of": self.embed}
        return load_config(IndexConfig, self.config, _given(given))


class AskOptions(Settings):
    """Options of every command that asks questions of an archive."""

    config: Annotated[str, typer.Option(help="A YAML config; see configs/answer.yaml.")] = "answer.yaml"
    strategy: Annotated[
        str | None, typer.Option(help="A method of docs/methods.md, a file (mine.py), or module:function.")
    ] = None
    analyzer: Annotated[
        str | None, typer.Option(help="heads, label_scorer, rules, llm, or a folder written by okralong train.")
    ] = None
    model: Annotated[str | None, typer.Option(help="The generator's name at its endpoint (llm.model).")] = None
    base_url: Annotated[str | None, typer.Option(help="The generator's endpoint (llm.base_url).")] = None
    window: Annotated[int | None, typer.Option(help="Tokens of prompt and reply together (llm.window).")] = None
    budget_usd: Annotated[float | None, Field(gt=0), typer.Option(help="A hard spending limit in US dollars.")] = None
    tags: Annotated[
        dict[str, str], typer.Option("--tag", help="NAME=VALUE, written to every ledger row; may be repeated.")
    ] = Field(default_factory=dict)
    carry: Annotated[
        list[str], typer.Option(help="A column of the questions to copy into the answers; may be repeated.")
    ] = Field(default_factory=list)

    def settings(self, more: RunOptions | None = None) -> RunConfig:
        """Load the config and apply these options, and those of a run if given. Raises ConfigError."""
        from okralong.pipelines.answering.analyzers.analyzer import analyzer_keys
        from okralong.pipelines.core.config import load_config
        from okralong.pipelines.run.config import RunConfig

        given = {
            "strategy": self.strategy,
            "budget_usd": self.budget_usd,
            "carry": self.carry or None,
            "llm.model": self.model,
            "llm.base_url": self.base_url,
            "llm.window": self.window,
            **(analyzer_keys(self.analyzer) if self.analyzer else {}),
        }
        if more is not None:
            given |= {
                "replies_from": more.replies_from or None,
                "llm.mode": more.llm_mode,
                "llm.batch.deadline": more.deadline,
            }
        settings = load_config(RunConfig, self.config, _given(given))
        if more is not None and more.deadline is not None and settings.llm.mode != "batch" and more.llm_mode is None:
            raise ConfigError(
                "--deadline applies to batch mode only, and this run is in real time. Add --llm-mode batch, or omit "
                "--deadline. Nothing was run."
            )
        return settings.model_copy(update={"tags": settings.tags | self.tags})


class RunOptions(Settings):
    """Options of the commands that answer into a run folder: ``okralong answer`` and ``okralong matrix``."""

    replies_from: Annotated[
        list[str],
        typer.Option(
            help="Another run folder whose replies to identical requests are reused for free; may be repeated."
        ),
    ] = Field(default_factory=list)
    retry: Annotated[
        list[Retriable],
        typer.Option(help="Ask questions with this status again: failed, unanswerable, invalid_output, over_budget."),
    ] = Field(default_factory=list)
    llm_mode: Annotated[
        Literal["realtime", "batch"] | None,
        typer.Option(help="realtime, or batch: results within a day at the endpoint's batch price."),
    ] = None
    deadline: Annotated[
        str | None,
        typer.Option(help="When a batch run sends the remaining calls in real time: 06:00, 2026-11-23T06:00, 8h."),
    ] = None


class RowOptions(Settings):
    """Options of ``okralong matrix`` that select the documents."""

    documents: Annotated[
        list[str],
        typer.Option(
            help="The rows: an id or a pattern such as '*_10K'; may be repeated; by default, as the columns say."
        ),
    ] = Field(default_factory=list)
    where: Annotated[
        str | None, typer.Option(help="The rows, as a filter over the documents' columns: \"company = 'AMD'\".")
    ] = None


class RunCommand(Settings):
    """An ``answer`` or ``matrix`` command as it is sent to a warm session. Only a matrix has ``rows``."""

    archive: str
    questions: str
    run: str
    changed_since: int | None = None
    rows: RowOptions | None = None
    options: AskOptions
    run_options: RunOptions
    grace: float


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


# Options on the command line.


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a function that typer can read: the fields of each options model among the parameters become options.

    A value that the model rejects raises ConfigError with the option's name.
    """
    signature = inspect.signature(command, eval_str=True)
    models = {name: each.annotation for name, each in signature.parameters.items() if _is_model(each.annotation)}

    @functools.wraps(command)
    def called(**given: Any) -> None:
        built = {
            name: _read(model, {field: given.pop(field) for field in model.model_fields})
            for name, model in models.items()
        }
        command(**given, **built)

    parameters: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        if name in models:
            parameters += [_parameter(field, info) for field, info in models[name].model_fields.items()]
        else:
            parameters.append(each.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return called


def command_words(options: Settings, without: Collection[str] = ()) -> list[str]:
    """Return the command-line words that set ``options``, except the fields in ``without``."""
    words: list[str] = []
    for name, info in type(options).model_fields.items():
        value = getattr(options, name)
        if name in without or value is None or value is False:
            continue
        option = _option_name(name, info)
        if value is True:
            words.append(option)
            continue
        if isinstance(value, dict):
            value = [f"{key}={each}" for key, each in value.items()]
        words += [word for each in (value if isinstance(value, list) else [value]) for word in (option, str(each))]
    return words


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Settings)


def _option(info: FieldInfo) -> OptionInfo | None:
    return next((each for each in info.metadata if isinstance(each, OptionInfo)), None)


def _option_name(field: str, info: FieldInfo) -> str:
    option = _option(info)
    declared = (option.default, *(option.param_decls or ())) if option else ()  # typer reads either as a name
    return next((each for each in declared if isinstance(each, str)), f"--{field.replace('_', '-')}")


def _parameter(name: str, info: FieldInfo) -> inspect.Parameter:
    """Return a field as a parameter for typer, which reads lists, mappings and choices as strings."""
    kind = info.annotation
    if get_origin(kind) in (list, dict):
        kind = list[str] | None
    elif any(get_origin(each) is Literal for each in get_args(kind)):
        kind = str | None
    default = None if info.default_factory else info.default
    annotation: Any = Annotated[kind, _option(info)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _read(model: type[S], given: dict[str, Any]) -> S:
    """Build the model from the values that typer read. Raises ConfigError."""
    values = {name: value for name, value in given.items() if value is not None}
    for name in values:
        if get_origin(model.model_fields[name].annotation) is dict:
            values[name] = _pairs(values[name], _option_name(name, model.model_fields[name]))
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = []
        for each in error.errors():
            field = str(each["loc"][0])
            problems.append(f"{_option_name(field, model.model_fields[field])} {each['input']}: {each['msg']}")
        raise ConfigError(f"{'; '.join(problems)}. Nothing was run.") from error


def _pairs(words: Sequence[str], option: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for each in words:
        name, sign, value = (part.strip() for part in each.partition("="))
        if not (name and sign and value):
            raise ConfigError(f"{option} takes NAME=VALUE, such as {option} team=research, not {each!r}.")
        pairs[name] = value
    return pairs
