"""The working directory of a submitted job: the okralong that submits it, and the files that its config names.

It is put together anew, file by file, so that what lies beside a config (a ``.env``, an archive, a checkout's history)
is not sent by accident.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

import yaml

from okralong.pipelines.core.config import load_config, parse_config, shipped_config
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.config import IndexConfig
from okralong.pipelines.run.config import RunConfig
from okralong.pipelines.submission.config import IndexJob, Submission
from okralong.pipelines.submission.secrets import refuse_secrets

SEARCHED_BYTES: Final = 2_000_000
"""Up to this size a file that is sent is searched for keys; larger ones are data. Ours."""
_PACKAGE: Final = Path(__file__).parents[2]
_PARTS: Final = ("actors", "configs", "jobs", "pipelines")


def write_package(submission: Submission, base: Path, into: Path, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Fill the empty folder ``into`` with what goes with the job; the names of its own files, sorted.

    ``base`` is the folder of CONFIG. Raises ConfigError when a file is missing, leads out of ``base`` or holds a secret
    of this ``environment``, and when the job's own config cannot be used.
    """
    _check_config(submission, base)
    named = sorted({*_beside(submission, base), *submission.files})
    for name in named:
        source = _below(base, name)
        _search(source, base, environment)
        for file in _files(source):
            target = into / file.relative_to(base)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)
    if submission.code == "shipped":
        _write_code(into / "okralong")
        _search(into / "okralong" / "configs", into, environment)  # somebody's own may lie among those of a checkout
    return tuple(named)


def _search(place: Path, base: Path, environment: Mapping[str, str]) -> None:
    for file in _files(place):
        if file.stat().st_size <= SEARCHED_BYTES:
            said = file.read_bytes().decode("utf-8", "replace")
            refuse_secrets({f"the file {file.relative_to(base)}": said}, environment)


def _write_code(into: Path) -> None:
    into.mkdir()
    root = Path(__file__).parents[3] / "okralong"  # in a checkout this folder holds links to the four parts
    package = root if (root / "__init__.py").is_file() else _PACKAGE
    shutil.copyfile(package / "__init__.py", into / "__init__.py")
    for part in _PARTS:
        shutil.copytree(package / part, into / part, ignore=shutil.ignore_patterns("__pycache__", ".*"))


def _beside(submission: Submission, base: Path) -> Iterator[str]:
    """The inputs of the job that are files beside CONFIG, and those that its config names in turn."""
    for name in submission.job.inputs:
        if "://" in name or name.startswith("/"):
            continue
        if (base / name).is_file():
            yield name
            if name == submission.job.config:
                yield from _named_by(base / name, base)
        elif name != submission.job.config:
            raise ConfigError(
                f"The file {name}, which the job names, is not in {base}. Put it there, or give a URI or an absolute "
                "path that all nodes see. Nothing was sent."
            )


def _named_by(config: Path, base: Path) -> Iterator[str]:
    said: Any = yaml.safe_load(config.read_text(encoding="utf-8"))
    for key in ("policy", "prices"):
        name = said.get(key) if isinstance(said, dict) else None
        if isinstance(name, str) and not name.startswith("/") and (base / name).is_file():
            yield name


def _check_config(submission: Submission, base: Path) -> None:
    """A config that the job would refuse is refused here, before a cluster is woken."""
    name = submission.job.config
    model: Any = IndexConfig if isinstance(submission.job, IndexJob) else RunConfig
    if name.startswith("/"):
        return  # it lies on the nodes
    if (base / name).is_file():
        load_config(model, base / name)
    else:
        parse_config(model, shipped_config(name), f"configs/{name}")


def _below(base: Path, name: str) -> Path:
    pure = PurePosixPath(name)
    first = pure.parts[0] if pure.parts else ""
    if pure.is_absolute() or ".." in pure.parts or first in ("", "okralong"):
        raise ConfigError(
            f"{name} cannot travel with the job: give files and folders below {base}, which are not called okralong. "
            "Nothing was sent."
        )
    source = base / name
    if not source.exists() or not source.resolve().is_relative_to(base.resolve()):
        raise ConfigError(f"{name} is not in {base}, or leads out of it. Mend files in the config. Nothing was sent.")
    return source


def _files(source: Path) -> Iterator[Path]:
    """The plain files at or below ``source``; hidden ones and links are left out of folders."""
    if source.is_file():
        yield source
        return
    for entry in sorted(source.iterdir()):
        if not entry.name.startswith(".") and not entry.is_symlink():
            yield from _files(entry)
