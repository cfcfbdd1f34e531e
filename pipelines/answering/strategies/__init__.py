"""The methods: each one file with ``answer(question, tools)`` and ``granularities(policy)``."""

from okralong.pipelines.answering.strategies.registry import granularities_needed, load_strategy, names

__all__ = ["granularities_needed", "load_strategy", "names"]
