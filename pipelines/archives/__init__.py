"""Versions of an archive: what each holds, how one is published, compared, and taken away."""
