"""The child process that serves a model folder through the server of the transformers library.

``transformers_engine --model FOLDER --port N --device D --dtype T --parent PID``, run as a module.
"""

from __future__ import annotations

import argparse

from okralong.pipelines.models.serving import die_with_parent


def main() -> None:
    """Parse the command line and serve until the process ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--model", "--device", "--dtype"):
        parser.add_argument(name, required=True)
    for name in ("--port", "--parent"):
        parser.add_argument(name, type=int, required=True)
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)

    # The class behind `transformers serve`; the command itself would first ask a server about new releases.
    from transformers.cli.serve import Serve

    Serve(
        force_model=arguments.model,
        device=arguments.device,
        dtype=arguments.dtype,
        host="127.0.0.1",
        port=arguments.port,
        continuous_batching=arguments.device != "cpu",
    )


if __name__ == "__main__":
    main()
