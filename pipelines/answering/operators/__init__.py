"""The operators of the executor (paper section 3.3): one small file each, over values and ``Tools``."""
