"""Printing what documents, models and files say, so that nothing in it acts on the terminal or on rich's markup."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from okralong.pipelines.answering.prompts import HIDDEN


def printable(text: object) -> str:
    """``text`` without control characters (escape sequences set titles, clear screens, write clipboards) and without
    characters that print nothing or turn the reading direction; tab and line feed stay."""
    return HIDDEN.sub(" ", str(text))


def say(console: Console, text: object, *, style: str = "", indent: int = 0) -> None:
    """Print words that are not ours, as they are: no markup, no emoji codes, no control characters."""
    console.print(Padding(Text(printable(text), style=style), (0, 0, 0, indent)))


def say_line(console: Console, text: object, *, style: str = "") -> None:
    """The same on one logical line that the terminal wraps, so that it can be copied and searched."""
    console.print(Text(printable(text), style=style), soft_wrap=True)
