"""What can be told of a question without a model: near 1, defined for anything, and moved by what it should be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from okralong.pipelines.answering.analyzers.analysis import AnalysisInput
from okralong.pipelines.answering.analyzers.features import COUNT, features
from okralong.pipelines.core.types import RetrieverScores

SCORES = st.lists(st.floats(0, 60, width=32), max_size=20).map(lambda found: tuple(sorted(found, reverse=True)))
COSINES = st.lists(st.floats(-1, 1, width=32), max_size=20).map(lambda found: tuple(sorted(found, reverse=True)))


RANKS = st.lists(st.integers(-1, 19), max_size=20).map(tuple)


@given(st.text(max_size=200), st.lists(st.text(max_size=300), max_size=4), SCORES, COSINES, RANKS)
def test_any_input_has_finite_numbers_of_a_like_size(
    question: str, passages: list[str], exact: tuple[float, ...], semantic: tuple[float, ...], ranks: tuple[int, ...]
) -> None:
    found = features(AnalysisInput(question, tuple(passages), RetrieverScores(exact, semantic, ranks)))
    assert found.shape == (COUNT,)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    assert np.abs(found).max() <= 8


def test_passages_that_hold_the_words_of_the_question_are_seen() -> None:
    question = "Who has led Alder Orchards since 2014?"
    near = features(AnalysisInput(question, ("Mara Calder has led Alder Orchards since 2014.",)))
    far = features(AnalysisInput(question, ("Two boats cross the sound.",)))
    assert (near != far).any()
    assert (near >= far).all()


def test_scores_and_wording_change_the_numbers() -> None:
    plain = AnalysisInput("Who sold it?", ())
    scored = AnalysisInput("Who sold it?", (), RetrieverScores((9.0, 3.0), (0.8, 0.4)))
    other = AnalysisInput("By what percentage did sales rise?", ())
    agreeing, apart = (AnalysisInput("Who sold it?", (), RetrieverScores((), (), ranks)) for ranks in ((1, 0), (-1, 7)))
    assert (features(plain) != features(scored)).any()
    assert features(agreeing).sum() > features(apart).sum() > features(plain).sum()
    assert (features(plain) != features(other)).any()
