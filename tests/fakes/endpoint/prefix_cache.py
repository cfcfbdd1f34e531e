"""Prompt caching as OpenAI describes it: from 1,024 tokens on, in steps of 128, the longest prefix seen before.

A prefix is known by a digest chained over its steps, so a look-up costs one pass over the prompt. It is known from the
moment a request that holds it was answered, until some minutes after it was last used. The real cache also misses now
and then, by load and by which machine is asked; that is not modelled.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

from tests.fakes.endpoint.scenario import PromptCache
from tests.fakes.endpoint.tokens import Ids


class PrefixCache:
    """Prefixes of every model's prompts. ``now`` is in seconds of one clock that never goes back."""

    def __init__(self) -> None:
        self._used_at: dict[bytes, float] = {}
        self.marked: dict[bytes, float] = {}
        """When prefixes that requests marked were last used, by digest (Anthropic only)."""

    def known(self, settings: PromptCache, model: str, ids: Ids, now: float) -> int:
        """Tokens of the longest prefix of ``ids`` that is cached."""
        known = 0
        if settings.enabled:
            for length, key in _prefixes(settings, model, ids):
                if self._used_at.get(key, -float("inf")) + settings.lasts_s < now:
                    break
                known = length
        return known

    def cacheable(self, settings: PromptCache, ids: Ids) -> int:
        """Tokens of the longest prefix of ``ids`` that may be cached."""
        whole = (len(ids) - settings.first) // settings.step * settings.step + settings.first
        return whole if settings.enabled and len(ids) >= settings.first else 0

    def learn(self, settings: PromptCache, model: str, ids: Ids, now: float) -> None:
        """Remember every prefix of ``ids``."""
        if settings.enabled:
            self._used_at.update((key, now) for _, key in _prefixes(settings, model, ids))


def _prefixes(settings: PromptCache, model: str, ids: Ids) -> Iterator[tuple[int, bytes]]:
    digest = blake2b(model.encode(), digest_size=16)
    start = 0
    for end in range(settings.first, len(ids) + 1, settings.step):
        digest.update(ids[start:end].tobytes())
        start = end
        yield end, digest.digest()
