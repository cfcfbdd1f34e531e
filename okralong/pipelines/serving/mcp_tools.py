"""A service as an MCP server: the tools ``search``, ``ask`` and ``tonight``, over stdio and streamable HTTP."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, Final

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import Field, ValidationError
from starlette.routing import BaseRoute

from okralong.pipelines.run.config import ServeConfig
from okralong.pipelines.serving.asked import MOST_FOUND, MOST_ROWS, AskRequest, Refused, ServicePort, final
from okralong.pipelines.serving.guard import caller_in, note_answer, notes_in
from okralong.pipelines.serving.openai_chat import written
from okralong.pipelines.serving.tokens import Caller

INSTRUCTIONS: Final = (
    "An archive of long documents. `tonight` reads answers that were made last night, and `search` finds passages; "
    "both are free. `ask` answers a new question with citations; it calls a language model and spends from a daily "
    "budget. Look at `tonight` first, then `search`, then `ask`. Quote the citations that an answer comes with."
)
Documents = Annotated[
    list[str] | None, Field(description="Ids of documents, or patterns such as '*_10K'; omit for the whole archive.")
]
Where = Annotated[str, Field(description='A filter over the documents\' metadata, such as "year = 2023".')]
SCHEMES: Final = ("http", "https")
READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)


def mcp_server(service: ServicePort, caller: Caller | None = None) -> MCPServer[Any]:
    """Return the server. ``caller`` asks over stdio; over HTTP it is the sender of the request."""
    server: MCPServer[Any] = MCPServer("okralong", instructions=INSTRUCTIONS, log_level="ERROR")

    def sender(ctx: Context[Any, Any], tool: str, question: str) -> tuple[Caller, dict[str, Any]]:
        request = ctx.request_context.request
        if request is None:
            assert caller is not None
            return caller, {}
        notes = notes_in(request.scope)
        notes |= {"endpoint": f"/mcp {tool}"} | ({"question": question} if question else {})
        return caller_in(request.scope), notes

    @server.tool(annotations=READS)
    async def search(
        ctx: Context[Any, Any],
        query: Annotated[str, Field(description="Words or a question.")],
        doc_ids: Documents = None,
        where: Where = "",
        count: Annotated[int, Field(ge=1, le=MOST_FOUND, description="How many passages.")] = 8,
    ) -> CallToolResult:
        """Find the passages of the documents that fit a question best, with scores. Free."""
        _, notes = sender(ctx, "search", query)
        with _refusals(notes):
            found = await service.search(_asked(question=query, doc_ids=doc_ids or [], where=where), count)
        lines = [
            f"{each['document']}, {each['place'] or _offset(each)} (score {each['score']:.3f}):\n{each['text']}"
            for each in found
        ]
        return _result("\n\n".join(lines) or "Nothing was found.", {"found": found})

    @server.tool(annotations=ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=True))
    async def ask(
        ctx: Context[Any, Any],
        question: Annotated[str, Field(description="One question, complete in itself.")],
        doc_ids: Documents = None,
        where: Where = "",
        type: Annotated[
            str, Field(description="Type of the answer: text (default), money, percent, date, 'list of text' ...")
        ] = "",
    ) -> CallToolResult:
        """Answer a question from the documents, with citations. Spends from the daily budget."""
        who, notes = sender(ctx, "ask", question)
        with _refusals(notes):
            asked = _asked(question=question, doc_ids=doc_ids or [], where=where, type=type)
            answer = await final(service.ask(who, asked))
        note_answer(notes, answer)
        text, _ = written(answer)
        paid = "a repeated question, nothing paid" if answer["replayed"] else f"cost ${notes['cost_usd']:.6f}"
        return _result(f"{text}\n\n({paid})", answer)

    @server.tool(annotations=READS)
    async def tonight(
        ctx: Context[Any, Any],
        document: Annotated[str, Field(description="Only answers about this document (an id or a pattern).")] = "",
        column: Annotated[str, Field(description="Only answers to this question of the table (its id).")] = "",
        status: Annotated[str, Field(description="Only answers with this status, such as answered.")] = "",
        offset: Annotated[int, Field(ge=0)] = 0,
        limit: Annotated[int, Field(ge=1, le=MOST_ROWS)] = 50,
    ) -> CallToolResult:
        """Read the table of answers that were made last night. Free."""
        _, notes = sender(ctx, "tonight", "")
        with _refusals(notes):
            page = await service.tonight(document, column, status, offset, limit)
        lines = [_line(row) for row in page["answers"]]
        head = f"Night {page['night']}: answers {offset + 1} to {offset + len(lines)} of {page['total']}."
        return _result("\n".join([head, *lines]), page)

    return server


def _offset(found: Mapping[str, Any]) -> str:
    return f"from character {found['start_char']:,}"


def _asked(**given: Any) -> AskRequest:
    try:
        return AskRequest(**given)
    except ValidationError as error:
        raise Refused(422, "invalid_request", f"The question cannot be used: {error.errors()[0]['msg']}.") from error


@contextmanager
def _refusals(notes: dict[str, Any]) -> Iterator[None]:
    """Raise refusals as errors of the tool, which a model reads."""
    try:
        yield
    except Refused as error:
        notes |= {"status": error.status, "cost_usd": error.cost_usd}
        raise ToolError(f"{error.kind}: {error}") from error


def _result(text: str, data: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=data)


def _line(row: dict[str, Any]) -> str:
    place = ", ".join(filter(None, (row["doc_id"], row["section"])))
    said = row["answer"] if row["status"] == "answered" else f"({row['status']})"
    return f"- {row['query_id']}: {row['question']} -> {said}{f' [{place}]' if place else ''}"


def mcp_over_http(
    service: ServicePort, config: ServeConfig, hosts: Collection[str]
) -> tuple[MCPServer[Any], list[BaseRoute]]:
    """Return the server and its route ``/mcp``. Its session manager must run while requests arrive.

    Requests are independent of each other, so that a restarted replica needs no sessions.
    """
    server = mcp_server(service)
    named = [f"{name}{port}" for name in hosts for port in ("", ":*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=bool(hosts),
        allowed_hosts=named,
        allowed_origins=[*config.allowed_origins, *(f"{scheme}://{each}" for scheme in SCHEMES for each in named)],
    )
    app = server.streamable_http_app(
        stateless_http=True,
        json_response=True,
        max_request_body_size=config.most_body_bytes,
        transport_security=security,
    )
    logging.getLogger("mcp").setLevel(logging.ERROR)
    return server, list(app.routes)
