"""Lists in pages: the newest first, ``limit`` at a time, going on ``after`` an id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.fakes.endpoint.problems import invalid


def page(objects: Sequence[dict[str, Any]], query: Mapping[str, str], most: int, usual: int) -> dict[str, Any]:
    """The page that ``query`` asks for; ``most`` is the largest limit taken, ``usual`` the one when none is named.

    Raises Problem for a limit out of range, and for an ``after`` that is not in the list.
    """
    limit = query.get("limit", str(usual))
    if not limit.isdecimal() or not 1 <= int(limit) <= most:
        raise invalid("limit", f"Invalid 'limit': expected an integer between 1 and {most}, got {limit}.")
    ids = [one["id"] for one in objects]
    start = 0
    if (after := query.get("after")) is not None:
        if after not in ids:
            raise invalid("after", f"Invalid 'after': no object {after}.")
        start = ids.index(after) + 1
    shown = objects[start : start + int(limit)]
    return {
        "object": "list",
        "data": list(shown),
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": start + len(shown) < len(objects),
    }
