"""``python -m okralong``: the command line (see ``okralong/jobs/cli.py``)."""

from __future__ import annotations

from okralong.jobs.cli import main

if __name__ == "__main__":
    main()
