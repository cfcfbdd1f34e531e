"""Models in folders of one's own: known by their weights, and never trusted with more than these."""

from __future__ import annotations

import ast
import io
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import okralong
from okralong.pipelines.answering.analyzers.heads import TunableEncoder
from okralong.pipelines.answering.analyzers.label_scorer import LabelScorer
from okralong.pipelines.archive.vectors import encoder_key
from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.indexing.config import EmbeddingConfig
from okralong.pipelines.indexing.embedding import SentenceEmbedder
from okralong.pipelines.indexing.query_encoder import PlainEncoder
from okralong.pipelines.models.cross_encoder import CrossEncoder
from okralong.pipelines.models.likelihood import LikelihoodModel
from okralong.pipelines.models.weights import EMBEDDED, merged, resolve_embedding_model

LOADERS: dict[str, Callable[[Path], Any]] = {
    "embedding": lambda folder: SentenceEmbedder(str(folder), 64, "float32", 8),
    "queries": lambda folder: PlainEncoder.load(folder, EmbeddingConfig(model=str(folder))),
    "reranker": lambda folder: CrossEncoder.load(folder, "float32"),
    "label_scorer": lambda folder: LabelScorer.load(str(folder), precision="float32"),
    "scorer": lambda folder: LikelihoodModel.load(str(folder), "float32"),
    "heads": lambda folder: TunableEncoder.load(str(folder)),
}


def encoder_at(folder: Path, weights: bytes) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    found = resolve_embedding_model(str(folder))
    assert found.name == "model"
    return encoder_key(found.name, found.sha256, 512, None, "float32", "auto")


def test_other_weights_under_one_name_are_another_encoder(tmp_path: Path) -> None:
    first = encoder_at(tmp_path / "one" / "model", b"a")
    assert encoder_at(tmp_path / "two" / "model", b"a") == first
    assert encoder_at(tmp_path / "two" / "model", b"b") != first
    assert encoder_at(tmp_path / "one" / "model", b"b") != first  # trained anew in its place


def altered(folder: Path, **files: str | bytes) -> Path:
    """The packaged encoder, with other content in some files; dots of names are underscores."""
    packaged = Path(resolve_embedding_model(EMBEDDED).path)
    others = {name.replace("__", "."): content for name, content in files.items()}
    folder.mkdir()
    for each in packaged.iterdir():
        if each.name not in others:
            (folder / each.name).symlink_to(each)
    for name, content in others.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.mark.parametrize("key", LOADERS)
def test_code_in_a_model_folder_is_never_executed_also_if_the_user_says_yes(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ("AutoConfig", "AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification")
    config = {"model_type": "its-own", "auto_map": dict.fromkeys(names, "own.Own"), "architectures": ["Own"]}
    code = f"open({str(tmp_path / 'executed')!r}, 'w').close()\nclass Own: pass\n"
    folder = altered(tmp_path / "model", config__json=json.dumps(config), own__py=code)
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 9))
    with pytest.raises(ConfigError, match=r"model.* cannot be loaded: .*custom code"):
        LOADERS[key](folder)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("key", LOADERS)
def test_a_damaged_model_folder_is_named(key: str, tmp_path: Path) -> None:
    for name, file in {"weights": {"model__safetensors": b"\xff" * 64}, "tokenizer": {"tokenizer__json": "[]"}}.items():
        with pytest.raises(ConfigError, match=rf"{tmp_path / name}.* cannot be loaded: "):
            LOADERS[key](altered(tmp_path / name, **file))


def test_an_adapter_has_safetensors(tmp_path: Path) -> None:
    (tmp_path / "adapter_model.bin").write_bytes(pickle.dumps({}))
    with pytest.raises(ConfigError, match=r"has no adapter_model\.safetensors"):
        merged(None, tmp_path)


def test_every_model_is_loaded_without_its_code() -> None:
    for file in Path(okralong.__file__).parent.rglob("*.py"):
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("Auto"):
                continue
            if ast.unparse(call.func).endswith(".from_pretrained"):
                given = {ast.unparse(each) for each in call.keywords}
                assert {"**SAFE", "trust_remote_code=False"} & given, f"{file}:{call.lineno}"
