"""The logic, mostly pure and without Ray; docs/architecture.md draws the packages."""
