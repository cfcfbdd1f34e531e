"""The scripted faults: what there are, which of them are billed, and when one happens."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from okralong.pipelines.core.config import Settings

Where = Literal["chat", "batch_item", "files", "batches"]

FaultKind = Literal[
    "server_error", "bad_gateway", "unavailable", "rate_limited", "insufficient_quota", "revoked_key",
    "context_length", "reset", "hang", "truncated_body", "malformed_json",
    "empty_content", "refusal", "length", "content_filter",
]  # fmt: skip

STATUS_KINDS = frozenset(
    {"server_error", "bad_gateway", "unavailable", "rate_limited", "insufficient_quota", "revoked_key"}
)
"""Answered by an error status instead of a reply."""
LOST_KINDS = frozenset({"reset", "hang", "truncated_body", "malformed_json"})
"""The reply does not arrive, or not whole."""
REPLY_KINDS = frozenset({"empty_content", "refusal", "length", "content_filter"})
"""A good response with a reply of little use."""
BILLED_KINDS = REPLY_KINDS | LOST_KINDS | {"bad_gateway"}
"""Charged unless the rule says otherwise: the model has worked. Behind a 502 it may have, and the worse is assumed."""


class FaultRule(Settings):
    """One thing that goes wrong, and when; with no condition, always. All conditions that are given must hold.

    ``share``: of the requests, drawn from the seed, the request and how often it has come, so that order does not
    matter. ``at``: only for the n-th requests at ``where``, from 1. ``attempts``: only when this very request comes
    for the n-th time. ``contains``: only when the last message (for files and batches: method and path) holds this.
    ``times``: only so often. ``billed``: whether the work is done and charged all the same; None is what the kind
    deserves. ``retry_after_s`` is named by an error status. ``hang_s``: how long a hang holds the connection. A
    ``revoked_key`` stays revoked.
    """

    kind: FaultKind
    where: Where = "chat"
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    at: list[int] = Field(default_factory=list)
    attempts: list[int] = Field(default_factory=list)
    contains: str = ""
    times: Annotated[int, Field(ge=1)] | None = None
    billed: bool | None = None
    retry_after_s: Annotated[float, Field(ge=0)] | None = None
    hang_s: Annotated[float, Field(ge=0)] = 3600.0

    @model_validator(mode="after")
    def _can_happen(self) -> Self:
        allowed: frozenset[str] = STATUS_KINDS | LOST_KINDS
        if self.where == "chat":
            allowed = allowed | REPLY_KINDS | {"context_length"}
        elif self.where == "batch_item":
            allowed = (STATUS_KINDS - {"revoked_key"}) | REPLY_KINDS | {"context_length"}
        if self.kind not in allowed:
            raise ValueError(f"{self.kind} cannot happen at {self.where}; there, choose of {sorted(allowed)}")
        if self.billed is False and self.kind in REPLY_KINDS | {"truncated_body", "malformed_json"}:
            raise ValueError(f"{self.kind} sends a reply, for which the model has worked, so it is always billed")
        return self

    @property
    def is_billed(self) -> bool:
        """Whether the work is done and charged although something goes wrong."""
        return self.kind in BILLED_KINDS if self.billed is None else self.billed
