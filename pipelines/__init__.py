"""The logic: indexing, search, answering, evaluation. Mostly pure; see docs/architecture.md."""
