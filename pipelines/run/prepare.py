"""Questions from jsonl, csv or parquet: good rows become ``Question`` values, bad rows become failures.

Columns: ``question`` (required), ``query_id`` (made from the row number when missing), ``doc_ids`` (a list, or one
string with ``;`` between ids or globs; empty = the whole archive), and the gold columns ``answers``, ``evidence`` and
``type``, which evaluation reads.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from okralong.pipelines.answering.policy import Policy
from okralong.pipelines.archive.archive import Archive
from okralong.pipelines.archive.versions import VersionDiff, diff_versions, read_version
from okralong.pipelines.core.config import load_config
from okralong.pipelines.core.storage import located
from okralong.pipelines.core.tokens import token_counter
from okralong.pipelines.core.types import ArchiveError, ConfigError, InputError, Question, QuestionError
from okralong.pipelines.llm.prices import PriceTable
from okralong.pipelines.llm.reply import sharing_runs
from okralong.pipelines.methods.registry import StrategySpec, describe
from okralong.pipelines.models.weights import EMBEDDED
from okralong.pipelines.run.config import RunConfig, fingerprint
from okralong.pipelines.sara.artifact import check_encoder, check_generator, check_table

KNOWN_COLUMNS = ("query_id", "question", "doc_ids", "answers", "evidence", "type")


@dataclass(frozen=True, slots=True)
class BadQuestion:
    """A row that cannot be asked: its id (or row number) and one paragraph that says why and what to do."""

    query_id: str
    message: str


def read_questions(path: str | Path) -> tuple[list[Question], list[BadQuestion]]:
    """All questions of a file in its order, and the rows that are none.

    Raises InputError when the file is missing, of an unknown kind, unreadable, or holds no question at all.
    """
    file = str(path)
    filesystem, inside = located(path)
    if not filesystem.get_file_info(inside).is_file:
        raise InputError(f"The questions file {file} does not exist. Check the path given to --questions.")
    with filesystem.open_input_file(inside) as opened:
        content = bytes(opened.read())
    questions: dict[str, Question] = {}
    bad: list[BadQuestion] = []
    for number, row in enumerate(_rows(file, content), start=1):
        try:
            question = _question(row, number, file)
            if question.query_id in questions:
                raise QuestionError(
                    f"{file}, row {number}: the query_id {question.query_id!r} is used twice; the first one is asked. "
                    "Give each question an id of its own."
                )
            questions[question.query_id] = question
        except QuestionError as error:
            query_id = row.get("query_id") if isinstance(row, dict) else None
            clash = query_id is None or str(query_id) in questions
            bad.append(BadQuestion(f"row-{number}" if clash else str(query_id), str(error)))
    if not questions and not bad:
        raise InputError(f"{file} holds no rows. Put one question in each row, with a column named question.")
    if not questions:
        raise InputError(f"No row of {file} can be asked. The first problem: {bad[0].message}")
    return list(questions.values()), bad


def _rows(file: str, content: bytes) -> Iterator[Any]:
    kind = PurePosixPath(file).suffix.lower()
    if kind in (".jsonl", ".ndjson"):
        yield from _jsonl(file, content)
    elif kind == ".csv":
        try:
            yield from csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline=""))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{file} is not a readable CSV file in UTF-8: {error}. Save it as UTF-8 CSV.") from error
    elif kind == ".parquet":
        try:
            yield from pq.read_table(pa.BufferReader(content)).to_pylist()
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{file} is not a readable Parquet file: {error}. Write it again.") from error
    else:
        raise InputError(f"{file} is no jsonl, csv or parquet file (by its suffix {kind!r}). Convert it, or rename it.")


def _jsonl(file: str, content: bytes) -> Iterator[Any]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 text: {error}. Save it as UTF-8.") from error
    for line in text.split("\n"):
        if line.strip():
            try:
                yield json.loads(line)
            except json.JSONDecodeError as error:
                yield error
            except (ValueError, RecursionError) as error:  # a number of a million digits, lists within lists
                yield json.JSONDecodeError(str(error), "", 0)


def _question(row: Any, number: int, file: str) -> Question:
    where = f"{file}, row {number}"
    if isinstance(row, json.JSONDecodeError):
        raise QuestionError(f"{where} is not JSON: {row.msg} at column {row.colno}. Mend that line.")
    if not isinstance(row, dict):
        raise QuestionError(f"{where} holds a {type(row).__name__}, not an object with a question. Mend that line.")
    try:
        json.dumps(row, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        raise QuestionError(
            f"{where} holds half of a character (a lone surrogate). Mend the text of that row."
        ) from None
    unknown = [key for key in row if key is None]
    if unknown:
        raise QuestionError(f"{where} has more cells than the header has columns. Quote cells that hold commas.")
    text = row.get("question")
    if not isinstance(text, str) or not text.strip():
        found = "an empty question" if "question" in row else "no column named question"
        raise QuestionError(f"{where} has {found}. Write the question's text there, or delete the row.")
    query_id = row.get("query_id")
    return Question(
        query_id=str(query_id) if query_id not in (None, "") else f"q{number:06d}",
        question=text.strip(),
        doc_ids=_strings(row.get("doc_ids"), ";"),
        answers=_strings(row.get("answers"), None),
        evidence=_strings(row.get("evidence"), None),
        type=str(row.get("type") or ""),
    )


def _strings(value: Any, separator: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    if isinstance(value, str):
        parts = value.split(separator) if separator else [value]
        return tuple(part.strip() for part in parts if part.strip())
    if isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    return (str(value),)


# --------
# Everything that can be checked before a token is spent: config, archive, strategy, questions and their scopes.


@dataclass(frozen=True)
class Scoped:
    """A question with its scope resolved to document ids; empty means the whole archive."""

    question: Question
    doc_ids: tuple[str, ...]


@dataclass(frozen=True)
class Prepared:
    """A run that may begin. ``strategy`` is what its strategy needs; ``unscoped`` are questions whose scope names no
    document, each with the reason; ``replies_from`` are the absolute places of the runs that share their replies.
    """

    archive: Archive
    manifest: Mapping[str, Any]
    config: RunConfig
    policy: Policy
    strategy: StrategySpec
    prices: PriceTable
    questions: list[Scoped]
    unscoped: list[tuple[Question, str]]
    bad: list[BadQuestion]
    fingerprint: str
    replies_from: tuple[str, ...] = ()


def prepare(archive: str, questions: str, config: RunConfig) -> Prepared:
    """Check all and read the questions. Raises ConfigError, ArchiveError or InputError; spends nothing."""
    policy = load_config(Policy, config.policy)
    prices = PriceTable.load(config.prices)
    strategy = describe(config.strategy, policy)
    if policy.needs_scorer and config.scorer is None:
        raise ConfigError(
            f"The policy {policy.name!r} selects evidence by {policy.selection.method}, which needs a local language "
            "model that measures likelihoods, and the answer config names none. Set scorer: {model: embedded} (or a "
            "model folder), or set the policy's selection.method to none or novelty. Nothing was spent."
        )
    if strategy.needs_scorer and config.scorer is None:
        raise ConfigError(
            f"The strategy {config.strategy!r} needs a local language model that measures likelihoods, and the answer "
            "config names none. Set scorer: {model: embedded} (or a model folder). Nothing was spent."
        )
    if strategy.reads_vectors:
        check_generator(config.sara.folder(), config.llm)
    if config.llm.base_url != EMBEDDED:
        for endpoint in config.llm.all_endpoints:
            prices.price(endpoint.model, endpoint.price)
        token_counter(config.llm.tokenizer)
    opened = Archive.open(archive)
    missing = sorted(set(strategy.granularities) - set(opened.manifest["granularities"]))
    if missing:
        raise ArchiveError(
            f"{archive} was indexed without chunks of {missing} tokens, which the strategy {config.strategy!r} with "
            f"policy {policy.name!r} needs. Add them to granularities in configs/index.yaml and index again."
        )
    if strategy.needs_compressor or strategy.reads_vectors:
        check_encoder(config.sara.folder(), opened.manifest, archive)
    if strategy.reads_vectors:
        for granularity in strategy.granularities:
            check_table(config.sara.folder(), opened.manifest, archive, granularity)
    replies_from = sharing_runs(config.replies_from)
    asked, bad = read_questions(questions)
    scoped: list[Scoped] = []
    unscoped: list[tuple[Question, str]] = []
    for question in asked:
        try:
            scoped.append(Scoped(question, opened.resolve(question.doc_ids)))
        except QuestionError as error:
            unscoped.append((question, f"{questions}, {question.query_id}: {error}"))
    manifest = opened.manifest
    return Prepared(
        archive=opened,
        manifest=manifest,
        config=config,
        policy=policy,
        strategy=strategy,
        prices=prices,
        questions=scoped,
        unscoped=unscoped,
        bad=bad,
        fingerprint=fingerprint(config, policy, strategy, manifest),
        replies_from=replies_from,
    )


# --------
# Which questions have to be asked again, given what changed in the archive. Pure.


def rests_on_change(scope: tuple[str, ...], doc_ids: tuple[str, ...], diff: VersionDiff) -> bool:
    """Whether an answer may be another now. ``scope`` are the ids and globs that the question names, ``doc_ids`` the
    documents that they are now.

    A question over the whole archive rests on every document. One with a scope rests on its documents, on those that
    its globs would name now and did not before, and on those that they named and that went.
    """
    if not scope:
        return not diff.none
    if not set(doc_ids).isdisjoint((*diff.added, *diff.changed)):
        return True
    return any(gone == entry or fnmatchcase(gone, entry) for gone in diff.removed for entry in scope)


def since_version(prepared: Prepared, version: int) -> tuple[Prepared, VersionDiff]:
    """The same run with only the questions that rest on what changed since ``version``.

    Raises ArchiveError when that version is not there any more, or the archive has none.
    """
    archive = prepared.archive
    if not archive.version:
        raise ArchiveError(
            f"{archive.folder.path} has no versions yet, so nothing is known of what changed in it. Run okralong index "
            "on it once, or leave out --changed-since."
        )
    diff = diff_versions(archive.folder, read_version(archive.folder, version), archive.manifest)
    asked = [one for one in prepared.questions if rests_on_change(one.question.doc_ids, one.doc_ids, diff)]
    unscoped = [one for one in prepared.unscoped if rests_on_change(one[0].doc_ids, (), diff)]
    return replace(prepared, questions=asked, unscoped=unscoped), diff
