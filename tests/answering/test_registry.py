"""Strategies by name: the built-in ones, those of other packages, and what a wrong name gets."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.methods import long_context, registry
from okralong.pipelines.methods.registry import describe, load_strategy, names
from tests.fakes.tools import paper_policy


def offer(monkeypatch: pytest.MonkeyPatch, **entries: str) -> None:
    points = [EntryPoint(name, value, registry.GROUP) for name, value in entries.items()]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        ("okralong", [150, 256, 400]),
        ("okralong_precise", [150, 256, 400, 512]),
        ("std_rag", [512]),
        ("long_context", [512]),
    ],
)
def test_built_in_strategies_say_what_they_need(name: str, needed: list[int]) -> None:
    assert name in names()
    assert list(describe(name, paper_policy()).granularities) == needed
    assert callable(load_strategy(name))


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"'okra'.*okralong, okralong_precise, std_rag, long_context"):
        load_strategy("okra")


def test_another_package_offers_a_strategy_but_takes_no_built_in_name(monkeypatch: pytest.MonkeyPatch) -> None:
    value = "okralong.pipelines.methods.long_context"
    offer(monkeypatch, mine=value, okralong=value)
    assert names() == [*registry.BUILT_IN, "mine"]
    assert load_strategy("mine") is long_context.answer
    assert load_strategy("okralong") is not long_context.answer
    assert describe("mine", paper_policy()).granularities == (512,)


def test_a_broken_offer_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, gone="no_such_package_here", odd="json")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_strategy("gone")
    with pytest.raises(ConfigError, match="no function answer and no function granularities"):
        load_strategy("odd")
