"""How sure is a mean? Questions on one document rise and fall together, so documents are drawn and not questions."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

DRAWS = 2000
"""Bootstrap samples. Ours."""


def clustered_interval(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int = 7, draws: int = DRAWS
) -> tuple[float, float] | None:
    """The 95 % percentile interval of the mean of ``values``, resampling whole clusters with replacement.

    ``clusters[i]`` says to which ``values[i]`` belongs. None when there are fewer than two clusters. Raises ValueError
    when the two differ in length.
    """
    sums: dict[Hashable, tuple[float, int]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        total, count = sums.get(cluster, (0.0, 0))
        sums[cluster] = (total + value, count + 1)
    if len(sums) < 2:
        return None
    totals = np.array([total for total, _ in sums.values()])
    counts = np.array([count for _, count in sums.values()])
    drawn = np.random.default_rng(seed).integers(0, len(sums), size=(draws, len(sums)))
    means = totals[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)
