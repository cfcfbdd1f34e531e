"""The key under which the vector of a chunk's text is kept: the same text has one vector, wherever it stands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

KEY_BYTES: Final = 16
"""A hash of 128 bits: among 10^10 texts two share a key with a probability of 10^-19. Ours."""

Keys = NDArray[Any]
"""Of numpy's dtype ``S16``: fixed-width bytes, which sort and compare as bytes do."""


def text_keys(texts: Iterable[str]) -> Keys:
    """The keys of some texts, in their order."""
    data = b"".join(hashlib.blake2b(text.encode(), digest_size=KEY_BYTES).digest() for text in texts)
    return np.frombuffer(data, dtype=f"S{KEY_BYTES}")


def key_bytes(keys: Keys) -> list[bytes]:
    """The keys as Python has them; numpy's own way drops zero bytes at the end."""
    data = np.ascontiguousarray(keys).tobytes()
    return [data[start : start + KEY_BYTES] for start in range(0, len(data), KEY_BYTES)]
