"""Where the weights come from, and how they are best run on this machine."""
