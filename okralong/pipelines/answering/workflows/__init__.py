"""Workflows: the ways to retrieve evidence, from which the organizer chooses."""
