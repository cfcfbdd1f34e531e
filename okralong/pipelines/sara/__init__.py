"""SARA shows some passages as text and the others as vectors that replace tokens (docs/sara.md)."""
