"""Thin, stateful actors: the pipelines' logic behind Ray handles."""
