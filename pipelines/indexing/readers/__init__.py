"""Readers, one file a format: source files in, raw documents out."""
