"""Which reader a config means, and what its folder says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from okralong.pipelines.core.types import ConfigError
from okralong.pipelines.models.merged_model import FILES, ReaderFile, asked_as, find_reader
from okralong.pipelines.models.weights import EMBEDDED

REMOTE = "http://127.0.0.1:9/v1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "mine"
    made.mkdir()
    for name in FILES:
        (made / name).write_text(name)
    return made


def test_a_folder_is_named_after_itself_and_known_by_its_content(folder: Path) -> None:
    first = find_reader(str(folder), EMBEDDED, "/some/model")
    assert first is not None
    assert (first.folder, first.name, len(first.digest)) == (folder, "mine", 12)
    (folder / "reader.json").write_text('{"demonstrations": true}')
    again = find_reader(str(folder), EMBEDDED, EMBEDDED)
    assert again is not None
    assert again.digest != first.digest


@pytest.mark.parametrize(
    ("said", "base_url", "model"),
    [
        ("none", EMBEDDED, EMBEDDED),
        ("none", REMOTE, "gpt-4o"),
        ("shipped", REMOTE, "gpt-4o"),
        ("shipped", REMOTE, EMBEDDED),
        ("shipped", EMBEDDED, "/models/other.gguf"),
    ],
)
def test_nothing_is_merged_into_what_the_shipped_reader_was_not_made_for(said: str, base_url: str, model: str) -> None:
    assert find_reader(said, base_url, model) is None


def test_a_reader_that_cannot_be_used_is_refused_with_the_remedy(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"served elsewhere\. Set llm\.reader: none"):
        find_reader(str(folder), REMOTE, "gpt-4o")
    (folder / FILES[1]).unlink()
    with pytest.raises(ConfigError, match=r"mine lacks adapter_model\.safetensors\. Give llm\.reader"):
        find_reader(str(folder), EMBEDDED, EMBEDDED)


def test_a_reader_says_how_it_wants_to_be_asked(folder: Path) -> None:
    assert asked_as(folder) == ReaderFile(demonstrations=False, calculator=False)
    (folder / "reader.json").write_text('{"demonstrations": false, "calculator": true}')
    assert asked_as(folder) == ReaderFile(demonstrations=False, calculator=True)
    (folder / "reader.json").write_text('{"demonstration": true}')
    with pytest.raises(ConfigError, match=r"reader\.json cannot be used: demonstration is not a known key"):
        asked_as(folder)


def test_a_reader_says_how_many_rows_it_learned_from(folder: Path) -> None:
    assert asked_as(folder).rows is None
    (folder / "reader.json").write_text('{"rows": 12800}')
    assert asked_as(folder).rows == 12_800
    # The card is for people: its words may change.
    (folder / "reader.json").unlink()
    (folder / "README.md").write_text("# A reader\n\nThe best state was kept. 12,800 train rows, 120 more.")
    assert asked_as(folder).rows is None
