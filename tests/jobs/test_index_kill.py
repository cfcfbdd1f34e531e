"""An index job that is killed goes on with the same command, and does again no more than was in the making."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

import okralong
from okralong.pipelines.archive.vectors import VECTORS, VectorStore
from okralong.pipelines.archive.versions import latest_version
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import EXIT_STOPPED
from okralong.pipelines.samples.questions import generate, write_sample
from tests.conftest import CHECKOUT
from tests.faults.processes import MARK, marked

pytestmark = pytest.mark.slow

FILES_BEFORE_KILL = 4
MOST_LOST = 0.05
"""Of the texts of the job, those that may be embedded twice: the issue's bound."""


def _job(folder: Path) -> subprocess.Popen[str]:
    """An index job over three reports below ``folder``, into ``archive``."""
    write_sample(generate(reports=3, questions=3, seed=5, words=4_500), folder)
    config = folder / "index.yaml"
    config.write_text(yaml.safe_dump({"granularities": [40, 64]}))
    ours = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | {
        "PYTHONPATH": str(CHECKOUT),
        MARK: str(folder),
    }
    command = [sys.executable, "-m", "okralong.jobs.cli", "index", str(folder / "archive")]
    command += ["--from", str(folder / "reports"), "--config", str(config)]
    return subprocess.Popen(command, env=ours, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _end(job: subprocess.Popen[str], archive: Path, files: int, by: signal.Signals) -> str:
    """What the job has said when a signal ended it, sent when so many vector files were there."""
    try:
        deadline = time.monotonic() + 300
        while len(list(archive.glob(f"{VECTORS}/*/*.parquet"))) < files and job.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        job.send_signal(by)
        said, _ = job.communicate(timeout=300)
    assert latest_version(Folder.of(archive)) is None
    return " ".join(said.split())


@pytest.mark.soak  # tests/faults/test_signals.py has a signal to an index job
def test_sigterm_ends_an_index_job_with_the_code_of_a_stop(tmp_path: Path) -> None:
    job = _job(tmp_path)
    said = _end(job, tmp_path / "archive", 1, signal.SIGTERM)
    assert job.returncode == EXIT_STOPPED, said
    assert "Stopped. The archive is unchanged." in said
    assert "SIGTERM" not in said
    assert "Traceback" not in said


def test_a_killed_index_job_recomputes_under_a_twentieth(ray_cluster: None, tmp_path: Path) -> None:
    archive, config = tmp_path / "archive", tmp_path / "index.yaml"
    _end(_job(tmp_path), archive, FILES_BEFORE_KILL, signal.SIGKILL)
    vectors = Folder.of(archive)
    deadline = time.monotonic() + 120
    while any("Map" in one.title for one in marked(str(tmp_path))):  # those that read and embed
        assert time.monotonic() < deadline, "its workers notice that it is gone"
        time.sleep(0.1)
    (encoder,) = (name.removeprefix("encoder=") for name in vectors.at(VECTORS).names())
    store = VectorStore.of(vectors, encoder)
    held = sum(len(store.keys(number)) for number in store.numbers())
    sizes = [len(store.keys(number)) for number in store.numbers()]
    # As the command does it, on the Ray that runs already.
    work = okralong.index(archive, [tmp_path / "reports"], config=config).work
    distinct = sum(len(store.keys(number)) for number in store.numbers())
    assert work["files_read"] == 0
    assert work["texts_embedded"] == distinct - held  # nothing that was on the disk is done again
    assert max(sizes) <= MOST_LOST * distinct  # and at most one file was in the making
    keys = [key for number in store.numbers() for key in store.keys(number).tolist()]
    assert len(keys) == len(set(keys))
    print(f"{held} of {distinct} texts were held after the kill; at most {max(sizes)} were embedded twice")
