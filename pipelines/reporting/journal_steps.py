"""What the journal says of each question, shortened row by row: a long run's journal does not fit into memory."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from okralong.pipelines.core.schemas import JOURNAL
from okralong.pipelines.core.storage import Folder
from okralong.pipelines.core.types import ArchiveError
from okralong.pipelines.llm.journal import ROW_KEYS, PartedTable
from okralong.pipelines.reporting.pack import compact
from okralong.pipelines.reporting.steps import step_of

READ_TRIES: Final = 50
_ROWS_AT_A_TIME: Final = 256
_COLUMNS: Final = ["seq", "query_id", "path", "kind", "body"]


def journal_steps(run: Folder, wanted: frozenset[str]) -> dict[str, str]:
    """The steps of each of the ``wanted`` questions in the order of the journal, as a JSON array.

    A run that goes on may merge its files meanwhile; they are then read again. Raises ArchiveError when they never
    hold still.
    """
    for _ in range(READ_TRIES):
        try:
            return _read(run, wanted)
        except FileNotFoundError:
            continue
    raise ArchiveError(f"The files of {run.path}/journal were replaced while they were read. Try again.")


def _read(run: Folder, wanted: frozenset[str]) -> dict[str, str]:
    found: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for part in PartedTable(run.at("journal"), JOURNAL, ROW_KEYS["journal"], writer=False).batches(_COLUMNS):
        for batch in part.to_batches(max_chunksize=_ROWS_AT_A_TIME):
            for row in batch.to_pylist():
                if row["query_id"] in wanted:
                    step = step_of(row["path"], row["kind"], row["body"])
                    if step is not None:
                        found[row["query_id"]][row["seq"]] = compact(step)
    return {query_id: f"[{','.join(steps[seq] for seq in sorted(steps))}]" for query_id, steps in found.items()}
