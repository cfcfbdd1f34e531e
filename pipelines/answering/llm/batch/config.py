"""The ``llm.batch`` section: how requests are gathered into batches, and when the rest is asked in real time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from okralong.pipelines.answering.llm.batch.deadline import read_deadline
from okralong.pipelines.core.config import Settings
from okralong.pipelines.core.types import ConfigError


def _readable(deadline: str) -> str:
    read_deadline(deadline, datetime.now(UTC))
    return deadline


class BatchConfig(Settings):
    """Batch mode. Times in seconds; every default is ours unless it says otherwise.

    ``deadline`` is when the rest is asked in real time: a time of day here ("06:00"), a moment ("2026-11-23T06:00"), or
    a time from now ("8h", "1h30m"); None waits as long as batches take. ``concurrency`` is questions in flight, all of
    which may wait for one batch. A wave is closed when no request has come for ``quiet_s``, or the first has waited
    ``gather_s``; or earlier, when it is as large as a batch may be: ``max_requests`` and ``max_megabytes`` (OpenAI's
    limits are 50,000 and 200, https://platform.openai.com/docs/guides/batch). ``enqueued_tokens`` is the account's
    limit of prompt tokens in all unfinished batches; None learns it when it is met. A batch is looked at after
    ``poll_s``, then ever less often, down to once in ``longest_poll_s``. A request that ``max_failures`` batches have
    not answered is asked in real time.
    """

    deadline: Annotated[str, AfterValidator(_readable)] | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 1000
    quiet_s: Annotated[float, Field(gt=0, le=3600)] = 20.0
    gather_s: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    max_requests: Annotated[int, Field(ge=1, le=50_000)] = 50_000
    max_megabytes: Annotated[float, Field(gt=0, le=200)] = 190.0
    enqueued_tokens: Annotated[int, Field(ge=1)] | None = None
    poll_s: Annotated[float, Field(gt=0, le=3600)] = 5.0
    longest_poll_s: Annotated[float, Field(gt=0, le=3600)] = 60.0
    max_failures: Annotated[int, Field(ge=1, le=20)] = 3

    @model_validator(mode="after")
    def _pauses_that_grow(self) -> Self:
        if self.longest_poll_s < self.poll_s or self.gather_s < self.quiet_s:
            raise ConfigError(
                "llm.batch.longest_poll_s must not be below poll_s, nor gather_s below quiet_s: each bounds the other "
                f"from above, and they are {self.longest_poll_s}, {self.poll_s}, {self.gather_s} and {self.quiet_s}."
            )
        return self
