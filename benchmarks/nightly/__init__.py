"""The cost of okralong beyond the endpoint's own time: a night's questions with the scripted endpoint."""
