"""The endpoint as an aiohttp application."""

from __future__ import annotations

from aiohttp import web

from tests.fakes.anthropic import batches as anthropic_batches
from tests.fakes.anthropic import routes as anthropic_routes
from tests.fakes.endpoint import batch_routes, chat_routes, control, file_routes
from tests.fakes.endpoint.scenario import Scenario
from tests.fakes.endpoint.state import Endpoint
from tests.fakes.endpoint.wire import ENDPOINT, add_headers, through_the_door
from tests.fakes.gemini import batches as gemini_batches
from tests.fakes.gemini import routes as gemini_routes

MOST_BYTES = 512 * 1024 * 1024
"""Of a request's body; the limits that the API itself has are the scenario's."""


def build_app(scenario: Scenario) -> web.Application:
    """The application under ``scenario``, all of its state included."""
    app = web.Application(
        middlewares=[through_the_door, gemini_routes.google_door, anthropic_routes.anthropic_door],
        client_max_size=MOST_BYTES,
    )
    app[ENDPOINT] = Endpoint(scenario)
    app[control.FIRST] = scenario
    app.on_response_prepare.append(add_headers)
    for routes in (chat_routes, file_routes, batch_routes, gemini_routes, gemini_batches, control):
        routes.add_routes(app)
    for routes in (anthropic_routes, anthropic_batches):
        routes.add_routes(app)
    return app
