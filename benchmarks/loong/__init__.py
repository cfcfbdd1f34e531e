"""Loong's finance questions without a key: what decides is whether the asked value of each document is shown."""
