"""Cost tags on the command line: ``--tag team=research --tag report=q3``."""

from __future__ import annotations

from collections.abc import Sequence

from okralong.pipelines.core.types import ConfigError


def read_tags(given: Sequence[str]) -> dict[str, str]:
    """Values by name. Raises ConfigError for one that is not NAME=VALUE."""
    tags: dict[str, str] = {}
    for each in given:
        name, sign, value = (part.strip() for part in each.partition("="))
        if not (name and sign and value):
            raise ConfigError(f"--tag takes NAME=VALUE, such as --tag team=research, not {each!r}.")
        tags[name] = value
    return tags
