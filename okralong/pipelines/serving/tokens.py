"""Tokens of a service: a file with their names and hashes, and the limits of each."""

from __future__ import annotations

import hashlib
import hmac
import logging
import math
import os
import re
import secrets
import textwrap
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import yaml
from pydantic import Field

from okralong.pipelines.core.config import Settings, parse_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.run.config import ServeConfig

logger = logging.getLogger(__name__)

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Names of tokens. They are part of query_ids, so they have no dot."""
PREFIX: Final = "okra_"
"""Begins every token, so that a search for secrets finds them."""
TOKEN_BYTES: Final = 32
LOCAL: Final = "local"
"""The name of every caller of a service without tokens."""
MINUTE_S: Final = 60.0


class TokenRule(Settings):
    """A token.

    - ``sha256``: the hash of the token.
    - ``daily_usd``: its budget of each UTC day.
    - ``requests_per_minute``: requests accepted in a minute.
    - ``sees_all``: whether ``/cost`` shows the spending of every token, and not only its own.
    """

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    daily_usd: Annotated[float, Field(gt=0)]
    requests_per_minute: Annotated[int, Field(ge=1)] = 60
    sees_all: bool = False


class TokenFile(Settings):
    """The file of ``okralong serve --tokens``.

    - ``tokens``: the tokens by name.
    """

    tokens: dict[str, TokenRule]


@dataclass(frozen=True, slots=True)
class Caller:
    """The sender of a request, and its limits."""

    name: str
    daily_usd: float | None
    requests_per_minute: int
    sees_all: bool


class Tokens:
    """The tokens of a file. A changed file is read again at the next request, so removing a token revokes it."""

    def __init__(self, path: Path | None, config: ServeConfig) -> None:
        """Read the file; None lets every request in as ``LOCAL``. Raises ConfigError for an unusable file."""
        self._path, self._stamp = path, (0, 0)
        self._local = Caller(LOCAL, config.daily_usd, config.requests_per_minute, True)
        self._by_hash: dict[str, Caller] = {}
        if path is not None:
            self._read(path)

    @property
    def caps_usd(self) -> dict[str, float | None]:
        """The daily budgets by name."""
        callers = [self._local] if self._path is None else self._by_hash.values()
        return {caller.name: caller.daily_usd for caller in callers}

    def caller(self, authorization: str) -> Caller | None:
        """Return the sender of a request with this ``Authorization`` header, or None if its token is unknown."""
        if self._path is None:
            return self._local
        self._read_again(self._path)
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        given = _digest(token.strip())
        found: Caller | None = None
        for known, caller in self._by_hash.items():  # every token is compared, so that the time tells nothing
            if hmac.compare_digest(known, given):
                found = caller
        return found

    def _read_again(self, path: Path) -> None:
        """Read the file if it changed. Without a file no token is known; an invalid one leaves them as they were."""
        try:
            stamp = path.stat()
            if (stamp.st_mtime_ns, stamp.st_size) != self._stamp:
                self._read(path)
        except FileNotFoundError:
            self._by_hash, self._stamp = {}, (0, 0)  # the same file may come back
        except (ConfigError, OSError, UnicodeDecodeError) as error:
            logger.warning("The changed file of tokens cannot be used, and the tokens stay as they are: %s", error)

    def _read(self, path: Path) -> None:
        stamp = path.stat() if path.is_file() else None
        if stamp is None:
            raise ConfigError(f"The file of tokens {path} does not exist. Make a token: okralong new-token NAME {path}")
        held = parse_config(TokenFile, path.read_text(encoding="utf-8"), str(path)).tokens
        if wrong := [name for name in held if not NAME.fullmatch(name)]:
            raise ConfigError(f"{path}: the name {wrong[0]!r} may have letters, digits, - and _ only, at most 40.")
        self._by_hash = {
            rule.sha256: Caller(name, rule.daily_usd, rule.requests_per_minute, rule.sees_all)
            for name, rule in held.items()
        }
        self._stamp = (stamp.st_mtime_ns, stamp.st_size)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def add_token(path: Path, name: str, daily_usd: float, requests_per_minute: int) -> str:
    """Add a new token's hash to the file, readable by its owner only, and return the token.

    Raises ConfigError if the name is taken or cannot be used.
    """
    if not NAME.fullmatch(name):
        raise ConfigError(f"The name {name!r} of a token may have letters, digits, - and _ only, at most 40.")
    before = path.read_text(encoding="utf-8") if path.is_file() else "tokens:\n"
    if path.is_file() and name in parse_config(TokenFile, before, str(path)).tokens:
        raise ConfigError(f"{path} has a token named {name} already. Choose another name, or remove that one first.")
    token = PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    rule = TokenRule(sha256=_digest(token), daily_usd=daily_usd, requests_per_minute=requests_per_minute)
    written = textwrap.indent(yaml.safe_dump({name: rule.model_dump(exclude={"sees_all"})}, sort_keys=False), "  ")
    text = f"{before.rstrip()}\n{written}"
    parse_config(TokenFile, text, str(path))  # whatever the file had behind its tokens
    fresh = path.with_name(f".{path.name}.new")
    fresh.unlink(missing_ok=True)  # a killed process may have left one, which others could read
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)
    return token


class RequestRates:
    """Counts the requests of each caller in the last minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, deque[float]] = {}

    def wait_s(self, caller: Caller) -> int:
        """Count a request and return 0, or return the seconds until the caller may send another one."""
        now, seen = self._clock(), self._seen.setdefault(caller.name, deque())
        while seen and seen[0] <= now - MINUTE_S:
            seen.popleft()
        if len(seen) < caller.requests_per_minute:
            seen.append(now)
            return 0
        return max(1, math.ceil(seen[0] + MINUTE_S - now))
