"""OkraLong: thousands of questions a night over archives of long documents, at the best accuracy per dollar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from okralong.jobs.api import answer, diff, estimate, export, index, matrix, stream

__version__ = "0.1.0"
__all__ = ["__version__", "answer", "diff", "estimate", "export", "index", "matrix", "stream"]


def __getattr__(name: str) -> Any:
    """Load the API on first use, so that submodules can be imported with few packages installed."""
    if name in __all__:
        from okralong.pipelines.core.config import check_interpreter

        check_interpreter()
        from okralong.jobs import api

        return getattr(api, name)
    raise AttributeError(f"module 'okralong' has no attribute {name!r}")
