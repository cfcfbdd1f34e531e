"""The child process that serves a model through an OpenAI-compatible server: llama.cpp's or OpenVINO's.

Run as a module: ``engine_process llama.cpp --model FILE --port N --parent PID --alias NAME --parallel N --window N
--quiet 0`` or ``engine_process openvino --model FILE --port N --parent PID --parallel N --window N``.
"""

from __future__ import annotations

import argparse
import threading
from collections.abc import Callable
from typing import Final

from okralong.pipelines.models.openvino_server import serve_openvino
from okralong.pipelines.models.serving import die_with_parent
from okralong.pipelines.models.weights import available_cores

PROMPT_CACHE_MIB: Final = 512
"""Memory for prefixes of earlier prompts; llama.cpp's default of 8 GiB is too much next to an index. # project default
"""

LOG_ERRORS_AND_WARNINGS: Final = 2
"""llama.cpp's verbosity: a line per request would fill the disk over a night of questions."""


def serve_gguf(model: str, alias: str, port: int, parallel: int, window: int, quiet: int) -> None:
    """Serve a GGUF file through llama.cpp's server until the process ends.

    Each of the ``parallel`` slots has ``window`` tokens. With ``quiet``, the chat template of a model that can think
    tells it not to.
    """
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
    # Web pages in the user's browser must not read replies from this port.
    params.cors_origins = "http://127.0.0.1"
    params.cors_credentials = False
    params.ui = False
    params.endpoint_slots = False
    if quiet:
        params.enable_reasoning = 0
    server = xllamacpp.Server(params)
    print(f"serving at {server.listening_address}", flush=True)
    threading.Event().wait()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    engines = parser.add_subparsers(required=True)
    _engine(engines.add_parser("llama.cpp"), serve_gguf, alias=str, parallel=int, window=int, quiet=int)
    _engine(engines.add_parser("openvino"), serve_openvino, parallel=int, window=int)
    arguments = vars(parser.parse_args())
    serve = arguments.pop("serve")
    die_with_parent(arguments.pop("parent"))
    serve(**arguments)


def _engine(parser: argparse.ArgumentParser, serve: Callable[..., None], **options: type) -> None:
    parser.set_defaults(serve=serve)
    for name, kind in {"model": str, "port": int, "parent": int, **options}.items():
        parser.add_argument(f"--{name}", type=kind, required=True)


if __name__ == "__main__":
    main()
