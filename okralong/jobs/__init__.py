"""The command line, the jobs behind it, and the Python API."""
