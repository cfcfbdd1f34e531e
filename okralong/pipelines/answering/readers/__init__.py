"""Readers, which find an answer in the documents without calling the generator."""
