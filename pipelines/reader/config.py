"""What ``configs/training/reading.yaml`` may say: of which sets the reader's rows are made, and how."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from okralong.pipelines.core.config import Settings
from okralong.pipelines.evaluation.evidence.config import SetChoice
from okralong.pipelines.evaluation.split.manifest import MANIFEST
from okralong.pipelines.training.rows_config import SampleRows

Tokens = Annotated[int, Field(ge=100, le=100_000)]
Share = Annotated[float, Field(ge=0, le=1)]


class ReadingConfig(Settings):
    """All rows of all sides.

    ``policy`` is the one by which contexts are made; each question draws one of the ``context_tokens`` as the most of
    its context, which decides what training costs; a prompt of more than ``most_prompt_tokens`` is left out (both
    o200k). On the train side a context is asked at most ``company`` further questions that it answers. ``held_back``
    is the share of answerable questions that are shown a second time without their evidence; unanswerable rows, these
    and those whose evidence was not found, are at most ``unanswerable`` of a side's answer rows. ``expressions`` is the
    share of contexts whose prompts ask for a calculation's expression (the others ask for the result). A longer answer
    than ``most_answer_words`` is cut at a sentence, or its question left out. ``per_type`` caps the answer rows of a
    type on the train side, ``per_role`` the rows of splits and of steps, ``per_source`` (None: no cap) those of one of
    the ``sets``, in whole contexts. ``limit`` of a set counts for each side.
    """

    seed: int = 7
    policy: str = "policy/default.yaml"
    sets: list[SetChoice] = Field(min_length=1)
    sample: SampleRows | None = None
    context_tokens: list[Tokens] = Field(min_length=1)
    most_prompt_tokens: Tokens
    company: Annotated[int, Field(ge=0, le=64)] = 0
    held_back: Share
    unanswerable: Share
    expressions: Share
    most_answer_words: Annotated[int, Field(ge=5)]
    per_type: Annotated[int, Field(ge=1)]
    per_role: Annotated[int, Field(ge=0)]
    per_source: Annotated[int, Field(ge=1)] | None = None
    catalog: str = "datasets.yaml"
    split: str = MANIFEST
