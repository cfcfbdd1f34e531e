"""The parsers of files, one file for each kind of format."""
