"""Strategies by name or place, and what each needs of a run.

A strategy is a module (or any object) with ``answer(question, tools)`` and ``granularities(policy)``, the chunk sizes
that the archive must hold; a built-in one without the latter retrieves at the chunk size of its own section of the
policy. Further attributes say what else it needs:

- ``NEEDS_SCORER = True``: it calls ``tools.score``; ``needs_scorer(policy)`` where that depends on the policy.
- ``NEEDS_TOKEN_CLASSIFIER = True``: it calls ``tools.keep``.
- ``NEEDS_VECTORS = True``: it retrieves by dense vectors alone, or calls ``tools.embed`` or ``tools.vectors``;
  ``needs_vectors(policy)`` where that depends on the policy.
- ``needs_compressor(policy)``: whether it calls ``tools.compress``.
- ``needs_reranker(policy)``: of a built-in one, whether it ranks by the cross-encoder where the policy does.
- ``escalates(policy)``: of the method, whether answers that are not trusted are asked for again.
- ``NEEDS_LOGPROBS = True``: it asks the generator for log-probabilities.
- ``READS_VECTORS = True``: it sends vectors of ``tools.compressed``, so SARA's generator must answer.
- ``UNFORESEEN = "…"``: why the cost of this strategy cannot be estimated before it runs; ``unforeseen(policy)``, None
  where it can, where that depends on the policy.

It is named by one of the built-in names; by the name under which a package offers it in the entry point group
``okralong.strategies``; or by its place, ``my_package.mine:answer`` or ``path/to/mine.py`` (whose function is
``answer`` unless another stands behind a colon). Each process of a run loads it by itself, so a module must be
importable, and a file must lie at the same place, on every node of a cluster.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Final, Protocol, cast

from okralong.pipelines.answering.policy import Policy
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
    "over_documents",
    "recomp",
    "self_route",
    "iter_retgen",
    "self_rag",
    "llmlingua",
    "llmlingua2",
    "instructrag",
    "graphrag",
)


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """What a strategy needs of a run under one policy: asked once, when the run is prepared, then passed on.

    ``name`` is the strategy's in tables, ``place`` what any process can load it by. ``identity`` tells it from others:
    of a file, what stands in it and not where it lies. ``granularities`` are the chunk sizes in tokens, rising, that
    the archive must hold. ``needs_scorer``, ``needs_token_classifier``, ``needs_compressor``, ``needs_reranker`` and
    ``needs_vectors`` (whether the archive must have dense vectors) hold for the strategy or its policy. ``escalates``:
    answers that are not trusted are asked for again as ``policy.escalate`` says. ``unforeseen`` says why its
    cost cannot be estimated before it runs; None where it can.
    """

    name: str
    place: str
    identity: str
    granularities: tuple[int, ...]
    needs_scorer: bool = False
    needs_token_classifier: bool = False
    needs_compressor: bool = False
    needs_reranker: bool = False
    needs_logprobs: bool = False
    reads_vectors: bool = False
    needs_vectors: bool = False
    escalates: bool = False
    unforeseen: str | None = None


class StrategyModule(Protocol):
    """What a name stands for; the other attributes stand above."""

    @property
    def answer(self) -> Strategy:
        """The method."""
        ...


def describe(name: str, policy: Policy) -> StrategySpec:
    """What the strategy of that name or place needs. Raises ConfigError when it is unknown or cannot be loaded."""
    module = _load(name)

    def says(constant: str) -> bool:
        return bool(getattr(module, constant, False))

    def says_of_policy(function: str) -> bool:
        said = getattr(module, function, None)
        return bool(said(policy)) if callable(said) else False

    sizes = getattr(module, "granularities", None)  # _load has seen to it that a strategy of somebody else's has it
    granularities = sizes(policy) if sizes else [getattr(policy, name).granularity]
    told = getattr(module, "unforeseen", None)
    unforeseen = told(policy) if callable(told) else getattr(module, "UNFORESEEN", None)
    shown, place, identity = name, name, name
    file, function = _parts(name)
    if file.endswith(".py"):
        stem = Path(file).stem
        shown = stem if function == "answer" else f"{stem}:{function}"
        place = f"{Path(file).expanduser().resolve()}:{function}"
        identity = f"{hashlib.sha256(_read(file)).hexdigest()}:{function}"
    compresses = policy.needs_compressor or says_of_policy("needs_compressor")
    by_vectors = policy.needs_vectors or says("NEEDS_VECTORS") or says_of_policy("needs_vectors")
    return StrategySpec(
        name=shown,
        place=place,
        identity=identity,
        granularities=tuple(sorted(granularities)),
        needs_scorer=policy.needs_scorer or says("NEEDS_SCORER") or says_of_policy("needs_scorer"),
        needs_token_classifier=says("NEEDS_TOKEN_CLASSIFIER"),
        needs_compressor=compresses,
        # A strategy of somebody else's may retrieve by ``assembled_retrieval``, which ranks as the policy says.
        needs_reranker=says_of_policy("needs_reranker") if name in BUILT_IN else policy.needs_reranker,
        needs_logprobs=says("NEEDS_LOGPROBS"),
        reads_vectors=says("READS_VECTORS"),
        escalates=says_of_policy("escalates"),
        needs_vectors=by_vectors or compresses or says("READS_VECTORS"),
        unforeseen=unforeseen,
    )


def load_strategy(name: str) -> Strategy:
    """The strategy of that name or place. Raises ConfigError when it is unknown or cannot be loaded."""
    return _load(name).answer


def names() -> list[str]:
    """All known names, the built-in ones first. A built-in name cannot be taken by another package."""
    return [*BUILT_IN, *sorted(set(_offered()) - set(BUILT_IN))]


def _load(name: str) -> StrategyModule:
    if name == "okralong_precise":  # a mode of the method, in the method's file
        return cast(StrategyModule, import_module(f"{__package__}.okralong").PRECISE)
    if name in BUILT_IN:
        return cast(StrategyModule, import_module(f"{__package__}.{name}"))
    if ":" in name or name.endswith(".py"):
        return _checked(name, name, _load_place(name))
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
            f"The strategy {name!r} ({entry.value}) cannot be loaded: {error}. Install its package again, or correct "
            f"its entry point in the group {GROUP}."
        ) from error
    return _checked(name, entry.value, loaded)


def _offered() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def _checked(name: str, place: str, loaded: object) -> StrategyModule:
    missing = [attribute for attribute in ("answer", "granularities") if not callable(getattr(loaded, attribute, None))]
    if missing:
        raise ConfigError(
            f"The strategy {name!r} ({place}) has no function {' and no function '.join(missing)}. A strategy is a "
            f"module with answer(question, tools) and granularities(policy); docs/methods.md shows one."
        )
    return cast(StrategyModule, loaded)


def _load_place(name: str) -> object:
    """The module that stands there, its ``answer`` being the function that ``name`` gives."""
    place, function = _parts(name)
    try:
        module = _from_file(place) if place.endswith(".py") else import_module(place)
    except ConfigError:
        raise
    except Exception as error:  # third-party code: importing it may raise anything
        raise ConfigError(
            f"The strategy {name!r} cannot be loaded: {type(error).__name__}: {error}. Correct the module, or the name."
        ) from error
    if not callable(getattr(module, function, None)):
        raise ConfigError(
            f"The strategy {name!r} cannot be loaded: {place} has no function {function!r}. Name one of its functions "
            "behind a colon."
        )
    public = {attribute: value for attribute, value in vars(module).items() if not attribute.startswith("_")}
    return SimpleNamespace(**{**public, "answer": getattr(module, function)})


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
