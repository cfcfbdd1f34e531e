"""The network's way to an endpoint: proxy and trusted certificates, as the environment names them, and error pages.

``HTTPS_PROXY``, ``HTTP_PROXY``, ``ALL_PROXY`` and ``NO_PROXY`` are read by the HTTP client itself, and so are
``SSL_CERT_FILE`` and ``SSL_CERT_DIR``. ``REQUESTS_CA_BUNDLE``, with which other Python programs of an organisation are
set up, is taken where neither is set.
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
"""Where certificates of authorities are looked for, the first that is set; without any, the system's are trusted."""


def certificates() -> tuple[str, str] | None:
    """The variable that names the certificates of trusted authorities, and their place; None: the system's.

    Raises ConfigError when there is nothing at that place.
    """
    for name in CA_VARIABLES:
        place = os.environ.get(name, "")
        if place and not Path(place).exists():
            raise ConfigError(
                f"{name} names {place} as the certificates that are to be trusted, and there is no such file. Correct "
                "the variable on every node, or unset it to trust the system's certificates."
            )
        if place:
            return name, place
    return None


def trust() -> ssl.SSLContext | None:
    """What a connection trusts; None where the client finds it by itself. Raises ConfigError where that is no file."""
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
    """The proxy on the way to ``url`` without its user and password, "" for none."""
    there = urlsplit(url)
    found = getproxies()
    if not there.hostname or proxy_bypass(there.hostname):
        return ""
    address = found.get(there.scheme) or found.get("all") or ""
    return address and _public(address)


def check_proxy(url: str) -> None:
    """Raises ConfigError where the environment's proxy on the way to ``url`` is none of HTTP, as a SOCKS proxy."""
    through = proxy(url)
    if through and urlsplit(through).scheme not in ("http", "https"):
        raise ConfigError(
            f"The way to {url} leads through the proxy {through}, and only HTTP proxies are supported. Set HTTPS_PROXY "
            "or HTTP_PROXY to one (http://HOST:PORT), or name the host in NO_PROXY if it is reached directly. Nothing "
            "was sent."
        )


def _public(address: str) -> str:
    parts = urlsplit(address if "://" in address else f"http://{address}")
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"


def described(url: str) -> str:
    """The way to ``url`` in words: proxy and certificates."""
    through = proxy(url)
    found = certificates()
    return ", ".join(
        (
            f"through the proxy {through}" if through else "without a proxy",
            f"certificates of {found[1]} ({found[0]})" if found else "the system's certificates",
        )
    )


def trouble(error: BaseException, url: str) -> str:
    """A paragraph on a connection that failed for its certificate or its proxy, "" for another reason."""
    causes = list(_causes(error))
    for cause in reversed(causes):  # the innermost has the words of OpenSSL
        if isinstance(cause, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(cause):
            return (
                f"{url} shows a certificate that is not trusted here ({_reason(cause)}; {described(url)}). If your "
                "network looks into TLS or the endpoint is your own, set SSL_CERT_FILE on every node to a PEM file "
                "with your organisation's authority, and with the public ones where other endpoints are asked as well. "
                "No setting of okralong switches the check off."
            )
    through = proxy(url)
    refused = next((cause for cause in causes if isinstance(cause, aiohttp.ClientHttpProxyError)), None)
    if refused is not None:
        return (
            f"{url} cannot be reached through the proxy {through} ({refused.status} {refused.message}). Check the "
            "variables HTTPS_PROXY and HTTP_PROXY, user and password in them included; hosts that are reached directly "
            "belong into NO_PROXY."
        )
    if through:
        return (
            f"{url} cannot be reached; the way leads through the proxy {through} ({causes[-1]}). Check that the proxy "
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
    """What OpenSSL said, without the names of its functions."""
    return getattr(error, "verify_message", "") or _FRAME.sub("", str(error))


LONGEST_ERROR: Final = 256 * 1024
"""Bytes of an error's body that are read. # project default"""


async def bound_error_page(response: httpx2.Response) -> None:
    """Cut the body of an error, which the SDK reads whole however long it is; a hook of the HTTP client."""
    if response.status_code >= 400 and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Beginning(response.stream)


class _Beginning(httpx2.AsyncByteStream):
    """The first ``LONGEST_ERROR`` bytes of a stream."""

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
