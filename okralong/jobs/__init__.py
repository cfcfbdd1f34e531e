"""What a person or a scheduler starts: the command line, the jobs behind it, the Python API."""
