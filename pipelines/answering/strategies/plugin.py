"""A strategy named by its place: ``my_package.mine:answer``, a module and its function, or ``path/to/mine.py``, a file.

A file's function is ``answer`` unless another stands behind a colon (``mine.py:other``). Each process of a run loads it
by itself: a module must be importable, and a file must lie at the same place, on every node of a cluster.
"""

from __future__ import annotations

import hashlib
import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

from okralong.pipelines.core.types import ConfigError


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
