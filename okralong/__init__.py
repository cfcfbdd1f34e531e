"""OkraLong: thousands of questions a night over archives of long documents, at the best accuracy per dollar.

The folders ``pipelines``, ``actors``, ``jobs`` and ``configs`` at the top of the repository are linked into this
package, so that ``okralong.pipelines`` is the same module under pip, in a checkout, on a Ray worker and in a submitted
job's working directory (``docs/architecture.md`` says why by links).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from okralong.jobs.api import answer, diff, estimate, export, index, matrix, stream

__version__ = "0.1.0"
__all__ = ["__version__", "answer", "diff", "estimate", "export", "index", "matrix", "stream"]


def __getattr__(name: str) -> Any:
    """Load the API when it is first used: the cores of embedding and analysis must import with few packages around."""
    if name in __all__:
        from okralong.jobs import api

        return getattr(api, name)
    raise AttributeError(f"module 'okralong' has no attribute {name!r}")
