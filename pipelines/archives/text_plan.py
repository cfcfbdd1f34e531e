"""Which texts of some parts have no vector yet, and which part embeds each: every distinct text stands in one place.

The keys of all parts are gone through in ranges of their first byte, so that a two-hundredth of them is in memory at a
time. Each part's share waits in a local file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from okralong.pipelines.archives.text_index import TextIndex
from okralong.pipelines.archives.texts import KEY_BYTES, Keys

_EDGES = np.array([bytes([byte]) for byte in range(1, 256)], dtype=f"S{KEY_BYTES}")


def owned_texts(parts: Mapping[str, Keys], index: TextIndex, scratch: Path) -> dict[str, int]:
    """For each part that has something to embed, how many texts; their keys are in ``scratch/PART``, sorted.

    ``parts`` has the sorted keys of each part, mapped files where they are many. A text that several parts have is the
    first one's.
    """
    names = list(parts)
    cuts = [np.searchsorted(keys, _EDGES).astype(np.int32) for keys in parts.values()]
    counts = dict.fromkeys(names, 0)
    for block in range(256):
        pieces = [
            keys[cut[block - 1] if block else 0 : cut[block] if block < 255 else None]
            for keys, cut in zip(parts.values(), cuts, strict=True)
        ]
        if not any(map(len, pieces)):
            continue
        owners = np.repeat(np.arange(len(pieces)), [len(piece) for piece in pieces])
        # The first of equal keys is the first part's: unique keeps the first one, and parts stand in order.
        keys, first = np.unique(np.concatenate(pieces), return_index=True)
        owners = owners[first]
        missing = index.find(keys)[0] < 0
        keys, owners = keys[missing], owners[missing]
        for number in np.unique(owners).tolist():
            mine = keys[owners == number]
            with (scratch / names[number]).open("ab") as out:
                out.write(mine.tobytes())
            counts[names[number]] += len(mine)
    return {name: count for name, count in counts.items() if count}
