"""The providers of models: one interface (``base.py``), and an adapter for each official SDK."""
