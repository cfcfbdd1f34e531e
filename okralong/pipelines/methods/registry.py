"""Find strategies by name or location, describe them, and define the policy with the sections of all methods.

A shipped method is one file in this package and one line in ``BUILT_IN``. The file has ``answer(question, tools)``,
``needs(policy)``, which returns a ``Needs``, and, if the method has constants, a ``Section`` of the policy.

Other strategies are named by the entry point of an installed package (group ``okralong.strategies``), or by their
location: ``my_package.mine:answer`` or ``path/to/mine.py`` (the function is ``answer`` unless another follows a colon).
Each process of a run loads the strategy, so a module must be importable on every node of a cluster, and a file must
exist there under the same path.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

from pydantic import create_model

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.answering.tools import Strategy
from okralong.pipelines.core.extras import needs_extra
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.methods.needs import Needs

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
MODES: Final = {"okralong_precise": ("okralong", "answer_precisely", "needs_precisely")}
"""Strategies that share another method's file: the module, and the names of their two functions."""


def _module(name: str) -> ModuleType:
    return import_module(f"{__package__}.{name}")


def _sections() -> dict[str, Any]:
    modules = [_module(name) for name in BUILT_IN if name not in MODES]
    sections = [module.Section for module in modules if hasattr(module, "Section")]
    return {section.KEY: (section, section()) for section in sections}


FullPolicy: Final[type[Policy]] = create_model("FullPolicy", __base__=Policy, __module__=__name__, **_sections())
"""The policy with the sections of all shipped methods, used to read policy files."""


@dataclass(frozen=True, slots=True)
class StrategySpec:
    """A run's strategy, described once when the run is prepared.

    Attributes:
        name: Its name in tables.
        place: The location from which any process can load it.
        identity: Its part of the run's fingerprint; for a file, its content and not its path.
        needs: Its needs under the policy.
    """

    name: str
    place: str
    identity: str
    needs: Needs


@dataclass(frozen=True, slots=True)
class Method:
    """The functions of a strategy: ``answer(question, tools)`` and ``needs(policy)``."""

    answer: Strategy
    needs: Callable[[Policy], Needs]


def describe(name: str, policy: Policy) -> StrategySpec:
    """Describe the strategy with a name or location.

    Raises:
        ConfigError: The strategy is unknown or cannot be loaded, its section of the policy is wrong, or a package is
            missing.
    """
    needs = _load(name).needs(policy)
    with needs_extra("lab"):
        for package in needs.packages:
            import_module(package)
    needs = replace(
        needs,
        granularities=tuple(sorted(set(needs.granularities))),
        # A third-party strategy may call ``assembled_retrieval``, which needs a cross-encoder under some policies.
        reranker=needs.reranker or (name not in BUILT_IN and policy.needs_reranker),
        vectors=_needs_vectors(needs, policy),
    )
    file, function = _parts(name)
    if not file.endswith(".py"):
        return StrategySpec(name, name, name, needs)
    stem = Path(file).stem
    return StrategySpec(
        name=stem if function == "answer" else f"{stem}:{function}",
        place=f"{Path(file).expanduser().resolve()}:{function}",
        identity=f"{hashlib.sha256(_read(file)).hexdigest()}:{function}",
        needs=needs,
    )


def load_strategy(name: str) -> Strategy:
    """Return the function of a strategy. Raises ConfigError if it is unknown or cannot be loaded."""
    return _load(name).answer


def names() -> list[str]:
    """Return all known names, the built-in ones first. Other packages cannot override a built-in name."""
    return [*BUILT_IN, *sorted(set(_offered()) - set(BUILT_IN))]


def names_without_vectors(policy: Policy) -> list[str]:
    """Return the built-in strategies that need no dense vectors in the archive under ``policy``."""
    return [name for name in BUILT_IN if not _needs_vectors(_load(name).needs(policy), policy)]


def _needs_vectors(needs: Needs, policy: Policy) -> bool:
    # Whatever needs the compressor needs vectors, too.
    return policy.needs_vectors or needs.vectors or needs.compressor or needs.sara_generator


def _load(name: str) -> Method:
    if name in MODES:
        file, answer, needs = MODES[name]
        return Method(getattr(_module(file), answer), getattr(_module(file), needs))
    if name in BUILT_IN:
        module = _module(name)
        return Method(module.answer, module.needs)
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


def _checked(name: str, place: str, loaded: Any) -> Method:
    """Check that a third-party method has its functions. Modules of an older form, without ``needs``, are accepted."""
    older = callable(getattr(loaded, "granularities", None))
    missing = [each for each in ("answer", "needs") if not callable(getattr(loaded, each, None))]
    if missing and not (older and missing == ["needs"]):
        raise ConfigError(
            f"The strategy {name!r} ({place}) has no function {' and no function '.join(missing)}. A strategy is a "
            f"module with answer(question, tools) and needs(policy); docs/methods.md shows one."
        )
    return Method(loaded.answer, partial(_needs_by_attributes, loaded) if missing else loaded.needs)


def _needs_by_attributes(module: Any, policy: Policy) -> Needs:
    """Return the needs of a module of the older form, which declares them by attributes."""

    def says(constant: str, function: str = "") -> bool:
        told = getattr(module, function, None)
        return bool(getattr(module, constant, False)) or (callable(told) and bool(told(policy)))

    told = getattr(module, "unforeseen", None)
    return Needs(
        granularities=tuple(module.granularities(policy)),
        vectors=says("NEEDS_VECTORS", "needs_vectors"),
        scorer=says("NEEDS_SCORER", "needs_scorer"),
        token_classifier=says("NEEDS_TOKEN_CLASSIFIER"),
        compressor=says("", "needs_compressor"),
        logprobs=says("NEEDS_LOGPROBS"),
        sara_generator=says("READS_VECTORS"),
        unforeseen=told(policy) if callable(told) else getattr(module, "UNFORESEEN", None),
    )


def _load_place(name: str) -> object:
    """Load the module at a location, as a namespace whose ``answer`` is the function that ``name`` gives."""
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
            f"The strategy {name!r} cannot be loaded: {place} has no function {function!r}. Name one of its "
            "functions after a colon."
        )
    public = {attribute: value for attribute, value in vars(module).items() if not attribute.startswith("_")}
    return SimpleNamespace(**{**public, "answer": getattr(module, function)})


def _parts(name: str) -> tuple[str, str]:
    place, colon, function = name.rpartition(":")
    # C:\mine.py has a drive letter and no function.
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
    sys.modules[unique] = module  # before it is executed, because dataclasses look up their module there
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
