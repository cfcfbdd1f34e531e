"""Workflows, the ways of retrieving evidence between which the organizer chooses."""
