"""A made-up archive with a cheap but real encoder, so that a test can look at it and answer over it in seconds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.estimate.here import Desk
from okralong.pipelines.answering.analyzers.rules import KeywordRules
from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.types import Reading
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.indexing.documents import RawDocument
from okralong.pipelines.indexing.job import Encoder, index_here
from okralong.pipelines.llm.config import LlmConfig
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.methods.registry import FullPolicy
from okralong.pipelines.models.weights import ResolvedModel
from okralong.pipelines.run.prepare import Scoped
from okralong.pipelines.samples.questions import generate
from tests.fakes.openai_server import FakeOpenAI
from tests.fakes.tools import letter_vector

MODEL = "gpt-4o-2024-08-06"
PRICE = PriceTable.load().price(MODEL)


def letters(texts: list[str]) -> npt.NDArray[np.float32]:
    """How often each letter stands in a text: it knows little, and costs nothing."""
    return np.array([letter_vector(text) for text in texts], dtype=np.float32)


LETTERS = Encoder(
    letters, ResolvedModel("letters", "letters", None), lambda: "float32", lambda texts: [False] * len(texts)
)


async def shared_words(query: str, passages: list[str]) -> list[Reading]:
    """A passage is as relevant as it has words of the query."""
    wanted = set(query.lower().split())
    return [Reading(float(len(wanted & set(passage.lower().split())))) for passage in passages]


@dataclass(frozen=True)
class Made:
    """A made-up archive and its questions."""

    archive: Archive
    asked: list[Scoped]
    policy: Policy

    def desk(self, server: FakeOpenAI, window: int = 128_000) -> Desk:
        """A place to look and to answer, with GPT-4o played by ``server``."""
        llm = LlmConfig(base_url=server.base_url, model=MODEL, window=window)
        return Desk(self.archive, letters, KeywordRules(), self.policy, llm, shared_words)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Three short reports and 24 questions of all types, at the default policy's chunk sizes."""
    sample = generate(reports=3, questions=24, seed=3, words=1_500)
    policy = load_config(FullPolicy, "policy/default.yaml")
    raw = [RawDocument(document.doc_id, document.text, "sample") for document in sample.documents]
    folder = tmp_path_factory.mktemp("made")
    archive = index_here(str(folder), raw, IndexConfig(granularities=policy.granularities()), LETTERS)
    return Made(archive, [Scoped(each, archive.resolve(each.doc_ids)) for each in sample.questions], policy)
