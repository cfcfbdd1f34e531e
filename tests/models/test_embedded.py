"""The packaged models: found, checked, and rewritten once."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

import pytest

from okralong.pipelines.core.child_process import run_module
from okralong.pipelines.core.types import ConfigError, OkraError
from okralong.pipelines.models import weights as embedded
from okralong.pipelines.models.weights import build_once, cache_folder, sha256_of


def test_packaged_embedding_model_is_checked() -> None:
    model = embedded.resolve_embedding_model("embedded")
    assert model.sha256 == embedded.MINILM_SHA256
    assert sha256_of(Path(model.path) / "model.safetensors") == embedded.MINILM_SHA256
    assert (Path(model.path) / "modules.json").is_file()


def test_local_folder_and_hub_name(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    local = embedded.resolve_embedding_model(str(tmp_path / "mine"))
    assert (local.path, local.name, local.sha256) == (str((tmp_path / "mine").resolve()), "mine", None)
    hub = embedded.resolve_embedding_model("facebook/contriever-msmarco")
    assert (hub.path, hub.sha256) == ("facebook/contriever-msmarco", None)


@pytest.mark.parametrize("name", ["/no/such/folder", "./nothing-here", "a/b/c", " "])
def test_missing_folder_is_no_hub_name(name: str) -> None:
    with pytest.raises(ConfigError, match="is not a folder"):
        embedded.resolve_embedding_model(name)


def test_altered_and_missing_weights_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"has sha256 .* expected 0000.*force-reinstall"):
        embedded.packaged_file(embedded.MINILM_PACKAGE, "model.safetensors", "0" * 64)
    with pytest.raises(ConfigError, match=r"holds no nothing\.bin"):
        embedded.packaged_file(embedded.MINILM_PACKAGE, "nothing.bin", "0" * 64)
    with pytest.raises(ConfigError, match="not installed"):
        embedded.packaged_file("okralong-no-such-package", "weights.bin", "0" * 64)


def test_cache_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OKRALONG_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("OKRALONG_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "okralong"


def test_failed_build_leaves_nothing_and_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OKRALONG_CACHE", str(tmp_path))

    def break_half_way(path: Path) -> None:
        path.mkdir()
        (path / "half").touch()
        raise RuntimeError("disk full")

    with pytest.raises(RuntimeError, match="disk full"):
        build_once("thing", break_half_way)
    assert [entry.name for entry in tmp_path.iterdir() if not entry.name.endswith(".lock")] == []
    assert build_once("thing", lambda path: path.write_text("whole") and None).read_text() == "whole"


def _slow_build(path: Path) -> None:
    time.sleep(0.3)
    path.write_text(str(multiprocessing.current_process().pid))


def _ask(answers: multiprocessing.Queue[str]) -> None:
    answers.put(build_once("shared", _slow_build).read_text())


def test_two_processes_build_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OKRALONG_CACHE", str(tmp_path))
    context = multiprocessing.get_context("fork")
    answers: multiprocessing.Queue[str] = context.Queue()
    processes = [context.Process(target=_ask, args=(answers,)) for _ in range(3)]
    for process in processes:
        process.start()
    seen = {answers.get(timeout=180) for _ in processes}
    for process in processes:
        process.join()
    assert len(seen) == 1


def test_failing_module_is_explained() -> None:
    with pytest.raises(OkraError, match=r"rewrite .* ended with code 1"):
        run_module("okralong.pipelines.models.rewrite", "q8_0", "no-such-file.gguf", "never-written.gguf")


def test_rewriting_is_done_once() -> None:
    made = embedded.repacked_gguf()
    stamp = made.stat().st_mtime_ns
    assert embedded.repacked_gguf().stat().st_mtime_ns == stamp
    assert made.parent == cache_folder()


def test_gguf_tokenizer_counts_without_the_weights(tmp_path: Path) -> None:
    from okralong.pipelines.core.tokens import token_counter

    folder = embedded.gguf_tokenizer(embedded.repacked_gguf())
    assert not list(folder.glob("*.safetensors"))
    assert token_counter(str(folder))("The capital of France is Paris.") == 7
    assert "<|im_start|>" in (folder / "chat_template.jinja").read_text()
