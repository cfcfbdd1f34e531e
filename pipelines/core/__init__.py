"""pipelines/core."""
