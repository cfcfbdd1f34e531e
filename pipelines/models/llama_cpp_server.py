"""The child process that serves a GGUF file through llama.cpp's own OpenAI-compatible server.

``llama_cpp --model FILE --alias NAME --port N --parallel N --window N --parent PID``, run as a module.
"""

from __future__ import annotations

import argparse
import threading
from typing import Final

from okralong.pipelines.models.serving import die_with_parent
from okralong.pipelines.models.weights import available_cores

PROMPT_CACHE_MIB: Final = 512
"""Memory for the prefixes of earlier prompts; ours (llama.cpp's own default is 8 GiB, too much beside an index)."""

LOG_ERRORS_AND_WARNINGS: Final = 2
"""llama.cpp's verbosity: a line for each request would fill the disk over a night of questions."""


def serve(model: str, alias: str, port: int, parallel: int, window: int) -> None:
    """Serve until the process ends. Each of the ``parallel`` slots has a window of its own of ``window`` tokens."""
    import xllamacpp

    cores = available_cores()
    params = xllamacpp.CommonParams()
    params.model.path = model
    params.model_alias = {alias}
    params.hostnames = ["127.0.0.1"]
    params.port = port
    params.n_ctx = window * parallel
    params.n_parallel = parallel
    params.kv_unified = False
    params.fit_params = False
    params.cont_batching = True
    params.cache_prompt = True
    params.cache_ram_mib = PROMPT_CACHE_MIB
    params.n_gpu_layers = 0
    params.cpuparams.n_threads = cores
    params.cpuparams_batch.n_threads = cores
    params.verbosity = LOG_ERRORS_AND_WARNINGS
    # A web page that the user has open must not be able to read replies from this port.
    params.cors_origins = "http://127.0.0.1"
    params.cors_credentials = False
    params.ui = False
    params.endpoint_slots = False
    server = xllamacpp.Server(params)
    print(f"serving at {server.listening_address}", flush=True)
    threading.Event().wait()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--alias", required=True)
    for name in ("--port", "--parallel", "--window", "--parent"):
        parser.add_argument(name, type=int, required=True)
    arguments = parser.parse_args()
    die_with_parent(arguments.parent)
    serve(arguments.model, arguments.alias, arguments.port, arguments.parallel, arguments.window)


if __name__ == "__main__":
    main()
