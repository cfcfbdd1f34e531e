"""pipelines/archive."""
