"""The config of ``okralong serve``: an answer config with a section ``serve``."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from okralong.pipelines.core.config import Settings
from okralong.pipelines.run.config import RunConfig


class ServeConfig(Settings):
    """The section ``serve`` of a service's config.

    - ``daily_usd``: budget of each UTC day without tokens (null: only ``budget_usd``); with tokens, each has its own.
    - ``requests_per_minute``: requests accepted in a minute without tokens.
    - ``most_question_chars``: the longest question.
    - ``most_body_bytes``: the largest request.
    - ``timeout_s``: longest wait for an answer; the calls in flight then still end and are kept.
    - ``allowed_hosts``: names in the ``Host`` header under which the service may be reached, without port. A service on
      a loopback address is always reached as ``localhost``, ``127.0.0.1`` and ``[::1]``; elsewhere an empty list
      allows every name.
    - ``allowed_origins``: pages of other origins ("https://intranet.example") that browsers may let ask the service.
    - ``audit_questions``: what the audit log keeps of a question: its SHA-256 hash, its text, or none of it.
    - ``links``: whether citations say where the documents are stored.
    - ``version_poll_s``: interval of the checks for a newer version of the archive.
    - ``grace_s``: time that a service which stops has for the calls in flight.
    """

    daily_usd: Annotated[float, Field(gt=0)] | None = None
    requests_per_minute: Annotated[int, Field(ge=1)] = 60
    most_question_chars: Annotated[int, Field(ge=1, le=100_000)] = 4_000
    most_body_bytes: Annotated[int, Field(ge=1_024)] = 262_144
    timeout_s: Annotated[float, Field(gt=0)] = 300.0
    allowed_hosts: list[str] = Field(default_factory=list)
    allowed_origins: list[str] = Field(default_factory=list)
    audit_questions: Literal["hash", "text", "none"] = "hash"
    links: bool = True
    version_poll_s: Annotated[float, Field(gt=0)] = 60.0
    grace_s: Annotated[float, Field(ge=0)] = 20.0


class ServedConfig(RunConfig):
    """The config of ``okralong serve``: the keys of an answer config, where ``budget_usd`` is the cap of each UTC day.

    - ``serve``: limits of the service.
    """

    serve: ServeConfig = ServeConfig()

    @property
    def run_config(self) -> RunConfig:
        """The config of the runs that the service writes."""
        return RunConfig.model_construct(**{name: getattr(self, name) for name in RunConfig.model_fields})
