"""The embed stage of the index job against the bare model and against other ways to embed the same texts."""
