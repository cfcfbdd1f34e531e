"""The catalog of sources, and the one door through which a data set comes in."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import constants

from okralong.lab.datasets.catalog import DataSource, load_catalog
from okralong.lab.datasets.registry import FORMATS, MissingSet, read_dataset
from okralong.pipelines.core.types import ConfigError, InputError
from tests.evaluation.datasets.filings import finqa_row, write


def source(**changes: str) -> DataSource:
    return DataSource.model_validate(
        {"name": "pages", "part": "dev", "format": "finqa", "path": "finqa/dev.json", **changes}
    )


def test_every_source_of_the_catalogs_has_an_adapter_and_a_name_of_its_own() -> None:
    at_hand, papers = load_catalog().sources, load_catalog("paper_datasets.yaml").sources
    assert {each.format for each in (*at_hand, *papers)} == set(FORMATS) - {"own"}
    for sources in (at_hand, papers):
        assert len({(each.path, each.part) for each in sources}) == len(sources)
        assert not any(Path(each.path).is_absolute() for each in sources)
    assert all(each.origin for each in papers)


def test_a_source_listed_twice_is_refused(tmp_path: Path) -> None:
    line = "  - {name: pages, part: dev, format: finqa, path: a.json}\n"
    (tmp_path / "datasets.yaml").write_text(f"sources:\n{line}{line}")
    with pytest.raises(ConfigError, match="the source pages dev is listed twice"):
        load_catalog(tmp_path / "datasets.yaml")


def test_a_file_at_hand_is_read_under_the_sources_name(tmp_path: Path) -> None:
    write(tmp_path / "finqa" / "dev.json", [finqa_row()])
    data_set = read_dataset(source(hub="nobody/nothing/dev.json"), tmp_path)
    assert (data_set.name, data_set.part, len(data_set.items)) == ("pages", "dev", 1)


def test_what_cannot_be_had_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has the format 'quiz', which has no adapter. Formats: hotpotqa"):
        read_dataset(source(format="quiz"), tmp_path)
    with pytest.raises(InputError, match=r"finqa/dev.json does not exist, and the source 'pages' \(dev\) names no hub"):
        read_dataset(source(), tmp_path)
    with pytest.raises(InputError, match="it must be owner/repository/file"):
        read_dataset(source(hub="nobody/dev.json"), tmp_path)


def test_a_missing_set_is_said_with_where_to_get_it(tmp_path: Path) -> None:
    wanted = load_catalog("paper_datasets.yaml").source("uda_fin_qa", "documents")
    with pytest.raises(MissingSet, match=r"fin_docs does not exist. Get UDA's fin_docs.zip.*CC BY-SA 4.0; 2.61 GB"):
        read_dataset(wanted, tmp_path)
    (tmp_path / wanted.path).mkdir(parents=True)
    with pytest.raises(MissingSet, match=r"uda/qa/fin_qa.csv does not exist. Get UDA's .* from https://huggingface"):
        read_dataset(wanted, tmp_path)


def test_a_hub_that_cannot_be_reached_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"nobody/nothing/a/dev.json cannot be fetched from the hub"):
        read_dataset(source(hub="nobody/nothing/a/dev.json"), tmp_path)
