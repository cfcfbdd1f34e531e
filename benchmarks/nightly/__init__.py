"""What the machinery costs beside the endpoint's own time: a night's questions against the scripted endpoint."""
