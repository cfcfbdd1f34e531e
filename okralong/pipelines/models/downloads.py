"""Named models of ``configs/models.yaml``: download one from the hub, find it again, recommend one for a machine.

``huggingface_hub`` transfers the file: it follows proxies, and takes ``HF_ENDPOINT`` and ``HF_TOKEN`` from the
environment. The file is checked against the table's sha256, or the one that the hub states, which is recorded: a later
file with another hash is refused.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final, TypeVar
from urllib.parse import urlsplit

from filelock import FileLock
from pydantic import Field

from okralong.pipelines.core.config import Settings, load_config, parse_config
from okralong.pipelines.core.types import BrokenError, ConfigError, EndpointError
from okralong.pipelines.models.weights import available_cores, cache_folder, sha256_of

TABLE: Final = "models.yaml"

BILLIONS_A_CORE_SECOND: Final = 12.0
"""Parameters times prompt tokens that llama.cpp multiplies in a second of one core, in billions, as measured with the
embedded model (106 million in its layers; benchmarks/results/engine.md). Larger models are estimated from it."""

LONGEST_PROMPT_S: Final = 90.0
"""A model is recommended if a prompt of 1,000 tokens is estimated to take at most this long. # project default"""

SHARE_OF_MEMORY: Final = 0.5
"""A model is recommended if it needs at most this share of the machine's memory. # project default"""

CORES_PER_SLOT: Final = 2
"""As ``serving.CORES_PER_PLACE``."""

T = TypeVar("T")

_SHA256: Final = re.compile("[0-9a-f]{64}")


class NamedModel(Settings):
    """A row of the table; its keys are explained in ``configs/models.yaml``."""

    repository: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: str = "main"
    file: Annotated[str, Field(pattern=r"^[\w.-]+\.gguf$")]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None
    licence: str
    gigabytes: Annotated[float, Field(gt=0)]
    parameters: Annotated[float, Field(gt=0)]
    memory_gb: Annotated[float, Field(gt=0)]
    slot_gb: Annotated[float, Field(gt=0)]
    window: Annotated[int, Field(ge=256)]
    thinks: bool

    def memory_needed_gb(self, cores: int) -> float:
        """Return the memory for a server on ``cores`` cores."""
        return self.memory_gb + self.slot_gb * max(1, cores // CORES_PER_SLOT)

    def prompt_speed(self, cores: int) -> float:
        """Return the estimated prompt tokens a second on ``cores`` cores."""
        return BILLIONS_A_CORE_SECOND * cores / self.parameters


class ModelTable(Settings):
    """``configs/models.yaml``: models by name, the smallest first."""

    models: dict[str, NamedModel]


class Download(Settings):
    """The record of a downloaded model, kept in the cache folder."""

    path: str
    repository: str
    commit: str
    sha256: str
    bytes: int
    changed_ns: int


@dataclass(frozen=True, slots=True)
class DownloadedModel:
    """A named model that is on this machine."""

    name: str
    row: NamedModel
    file: Path
    sha256: str


@lru_cache(maxsize=1)
def model_table() -> dict[str, NamedModel]:
    """Return the shipped table of models, by name."""
    return load_config(ModelTable, TABLE).models


def named(name: str) -> NamedModel:
    """Return a row of the table. Raises ConfigError if there is none."""
    table = model_table()
    if name not in table:
        raise ConfigError(f"There is no model {name!r} to download. Give one of {', '.join(table)}.")
    return table[name]


def record_file(name: str) -> Path:
    """Return the file that records the download of a model."""
    return cache_folder() / "models" / f"{name}.json"


def recorded(name: str) -> Download | None:
    """Return the record of a model's download, or None."""
    file = record_file(name)
    if not file.is_file():
        return None
    return parse_config(Download, file.read_text(encoding="utf-8"), str(file))


def downloaded(name: str) -> DownloadedModel | None:
    """Return a named model that is on this machine, or None if ``name`` is not in the table.

    The file is hashed again if its size or time differ from the record.

    Raises:
        ConfigError: It was not downloaded, or its file was removed or changed.
    """
    row = model_table().get(name)
    if row is None:
        return None
    seen, get = recorded(name), f"`okralong model get {name}`"
    if seen is None:
        raise ConfigError(
            f"The model {name} ({row.repository}, {row.gigabytes:g} GB) is not on this machine. Run {get} here, where "
            "the command runs that starts the generator."
        )
    file = Path(seen.path)
    if not file.is_file():
        raise ConfigError(f"The model {name} was downloaded to {file}, which is gone. Run {get} again.")
    stat = file.stat()
    if (stat.st_size, stat.st_mtime_ns) != (seen.bytes, seen.changed_ns) and sha256_of(file) != seen.sha256:
        raise ConfigError(
            f"{file} has changed since {name} was downloaded (expected sha256 {seen.sha256}). Delete it and run {get} "
            "again, or give the file itself as llm.model."
        )
    return DownloadedModel(name, row, file, seen.sha256)


def download(name: str, folder: Path | None = None) -> DownloadedModel:
    """Download a model of the table, check and record it; a model that is already there is only checked.

    Args:
        name: Its name in the table.
        folder: Where to put the file; default is ``models`` in the cache folder.

    Raises:
        ConfigError: The name is unknown, or the hub's file is not the one of the table or of the last download.
        EndpointError: The hub cannot be reached, does not have the file, or sent other bytes.
        BrokenError: The disk is full.
    """
    row = named(name)
    target = (folder or cache_folder() / "models").expanduser().resolve()
    seen = recorded(name)
    stated = _stated(row)
    sha256 = stated.sha256
    known = row.sha256 or (seen.sha256 if seen else sha256)
    if sha256 != known:
        raise ConfigError(
            f"The hub's file {row.file} of {row.repository} has sha256 {sha256}, expected {known}: it is not the file "
            f"that {'okralong knows' if row.sha256 else 'was downloaded before'}. To use it all the same, download it "
            f"yourself and give the .gguf file as llm.model."
        )
    file = target / row.file
    if not (file.is_file() and file.stat().st_size == stated.size and sha256_of(file) == sha256):
        _transfer(row, stated, target)
        found = sha256_of(file)
        if found != sha256:
            file.unlink(missing_ok=True)
            raise EndpointError(
                f"The downloaded {row.file} has sha256 {found}, expected {sha256}; it was deleted. Run the command "
                "again; if it happens again, a proxy or mirror changes files (HF_ENDPOINT, HTTPS_PROXY)."
            )
    stat = file.stat()
    record = Download(
        path=str(file),
        repository=row.repository,
        commit=stated.commit,
        sha256=sha256,
        bytes=stat.st_size,
        changed_ns=stat.st_mtime_ns,
    )
    _write(record_file(name), record.model_dump_json(indent=1))
    return DownloadedModel(name, row, file, sha256)


def recommended(memory_gb: float, cores: int) -> str | None:
    """Return the largest model that this much memory and so many cores serve well enough, or None."""
    fit = [
        name
        for name, row in model_table().items()
        if row.memory_needed_gb(cores) <= memory_gb * SHARE_OF_MEMORY
        and 1000 / row.prompt_speed(cores) <= LONGEST_PROMPT_S
    ]
    return fit[-1] if fit else None


def machine() -> tuple[float, int]:
    """Return this machine's memory in GB and the cores that this process may use."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, available_cores()


@dataclass(frozen=True, slots=True)
class _Stated:
    """What the hub states of a file; ``headers`` are for its transfer from ``location``."""

    commit: str
    sha256: str
    size: int
    location: str
    headers: dict[str, str]


def _stated(row: NamedModel) -> _Stated:
    import huggingface_hub as hub
    from huggingface_hub.utils import build_hf_headers  # type: ignore[attr-defined]

    url = hub.hf_hub_url(row.repository, row.file, revision=row.revision, endpoint=_endpoint())
    found = _of_hub(row, lambda: hub.get_hf_file_metadata(url))
    if not found.etag or not _SHA256.fullmatch(found.etag) or not found.size or not found.commit_hash:
        raise EndpointError(
            f"{_endpoint() or 'The hub'} states no commit, size and sha256 of {row.file}, so the file cannot be "
            "checked. Use a server that speaks the hub's protocol (HF_ENDPOINT)."
        )
    here = urlsplit(found.location).netloc == urlsplit(url).netloc
    headers: dict[str, str] = build_hf_headers() if here else {}  # the token must not go to the storage's host
    return _Stated(found.commit_hash, found.etag, found.size, found.location, headers)


def _transfer(row: NamedModel, stated: _Stated, folder: Path) -> None:
    """Bring the file, beginning where an earlier transfer of the same bytes ended.

    ``hf_hub_download`` begins anew in each process, so the bytes are kept here, in a file named after their hash.
    """
    from huggingface_hub.file_download import http_get

    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{row.file}.{stated.sha256[:12]}.partial"
    with FileLock(f"{partial}.lock"), partial.open("ab") as file:
        there = file.tell()
        full = (
            f"{row.file} needs {stated.size / 1e9:.2f} GB, of which {there / 1e9:.2f} are here, and {folder} has "
            f"{shutil.disk_usage(folder).free / 1e9:.2f} GB free. Free some space, or give --folder on a larger disk."
        )
        if shutil.disk_usage(folder).free + there < stated.size:
            raise BrokenError(full)
        try:
            _of_hub(
                row,
                lambda: http_get(
                    stated.location,
                    file,
                    resume_size=there,
                    headers=stated.headers,
                    expected_size=stated.size,
                    displayed_filename=row.file,
                ),
            )
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise BrokenError(full) from error
            raise
    partial.replace(folder / row.file)
    Path(f"{partial}.lock").unlink(missing_ok=True)


def _endpoint() -> str | None:
    return os.environ.get("HF_ENDPOINT") or None


def _of_hub(row: NamedModel, work: Callable[[], T]) -> T:
    """Return what ``work`` returns; raise its failures as EndpointError."""
    import httpx2
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

    where = _endpoint() or "https://huggingface.co"
    try:
        return work()
    except HfHubHTTPError as error:
        raise EndpointError(
            f"{where} refuses {row.file} of {row.repository} ({str(error).splitlines()[0]}). Check HF_ENDPOINT, and "
            "HF_TOKEN if the server asks for one; what was downloaded is kept."
        ) from error
    except (httpx2.HTTPError, OfflineModeIsEnabled, ConnectionError) as error:
        raise EndpointError(
            f"{where} cannot be reached, or the transfer of {row.file} broke off ({type(error).__name__}). Check the "
            "network, the proxy (HTTPS_PROXY), HF_ENDPOINT and HF_HUB_OFFLINE, and run the command again: it resumes."
        ) from error


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}.{os.getpid()}.partial")
    partial.write_text(f"{text}\n", encoding="utf-8")
    partial.replace(file)
