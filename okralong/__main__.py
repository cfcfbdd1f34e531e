"""``python -m okralong``: the command line (see ``okralong/jobs/cli.py``)."""

from __future__ import annotations

from collections.abc import Callable

from okralong.pipelines.core.stopping import run_stoppable


def _command() -> Callable[[], None]:
    from okralong.jobs.cli import run_command  # takes a second: a signal is heard before

    return run_command


def main() -> None:
    """The process of the command line."""
    run_stoppable(_command)


if __name__ == "__main__":
    main()
