"""A batch and its life: validating, in_progress, finalizing, completed; or failed, expired, cancelling, cancelled."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from okralong.pipelines.core.types import Usage

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]


@dataclass
class Batch:
    """``ends`` is when it expires, on the endpoint's own clock; the API's stamps are seconds since the epoch.

    ``cancelled`` is set once somebody has asked for it. ``failed`` counts requests that were tried in vain. Those which
    an expiry or a cancellation left undone are in neither count, though they have a line in the error file; whether
    OpenAI counts them is not documented.
    """

    id: str
    url: str
    input_file_id: str
    metadata: Mapping[str, str] | None
    ends: float
    created_at: int
    expires_at: int
    status: Status = "validating"
    stamps: dict[str, int] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    model: str | None = None
    enqueued_tokens: int = 0
    total: int = 0
    completed: int = 0
    failed: int = 0
    usage: Usage = field(default_factory=Usage)
    output_file_id: str | None = None
    error_file_id: str | None = None
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)

    def move(self, status: Status) -> None:
        """Enter another state, and stamp when."""
        self.status = status
        self.stamps[f"{status}_at"] = int(time.time())

    def public(self) -> dict[str, Any]:
        """The Batch object as the API shows it."""
        stamped = ("in_progress", "finalizing", "completed", "failed", "expired", "cancelling", "cancelled")
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.url,
            "model": self.model,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file_id,
            "completion_window": "24h",
            "status": self.status,
            "output_file_id": self.output_file_id,
            "error_file_id": self.error_file_id,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            **{f"{status}_at": self.stamps.get(f"{status}_at") for status in stamped},
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            "usage": {
                "input_tokens": self.usage.prompt_tokens,
                "input_tokens_details": {"cached_tokens": self.usage.cached_tokens},
                "output_tokens": self.usage.completion_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": self.usage.prompt_tokens + self.usage.completion_tokens,
            },
            "metadata": None if self.metadata is None else dict(self.metadata),
        }
