"""The search index of an archive: BM25 and dense vectors over shards that own whole documents."""
