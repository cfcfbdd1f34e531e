"""SARA: some passages as text, the others as vectors that a generator reads in place of tokens (docs/sara.md)."""
