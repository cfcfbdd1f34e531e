"""An archive of several languages: terms of each document's language, found by questions in any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.search import search
from okralong.pipelines.core.schemas import DOCUMENTS, METADATA
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.indexing.config import EmbeddingConfig, IndexConfig
from okralong.pipelines.indexing.job import LocalStreams, run_index
from okralong.pipelines.run.metadata_filter import MetadataFilter
from tests.archives.nights import encoder

NONE = IndexConfig(granularities=[64], shards=2, embedding=EmbeddingConfig(of="none"))
TEXTS = {
    "de.txt": "Die Gesellschaft steigerte ihre Umsätze im Berichtsjahr deutlich. Der Vorstand schlägt den Aktionären "
    "vor, die Dividende zu erhöhen, weil die Ertragslage sich verbessert hat.",
    "en.txt": "The company increased its revenues in the year under review. The board proposes to the shareholders "
    "that the dividend be raised, because the results of operations have improved.",
    "fr.txt": "La société a augmenté ses chiffres d'affaires au cours de l'exercice. Le conseil propose aux "
    "actionnaires de relever le dividende, parce que les résultats se sont améliorés.",
    "ja.txt": "当社の売上高は前年度に比べて増加しました。取締役会は株主に対して配当の引き上げを提案します。",
    "zh.txt": "公司本年度营业收入同比增长。董事会向股东建议提高股息，因为经营业绩有所改善。",
}


def write(folder: Path, *names: str) -> str:
    folder.mkdir(exist_ok=True)
    for name in names or TEXTS:
        (folder / name).write_text(TEXTS[name], encoding="utf-8")
    return str(folder)


def index(archive: Path, folder: str, **said: str) -> Archive:
    """Index a folder; ``said`` is the metadata of a document, its doc_id among it."""
    config = NONE
    if said:
        told = archive.parent / "metadata.jsonl"
        told.write_text(json.dumps(said), encoding="utf-8")
        config = NONE.model_copy(update={"metadata": str(told)})
    run_index(str(archive), [folder], config, lambda at, each: LocalStreams(at, each, encoder()))
    return Archive.open(archive)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    place = tmp_path_factory.mktemp("mixed")
    return index(place / "archive", write(place / "texts"))


async def found(archive: Archive, query: str, *scope: str) -> list[str]:
    languages = archive.languages_of(scope)
    hits = (await search(archive.clients(64), query, None, scope, 5, languages)).exact
    return list(dict.fromkeys(hit.chunk.doc_id for hit in hits))


def test_languages_are_listed_and_filter(mixed: Archive) -> None:
    assert mixed.contents()["language"].to_pylist() == ["de", "en", "fr", "ja", "zh"]
    assert mixed.manifest["languages"] == {"de": 1, "en": 1, "fr": 1, "ja": 1, "zh": 1}
    assert mixed.document("de").language == "de"
    documents = MetadataFilter(mixed.metadata())
    try:
        assert documents.doc_ids("language = 'de'") == {"de"}
        assert documents.doc_ids("language IN ('ja', 'zh')") == {"ja", "zh"}
    finally:
        documents.close()
    assert mixed.languages_of(()) == {"de", "en", "fr", "ja", "zh"}
    assert mixed.languages_of(["de", "en"]) == {"de", "en"}


@pytest.mark.parametrize(
    ("question", "document"),
    [
        ("Wie entwickelte sich der Umsatz?", "de"),
        ("Was wird dem Aktionär empfohlen?", "de"),
        ("How high was the revenue?", "en"),
        ("Que propose le conseil à l'actionnaire ?", "fr"),
        ("resultat ameliore", "fr"),
        ("2023年の売上高は？", "ja"),
        ("营业收入增长了吗？", "zh"),
    ],
)
async def test_questions_find_the_document_of_their_language(mixed: Archive, question: str, document: str) -> None:
    assert (await found(mixed, question))[0] == document
    assert (await found(mixed, question, document)) == [document]


async def test_an_english_scope_is_searched_with_english_terms(mixed: Archive, tmp_path: Path) -> None:
    alone = index(tmp_path / "archive", write(tmp_path / "texts", "en.txt"))
    assert alone.languages_of(()) == {"en"}
    for query in ("dividends of the company", "Was the dividend raised?", "Vorstand"):
        wanted = (await search(alone.clients(64), query, None, (), 5)).exact
        assert (await search(mixed.clients(64), query, None, ("en",), 5, mixed.languages_of(["en"]))).exact == wanted


async def test_the_language_can_be_given(tmp_path: Path) -> None:
    folder, archive = write(tmp_path / "texts", "de.txt", "en.txt"), tmp_path / "archive"
    assert await found(index(archive, folder), "Umsatz") == ["de"]
    opened = index(archive, folder, doc_id="de", language="nl-BE")
    assert opened.contents()["language"].to_pylist() == ["nl-BE", "en"]
    assert opened.languages_of(()) == {"nl", "en"}
    assert opened.manifest["changes"]["unchanged"] == 2
    assert await found(opened, "Umsätze") == ["de"]
    assert await found(opened, "Umsatz") == []


async def test_an_archive_of_an_earlier_release_keeps_its_english_terms(tmp_path: Path) -> None:
    folder, archive = write(tmp_path / "texts", "de.txt", "en.txt"), tmp_path / "archive"
    forget_languages(Folder.of(archive), index(archive, folder, doc_id="de", language="en"))
    old = Archive.open(archive)
    assert "language" not in old.contents().column_names
    assert old.languages_of(()) == {"en"}
    assert old.document("de").language == ""
    assert await found(old, "Umsatz") == []
    assert await found(old, "Umsätze der Gesellschaft") == ["de"]
    new = index(archive, folder)
    assert new.contents()["language"].to_pylist() == ["de", "en"]
    assert await found(new, "Umsatz") == ["de"]


def forget_languages(archive: Folder, opened: Archive) -> None:
    """Rewrite the tables of an archive as they were before they had languages."""
    places = [(archive.at("metadata"), opened.manifest["files"]["metadata"], METADATA, "2")]
    places += [(archive.at("documents"), name, DOCUMENTS, "5") for name in archive.at("documents").names(".parquet")]
    for folder, name, schema, version in places:
        with folder.open(name) as file:
            table = pq.read_table(file).drop_columns(["language"])
        if "given" in table.column_names:
            nothing = pa.array([[]] * len(table), table.schema.field("given").type)
            table = table.set_column(table.column_names.index("given"), "given", nothing)
        about = dict(schema.metadata) | {b"okralong.schema_version": version.encode()}
        folder.write_table(name, table.replace_schema_metadata(about))
    manifest = archive.at("versions").names(".json")[-1]
    kept = json.loads(archive.at("versions").read_bytes(manifest))
    del kept["languages"]
    archive.at("versions").write_bytes(manifest, json.dumps(kept).encode())
