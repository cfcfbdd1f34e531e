"""Strategies by name: the built-in ones, those of other packages, and what a wrong name gets."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from okralong.pipelines.answering.policy import MethodSection
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.methods import long_context, registry
from okralong.pipelines.methods.needs import Needs
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
    assert list(describe(name, paper_policy()).needs.granularities) == needed
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
    assert describe("mine", paper_policy()).needs.granularities == (512,)


class Mine(MethodSection):
    KEY = "mine"
    count: int = 6


def test_a_section_of_another_package_stands_under_plugins() -> None:
    assert paper_policy().section(Mine).count == 6
    policy = paper_policy(plugins={"mine": {"count": 9}})
    assert policy.section(Mine).count == 9
    assert policy.model_dump()["plugins"] == {"mine": {"count": 9}}
    assert "plugins" not in paper_policy().model_dump()
    with pytest.raises(ConfigError, match=r"plugins\.mine of the policy cannot be used: .*cuont"):
        paper_policy(plugins={"mine": {"cuont": 9}}).section(Mine)


def test_every_section_stands_under_its_strategys_name_and_has_defaults() -> None:
    for name in registry.BUILT_IN:
        section = getattr(paper_policy(), name, None)
        if isinstance(section, MethodSection):
            assert name == type(section).KEY
            assert type(section)() is not None


OLDER = """
NEEDS_SCORER = True
NEEDS_LOGPROBS = True
UNFORESEEN = "a reply decides"


def granularities(policy):
    return [256, 150]


def needs_vectors(policy):
    return policy.name == "paper"


async def answer(question, tools):
    raise NotImplementedError
"""


def test_a_module_of_the_older_form_says_what_it_needs_by_attributes(tmp_path: Path) -> None:
    file = tmp_path / "older.py"
    file.write_text(OLDER)
    needs = describe(str(file), paper_policy()).needs
    assert needs == Needs(
        granularities=(150, 256), scorer=True, logprobs=True, vectors=True, unforeseen="a reply decides"
    )
    assert callable(load_strategy(str(file)))


def test_a_broken_offer_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    offer(monkeypatch, gone="no_such_package_here", odd="json")
    with pytest.raises(ConfigError, match="cannot be loaded"):
        load_strategy("gone")
    with pytest.raises(ConfigError, match="no function answer and no function needs"):
        load_strategy("odd")
