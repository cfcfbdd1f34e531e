"""Keep secrets out of a submitted job, whose command, environment and metadata Ray shows to everyone with access to it.

Only listed environment variables may be sent. Everything sent is searched for the values of this machine's secret
variables and for strings that look like keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from okralong.pipelines.core.filesystems import holds_credentials
from okralong.pipelines.core.types import ConfigError

ALLOWED: Final = re.compile(  # project default
    r"AWS_(DEFAULT_)?REGION|AWS_ENDPOINT_URL(_S3)?|GOOGLE_CLOUD_PROJECT|OMP_NUM_THREADS|MKL_NUM_THREADS"
    r"|TOKENIZERS_PARALLELISM|HF_HUB_OFFLINE|HF_HUB_CACHE|CUDA_VISIBLE_DEVICES|PYTHONUNBUFFERED|TZ"
)
"""Variables that a job may carry: they hold places and numbers."""

SECRET_NAME: Final = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
PLACE_NAME: Final = re.compile(r"_(PATH|FILE|DIR|ENV|MODE|URL)$", re.IGNORECASE)
"""Endings of names of variables that say where a secret is, not what it is."""
LEAST_SECRET: Final = 8  # project default
"""Minimum length of a secret in characters; shorter values are placeholders (``none``, ``EMPTY``)."""

KEY_SHAPES: Final = re.compile(
    r"\bsk-[A-Za-z0-9_-]{12,}|\b(AKIA|ASIA)[0-9A-Z]{12,}|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}"
    r"|\bhf_[A-Za-z0-9]{16,}|\bAIza[0-9A-Za-z_-]{30,}|\bxox[abprs]-[\w-]{10,}|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}|\bBearer\s+\S{8,}"
)
"""Keys of OpenAI, Anthropic, AWS, GitHub, Hugging Face, Google and Slack, PEM files, JSON web tokens."""
_URI: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"']+", re.IGNORECASE)

WHERE_KEYS_BELONG: Final = (
    "Ray shows it to everyone with access to the job. Put keys into the environment of the nodes or into a secret "
    "mounted there (docs/cluster.md); the config names only the variable, as llm.api_key_env does. Nothing was sent."
)


def check_variable(name: str) -> None:
    """Raise ConfigError, which does not print the value as pydantic would, if a job may not carry this variable."""
    if not ALLOWED.fullmatch(name):
        raise ConfigError(
            f"environment.{name} cannot be sent with a job. Allowed variables: {_readable(ALLOWED)}. "
            f"{WHERE_KEYS_BELONG}"
        )


def refuse_secrets(sent: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    """Search all values and keys in ``sent``, a mapping by user-visible names, for secrets of ``environment``.

    Raises:
        ConfigError: A secret was found. The message names the place and the variable, if known, but not the value.
    """
    known = {
        value: name
        for name, value in environment.items()
        if SECRET_NAME.search(name) and not PLACE_NAME.search(name) and len(value.strip()) >= LEAST_SECRET
    }
    for where, text in _texts(sent, ""):
        for value, name in known.items():
            if value.strip() in text:
                raise ConfigError(f"{where} holds the value of {name}. {WHERE_KEYS_BELONG}")
        if KEY_SHAPES.search(text):
            raise ConfigError(f"{where} holds what looks like a key. {WHERE_KEYS_BELONG}")
        if any(holds_credentials(uri) for uri in _URI.findall(text)):
            raise ConfigError(f"{where} holds a URI with credentials. {WHERE_KEYS_BELONG}")


def _texts(value: Any, where: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            path = f"{where}.{key}" if where else str(key)
            yield where or "the submission", str(key)
            yield from _texts(below, path)
    elif isinstance(value, (list, tuple)):
        for number, below in enumerate(value):
            yield from _texts(below, f"{where}[{number}]")
    elif value is not None:
        yield where, str(value)


def _readable(pattern: re.Pattern[str]) -> str:
    return pattern.pattern.replace("(DEFAULT_)?", "[DEFAULT_]").replace("(_S3)?", "[_S3]").replace("|", ", ")
