"""``/v1/files``: upload for batches, list, show, download, delete. Other purposes than "batch" are not modelled."""

from __future__ import annotations

from aiohttp import BodyPartReader, web

from tests.fakes.endpoint.delivery import open_to_faults
from tests.fakes.endpoint.paging import page
from tests.fakes.endpoint.problems import invalid, missing
from tests.fakes.endpoint.wire import ENDPOINT

PATH = "/v1/files"


def add_routes(app: web.Application) -> None:
    """Add the routes of this file."""
    app.router.add_post(PATH, open_to_faults("files", _upload))
    app.router.add_get(PATH, open_to_faults("files", _list))
    app.router.add_get(f"{PATH}/{{id}}", open_to_faults("files", _show))
    app.router.add_get(f"{PATH}/{{id}}/content", open_to_faults("files", _content))
    app.router.add_delete(f"{PATH}/{{id}}", open_to_faults("files", _delete))


async def _upload(request: web.Request) -> web.Response:
    endpoint = request.app[ENDPOINT]
    purpose, filename, content = await _read_form(request)
    if purpose is None:
        raise missing("purpose")
    if purpose != "batch":
        raise invalid("purpose", f"'{purpose}' is not one of ['batch'] - 'purpose'")
    if filename is None:
        raise missing("file")
    if not filename.endswith(".jsonl"):
        raise invalid("file", "Invalid file format for Batch API. Must be .jsonl")
    if len(content) > endpoint.scenario.batches.max_bytes:
        raise invalid("file", f"File is too large: at most {endpoint.scenario.batches.max_bytes} bytes are taken.")
    return web.json_response(endpoint.files.add(filename, purpose, content).public())


async def _read_form(request: web.Request) -> tuple[str | None, str | None, bytes]:
    """``(purpose, filename, content)`` of a multipart form, whose parts may come in any order."""
    purpose, filename, content = None, None, b""
    if not request.content_type.startswith("multipart/"):
        return purpose, filename, content
    async for part in await request.multipart():
        if not isinstance(part, BodyPartReader):
            continue
        if part.name == "purpose":
            purpose = await part.text()
        elif part.name == "file":
            filename, content = part.filename or "", bytes(await part.read())
    return purpose, filename, content


async def _list(request: web.Request) -> web.Response:
    purpose = request.query.get("purpose")
    files = [file.public() for file in request.app[ENDPOINT].files.all() if purpose in (None, file.purpose)]
    return web.json_response(page(files, request.query, 10_000, 10_000))


async def _show(request: web.Request) -> web.Response:
    return web.json_response(request.app[ENDPOINT].files.get(request.match_info["id"]).public())


async def _content(request: web.Request) -> web.Response:
    file = request.app[ENDPOINT].files.get(request.match_info["id"])
    return web.Response(body=file.content, content_type="application/octet-stream")


async def _delete(request: web.Request) -> web.Response:
    file_id = request.match_info["id"]
    request.app[ENDPOINT].files.delete(file_id)
    return web.json_response({"id": file_id, "object": "file", "deleted": True})
