"""Tables on a real S3 server that errs: what pyarrow's client and our patience make of it."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.pipelines.core.filesystems import holds_credentials, located
from okralong.pipelines.core.schemas import FAILURES
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ConfigError, InputError
from okralong.pipelines.indexing.listing import list_sources
from okralong.pipelines.run.questions import read_questions
from tests.fakes.object_store import BUCKET, Fault, ObjectStore

SILENCE_S = 4.0
"""Longer than the 3 s after which the client under pyarrow gives up by itself."""


def rows(count: int, start: int = 0) -> pa.Table:
    made = [{"id": f"d{start + row}", "stage": "read", "error_type": "x", "message": "why"} for row in range(count)]
    return pa.Table.from_pylist(made, schema=FAILURES)


def test_tables_and_manifests_are_the_same_there_when_every_third_request_fails(store: ObjectStore) -> None:
    folder = Folder.of(f"s3://{BUCKET}/archive")
    assert folder.read_manifest() is None
    assert folder.at("failures").read_tables(FAILURES).num_rows == 0
    store.faults = (Fault("error", "GET", 3), Fault("error", "PUT", 3))
    for part in range(2):
        folder.at("failures").write_table(f"part-{part}.parquet", rows(100, part * 100))
    folder.write_manifest({"kind": "archive"})
    assert folder.at("failures").read_tables(FAILURES).equals(rows(200))
    assert folder.at("failures").read_tables(FAILURES, ["id"])["id"].to_pylist() == rows(200)["id"].to_pylist()
    assert folder.names() == ["failures", "manifest.json"]
    assert folder.read_manifest() == {"kind": "archive"}
    folder.remove("manifest.json")
    folder.remove("manifest.json")  # a missing one is fine
    assert not folder.exists("manifest.json")
    assert store.met["error"] >= 3


def test_small_reads_bear_errors_whose_message_is_larger_than_they_are(store: ObjectStore) -> None:
    folder = Folder.of(f"s3://{BUCKET}/archive")
    folder.write_table("few.parquet", rows(3))
    folder.write_bytes("tiny", b"{}")
    before = store.requests["GET"]
    store.faults = (Fault("error", "GET", 2),)
    for _ in range(4):
        with folder.open("few.parquet") as file:
            parquet = pq.ParquetFile(file)
            assert parquet.read_row_group(0, ["id"])["id"].to_pylist() == ["d0", "d1", "d2"]
        assert folder.read_bytes("tiny") == b"{}"
    assert store.met["error"] >= 3
    assert store.requests["GET"] <= before + 8 + store.met["error"], "one request brings a small file"


def test_a_large_file_reads_as_it_was_written(store: ObjectStore) -> None:
    folder = Folder.of(f"s3://{BUCKET}/archive")
    content = random.Random(5).randbytes(300_000)
    folder.write_bytes("large", content)
    with folder.open("large") as file:
        assert file.size() == len(content)
        for start, size in ((0, 10), (299_990, 100), (150_000, 100_000), (149_999, 2), (299_999, 1), (5, 70_000)):
            file.seek(start)
            assert file.read(size) == content[start : start + size]
        file.seek(0)
        assert file.read() == content
    with pytest.raises(FileNotFoundError):
        folder.read_bytes("missing")


def test_a_small_file_is_one_request_and_makes_no_folders(store: ObjectStore) -> None:
    before = store.requests["PUT"] + store.requests["POST"]
    Folder.of(f"s3://{BUCKET}/run").at("journal").write_table("part-0.parquet", rows(3))
    assert store.requests["PUT"] + store.requests["POST"] == before + 1


def test_silence_in_the_middle_of_a_body_is_waited_out(store: ObjectStore) -> None:
    folder = Folder.of(f"s3://{BUCKET}/archive")
    folder.write_bytes("long", bytes(range(256)) * 4000)
    store.faults = (Fault("silence", "GET", 1, SILENCE_S),)
    assert folder.read_bytes("long") == bytes(range(256)) * 4000
    assert store.met["silence"] == 1, "it was read at the first attempt"


def test_a_body_that_is_cut_off_is_never_taken_for_whole(store: ObjectStore) -> None:
    folder = Folder.of(f"s3://{BUCKET}/archive")
    folder.write_bytes("long", bytes(range(256)) * 4000)
    store.faults = (Fault("cut", "GET", 2),)
    for _ in range(3):
        assert folder.read_bytes("long") == bytes(range(256)) * 4000
    assert store.met["cut"]


def test_questions_and_sources_may_lie_there(store: ObjectStore) -> None:
    reports = Folder.of(f"s3://{BUCKET}/reports")
    reports.at("2023").write_bytes("alder.txt", b"Apples and pears.")
    reports.write_bytes("lantern.md", b"# Lamps")
    Folder.of(f"s3://{BUCKET}").write_bytes("asked.jsonl", b'{"question": "How many?"}\n')
    listing = list_sources([f"s3://{BUCKET}/reports"])
    assert [source.doc_id for source in listing.sources] == ["2023/alder", "lantern"]
    assert [source.read_bytes() for source in listing.sources] == [b"Apples and pears.", b"# Lamps"]
    questions, bad = read_questions(f"s3://{BUCKET}/asked.jsonl")
    assert [question.question for question in questions] == ["How many?"]
    assert not bad
    with pytest.raises(InputError, match="does not exist"):
        read_questions(f"s3://{BUCKET}/other.jsonl")
    with pytest.raises(InputError, match="AWS_ENDPOINT_URL"):
        list_sources([f"s3://{BUCKET}/reports?region=eu-west-1"])


@pytest.mark.parametrize(
    "location",
    [
        "s3://AKIA0123:s3cret@bucket/archive",
        "s3://bucket/archive?access_key=AKIA0123&secret_key=s3cret",
        "gs://s3cret@bucket/archive",
        "abfss://user:s3cret@account.dfs.core.windows.net/x",
    ],
)
def test_a_location_with_credentials_is_refused_and_not_repeated(location: str) -> None:
    with pytest.raises(ConfigError, match="must not hold credentials") as refused:
        located(location)
    assert "s3cret" not in str(refused.value)
    assert "AKIA" not in str(refused.value)


def test_plain_locations_of_each_kind_are_known() -> None:
    assert not holds_credentials("abfss://container@account.dfs.core.windows.net/x")
    assert not holds_credentials("/home/me@work/archive")
    assert located("gs://bucket/archive")[1] == "bucket/archive"
    assert located("gs://bucket/archive")[0].type_name == "gcs"
    with pytest.raises(ConfigError, match="cannot be used"):
        located("ftp://host/archive")
