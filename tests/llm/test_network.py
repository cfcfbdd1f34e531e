"""Proxies and certificates: through a proxy on this machine, to an endpoint that a private authority vouches for."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.llm.config import EndpointConfig
from okralong.pipelines.llm.endpoint import check_endpoint, open_provider
from okralong.pipelines.llm.network import CA_VARIABLES, described, proxy, stay, trust
from okralong.pipelines.llm.providers.base import Connection
from okralong.pipelines.llm.providers.openai import open_client
from okralong.pipelines.llm.providers.stainless import StainlessProvider

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*PROXY_VARIABLES, *CA_VARIABLES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``ca.pem``, ``server.pem`` (key and certificate for 127.0.0.1), and ``other.pem``, another CA."""
    folder = tmp_path_factory.mktemp("authority")
    key, root = _authority("Our own authority")
    (folder / "ca.pem").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "other.pem").write_bytes(_authority("Somebody else's")[1].public_bytes(serialization.Encoding.PEM))
    mine = ec.generate_private_key(ec.SECP256R1())
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    made = _certificate("endpoint", "Our own authority", mine, key, names)
    private = mine.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "server.pem").write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return folder


def _authority(name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    return key, _certificate(name, name, key, key, x509.BasicConstraints(ca=True, path_length=None))


def _certificate(
    name: str,
    issuer: str,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    named, issued = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)]) for each in (name, issuer))
    start = x509.CertificateBuilder().subject_name(named).issuer_name(issued).public_key(key.public_key())
    start = start.serial_number(x509.random_serial_number()).add_extension(extension, critical=False)
    start = start.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=9))
    return start.sign(signer, hashes.SHA256())


@dataclass
class Proxy:
    """A proxy for CONNECT that notes where it was asked to go; ``refuses``: with 407, as one that wants a password."""

    refuses: bool = False
    asked: list[str] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        target = head.split()[1]
        self.asked.append(target)
        if self.refuses:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        host, _, port = target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pump(reader, back), _pump(there, writer))


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while block := await source.read(1 << 16):
        target.write(block)
        await target.drain()
    target.close()


@asynccontextmanager
async def network(authority: Path, *, refuses: bool = False) -> AsyncIterator[tuple[EndpointConfig, Proxy, str]]:
    """An endpoint that speaks https, a proxy, and the proxy's address."""

    async def models(_: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": "m", "object": "model"}]})

    app = web.Application()
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem")
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    between = Proxy(refuses)
    server = await asyncio.start_server(between.serve, "127.0.0.1", 0)
    place = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield EndpointConfig(base_url=f"https://127.0.0.1:{port}/v1", model="m"), between, place
    finally:
        server.close()
        await runner.cleanup()


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
async def test_a_private_authority_is_trusted_through_a_proxy(
    authority: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, str(authority / "ca.pem"))
    async with network(authority) as (endpoint, between, place):
        monkeypatch.setenv("HTTPS_PROXY", place)
        status = await check_endpoint(endpoint)
        assert status.state == "ready", status.message
        host = endpoint.base_url.removeprefix("https://").removesuffix("/v1")
        assert between.asked == [host]
        way = f"through the proxy {place}, certificates of {authority}/ca.pem ({variable})"
        assert described(endpoint.base_url) == way
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        assert (await check_endpoint(endpoint)).state == "ready"
        assert len(between.asked) == 1


async def test_a_certificate_of_another_authority_is_one_paragraph(
    authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(authority) as (endpoint, _, place):
        for setting in (None, str(authority / "other.pem")):
            if setting:
                monkeypatch.setenv("SSL_CERT_FILE", setting)
            status = await check_endpoint(endpoint)
            assert (status.ok, status.state) == (False, "untrusted")
            assert "not trusted here (unable to get local issuer certificate" in status.message
            assert "set SSL_CERT_FILE on every node" in status.message
            assert "\n" not in status.message
        assert "other.pem (SSL_CERT_FILE)" in status.message
        monkeypatch.setenv("HTTPS_PROXY", place)
        assert (await check_endpoint(endpoint)).state == "untrusted"


async def test_a_proxy_that_wants_a_password_is_named_without_it(
    authority: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with network(authority, refuses=True) as (endpoint, between, place):
        monkeypatch.setenv("HTTPS_PROXY", place.replace("://", "://anna:secret@"))
        status = await check_endpoint(endpoint)
        assert status.state == "down"
        assert f"through the proxy {place} (407 Proxy Authentication Required)" in status.message
        assert "secret" not in status.message
        assert between.asked


async def test_a_proxy_that_is_not_there_is_named(authority: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with network(authority) as (endpoint, _, _):
        monkeypatch.setenv("HTTPS_PROXY", "http://anna:secret@127.0.0.1:9")
        status = await check_endpoint(endpoint)
        assert status.state == "down"
        assert "through the proxy http://127.0.0.1:9" in status.message
        assert "secret" not in status.message


def test_certificates_that_are_not_there_or_none_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    here = "https://127.0.0.1/v1"
    with pytest.raises(ConfigError, match=r"SSL_CERT_FILE names .*none.pem .* there is no such file"):
        open_client(EndpointConfig(base_url=here, model="m"), Connection(here, "k"))
    (tmp_path / "none.pem").write_text("nothing")
    with pytest.raises(ConfigError, match="holds no certificates that can be read"):
        trust()


def test_the_proxy_of_an_address_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://anna:secret@proxy.bank:3128")
    monkeypatch.setenv("NO_PROXY", "inside.bank")
    assert proxy("https://api.openai.com/v1") == "http://proxy.bank:3128"
    assert proxy("https://llm.inside.bank/v1") == ""
    assert proxy("http://localhost:11434/v1") == ""


@asynccontextmanager
async def redirecting(status: int, to: str = "") -> AsyncIterator[tuple[str, list[str], str]]:
    """The address of a server that redirects all requests, those that others got, and the address of another host.

    ``to`` is a path on the same server instead of the other one.
    """
    taken: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        taken.append(f"{request.method} {request.path} {request.headers.get('x-api-key', '')}")
        return web.json_response({"object": "list", "data": [{"id": "small", "object": "model"}]})

    async def move(request: web.Request) -> web.Response:
        here = request.path.startswith("/moved")
        return await answer(request) if here else web.Response(status=status, headers={"Location": place(request.path)})

    def place(path: str) -> str:
        return f"{to}{path}" if to else f"http://localhost:{other.port}/there{path}?key=sk-of-nobody"

    servers = []
    for handler in (answer, move):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", handler)
        servers.append(TestServer(app))
    other, server = servers
    async with other, server:
        yield f"http://127.0.0.1:{server.port}/v1", taken, f"http://localhost:{other.port}/there/v1"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
async def test_a_redirect_to_another_host_is_named_and_not_followed(
    provider: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-of-nobody")
    async with redirecting(status) as (address, taken, there):
        given = {"base_url": address, "model": "small", "api_key_env": "SOME_KEY"}
        config = EndpointConfig.model_validate(given | {"provider": provider})
        found = await check_endpoint(config)
        assert (found.ok, found.state) == (False, "unusable")
        assert f"{address} redirects to {there}" in found.message
        assert "set llm.base_url" in found.message
        assert "sk-of-nobody" not in found.message
        if provider != "google":
            opened = open_provider(config, Connection(address, "sk-of-nobody"))
            assert isinstance(opened, StainlessProvider)
            with pytest.raises(opened.sdk.APIStatusError) as error:
                await opened.http.post(opened.path, cast_to=object, body={"messages": []})
            told = opened.api_error(error.value)
            assert f"redirects to {there}" in told.message
            assert told.whose == "endpoint"
            await opened.aclose()
    assert taken == []


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_on_the_same_server_is_followed(status: int) -> None:
    async with redirecting(status, "/moved") as (address, taken, _):
        config = EndpointConfig(base_url=address, model="small")
        assert (await check_endpoint(config)).state == "ready"
        opened = open_provider(config, Connection(address, "none"))
        assert isinstance(opened, StainlessProvider)
        await opened.http.post(opened.path, cast_to=object, body={"messages": []})
        await opened.aclose()
    assert taken == ["GET /moved/v1/models ", "POST /moved/v1/chat/completions "]


@pytest.mark.parametrize(
    ("method", "here", "there", "is_followed"),
    [
        ("POST", "http://models.example/v1/x", "https://models.example/v1/x", True),
        ("POST", "http://models.example:8000/v1/x", "https://models.example:8443/v1/x", False),
        ("POST", "https://models.example/v1/x", "http://models.example/v1/x", False),
        ("POST", "https://models.example/v1/x", "https://models.example.net/v1/x", False),
        ("POST", "https://models.example/v1/x", "//other.example/v1/x", False),
        ("POST", "https://models.example/v1/x", "/v2/x", True),
        ("GET", "https://models.example/v1/files/f/content", "https://store.example/f?signed", True),
    ],
)
async def test_which_redirects_are_followed(method: str, here: str, there: str, is_followed: bool) -> None:
    response = httpx2.Response(308, headers={"Location": there}, request=httpx2.Request(method, here))
    await stay(response)
    assert response.has_redirect_location is is_followed
