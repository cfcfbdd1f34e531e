"""Strategies by name: the built-in ones, those that other packages offer, and those of a module or file of one's own.

A strategy is a module (or any object) with ``answer(question, tools)`` and ``granularities(policy)``, the chunk sizes
that the archive must hold. It may say more of itself: ``NEEDS_SCORER = True`` (it calls ``tools.score``),
``NEEDS_LOGPROBS = True`` (it asks for log-probabilities), ``READS_VECTORS = True`` (it sends vectors of
``tools.compressed``, so SARA's generator must answer), and ``UNFORESEEN = "..."``, why no estimate can tell what it
will send. Where it depends on the policy, functions ``needs_scorer(policy)`` and ``needs_compressor(policy)`` (it calls
``tools.compress``) say so. A package offers one by an entry point in the group ``okralong.strategies``::

    [project.entry-points."okralong.strategies"]
    my_method = "my_package.my_method"

``plugin.py`` loads what is named by its place instead.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Protocol, cast

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.strategies.plugin import is_place, load_place
from okralong.pipelines.answering.tools import Strategy
from okralong.pipelines.core.types import ConfigError

GROUP: Final = "okralong.strategies"
BUILT_IN: Final = (
    "okralong",
    "okralong_precise",
    "std_rag",
    "long_context",
    "adaptive_rag",
    "flare",
    "longllmlingua",
    "compact",
    "raptor",
    "sara",
    "budget_rag",
)


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
    """The strategy of that name or place. Raises ConfigError when it is unknown or cannot be loaded."""
    return _load(name).answer


def granularities_needed(name: str, policy: Policy) -> list[int]:
    """Chunk sizes, in tokens, that an archive must hold for this strategy. Raises ConfigError as load_strategy does."""
    return sorted(_load(name).granularities(policy))


def needs_scorer(name: str, policy: Policy) -> bool:
    """Whether a run must have a local language model that measures likelihoods: for its policy or its strategy."""
    module = _load(name)
    return policy.needs_scorer or bool(getattr(module, "NEEDS_SCORER", False)) or _says(module, "needs_scorer", policy)


def reads_vectors(name: str) -> bool:
    """Whether it sends vectors, which only a generator that was trained with SARA's compressor can read."""
    return bool(getattr(_load(name), "READS_VECTORS", False))


def needs_compressor(name: str, policy: Policy) -> bool:
    """Whether a run must be able to compress vectors itself: for its policy or its strategy."""
    return policy.needs_compressor or _says(_load(name), "needs_compressor", policy)


def needs_logprobs(name: str) -> bool:
    """Whether it asks the generator for the log-probabilities of its tokens."""
    return bool(getattr(_load(name), "NEEDS_LOGPROBS", False))


def unforeseen(name: str) -> str | None:
    """Why an estimate cannot tell what the strategy will send; None where one can."""
    reason: str | None = getattr(_load(name), "UNFORESEEN", None)
    return reason


def _says(module: object, what: str, policy: Policy) -> bool:
    said = getattr(module, what, None)
    return bool(said(policy)) if callable(said) else False


def _load(name: str) -> StrategyModule:
    if name in BUILT_IN:
        return cast(StrategyModule, import_module(f"{__package__}.{name}"))
    if is_place(name):
        return cast(StrategyModule, _checked(name, name, load_place(name)))
    offered = _offered()
    if name not in offered:
        raise ConfigError(
            f"There is no strategy {name!r}. Known are: {', '.join(names())}. Give one of these, install the package "
            f"that offers {name!r}, or name its place: a file (mine.py) or a module with its function (mine:answer)."
        )
    entry = offered[name]
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"The strategy {name!r} ({entry.value}) cannot be loaded: {error}. Install its package again, or mend its "
            f"entry point in the group {GROUP}."
        ) from error
    return cast(StrategyModule, _checked(name, entry.value, loaded))


def _checked(name: str, place: str, loaded: object) -> object:
    missing = [attribute for attribute in ("answer", "granularities") if not callable(getattr(loaded, attribute, None))]
    if missing:
        raise ConfigError(
            f"The strategy {name!r} ({place}) has no function {' and no function '.join(missing)}. A strategy is a "
            f"module with answer(question, tools) and granularities(policy); docs/methods.md shows one."
        )
    return loaded


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}
