"""The adapters that come with okralong: what was trained on top of the embedded models."""

from __future__ import annotations

import hashlib
from importlib import resources
from pathlib import Path
from typing import Final

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.cache import sha256_of

SHIPPED: Final = "shipped"
"""The name that stands for a shipped adapter in every config."""

_WEIGHTS: Final = ("*.safetensors", "*.json")


def shipped_adapter(name: str) -> Path:
    """The folder of ``configs/adapters/NAME``. Raises ConfigError when this installation holds none of that name."""
    folder = Path(str(resources.files("okralong.configs"))) / "adapters" / name
    if not folder.is_dir():
        raise ConfigError(
            f"This okralong comes without the adapter {name!r} ({folder} is missing). Install it again, or train one "
            "with `okralong train`."
        )
    return folder


def adapter_digest(folder: Path) -> str | None:
    """A hash over an adapter's weights and descriptions; None where ``folder`` is no folder (a hub name)."""
    if not folder.is_dir():
        return None
    globs = [glob for pattern in _WEIGHTS for glob in (pattern, f"adapter/{pattern}")]
    files = sorted(path for glob in globs for path in folder.glob(glob))
    return hashlib.sha256("".join(sha256_of(path) for path in files).encode()).hexdigest()
