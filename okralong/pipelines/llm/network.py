"""Read the proxy and trusted certificates for endpoints from the environment, and limit the size of error pages.

The HTTP client itself reads the variables ``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY``, ``NO_PROXY``,
``SSL_CERT_FILE`` and ``SSL_CERT_DIR``. If the last two are not set, ``REQUESTS_CA_BUNDLE`` is used here, which is
common in Python programs.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx2

from okralong.pipelines.core.types import ConfigError

CA_VARIABLES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE")
"""Variables that name trusted certificates. The first that is set is used; by default, the system's certificates
are."""


def certificates() -> tuple[str, str] | None:
    """Return the variable that names trusted certificates, and its path; None if the system's are used.

    Raises ConfigError if the path does not exist.
    """
    for name in CA_VARIABLES:
        place = os.environ.get(name, "")
        if place and not Path(place).exists():
            raise ConfigError(
                f"{name} names {place} as the trusted certificates, but there is no such file. Correct "
                "the variable on every node, or unset it to trust the system's certificates."
            )
        if place:
            return name, place
    return None


def trust() -> ssl.SSLContext | None:
    """Return the SSL context for the environment's certificates, or None for the client's default.

    Raises ConfigError if the certificates cannot be read.
    """
    found = certificates()
    if found is None:
        return None
    name, place = found
    try:
        if Path(place).is_dir():
            return ssl.create_default_context(capath=place)
        return ssl.create_default_context(cafile=place)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"{name} names {place}, which holds no certificates that can be read ({error}). It has to be a file of "
            "certificates in PEM, each between BEGIN CERTIFICATE and END CERTIFICATE."
        ) from error


def proxy(url: str) -> str:
    """Return the proxy for ``url``, without user and password, or "" if there is none."""
    there = urlsplit(url)
    found = getproxies()
    if not there.hostname or proxy_bypass(there.hostname):
        return ""
    address = found.get(there.scheme) or found.get("all") or ""
    return address and _public(address)


def check_proxy(url: str) -> None:
    """Raise ConfigError if the proxy for ``url`` is not an HTTP proxy (but a SOCKS proxy, for instance)."""
    through = proxy(url)
    if through and urlsplit(through).scheme not in ("http", "https"):
        raise ConfigError(
            f"{url} is reached through the proxy {through}, but only HTTP proxies are supported. Set HTTPS_PROXY "
            "or HTTP_PROXY to one (http://HOST:PORT), or name the host in NO_PROXY if it is reached directly. Nothing "
            "was sent."
        )


def _public(address: str) -> str:
    parts = urlsplit(address if "://" in address else f"http://{address}")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def described(url: str) -> str:
    """Describe, in words, the proxy and certificates used for ``url``."""
    through = proxy(url)
    found = certificates()
    return ", ".join(
        (
            f"through the proxy {through}" if through else "without a proxy",
            f"certificates of {found[1]} ({found[0]})" if found else "the system's certificates",
        )
    )


def trouble(error: BaseException, url: str) -> str:
    """Explain a connection failure that a certificate or proxy caused. Return "" for other failures."""
    causes = list(_causes(error))
    for cause in reversed(causes):  # the innermost cause has OpenSSL's message
        if isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return (
                f"{url} shows a certificate that is not trusted here ({_reason(cause)}; {described(url)}). If your "
                "network inspects TLS or the endpoint is self-hosted, set SSL_CERT_FILE on every node to a PEM file "
                "with your organisation's authority, and with the public ones if other endpoints are used as well. "
                "No setting of okralong turns the check off."
            )
    through = proxy(url)
    refused = next((cause for cause in causes if isinstance(cause, aiohttp.ClientHttpProxyError)), None)
    if refused is not None:
        return (
            f"{url} cannot be reached through the proxy {through} ({refused.status} {refused.message}). Check the "
            "variables HTTPS_PROXY and HTTP_PROXY, including user and password; list hosts that are reached "
            "directly in NO_PROXY."
        )
    if through:
        return (
            f"{url} cannot be reached through the proxy {through} ({causes[-1]}). Check that the proxy "
            "is up (HTTPS_PROXY, HTTP_PROXY), or name the host in NO_PROXY if it is reached directly."
        )
    return ""


def _causes(error: BaseException) -> Iterator[BaseException]:
    now: BaseException | None = error
    while now is not None:
        yield now
        now = now.__cause__ or now.__context__


_FRAME = re.compile(r"\[SSL: \w+\] |certificate verify failed: | \(_ssl\.c:\d+\)")


def _reason(error: BaseException) -> str:
    """Return OpenSSL's message without the names of its functions."""
    return getattr(error, "verify_message", "") or _FRAME.sub("", str(error))


LONGEST_ERROR: Final = 256 * 1024  # project default
"""The most bytes of an error's body that are read."""


async def bound_error_page(response: httpx2.Response) -> None:
    """Truncate the body of an error response, because the SDK reads all of it. This is a hook of the HTTP client."""
    if response.status_code >= 400 and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Beginning(response.stream)


REFUSED_REDIRECT: Final = "okralong-refused-redirect"
"""The header in which ``stay`` puts the address of a redirect that is not followed."""
_UPGRADE: Final = ((80, 443), ("http", "https"))


async def stay(response: httpx2.Response) -> None:
    """Keep the HTTP client from following a redirect to another server, or one that would lose the request's body.

    Prompts belong to the endpoint of the config, and the client does not send the key on, so that the other server
    would refuse it. A file of results may be stored elsewhere. This is a hook of the HTTP client.
    """
    if not response.has_redirect_location:
        return
    request = response.request
    try:
        there = request.url.join(response.headers["Location"])
    except httpx2.InvalidURL:
        return  # the client raises it too
    ports, schemes = zip(*((_port(each), each.scheme) for each in (request.url, there)), strict=True)
    is_same = there.host == request.url.host and (ports[0] == ports[1] or (ports, schemes) == _UPGRADE)
    loses_body = request.method == "POST" and response.status_code in (301, 302, 303)
    is_file = request.method == "GET" and "/files/" in request.url.path
    if not is_file and (loses_body or not is_same):
        del response.headers["Location"]
        response.headers[REFUSED_REDIRECT] = f"{there.scheme}://{there.netloc.decode()}{there.path}"


def _port(url: httpx2.URL) -> int:
    return url.port or {"http": 80, "https": 443}.get(url.scheme, 0)


class _Beginning(httpx2.AsyncByteStream):
    """A stream of the first ``LONGEST_ERROR`` bytes of another stream."""

    def __init__(self, whole: httpx2.AsyncByteStream) -> None:
        self._whole = whole

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = LONGEST_ERROR
        async for chunk in self._whole:
            yield chunk[:left]
            left -= len(chunk)
            if left <= 0:
                return

    async def aclose(self) -> None:
        await self._whole.aclose()
