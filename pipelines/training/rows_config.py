"""What ``configs/training/rows.yaml`` may say: of which sets the analyzer's training rows are made."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from okralong.pipelines.core.config import Settings
from okralong.pipelines.evaluation.evidence.config import SetChoice
from okralong.pipelines.evaluation.split.manifest import MANIFEST
from okralong.pipelines.evaluation.split.rules import SplitRules
from okralong.pipelines.samples.sample import MINIMUM_WORDS

Limit = Annotated[int, Field(ge=1)]


class QuestionsOnly(Settings):
    """A set that gives no documents, or whose documents are left aside: only the type is learned. ``limit`` a side."""

    name: str
    part: str
    limit: Limit | None = None


class SampleRows(Settings):
    """Rows from the sample archive, for types of which the sets hold few; for train and validation alone."""

    reports: Annotated[int, Field(ge=2)]
    questions: Limit
    words: Annotated[int, Field(ge=MINIMUM_WORDS)]
    seed: int = 1000


class RowsConfig(Settings):
    """All rows of all sides.

    ``policy`` is the one whose primary retrieval finds the passages. ``per_type`` caps the rows of a type on the train
    side, dealt over its sources in turn, so that neither a type nor a set drowns the others. ``limit`` of a set counts
    for each side. With ``every`` questions of which neither evidence nor answer is known have a row, too: they teach
    the type. ``split`` is a manifest as `okralong split` writes it, or the rules by which the ``sets`` are split here.
    Of ``unlabelled`` sets questions of the train side are set aside without their labels.
    """

    seed: int = 7
    policy: str = "policy/default.yaml"
    sets: list[SetChoice] = Field(min_length=1)
    questions_only: list[QuestionsOnly] = Field(default_factory=list)
    unlabelled: list[QuestionsOnly] = Field(default_factory=list)
    sample: SampleRows | None = None
    per_type: Limit
    every: bool = False
    catalog: str = "datasets.yaml"
    split: str | SplitRules = MANIFEST
