"""Workflows: the ways to retrieve evidence that the organizer chooses from."""
