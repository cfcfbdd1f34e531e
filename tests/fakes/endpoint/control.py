"""``/_fake/``: what a test asks and changes while the endpoint runs. It needs no key and stands in no journal.

``GET /_fake/state`` (``?received=1`` adds the journal), ``POST /_fake/scenario`` lays a JSON object over the scenario,
``POST /_fake/reset`` starts anew, under the JSON scenario that it is given or the one the process was started with.
"""

from __future__ import annotations

import json
from typing import Any, Final

from aiohttp import web
from pydantic import ValidationError

from tests.fakes.endpoint.scenario import Scenario
from tests.fakes.endpoint.wire import ENDPOINT

FIRST: Final = web.AppKey("first", Scenario)
"""The scenario that the process was started with."""


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_get("/_fake/state", _state)
    app.router.add_post("/_fake/scenario", _change)
    app.router.add_post("/_fake/reset", _reset)


async def _state(request: web.Request) -> web.Response:
    return web.json_response(request.app[ENDPOINT].public(received=bool(request.query.get("received"))))


async def _change(request: web.Request) -> web.Response:
    try:
        request.app[ENDPOINT].change(await _object(request))
    except (ValidationError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=400)
    return web.json_response(request.app[ENDPOINT].scenario.model_dump())


async def _reset(request: web.Request) -> web.Response:
    try:
        scenario = Scenario.model_validate(await _object(request)) if request.can_read_body else request.app[FIRST]
    except (ValidationError, ValueError) as error:
        return web.json_response({"error": str(error)}, status=400)
    request.app[ENDPOINT].reset(scenario)
    return web.json_response(scenario.model_dump())


async def _object(request: web.Request) -> dict[str, Any]:
    given = json.loads(await request.read())
    if not isinstance(given, dict):
        raise ValueError("Expected a JSON object.")
    return given
