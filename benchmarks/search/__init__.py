"""Search compared with direct calls of bm25s, FAISS and numpy on the same data."""
