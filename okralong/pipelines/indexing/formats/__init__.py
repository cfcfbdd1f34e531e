"""The parsers of files, one module per kind of format."""
