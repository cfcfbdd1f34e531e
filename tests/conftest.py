"""One Ray cluster for each process of tests, and archives that all of them share: starting either takes seconds."""

from __future__ import annotations

import atexit
import json
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from okralong.pipelines.indexing.job import IndexResult
    from tests.fakes.endpoint.process import EndpointProcess
    from tests.fakes.object_store import ObjectStore

# Ray reads these when it is imported.
os.environ["RAY_AUTH_MODE"] = "token"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["RAY_DATA_DISABLE_PROGRESS_BARS"] = "1"
os.environ["RAY_TRAIN_V2_ENABLED"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
# OpenMP's threads wait in a loop otherwise, which took files that load models 13 to 45 % more processor seconds.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# What Ray's helpers do ten times a second, for logs and figures of nodes that no test looks at, takes a tenth of a run.
os.environ["LOG_NAME_UPDATE_INTERVAL_S"] = "30"
os.environ["REPORTER_UPDATE_INTERVAL_MS"] = "60000"
os.environ["RAY_SERVE_CONTROL_LOOP_INTERVAL_S"] = "0.3"
# A model that cannot be loaded is tried once, and not three times: each try is a process that imports torch.
os.environ["RAY_SERVE_MAX_PER_REPLICA_RETRY_COUNT"] = "1"
# As for a cluster of okralong's own: at Ray's 15 its workers starve beside the other process of tests.
os.environ.setdefault("RAY_worker_niceness", "0")

# Ray keeps the first token that a process reads, which a client of the job server does too: it is there from the start.
TOKEN: Final = Path(tempfile.mkdtemp(prefix="okralong-ray-token-")) / "token"
TOKEN.write_text(os.urandom(32).hex())
os.environ["RAY_AUTH_TOKEN_PATH"] = str(TOKEN)
atexit.register(shutil.rmtree, TOKEN.parent, ignore_errors=True)

# Hypothesis gives an example 200 ms, and its drawing a second, which a busy machine exceeds. It would also draw other
# examples in each run, so that a change may fail for what it has not touched.
settings.register_profile("tests", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")

CHECKOUT = Path(__file__).resolve().parent.parent

SLOW_FOLDERS: Final = ("actors", "faults", "models", "reader", "sara", "serving", "training")
"""Folders of ``tests`` whose tests start Ray, a command's process or a model server, or train."""

SLOW_MODULE: Final = "\npytestmark = pytest.mark.slow\n"
"""The line by which a module outside these folders says the same of itself."""

SLOW_FIXTURES: Final = {
    "browser",
    "sample_archive",
    "endpoint_process",
    "merge_cache",
    "minilm",
    "random_reader",
    "ray_cluster",
    "store",
}
"""Fixtures that start Ray, a browser or a server's process, or load a model."""

LONG_FOLDERS: Final = {"faults", "jobs"}
"""Folders with tests of a minute. Of the slow ones they run first: beside the last file nothing runs."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """``make quick`` does not import what is slow: torch, transformers and Ray alone take longer than many tests."""
    if config.option.markexpr != "quick":
        return None
    if any((CHECKOUT / "tests" / name) in (collection_path, *collection_path.parents) for name in SLOW_FOLDERS):
        return True
    is_module = collection_path.suffix == ".py" and collection_path.is_file()
    return True if is_module and SLOW_MODULE in collection_path.read_text(encoding="utf-8") else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as ``quick`` what is neither ``slow`` nor ``soak`` and uses no slow fixture.

    Modules that are quick as a whole run first, before Ray runs beside them; then those that may be long.
    """
    slow_modules: set[Path] = set()
    for item in items:
        folder = item.path.relative_to(CHECKOUT / "tests").parts[0]
        marked = folder in SLOW_FOLDERS or any(item.iter_markers("slow")) or any(item.iter_markers("soak"))
        if not marked and not SLOW_FIXTURES.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("quick")
        else:
            slow_modules.add(item.path)
    long_folders = {CHECKOUT / "tests" / name for name in LONG_FOLDERS}
    items.sort(key=lambda item: (item.path in slow_modules, long_folders.isdisjoint(item.path.parents)))


def made_once(tmp_path_factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder ``name``, filled by ``make`` once for all processes of ``pytest -n``. Not to be written to."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder, made = shared / name, shared / f"{name}.made"
    with FileLock(shared / f"{name}.lock"):
        if not made.exists():
            folder.mkdir()
            make(folder)
            made.touch()
    return folder


NODE_KEY = "sk-of-the-test-node-0123456789"
"""The API key in the environment of the test cluster's nodes, where keys belong; the driver's own may differ."""

ORCHARD = """Annual report of Alder Orchards

Alder Orchards grows apples and pears in the valley of the Wend. The company was founded in 1951 by Ines Calder, who
planted forty trees behind a railway shed. Her granddaughter, Mara Calder, has led it since 2014.

Revenue by division (in thousands)
Division        2022      2023
Apples        12,400    13,150
Pears          4,310     4,020
Cider          1,090     1,480
Total         17,800    18,650

Sales of cider rose because a second press was bought in March 2023. Pears suffered from a late frost. The board
expects no frost insurance to pay before 2025. The company employs 212 people, of whom 64 work only at harvest time.
"""

LANTERN = """# Lantern Works

Lantern Works makes signal lamps for small harbours. Its factory stands in Port Ellery, where the harbour master, Tobias
Venn, was its first customer. A lamp burns for nine years before its cell must be changed.

| Item | 2022 | 2023 |
| --- | --- | --- |
| Lamps sold | 8,112 | 9,034 |
| Cells sold | 2,450 | 2,398 |

In 2023 the firm opened an office in Marrow Bay. It has eleven people and a cat called Fresnel.
"""

FERRY = (
    "<html><head><title>Skerry Ferries</title><style>p {color: red}</style></head><body><h1>Skerry Ferries</h1>"
    "<p>Two boats cross the sound: the Petrel, built in 1998, and the Gannet, built in 2011.</p>"
    "<table><tr><th>Boat</th><th>Crossings</th></tr><tr><td>Petrel</td><td>1,204</td></tr>"
    "<tr><td>Gannet</td><td>1,377</td></tr></table><script>alert(1)</script>"
    "<p>The Gannet was in dock for six weeks, which cost 310 thousand crowns.</p></body></html>"
)


@pytest.fixture(scope="session")
def ray_token() -> Path:
    """The file of the token that all clusters of this session ask for."""
    return TOKEN


@pytest.fixture(scope="session")
def ray_cluster() -> Iterator[None]:
    """A private Ray on this machine, whose workers import okralong from the checkout."""
    import ray

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{CHECKOUT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".rstrip(os.pathsep))
        with pytest.MonkeyPatch.context() as node:
            node.setenv("OPENAI_API_KEY", NODE_KEY)
            _start(ray)
        yield
        if "tests.jobs.warm" in sys.modules:  # what runs have shared on it
            sys.modules["tests.jobs.warm"].WARM.close()
        ray.shutdown()


def _start(ray: Any) -> None:
    ray.init(
        address="local",
        num_cpus=4,
        include_dashboard=False,
        namespace="okralong-tests",
        log_to_driver=False,
        logging_level=logging.ERROR,
        object_store_memory=200 * 1024 * 1024,
    )


@pytest.fixture(scope="session")
def minilm() -> Callable[[list[str]], npt.NDArray[np.float32]]:
    """The packaged sentence encoder in this process, in float32: texts in, unit vectors of shape (n, 384) out."""
    from okralong.pipelines.indexing.embedding import SentenceEmbedder
    from okralong.pipelines.models.weights import resolve_embedding_model

    return SentenceEmbedder(resolve_embedding_model("embedded").path, precision="float32").encode


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short reports below ``reports/`` and 18 questions of all types in ``questions.jsonl``."""
    from okralong.pipelines.samples.questions import generate, write_sample

    sample = generate(reports=3, questions=18, seed=11, words=2_000)
    return made_once(tmp_path_factory, "sample", lambda folder: write_sample(sample, folder))


@pytest.fixture(scope="session")
def sample_archive(sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The reports, indexed with the packaged encoder in this process."""
    return made_once(
        tmp_path_factory, "sample-archive", lambda archive: index_embedded(archive, sample_folder / "reports")
    )


def index_plain(archive: Path, sources: Path, **overrides: Any) -> IndexResult:
    """Index without vectors, in this process: Ray Data takes ten times longer to start than this takes."""
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.indexing.config import IndexConfig
    from okralong.pipelines.indexing.job import LocalStreams, run_index

    config = load_config(IndexConfig, "index.yaml", {"embedding.of": "none"} | overrides)
    return run_index(str(archive), [str(sources)], config, partial(LocalStreams, encoder=None))


def index_embedded(archive: Path, sources: Path) -> IndexResult:
    """Index by the shipped config in this process, with the packaged encoder."""
    from okralong.pipelines.core.config import load_config
    from okralong.pipelines.indexing.config import IndexConfig
    from okralong.pipelines.indexing.embedding import SentenceEmbedder
    from okralong.pipelines.indexing.job import Encoder, LocalStreams, run_index
    from okralong.pipelines.models.weights import resolve_embedding_model

    config, model = load_config(IndexConfig, "index.yaml"), resolve_embedding_model("embedded")
    embedder = SentenceEmbedder(model.path, precision="float32", passage_prefix=config.embedding.passage_prefix)

    def over_limit(texts: list[str]) -> list[bool]:
        return [bool(over) for over in embedder.embed(texts).over_limit]

    encoder = Encoder(embedder.encode, model, lambda: embedder.precision, over_limit)
    return run_index(str(archive), [str(sources)], config, partial(LocalStreams, encoder=encoder))


@pytest.fixture(scope="session")
def plain_archive(sample_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same reports without vectors: a run over them starts no encoder, which takes it seconds of a processor."""
    return made_once(tmp_path_factory, "plain-archive", lambda archive: index_plain(archive, sample_folder / "reports"))


@pytest.fixture(scope="session")
def merge_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder for merges that does not outlast the tests, with links to what is in the user's already."""
    from okralong.pipelines.models.weights import converted_model, gguf_tokenizer, repacked_gguf

    def link(cache: Path) -> None:
        for made in (converted_model(), repacked_gguf(), gguf_tokenizer(repacked_gguf())):
            (cache / made.name).symlink_to(made)

    return made_once(tmp_path_factory, "merge-cache", link)


@pytest.fixture(scope="session")
def random_reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of random weights over all matrices of every block of the embedded model, said to have been trained
    with demonstrations on 12,800 rows. One for all tests: merging it takes half a minute."""
    from okralong.pipelines.models.weights import converted_model
    from tests.fakes.random_reader import write_random_reader

    def write(folder: Path) -> None:
        write_random_reader(folder, converted_model(), layers=range(30))
        (folder / "reader.json").write_text(json.dumps({"demonstrations": True, "rows": 12800}), encoding="utf-8")

    return made_once(tmp_path_factory, "random", write)


@pytest.fixture(scope="session")
def endpoint_process() -> Iterator[EndpointProcess]:
    """One endpoint in a process of its own. Who uses it resets it first: a process takes seconds, a reset nothing."""
    from tests.fakes.endpoint.process import EndpointProcess

    with EndpointProcess() as process:
        yield process


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """A real S3 server on loopback, and the environment that leads to it."""
    from tests.fakes.object_store import ObjectStore

    with ObjectStore() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        yield made
