"""The private parts of Ray that okralong uses or replaces: no others, and each is still what it was for this Ray.

A Ray that renames one, changes its parameters or no longer calls it fails here, before users see Ray's messages in
their terminal, a port on all interfaces, or an exit code that is not theirs.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import io
import re
from pathlib import Path
from typing import Any

import pytest

from okralong.actors.cluster import messages_to
from tests.conftest import CHECKOUT

USED = {
    "ray._private": {"grpc_utils", "ray_constants", "services", "utils", "worker"},
    "ray.serve._private.replica": {"add_port_to_grpc_server"},
}
"""The private modules that okralong imports, and what it takes from them."""

REPLACED: list[tuple[str, str, list[str], str, str]] = [
    ("ray._private.worker", "print_to_stdstream", ["data", "ignore_prefix"], "connect", "print_to_stdstream,"),
    ("ray._private.worker", "disconnect", ["exiting_interpreter"], "shutdown", "disconnect("),
    ("ray._private.utils", "set_sigterm_handler", ["sigterm_handler"], "", ""),
    ("ray.serve._private.replica", "add_port_to_grpc_server", ["server", "address"], "", ""),
]
"""Module, function, its parameters, and a function of the module that calls it by its global name, with these words."""


def private_imports(code: str) -> dict[str, set[str]]:
    """The private modules of Ray that a file imports, also by ``importlib``."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "ray":
            for alias in node.names:
                if any(part.startswith("_") for part in f"{node.module}.{alias.name}".split(".")):
                    found.setdefault(node.module, set()).add(alias.name)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("ray.") and "._" in alias.name:
                    found.setdefault(alias.name, set())
        elif isinstance(node, ast.Constant) and re.fullmatch(r"ray(\.\w+)*\._private(\.\w+)*", str(node.value)):
            found.setdefault(node.value, set()).update(private_names(code, node.value))
    return found


def private_names(code: str, module: str) -> set[str]:
    return {name for where, name, *_ in REPLACED if where == module and f".{name}" in code}


def test_no_other_private_part_of_ray_is_used() -> None:
    found: dict[str, set[str]] = {}
    for file in sorted((CHECKOUT / "okralong").rglob("*.py")):
        for module, names in private_imports(file.read_text(encoding="utf-8")).items():
            found.setdefault(module, set()).update(names)
    assert found == USED


@pytest.mark.parametrize(("module", "name", "parameters", "caller", "words"), REPLACED, ids=lambda each: str(each)[:40])
def test_what_is_replaced_is_still_called(
    module: str, name: str, parameters: list[str], caller: str, words: str
) -> None:
    home = importlib.import_module(module)
    assert list(inspect.signature(getattr(home, name)).parameters) == parameters
    if caller:
        assert words in inspect.getsource(getattr(home, caller))


def test_ray_sets_its_signal_handler_and_opens_its_port_by_the_replaced_names() -> None:
    worker = importlib.import_module("ray._private.worker")
    assert "ray._private.utils.set_sigterm_handler(sigterm_handler)" in inspect.getsource(worker.init)
    replica = Path(str(importlib.import_module("ray.serve._private.replica").__file__)).read_text(encoding="utf-8")
    assert 'add_port_to_grpc_server(self._server, "[::]:0")' in replica, "else keep_replica_private changes nothing"
    services: Any = importlib.import_module("ray._private.services")
    assert "ray_constants.ENABLE_RAY_CLUSTER" in inspect.getsource(services.get_node_ip_address)


def test_ray_s_messages_go_to_the_log_in_the_block_only() -> None:
    worker: Any = importlib.import_module("ray._private.worker")
    log, before = io.StringIO(), worker.print_to_stdstream
    with messages_to(log):
        worker.print_to_stdstream({"pid": 7, "is_err": True, "lines": ["a node died"]}, ignore_prefix=False)
    assert log.getvalue() == "(7) a node died\n"
    assert worker.print_to_stdstream is before
