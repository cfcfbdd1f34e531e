"""Named models, downloaded from a local server that speaks the hub's protocol."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

from okralong.jobs.cli import app
from okralong.pipelines.core.types import BrokenError, ConfigError, EndpointError
from okralong.pipelines.models import downloads
from okralong.pipelines.models.downloads import NamedModel, download, downloaded, model_table, recommended
from okralong.pipelines.models.serving import choose
from okralong.pipelines.models.weights import embedded_gguf

COMMIT = "c" * 40
CONTENT = bytes(range(256)) * 1200
CUT = 100_000


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


class Hub(ThreadingHTTPServer):
    """A hub with one file, whose headers are those of huggingface.co for a file in LFS.

    ``content`` is what it sends, ``stated`` the hash that it states. A transfer breaks off after the next of ``cuts``.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.stated = sha256(CONTENT)
        self.cuts: list[int] = []
        self.ranges: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, body: bool) -> None:
        hub = self.server
        if re.fullmatch(rf"/org/tiny-GGUF/resolve/(main|{COMMIT})/tiny\.gguf", self.path):
            self.send_response(302)
            self.send_header("Location", f"http://localhost:{hub.server_port}/cdn/tiny")  # of another host
            self.send_header("X-Repo-Commit", COMMIT)
            self.send_header("X-Linked-Size", str(len(hub.content)))
            self.send_header("X-Linked-ETag", f'"{hub.stated}"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path != "/cdn/tiny":
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        asked = self.headers.get("Range")
        hub.ranges.append(asked)
        start = int(asked.removeprefix("bytes=").split("-")[0]) if asked else 0  # to the end
        part = hub.content[start:]
        self.send_response(206 if asked else 200)
        self.send_header("Content-Length", str(len(part)))
        if asked:
            self.send_header("Content-Range", f"bytes {start}-{len(hub.content) - 1}/{len(hub.content)}")
        self.end_headers()
        if body and hub.cuts:
            self.wfile.write(part[: hub.cuts.pop(0)])
            self.close_connection = True
        elif body:
            self.wfile.write(part)

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


def row(**changes: object) -> NamedModel:
    shipped = model_table()["small"].model_dump()
    return NamedModel(**shipped | {"repository": "org/tiny-GGUF", "file": "tiny.gguf", "sha256": None} | changes)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    monkeypatch.setenv("OKRALONG_CACHE", str(tmp_path / "cache"))
    table(monkeypatch, tiny=row())
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def table(monkeypatch: pytest.MonkeyPatch, **rows: NamedModel) -> None:
    monkeypatch.setattr(downloads, "model_table", lambda: rows)


def test_a_model_is_downloaded_checked_recorded_and_found(hub: Hub, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="okralong model get tiny"):
        downloaded("tiny")
    got = download("tiny", tmp_path / "mine")
    assert got.file == tmp_path / "mine" / "tiny.gguf"
    assert got.file.read_bytes() == CONTENT
    assert downloaded("tiny") == got
    record = downloads.recorded("tiny")
    assert record is not None
    assert (record.commit, record.sha256) == (COMMIT, sha256(CONTENT))
    transfers = len(hub.ranges)
    assert download("tiny", tmp_path / "mine") == got
    assert len(hub.ranges) == transfers
    assert downloaded("no-such-name") is None


def test_a_transfer_that_breaks_off_resumes_where_it_was(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda _: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 10_000)
    hub.cuts = [CUT] + 6 * [0]
    with pytest.raises(EndpointError, match="run the command again: it resumes"):
        download("tiny")
    attempts = len(hub.ranges)
    hub.cuts = []
    assert download("tiny").file.read_bytes() == CONTENT
    assert hub.ranges[attempts:] == [f"bytes={CUT}-"]


def test_other_bytes_than_stated_are_deleted(hub: Hub) -> None:
    hub.content = b"x" + CONTENT[1:]
    with pytest.raises(EndpointError, match=f"has sha256 {sha256(hub.content)}, expected {hub.stated}; it was deleted"):
        download("tiny")
    with pytest.raises(ConfigError, match="is not on this machine"):
        downloaded("tiny")


def test_another_file_than_the_known_one_is_refused(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    table(monkeypatch, tiny=row(sha256="0" * 64))
    with pytest.raises(ConfigError, match="not the file that okralong knows"):
        download("tiny")
    assert hub.ranges == []
    table(monkeypatch, tiny=row())
    download("tiny")
    hub.content, hub.stated = b"new" * 9, sha256(b"new" * 9)
    with pytest.raises(ConfigError, match="not the file that was downloaded before"):
        download("tiny")


def test_a_changed_or_removed_file_is_refused(hub: Hub) -> None:
    file = download("tiny").file
    file.touch()
    assert downloaded("tiny") is not None
    file.write_bytes(b"x" + CONTENT[1:])
    with pytest.raises(ConfigError, match="has changed since tiny was downloaded"):
        downloaded("tiny")
    file.unlink()
    with pytest.raises(ConfigError, match="which is gone"):
        downloaded("tiny")


def test_no_network_no_file_and_no_room_say_what_to_do(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    table(monkeypatch, tiny=row(file="other.gguf"))
    with pytest.raises(EndpointError, match=r"refuses other\.gguf"):
        download("tiny")
    table(monkeypatch, tiny=row())
    full = downloads.shutil.disk_usage("/")._replace(free=1000)
    with monkeypatch.context() as small:
        small.setattr(downloads.shutil, "disk_usage", lambda _: full)
        with pytest.raises(BrokenError, match="--folder on a larger disk"):
            download("tiny")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(EndpointError, match=r"http://127\.0\.0\.1:9 cannot be reached"):
        download("tiny")


def test_the_command_gets_and_lists(hub: Hub) -> None:
    runner = CliRunner()
    got = runner.invoke(app, ["model", "get", "tiny"])
    assert got.exit_code == 0, got.output
    assert "llm.model: tiny" in got.output
    listed = runner.invoke(app, ["model", "list"])
    assert listed.exit_code == 0, listed.output
    assert "here:" in listed.output


@pytest.mark.soak  # writes the tokenizer of a model of 98 MB in a child process
def test_a_downloaded_model_is_served_under_its_hash(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.content = embedded_gguf().read_bytes()
    hub.stated = sha256(hub.content)
    download("tiny")
    served = choose("tiny", "auto", parallel=1, window=512)
    assert served.engine == "llama.cpp"
    assert served.name == f"tiny@{hub.stated[:12]}"
    assert hub.stated[:12] in served.identity
    assert "--quiet 0" in " ".join(served.command(1))
    table(monkeypatch, tiny=row(thinks=True))
    assert "--quiet 1" in " ".join(choose("tiny", "auto", parallel=1, window=512).command(1))
    with pytest.raises(ConfigError, match="is 32768 tokens"):
        choose("tiny", "auto", parallel=1, window=40_000)


def test_the_recommended_model_fits_memory_and_cores() -> None:
    assert list(model_table()) == ["small", "medium", "large"]
    assert recommended(memory_gb=2, cores=2) is None
    assert recommended(memory_gb=24, cores=2) == "small"
    assert recommended(memory_gb=24, cores=4) == "medium"
    assert recommended(memory_gb=64, cores=16) == "large"
    assert recommended(memory_gb=8, cores=16) == "small"
