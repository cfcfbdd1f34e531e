"""A run folder: whether a run may continue in it, its questions' statuses, manifest and result."""

from __future__ import annotations

import html
import importlib.metadata
import json
import platform
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from okralong.pipelines.archive.versions import Location, version_numbers
from okralong.pipelines.core.schemas import SCHEMA_VERSION
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError, ConfigError
from okralong.pipelines.llm.bill import COLUMNS, bill
from okralong.pipelines.run.rows import BEGUN, table, write_order

if TYPE_CHECKING:
    import pyarrow as pa

    from okralong.pipelines.run.prepare import Prepared

PACKAGES = ("okralong", "ray", "torch", "transformers", "sentence-transformers", "pyarrow", "openai", "numpy")
ROWS_IN_NOTEBOOK: Final = 20


def archive_of_run(folder: Folder, archive: str) -> str:
    """Return the archive that a run continues with: the version it began with, unless ``archive`` names a version.

    A run that has not begun, or that began over another archive, gets ``archive`` as it is. Raises ArchiveError if the
    version is gone.
    """
    asked = Location.of(archive)
    if asked.version is not None or not folder.exists(BEGUN):
        return archive
    begun = folder.read_json(BEGUN)
    started = Location.of(begun["archive"])
    place = Folder.of(asked.place)
    if Folder.of(started.place).path != place.path:
        return archive
    if started.version not in version_numbers(place):
        raise ArchiveError(
            f"{folder.path} was begun with version {started.version} of {place.path}, which no longer exists: it "
            "was vacuumed or purged. The run's answers stay readable, but it cannot continue. Choose another "
            f"folder; with --replies-from {folder.path} identical requests are free."
        )
    return str(Location(asked.place, started.version))


def begin(folder: Folder, prepared: Prepared) -> None:
    """Mark the folder as this run's, or check that it is. Raises ConfigError if it is another run's.

    ``columns`` in ``run.json`` are a matrix's questions: those of this start, then others of earlier starts. The order
    of all questions is recorded in the same way.
    """
    if begun_alike(folder, prepared):
        begun = folder.read_json(BEGUN)
        write_order(folder, prepared.order)
        columns = list(dict.fromkeys((*prepared.columns, *begun.get("columns", ()))))
        checks = begun.get("checks", []) if prepared.checks is None else list(prepared.checks)
        if columns == begun.get("columns", []) and checks == begun.get("checks", []):
            return
        begun |= {"columns": columns, "checks": checks}
    else:
        begun = {
            "run_id": uuid.uuid4().hex,
            "fingerprint": prepared.fingerprint,
            "archive": str(prepared.archive.location),
            "archive_fingerprint": prepared.manifest.get("fingerprint"),
            "config": prepared.config.model_dump(mode="json"),
            "confidence": prepared.confidence,
            "columns": prepared.columns,
            "checks": list(prepared.checks or ()),
        }
    folder.write_bytes(BEGUN, json.dumps(begun, indent=2, sort_keys=True).encode())
    write_order(folder, prepared.order)


def judged_otherwise(folder: Folder, prepared: Prepared) -> str:
    """Return a warning if the run began with other models for its confidences, else "".

    The run may continue, because confidence does not affect the answers. (If the policy escalates by it, the model is
    part of the run's fingerprint.)
    """
    begun = folder.read_json(BEGUN)
    before, now = begun["confidence"], prepared.confidence
    if before == now:
        return ""
    models = [" ".join(map(str, each.values())) if each else "none" for each in (before, now)]
    return (
        f"{folder.path} was begun with other models of confidence: it is estimated by {models[0]} for those answered "
        f"before and by {models[1]} from now on, so the two are not comparable."
    )


def begun_alike(folder: Folder, prepared: Prepared) -> bool:
    """Return whether the folder is this run's; False if none was begun there. Raises ConfigError if it is another's.

    A start that ended before its first question, such as one with an unknown model, does not bind the folder: the
    message says to correct the config, and the same command has to accept the corrected one.
    """
    if not folder.exists(BEGUN):
        return False
    begun = folder.read_json(BEGUN)
    if begun["fingerprint"] == prepared.fingerprint:
        return True
    if not any(folder.exists(name) for name in ("answers", "journal", "ledger")):
        return False
    now = prepared.config.model_dump(mode="json")
    decides = ("strategy", "policy", "analyzer", "llm", "reranker", "scorer", "token_classifier", "sara")
    changed = [key for key in decides if begun["config"][key] != now[key]] or [
        "policy values, the archive, or the release of okralong"
    ]
    raise ConfigError(
        f"{folder.path} was begun with another set-up (different: {', '.join(changed)}), but a run has only "
        "one. Choose another folder, or use the config that the folder was begun with "
        f"(its {BEGUN} has it)."
    )


def statuses(folder: Folder, prepared: Prepared) -> dict[str, str]:
    """Return the statuses of the questions already asked in this run, by query_id.

    Raises ConfigError if a query_id now stands for another question, scope or answer type.
    """
    asked = {
        scoped.question.query_id: (scoped.question.question, scoped.doc_ids, scoped.question.answer_type)
        for scoped in prepared.questions
    }
    found: dict[str, str] = {}
    for row in table(folder, "answers", ["query_id", "question", "doc_ids", "status", "answer_type"]):
        query_id = row["query_id"]
        before = (row["question"], tuple(row["doc_ids"]), row["answer_type"] or "")
        if row["status"] != "failed" and asked.get(query_id, before) != before:
            raise ConfigError(
                f"The question {query_id!r} was asked in {folder.path} with other words, another scope or another "
                "answer_type. Give the new question its own id, or choose another folder."
            )
        found[query_id] = row["status"]
    return found


def manifest(prepared: Prepared, generator: dict[str, Any], seconds: float, totals: dict[str, Any]) -> dict[str, Any]:
    """Return the run's manifest: its set-up and its totals."""
    return {
        "schema_version": SCHEMA_VERSION,
        "fingerprint": prepared.fingerprint,
        "config": prepared.config.model_dump(mode="json"),
        "policy": prepared.policy.model_dump(mode="json"),
        "archive": {
            "location": str(prepared.archive.location),
            "version": prepared.archive.version,
            "fingerprint": prepared.manifest.get("fingerprint"),
            "embedding": prepared.manifest["embedding"],
        },
        "generator": generator,
        "confidence": prepared.confidence,
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "questions": len(prepared.questions) + len(prepared.unscoped),
        "bad_rows": len(prepared.bad),
        "totals": totals,
        "seconds_last_session": round(seconds, 3),
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "from a source tree"


@dataclass(frozen=True)
class RunResult:
    """The result of a run; its contents are read from the run's tables.

    Attributes:
        run: The run folder.
        statuses: Number of questions by status.
        exit_code: The command's exit code.
        stopped: Why the run could not go on, or "".
        golds: Gold answers from the questions file, by query_id.
    """

    run: str
    statuses: dict[str, int]
    exit_code: int
    stopped: str = ""
    golds: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def to_arrow(self) -> pa.Table:
        """Return the flat table of answers, a row per question: ``FLAT_ANSWERS`` and the columns carried along."""
        from okralong.pipelines.reporting.export import flat_answers

        return flat_answers(Folder.of(self.run))

    def to_pandas(self) -> Any:
        """Return the flat table as a pandas data frame."""
        return self.to_arrow().to_pandas()

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Rows of the ``failures`` table: id, stage, error_type, message and time."""
        return table(Folder.of(self.run), "failures")

    @property
    def cost(self) -> float:
        """US dollars in the run's ledger; unknown calls count with their reserve."""
        billed = bill(table(Folder.of(self.run), "ledger", COLUMNS))
        return billed.billed_usd + billed.unknown_usd

    def show(self, query_id: str | None = None) -> None:
        """Print the run, or how one question was answered, as ``okralong show`` does."""
        from okralong.jobs.show import command

        command(self.run, query_id)

    def _repr_html_(self) -> str:
        """Return the first answers as a table, for notebooks."""
        columns = ["query_id", "question", "answer", "status", "section", "doc_id", "replied_by", "cost_usd"]
        held = self.to_arrow().select(columns).slice(0, ROWS_IN_NOTEBOOK).to_pandas()
        return f"<p>{html.escape(self.run)}: {html.escape(str(self.statuses))}</p>{held.to_html(index=False)}"
