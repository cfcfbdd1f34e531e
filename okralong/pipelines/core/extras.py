"""Optional dependencies, the extras of ``pyproject.toml``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from okralong.pipelines.core.types import ConfigError


@contextmanager
def needs_extra(extra: str) -> Iterator[None]:
    """Report packages that the block fails to import as missing from the extra.

    Raises:
        ConfigError: A package is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        raise ConfigError(
            f"The Python package {package} is not installed. It belongs to the extra {extra!r} of okralong: "
            f"pip install '.[{extra}]' in the checkout."
        ) from error
