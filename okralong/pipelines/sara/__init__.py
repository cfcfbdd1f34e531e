"""SARA: show some passages to the generator as text and the others as vectors that replace tokens (docs/sara.md)."""
