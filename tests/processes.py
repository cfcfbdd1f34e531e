"""Whether a process is still there, and where it listens."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Iterable
from pathlib import Path

import psutil


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


DYING_S = 15.0
"""How long killed processes may take to go on a busy machine. Ray's would stay for 40 s if they were not killed."""


def wait_until_gone(pid: int, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return not alive(pid)


def below(pid: int) -> list[psutil.Process]:
    """The processes that a process has started, and those that they have."""
    return psutil.Process(pid).children(recursive=True)


def living(processes: Iterable[psutil.Process], seconds: float = 0.0) -> list[psutil.Process]:
    """Those that are still there when they have had so many seconds to go."""
    end = time.monotonic() + seconds
    while (left := [one for one in processes if one.is_running() and alive(one.pid)]) and time.monotonic() < end:
        time.sleep(0.05)
    return left


def listening(pids: Iterable[int]) -> dict[str, set[int]]:
    """The addresses on which these processes take TCP connections, and which of them do."""
    sockets: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A":  # TCP_LISTEN, include/net/tcp_states.h
                sockets[f"socket:[{fields[9]}]"] = _address(fields[1].partition(":")[0])
    found: dict[str, set[int]] = {}
    for pid in pids:
        try:
            links = [str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:  # it ends
            continue
        for link in links:
            if link in sockets:
                found.setdefault(sockets[link], set()).add(pid)
    return found


def _address(said: str) -> str:
    """An address as /proc/net writes it: words of four bytes in the order of the machine, which is little-endian."""
    words = b"".join(bytes.fromhex(said[at : at + 8])[::-1] for at in range(0, len(said), 8))
    address = ipaddress.ip_address(words)
    return str(getattr(address, "ipv4_mapped", None) or address)
