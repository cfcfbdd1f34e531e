"""pipelines/methods."""
