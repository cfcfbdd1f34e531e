"""One sample of the default shape for all tests here, and a short one with every question that it can bear."""

from __future__ import annotations

import pytest

from okralong.pipelines.samples.questions import Sample, generate


@pytest.fixture(scope="session")
def short() -> Sample:
    return generate(reports=8, questions=1_000, seed=11, words=1_500)


@pytest.fixture(scope="session")
def default() -> Sample:
    return generate()
