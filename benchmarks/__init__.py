"""Programs that measure okralong, each in one run; ``results/`` keeps what was seen."""
