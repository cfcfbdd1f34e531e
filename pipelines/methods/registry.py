"""The plan of a method that plans nothing: it lets a baseline be admitted to the budget and shown like any other."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Final, Protocol, cast

from okralong.pipelines.answering.policy import Policy, calls_bound
from okralong.pipelines.answering.tools import Strategy, Tools
from okralong.pipelines.core.types import ConfigError, Plan, Usage, Workflow


def plain_plan(
    granularity: int,
    count: int,
    reason: str,
    *,
    workflow: Workflow = "linear",
    max_steps: int = 0,
    most: Usage | None = None,
) -> Plan:
    """Dense retrieval of ``count`` chunks of ``granularity`` tokens, once and for one answer unless a method says
    otherwise: ``workflow`` and ``max_steps`` tell the reader how it goes on, ``most`` the budget what it can use.
    """
    return Plan(
        workflow=workflow,
        granularity=granularity,
        count=count,
        candidates=count,
        exact_weight=0.0,
        semantic_weight=1.0,
        threshold=0.0,
        extension_tokens=0,
        recover_tables=False,
        max_sub_questions=1,
        sub_question_count=0,
        max_steps=max_steps,
        escalate=False,
        reasons=(reason,),
        most=most,
    )


def most_of(tools: Tools, calls: Sequence[tuple[str, int]]) -> Usage:
    """The most that some calls can use, each a role and the tokens of what it is shown."""
    return calls_bound(calls, tools.window, tools.completion_limit)


# --------
# A strategy named by its place: ``my_package.mine:answer``, a module and its function, or ``path/to/mine.py``, a file.
#
# A file's function is ``answer`` unless another stands behind a colon (``mine.py:other``). Each process of a run loads
# it by itself: a module must be importable, and a file must lie at the same place, on every node of a cluster.


def is_place(name: str) -> bool:
    """Whether ``name`` says where a strategy is, rather than what it is called."""
    return ":" in name or name.endswith(".py")


def settled(name: str) -> str:
    """``name`` as any process can load it, whatever folder it works in: a file by its absolute path."""
    file, function = _parts(name)
    if not file.endswith(".py"):
        return name
    return f"{Path(file).expanduser().resolve()}:{function}"


def called(name: str) -> str:
    """What a table calls it: of a file, its name without folder and suffix, and its function where that is another."""
    file, function = _parts(name)
    if not file.endswith(".py"):
        return name
    stem = Path(file).stem
    return stem if function == "answer" else f"{stem}:{function}"


def identity(name: str) -> str:
    """What tells it from another strategy: of a file, what stands in it and not where it lies; else the name."""
    file, function = _parts(name)
    if not file.endswith(".py"):
        return name
    return f"{hashlib.sha256(_read(file)).hexdigest()}:{function}"


def load_place(name: str) -> object:
    """Its ``answer`` and whatever else its module says of it. Raises ConfigError when it cannot be loaded."""
    place, function = _parts(name)
    try:
        module = _from_file(place) if place.endswith(".py") else import_module(place)
    except ConfigError:
        raise
    except Exception as error:  # it is somebody's code, and may do anything when it is imported
        raise ConfigError(
            f"The strategy {name!r} cannot be loaded: {type(error).__name__}: {error}. Mend the module, or the name."
        ) from error
    if not callable(getattr(module, function, None)):
        raise ConfigError(
            f"The strategy {name!r} cannot be loaded: {place} has no function {function!r}. Name one of its functions "
            "behind a colon."
        )
    said = {attribute: value for attribute, value in vars(module).items() if not attribute.startswith("_")}
    return SimpleNamespace(**{**said, "answer": getattr(module, function)})


def _parts(name: str) -> tuple[str, str]:
    place, colon, function = name.rpartition(":")
    # A drive letter is no module: C:\mine.py names no function.
    return (place, function) if colon and function.isidentifier() else (name, "answer")


def _from_file(file: str) -> ModuleType:
    path = Path(file).expanduser().resolve()
    unique = f"okralong_strategy_{hashlib.sha256(str(path).encode() + _read(file)).hexdigest()[:16]}"
    if unique in sys.modules:
        return sys.modules[unique]
    spec = spec_from_file_location(unique, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"The strategy file {file} cannot be loaded. Its name must end in .py.")
    module = module_from_spec(spec)
    sys.modules[unique] = module  # before it runs: its dataclasses and branches look themselves up there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[unique]
        raise
    return module


def _read(file: str) -> bytes:
    try:
        return Path(file).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"The strategy file {file} cannot be read: {error.strerror}. Check the path.") from error


# --------
# Strategies by name: the built-in ones, those that other packages offer, and those of a module or file of one's own.
#
# A strategy is a module (or any object) with ``answer(question, tools)`` and ``granularities(policy)``, the chunk
# sizes that the archive must hold. It may say more of itself: ``NEEDS_SCORER = True`` (it calls ``tools.score``),
# ``NEEDS_LOGPROBS = True`` (it asks for log-probabilities), ``READS_VECTORS = True`` (it sends vectors of
# ``tools.compressed``, so SARA's generator must answer), and ``UNFORESEEN = "..."``, why no estimate can tell what it
# will send. Where it depends on the policy, functions ``needs_scorer(policy)`` and ``needs_compressor(policy)`` (it
# calls ``tools.compress``) say so. A package offers one by an entry point in the group ``okralong.strategies``::
#
# [project.entry-points."okralong.strategies"] my_method = "my_package.my_method"
#
# ``plugin.py`` loads what is named by its place instead.

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
