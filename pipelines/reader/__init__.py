"""The reader: what a small generator learns to reply, from the data sets, in the executor's own contracts."""
