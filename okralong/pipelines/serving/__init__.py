"""An archive as a service: tokens, requests, events and protocols. ``jobs/service.py`` answers the questions."""
