"""Strategies by name: the built-in ones, and those that other packages offer.

A strategy is a module (or any object) with ``answer(question, tools)`` and ``granularities(policy)``, the chunk sizes
that the archive must hold. A package offers one by an entry point in the group ``okralong.strategies``::

    [project.entry-points."okralong.strategies"]
    my_method = "my_package.my_method"
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Protocol, cast

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Strategy
from okralong.pipelines.errors import ConfigError

GROUP = "okralong.strategies"
BUILT_IN = ("okralong", "okralong_precise", "std_rag", "long_context")


class StrategyModule(Protocol):
    """What a name stands for."""

    @property
    def answer(self) -> Strategy:
        """The method."""
        ...

    @property
    def granularities(self) -> Callable[[Policy], list[int]]:
        """The chunk sizes, in tokens, that it retrieves at under a policy."""
        ...


def names() -> list[str]:
    """All known names, the built-in ones first. A built-in name cannot be taken by another package."""
    return [*BUILT_IN, *sorted(set(_offered()) - set(BUILT_IN))]


def load_strategy(name: str) -> Strategy:
    """The strategy of that name. Raises ConfigError when it is unknown or cannot be loaded."""
    return _load(name).answer


def granularities_needed(name: str, policy: Policy) -> list[int]:
    """Chunk sizes, in tokens, that an archive must hold for this strategy. Raises ConfigError as load_strategy does."""
    return sorted(_load(name).granularities(policy))


def _load(name: str) -> StrategyModule:
    if name in BUILT_IN:
        return cast(StrategyModule, import_module(f"{__package__}.{name}"))
    offered = _offered()
    if name not in offered:
        raise ConfigError(
            f"There is no strategy {name!r}. Known are: {', '.join(names())}. Give one of these, or install the "
            f"package that offers {name!r}."
        )
    entry = offered[name]
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"The strategy {name!r} ({entry.value}) cannot be loaded: {error}. Install its package again, or mend its "
            f"entry point in the group {GROUP}."
        ) from error
    missing = [attribute for attribute in ("answer", "granularities") if not callable(getattr(loaded, attribute, None))]
    if missing:
        raise ConfigError(
            f"The strategy {name!r} ({entry.value}) has no function {' and no function '.join(missing)}. An entry "
            f"point of the group {GROUP} names a module with answer(question, tools) and granularities(policy)."
        )
    return cast(StrategyModule, loaded)


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
