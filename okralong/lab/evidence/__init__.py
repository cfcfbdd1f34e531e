"""The evidence bench: how much marked evidence a retrieval policy shows, at how many tokens, without a generator."""
