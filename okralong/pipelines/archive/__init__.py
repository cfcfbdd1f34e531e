"""An archive on disk: versions, vectors, index shards, and how they are searched."""
