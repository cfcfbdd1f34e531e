"""``okralong serve``, ``okralong mcp`` and ``okralong new-token``: an archive that other programs ask."""

from __future__ import annotations

import asyncio
import os
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console

from okralong.jobs.terminal import say_line
from okralong.pipelines.archive.versions import Location
from okralong.pipelines.core.stopping import on_stop, saying
from okralong.pipelines.core.types import ConfigError

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from okralong.jobs.service import ServiceSetup

PORT: Final = 8100
ENDING_S: Final = 10.0
"""Seconds in addition to the grace, in which the run of the day is written. # project default"""
STOPPED: Final = "The service has stopped. Paid replies are kept; start it again to continue."

Archive = Annotated[str, typer.Argument(help="An archive made by okralong index.")]
Night = Annotated[
    str | None, typer.Option(help="The config of okralong nightly, whose last answers are served as well.")
]
Config = Annotated[str, typer.Option(help="A YAML config; see configs/answer.yaml, and configs/serve.yaml for serve.")]
Budget = Annotated[
    float | None, typer.Option(min=0, help="The most US dollars of each UTC day, for all tokens together (budget_usd).")
]
DaysFolder = Annotated[
    Path | None, typer.Option(help="Folder for the days' runs and the audit log; by default ARCHIVE-serve.")
]


def serve(
    archive: Archive,
    *,
    night: Night = None,
    config: Config = "serve.yaml",
    budget_usd: Budget = None,
    folder: DaysFolder = None,
    tokens: Annotated[
        Path | None, typer.Option(help="File of tokens (see okralong new-token); needed beyond a loopback address.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = PORT,
) -> None:
    """Answer questions over HTTP: events, OpenAI's protocol and MCP, with tokens, budgets and an audit log."""
    from okralong.actors.web_service import PRIVATE, free_port, serving
    from okralong.jobs.day_runs import SERVICE
    from okralong.jobs.terminal import ray_lines
    from okralong.pipelines.core.storage import Folder
    from okralong.pipelines.serving.guard import is_loopback

    if tokens is None and not is_loopback(host):
        raise ConfigError(
            f"A service on {host} can be reached from other machines and therefore needs tokens. Make one with "
            "okralong new-token NAME tokens.yaml and add --tokens tokens.yaml, or leave out --host."
        )
    os.umask(PRIVATE)
    console = Console()
    setup = checked_setup(archive, night, config, budget_usd, folder or Path(f"{_place(archive)}-serve"), tokens, host)
    port = free_port(host, port)
    with Folder.of(setup.folder).locked(SERVICE):
        pass  # an error before anything starts; then the replica takes the lock
    stop = threading.Event()
    service = serving(partial(build, setup), host, port, setup.config.serve.grace_s + ENDING_S)
    with saying(STOPPED), ray_lines(console, setup.folder), on_stop(stop.set), service:
        whom = f"the tokens of {tokens}" if tokens else "this machine only, without tokens"
        say_line(console, f"Serving {archive} at http://{_url_host(host)}:{port} for {whom}. Ctrl-C stops.")
        while not stop.wait(1.0):  # a signal is handled between two waits
            pass


def mcp(
    archive: Archive,
    *,
    night: Night = None,
    config: Config = "serve.yaml",
    budget_usd: Budget = None,
    folder: DaysFolder = None,
) -> None:
    """Serve an archive to one MCP client over standard input and output."""
    from okralong.actors.web_service import PRIVATE

    os.umask(PRIVATE)
    setup = checked_setup(archive, night, config, budget_usd, folder or Path(f"{_place(archive)}-mcp"), None, "")
    asyncio.run(_over_stdio(setup))


def new_token(
    name: Annotated[str, typer.Argument(help="Who will use it: letters, digits, - and _.")],
    tokens: Annotated[Path, typer.Argument(help="The file of tokens; made if it does not exist.")],
    daily_usd: Annotated[float, typer.Option(min=0.000001, help="Its budget of each UTC day, in US dollars.")] = 1.0,
    requests_per_minute: Annotated[int, typer.Option(min=1, help="Requests that it may send in a minute.")] = 60,
) -> None:
    """Make a token for okralong serve and print it once; the file keeps only its hash."""
    from okralong.pipelines.serving.tokens import add_token

    print(add_token(tokens, name, daily_usd, requests_per_minute))


def checked_setup(
    archive: str,
    night: str | None,
    config: str,
    budget_usd: float | None,
    folder: Path,
    tokens: Path | None,
    host: str,
) -> ServiceSetup:
    """Check everything that the service needs, without loading a model. Raises OkraError."""
    from okralong.actors.generator import generator
    from okralong.actors.host import why_one_process_is_not_enough
    from okralong.jobs.day_runs import prepared_for
    from okralong.jobs.nightly_files import Places
    from okralong.jobs.service import ServiceSetup
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.models.weights import EMBEDDED
    from okralong.pipelines.run.config import RunConfig
    from okralong.pipelines.serving.tokens import Tokens

    overrides = {} if budget_usd is None else {"budget_usd": budget_usd}
    settings = load_config(RunConfig, config, {"llm.mode": "realtime", **overrides})
    if settings.budget_usd is None and any(one.base_url != EMBEDDED for one in settings.llm.all_endpoints):
        raise ConfigError(
            "A service that calls an endpoint needs a daily cap for all tokens together. Set budget_usd in the config, "
            "or add --budget-usd."
        )
    prepared = prepared_for(archive, settings)
    if why := why_one_process_is_not_enough(prepared):
        raise ConfigError(f"A service answers in one process, which this config does not allow: {why}.")
    Tokens(tokens, settings.serve)
    if settings.llm.base_url != EMBEDDED:
        with generator(prepared.llm, None):  # the endpoint answers, and knows the model
            pass
    place = Location.of(archive)
    if "://" not in place.place:
        place = Location(str(Path(place.place).resolve()), place.version)
    if "://" in str(folder):
        raise ConfigError(f"The folder {folder} of a service must be a local one: a killed service must leave no lock.")
    served_night = ""
    if night is not None:
        places = Places.read(night)
        served_night = places.of(places.config.folder)
    return ServiceSetup(
        str(place), settings, str(folder.resolve()), served_night, str(tokens.resolve()) if tokens else None, host
    )


def build(setup: ServiceSetup) -> ASGIApp:
    """Return the whole application of a service; called in the replica."""
    from okralong.jobs.service import Service
    from okralong.pipelines.serving.audit import AuditLog
    from okralong.pipelines.serving.guard import Guard, known_hosts, with_cors
    from okralong.pipelines.serving.tokens import Tokens
    from okralong.pipelines.serving.web import web_app

    limits = setup.config.serve
    tokens = Tokens(Path(setup.tokens) if setup.tokens else None, limits)
    app = web_app(Service(setup, tokens), limits, known_hosts(setup.host, limits))
    audit = AuditLog(Path(setup.folder) / "audit", limits.audit_questions)
    return with_cors(Guard(app, setup.host, limits, tokens, audit), limits)


async def _over_stdio(setup: ServiceSetup) -> None:
    from okralong.jobs.service import Service
    from okralong.pipelines.serving.mcp_tools import mcp_server
    from okralong.pipelines.serving.tokens import Tokens

    tokens = Tokens(None, setup.config.serve)
    async with Service(setup, tokens) as service:
        await mcp_server(service, tokens.caller("")).run_stdio_async()


def _place(archive: str) -> str:
    place = Location.of(archive).place.rstrip("/")
    if "://" in place:
        raise ConfigError("Name a local folder for the days' runs: --folder FOLDER.")
    return place


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
