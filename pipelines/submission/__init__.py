"""Handing a job to a cluster: what it is, what goes with it, and what must not."""
