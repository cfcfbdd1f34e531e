"""The methods: each one file with ``answer(question, tools)`` and ``granularities(policy)``."""
