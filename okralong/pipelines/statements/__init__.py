"""Numbers, dates and tables of statements, read and worked out by code: no model, no call."""
