"""Whom a training tells how it goes. Without transformers, so that those who only pass it on load in no time."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]


def quiet(_: str) -> None:
    """Says nothing."""
