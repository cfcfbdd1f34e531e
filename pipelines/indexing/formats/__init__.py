"""The readers of files, one file for each kind of format."""
